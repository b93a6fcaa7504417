"""Which names hold what came out of a region, statement by statement, also where a function of the file returned it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cached_property

import libcst as cst

from amp_migrate.analysis.hops import MAX_HOPS
from amp_migrate.steps.model.training_step import Region
from amp_migrate.steps.regions.find_regions import RegionFinder
from amp_migrate.steps.statements.data_flow import targets
from amp_migrate.trees.nodes import Block, Statement, block_of, blocks, find, nested_statements

# Methods that keep a tensor's dtype, so that a chain of them ends in the dtype of its root.
_KEEPS_DTYPE = frozenset(
    (
        "abs add chunk clamp clip clone contiguous cpu cuda data detach div exp expand expand_as flatten flip "
        "gather log log_softmax masked_fill mean mul neg normalize permute pow relu repeat reshape round sigmoid "
        "softmax split sqrt squeeze sub sum t tanh to transpose tril triu unflatten unsqueeze view view_as"
    ).split()
)
# Tensors in the structure that a Hugging Face model gives back.
_STRUCTURE = frozenset({"logits", "loss", "last_hidden_state"})
# Of two numbers or tensors, a tensor of the wider type: that of a tensor beside a number.
_ARITHMETIC = (cst.Add, cst.Divide, cst.Multiply, cst.Power, cst.Subtract)
# Functions that make one tensor of a list of them.
_JOINS = frozenset(f"torch.{name}" for name in ("cat", "concat", "concatenate", "hstack", "stack", "vstack"))
# Where a function returns one value and no tuple.
_WHOLE = -1


class HeldOutputs:
    """The outputs of the regions of one file, in their functions and in those that these return them to."""

    def __init__(self, finder: RegionFinder, regions: Sequence[Region]) -> None:
        self.finder = finder
        self._tree = finder.tree
        self._regions = regions
        self._returned: dict[cst.FunctionDef, dict[int, bool]] = {}

    @cached_property
    def covered(self) -> frozenset[Statement]:
        """The statements of the regions."""
        return frozenset(each for region in self._regions for each in self.finder.members(region))

    def course(self, body: Block, given: Collection[str] = ()) -> Iterator[tuple[Statement, dict[str, bool]]]:
        """The statements of a function with the names that hold outputs there, and whether these are floating.

        A list of outputs is there as `name[]`.

        Args:
            given: parameters that a caller hands an output to.
        """
        inside = [region for region in self._regions if self._tree.body(region.first) is body]
        held = dict.fromkeys((*self.finder.outputs(inside), *given), False)
        for statement in nested_statements(body):
            if not isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
                yield statement, held
                held.update(self._handed_on(statement, held))

    def _handed_on(self, statement: Statement, held: dict[str, bool]) -> dict[str, bool]:
        """The names that a statement gives an output to, or puts one into, cast by nothing on the way."""
        if isinstance(statement, cst.Expr):
            return self._appended(statement, held)
        if isinstance(statement, cst.For) and isinstance(statement.target, cst.Name):
            listed = _list_key(statement.iter)
            return {statement.target.value: held[listed]} if listed in held else {}
        if blocks(statement) or not isinstance(statement, cst.Assign):
            return {}
        returned = self._returned_by(statement.value) if isinstance(statement.value, cst.Call) else {}
        if returned:
            given = [pair for each in statement.targets for pair in _elements(each.target)]
            return {name.value: returned[at] for at, name in given if isinstance(name, cst.Name) and at in returned}
        root = root_of(self.finder, statement.value, held.keys())
        if root is None:
            return {}
        is_floating = self.is_floating(root, held)
        return {target.value: is_floating for target in targets(statement) if isinstance(target, cst.Name)}

    def root(self, node: cst.BaseExpression, statement: Statement, held: Collection[str]) -> cst.BaseExpression | None:
        """The output at the start of a chain in a statement, be it what a module gives there in a region."""
        return root_of(self.finder, node, held, runs=statement in self.covered)

    def _appended(self, statement: cst.Expr, held: dict[str, bool]) -> dict[str, bool]:
        """The list that a call of `append` puts an output into, or `extend` the rows of one."""
        call = statement.value
        if not (isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) and len(call.args) == 1):
            return {}
        listed = _list_key(call.func.value) if call.func.attr.value in ("append", "extend") else ""
        root = self.root(call.args[0].value, statement, held.keys()) if listed else None
        return {} if root is None else {listed: self.is_floating(root, held) and held.get(listed, True)}

    def _returned_by(self, call: cst.Call) -> dict[int, bool]:
        """Which values that a function of the file returns are outputs, by place; a single one is at `_WHOLE`."""
        function = self.finder.roles.project.called(self.finder.file, call)
        if function is None or function.file is not self.finder.file:
            return {}
        node = function.node
        if node not in self._returned:
            self._returned[node] = {}  # a recursive function is decided by its other returns
            found: dict[int, bool] = {}
            for statement, held in self.course(block_of(node)):
                if isinstance(statement, cst.Return) and statement.value is not None:
                    for at, value in _elements(statement.value):
                        root = root_of(self.finder, value, held.keys())
                        if root is not None:
                            found[at] = self.is_floating(root, held) and found.get(at, True)
                        elif self._is_run_inside(value, statement):
                            found[at] = found.get(at, True)
            self._returned[node] = found
        return self._returned[node]

    def _is_run_inside(self, value: cst.BaseExpression, statement: Statement) -> bool:
        """Whether a returned value is the call of a module, in a region."""
        is_module = isinstance(value, cst.Call) and self.finder.roles.calls_module(self.finder.file, value)
        return is_module and statement in self.covered

    def is_floating(self, root: cst.BaseExpression, held: dict[str, bool]) -> bool:
        """Whether an output is seen to be what a module or a loss computes, and not, say, drawn actions."""
        if isinstance(root, cst.BinaryOperation) and any(self.is_floating(s, held) for s in (root.left, root.right)):
            return True
        name = root.value if isinstance(root, cst.Name) else _listed(self.finder, root)
        return held.get(name, False) or _is_floating(self.finder, root)


def _elements(node: cst.BaseExpression) -> list[tuple[int, cst.BaseExpression]]:
    """The values of a tuple with their places; any other expression is a whole."""
    if isinstance(node, (cst.Tuple, cst.List)):
        return [(index, each.value) for index, each in enumerate(node.elements)]
    return [(_WHOLE, node)]


def _list_key(node: cst.BaseExpression) -> str:
    """What a list is known by; nothing for what has no name."""
    return f"{node.value}[]" if isinstance(node, cst.Name) else ""


def _listed(finder: RegionFinder, node: cst.BaseExpression) -> str:
    """The list that a tensor is taken out of, or joined from, as it is known by; nothing for any other."""
    if isinstance(node, cst.Subscript):
        is_one = len(node.slice) == 1 and isinstance(node.slice[0].slice, cst.Index)
        return _list_key(node.value) if is_one else ""
    if isinstance(node, cst.Call) and node.args and finder.file.names.callee(node) in _JOINS:
        return _list_key(node.args[0].value)
    return ""


def root_of(
    finder: RegionFinder, node: cst.BaseExpression, outputs: Collection[str], *, runs: bool = False
) -> cst.BaseExpression | None:
    """The output at the start of a chain of methods and subscripts; None where the chain changes the dtype.

    Args:
        outputs: the names that hold one.
        runs: whether the chain is in a region, and may begin with the call of a module.
    """
    if isinstance(node, cst.Name):
        return node if node.value in outputs else None
    if _listed(finder, node) in outputs:
        return node
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, _ARITHMETIC):
        sides = (root_of(finder, side, outputs, runs=runs) for side in (node.left, node.right))
        return node if any(side is not None for side in sides) else None
    if isinstance(node, cst.Subscript):
        inner = root_of(finder, node.value, outputs, runs=runs)
        # `out[0]` may take a tensor out of a tuple: it is that element which is cast.
        return node if inner is node.value else inner
    if isinstance(node, cst.Call):
        if runs and finder.roles.is_module(finder.file, node.func):
            return node
        if any(_names_dtype(arg.value) for arg in node.args):
            return None
        name = finder.file.names.callee(node)
        if name.startswith("torch."):
            keeps = name.rpartition(".")[2] in _KEEPS_DTYPE and bool(node.args)
            return root_of(finder, node.args[0].value, outputs, runs=runs) if keeps else None
        return root_of(finder, node.func, outputs, runs=runs) if isinstance(node.func, cst.Attribute) else None
    if isinstance(node, cst.Attribute):
        inner = root_of(finder, node.value, outputs, runs=runs)
        if node.attr.value in _KEEPS_DTYPE:
            return inner
        # `out.logits` is a tensor in a structure; any other method of a tensor makes a dtype of its own.
        return node if inner is node.value and node.attr.value in _STRUCTURE else None
    return None


def _is_floating(finder: RegionFinder, node: cst.BaseExpression, depth: int = 0) -> bool:
    """Whether a value is seen to be what a module or a loss computes, and not, say, actions that are drawn from it."""
    if depth > MAX_HOPS:
        return False
    if isinstance(node, cst.Call):
        if finder.roles.is_module(finder.file, node.func) or finder.roles.losses.is_call(finder.file, node):
            return True
        full = finder.file.names.callee(node)
        if full.startswith("torch."):
            name, values = full.rpartition(".")[2], [each.value for each in node.args[:1]]
        elif isinstance(node.func, cst.Attribute):
            name, values = node.func.attr.value, [node.func.value]
        else:
            return False
        if name not in _KEEPS_DTYPE or any(_names_dtype(each.value) for each in node.args):
            return False
        return any(_is_floating(finder, each, depth + 1) for each in values)
    if isinstance(node, cst.Name):
        order, statement = finder.tree.order, finder.tree.statement(node)
        bound = [each for each in finder.roles.bindings(finder.file, node) if order[each.node] < order[statement]]
        given = [each.value for each in bound if not isinstance(each.node, cst.AugAssign)]  # `x += y` keeps the dtype
        return bool(given) and all(each is not None and _is_floating(finder, each, depth + 1) for each in given)
    if isinstance(node, cst.UnaryOperation):
        return isinstance(node.operator, cst.Minus) and _is_floating(finder, node.expression, depth + 1)
    if isinstance(node, cst.BinaryOperation):
        sides = (node.left, node.right)
        is_sure = isinstance(node.operator, cst.Divide) or any(isinstance(each, cst.Float) for each in sides)
        return is_sure or any(_is_floating(finder, each, depth + 1) for each in sides)
    if isinstance(node, cst.Attribute):
        return node.attr.value in _STRUCTURE or _is_floating(finder, node.value, depth + 1)
    return isinstance(node, cst.Subscript) and _is_floating(finder, node.value, depth + 1)


def _names_dtype(value: cst.BaseExpression) -> bool:
    return any(
        isinstance(each, cst.Attribute)
        and each.attr.value.startswith(("float", "double", "half", "bfloat", "int", "long"))
        for each in find(value, cst.Attribute)
    )
