"""Native autocast regions of float16 code that goes to bfloat16: the dtype they name, or leave to torch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.settings import Dtype
from amp_migrate.steps.draft import Draft
from amp_migrate.steps.native import AUTOCAST
from amp_migrate.trees import build
from amp_migrate.trees.nodes import is_constant
from amp_migrate.trees.sequences import insert_after

_NATIVE = frozenset({"torch.autocast", "torch.amp.autocast", "torch.amp.autocast_mode.autocast"})
_FLOAT16 = frozenset({"torch.float16", "torch.half"})
# What a region may name that needs no scaler; autocast is off where it is not given a dtype of 16 bits.
_UNSCALED = frozenset(f"torch.{name}" for name in ("bfloat16", "float32", "float", "float64", "double"))


@dataclass(frozen=True)
class Region:
    """A call of autocast for CUDA.

    Attributes:
        dtype: the argument that names the dtype; None where torch's default, float16, is meant.
    """

    file: File
    call: cst.Call
    dtype: cst.BaseExpression | None
    is_native: bool

    @property
    def is_float16(self) -> bool:
        return self.dtype is None or self.file.names.full(self.dtype) in _FLOAT16


def cuda_regions(files: Iterable[File]) -> Iterator[Region]:
    """Every call of autocast, old or new, that may run on CUDA."""
    for file in files:
        for call in file.calls:
            full = file.names.callee(call)
            if full not in AUTOCAST or full.startswith("torch.cpu.") or _is_cpu(call):
                continue
            named = {arg.keyword.value: arg.value for arg in call.args if arg.keyword is not None}
            position = 1  # `dtype` is the second parameter of both, old and new
            positional = [arg for arg in call.args if arg.keyword is None and not arg.star]
            dtype = named.get("dtype", positional[position].value if len(positional) > position else None)
            if full in _NATIVE and dtype is None and is_constant(named.get("enabled"), "False"):
                continue  # what is always off has no dtype
            yield Region(file, call, dtype, full in _NATIVE)


def undecided(regions: Iterable[Region]) -> Region | None:
    """A region whose dtype is decided while the script runs, so that a scaler may be needed."""
    for region in regions:
        if region.dtype is not None and region.file.names.full(region.dtype) not in _FLOAT16 | _UNSCALED:
            return region
    return None


def retarget(regions: Iterable[Region], dtype: Dtype, draft_of: Callable[[File], Draft]) -> Iterator[Region]:
    """Let every native region that computes in float16 compute in another dtype; gives those that do now."""
    for region in regions:
        if not region.is_native or not region.is_float16:
            continue  # the rules about names give the deprecated ones their dtype
        draft = draft_of(region.file)
        new = build.expression(draft.dtype(dtype, region.call))
        if region.dtype is None:
            draft.edits.change(region.call, lambda node, new=new: _with_dtype(node, new))  # type: ignore[misc]
        else:
            draft.edits.replace(region.dtype, new)
        yield region


def switch_scalers(
    files: Iterable[File], draft_of: Callable[[File], Draft], is_kept: Callable[[File, cst.Call], bool]
) -> None:
    """Let every scaler whose name stays as it is be on only where the script runs in float16."""
    for file in files:
        for call in file.calls:
            if is_kept(file, call):
                draft = draft_of(file)
                condition = f"{draft.dtype(Dtype.AUTO, call)} == {draft.torch(call)}.float16"
                draft.edits.change(call, lambda node, condition=condition: _enabled_if(node, condition))  # type: ignore[misc]


def switched_off(node: cst.CSTNode) -> cst.CSTNode:
    """A call of GradScaler with `enabled=False`, whatever it said before."""
    return _with_enabled(node, lambda _: cst.Name("False"))


def _enabled_if(node: cst.CSTNode, condition: str) -> cst.CSTNode:
    def both(value: cst.BaseExpression | None) -> cst.BaseExpression:
        wanted = build.expression(condition)
        return (
            wanted if value is None else cst.BooleanOperation(build.grouped(value, cst.Comparison), cst.And(), wanted)
        )

    return _with_enabled(node, both)


def _with_enabled(node: cst.CSTNode, new: Callable[[cst.BaseExpression | None], cst.BaseExpression]) -> cst.CSTNode:
    """A call with a new value for `enabled`, given the old one."""
    assert isinstance(node, cst.Call)
    for index, arg in enumerate(node.args):
        if arg.keyword is not None and arg.keyword.value == "enabled":
            args = [*node.args[:index], arg.with_changes(value=new(arg.value)), *node.args[index + 1 :]]
            return node.with_changes(args=args)
    enabled = build.keyword("enabled", new(None))
    if not node.args:
        return node.with_changes(args=[enabled])
    return node.with_changes(args=insert_after(node.args, len(node.args) - 1, enabled))


def _with_dtype(node: cst.CSTNode, dtype: cst.BaseExpression) -> cst.CSTNode:
    assert isinstance(node, cst.Call)
    args = list(node.args)
    place = next((index for index, arg in enumerate(args) if _names_device(arg, index)), len(args) - 1)
    comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    new = build.keyword("dtype", dtype).with_changes(comma=args[place].comma)
    return node.with_changes(args=[*args[:place], args[place].with_changes(comma=comma), new, *args[place + 1 :]])


def _names_device(arg: cst.Arg, index: int) -> bool:
    return arg.keyword.value == "device_type" if arg.keyword is not None else index == 0


def _is_cpu(call: cst.Call) -> bool:
    """Whether the call names the CPU as its device, in so many words."""
    for index, arg in enumerate(call.args):
        if _names_device(arg, index) and isinstance(arg.value, cst.SimpleString):
            return arg.value.evaluated_value == "cpu"
    return False
