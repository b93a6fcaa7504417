"""Which files a run is about: what was named, what is chosen, and what of it can matter."""
