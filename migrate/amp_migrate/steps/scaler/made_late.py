"""Scalers that are made behind the place where their optimizer is restored: Apex's `initialize` often stands there.

Where a call restores it, the scaler is made before that call, if it can be:

def __init__(self):
    if resume:
        self.load()  # restores the optimizer, and its scaler beside it
    self.model, self.optimizer = amp.initialize(self.model, self.optimizer)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import takewhile

import libcst as cst

from amp_migrate.analysis.bindings import dotted
from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import CallSite, FunctionRef, Project
from amp_migrate.frozen import frozen
from amp_migrate.trees.nodes import Statement, block_of, find, method_of, parts_of, walk

_ANSWERING = ("os.path.exists", "os.path.isdir", "os.path.isfile", "os.path.join")
_BUILTINS = ("len", "str")


@frozen
class MadeLate:
    """Where a scaler is restored that is made behind its optimizer's restoring.

    Attributes:
        home: the statement that makes it.
        tests: what was true where the optimizer was restored.
    """

    home: Statement
    tests: tuple[str, ...]


def tests_of(late: MadeLate | None) -> str:
    """What is asked before anything else."""
    return "" if late is None else "".join(f"{each} and " for each in late.tests)


def made_late(
    file: File,
    restored: Statement,
    source: cst.BaseExpression,
    home: Statement,
    says_all: Callable[[cst.BaseExpression], bool],
) -> MadeLate | None:
    """How to restore behind `home` what was restored in front of it; None where that may be something else by then.

    Args:
        restored: the statement that restores the optimizer, under no more than tests.
        source: what it is restored from.
        says_all: whether a test makes it needless to ask what stands behind it: `os.path.isfile(path)`.
    """
    tree = file.tree
    block, around = tree.block(restored), list[cst.If]()
    while block is not tree.block(home):
        branch = tree.parents.get(block)
        if not isinstance(branch, cst.If) or block_of(branch) is not block or tree.statement(branch) is not branch:
            return None
        around.insert(0, branch)
        block = tree.block(branch)
    tests = [*takewhile(lambda each: not says_all(each), (part for each in around for part in parts_of(each.test)))]
    is_plain = all(may_be_repeated(file, each) and not _is_open(each) for each in tests)
    if not is_plain or may_change((source, *tests), file, restored, home):
        return None
    return MadeLate(home, tuple(map(tree.code, tests)))


def may_be_repeated(file: File, expression: cst.BaseExpression) -> bool:
    """Whether the calls in an expression come to the same, and do nothing else, when they are made again."""
    for call in find(expression, cst.Call):
        name = call.func.value if isinstance(call.func, cst.Name) else ""
        is_builtin = name in _BUILTINS and file.scopes.of(call).find(name) is None
        is_builtin = is_builtin or (isinstance(call.func, cst.Attribute) and _is_format(call.func))
        if not is_builtin and file.names.callee(call) not in _ANSWERING:
            return False
    return True


def _is_format(func: cst.Attribute) -> bool:
    """Whether a method fills in a literal, as an f-string is filled in."""
    return func.attr.value == "format" and isinstance(func.value, cst.SimpleString)


def _is_open(test: cst.BaseExpression) -> bool:
    """Whether a test needs brackets in front of an `and`."""
    return isinstance(test, (cst.BooleanOperation, cst.IfExp, cst.Lambda, cst.NamedExpr)) and not test.lpar


def may_change(parts: Iterable[cst.BaseExpression], file: File, first: Statement, last: Statement) -> bool:
    """Whether a name or attribute in some expressions is given a value, or gone, behind one statement or in a later."""
    order, scope = file.tree.order, file.scopes.of(last)
    end = max(order[each] for each in walk(last))
    read = (each for part in parts for each in walk(part) if isinstance(each, (cst.Name, cst.Attribute)))
    paths = {dotted(each) for each in read if not file.tree.is_attribute(each)}
    changed = [binding.node for path in paths if path for binding in scope.lookup(path)]
    changed += (each for each in file.tree.every(cst.Del) if not paths.isdisjoint(map(dotted, walk(each))))
    return any(order[first] < order[each] <= end for each in changed)


def early_calls(
    project: Project, file: File, node: cst.CSTNode, homes: Mapping[cst.CSTNode, Statement]
) -> Iterator[tuple[Statement, CallSite]]:
    """The calls above what makes a scaler that may come to a place in another function, with what makes it.

    Args:
        homes: what makes a scaler, by the function or module in which it does.
    """
    places, seen = [(file, node)], set[cst.CSTNode]()
    for where, place in places:  # grows while it is gone through
        function = where.tree.function(place)
        if function is None or function in seen:
            continue
        seen.add(function)
        for site in _calls_of(project, project.reference(where, function)):
            tree = site.file.tree
            home = homes.get(tree.function(site.call) or tree.module)
            if home is not None and tree.order[site.call] < tree.order[home]:
                yield home, site
            elif home is None:
                places.append((site.file, site.call))


def _calls_of(project: Project, function: FunctionRef) -> Iterator[CallSite]:
    """The calls that may run a function: those of a method that it overrides, too."""
    lineage = project.lineage(function.file, function.owner) if function.owner is not None else ()
    overridden = ((file, method_of(each, function.name)) for file, each in lineage)
    found = {method: project.reference(file, method) for file, method in overridden if method is not None}
    for each in {function.node: function, **found}.values() if function.name != "__init__" else (function,):
        yield from project.running(each) or ()
        yield from project.possible_calls(each)
