"""Apex as a script sees it when mixed precision is off: everything passes through."""
