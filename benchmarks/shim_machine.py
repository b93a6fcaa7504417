"""Where results are kept, and the machine that they were taken on."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import torch

RESULTS = Path(__file__).parent / "results"


def machine(device: str) -> dict[str, object]:
    """What the numbers were taken on."""
    gpu = torch.cuda.get_device_name() if device == "cuda" else None
    return {
        "device": gpu or f"{platform.machine()} CPU, {torch.backends.cpu.get_cpu_capability()}, 1 thread",
        "load": os.getloadavg()[0],
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": platform.platform(),
    }
