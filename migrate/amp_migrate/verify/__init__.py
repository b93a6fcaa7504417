"""The harness: run a training script before and after its migration, and say whether it still trains the same."""
