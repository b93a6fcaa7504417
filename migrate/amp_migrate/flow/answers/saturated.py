"""What is done with the results of what comes near to its limits: half precision has no numbers between most of these.

A logit of 9 and one of 12 have one sigmoid in float16. That is no matter to a threshold, and decides on an order.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cached_property

from amp_migrate.flow.analysis import Analysis
from amp_migrate.flow.domain.atoms import NEVER, External, tensors_in
from amp_migrate.flow.events import Act, Event
from amp_migrate.flow.pytorch.functions import operator_name
from amp_migrate.flow.source import Site
from amp_migrate.syntax import nodes_in
from amp_migrate.tables import operators as table

# What says of a number on which side of a limit it is.
_COMPARING = frozenset("eq ne lt le gt ge greater greater_equal less less_equal round".split())
# What gives a value a name, or hands it to who is looked at by itself.
_NAMING = (ast.Assign, ast.AnnAssign, ast.NamedExpr, ast.Return)


class Saturated:
    """Answers about an analysis that keeps the values of all its files."""

    def __init__(self, analysis: Analysis) -> None:
        self._analysis = analysis

    def is_only_compared(self, event: Event) -> bool:
        """Whether what a saturating operator has given is compared, or rounded, and nothing else is done with it.

        It is looked for under all names, and in all shapes, that it is given where somebody looks.
        """
        uses = [use for node, parents in self._nodes_of[event.site] for use in [self._use(node, parents)] if use]
        return bool(uses) and all(map(self._compares, uses))

    @cached_property
    def _nodes_of(self) -> defaultdict[Site, list[tuple[ast.AST, dict[ast.AST, ast.AST]]]]:
        """The expressions that are what each saturating operator has given, each with what stands around what."""
        events = self._analysis.events.values()
        wanted = {each.site for each in events if each.act is Act.LEFT_FLOAT and each.why in table.SATURATING}
        found = defaultdict[Site, list[tuple[ast.AST, dict[ast.AST, ast.AST]]]](list)
        for module in filter(None, self._analysis.modules.values() if wanted else ()):
            parents: dict[ast.AST, ast.AST] = {}
            for node in nodes_in(module.tree):
                parents.update(dict.fromkeys(ast.iter_child_nodes(node), node))
                for site in self._born(node) & wanted:
                    found[site].append((node, parents))
        return found

    def _born(self, node: ast.AST) -> frozenset[Site]:
        return frozenset[Site]().union(*(each.born for each in tensors_in(self._analysis.values.get(node, NEVER))))

    def _use(self, node: ast.AST, parents: dict[ast.AST, ast.AST]) -> ast.AST | None:
        """What is done with a value; None where that is a name or another shape, or it goes to a function in sight."""
        around = parents[node]
        if isinstance(around, ast.Attribute) and around.attr in table.NO_TENSORS:
            return None
        if isinstance(around, (ast.Attribute, ast.keyword)):
            around = parents[around]
        is_handed_on = isinstance(around, _NAMING) or bool(self._analysis.callees.get(around))
        return None if is_handed_on or self._born(node) & self._born(around) else around

    def _compares(self, use: ast.AST) -> bool:
        if not isinstance(use, ast.Call):
            return isinstance(use, ast.Compare)
        called = self._analysis.values.get(use.func, NEVER)
        names = {operator_name(each.name) for each in called if isinstance(each, External)}
        if not names and isinstance(use.func, ast.Attribute):
            names = {use.func.attr}
        return bool(names) and names <= _COMPARING
