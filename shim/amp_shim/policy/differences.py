"""How two policies differ, operator by operator.

>>> from amp_shim.policy import NATIVE_CUDA
>>> print(table(NATIVE_CUDA, NATIVE_CUDA.with_float("gelu"), "native", "mine"))
operator  native                         mine
gelu      runs in the types it is given  runs in float32
"""

from __future__ import annotations

from dataclasses import dataclass

from amp_shim.policy.policies import Policy, Treatment


@dataclass(frozen=True)
class Difference:
    """An operator family that two policies treat differently."""

    family: str
    first: Treatment
    second: Treatment


def differences(first: Policy, second: Policy) -> tuple[Difference, ...]:
    """What differs between two policies, by name of the operator."""
    pairs = [(family, first.treatment(family), second.treatment(family)) for family in first.families | second.families]
    return tuple(Difference(*pair) for pair in sorted(pairs, key=lambda pair: pair[0]) if pair[1] is not pair[2])


def table(first: Policy, second: Policy, first_name: str = "first", second_name: str = "second") -> str:
    """The differences as aligned text: a heading with the names of the policies, and a line for each operator."""
    rows = [("operator", first_name, second_name)]
    rows += [(each.family, each.first.phrase, each.second.phrase) for each in differences(first, second)]
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    return "\n".join(f"{row[0]:{widths[0]}}  {row[1]:{widths[1]}}  {row[2]}" for row in rows)
