"""What becomes of gradients: read, clipped, penalised, stepped on."""
