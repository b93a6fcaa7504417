"""Which low-precision dtypes autocast has on which device, and since when: data.

Read from `torch/amp/autocast_mode.py` of PyTorch 1.12 to 2.15; for Apple's GPUs, of the macOS wheels of 2.4.1, 2.5.1
and 2.6.0, of which the last also asks for macOS 14 where bfloat16 is wanted. A dtype that a device does not have
switches the region off, with a warning; a device that autocast does not know raises RuntimeError.
"""

from __future__ import annotations

# device -> dtype -> the first PyTorch that has it
AUTOCAST_SINCE: dict[str, dict[str, tuple[int, int]]] = {
    "cpu": {"torch.bfloat16": (1, 12), "torch.float16": (2, 2)},
    "mps": {"torch.float16": (2, 5), "torch.bfloat16": (2, 6)},
}
