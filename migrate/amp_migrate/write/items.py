"""Items of calls, parameters and displays as edits want them, in the layout that their list has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import libcst as cst

from amp_migrate.plan.code import Code
from amp_migrate.plan.edit import (
    AddArgument,
    AddEntry,
    AddParameter,
    Change,
    Edit,
    Given,
    NewArguments,
    Remove,
    SetKeyword,
)
from amp_migrate.trees import build
from amp_migrate.write.sequences import insert_after, laid_out, remove_at

# An item of a list; one list has items of one type.
AnyItem: TypeAlias = Any
Expression = Callable[[Code], cst.BaseExpression]
_LISTS = {
    cst.Call: ("args",),
    cst.ClassDef: ("bases", "keywords"),
    cst.Parameters: ("posonly_params", "params", "kwonly_params"),
    cst.Dict: ("elements",),
    cst.List: ("elements",),
    cst.Tuple: ("elements",),
    cst.Set: ("elements",),
    cst.With: ("items",),
}


def with_items(
    original: cst.CSTNode, updated: cst.CSTNode, edits: Sequence[Edit], expression: Expression, around: cst.CSTNode
) -> cst.CSTNode:
    """A node with its lists changed.

    Args:
        original: the node as it was read.
        updated: the node with what is inside it changed.
        edits: those of it and of its items.
        expression: makes the tree of new code.
        around: what the node stands in: a list of parameters has no brackets of its own.
    """
    for name in next(names for kind, names in _LISTS.items() if isinstance(original, kind)):
        olds: list[cst.CSTNode | None] = list(getattr(original, name))
        items = _Items(olds, list(getattr(updated, name)), _opening(updated, around), expression)
        before = list(items.news)
        for each in sorted(edits, key=lambda edit: isinstance(edit.change, Remove)):  # what is new may stand behind it
            items.change(each.node, each.change, is_last_list=name == _last_list(original))
        if items.news != before:
            updated = updated.with_changes(**{name: items.news})
    return updated


class _Items:
    """One list while it is changed: the items as they were, None for new ones, beside what they are."""

    def __init__(
        self,
        olds: list[cst.CSTNode | None],
        news: list[AnyItem],
        opening: cst.BaseParenthesizableWhitespace | None,
        expression: Expression,
    ) -> None:
        self.olds = olds
        self.news = news
        self._opening = opening
        self._expression = expression

    def change(self, node: cst.CSTNode, change: Change, *, is_last_list: bool) -> None:
        """Make one change, if it is of this list."""
        match change:
            case Remove() if node in self.olds:
                index = self.olds.index(node)
                self.news = remove_at(self.news, index)
                del self.olds[index]
            case SetKeyword(keyword) if node in self.olds:
                index = self.olds.index(node)
                self.news[index] = _with_keyword(self.news[index], keyword)
            case NewArguments(given):
                self._replace(given)
            case AddArgument(value, keyword, after, first):
                self._insert(self._argument(keyword, value), after, first=first)
            case AddEntry(key, value, after):
                added = after.with_changes(key=build.expression(key), value=self._expression(value))
                self._insert(added, after)
            case AddParameter(_, after) if is_last_list if after is None else after in self.olds:
                self._insert(self._parameter(change), after)

    def _insert(self, new: AnyItem, after: cst.CSTNode | None, *, first: bool = False) -> None:
        if not self.news:
            self.news, self.olds = [new], [None]
            return
        self.news = [_beside_others(each) for each in self.news]
        if first:
            comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
            self.news, self.olds = [new.with_changes(comma=comma), *self.news], [None, *self.olds]
            return
        index = len(self.news) - 1 if after is None else self.olds.index(after)
        self.news = insert_after(self.news, index, new, self._opening)
        self.olds.insert(index + 1, None)

    def _replace(self, given: Sequence[Given]) -> None:
        now = dict(zip(self.olds, self.news, strict=True))
        args: list[tuple[cst.Arg, cst.Arg | None]] = []
        for each in given:
            value = None if each.value is None else self._expression(each.value)
            if each.old is None:
                assert value is not None
                args.append((cst.Arg(value) if each.keyword is None else build.keyword(each.keyword, value), None))
                continue
            old = now[each.old]
            arg = old if each.keyword is None else _with_keyword(old, each.keyword)
            args.append((arg if value is None else arg.with_changes(value=value), old))
        self.news = laid_out(args, self.news)
        self.olds = [each.old for each in given]

    def _argument(self, keyword: str, value: Code) -> AnyItem:
        new = self._expression(value)
        return build.keyword(keyword, new) if keyword else cst.Arg(new)

    def _parameter(self, change: AddParameter) -> AnyItem:
        added = cst.Param(cst.Name(change.name))
        if change.annotation is not None:
            added = added.with_changes(annotation=cst.Annotation(self._expression(change.annotation)))
        if change.default is not None:
            space = cst.SimpleWhitespace(" " if change.annotation is not None else "")
            equal: object = cst.AssignEqual(space, space)
            if isinstance(change.after, cst.Param) and change.after.default is not None:
                equal = change.after.equal
            added = added.with_changes(default=self._expression(change.default), equal=equal)
        return added


def _beside_others(item: AnyItem) -> AnyItem:
    """An item that is not alone: a generator stands without brackets of its own only as the single argument."""
    value = item.value if isinstance(item, cst.Arg) else None
    if not isinstance(value, cst.GeneratorExp) or value.lpar:
        return item
    return item.with_changes(value=build.grouped(value))


def _with_keyword(arg: cst.Arg, name: str) -> cst.Arg:
    """An argument that is given by keyword; one that has a keyword keeps the spaces round its equals sign."""
    keyword = build.keyword(name, arg.value)
    return arg.with_changes(keyword=keyword.keyword, equal=keyword.equal if arg.keyword is None else arg.equal)


def _last_list(original: cst.CSTNode) -> str:
    """The list that a parameter goes to which can be given by its keyword and stands behind all others."""
    if isinstance(original, cst.Parameters):
        return "params" if isinstance(original.star_arg, cst.MaybeSentinel) else "kwonly_params"
    return ""


def _opening(node: cst.CSTNode, around: cst.CSTNode) -> cst.BaseParenthesizableWhitespace | None:
    """The white space behind the opening bracket, which tells how a single item is laid out."""
    if isinstance(node, cst.Call):
        return node.whitespace_before_args
    if isinstance(node, cst.Dict):
        return node.lbrace.whitespace_after
    if isinstance(node, cst.Parameters) and isinstance(around, cst.FunctionDef):
        return around.whitespace_before_params
    return None
