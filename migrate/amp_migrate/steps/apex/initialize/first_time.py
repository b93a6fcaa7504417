"""`amp.initialize` under "the first time": `if self.epoch == 0:` in a method that is called again.

What such a test asks about changes while the script trains, so it is no switch. Where it holds for a new object, and
changes behind the call alone, nothing trains before the call: the scaler is made with the object, once.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace

import libcst as cst

from amp_migrate.analysis.bindings import dotted
from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import FunctionRef, Project
from amp_migrate.plan.code import source
from amp_migrate.plan.move import Refusal
from amp_migrate.steps.apex.beside.conditions import conditions, is_fixed
from amp_migrate.steps.apex.initialize.branches import negated
from amp_migrate.steps.apex.initialize.initialize_calls import Initialize
from amp_migrate.steps.apex.initialize.switch import is_visible
from amp_migrate.steps.apex.uses.apex_calls import amp_calls
from amp_migrate.steps.statements.data_flow import reads
from amp_migrate.tables.apex_names import USE_SHIM
from amp_migrate.trees import build
from amp_migrate.trees.nodes import Statement, block_of, method_of, parts_of

_OPERATORS: dict[type[ast.cmpop], Callable[[object, object], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}
_UNKNOWN = object()


def made_with_object(project: Project, initialize: Initialize) -> Initialize | Refusal:
    """An initialization under a test of what changes while the script trains, as one of the object's constructor."""
    file, owner = initialize.file, initialize.file.tree.owner_class(initialize.home)
    function = file.tree.function(initialize.home)
    made = None if owner is None else method_of(owner, "__init__")
    if owner is None or function is None or made is None or function is made:
        return initialize
    switch = [part for code in initialize.switch for part in parts_of(build.expression(code))]
    # Whoever makes the scaler asks whatever is asked round the call, however far from it.
    parts = [*map(build.expression, _asked_round(initialize, {*map(source, switch)})), *switch]
    behind = _Behind(project, file, initialize.statement)
    changes = {each: [node for path in reads([each]) for node in _changes(file, owner, path)] for each in parts}
    changing = [each for each in switch if any(map(behind.is_behind, changes[each]))]
    if not changing:
        return initialize
    asked = [each for each in parts if each not in changing]
    home = _behind_optimizer(file, owner, made, initialize.optimizers, asked)
    rest = tuple(map(source, asked))
    seen = replace(initialize, home=home or initialize.home, switch=rest)
    is_first = all(
        _holds(file, made, each)
        and all(behind.is_behind(node) or _asks_again(each, node) for node in changes[each])
        and not any(_changed_first_by_kin(project, file, owner, each))
        for each in changing
    )
    if home is None or not is_first or not is_visible(project, seen, file, home):
        test = source(changing[0])
        return Refusal(file, initialize.call, f"whether `{test}` holds changes while the script trains", USE_SHIM)
    chain = initialize.home if initialize.replaces_home and not initialize.rebinds else initialize.statement
    return replace(seen, statement=chain, replaces_home=False)


def _asked_round(initialize: Initialize, known: Collection[str]) -> Iterator[str]:
    """What is asked round a call in its function, or has not left that before, beside what is known to be asked."""
    file = initialize.file
    for each in sorted(conditions(file, initialize.statement), key=lambda found: file.tree.order[found.node]):
        code = each.code if each.holds else negated(build.expression(each.code))
        if code not in known and not is_fixed(file, each.node):
            yield code


def _asks_again(test: cst.BaseExpression, node: cst.CSTNode) -> bool:
    """Whether a statement makes a test hold once more, by a constant: what follows initializes again."""
    if not isinstance(node, cst.Assign) or len(node.targets) > 1:
        return False
    path = dotted(node.targets[0].target)
    try:
        known = {path or "": ast.literal_eval(source(node.value).strip())}
    except (ValueError, SyntaxError):
        return False
    return _holds_for(test, known)


