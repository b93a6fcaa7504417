"""The range of what the script's lines compute in float32: the largest absolute value, and the smallest but zero.

Results count that gradients flow through, and all that modules compute in their forward passes, be it without
gradients, as a codebook, a teacher or an evaluation does; by operation and by the innermost line of the user's code.
Nothing waits for the GPU: extremes stay tensors until they are written.
"""

from __future__ import annotations

import linecache
from collections import Counter
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from ..measure.models import owner
from ..process.place import UsersCode
from ..writer import Writer

_CALL: Any = nn.Module
_PLAIN = (Tensor, nn.Parameter)
_functorch: Any = torch._C._functorch
_OFTEN = 8  # looks at a line in one step that are all made; of further ones, as in a loop over time, one in so many

_Place: TypeAlias = tuple[CodeType, int, str, torch.device]


@dataclass
class _Range:
    largest: Tensor
    smallest: Tensor
    owner: str


class Ranges:
    """Collects the extremes of results."""

    def __init__(self, users: UsersCode) -> None:
        self._users = users
        self._found: dict[_Place, _Range] = {}
        self._looks: Counter[_Place] = Counter()

    def begin(self) -> None:
        """Look at all lines again, in a step that is counted."""
        self._looks.clear()

    def see(self, operation: str, value: Any, *, learned: bool) -> None:
        """Add a result; one that is not float32, or has no values of its own, says nothing.

        `learned`: gradients flow through it.
        """
        if type(value) not in _PLAIN or value.dtype is not torch.float32 or not value.numel() or value.is_meta:
            return
        if value.layout is not torch.strided or _functorch.peek_interpreter_stack() is not None:
            return
        frame = self._users.caller()
        if frame is None or not (learned or _calls_above(frame)):
            return
        key = (frame.f_code, frame.f_lineno, operation, value.device)
        self._looks[key] += 1
        if self._looks[key] > _OFTEN and self._looks[key] % _OFTEN:
            return
        with torch.no_grad():
            size = value.detach().abs()
            largest = torch.where(size < torch.inf, size, 0.0).amax()  # a mask of infinities has no range
            smallest = torch.where(size > 0, size, torch.inf).amin()
            known = self._found.get(key)
            if known is None:
                self._found[key] = _Range(largest, smallest, self._owner(frame))
            else:
                known.largest = torch.maximum(known.largest, largest)
                known.smallest = torch.minimum(known.smallest, smallest)

    def _owner(self, frame: FrameType) -> str:
        """The class that a decorator of its forward would keep in float32; empty for a line of anything else.

        That is a part of a model, or of a loss, that has no parts of its own: a model as a whole is to compute in half
        precision.
        """
        this = frame.f_locals.get("self") if frame.f_code.co_name == "forward" else None
        if not isinstance(this, nn.Module) or hasattr(this, "__iter__") or any(True for _ in this.children()):
            return ""
        is_part = _calls_above(frame) > 1 or not any(True for _ in this.parameters())
        return owner(type(this), self._users) if is_part else ""

    def write(self, writer: Writer) -> None:
        """Write a `range` event for each line and operation."""
        for (code, line, operation, _), found in self._found.items():
            writer.put(
                "range",
                file=code.co_filename,
                line=line,
                text=linecache.getline(code.co_filename, line).strip(),
                operation=operation,
                owner=found.owner,
                largest=found.largest,
                smallest=found.smallest,
            )


def _calls_above(frame: FrameType | None) -> int:
    """How many calls of modules a frame is in."""
    code, count = _CALL._call_impl.__code__, 0
    while frame is not None:
        count += frame.f_code is code
        frame = frame.f_back
    return count
