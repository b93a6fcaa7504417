"""What the tool says: one model of a finding, and the forms it is shown in."""
