"""What is asked of results before they are written, and what is done about the answers."""
