"""The forms of a report: one file for each, and what only they need."""
