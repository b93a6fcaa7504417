"""What a run does to the disk: files replaced whole, records to undo it by, nothing followed out of the tree."""
