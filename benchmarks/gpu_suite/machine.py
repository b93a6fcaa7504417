"""What the numbers were taken on."""

from __future__ import annotations

import platform
import subprocess
from datetime import datetime, timezone

import torch


def machine(device: str) -> dict[str, str | None]:
    """GPU, driver, versions and date; a CPU has no driver."""
    cuda = device == "cuda"
    return {
        "gpu": torch.cuda.get_device_name() if cuda else None,
        "driver": _driver() if cuda else None,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
        "system": platform.platform(),
        "date": datetime.now(timezone.utc).date().isoformat(),
    }


def _driver() -> str | None:
    """The driver's version, if `nvidia-smi` is there to say it."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    return told.strip().partition("\n")[0] or None
