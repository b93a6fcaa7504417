"""Where a file uses the names that the rules are about."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.analysis.bindings import Binding, BindingKind
from amp_migrate.analysis.files import File
from amp_migrate.catalog.rule import Rule
from amp_migrate.frozen import frozen
from amp_migrate.renames.old_modules import OLD_PACKAGES
from amp_migrate.renames.rename import Rename, renaming_rules

# `not torch.amp.is_autocast_available("cuda")` asks something else: whether the build knows the device.
_NO_SUCCESSOR = "amp_definitely_not_available"


@frozen
class Use:
    """One use of an old name."""

    node: cst.Name | cst.Attribute
    rule: Rule
    rename: Rename


def find_uses(file: File) -> tuple[list[Use], list[Use]]:
    """The uses of old names: those that mean exactly one, and those that may also mean something else."""
    sure: list[Use] = []
    doubtful: list[Use] = []
    for rule in renaming_rules():
        renames = {rename.old: rename for rename in rule.renames}
        for node in _nodes(file, {old.rpartition(".")[2] for old in renames}):
            if file.tree.is_target(node):
                continue
            meanings = file.names.meanings(node)
            hits = sorted(meanings & set(renames))
            if hits:
                use = Use(node, rule.rule, renames[hits[0]])
                (sure if len(meanings) == 1 else doubtful).append(use)
    order = file.tree.order
    return sorted(sure, key=lambda u: order[u.node]), sorted(doubtful, key=lambda u: order[u.node])


def uses_without_successor(file: File) -> Iterator[tuple[cst.CSTNode, str]]:
    """The uses of what the old module has and the new one has not, with its full name."""
    for node in _nodes(file, {_NO_SUCCESSOR}):
        full = file.names.full(node)
        if full.startswith(OLD_PACKAGES) and full.endswith(f".{_NO_SUCCESSOR}"):
            yield node, full


def _brought(file: File, binding: Binding) -> frozenset[str]:
    return file.names.brought(binding) if binding.kind is BindingKind.IMPORT else frozenset()


def _nodes(file: File, last_words: set[str]) -> Iterator[cst.Name | cst.Attribute]:
    """Names and chains that may end in one of some words, local names of imports included."""
    local = {
        name
        for scope in file.scopes.all()
        for name, bindings in scope.bindings.items()
        if any(full.rpartition(".")[2] in last_words for binding in bindings for full in _brought(file, binding))
    }
    for word in sorted(last_words | local):
        yield from file.uses.get(word, ())
