"""LibCST trees: walking one with parents known, and changing one in a single pass.

This layer knows syntax only. What names mean is `amp_migrate.analysis`; what to change is `amp_migrate.steps` and
`amp_migrate.rules`.
"""
