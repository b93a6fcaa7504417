"""What `apex.parallel` does: it never depended on `apex.amp`."""

from amp_shim.parallel import *  # noqa: F403
