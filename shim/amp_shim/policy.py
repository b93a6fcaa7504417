"""Mixed-precision policies: which operator runs in half, in float32, in the widest type, or not at all.

    >>> from amp_shim.policy import NATIVE_CUDA, Treatment
    >>> NATIVE_CUDA.treatment("softmax") is Treatment.FLOAT_KEEP_DTYPE
    True
    >>> NATIVE_CUDA.with_float("gelu").treatment("gelu") is Treatment.FLOAT
    True

A policy is data; `amp_shim.dispatch.enforce` puts one into force.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from enum import Enum

import torch

from amp_shim import op_lists


class Treatment(Enum):
    """What an autocast region does with the floating arguments of an operator. Values name the fields of `Policy`."""

    HALF = "half"
    FLOAT = "float"
    FLOAT_KEEP_DTYPE = "float_keep_dtype"
    PROMOTE = "promote"
    BANNED = "banned"
    BANNED_HALF = "banned_half"
    NATURAL = "natural"


@dataclass(frozen=True)
class Policy:
    """Op lists by aten operator family (`"linear"`, not `"linear.default"`), each family in one list at most.

    half: cast to the region's dtype. float: cast to float32. float_keep_dtype: float32, unless the caller passes
    `dtype=`. promote: cast to the widest floating type among the arguments. banned: raise RuntimeError.
    banned_half: raise NotImplementedError if an argument is half, else run naturally. Every other operator runs
    naturally, at the types it is given. float64 tensors and tensors on other devices are never cast.

    Raises ValueError for a family that stands in two lists.
    """

    half: frozenset[str]
    float: frozenset[str]
    float_keep_dtype: frozenset[str]
    promote: frozenset[str]
    banned: frozenset[str]
    banned_half: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        seen: dict[str, str] = {}
        for field in fields(self):
            for family in getattr(self, field.name):
                if family in seen:
                    raise ValueError(f"policy: {family!r} is in both {seen[family]!r} and {field.name!r}; keep one")
                seen[family] = field.name

    @property
    def families(self) -> frozenset[str]:
        """Every family that the policy treats in a way of its own."""
        return frozenset().union(*(getattr(self, field.name) for field in fields(self)))

    def treatment(self, family: str) -> Treatment:
        """How the policy treats an operator family; NATURAL for one that it does not list."""
        for field in fields(self):
            if family in getattr(self, field.name):
                return Treatment(field.name)
        return Treatment.NATURAL

    def with_half(self, *families: str) -> Policy:
        """This policy with the families cast to the region's dtype."""
        return self._moved(families, Treatment.HALF)

    def with_float(self, *families: str) -> Policy:
        """This policy with the families cast to float32."""
        return self._moved(families, Treatment.FLOAT)

    def with_promote(self, *families: str) -> Policy:
        """This policy with the families run in their widest argument type."""
        return self._moved(families, Treatment.PROMOTE)

    def with_banned_half(self, *families: str) -> Policy:
        """This policy with the families refused on half arguments and natural on others."""
        return self._moved(families, Treatment.BANNED_HALF)

    def with_natural(self, *families: str) -> Policy:
        """This policy with the families left alone: they run at the types they are given."""
        return self._moved(families, Treatment.NATURAL)

    def _moved(self, families: Iterable[str], to: Treatment) -> Policy:
        moved = frozenset(families)
        lists = {field.name: getattr(self, field.name) - moved for field in fields(self)}
        if to is not Treatment.NATURAL:
            lists[to.value] |= moved
        return replace(self, **lists)


def registered_operators(dispatch_key: str) -> frozenset[str]:
    """Full names (`aten::softmax.int`) of the aten operators with a kernel of their own at a dispatch key."""
    names: Iterable[str] = torch._C._dispatch_get_registrations_for_dispatch_key(dispatch_key)
    return frozenset(name for name in names if name.startswith("aten::"))


def family_of(operator: str) -> str:
    """`softmax` for `aten::softmax.int`."""
    return operator.removeprefix("aten::").split(".")[0]


def _native_cuda() -> Policy:
    # The kernels are part of every build, CUDA or not, so the installed version itself says what it lists.
    installed = frozenset(map(family_of, registered_operators("AutocastCUDA")))
    return Policy(
        half=op_lists.HALF & installed,
        float=op_lists.FLOAT & installed,
        float_keep_dtype=op_lists.FLOAT_KEEP_DTYPE & installed,
        promote=op_lists.PROMOTE & installed,
        banned=op_lists.BANNED & installed,
    )


NATIVE_CUDA = _native_cuda()
"""What `torch.autocast("cuda")` does on the installed PyTorch."""

APEX_O1 = NATIVE_CUDA.with_float("std", "var", "gelu", "grid_sampler", "ctc_loss").with_banned_half(
    "binary_cross_entropy"
)
"""Apex's O1 lists, as far as they differ from native autocast by operator."""
