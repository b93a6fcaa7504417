"""Runs as programs: what is to be the same with mixed precision off, to the bit."""
