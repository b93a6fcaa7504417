"""Statements that are there for the sake of `apex.amp` alone: imports, and what complains where Apex is missing."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.analysis.bindings import dotted
from amp_migrate.analysis.files import File, object_bindings
from amp_migrate.analysis.project import Project
from amp_migrate.frozen import frozen
from amp_migrate.steps.apex.uses.apex_calls import is_in, keepings
from amp_migrate.steps.apex.uses.cast_functions import is_needless
from amp_migrate.steps.statements.bodies import bodies
from amp_migrate.tables.apex_names import AMP, PROBES
from amp_migrate.trees.nodes import (
    Statement,
    block_of,
    compared_with_none,
    is_constant,
    last_word,
    nested_statements,
    statements,
)

_IMPORTERS = ("importlib.import_module", "builtins.__import__")
_FINDERS = ("importlib.util.find_spec", "importlib.find_loader", "pkgutil.find_loader")


def is_apex_import(file: File, statement: Statement) -> bool:
    """Whether a statement only brings in `apex.amp`, by itself or in a `try` that complains where it is missing.

    A registration that native AMP does without belongs to it, and a global or an attribute that `apex.amp` is kept in;
    so does what insists that the import succeeded. What only another PyTorch would import stays with what uses it.
    """
    if file.names.is_never_run(statement):
        return False
    if isinstance(statement, cst.Global):
        return all(file.names.meanings(item.name) == {AMP} for item in statement.names)
    if isinstance(statement, cst.ImportFrom):
        names = [] if isinstance(statement.names, cst.ImportStar) else statement.names
        return dotted(statement.module) == "apex" and [dotted(alias.name) for alias in names] == ["amp"]
    if isinstance(statement, cst.Import):
        return [dotted(alias.name) for alias in statement.names] in (["apex"], [AMP])
    if isinstance(statement, cst.Try) and statement.orelse is None and statement.finalbody is None:
        return all(is_apex_import(file, each) for each in statements(block_of(statement))) and _complains(statement)
    is_kept = any(statement is each for each in keepings(file))
    return insists(file, statement) or is_needless(file, statement) or is_kept or _says_none(file, statement)


def goes_with_import(file: File, use: cst.CSTNode) -> bool:
    """Whether a use is `amp = None`, before the import of Apex or where that is missing: it goes with that."""
    around = (each for each in file.tree.ancestors(use) if isinstance(each, cst.Try))
    return any(is_apex_import(file, each) for each in (file.tree.statement(use), *around))


def _says_none(file: File, statement: Statement) -> bool:
    """Whether a statement only says that something is not `apex.amp`, which elsewhere it is: `amp = None`."""
    if not isinstance(statement, cst.Assign) or len(statement.targets) > 1 or not is_constant(statement.value, "None"):
        return False
    target = statement.targets[0].target
    if (dotted(target) or "").rpartition(".")[2] != "amp":
        return False
    values = [each.value for each in object_bindings(file, target) if each.value is not None]
    return AMP in file.names.meanings(target) or any(AMP in file.names.meanings(each) for each in values)


def probes_for_apex(file: File) -> bool:
    """Whether an import of `apex.amp` stands in a `try` that does more than complain where it fails: sets a flag."""
    for _, body in bodies(file):
        for statement in nested_statements(body):
            if isinstance(statement, (cst.Import, cst.ImportFrom)) and is_apex_import(file, statement):
                guard = guard_of(file, statement)
                if guard is not None and not is_apex_import(file, guard):
                    return True
    return False


@frozen
class Probe:
    """An expression that sees whether Apex is there: `find_spec("apex") is not None`, `"apex" in sys.modules`.

    Attributes:
        node: the whole question.
        package: the string that names Apex.
        answer: what the question gives where Apex is there; None where it depends on whether it was imported already.
    """

    node: cst.BaseExpression
    package: cst.SimpleString
    answer: bool | None


def imports_by_name(file: File) -> Iterator[tuple[cst.Call, str]]:
    """The calls of a file that import something of Apex by a string, each with its full name."""
    for call in file.calls if "apex" in file.tree.text else ():
        name = call.args[0].value if call.args else None
        if isinstance(name, cst.SimpleString) and _is_importer(file, call):
            yield call, str(name.evaluated_value)


def _is_importer(file: File, call: cst.Call) -> bool:
    is_builtin = dotted(call.func) == "__import__" and file.scopes.of(call).find("__import__") is None
    return is_builtin or file.names.callee(call) in _IMPORTERS


def amp_by_name(file: File) -> cst.Call | None:
    """The first call of a file that imports `apex.amp` by a string, or a package of which the file takes `.amp`."""
    of = [node.value for node in file.uses.get("amp", ()) if isinstance(node, cst.Attribute)]
    for call, full in imports_by_name(file):
        is_taken = full == "apex" and any(b.value is call for node in of for b in object_bindings(file, node))
        if is_taken or is_in(full, (AMP,)):
            return call
    return None


def find_probes(file: File) -> Iterator[Probe]:
    """The expressions of a file that ask the import system for Apex, or for `apex.amp`."""
    for call in file.calls if "apex" in file.tree.text else ():
        package = _apex(call.args[0].value) if len(call.args) == 1 else None
        if package is None or file.names.callee(call) not in _FINDERS:
            continue
        parent = file.tree.parents[call]
        if not isinstance(parent, cst.Comparison):
            yield Probe(call, package, answer=True)
        elif (asked := compared_with_none(parent)) is not None and asked[0] is call:
            yield Probe(parent, package, answer=asked[1])
    for modules in file.uses.get("modules", ()):
        comparison = file.tree.parents[file.tree.parents[modules]]
        if not isinstance(comparison, cst.Comparison) or file.names.meanings(modules) != {"sys.modules"}:
            continue
        operators = [type(each.operator) for each in comparison.comparisons]
        if (package := _apex(comparison.left)) is not None and operators in ([cst.In], [cst.NotIn]):
            answer = (operators == [cst.In]) if _is_imported_first(file) else None
            yield Probe(comparison, package, answer)


def _is_imported_first(file: File) -> bool:
    """Whether a file has imported Apex, where that could be had, before any of its functions runs."""
    for statement in statements(file.tree.module):
        for each in statements(block_of(statement)) if isinstance(statement, cst.Try) else [statement]:
            module = each.module if isinstance(each, cst.ImportFrom) else None
            names = [alias.name for alias in each.names] if isinstance(each, cst.Import) else [module]
            if any((dotted(name) or "").partition(".")[0] == "apex" for name in names if name is not None):
                return True
    return False


def _apex(node: cst.BaseExpression) -> cst.SimpleString | None:
    """A string that names Apex or `apex.amp`; None for anything else."""
    return node if isinstance(node, cst.SimpleString) and node.evaluated_value in ("apex", AMP) else None


def library_probes(project: Project, file: File) -> Iterator[cst.Call]:
    """The calls by which a file has another package ask for Apex, which knows of no shim: `is_apex_available()`."""
    for word in PROBES:
        for node in file.uses.get(word, ()):
            call = file.tree.parents[node]
            if isinstance(call, cst.Call) and call.func is node and project.definition(file, node) is None:
                yield call


def insists(file: File, statement: Statement) -> bool:
    """Whether a statement only makes sure that `apex.amp` is there: `assert amp is not None`, an `if` that raises."""
    if isinstance(statement, cst.Assert):
        return _tests_for(file, statement.test, present=True)
    if not isinstance(statement, cst.If) or statement.orelse is not None:
        return False
    raises = [isinstance(each, cst.Raise) for each in statements(block_of(statement))]
    return raises == [True] and _tests_for(file, statement.test, present=False)


def _tests_for(file: File, test: cst.BaseExpression, *, present: bool) -> bool:
    """Whether a test is true because `apex.amp` is there, or false because of that, whatever else it asks."""
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        return _tests_for(file, test.expression, present=not present)
    if (probe := next((each for each in find_probes(file) if each.node is test), None)) is not None:
        return probe.answer == present
    if (asked := compared_with_none(test)) is not None:
        return asked[1] == present and AMP in file.names.meanings(asked[0])
    if isinstance(test, cst.BooleanOperation):
        sides = [_tests_for(file, each, present=present) for each in (test.left, test.right)]
        return any(sides) if isinstance(test.operator, cst.Or) is present else all(sides)
    if isinstance(test, cst.Call) and not test.args:  # from wherever it was copied
        return present and last_word(test.func) in PROBES
    return present and isinstance(test, cst.Name) and AMP in file.names.meanings(test)


def guard_of(file: File, statement: Statement) -> cst.Try | None:
    """The `try` that an import stands in directly."""
    around = file.tree.parents.get(file.tree.block(statement))
    return around if isinstance(around, cst.Try) and around.body is file.tree.block(statement) else None


def alone_in_guard(file: File, statement: Statement) -> Statement:
    """The `try` that complains where Apex is missing, and has nothing but a statement beside imports; else that."""
    guard = guard_of(file, statement)
    if guard is None or guard.orelse is not None or guard.finalbody is not None or not _complains(guard):
        return statement
    others = (each for each in statements(block_of(guard)) if each is not statement)
    return guard if all(is_apex_import(file, each) for each in others) else statement


def is_only_import(guard: cst.Try) -> bool:
    """Whether a `try` imports, complains where that fails, and does nothing else."""
    imports = all(isinstance(each, (cst.Import, cst.ImportFrom)) for each in statements(block_of(guard)))
    return imports and guard.orelse is None and guard.finalbody is None and _complains(guard)


def _complains(guard: cst.Try) -> bool:
    return all(only_tells(each) for handler in guard.handlers for each in statements(block_of(handler)))


def only_tells(statement: Statement) -> bool:
    """Whether a statement of an `except` only tells that Apex is missing: raises, prints, passes, sets amp to None."""
    if isinstance(statement, cst.Assign):
        targets = [dotted(each.target) for each in statement.targets]
        return targets == ["amp"] and is_constant(statement.value, "None")
    return isinstance(statement, (cst.Raise, cst.Pass, cst.Expr))
