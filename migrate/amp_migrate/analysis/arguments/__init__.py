"""What is passed for a parameter: by callers, and from the command line."""
