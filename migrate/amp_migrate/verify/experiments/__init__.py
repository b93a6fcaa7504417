"""Which runs are made, in which order, until a question is answered."""
