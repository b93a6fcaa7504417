"""float16 code that has AMP already, and goes to another dtype."""
