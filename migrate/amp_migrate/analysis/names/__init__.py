"""What a name stands for where it is written."""
