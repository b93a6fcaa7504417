"""A deprecated module as a value: `amp = torch.cuda.amp` is an import by other means, anything else is told.

The assignment becomes `amp = torch.amp` where every use of `amp` moves, so that the uses keep their name.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.analysis.bindings import dotted
from amp_migrate.analysis.exports import is_exported
from amp_migrate.analysis.files import File
from amp_migrate.analysis.names.file_names import UNKNOWN
from amp_migrate.analysis.project import Project
from amp_migrate.frozen import frozen
from amp_migrate.plan.edit import Edit
from amp_migrate.renames.change.moved_imports import stays_right, uses_of
from amp_migrate.renames.find.quoted_names import names_by_getattr
from amp_migrate.renames.find.surroundings import is_imported, is_only_tested
from amp_migrate.renames.old_modules import OLD_MODULES, successor
from amp_migrate.renames.rename import Rename, rule_of
from amp_migrate.settings import Settings
from amp_migrate.tables.star_names import OF_TORCH_AMP
from amp_migrate.write.editor import Editor


@frozen
class ModuleValues:
    """What becomes of the values in a file that are deprecated modules.

    Attributes:
        moved: the values that become the new module, with the full name of the old one.
        kept: the uses of their names, which stay valid.
        left: the values that stay, and why.
        rules: the rule that each value changes for.
    """

    moved: dict[cst.CSTNode, str]
    kept: frozenset[cst.CSTNode]
    left: dict[cst.CSTNode, str]
    rules: dict[cst.CSTNode, str]


def module_values(
    file: File,
    project: Project,
    renamed: dict[cst.CSTNode, Rename],
    removed: frozenset[cst.CSTNode],
    handed_on: frozenset[str],
) -> ModuleValues:
    """Decide about every deprecated module that is not followed by the name of something in it.

    Args:
        renamed: the uses that will be rewritten.
        removed: the uses that go away with the code around them.
        handed_on: the names that other files take from this one, and whose uses there move as well.
    """
    values = dict(_values(file))
    names = {value: _names_given(file, value) or _attribute_given(file, project, value) for value in values}
    left: dict[cst.CSTNode, str] = {}
    for value, full in values.items():
        exported = next((n for n in names[value] if n not in handed_on and is_exported(project, file, n)), None)
        if not names[value]:
            left[value] = f"{full} left as it was: what is taken from the module cannot be seen"
        elif exported is not None:
            left[value] = f"{full} left as it was: other files import {exported} from here"
    moved: dict[cst.CSTNode, list[cst.CSTNode]] = {}
    is_settled = False
    while not is_settled:  # `b = a` moves before `a = torch.cuda.amp` can
        is_settled = True
        for value in values.keys() - left.keys() - moved.keys():
            uses = [use for name in names[value] for use in uses_of(file, name, values[value])]
            staying = [use for use in uses if use not in removed and use not in moved]
            if all(stays_right(file, use, renamed) for use in staying):
                moved[value] = staying
                is_settled = False
    kept = frozenset(use for uses in moved.values() for use in uses)
    rules = {value: rule_of(renamed[use] for use in uses if use in renamed) for value, uses in moved.items()}
    return ModuleValues({value: values[value] for value in values if value in moved}, kept, left, rules)


def _values(file: File) -> Iterator[tuple[cst.CSTNode, str]]:
    """The expressions that are a deprecated module, nothing being taken from it on the spot."""
    seen_through = {call for call, _, _ in names_by_getattr(file)}
    for word in sorted(_words(file)):
        for node in file.uses.get(word, ()):
            parent = file.tree.parents[node]
            if isinstance(parent, (cst.Attribute, cst.Expr)) or file.tree.is_target(node):
                continue
            if is_imported(file.tree, node):
                continue
            full = file.names.full(node)
            call = file.tree.parents[parent]
            asks = isinstance(call, cst.Call) and isinstance(call.func, cst.Name) and call.func.value == "hasattr"
            if full in OLD_MODULES and not asks and call not in seen_through and not is_only_tested(file.tree, node):
                yield node, full


def _words(file: File) -> set[str]:
    """The last words of what may stand for a deprecated module."""
    words = {full.rpartition(".")[2] for full in OLD_MODULES}
    given: list[tuple[str, str]] = []
    for scope in file.scopes.all():
        for name, bindings in scope.bindings.items():
            for binding in bindings:
                source = binding.imported or dotted(binding.value) or ""
                given.append((name.rpartition(".")[2], source.rpartition(".")[2]))
    size = 0
    while len(words) > size:
        size = len(words)
        words |= {name for name, source in given if source in words}
    return words


def _names_given(file: File, value: cst.CSTNode) -> tuple[str, ...]:
    """The names that a value is given by itself; none where one of them is an attribute, which others may read."""
    scope = file.scopes.of(value)
    found = {
        name
        for each in (scope, scope.module)
        for name, bindings in each.bindings.items()
        if any(binding.value is value for binding in bindings)
    }
    return () if scope.is_class or any("." in name for name in found) else tuple(sorted(found))


def _attribute_given(file: File, project: Project, value: cst.CSTNode) -> tuple[str, ...]:
    """The attribute of `self` that a value is given, if nothing is taken from it by way of another object."""
    assign = file.tree.parents[value]
    target = assign.targets[0].target if isinstance(assign, cst.Assign) and len(assign.targets) == 1 else None
    path = dotted(target) or ""
    if not isinstance(target, cst.Attribute) or file.names.full(target) not in OLD_MODULES:
        return ()
    is_hidden = any(
        isinstance(parent := other.tree.parents[use], cst.Attribute)
        and parent.attr.value in OF_TORCH_AMP
        and other.names.full(use) == UNKNOWN
        for other in project.library.mentioning(target.attr.value)
        for use in other.uses.get(target.attr.value, ())
    )
    is_used = path.startswith("self.") and bool(uses_of(file, path, file.names.full(value)))
    return (path,) if is_used and not is_hidden else ()


def write_module_values(file: File, settings: Settings, values: ModuleValues) -> Iterator[Edit]:
    """The edits of what was decided."""
    for value, full in values.moved.items():
        editor = Editor(file, settings, values.rules[value])
        yield editor.replace(value, editor.named(successor(full), value))
