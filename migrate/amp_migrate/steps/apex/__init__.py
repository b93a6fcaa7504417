"""Apex scripts: what they say to `apex.amp`, and what becomes of them and of the rest of Apex."""
