"""Old names in strings: annotations in quotes, which are code, and `getattr`, which nobody can follow any further."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.rules.places import names_a_type
from amp_migrate.rules.rule import Rename
from amp_migrate.trees.edits import Change

_CHAIN = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")


def quoted_types(file: File, renames: Mapping[str, Rename]) -> Iterator[tuple[cst.SimpleString, str, Rename]]:
    """The annotations in quotes that name an old type through torch itself: the string, the old chain, its rename."""
    for node in file.tree.order:
        if not isinstance(node, cst.SimpleString) or not names_a_type(file.tree, node):
            continue
        for chain in _CHAIN.findall(node.raw_value):
            head, _, rest = chain.partition(".")
            bindings = file.scopes.of(node).lookup(head)
            rename = renames.get(f"torch.{rest}")
            if rename is not None and rename.is_type and {each.imported for each in bindings} == {"torch"}:
                yield node, chain, rename


def names_by_getattr(file: File, renames: Mapping[str, Rename]) -> Iterator[tuple[cst.Call, Rename]]:
    """The calls `getattr(torch.cuda.amp, "autocast")`."""
    for call in file.calls:
        if not isinstance(call.func, cst.Name) or call.func.value != "getattr" or len(call.args) < 2:
            continue
        name = call.args[1].value
        if isinstance(name, cst.SimpleString):
            rename = renames.get(f"{file.names.full(call.args[0].value)}.{name.raw_value}")
            if rename is not None:
                yield call, rename


def with_new_name(old: str, new: str) -> Change:
    """The change of a string that writes one chain of names in the place of another."""

    def change(node: cst.CSTNode) -> cst.CSTNode:
        assert isinstance(node, cst.SimpleString)
        return node.with_changes(value=re.sub(rf"(?<![\w.]){re.escape(old)}(?!\w)", lambda _: new, node.value))

    return change
