"""Edits in words, for those who want to know what a plan does and which rule asks for it."""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from amp_migrate.plan.code import Definition, Need
from amp_migrate.plan.edit import (
    AddArgument,
    AddDecorator,
    AddEntry,
    AddParameter,
    After,
    Annotate,
    Before,
    Cast,
    DropBranch,
    DropDecorator,
    Edit,
    NewArguments,
    NewLine,
    Recomment,
    Reimport,
    Remove,
    Replace,
    SetKeyword,
    Splice,
    Substitute,
    Wrap,
)


def described(edit: Edit) -> str:
    """`train.py:11:5: AMP501 replace: loss -> scaler.scale(loss)`, and what that needs at the top of the file."""
    line, column = edit.tree.position(edit.node)
    needs = ", ".join(_need(each) for each in sorted(edit.needs, key=lambda need: need.name))
    return f"{edit.tree.name}:{line}:{column}: {edit.rule} {_what(edit)}" + (f" (needs {needs})" if needs else "")


def _what(edit: Edit) -> str:
    old = edit.tree.quote(edit.node)
    match edit.change:
        case Replace(new) | Cast(new):
            return f"{edit.kind.lower()}: {old} -> {_flat(str(new))}"
        case NewArguments(given):
            return f"arguments of {old} -> ({', '.join(_flat(str(each.code)) for each in given)})"
        case AddArgument(value, keyword):
            return f"argument of {old}: {_assigned(keyword, str(value))}"
        case SetKeyword(keyword):
            return f"by keyword: {old} -> {keyword}="
        case AddParameter(name, _, annotation, default):
            written = name if annotation is None else f"{name}: {annotation}"
            return f"parameter of {_head(edit)}: {written if default is None else f'{written} = {default}'}"
        case AddEntry(key, value):
            return f"entry of {old}: {key}: {_flat(str(value))}"
        case Remove():
            return f"remove: {old}"
        case AddDecorator(new):
            return f"decorator of {_head(edit)}: @{_flat(str(new))}"
        case DropDecorator(decorator):
            return f"drop decorator of {_head(edit)}: {edit.tree.quote(decorator)}"
        case Before(lines) | After(lines):
            return f"{edit.kind.lower()} {_head(edit)}: {_lines(lines)}"
        case Substitute(lines):
            return f"replace: {_head(edit)} -> {_lines(lines)}" if lines else f"remove: {_head(edit)}"
        case Splice(block):
            return f"unfold: {_head(edit)} -> its block at line {edit.tree.position(block.body[0])[0]}"
        case Wrap(last, context, tail, head):
            end = edit.tree.position(last)[0]
            also = f", and {_lines((*head, *tail))}" if head or tail else ""
            return f"wrap: lines {edit.line} to {end} into with {_flat(str(context))}{also}"
        case DropBranch():
            return f"drop branch: {_head(edit)}"
        case Annotate(comment):
            return f"comment above {_head(edit)}: {comment}"
        case Recomment(comment, new):
            return f"comment: {comment.value} -> {new}"
        case Reimport(items, module):
            names = ", ".join(map(str, items)) or "*"
            return f"import: {old} -> {names}" + ("" if module is None else f" from {module}")


def _need(need: Need) -> str:
    return f"{need.name} = ..." if isinstance(need, Definition) else f"import {need.name}"


def _assigned(keyword: str, value: str) -> str:
    return f"{keyword}={_flat(value)}" if keyword else _flat(value)


def _lines(lines: Iterable[NewLine]) -> str:
    return "; ".join(_flat(str(line)) for line in lines)


def _head(edit: Edit) -> str:
    """The first line of a statement."""
    node = edit.node
    bare = node.with_changes(leading_lines=()) if isinstance(node, cst.BaseCompoundStatement) else node
    return edit.tree.code(bare).strip().partition("\n")[0].rstrip(":")


def _flat(code: str) -> str:
    return " ".join(code.split())
