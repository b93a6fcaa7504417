"""The training steps of an Apex script, read into the one model of a step."""
