"""What becomes of the old names of a file, and of those that files take from one another."""
