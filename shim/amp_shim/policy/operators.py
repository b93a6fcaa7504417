"""Operator families: `linear` for `aten::linear`, `mylib::scan` for an operator that a library registered."""

from __future__ import annotations

import torch


def has_operator(family: str) -> bool:
    """Whether this process knows an operator of that name."""
    namespace, name = split(family)
    return hasattr(getattr(torch.ops, namespace), name)


def split(family: str) -> tuple[str, str]:
    """Namespace and name of a family; a name alone is PyTorch's own."""
    namespace, _, name = family.rpartition("::")
    return namespace or "aten", name


def entry_points(family: str) -> tuple[torch._ops.OpOverload, ...]:
    """The overloads through which a family is called: functional ones, on positional dimensions.

    Overloads with an `out_dtype` are left out, as in PyTorch's own lists: their caller has chosen the types.
    """
    namespace, name = split(family)
    packet = getattr(getattr(torch.ops, namespace), name)
    overloads = (getattr(packet, overload) for overload in packet.overloads())
    return tuple(op for op in overloads if _is_functional(op) and op._overloadname != "dtype")


def full_name(op: torch._ops.OpOverload) -> str:
    """`aten::softmax.int`"""
    schema = op._schema
    return f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name


def family_of(operator: str) -> str:
    """`softmax` for `aten::softmax.int`, `mylib::scan` for `mylib::scan`."""
    return operator.removeprefix("aten::").split(".")[0]


def registered_operators(dispatch_key: str) -> frozenset[str]:
    """Full names (`aten::softmax.int`) of the aten operators with a kernel of their own at a dispatch key."""
    names: list[str] = torch._C._dispatch_get_registrations_for_dispatch_key(dispatch_key)
    return frozenset(name for name in names if name.startswith("aten::"))


def _is_functional(op: torch._ops.OpOverload) -> bool:
    schema = op._schema
    return not schema.is_mutable and all("Dimname" not in str(argument.type) for argument in schema.arguments)
