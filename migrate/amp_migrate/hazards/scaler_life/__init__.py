"""Rules about a scaler itself: where it is made, what it has to step on, and what becomes of it in checkpoints."""
