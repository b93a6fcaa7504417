"""Jupyter notebooks: their code as one module, and back into their JSON."""
