"""What can be told from noise: losses and norms, whole trainings, times."""
