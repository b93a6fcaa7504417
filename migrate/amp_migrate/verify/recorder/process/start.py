"""Start-up of the recorder, before the script's first line."""

from __future__ import annotations

import os
import sys
from types import ModuleType, TracebackType

from ..apex import apex_amp
from ..force import seeds
from ..spec import RecorderSpec
from ..writer import Writer
from .extensions import build_apart
from .imports import after_import, load_instead, search_first
from .place import UsersCode
from .server import end_with_parent
from .stop import StopRun, be_quiet_in_threads
from .unseen import take


def start(bootstrap: str) -> None:
    """Read the orders and wait for torch; `bootstrap` is the folder that Python has found us by."""
    spec = RecorderSpec.read(take(bootstrap))
    end_with_parent(spec.parent)
    if spec.root:
        search_first(spec.root)
    if spec.instead:
        load_instead(spec.instead)
    seeds.seed_python(spec)
    after_import("numpy.random", lambda module: seeds.wrap_numpy(module, spec))
    apex_amp.answer_imports(spec)
    if spec.extensions:
        after_import("torch.utils.cpp_extension", lambda module: build_apart(module, spec.extensions, spec.copies))
    after_import("torch", lambda module: _on_torch(spec))


def _on_torch(spec: RecorderSpec) -> None:
    from .. import attach  # imports torch, which is loaded by now

    writer = Writer(spec.trace)
    if spec.synthetic:
        after_import("torchvision.datasets", lambda module: _make_up(module, writer))
    users = UsersCode(spec.shim)
    _record_uncaught_exception(writer, users)
    be_quiet_in_threads()
    attach.attach(spec, writer, users)


def _make_up(module: ModuleType, writer: Writer) -> None:
    from ..standin import datasets  # imports numpy

    datasets.install(module, lambda name: writer.put("synthetic", name=name))


def _record_uncaught_exception(writer: Writer, users: UsersCode) -> None:
    show = sys.excepthook

    def record(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if issubclass(kind, StopRun):
            return
        writer.put("exception", type=kind.__name__, message=str(error), place=_place(trace, users))
        show(kind, error, trace)

    sys.excepthook = record


def _place(trace: TracebackType | None, users: UsersCode) -> str:
    """`file:line` of the innermost frame that is the user's own code; empty if there is none."""
    place = ""
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if users.holds(file):
            place = f"{os.path.basename(file)}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place
