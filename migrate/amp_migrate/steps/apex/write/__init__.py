"""The edits of an Apex script, once it is decided what it becomes."""
