"""Old names in strings: annotations in quotes, which are code, and `getattr`, which nobody can follow any further."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.report.rule import Rule
from amp_migrate.rules.places import names_a_type
from amp_migrate.rules.rule import Rename, all_renames
from amp_migrate.trees.edits import Change

_CHAIN = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")


def quoted_types(file: File) -> Iterator[tuple[cst.SimpleString, str, Rule, Rename]]:
    """The annotations in quotes that name an old type through torch itself: the string, the old chain, its rename."""
    renames = all_renames()
    for node in file.tree.order:
        if not isinstance(node, cst.SimpleString) or not names_a_type(file.tree, node):
            continue
        for chain in _CHAIN.findall(node.raw_value):
            head, _, rest = chain.partition(".")
            bindings = file.scopes.of(node).lookup(head)
            found = renames.get(f"torch.{rest}")
            if found is not None and found[1].is_type and {each.imported for each in bindings} == {"torch"}:
                yield node, chain, *found


def names_by_getattr(file: File) -> Iterator[tuple[cst.Call, Rule, Rename]]:
    """The calls `getattr(torch.cuda.amp, "autocast")`, with the rename of what they get."""
    for call in file.calls:
        if not isinstance(call.func, cst.Name) or call.func.value != "getattr" or len(call.args) < 2:
            continue
        name = call.args[1].value
        if isinstance(name, cst.SimpleString):
            found = all_renames().get(f"{file.names.full(call.args[0].value)}.{name.raw_value}")
            if found is not None:
                yield call, *found


def with_new_name(old: str, new: str) -> Change:
    """The change of a string that writes one chain of names in the place of another."""

    def change(node: cst.CSTNode) -> cst.CSTNode:
        assert isinstance(node, cst.SimpleString)
        return node.with_changes(value=re.sub(rf"(?<![\w.]){re.escape(old)}(?!\w)", lambda _: new, node.value))

    return change
