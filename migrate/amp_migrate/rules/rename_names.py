"""Applies the rules about names to one file: every use of an old name, and the imports that bring it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import Project
from amp_migrate.analysis.wanted import Wanted, everything
from amp_migrate.report.finding import Finding, Kind
from amp_migrate.report.rule import Rule
from amp_migrate.rules.arguments import laid_out, switched_off
from amp_migrate.rules.imports import moves_of, star_imports, write_moves
from amp_migrate.rules.places import is_provided_for, names_a_type
from amp_migrate.rules.rule import Context, Rename, Unsure, name_rules
from amp_migrate.settings import Dtype
from amp_migrate.steps.draft import Draft
from amp_migrate.trees import build


@dataclass(frozen=True)
class Use:
    """One use of an old name."""

    node: cst.Name | cst.Attribute
    rule: Rule
    rename: Rename


def rename_names(
    file: File,
    project: Project,
    draft: Draft,
    dtype: Dtype,
    removed: frozenset[cst.CSTNode] = frozenset(),
    disabled: frozenset[cst.CSTNode] = frozenset(),
    wanted: Wanted = everything,
) -> Iterator[Finding]:
    """Rewrite the deprecated names of a file; what stays is told in the findings.

    Args:
        removed: uses that go away with the code around them.
        disabled: calls that are to say `enabled=False`.
    """
    sure, doubtful = _uses(file)
    sure = [use for use in sure if use.node not in removed and wanted(file, use.node, use.rule.code)]
    doubtful = [use for use in doubtful if wanted(file, use.node, use.rule.code)]
    refused: dict[cst.CSTNode, Unsure] = {use.node: _AMBIGUOUS for use in doubtful}
    calls: dict[cst.CSTNode, list[cst.Arg]] = {}
    for use in sure:
        if file.names.is_shadowed("torch", use.node):
            refused[use.node] = _SHADOWED
            continue
        if is_provided_for(file, use.node, use.rename):
            refused[use.node] = _PROVIDED_FOR
            continue
        result = _arguments(Context(draft, use.node, dtype), file, use)
        if isinstance(result, Unsure):
            refused[use.node] = result
        elif result is not None:
            calls[use.node] = switched_off(result) if file.tree.parents[use.node] in disabled else result
    moves = moves_of(file, project, {u.node: u.rename for u in sure if u.node not in refused}, removed)
    for use in sure:
        if use.node in refused:
            continue
        _write_use(file, draft, use, calls.get(use.node), keeps_name=use.node in moves.kept)
        yield _finding(file, use, Kind.MIGRATED, f"{use.rename.old} is now {use.rename.new}")
    write_moves(draft, moves)
    for alias, full in moves.exported:
        line, column = file.tree.position(alias)
        message = f"{full} left as it was: other files import it from here"
        yield Finding(
            file.name, line, column, "AMP190", Kind.LEFT, message, "import it from torch.amp there, then here"
        )
    for statement, package in star_imports(file):
        line, column = file.tree.position(statement)
        message = f"from {package} import * left as it was: what it brings cannot be told"
        yield Finding(
            file.name, line, column, "AMP190", Kind.LEFT, message, "import the names from torch.amp, one by one"
        )
    for use in (*sure, *doubtful):
        if use.node in refused:
            why = refused[use.node]
            yield _finding(file, use, Kind.LEFT, f"{use.rename.old} left as it was: {why.reason}", why.hint)


_AMBIGUOUS = Unsure(
    "the name stands for different things on different ways to this line",
    "import it from torch.amp on every way, and give autocast its device_type",
)

_SHADOWED = Unsure("`torch` is the name of something else here", "give it another name, so that torch can be imported")
_PROVIDED_FOR = Unsure(
    "the code around it chooses between the old PyTorch and the new",
    "drop the old branch when no old PyTorch has to be served",
)


def _uses(file: File) -> tuple[list[Use], list[Use]]:
    """The uses of old names: those that mean exactly one, and those that may also mean something else."""
    sure: list[Use] = []
    doubtful: list[Use] = []
    for rule in name_rules():
        renames = {rename.old: rename for rename in rule.renames}
        for node in _nodes(file, {old.rpartition(".")[2] for old in renames}):
            if isinstance(file.tree.parents[node], cst.AssignTarget):
                continue
            meanings = file.names.meanings(node)
            hits = sorted(meanings & set(renames))
            if hits:
                use = Use(node, rule.rule, renames[hits[0]])
                (sure if len(meanings) == 1 else doubtful).append(use)
    order = file.tree.order
    return sorted(sure, key=lambda u: order[u.node]), sorted(doubtful, key=lambda u: order[u.node])


def _nodes(file: File, last_words: set[str]) -> Iterator[cst.Name | cst.Attribute]:
    """Names and chains that may end in one of some words, local names of imports included."""
    local = {
        name
        for scope in file.scopes.all()
        for name, bindings in scope.bindings.items()
        if any(binding.imported.rpartition(".")[2] in last_words for binding in bindings)
    }
    for word in sorted(last_words | local):
        yield from file.uses.get(word, ())


def _arguments(context: Context, file: File, use: Use) -> list[cst.Arg] | Unsure | None:
    """The new arguments of the call a name is the callee of; None where it is not called and need not be."""
    parent = file.tree.parents[use.node]
    if isinstance(parent, cst.Call) and parent.func is use.node:
        if use.rename.arguments is None:
            return list(parent.args)
        new = use.rename.arguments(context, tuple(parent.args))
        return new if isinstance(new, Unsure) else laid_out(new, parent.args)
    if isinstance(parent, cst.Decorator) and use.rename.bare_call and use.rename.arguments is not None:
        return use.rename.arguments(context, ())
    if use.rename.arguments is None or (use.rename.is_type and names_a_type(file.tree, use.node)):
        return None
    if isinstance(parent, cst.Arg) and isinstance(file.tree.parents[parent], cst.ClassDef):
        return Unsure(
            "a class derives from it, and may be made with the old arguments",
            f"derive from {use.rename.new}, and pass the device first wherever the class is made",
        )
    return Unsure(
        "it is used as a value, and whoever calls it passes the old arguments",
        f"wrap it: functools.partial({use.rename.new}, ...) with the device, and check its calls",
    )


def _write_use(file: File, draft: Draft, use: Use, args: list[cst.Arg] | None, *, keeps_name: bool) -> None:
    parent = file.tree.parents[use.node]
    name: cst.BaseExpression = use.node
    if not keeps_name:
        name = build.expression(_new_name(draft, use))
    if args is None:
        if name is not use.node:
            draft.edits.replace(use.node, name)
    elif isinstance(parent, cst.Call):
        func = None if keeps_name else name
        draft.edits.change(parent, lambda node: _with_arguments(node, parent, func, args))
    else:
        draft.edits.replace(use.node, cst.Call(name, args))


def _with_arguments(
    node: cst.CSTNode, original: cst.Call, func: cst.BaseExpression | None, args: list[cst.Arg]
) -> cst.CSTNode:
    """A call with new arguments; the values that it had keep what was rewritten inside them."""
    assert isinstance(node, cst.Call)
    rewritten = {old.value: new.value for old, new in zip(original.args, node.args, strict=True)}
    new_args = [arg.with_changes(value=rewritten.get(arg.value, arg.value)) for arg in args]
    return node.with_changes(func=node.func if func is None else func, args=new_args)


def _new_name(draft: Draft, use: Use) -> str:
    module, _, name = use.rename.new.rpartition(".")
    if module == "torch.amp":
        return draft.amp(name, use.node)
    return f"{draft.torch(use.node)}.{name}"


def _finding(file: File, use: Use, kind: Kind, message: str, hint: str = "") -> Finding:
    line, column = file.tree.position(use.node)
    return Finding(file.name, line, column, use.rule.code, kind, message, hint)
