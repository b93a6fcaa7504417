"""Where a scaler lives, how it travels to a step, and how it is kept in checkpoints."""
