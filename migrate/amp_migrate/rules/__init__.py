"""Rules about names: one file each, holding its `RULE`, what it renames, and how the arguments change.

The files are found by looking into this package; adding a rule edits no other file.
"""
