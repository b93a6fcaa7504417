"""What a script does with the models and optimizers that `amp.initialize` gives back."""

from __future__ import annotations

import libcst as cst

from amp_migrate.analysis.bindings import BindingKind, dotted
from amp_migrate.analysis.files import File
from amp_migrate.steps.apex.initialize.branches import negated
from amp_migrate.trees.nodes import Statement, is_constant


def rebinds_of(
    file: File, statement: Statement, call: cst.Call, arguments: dict[str, cst.BaseExpression]
) -> list[str] | None:
    """The lines that stay of a call: what becomes of its result, as code; None where that cannot be seen."""
    if isinstance(statement, cst.Expr) and statement.value is call:
        return []
    named = (arguments.get(name) for name in ("models", "optimizers"))
    given = [each for each in named if each is not None and not is_constant(each, "None")]
    if isinstance(statement, cst.Return) and statement.value is call:
        return [f"return {_given_back(file, given)}"]
    if not isinstance(statement, cst.Assign) or len(statement.targets) != 1:
        return None
    if statement.value is not call and not chosen_by(file, statement, call, arguments):
        return None
    target = statement.targets[0].target
    if isinstance(target, cst.Name) and len(given) > 1:
        return [f"{target.value} = {_given_back(file, given)}"]
    targets = [each.value for each in target.elements] if isinstance(target, cst.Tuple) else [target]
    if len(targets) != len(given):
        return None
    lines: list[str] = []
    for left, right in zip(targets, given, strict=True):
        code = (_flat_code(file, left), _flat_code(file, right))
        if code[0] != code[1] and code[0] != "_":
            lines.append(f"{file.tree.code(left)} = {file.tree.code(right)}")
    return lines


def chosen_by(
    file: File, statement: Statement, call: cst.Call, arguments: dict[str, cst.BaseExpression]
) -> tuple[str, ...]:
    """The condition of a call that a statement makes, or takes what goes into it as it is.

    That is of `model, optimizer = amp.initialize(model, optimizer) if args.fp16 else (model, optimizer)`.
    """
    chosen = statement.value if isinstance(statement, cst.Assign) else None
    if not isinstance(chosen, cst.IfExp) or call not in (chosen.body, chosen.orelse):
        return ()
    is_first = chosen.body is call
    given = [arguments[name] for name in ("models", "optimizers") if name in arguments]
    other = chosen.orelse if is_first else chosen.body
    parts = [each.value for each in other.elements] if isinstance(other, cst.Tuple) else [other]
    if list(map(file.tree.code, parts)) != list(map(file.tree.code, given)):
        return ()
    return (file.tree.code(chosen.test) if is_first else negated(chosen.test),)


def handed_back(
    file: File, statement: Statement, behind: Statement, arguments: dict[str, cst.BaseExpression]
) -> tuple[Statement, ...]:
    """The statements that only put results where they came from, by names of their own: `self.net = net`.

    Args:
        behind: what they stand behind: the statement that initializes, or what it stands in.
    """
    target = statement.targets[0].target if isinstance(statement, cst.Assign) else None
    names = [each.value for each in target.elements] if isinstance(target, cst.Tuple) else [target]
    given = [arguments[name] for name in ("models", "optimizers") if name in arguments]
    siblings = file.tree.siblings(behind)
    found = siblings[siblings.index(behind) + 1 :][: len(names)]
    if len(given) != len(names) or len(found) != len(names):
        return ()
    for name, came_from, back in zip(names, given, found, strict=True):
        if not isinstance(name, cst.Name) or not isinstance(back, cst.Assign) or len(back.targets) != 1:
            return ()
        scope = file.scopes.of(name).find(name.value)
        uses = [each for each in file.uses[name.value] if isinstance(each, cst.Name)]
        own = {each for each in uses if file.scopes.of(each).find(each.value) is scope}
        is_local = scope is not None and isinstance(scope.node, cst.FunctionDef)
        is_back = file.tree.code(back.targets[0].target) == file.tree.code(came_from)
        if not is_local or not is_back or own != {name, back.value}:
            return ()
    return tuple(found)


def _given_back(file: File, given: list[cst.BaseExpression]) -> str:
    """What `initialize` returns: a pair only where there is an optimizer."""
    codes = [file.tree.code(each) for each in given]
    if len(codes) > 1 and _may_be_none(file, given[1]):
        return f"({codes[0]}, {codes[1]}) if {codes[1]} is not None else {codes[0]}"
    return ", ".join(codes)


def _may_be_none(file: File, node: cst.BaseExpression) -> bool:
    """Whether a name may stand for None: a parameter may, and what is assigned None somewhere."""
    path = dotted(node)
    bindings = [] if path is None else file.scopes.of(node).lookup(path)
    return any(binding.kind is BindingKind.PARAMETER or is_constant(binding.value, "None") for binding in bindings)


def _flat_code(file: File, node: cst.BaseExpression) -> str:
    """The text of an expression, a list and a tuple of the same names alike."""
    if isinstance(node, (cst.List, cst.Tuple)):
        return ",".join(_flat_code(file, element.value) for element in node.elements)
    return file.tree.code(node)
