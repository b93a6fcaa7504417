"""Rules about a scaler itself: where it is made, and what becomes of it in checkpoints."""
