"""The options of a run: one frozen value, made from the command line."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Dtype(str, Enum):
    """The low-precision dtype that migrated code computes in."""

    FP16 = "fp16"  # float16 with a GradScaler: what `torch.cuda.amp` and Apex meant
    BF16 = "bf16"  # bfloat16, which has float32's range and needs no scaler
    AUTO = "auto"  # decided by the migrated script at run time: bfloat16 where the GPU has it


@dataclass(frozen=True)
class Settings:
    """How to migrate.

    Attributes:
        dtype: the low-precision dtype of the emitted regions.
    """

    dtype: Dtype = Dtype.FP16
