"""The branches that are there for Apex alone.

A script that can also train without Apex says a step twice, in the two branches of `if args.fp16:`. Where both
branches do the same, one of them is enough: the plain one stays, and Apex's is folded away.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import libcst as cst

from amp_migrate.analysis.bindings import dotted
from amp_migrate.analysis.files import File
from amp_migrate.frozen import frozen
from amp_migrate.steps.apex.uses.apex_calls import amp_name
from amp_migrate.steps.apex.uses.apex_guards import is_apex_import
from amp_migrate.steps.model.training_step import Backward
from amp_migrate.trees.nodes import Block, Statement, find, nested_statements, statements

_CLIP_NORM = ("torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad_norm")


Lines: TypeAlias = "frozenset[tuple[str, int]]"


@frozen
class FoldedBranch:
    """An `if` of which only the plain branch stays."""

    statement: cst.If
    dead: Block
    live: Block


def clip_folds(file: File, body: Block, scaled: dict[Statement, Backward], apart: Lines) -> list[FoldedBranch]:
    """The branches of a body that clip Apex's gradients, beside those that clip the same without it.

    Args:
        apart: see `Settings.clipped_apart`.
    """
    choices = (each for each in nested_statements(body) if isinstance(each, cst.If) and _names_amp(file, each))
    folds = (fold_of(file, each, scaled, apart) for each in choices)
    return [fold for fold in folds if fold is not None]


def fold_of(file: File, choice: cst.If, scaled: dict[Statement, Backward], apart: Lines) -> FoldedBranch | None:
    """The fold of an `if` whose branches are the same step with Apex and without; None for any other."""
    if not isinstance(choice.orelse, cst.Else) or file.tree.statement(choice) is not choice:
        return None
    body, other = choice.body, choice.orelse.body
    assert isinstance(body, (cst.IndentedBlock, cst.SimpleStatementSuite))
    assert isinstance(other, (cst.IndentedBlock, cst.SimpleStatementSuite))
    apex_first = _names_amp(file, body) or _goes_backward_wrapped(body, scaled)
    dead, live = (body, other) if apex_first else (other, body)
    if _names_amp(file, live) or _goes_backward_wrapped(live, scaled):
        return None
    if _plain(file, dead, scaled) != _plain(file, live, scaled) or clips_apart(file, choice, apart):
        return None
    return FoldedBranch(choice, dead, live)


def clips_apart(file: File, choice: cst.If, apart: Lines) -> bool:
    """Whether what one branch clips without Apex is not shown to be what Apex's optimizer has.

    Both stay: `unscale_` divides the gradients of no other parameters.
    """
    lines = {line for name, line in apart if name == file.name}
    return bool(lines) and any(file.tree.position(each)[0] in lines for each in find(choice, cst.Call))


def _goes_backward_wrapped(block: Block, scaled: dict[Statement, Backward]) -> bool:
    return any(each in scaled and scaled[each].wrapped for each in statements(block))


def _names_amp(file: File, node: cst.CSTNode) -> bool:
    return any(amp_name(file, call.func) for call in find(node, cst.Call))


def _plain(file: File, block: Block, scaled: dict[Statement, Backward]) -> list[str]:
    """The statements of a branch as text, as they would be without Apex."""
    lines: list[str] = []
    kept = {each for backward in scaled.values() for each in backward.before}
    for statement in statements(block):
        if is_apex_import(file, statement) or _copies_gradients(statement) or statement in kept:
            continue
        backward = scaled.get(statement)
        if backward is not None:
            named = [f"{backward.kept}={_squeezed(file, backward.loss)}"] if backward.kept else []
            loss = cst.Name(backward.kept) if backward.kept else _as_receiver(backward.loss)
            lines += [*named, _squeezed(file, backward.plain(loss))]
            continue
        clip = _clipping(file, statement)
        if clip is not None:
            lines.append("<clip>" + ",".join(_squeezed(file, arg) for arg in clip))
            continue
        code = _squeezed(file, statement)
        for call in find(statement, cst.Call):
            is_master = amp_name(file, call.func) == "master_params"
            is_own = isinstance(call.func, cst.Attribute) and call.func.attr.value == "parameters"
            if is_master or is_own:
                code = code.replace(_squeezed(file, call), "<parameters>")
        lines.append(code)
    return lines


def _as_receiver(loss: cst.BaseExpression) -> cst.BaseExpression:
    """A loss as it stands before `.backward()`."""
    is_long = isinstance(loss, (cst.BinaryOperation, cst.UnaryOperation, cst.IfExp)) and not loss.lpar
    return loss.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()]) if is_long else loss


def _copies_gradients(statement: Statement) -> bool:
    """Whether a statement has a wrapper copy gradients: `optimizer.update_master_grads()`."""
    call = statement.value if isinstance(statement, cst.Expr) else None
    is_method = isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute)
    return is_method and (dotted(cst.ensure_type(call, cst.Call).func) or "").endswith(".update_master_grads")


def _clipping(file: File, statement: Statement) -> Sequence[cst.Arg] | None:
    """What a statement says of clipping beside the parameters, where it does nothing else; None for any other."""
    call = statement.value if isinstance(statement, cst.Expr) else None
    if not isinstance(call, cst.Call):
        return None
    if isinstance(call.func, cst.Attribute) and call.func.attr.value == "clip_master_grads":
        return call.args
    is_norm = file.names.callee(call) in _CLIP_NORM and call.args and call.args[0].keyword is None
    first = call.args[0].value if is_norm else None
    if not isinstance(first, cst.Call):
        return None
    is_own = isinstance(first.func, cst.Attribute) and first.func.attr.value == "parameters"
    return call.args[1:] if is_own or amp_name(file, first.func) == "master_params" else None


def _squeezed(file: File, node: cst.CSTNode) -> str:
    return "".join(file.tree.code(node).split()).rstrip(",;")
