"""What runs inside the user's process: standard library and torch, and `amp_shim` for the stand-in and Apex scripts.

The harness never edits a script. It puts `bootstrap/` first on PYTHONPATH, so that Python imports its `sitecustomize`
at start-up; that loads this package under a private name and waits for `import torch`.
"""
