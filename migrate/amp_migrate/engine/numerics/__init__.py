"""What the analysis of values says of a result, and what becomes of the result for it."""
