"""What Accelerate does by itself: it scales losses, and its optimizers step and clear in the last micro-batch only."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import takewhile

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.flow import events as flow
from amp_migrate.flow.domain.atoms import Opaque
from amp_migrate.hazards.seen.course import Event
from amp_migrate.hazards.seen.flowing import Flowing
from amp_migrate.trees.nodes import find

_ACCELERATOR = "accelerate.Accelerator"
_STEPS, _PLUGIN = "gradient_accumulation_steps", "gradient_accumulation_plugin"
_PRECISION = "mixed_precision"
_UNSCALING = ("unscale_gradients", "clip_grad_norm_", "clip_grad_value_")
_LAST = "sync_gradients"  # what tells that this is the last


def accumulating(flowing: Flowing, file: File, event: Event) -> cst.Call | None:
    """The `accelerator.accumulate(...)` in which something is done to a prepared optimizer in each micro-batch."""
    if not (_is_prepared(flowing, event) and _accumulates(flowing)):
        return None
    around = [*takewhile(lambda node: not isinstance(node, cst.FunctionDef), file.tree.ancestors(event.statement))]
    for node in around:
        if isinstance(node, cst.If) and any(each.attr.value == _LAST for each in find(node.test, cst.Attribute)):
            return None
        for item in node.items if isinstance(node, cst.With) else ():
            call = item.item
            if isinstance(call, cst.Call) and flowing.callee_of(file, call) == f"{_ACCELERATOR}.accumulate":
                return call
    return None


def clipping_scaled(flowing: Flowing, file: File) -> Iterator[cst.CSTNode]:
    """Where a function clips gradients of a loss that an accelerator may have scaled, and nothing has unscaled."""
    if not _may_be_float16(flowing):
        return
    questions, order = flowing.questions, file.tree.order
    called = questions.analysis.pytorch.called
    unscaling = [site for site, name in called.items() if name in {f"{_ACCELERATOR}.{each}" for each in _UNSCALING}]
    scaled = [
        event
        for event in questions.events(flow.Act.BACKWARD)
        if called.get(event.site) == f"{_ACCELERATOR}.backward" and not any(map(event.code.has, unscaling))
    ]
    for event in questions.events(flow.Act.CLIP) if scaled else ():
        clip = flowing.interpreted.node_at(file, event.site)
        own = (each for each in scaled if each.code is event.code and each.optimizer & event.optimizer)
        before = [flowing.interpreted.node_at(file, each.site) for each in own]
        if clip is not None and any(each is not None and order[each] < order[clip] for each in before):
            yield clip


def _may_be_float16(flowing: Flowing) -> bool:
    """Whether an accelerator is told to compute in float16, or something that is not in the text."""
    given = [each.value for call in _made(flowing) for each in call.keywords if each.arg == _PRECISION]
    return any(not isinstance(each, ast.Constant) or each.value == "fp16" for each in given)


def _is_prepared(flowing: Flowing, event: Event) -> bool:
    called = flowing.questions.analysis.pytorch.called
    optimizers = (each for known in event.known for each in known.optimizer if isinstance(each, Opaque))
    sites = (each.made_at for each in optimizers)
    return any(site is not None and called.get(site) == f"{_ACCELERATOR}.prepare" for site in sites)


def _accumulates(flowing: Flowing) -> bool:
    """Whether an accelerator is told to take several micro-batches for a step, as far as its arguments are seen."""
    given = {each.arg: each.value for call in _made(flowing) for each in call.keywords}
    steps = given.get(_STEPS)
    is_one = isinstance(steps, ast.Constant) and steps.value == 1
    return not given.keys().isdisjoint({_STEPS, _PLUGIN, None}) and not is_one


def _made(flowing: Flowing) -> Iterator[ast.Call]:
    questions = flowing.questions
    for site, name in questions.analysis.pytorch.called.items():
        node = questions.node_at(site) if name == _ACCELERATOR else None
        if isinstance(node, ast.Call):
            yield node
