"""What a run forces upon a script."""
