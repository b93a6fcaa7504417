"""The command `amp-migrate`: its options and settings, and what it does with files."""
