"""Classes and functions of Apex beside `apex.amp` that torch has itself, with arguments that keep the meaning.

A file takes a name from torch for all its uses or for none: an object and the `isinstance` that asks for its class
move together.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping

import libcst as cst

from amp_migrate.analysis.bindings import Binding
from amp_migrate.analysis.files import File, object_bindings
from amp_migrate.frozen import frozen
from amp_migrate.plan.code import plain, source
from amp_migrate.plan.edit import AddArgument, Edit, Remove, SetKeyword
from amp_migrate.steps.apex.uses.apex_calls import is_in
from amp_migrate.tables.apex_names import DELETED
from amp_migrate.tables.apex_natives import NATIVES, OWN_METHODS, TorchForm, public_name
from amp_migrate.trees.nodes import is_constant
from amp_migrate.write.editor import Editor

_OLD_NAMES = frozenset(native.old for native in NATIVES)
_ABSENT = object()


@frozen
class ApexUse:
    """One use of a name of Apex.

    Attributes:
        node: the name or the chain of attributes.
        old: what it stands for, as Apex's package says it.
    """

    node: cst.Name | cst.Attribute
    old: str


@frozen
class NoForm:
    """Why a use has no native form."""

    use: ApexUse
    reason: str


def uses_of_apex(file: File) -> Iterator[ApexUse]:
    """The uses in a file of names that torch may have, in source order; those that may mean something else left out."""
    last_words = {old.rpartition(".")[2] for old in _OLD_NAMES}
    local = {
        name
        for scope in file.scopes.all()
        for name, bindings in scope.bindings.items()
        if any(public_name(binding.imported) in _OLD_NAMES for binding in bindings)
    }
    found = [
        ApexUse(node, old)
        for word in sorted(last_words | local)
        for node in file.uses.get(word, ())
        if (old := _meant(file, node)) in _OLD_NAMES and not isinstance(file.tree.parents[node], cst.AssignTarget)
    ]
    return iter(sorted(found, key=lambda use: file.tree.order[use.node]))


def _meant(file: File, node: cst.Name | cst.Attribute) -> str:
    """What a name stands for: what Apex has deleted, too, where without Apex it is what torch has for that, or None."""
    meanings = {public_name(each) for each in file.names.meanings(node)}
    deleted = {each for each in meanings & _OLD_NAMES if is_in(each, DELETED)}
    if len(meanings) < 2 or len(deleted) != 1:
        return public_name(file.names.full(node))
    (old,) = deleted
    others = [each for each in object_bindings(file, node) if public_name(each.imported) != old]
    is_for_missing = all(any(isinstance(a, cst.ExceptHandler) for a in file.tree.ancestors(b.node)) for b in others)
    torchs = {native.new for native in NATIVES if native.old == old}
    return old if is_for_missing and all(_is_none_or_of(file, each, torchs) for each in others) else ""


def _is_none_or_of(file: File, binding: Binding, names: Collection[str]) -> bool:
    """Whether a name is given None, or something that has one of some full names."""
    brought = {binding.imported} if binding.value is None else file.names.meanings(binding.value)
    return is_constant(binding.value, "None") or all(public_name(each) in names for each in brought)


def native_of(
    file: File, use: ApexUse, target_torch: tuple[int, int], gone: Collection[cst.Arg] = ()
) -> TorchForm | NoForm:
    """What torch has for one use, or why it has nothing; `gone` are arguments that others take out."""
    known = [native for native in NATIVES if native.old == use.old]
    new_enough = [native for native in known if native.since <= target_torch]
    if not new_enough:
        since = ".".join(map(str, known[0].since))
        return NoForm(use, f"{known[0].new} came with PyTorch {since}")
    own = next((name for name in OWN_METHODS.get(use.old, ()) if name in file.uses), None)
    if own is not None:
        return NoForm(use, f"torch's class has no {own}()")
    # A second import of torch costs less than the shim, which what Apex still has does not need.
    if file.spelling.local("torch", use.node) is None and "torch" in file.uses and not is_in(use.old, DELETED):
        return NoForm(use, "where `torch` comes from cannot be seen")
    parent = file.tree.parents[use.node]
    if not (isinstance(parent, cst.Call) and parent.func is use.node):
        if new_enough[0].is_value:
            return new_enough[0]
        return NoForm(use, "it is used as a value, and whoever calls it passes Apex's arguments")
    given = _given(parent, new_enough[0], gone)
    if given is None:
        return NoForm(use, "its arguments are starred, or not those of Apex")
    missed = ""
    for native in new_enough:
        defaults = _defaults(native)
        missed = next(
            (
                name
                for name, wanted in native.requires.items()
                if _literal(given.get(name), defaults.get(name)) != wanted
            ),
            "",
        )
        if not missed:
            return native
    return NoForm(use, f"torch has nothing for this {missed}=")


def write_native(editor: Editor, use: ApexUse, native: TorchForm, beside: Collection[str]) -> Iterator[Edit]:
    """The edits that write torch's name in the place of Apex's, and the arguments of a call as torch takes them.

    Args:
        beside: the packages beside which some arguments are not written.
    """
    yield editor.replace(use.node, editor.named(native.new, use.node))
    parent = editor.file.tree.parents[use.node]
    if isinstance(parent, cst.Call) and parent.func is use.node:
        yield from _arguments(editor, parent, native, beside)


def _positional(native: TorchForm) -> list[str]:
    return [word.partition("=")[0] for word in native.parameters.partition("*")[0].split()]


def _defaults(native: TorchForm) -> dict[str, object]:
    pairs = (word.partition("=") for word in native.parameters.split())
    return {name: ast.literal_eval(value) if value else "" for name, equals, value in pairs if equals}


def _given(call: cst.Call, native: TorchForm, gone: Collection[cst.Arg]) -> Mapping[str, cst.BaseExpression] | None:
    """The arguments by the names of Apex's parameters; None where one is starred or has no parameter."""
    positional, names = _positional(native), native.names
    found: dict[str, cst.BaseExpression] = {}
    for index, arg in enumerate(call.args):
        name = arg.keyword.value if arg.keyword is not None else ([*positional, *[""] * len(call.args)])[index]
        if arg in gone:
            continue
        if arg.star or name not in names:
            return None
        found[name] = arg.value
    return found


def _literal(value: cst.BaseExpression | None, default: object) -> object:
    """The value of an argument that is written out; the default where it is not given."""
    if value is None:
        return default
    try:
        return ast.literal_eval(source(value))
    except (ValueError, SyntaxError):
        return _ABSENT


def _arguments(editor: Editor, call: cst.Call, native: TorchForm, beside: Collection[str]) -> Iterator[Edit]:
    positional, target = _positional(native), editor.settings.target_torch
    said: set[str] = set()
    for index, arg in enumerate(call.args):
        name = positional[index] if arg.keyword is None else arg.keyword.value
        if name in native.names[: native.leading]:
            said.add(name)
        elif name in native.goes:
            said.add(native.goes[name])
            yield editor.edit(arg, SetKeyword(native.goes[name]))
        else:
            yield editor.edit(arg, Remove())
    for new in native.says:
        is_meant = new.since <= target and (new.before is None or target < new.before)
        if is_meant and new.keyword not in said and not any(name in beside for name in new.unless):
            yield editor.edit(call, AddArgument(plain(new.value), new.keyword))
