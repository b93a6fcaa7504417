"""Mixed-precision policies: which operator runs in half, in float32, in the widest type, or not at all.

    >>> from amp_shim.policy import NATIVE_CUDA, Treatment
    >>> NATIVE_CUDA.treatment("softmax") is Treatment.FLOAT_KEEP_DTYPE
    True
    >>> NATIVE_CUDA.with_float("gelu").treatment("gelu") is Treatment.FLOAT
    True

A policy is data; `amp_shim.policy.dispatch` puts one into force, for a region or for the whole process.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from enum import Enum

from amp_shim.policy import op_lists
from amp_shim.policy.operators import entry_points, family_of, full_name, has_operator, registered_operators


class Treatment(Enum):
    """What an autocast region does with the floating arguments of an operator. Values name the fields of `Policy`."""

    HALF = "half"
    FLOAT = "float"
    FLOAT_KEEP_DTYPE = "float_keep_dtype"
    PROMOTE = "promote"
    BANNED = "banned"
    BANNED_HALF = "banned_half"
    NATURAL = "natural"

    @property
    def phrase(self) -> str:
        """What happens to the operator, in words."""
        return _PHRASES[self]


_PHRASES = {
    Treatment.HALF: "runs in the region's dtype",
    Treatment.FLOAT: "runs in float32",
    Treatment.FLOAT_KEEP_DTYPE: "runs in float32, unless the caller names a dtype",
    Treatment.PROMOTE: "runs in the widest type among its arguments",
    Treatment.BANNED: "raises RuntimeError",
    Treatment.BANNED_HALF: "raises NotImplementedError on half arguments",
    Treatment.NATURAL: "runs in the types it is given",
}


@dataclass(frozen=True)
class Policy:
    """Op lists by operator family, each family in one list at most.

    A family is named `"linear"`, not `"linear.default"`, and an operator of a C++, Triton or Python library
    `"mylib::scan"`.

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

    def with_banned(self, *families: str) -> Policy:
        """This policy with the families refused."""
        return self._moved(families, Treatment.BANNED)

    def with_banned_half(self, *families: str) -> Policy:
        """This policy with the families refused on half arguments and natural on others."""
        return self._moved(families, Treatment.BANNED_HALF)

    def with_natural(self, *families: str) -> Policy:
        """This policy with the families left alone: they run at the types they are given."""
        return self._moved(families, Treatment.NATURAL)

    def explain(self, family: str) -> str:
        """What the policy does with an operator, through which entry points, and what native autocast does.

        Raises ValueError for an operator that PyTorch does not know.
        """
        if not has_operator(family):
            near = get_close_matches(family, self.families | NATIVE_CUDA.families, 1)
            raise ValueError(f"no operator {family!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
        here, native = self.treatment(family), NATIVE_CUDA.treatment(family)
        names = ", ".join(map(full_name, entry_points(family)))
        same = "the same" if here is native else native.phrase
        return f"{family} {here.phrase}\nentry points: {names}\nnative CUDA autocast: {same}"

    def _moved(self, families: Iterable[str], to: Treatment) -> Policy:
        moved = frozenset(families)
        lists = {field.name: getattr(self, field.name) - moved for field in fields(self)}
        if to is not Treatment.NATURAL:
            lists[to.value] |= moved
        return replace(self, **lists)


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
