"""What the runs say: every check is a pure function of what was recorded."""
