"""LibCST trees: walking one with parents and places known.

This layer knows syntax only. What names mean is `amp_migrate.analysis`; how a tree is changed is `amp_migrate.write`.
"""
