"""Old names in strings: annotations in quotes, which are code, and `getattr`, which nobody can follow any further."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.catalog.rule import Rule
from amp_migrate.plan.code import Code, Need
from amp_migrate.renames.find.surroundings import names_a_type
from amp_migrate.renames.rename import Rename, all_renames
from amp_migrate.write.editor import Editor

_CHAIN = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")


def quoted_types(file: File) -> Iterator[tuple[cst.SimpleString, str, Rule, Rename]]:
    """The annotations in quotes that name an old type through torch itself: the string, the old chain, its rename."""
    for node in file.tree.every(cst.SimpleString):
        if names_a_type(file.tree, node):
            yield from ((node, *found) for found in old_types_in(file, node, node.raw_value))


def old_types_in(file: File, at: cst.CSTNode, text: str) -> Iterator[tuple[str, Rule, Rename]]:
    """The old types that a text names through torch itself, read where `at` is: the chain of names, its rename."""
    renames = all_renames()
    for chain in dict.fromkeys(_CHAIN.findall(text)):
        head, _, rest = chain.partition(".")
        bindings = file.scopes.of(at).lookup(head)
        found = renames.get(f"torch.{rest}")
        if found is not None and found[1].is_type and {each.imported for each in bindings} == {"torch"}:
            yield chain, *found


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


def patched_names(file: File) -> Iterator[tuple[cst.Call, Rule, Rename]]:
    """The calls `mock.patch("torch.cuda.amp.autocast")` and their like, with the rename of what they replace."""
    for call in file.calls:
        last = call.func.attr if isinstance(call.func, cst.Attribute) else call.func
        is_patch = isinstance(last, cst.Name) and last.value in ("patch", "setattr") and bool(call.args)
        name = call.args[0].value if is_patch else None
        found = all_renames().get(name.raw_value) if isinstance(name, cst.SimpleString) else None
        if found is not None:
            yield call, *found


def with_new_names(editor: Editor, text: str, at: cst.CSTNode, renames: Iterable[tuple[str, Rename]]) -> Code:
    """A text with the new chains of names wherever whole chains of it are the old ones."""
    needs: frozenset[Need] = frozenset()
    for chain, rename in renames:
        new = editor.amp(rename.new.rpartition(".")[2], at)
        text = re.sub(rf"(?<![\w.]){re.escape(chain)}(?!\w)", lambda _, new=new: str(new), text)  # type: ignore[misc]
        needs |= new.needs
    return Code((text,), needs)
