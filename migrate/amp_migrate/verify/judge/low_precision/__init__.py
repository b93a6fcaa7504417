"""What low precision itself does in a run: how much of it there is, and what it loses."""
