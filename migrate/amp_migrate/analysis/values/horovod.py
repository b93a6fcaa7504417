"""Horovod's optimizer: adds up the gradients of all processes from `backward()` on, and waits for that in `step()`.

Who reads gradients before, as a scaler does, has to wait first: `optimizer.synchronize()`, and then
`with optimizer.skip_synchronize():` around the step.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.trees.nodes import Block
from amp_migrate.trees.own_calls import calls_in

SYNCHRONIZE = (
    "call optimizer.synchronize() behind backward(), and put the step into `with optimizer.skip_synchronize():`"
)
_DISTRIBUTED = "horovod.torch.DistributedOptimizer"


def distributed_optimizers(file: File) -> Iterator[cst.Call]:
    """The calls that make an optimizer one of Horovod, or may: `hvd.DistributedOptimizer(...)` where `hvd = load()`."""
    word = _DISTRIBUTED.rpartition(".")[2]
    for call in file.calls if word in file.tree.text else ():
        name = file.names.callee(call)
        if name == _DISTRIBUTED or (not name and isinstance(call.func, cst.Attribute) and call.func.attr.value == word):
            yield call


def waits(file: File, body: Block) -> Iterator[cst.Call]:
    """The calls of a body after which gradients have been added up: `optimizer.synchronize()`."""
    for _, call in calls_in(body):
        is_method = isinstance(call.func, cst.Attribute) and call.func.attr.value == "synchronize"
        if is_method and not file.names.callee(call).startswith("torch."):
            yield call
