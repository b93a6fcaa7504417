"""Processes and folders: how a script is run, and how many at a time."""
