"""Rules about numbers that low precision does not have."""
