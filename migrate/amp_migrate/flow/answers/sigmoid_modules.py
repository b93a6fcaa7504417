"""Sigmoids that are modules: which of them give what a call gives, and whether another class may stand for them.

What a chain of modules hands to its last one has no name that could be cast.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cached_property

from amp_migrate.flow.analysis import Analysis
from amp_migrate.flow.domain.atoms import NEVER, Atom, Class, External, Obj, Value, one
from amp_migrate.flow.python import containers
from amp_migrate.flow.pytorch.modules import WRAPPERS
from amp_migrate.flow.source import Site
from amp_migrate.syntax import nodes_in
from amp_migrate.tables import operators as table
from amp_migrate.tables.torch_names import SIGMOID_CLASS

_SAVES = re.compile(r"torch\.save$|(pickle|cloudpickle|dill|joblib)\.dumps?$")


class SigmoidModules:
    """Answers about an analysis that keeps the values of all its files.

    Args:
        calls: the call at each place.
    """

    def __init__(self, analysis: Analysis, calls: Mapping[Site, ast.Call]) -> None:
        self._analysis = analysis
        self._calls = calls

    def giving(self, call: ast.Call) -> frozenset[Obj]:
        """The sigmoids whose results may be what a call of a module gives."""
        return frozenset(self._last_of(self._analysis.values.get(call.func, NEVER), frozenset()))

    def may_be_of_another_class(self, sigmoid: Obj) -> bool:
        """Whether nothing can tell a sigmoid from one of a derived class, which is in the file that makes it.

        That gives the same where no region does anything: what it is given is float32 there. Nobody asks for the class
        itself, or for an object that was saved whole without the file that makes it.
        """
        making = self._calls.get(sigmoid.site)
        is_named = making is not None and self._analysis.values.get(making.func, NEVER) == {External(SIGMOID_CLASS)}
        return (
            is_named
            and sigmoid.site not in self._analysis.pytorch.not_float
            and not self._are_told_apart
            and all(self._is_saved_with_its_file(sigmoid, each) for each in self._saved)
        )

    def _last_of(self, value: Value, seen: frozenset[Atom]) -> Iterator[Obj]:
        """The sigmoids that come last in modules, but for layers that only move elements."""
        for each in value:
            if not isinstance(each, Obj) or each in seen:
                continue
            if each.external == SIGMOID_CLASS:
                yield each
            elif each.external in WRAPPERS:
                yield from self._last_of(self._held(each, "module"), seen | {each})
            else:
                yield from self._last_of_chain(each, seen | {each})

    def _last_of_chain(self, chain: Obj, seen: frozenset[Atom]) -> Iterator[Obj]:
        """Those at the end of a chain; of the layers whose order nobody knows, each may be the last."""
        names = self._analysis.heap.names(chain, None)
        if chain.external != "torch.nn.Sequential" and not any(name.startswith("[") for name in names):
            return  # an object with code of its own
        for name in names:
            if name == containers.REST or name[:1] not in "[<":
                yield from self._last_of(self._held(chain, name), seen)
        for name in reversed([name for name in names if name.startswith("[") and name != containers.REST]):
            held = self._held(chain, name)
            yield from self._last_of(held, seen)
            if not any(isinstance(each, Obj) and _moves_elements(each) for each in held):
                return

    def _held(self, owner: Obj, name: str) -> Value:
        return self._analysis.heap.read(owner, name, None)

    @cached_property
    def _are_told_apart(self) -> bool:
        """Whether code compares the class of something with that of sigmoids, or keeps that to do so."""
        trees = [module.tree for module in self._analysis.modules.values() if module is not None]
        is_compared = any(_is_named(part) for tree in trees for node in nodes_in(tree) for part in _compared(node))
        return is_compared or any(map(_asks_its_name, trees))

    @cached_property
    def _saved(self) -> list[frozenset[Obj]]:
        """What is saved with its class, not the state of a module, but all of it: each with what it holds."""
        values = self._analysis.values
        saving = (
            call
            for call in self._calls.values()
            if any(isinstance(each, External) and _SAVES.match(each.name) for each in values.get(call.func, NEVER))
        )
        given = (values.get(each, NEVER) for call in saving for each in call.args)
        return [self._analysis.heap.objects_in(one(each)) for value in given for each in value]

    def _is_saved_with_its_file(self, sigmoid: Obj, saved: frozenset[Obj]) -> bool:
        """Whether what is saved whole has no such sigmoid, or has it in something of a class of the same file."""
        return sigmoid not in saved or any(
            isinstance(each.made_of, Class)
            and each.made_of.code.file == sigmoid.site.file
            and sigmoid in self._analysis.heap.objects_in(one(each))
            for each in saved
        )


def _moves_elements(layer: Obj) -> bool:
    """Whether a layer gives what it is given, in another shape or at another place."""
    is_native = layer.external.startswith("torch.nn.")
    return is_native and table.LAYERS.get(layer.external.rpartition(".")[2]) in table.EXACT


def _compared(node: ast.AST) -> Iterator[ast.AST]:
    """What may be compared with a class: parts of comparisons, keys, and members of a collection."""
    if isinstance(node, (ast.Compare, ast.MatchValue)):
        yield from nodes_in(node)
    elif isinstance(node, ast.Dict):
        yield from filter(None, node.keys)
    elif isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        yield from node.elts


def _asks_its_name(tree: ast.Module) -> bool:
    """Whether a file asks what the class of something is called, and has that name: `type(layer).__name__`."""
    return any(map(_is_its_name, nodes_in(tree))) and any(
        isinstance(each, ast.Attribute) and each.attr in ("__name__", "_get_name") for each in nodes_in(tree)
    )


def _is_its_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value == SIGMOID_CLASS.rpartition(".")[2]


def _is_named(node: ast.AST) -> bool:
    """Whether something names the class of sigmoids."""
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return name == SIGMOID_CLASS.rpartition(".")[2]
