"""Reads the training steps of plain float32, and what stands in their way."""
