"""Whole Apex scripts: which files they are, what speaks against native AMP, and their edits."""
