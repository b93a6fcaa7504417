"""Where a value comes from, and what follows from that: that it is floating, or which model it belongs to."""
