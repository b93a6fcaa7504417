"""A script's process: how the recorder gets into it, and how it ends."""
