"""The scaler's own way as code: where it is made, and every parameter and argument it travels through."""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.settings import Dtype
from amp_migrate.steps.draft import Draft
from amp_migrate.steps.ways import Creation, NewArgument, NewParameter, Ways
from amp_migrate.trees import build
from amp_migrate.trees.nodes import Statement
from amp_migrate.trees.sequences import insert_after


def write_ways(
    ways: Ways, draft_of: Callable[[File], Draft], dtype: Dtype, replaced: dict[Statement, tuple[str, ...]]
) -> None:
    """Write all that gets scalers to their steps.

    Args:
        replaced: statements whose place a new scaler takes (Apex's `initialize`), each with the arguments it gets.
    """
    for creation in ways.creations.values():
        _write_creation(draft_of(creation.file), creation, dtype, replaced.get(creation.home))
    for parameter in ways.parameters.values():
        _write_parameter(draft_of(parameter.function.file), parameter)
    for argument in ways.arguments.values():
        write_argument(draft_of(argument.site.file), argument)


def _write_creation(draft: Draft, creation: Creation, dtype: Dtype, replacing: tuple[str, ...] | None) -> None:
    arguments = [*(replacing or ()), *creation.arguments]
    conditions = [] if creation.enabled is None else [creation.enabled]
    if dtype is Dtype.AUTO:
        conditions.append(f"{draft.dtype(dtype, creation.home)} == {draft.torch(creation.home)}.float16")
    if conditions:
        arguments.append(f"enabled={' and '.join(conditions)}")
    line = draft.line(f"{creation.target} = {draft.new_scaler(creation.home, *arguments)}")
    if replacing is not None:
        draft.edits.substitute(creation.home, line)
    elif creation.before:
        draft.edits.before(creation.home, line)
    else:
        draft.edits.after(creation.home, line)


def _write_parameter(draft: Draft, new: NewParameter) -> None:
    def insert(node: cst.CSTNode) -> cst.CSTNode:
        assert isinstance(node, cst.Parameters)
        for group in ("posonly_params", "params", "kwonly_params"):
            params: list[cst.Param] = list(getattr(node, group))
            for index, param in enumerate(params):
                if param.name.value == new.after:
                    added = cst.Param(cst.Name(new.name))
                    if param.annotation is not None:
                        scaler = build.expression(draft.amp("GradScaler", new.function.node))
                        added = added.with_changes(annotation=cst.Annotation(scaler))
                    if param.default is not None:
                        added = added.with_changes(default=cst.Name("None"), equal=param.equal)
                    return node.with_changes(
                        **{group: insert_after(params, index, added, new.function.node.whitespace_before_params)}
                    )
        raise AssertionError(f"no parameter {new.after}")

    draft.edits.change(new.function.node.params, insert)


def write_argument(draft: Draft, new: NewArgument) -> None:
    """Write an argument into a call."""
    value = build.expression(new.value)
    added = build.keyword(new.name, value) if new.by_keyword else cst.Arg(value)

    def insert(node: cst.CSTNode) -> cst.CSTNode:
        assert isinstance(node, cst.Call)
        if not node.args:
            return node.with_changes(args=[added])
        return node.with_changes(args=insert_after(node.args, new.after, added, node.whitespace_before_args))

    draft.edits.change(new.site.call, insert)
