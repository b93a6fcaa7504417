"""Everywhere that a GradScaler goes, with the edits that take it out of there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import libcst as cst

from amp_migrate.analysis.arguments.argument_binding import passed
from amp_migrate.analysis.bindings import BindingKind, dotted
from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import Project
from amp_migrate.frozen import frozen
from amp_migrate.plan.code import code
from amp_migrate.plan.edit import Edit, Remove
from amp_migrate.tables.torch_names import GRAD_SCALER
from amp_migrate.trees.nodes import is_constant
from amp_migrate.write.editor import Editor

_GOES_WITH_ITS_STATEMENT = frozenset({"unscale_", "update", "load_state_dict"})


@frozen
class Holder:
    """What a scaler is called by: a name in a scope, or an attribute of `self` in a class."""

    file: File
    scope: cst.CSTNode
    path: str


@dataclass(eq=False)
class Component:
    """Scalers that reach common code, and must go or stay together.

    Attributes:
        holders: what they are called by.
        parameters: those of the holders whose arguments were dropped with them.
        creations: the calls of `GradScaler`, with their files.
        edits: what takes them out, all of it together.
        removed: the names of `GradScaler` that go then.
        scaled: the calls of `scale` on a loss.
        obstacle: a use that is not understood; None where there is none.
    """

    holders: list[Holder] = field(default_factory=list)
    parameters: set[Holder] = field(default_factory=set)
    creations: list[tuple[File, cst.Call]] = field(default_factory=list)
    edits: list[Edit] = field(default_factory=list)
    removed: list[cst.CSTNode] = field(default_factory=list)
    scaled: list[tuple[File, cst.Call]] = field(default_factory=list)
    obstacle: tuple[File, cst.CSTNode] | None = None


class Follower:
    """Follows scalers through a project.

    Args:
        editor: makes the edits that take them out.
    """

    def __init__(self, project: Project, editor: Editor) -> None:
        self.project = project
        self._editor = editor

    def component(self, file: File, call: cst.Call) -> Component:
        """The scaler that a call makes, and those that share code with it."""
        component = Component()
        self._add_creation(component, file, call)
        position = 0
        while position < len(component.holders):
            self._follow(component, component.holders[position])
            position += 1
        return component

    def _add_creation(self, component: Component, file: File, call: cst.Call) -> None:
        if any(call is known for _, known in component.creations):
            return
        component.creations.append((file, call))
        statement = file.tree.parents[call]
        target = statement.targets[0].target if isinstance(statement, cst.Assign) else None
        holder = None if target is None else self._holder(file, target)
        if holder is None or not isinstance(statement, cst.Assign) or len(statement.targets) != 1:
            component.obstacle = component.obstacle or (file, call)
            return
        component.edits.append(self._editor.of(file).remove(statement))
        component.removed.append(call.func)
        self._add_holder(component, holder)

    def _add_holder(self, component: Component, holder: Holder) -> None:
        if holder not in component.holders:
            component.holders.append(holder)

    def _holder(self, file: File, node: cst.BaseExpression) -> Holder | None:
        path = dotted(node)
        if path is None:
            return None
        if path.startswith("self.") and path.count(".") == 1:
            owner = file.tree.owner_class(node)
            return None if owner is None else Holder(file, owner, path)
        scope = file.scopes.of(node).find(path)
        return None if scope is None or "." in path else Holder(file, scope.node, path)

    def _follow(self, component: Component, holder: Holder) -> None:
        """Look at everything a holder is bound to and used for."""
        file = holder.file
        for node in file.uses.get(holder.path.rpartition(".")[2], ()):
            same = self._holder(file, node)
            if same != holder:
                if isinstance(node, cst.Attribute) and holder.path.startswith("self.") and same is None:
                    component.obstacle = component.obstacle or (file, node)  # `trainer.scaler` may be this one
                continue
            if not self._understand(component, file, node):
                component.obstacle = component.obstacle or (file, node)
        for relative in self._relatives(holder):
            self._add_holder(component, relative)

    def _relatives(self, holder: Holder) -> Iterator[Holder]:
        """The same attribute of the classes that a holder's derives from, and of those that derive from it."""
        own = holder.scope
        if isinstance(own, cst.ClassDef):
            for find in (self.project.lineage, self.project.derived):
                yield from (Holder(file, each, holder.path) for file, each in find(holder.file, own))

    def _understand(self, component: Component, file: File, node: cst.Name | cst.Attribute) -> bool:
        """Plan what becomes of one use; False where it is not understood."""
        parent = file.tree.parents[node]
        editor = self._editor.of(file)
        if isinstance(parent, cst.AssignTarget):
            made = file.tree.parents[parent]
            value = made.value if isinstance(made, cst.Assign) else None
            if isinstance(value, cst.Call) and file.names.callee(value) in GRAD_SCALER:
                self._add_creation(component, file, value)
                return True
            if value is not None and self._is_known(component, file, value):  # `self.scaler = scaler`
                component.edits.append(editor.remove(file.tree.statement(made)))
                return True
            return False
        if isinstance(parent, cst.Assign) and parent.value is node:
            holder = self._holder(file, parent.targets[0].target)
            if holder is None:
                return False
            self._add_holder(component, holder)
            return True
        if isinstance(parent, cst.Attribute) and parent.value is node:
            call = file.tree.parents[parent]
            return isinstance(call, cst.Call) and call.func is parent and self._method(component, editor, call)
        if isinstance(parent, cst.Arg):
            call = file.tree.parents[parent]
            return isinstance(call, cst.Call) and self._passed_on(component, file, call, parent)
        return False

    def _is_known(self, component: Component, file: File, value: cst.BaseExpression) -> bool:
        holder = self._holder(file, value)
        return holder is not None and holder in component.holders

    def _method(self, component: Component, editor: Editor, call: cst.Call) -> bool:
        assert isinstance(call.func, cst.Attribute)
        tree, name = editor.file.tree, call.func.attr.value
        parent = tree.parents[call]
        if name == "scale" and len(call.args) == 1:
            component.scaled.append((editor.file, call))
            component.edits.append(editor.replace(call, code("{}", call.args[0].value)))
            return True
        if name == "step" and call.args:
            component.edits.append(editor.replace(call.func, code("{}.step", call.args[0].value)))
            component.edits.append(editor.edit(call.args[0], Remove()))
            return True
        if name in _GOES_WITH_ITS_STATEMENT and isinstance(parent, cst.Expr):
            component.edits.append(editor.remove(tree.statement(call)))
            return True
        if name == "state_dict":
            return self._saved(component, editor, call)
        return False

    def _saved(self, component: Component, editor: Editor, call: cst.Call) -> bool:
        """An entry of a checkpoint goes."""
        tree = editor.file.tree
        parent = tree.parents[call]
        if isinstance(parent, cst.Assign) and isinstance(parent.targets[0].target, cst.Subscript):
            component.edits.append(editor.remove(parent))
            return True
        if isinstance(parent, cst.DictElement):
            component.edits.append(editor.edit(parent, Remove()))
            return True
        return False

    def _passed_on(self, component: Component, file: File, call: cst.Call, arg: cst.Arg) -> bool:
        """The parameter that takes the scaler goes, with the argument of every call."""
        function = self.project.called(file, call)
        if function is None:
            return False
        dropped = function.receiving(call, arg)
        sites = self.project.call_sites(function)
        if dropped is None or not sites:
            return False
        name = dropped.name.value
        holder = Holder(function.file, function.node, name)
        if holder in component.parameters:
            return True
        drops: list[Edit] = []
        for site in sites:
            given = passed(function.node, site.call, name, bound=function.is_bound)
            if given is None:
                return False
            if given.argument is None:
                continue
            value = given.argument.value
            if not is_constant(value, "None"):
                source = self._holder(site.file, value)
                if source is None or not self._holds_scaler(source):
                    return False
                self._add_holder(component, source)
            drops.append(self._editor.of(site.file).edit(given.argument, Remove()))
        self._add_holder(component, holder)
        component.parameters.add(holder)
        component.edits += [*drops, self._editor.of(function.file).edit(dropped, Remove())]
        return True

    def _holds_scaler(self, holder: Holder) -> bool:
        """Whether a name can only be a scaler: made by GradScaler, or a parameter (followed by itself)."""
        if holder.path.startswith("self."):
            return True
        bindings = holder.file.scopes.inside(holder.scope).bindings.get(holder.path, [])
        return all(
            binding.kind is BindingKind.PARAMETER or holder.file.names.callee(binding.value) in GRAD_SCALER
            for binding in bindings
        )
