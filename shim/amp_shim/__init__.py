"""Apex's mixed-precision API and readable cast lists, on today's PyTorch.

    from amp_shim import amp  # in place of `from apex import amp`

or `python -m amp_shim train.py` for a script that nobody may edit. Importing this package patches nothing.
"""
