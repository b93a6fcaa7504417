"""Which states of optimizers and scalers go into checkpoints, by whatever name, and in whatever holds them."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cached_property

from amp_migrate.flow.analysis import Analysis
from amp_migrate.flow.domain.atoms import NEVER, STATE, Atom, External, Native, Obj, Opaque, Tup, Value
from amp_migrate.flow.domain.tensor import NOTHING
from amp_migrate.flow.source import FUNCTIONS, Site, word_called

_SAVING = frozenset({"dump", "save"})
# What these give shows a state, or is the same once more.
_SHOWING = ("builtins.", "copy.", "pprint.")
_HOLDERS = (ast.Dict, ast.List, ast.Set, ast.Tuple, ast.ListComp, ast.DictComp)


class KeptStates:
    """Answers about what `state_dict()` gives in a program."""

    def __init__(self, analysis: Analysis) -> None:
        self.analysis = analysis

    def has(self, site: Site) -> bool:
        """Whether the state that a call gives is saved, or goes out of sight in something that holds it.

        A part of it does not count: `optimizer.state_dict()["param_groups"][0]["lr"]` is a number. Nor does what is
        only shown, or held until it is loaded again.
        """
        return site in self._kept

    @cached_property
    def _kept(self) -> frozenset[Site]:
        modules = [each for each in self.analysis.modules.values() if each is not None]
        # Where nobody is seen to call a function, it is run from where it is defined.
        called = {code for node, codes in self.analysis.callees.items() for code in codes if code.node is not node}
        found: set[Site] = set()
        for module in modules:
            for call, _ in module.every(ast.Call):
                found.update(self._given_away(call))
            for node, _ in module.every(ast.Assign):
                if any(map(self._is_in_unknown, node.targets)):
                    found.update(self._within(node.value))
            for given, code in module.every(ast.Return):
                if given.value and isinstance(code.node, FUNCTIONS) and code not in called:
                    found.update(self._within(given.value, is_held=False))
        return frozenset(found)

    def _is_in_unknown(self, target: ast.expr) -> bool:
        """Whether a target is a part of something that nobody knows: `checkpoint["optimizer"]` of a parameter."""
        owner = self._value(target.value) if isinstance(target, (ast.Attribute, ast.Subscript)) else NEVER
        return any(isinstance(each, Opaque) for each in owner)

    def _given_away(self, call: ast.Call) -> Iterator[Site]:
        """The states that a call gets which nobody follows, and which may keep them: a bare one may be shown only."""
        word = word_called(call)
        if self._is_open(call) and word != "load_state_dict":
            for each in (*call.args, *(each.value for each in call.keywords)):
                yield from self._within(each, is_held=word in _SAVING)

    def _is_open(self, call: ast.Call) -> bool:
        """Whether a call goes where nobody looks: it is no method of a list or dictionary, which are looked into."""
        called = self._value(call.func)
        is_known = all(
            isinstance(each, Native) or (isinstance(each, External) and each.name.startswith(_SHOWING))
            for each in called
        )
        return not is_known and not self.analysis.callees.get(call)

    def _within(self, node: ast.expr, *, is_held: bool = True) -> Iterator[Site]:
        """The states in what an expression gives, or is made of by calls that nobody follows.

        Args:
            is_held: whether a bare state counts, as one in something that holds it does.
        """
        for each in self._value(node):
            if is_held or not isinstance(each, Opaque):
                yield from _states(each, self._holding)
        parts: list[ast.AST] = []
        if isinstance(node, (*_HOLDERS, ast.Starred, ast.IfExp, ast.BoolOp)):
            parts = [*ast.iter_child_nodes(node)]
        elif isinstance(node, ast.Attribute) and node.attr == "__dict__":
            parts = [node.value]
        elif isinstance(node, ast.Call) and not self.analysis.callees.get(node):
            receiver = [node.func.value] if isinstance(node.func, ast.Attribute) else []
            parts = [*receiver, *node.args, *(each.value for each in node.keywords)]
        for part in parts:
            if isinstance(part, ast.expr):
                yield from self._within(part, is_held=is_held or isinstance(node, _HOLDERS))

    def _value(self, node: ast.AST) -> Value:
        return self.analysis.values.get(node, NEVER)

    @cached_property
    def _holding(self) -> Mapping[Atom, frozenset[Site]]:
        """The objects that hold states, be it in others that they hold, and which."""
        found: defaultdict[Atom, frozenset[Site]] = defaultdict(frozenset)
        cells = [(owner, value) for owner, value in self.analysis.heap.cells() if isinstance(owner, Obj)]
        is_growing = True
        while is_growing:
            is_growing = False
            for owner, value in cells:
                more = found[owner].union(*(_states(each, found) | _spread(each) for each in value))
                is_growing |= more != found[owner]
                found[owner] = more
        return found


def _states(atom: object, holding: Mapping[Atom, frozenset[Site]]) -> frozenset[Site]:
    """The states that something is, or holds."""
    if isinstance(atom, Tup):
        items = (each for item in (*atom.items, atom.rest or NEVER) for each in item)
        return NOTHING.union(*(_states(each, holding) for each in items))
    if isinstance(atom, Opaque):
        return frozenset({atom.path[0]}) if atom.path[1:] == (STATE,) else NOTHING
    return holding[atom] if isinstance(atom, Obj) and atom in holding else NOTHING


def _spread(atom: object) -> frozenset[Site]:
    """The state whose entries, whatever their keys are, something may be: what a holder gets by `**state`."""
    if not isinstance(atom, Opaque) or atom.path[1:] != (STATE, "[]"):
        return NOTHING
    return frozenset({atom.path[0]})
