"""Which elements of a list are run, where each of those that are is taken by an index that is written out."""

from __future__ import annotations

import ast

from amp_migrate.flow.analysis import Analysis
from amp_migrate.flow.domain.atoms import NEVER, Obj, constant
from amp_migrate.flow.python.containers import LIST
from amp_migrate.flow.pytorch.gradients import parameters_of
from amp_migrate.flow.pytorch.modules import OF_EVERY_MODULE
from amp_migrate.flow.source import FUNCTIONS
from amp_migrate.syntax import nodes_in

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
_MODULES = "torch.nn.ModuleList"
_HANDING_ON = (ast.Assign, ast.AnnAssign, ast.Return, ast.Tuple)


class Elements:
    """Answers about the lists of a program."""

    def __init__(self, analysis: Analysis) -> None:
        self.analysis = analysis
        trees = [module.tree for module in analysis.modules.values() if module is not None]
        self._nodes = [node for tree in trees for node in nodes_in(tree)]
        self._parents = {child: node for node in self._nodes for child in ast.iter_child_nodes(node)}

    def has_idle_ones(self, making: ast.Call) -> bool | None:
        """Whether a loop makes something of the parameters of each element of a list of which some alone are run.

        None where that is as far as can be seen: the elements have been known by other names before.
        """
        owner = parameters_of(making.args[0])[0] if making.args else None
        source = self._goes_through(owner) if isinstance(owner, ast.Name) else None
        value = NEVER if source is None else self.analysis.values.get(source, NEVER)
        (listed,) = value if len(value) == 1 else (None,)
        if not isinstance(listed, Obj) or not (listed.made_of is LIST or listed.external == _MODULES):
            return False
        used: set[int] = set()
        for node in self._nodes:
            if isinstance(node, ast.expr) and listed in self.analysis.values.get(node, NEVER):
                indices = self._run_by(node, listed)
                if indices is None:
                    return False
                used |= indices
        length, is_sure = self._length(listed)
        is_idle = bool(used) and min(used) >= 0 and not used >= set(range(max(length, *used, 0)))
        return is_idle and (is_sure or None)

    def _goes_through(self, name: ast.Name) -> ast.expr | None:
        """What the loop around something goes through, whose variable a name is."""
        node: ast.AST | None = name
        while node is not None and not isinstance(node, FUNCTIONS):
            loops = (
                node.generators if isinstance(node, _COMPREHENSIONS) else [node] if isinstance(node, ast.For) else []
            )
            for loop in loops:
                if isinstance(loop.target, ast.Name) and loop.target.id == name.id:
                    return loop.iter
            node = self._parents.get(node)
        return None

    def _run_by(self, node: ast.expr, listed: Obj) -> set[int] | None:
        """The indices of the elements that may be run where an expression, which is a list, stands; None for any."""
        around = self._parents.get(node)
        if isinstance(getattr(node, "ctx", None), ast.Store) or isinstance(around, (*_HANDING_ON, ast.Expr)):
            return set()
        if isinstance(around, ast.Attribute):
            is_idle = around.attr == "append" or (listed.external == _MODULES and self._is_kept_idle(node))
            return set() if is_idle else None
        if isinstance(around, ast.Call):
            return set() if self.analysis.callees.get(around) or ast.unparse(around.func) == "len" else None
        if isinstance(around, ast.Subscript) and node is around.value:
            at = constant(self.analysis.values.get(around.slice, NEVER))
            return set() if self._is_kept_idle(around) else {at} if type(at) is int else None
        loop = self._parents.get(around) if isinstance(around, ast.comprehension) else around
        target = getattr(around, "target", None)
        if not isinstance(target, ast.Name) or loop is None or node is not getattr(around, "iter", None):
            return None
        names = [each for each in nodes_in(loop) if isinstance(each, ast.Name) and each.id == target.id]
        return set() if all(each is target or self._is_kept_idle(each) for each in names) else None

    def _is_kept_idle(self, node: ast.expr) -> bool:
        """Whether nothing is asked of a module but what every module has, as its parameters: it is not run."""
        around = self._parents.get(node)
        return isinstance(around, ast.Attribute) and around.attr in OF_EVERY_MODULE

    def _length(self, listed: Obj) -> tuple[int, bool]:
        """How long a list is at least, and whether its elements are made for it alone."""
        made = next((each for each in self._nodes if isinstance(each, ast.expr) and self._makes(each, listed)), None)
        if isinstance(made, ast.Call) and made.args:
            (made,) = made.args
        if isinstance(made, ast.List):
            return len(made.elts), False
        if (
            not isinstance(made, (ast.ListComp, ast.GeneratorExp))
            or len(made.generators) != 1
            or made.generators[0].ifs
        ):
            return 0, False
        (source,) = (each.iter for each in made.generators)
        count: object = None
        if isinstance(source, ast.Call) and ast.unparse(source.func) == "range" and len(source.args) == 1:
            count = constant(self.analysis.values.get(source.args[0], NEVER))
        return (count if isinstance(count, int) else 0), isinstance(made.elt, ast.Call)

    def _makes(self, node: ast.expr, listed: Obj) -> bool:
        """Whether a list is made by an expression."""
        is_there = (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset) == listed.site[1:]
        kinds = (ast.Call,) if listed.external == _MODULES else (ast.List, ast.ListComp)
        return is_there and isinstance(node, kinds) and listed in self.analysis.values.get(node, NEVER)
