"""What is asked of an analysis that has come to its end, by what it is about."""
