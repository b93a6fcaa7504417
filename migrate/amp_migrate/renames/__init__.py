"""Old names of `torch.cuda.amp` and its like, which only change their spelling: one file per rule."""
