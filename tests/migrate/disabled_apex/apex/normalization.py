"""What `apex.normalization` computes: it never depended on `apex.amp`."""

from amp_shim.normalization import *  # noqa: F403
