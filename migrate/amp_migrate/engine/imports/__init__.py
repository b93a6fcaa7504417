"""Which file imports which, and what it is handed on by that."""
