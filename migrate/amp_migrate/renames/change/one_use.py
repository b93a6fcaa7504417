"""What becomes of one use of an old name: a call, a decorator, a base class, a type, or a value that is handed on."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import Project
from amp_migrate.frozen import frozen
from amp_migrate.plan.code import Code, code, listed
from amp_migrate.plan.edit import Edit, Given, NewArguments
from amp_migrate.renames.convert_arguments import switched_off
from amp_migrate.renames.find.surroundings import is_only_tested, names_a_type
from amp_migrate.renames.find.uses import Use
from amp_migrate.renames.follow.carried_values import Followed, is_called_by_keyword, meant_by_name, partial_call
from amp_migrate.renames.rename import Conversion, Unsure, UsePlace
from amp_migrate.trees.nodes import find, walk
from amp_migrate.write.editor import Editor


@frozen
class Rewrite:
    """What becomes of a use beside its name.

    Attributes:
        calls: the calls that get new arguments, each with these.
        made: the arguments to call the name with where it stands, because it is not called there.
        held: the arguments that `functools.partial` is to hold for whoever calls the name.
        alias: the name that a value is given, where every call of that name is rewritten as a use of its own.
    """

    calls: tuple[tuple[cst.Call, tuple[Given, ...]], ...] = ()
    made: tuple[Given, ...] | None = None
    held: tuple[Given, ...] | None = None
    alias: str | None = None


_VALUE = (
    "it is used as a value, and whoever calls it passes the old arguments",
    "wrap it: functools.partial({new}, ...) with the device, and check its calls",
)
_BASE = (
    "a class derives from it, and may be made with the old arguments",
    "derive from {new}, and pass the device first wherever the class is made",
)


def rewrite_of(
    context: UsePlace, project: Project, use: Use, handed_on: frozenset[str], *, disabled: bool
) -> Rewrite | Unsure:
    """Decide about a use.

    Args:
        handed_on: the names that other files take from this one, and whose uses there are rewritten as well.
        disabled: whether a call is to say `enabled=False`.
    """
    file, convert = context.editor.file, use.rename.arguments
    parent = file.tree.parents[use.node]
    is_named_only = use.rename.is_type and names_a_type(file.tree, use.node)
    if convert is None or is_named_only or is_only_tested(file.tree, use.node):
        return Rewrite()
    if isinstance(parent, cst.Call) and parent.func is use.node:
        return _calls(context, convert, [(parent, 0)], disabled=disabled)
    if isinstance(parent, cst.Decorator) and use.rename.bare_call:
        made = convert(context, ())
        return made if isinstance(made, Unsure) else Rewrite(made=tuple(made))
    if isinstance(parent, cst.Arg) and isinstance(owner := file.tree.parents[parent], cst.ClassDef):
        inits = _inits_of_base(owner, parent.value)
        return _calls(context, convert, inits) if inits else _unsure(_BASE, use)
    deriving = _deriving_class(file, use.node)
    if deriving is not None:  # whose base is a use of its own, and gives this call its arguments
        rewrite = _calls(context, convert, _inits_of_base(deriving, use.node))
        return rewrite if isinstance(rewrite, Unsure) else Rewrite()
    partial = partial_call(file, use.node)
    followed = meant_by_name(project, file, partial or use.node, use.rename.old, handed_on)
    if followed is Followed.WHOLLY and partial is None:
        return Rewrite(alias=use.rename.old.rpartition(".")[2])
    if followed is not Followed.NOT or not is_called_by_keyword(project, file, partial or use.node):
        return _unsure(_VALUE, use)
    if partial is not None:
        return _calls(context, convert, [(partial, 1)])
    held = convert(context, ())
    return held if isinstance(held, Unsure) else Rewrite(held=tuple(held))


def write_use(editor: Editor, use: Use, rewrite: Rewrite, *, keeps_name: bool) -> Iterator[Edit]:
    """The edits of what was decided."""
    name: Code | None = None if keeps_name else editor.named(use.rename.new, use.node)
    if rewrite.made is not None:
        name = code("{}({})", name or editor.text(use.node), listed(each.code for each in rewrite.made))
    elif rewrite.held is not None:
        held = listed((name or editor.text(use.node), *(each.code for each in rewrite.held)))
        name = code("{}({})", editor.named("functools.partial", use.node), held)
        if _is_class_attribute(editor.file, use.node):
            name = code("staticmethod({})", name)
    if name is not None:
        yield editor.replace(use.node, name)
    for call, args in rewrite.calls:
        yield editor.edit(call, NewArguments(args))


def _is_class_attribute(file: File, value: cst.CSTNode) -> bool:
    """Whether a value is assigned in the body of a class, where a partial is a method from Python 3.14 on."""
    parent = file.tree.parents[value]
    while isinstance(parent, cst.IfExp):
        parent = file.tree.parents[parent]
    return isinstance(parent, (cst.Assign, cst.AnnAssign)) and file.scopes.of(value).is_class


def _calls(
    context: UsePlace, convert: Conversion, calls: list[tuple[cst.Call, int]], *, disabled: bool = False
) -> Rewrite | Unsure:
    """New arguments for calls, of each from a place on."""
    found: list[tuple[cst.Call, tuple[Given, ...]]] = []
    for call, start in calls:
        new = convert(context, tuple(call.args[start:]))
        if isinstance(new, Unsure):
            return new
        before = map(Given, call.args[:start])
        found.append((call, (*before, *(switched_off(new) if disabled else new))))
    return Rewrite(tuple(found))


def _inits_of_base(owner: cst.ClassDef, base: cst.BaseExpression) -> list[tuple[cst.Call, int]]:
    """The calls of a base's `__init__` in that of a class, each with where the base's arguments begin."""
    calls = (
        call
        for method in find(owner.body, cst.FunctionDef)
        if method.name.value == "__init__"
        for call in walk(method.body)
        if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) and call.func.attr.value == "__init__"
    )
    found = []
    for call in calls:
        named = call.func.value if isinstance(call.func, cst.Attribute) else call.func
        if isinstance(named, cst.Call) and isinstance(named.func, cst.Name) and named.func.value == "super":
            found.append((call, 0))
        elif named.deep_equals(base) and call.args and call.args[0].keyword is None and not call.args[0].star:
            found.append((call, 1))  # `Base.__init__(self, ...)`
    return found


def _deriving_class(file: File, name: cst.CSTNode) -> cst.ClassDef | None:
    """The class whose `__init__` calls that of a base by the base's name, at this name; None elsewhere."""
    owner = file.tree.owner_class(name)
    if owner is None or not any(each.value.deep_equals(name) for each in owner.bases):
        return None
    calls = (call.func for call, start in _inits_of_base(owner, name) if start)  # type: ignore[arg-type]
    return owner if any(isinstance(each, cst.Attribute) and each.value is name for each in calls) else None


def _unsure(said: tuple[str, str], use: Use) -> Unsure:
    return Unsure(said[0], said[1].format(new=use.rename.new))
