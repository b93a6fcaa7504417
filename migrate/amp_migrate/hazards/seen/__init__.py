"""A script as the rules about hazards see it: regions, scalers, and how each function uses them."""
