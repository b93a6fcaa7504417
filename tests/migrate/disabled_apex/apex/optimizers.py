"""What `apex.optimizers` computes: it never depended on `apex.amp`."""

from amp_shim.optimizers import *  # noqa: F403
