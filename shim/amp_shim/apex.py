"""What `import apex` gives while the shim answers for it."""

from __future__ import annotations

from amp_shim import amp, fp16_utils, normalization, optimizers, parallel

# A package without files: the import system asks `amp_shim.install` for every submodule.
__path__: list[str] = []

__all__ = ["amp", "fp16_utils", "normalization", "optimizers", "parallel"]
