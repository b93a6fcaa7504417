"""From the text of a file to its tree, and what the tree does not keep."""
