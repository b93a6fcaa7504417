"""Move PyTorch training code to `torch.amp`, and prove that it still trains the same.

Importing this package never imports torch: migrating code must work where torch is not installed.
"""

from __future__ import annotations

__version__: str
__all__ = ["__version__"]


def __getattr__(name: str) -> str:
    # Asked for by `--version` alone: reading the metadata takes longer than starting the command.
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("amp-migrate")
    except PackageNotFoundError:  # run from a checkout that was never installed
        return "0+unknown"
