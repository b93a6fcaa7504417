"""What single statements do: what they read, write and change, and signs of AMP in them."""
