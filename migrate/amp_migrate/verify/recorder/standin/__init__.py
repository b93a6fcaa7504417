"""A CPU in the place of a GPU."""
