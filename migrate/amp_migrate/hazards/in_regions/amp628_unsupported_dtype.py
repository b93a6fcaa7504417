"""A region computes in a dtype that autocast does not have on its device, in the PyTorch that the code is for."""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.catalog.rule import Rule, Safety
from amp_migrate.catalog.sources import AMP
from amp_migrate.hazards.seen.autocast_regions import FLOAT16, AutocastRegion
from amp_migrate.hazards.seen.hazard import Hazard
from amp_migrate.hazards.seen.script import Script
from amp_migrate.settings import Dtype
from amp_migrate.tables.autocast_dtypes import AUTOCAST_SINCE
from amp_migrate.tables.signatures import written

RULE = Rule(
    code="AMP628",
    name="unsupported-dtype",
    summary="autocast does not have the region's dtype on its device, in the oldest PyTorch that the code is for",
    example="""
          import torch


          def predict(model, x):
        -     with torch.amp.autocast(device_type="cpu", dtype=torch.float16):
        +     with torch.amp.autocast(device_type="cpu", dtype=torch.bfloat16):
                  return model(x)
        """,
    why=(
        "float16 on the CPU came with PyTorch 2.2, float16 on Apple's GPUs with 2.5, bfloat16 there with 2.6. Before, "
        "PyTorch switches the region off, says so in a warning, and computes in float32; a device that it does not "
        "know at all raises RuntimeError. `--target-torch` says which PyTorch is meant. Whether a CUDA GPU has "
        "bfloat16 is not in the text; `torch.cuda.is_bf16_supported()` knows."
    ),
    sources=(f"{AMP}#autocasting",),
    safety=Safety.MANUAL,
    options=(
        "--target-torch",
        "2.1",
    ),
)
FLOAT16_ONLY = False


def detect(script: Script) -> Iterator[Hazard]:
    """Every region that has such a dtype after this run."""
    target = script.settings.target_torch
    for region in script.regions.values():
        dtype = _dtype(region)
        since = AUTOCAST_SINCE.get(region.device, {})
        if dtype not in since or since[dtype] <= target:
            continue
        yield Hazard(region.call, _fact(region, dtype, since, target), _hint(dtype, since, target))


def _dtype(region: AutocastRegion) -> str:
    if region.becomes is Dtype.BF16:
        return "torch.bfloat16"
    return "torch.float16" if region.dtype in FLOAT16 else region.dtype


def _fact(region: AutocastRegion, dtype: str, since: dict[str, tuple[int, int]], target: tuple[int, int]) -> str:
    what = "switches this region off" if min(since.values()) <= target else "raises RuntimeError here"
    return f"PyTorch {written(target)} has no {dtype} under autocast on {region.device}, and {what}"


def _hint(dtype: str, since: dict[str, tuple[int, int]], target: tuple[int, int]) -> str:
    other = next((name for name, first in since.items() if first <= target), None)
    newer = f"require PyTorch {written(since[dtype])} (--target-torch {written(since[dtype])})"
    return newer if other is None else f"compute in {other}, or {newer}"
