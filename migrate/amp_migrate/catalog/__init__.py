"""What is said about the rules: one page each, with an example that is run."""
