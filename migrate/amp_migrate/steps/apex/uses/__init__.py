"""What a script says to `apex.amp` beside its steps, and what stands for it natively."""
