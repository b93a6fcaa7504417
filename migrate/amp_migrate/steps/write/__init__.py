"""The edits of a training step, and of the way of its scaler."""
