"""The options of a run: one frozen value, made from the command line and from pyproject.toml."""

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
        select: the rules to apply, as codes or beginnings of codes (`AMP1` for all of AMP100 to AMP199); none for all.
        ignore: the rules not to apply, in the same way.
    """

    dtype: Dtype = Dtype.FP16
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()

    def applies(self, code: str) -> bool:
        """Whether the rule with this code is wanted: the longer of the codes that match it in both lists decides."""
        selected = max((len(prefix) for prefix in self.select if matches(code, prefix)), default=0)
        ignored = max((len(prefix) for prefix in self.ignore if matches(code, prefix)), default=0)
        return (ignored == 0 and not self.select) or selected > ignored


def matches(code: str, prefix: str) -> bool:
    """Whether `prefix` is a rule's code, or the beginning of one."""
    return bool(prefix) and code.startswith(prefix)
