"""A transfer function for every construct of Python."""
