"""Where a file uses old names, in code, strings and comments."""
