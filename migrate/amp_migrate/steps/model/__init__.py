"""What a training step is, whichever dialect it is written in, and the way of its scaler. Data."""
