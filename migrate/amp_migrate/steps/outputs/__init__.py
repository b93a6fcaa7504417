"""What leaves a region in low precision for where that cannot go."""
