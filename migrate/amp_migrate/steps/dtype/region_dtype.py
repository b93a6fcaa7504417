"""Native autocast regions of float16 code that goes to bfloat16: the dtype they name, or leave to torch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.frozen import frozen
from amp_migrate.plan.code import code, plain
from amp_migrate.plan.edit import AddArgument, Edit
from amp_migrate.settings import Dtype
from amp_migrate.tables.torch_names import AUTOCAST
from amp_migrate.trees.nodes import is_constant, written_string
from amp_migrate.write.editor import Editor

_NATIVE = frozenset({"torch.autocast", "torch.amp.autocast", "torch.amp.autocast_mode.autocast"})
_FLOAT16 = frozenset({"torch.float16", "torch.half"})
# What a region may name that needs no scaler; autocast is off where it is not given a dtype of 16 bits.
_UNSCALED = frozenset(f"torch.{name}" for name in ("bfloat16", "float32", "float", "float64", "double"))


@frozen
class AutocastCall:
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


def cuda_regions(files: Iterable[File]) -> Iterator[AutocastCall]:
    """Every call of autocast, old or new, that may run on CUDA."""
    for file in files:
        for call in file.calls:
            full = file.names.callee(call)
            device = written_string(file.names.argument(call, "device_type"))
            if full not in AUTOCAST or full.startswith("torch.cpu.") or device == "cpu":
                continue
            dtype = file.names.argument(call, "dtype")
            if full in _NATIVE and dtype is None and is_constant(file.names.argument(call, "enabled"), "False"):
                continue  # what is always off has no dtype
            yield AutocastCall(file, call, dtype, full in _NATIVE)


def undecided(regions: Iterable[AutocastCall]) -> AutocastCall | None:
    """A region whose dtype is decided while the script runs, so that a scaler may be needed."""
    for region in regions:
        if region.dtype is not None and region.file.names.full(region.dtype) not in _FLOAT16 | _UNSCALED:
            return region
    return None


def retarget(region: AutocastCall, dtype: Dtype, editor: Editor) -> Edit | None:
    """The edit that lets a native region which computes in float16 compute in another dtype; None for any other."""
    if not region.is_native or not region.is_float16:
        return None  # the rules about names give the deprecated ones their dtype
    editor = editor.of(region.file)
    new = editor.dtype(dtype, region.call)
    if region.dtype is not None:
        return editor.replace(region.dtype, new)
    device = next((arg for index, arg in enumerate(region.call.args) if _names_device(arg, index)), None)
    return editor.edit(region.call, AddArgument(new, "dtype", device))


def switched_off(editor: Editor, call: cst.Call) -> Edit:
    """The edit of a call of GradScaler that says `enabled=False`, whatever it said before."""
    enabled = editor.file.names.argument(call, "enabled")
    if enabled is not None:
        return editor.replace(enabled, "False")
    return editor.edit(call, AddArgument(plain("False"), "enabled"))


def on_in_float16(editor: Editor, call: cst.Call) -> Edit:
    """The edit of a call of GradScaler that lets it be on only where the script runs in float16."""
    enabled, condition = editor.file.names.argument(call, "enabled"), editor.is_float16(call)
    if enabled is not None:
        return editor.replace(enabled, code("{} and {}", enabled, condition))
    return editor.edit(call, AddArgument(condition, "enabled"))


def _names_device(arg: cst.Arg, index: int) -> bool:
    return arg.keyword.value == "device_type" if arg.keyword is not None else index == 0
