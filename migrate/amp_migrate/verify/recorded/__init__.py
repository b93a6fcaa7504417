"""What runs leave behind, read back as plain values."""
