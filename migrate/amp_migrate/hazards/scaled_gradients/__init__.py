"""Rules about the order of a scaler's calls, and about what is done to scaled gradients."""
