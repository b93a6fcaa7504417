"""What computes in low precision: the runs of statements that become autocast regions."""
