"""Everywhere that a GradScaler goes, with the edits that take it out of there."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

import libcst as cst

from amp_migrate.analysis.arguments.argument_binding import passed
from amp_migrate.analysis.bindings import BindingKind, dotted
from amp_migrate.analysis.files import File
from amp_migrate.analysis.library import Library
from amp_migrate.analysis.project import Project
from amp_migrate.flow.domain.atoms import NEVER, Opaque, Value
from amp_migrate.plan.code import code
from amp_migrate.plan.edit import Edit, Remove
from amp_migrate.steps.read.interpreted import Interpreted
from amp_migrate.steps.read.value_calls import ValueCalls
from amp_migrate.syntax import nodes_in
from amp_migrate.tables.torch_names import GRAD_SCALER
from amp_migrate.trees.nodes import is_constant
from amp_migrate.write.editor import Editor

_GOES_WITH_ITS_STATEMENT = frozenset({"unscale_", "update", "load_state_dict"})


@dataclass(eq=False)
class Component:
    """Scalers that reach common code, and must go or stay together.

    Attributes:
        creations: the calls of `GradScaler`, with their files.
        parameters: those that are given one of them, whose arguments were dropped with them.
        edits: what takes them out, all of it together.
        removed: the names of `GradScaler` that go then.
        scaled: the calls of `scale` on a loss.
        obstacle: a use that is not understood; None where there is none.
    """

    creations: list[tuple[File, cst.Call]] = field(default_factory=list)
    parameters: set[cst.Param] = field(default_factory=set)
    edits: list[Edit] = field(default_factory=list)
    removed: list[cst.CSTNode] = field(default_factory=list)
    scaled: list[tuple[File, cst.Call]] = field(default_factory=list)
    obstacle: tuple[File, cst.CSTNode] | None = None


class _Known:
    """Some scalers in a program that has been interpreted: all that some code may have beside one of them.

    Args:
        made: the call that makes the one.
    """

    def __init__(self, program: Interpreted, file: File, made: cst.Call) -> None:
        self._program = program
        self._values = program.questions.analysis.values
        every = frozenset(program.questions.analysis.pytorch.registry.scalers)
        together = {value & every for value in self._values.values()}
        found, self.scalers = NEVER, self._value(self.back(file, made)) & every
        while self.scalers > found:
            found = self.scalers
            self.scalers = found.union(*(each for each in together if each & found))

    def back(self, file: File, node: cst.CSTNode) -> ast.AST | None:
        """What a node is in the program."""
        return self._program.counterparts(file).back(node)

    def _value(self, node: ast.AST | None) -> Value:
        return NEVER if node is None else self._values.get(node, NEVER)

    def are(self, node: ast.AST | None) -> bool:
        """Whether an expression gives these, and nothing else."""
        return NEVER < self._value(node) <= self.scalers

    def uses(self, library: Library) -> Iterator[tuple[File, ast.AST, cst.CSTNode | None]]:
        """Where they are used, and where what nobody has looked at may be one of them, by a name that they have."""
        called: set[tuple[File | None, str]] = set()
        others: list[tuple[File, ast.AST]] = []
        for name, module in [*self._program.questions.analysis.modules.items()]:
            file = library.named(name)
            for node in nodes_in(module.tree) if file and module else ():
                if file is None or isinstance(getattr(node, "ctx", None), ast.Store):
                    continue
                if not self.scalers.isdisjoint(self._value(node)):
                    called.update(_called(file, node))
                    yield file, node, self._program.counterparts(file).of(node)
                elif self._is_open(node):
                    others.append((file, node))
        for file, node in others:
            if not called.isdisjoint(_called(file, node)):
                yield file, node, self._program.counterparts(file).of(node)

    def _is_open(self, node: ast.AST) -> bool:
        """Whether nobody has seen what a name stands for, or an attribute is of what may be any object."""
        if isinstance(node, ast.Attribute):
            owner = self._value(node.value)
            return not owner or any(isinstance(each, Opaque) for each in owner)
        return isinstance(node, ast.Name) and not self._value(node)


class Follower:
    """Follows scalers through a project.

    Args:
        values: knows what each expression of a program gives.
        editor: makes the edits that take them out.
    """

    def __init__(self, project: Project, values: ValueCalls, editor: Editor) -> None:
        self.project = project
        self._values = values
        self._editor = editor

    def component(self, file: File, call: cst.Call) -> Component:
        """The scaler that a call makes, and those that share code with it."""
        component = Component()
        known = _Known(self._values.part(file, call), file, call)
        if not known.scalers:  # nothing is seen to run the call
            component.creations.append((file, call))
            component.obstacle = (file, call)
            return component
        for where, node, own in known.uses(self.project.library):
            if own is None or not (known.are(node) and self._understand(component, known, where, own)):
                component.obstacle = component.obstacle or (where, own or where.tree.module)
        return component

    def _goes_with_name(self, component: Component, file: File, value: cst.CSTNode) -> bool:
        """Whether a value is but given a name of its own, which goes with it: a variable, or an attribute of `self`."""
        statement = file.tree.parents[value]
        if not isinstance(statement, cst.Assign) or len(statement.targets) != 1:
            return False
        path = dotted(statement.targets[0].target)
        if path is None or path.removeprefix("self.").count("."):
            return False
        component.edits.append(self._editor.of(file).remove(statement))
        return True

    def _understand(self, component: Component, known: _Known, file: File, node: cst.CSTNode) -> bool:
        """Plan what becomes of one use; False where it is not understood."""
        parent = file.tree.parents[node]
        if isinstance(node, cst.Call) and file.names.callee(node) in GRAD_SCALER:
            component.creations.append((file, node))
            component.removed.append(node.func)
            return self._goes_with_name(component, file, node)
        if not isinstance(node, (cst.Name, cst.Attribute)) or _is_imported(file, node):
            return False
        if isinstance(parent, cst.Assign):
            return self._goes_with_name(component, file, node)
        call = file.tree.parents[parent]
        if not isinstance(call, cst.Call):
            return False
        if isinstance(parent, cst.Attribute):
            return call.func is parent and self._method(component, file, call)
        return isinstance(parent, cst.Arg) and self._passed_on(component, known, file, call, parent)

    def _method(self, component: Component, file: File, call: cst.Call) -> bool:
        assert isinstance(call.func, cst.Attribute)
        editor = self._editor.of(file)
        tree, name = file.tree, call.func.attr.value
        parent = tree.parents[call]
        if name == "scale" and len(call.args) == 1:
            component.scaled.append((file, call))
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

    def _passed_on(self, component: Component, known: _Known, file: File, call: cst.Call, arg: cst.Arg) -> bool:
        """The parameter that takes the scaler goes, with the argument of every call."""
        function = self.project.called(file, call)
        dropped = None if function is None else function.receiving(call, arg)
        sites = None if function is None else self.project.call_sites(function)
        if function is None or dropped is None or not sites:
            return False
        if dropped in component.parameters:
            return True
        drops: list[Edit] = []
        for site in sites:
            given = passed(function.node, site.call, dropped.name.value, bound=function.is_bound)
            if given is None:
                return False
            if given.argument is None:
                continue
            value = given.argument.value
            if not is_constant(value, "None") and not known.are(known.back(site.file, value)):
                return False
            drops.append(self._editor.of(site.file).edit(given.argument, Remove()))
        component.parameters.add(dropped)
        component.edits += [*drops, self._editor.of(function.file).edit(dropped, Remove())]
        return True


def _called(file: File, node: ast.AST) -> Iterator[tuple[File | None, str]]:
    """What an expression is called: an attribute may be one of any file."""
    if isinstance(node, ast.Name):
        yield file, node.id
    elif isinstance(node, ast.Attribute):
        yield None, node.attr


def _is_imported(file: File, node: cst.Name | cst.Attribute) -> bool:
    """Whether a file has something by the name that it imports it by, which stays."""
    bound = file.scopes.of(node).lookup(node.value) if isinstance(node, cst.Name) else ()
    return any(each.kind is BindingKind.IMPORT for each in bound)
