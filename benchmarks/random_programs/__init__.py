"""Small training programs made up at random, and what becomes of them when they are migrated."""
