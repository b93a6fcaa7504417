"""The calls of `apex.amp`, by what their names stand for."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.analysis.bindings import dotted, import_source, local_name
from amp_migrate.analysis.files import File, object_bindings
from amp_migrate.tables.apex_names import AMP, API, FP16_UTILS, WRAPPERS
from amp_migrate.tables.apex_natives import public_name
from amp_migrate.trees.nodes import never_holds, subscript_key, written_string

_OF_AMP = f"{AMP}."
_NAMING = (cst.Attribute, cst.ImportAlias, cst.AsName, cst.ImportFrom, cst.NameItem)


def amp_name(file: File, node: cst.CSTNode) -> str | None:
    """What a name of `apex.amp` stands for (`scale_loss`); None for any other name, and where it is never run.

    A name that is also bound to None or a stub where Apex is missing counts: that is the guard, not another meaning.
    """
    found = _amp_name(file, node)
    return None if found is None or file.names.is_never_run(node) else found


def _amp_name(file: File, node: cst.CSTNode) -> str | None:
    named = [full for full in file.names.meanings(node) if full.startswith(_OF_AMP)]
    if named:
        return min(named).removeprefix(_OF_AMP)
    if not isinstance(node, cst.Attribute):
        return None
    if node.attr.value == "scale_loss" and is_handle(file, node.value):
        return "scale_loss"
    if isinstance(node.value, cst.Name):
        # Imported in one function and used in another, where nothing binds it: what else could be meant?
        is_unbound = node.attr.value in API and file.scopes.of(node).find(node.value.value) is None
        return node.attr.value if is_unbound and node.value.value in _amp_names(file) else None
    if isinstance(node.value, cst.Attribute):
        kept = {dotted(each.targets[0].target) for each in keepings(file)} - {None}
        is_kept_elsewhere = node.attr.value == "scale_loss" and node.value.attr.value == "amp" and _amp_names(file)
        return node.attr.value if dotted(node.value) in kept or is_kept_elsewhere else None
    return None


def is_handle(file: File, node: cst.BaseExpression) -> bool:
    """Whether something is what `amp.init()` gave back, by every assignment: it scales losses as `apex.amp` does."""
    values = [each.value for each in object_bindings(file, node)]
    calls = [each for each in values if isinstance(each, cst.Call)]
    return bool(values) and len(calls) == len(values) and all(amp_name(file, each.func) == "init" for each in calls)


def _amp_names(file: File) -> set[str]:
    """What `apex.amp` is called anywhere in a file."""
    bound = (item for scope in file.scopes.all() for item in scope.bindings.items())
    return {name for name, bindings in bound if any(binding.imported == AMP for binding in bindings)}


def takes_amp(file: File) -> bool:
    """Whether a file gets `apex.amp` from another one of the project that imports it."""
    return bool(handed_on(file)) or any(
        AMP in file.names.meanings(node) and file.scopes.of(node).find("amp") is None
        for node in (file.uses.get("amp", ()) if file.scopes.module.star_imports else ())
        if isinstance(node, cst.Name)
    )


def handed_on(file: File) -> list[tuple[cst.ImportFrom, cst.ImportAlias]]:
    """The items of imports from other files of the project that bring `apex.amp`, each with its statement."""
    return [
        (node, alias)
        for node in file.tree.every(cst.ImportFrom)
        if import_source(node).partition(".")[0] != "apex" and not isinstance(node.names, cst.ImportStar)
        for alias in node.names
        for binding in file.scopes.of(node).bindings.get(local_name(alias), ())
        if binding.node is node and AMP in file.names.brought(binding)
    ]


def keepings(file: File) -> Iterator[cst.Assign]:
    """The assignments that keep `apex.amp` in an attribute, `args.amp = amp`, or in `globals()` under its name."""
    for node in file.uses.get("amp", ()):
        statement = file.tree.parents[node]
        if not isinstance(statement, cst.Assign) or statement.value is not node or len(statement.targets) > 1:
            continue
        target = statement.targets[0].target
        is_global = isinstance(target, cst.Subscript) and file.tree.code(target.value) == "globals()"
        is_kept = isinstance(target, cst.Attribute) or (is_global and written_string(subscript_key(target)) == "amp")
        if is_kept and AMP in file.names.meanings(node):
            yield statement


def amp_calls(file: File, name: str) -> Iterator[cst.Call]:
    """The calls of `apex.amp.<name>` in a file."""
    for call in file.calls:
        if amp_name(file, call.func) == name:
            yield call


def amp_uses(file: File) -> Iterator[cst.Name | cst.Attribute]:
    """Whatever names `apex.amp`, or something of it, but for the imports."""
    for node in file.tree.every(cst.Name, cst.Attribute):
        parent = file.tree.parents[node]
        if isinstance(parent, _NAMING) or (isinstance(parent, cst.Arg) and parent.keyword is node):
            continue
        is_amp = AMP in file.names.meanings(node) and not file.names.is_never_run(node)
        if is_amp or amp_name(file, node) is not None:
            yield node


def apex_uses(file: File, prefix: str) -> Iterator[cst.Attribute]:
    """The chains of a file that stand for a package of Apex (`apex.parallel`), through `import apex`."""
    for node in file.uses.get(prefix.rpartition(".")[2], ()):
        if isinstance(node, cst.Attribute) and prefix in file.names.meanings(node):
            yield node


def wrapper_calls(file: File) -> list[cst.Call]:
    """The calls that make an `FP16_Optimizer`."""
    if "FP16_Optimizer" not in file.tree.text:
        return []
    calls = (call for call in file.calls if public_name(file.names.callee(call)) in WRAPPERS)
    return [call for call in calls if not _is_switched_off(file, call)]


def _is_switched_off(file: File, node: cst.CSTNode) -> bool:
    """Whether somebody has switched off what a node stands in."""
    inside = node
    for around in file.tree.ancestors(node):
        if isinstance(around, cst.If) and inside is around.body and never_holds(around.test):
            return True
        inside = around
    return False


def has_later_wrapper(file: File) -> bool:
    """Whether a file makes an `FP16_Optimizer` of another package than the first, which the shim does not have."""
    return any(not is_in(file.names.callee(call), (FP16_UTILS,)) for call in wrapper_calls(file))


def is_in(name: str, packages: tuple[str, ...]) -> bool:
    """Whether a full name is that of one of some packages, or of something inside."""
    return any(name == package or name.startswith(package + ".") for package in packages)
