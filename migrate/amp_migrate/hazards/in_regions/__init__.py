"""Rules about what runs in an autocast region, and in which dtype."""