class _Behind:
    """Knows what an object does only behind a statement of one of its methods."""

    def __init__(self, project: Project, file: File, statement: Statement) -> None:
        self._project = project
        self._file = file
        self._statement = statement
        self._home = file.tree.function(statement)

    def is_behind(self, node: cst.CSTNode, seen: tuple[cst.CSTNode, ...] = ()) -> bool:
        """Whether a place runs behind the statement alone, whoever called the method that it stands in.

        What stands where that has failed is in its place.
        """
        tree = self._file.tree
        if any(isinstance(each, cst.ExceptHandler) for each in tree.ancestors(node)):
            return False
        function = tree.function(node)
        if function is None or function in seen:
            return function is not None
        if function is self._home:
            return tree.order[node] > tree.order[self._statement]
        calls = [*self._calls_of(self._project.reference(self._file, function))]
        return bool(calls) and all(self.is_behind(each, (*seen, function)) for each in calls)

    def _calls_of(self, function: FunctionRef) -> Iterator[cst.CSTNode]:
        """The calls of a method; itself where somebody else may call it, who is behind nothing."""
        own = [
            call
            for call in self._file.calls
            if (method := self._project.own_method(self._file, call)) is not None and method.node is function.node
        ]
        everywhere = [site.call for site in self._project.call_sites(function) or ()]
        yield from own
        yield from (self._statement for call in everywhere if call not in own)


def _changes(file: File, owner: cst.ClassDef, path: str) -> list[cst.CSTNode]:
    """Where an attribute of an object gets another value than its constructor gave it."""
    made = method_of(owner, "__init__")
    return [node for node in _given(file, owner, path) if file.tree.function(node) is not made]


def _given(file: File, owner: cst.ClassDef, path: str) -> tuple[cst.CSTNode, ...]:
    return file.class_attribute(owner, path) if path.startswith("self.") else ()


def _changed_first_by_kin(
    project: Project, file: File, owner: cst.ClassDef, test: cst.BaseExpression
) -> Iterator[cst.CSTNode]:
    """Where classes that derive from one, or it from them, may change what a test asks before the first time."""
    kin = {*project.lineage(file, owner), *project.with_derived([(file, owner)])} - {(file, owner)}
    for where, node in ((f, n) for f, each in kin for path in reads([test]) for n in _given(f, each, path)):
        if not _asks_again(test, node) and not _is_behind_its_own(where, node):
            yield node


def _is_behind_its_own(file: File, node: cst.CSTNode) -> bool:
    """Whether a method has initialized Apex itself before a statement of it: it does instead of another one."""
    tree, function = file.tree, file.tree.function(node)
    calls = (each for each in amp_calls(file, "initialize") if tree.function(each) is function)
    return any(tree.order[each] < tree.order[node] for each in calls)


def _holds(file: File, made: cst.FunctionDef, test: cst.BaseExpression) -> bool:
    """Whether a test holds for what the constructor has made: of constants, and of nothing else."""
    known: dict[str, object] = {}
    for path in reads([test]):
        given = [each.value for each in file.scopes.inside(made).bindings.get(path, ())]
        code = file.tree.code(given[0]) if len(given) == 1 and given[0] is not None else None
        try:
            known[path] = ast.literal_eval(code) if code is not None else _UNKNOWN
        except (ValueError, SyntaxError):
            known[path] = _UNKNOWN
    return _holds_for(test, known)


def _holds_for(test: cst.BaseExpression, known: dict[str, object]) -> bool:
    found = _value(ast.parse(source(test).strip(), mode="eval").body, known)
    return found is not _UNKNOWN and bool(found)


def _value(node: ast.expr, known: dict[str, object]) -> object:
    """What an expression gives for known names."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, (ast.Name, ast.Attribute)):
        return known.get(ast.unparse(node), _UNKNOWN)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        inner = _value(node.operand, known)
        return inner if inner is _UNKNOWN else not inner
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _OPERATORS:
        sides = [_value(each, known) for each in (node.left, node.comparators[0])]
        return _UNKNOWN if _UNKNOWN in sides else _OPERATORS[type(node.ops[0])](*sides)
    return _UNKNOWN


def _behind_optimizer(
    file: File,
    owner: cst.ClassDef,
    made: cst.FunctionDef,
    optimizers: cst.BaseExpression | None,
    asked: Iterable[cst.BaseExpression],
) -> Statement | None:
    """The statement of a constructor behind what makes the optimizers and what is asked; the last where that is it."""
    paths = () if optimizers is None else [each for each in reads([optimizers]) if each != "self"]
    nodes = [node for path in paths for node in file.class_attribute(owner, path) if file.tree.function(node) is made]
    if not nodes or any(dotted(build.expression(path)) is None for path in paths):
        return None
    kept = (node for path in reads(asked) for node in _given(file, owner, path))
    nodes += [node for node in kept if file.tree.function(node) is made]
    last = file.tree.lift(max(nodes, key=lambda each: file.tree.order[each]), block_of(made))
    siblings = file.tree.siblings(last)
    behind = siblings[siblings.index(last) + 1 :]
    return behind[0] if behind else last
