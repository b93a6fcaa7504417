"""Move PyTorch training code to `torch.amp`, and prove that it still trains the same.

Importing this package never imports torch: migrating code must work where torch is not installed.
"""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("amp-migrate")
except PackageNotFoundError:  # run from a checkout that was never installed
    __version__ = "0+unknown"

__all__ = ["__version__"]
