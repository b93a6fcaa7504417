"""Let `import apex` be answered by the shim, for this process.

import amp_shim.install
amp_shim.install.install()
from apex import amp  # amp_shim.amp
"""

from amp_shim.install.finder import install, uninstall

__all__ = ["install", "uninstall"]
