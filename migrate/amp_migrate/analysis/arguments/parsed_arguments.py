"""Which variables of a project hold the arguments that a command line was parsed to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import libcst as cst

from amp_migrate.analysis.arguments.command_line import Command, Parser
from amp_migrate.analysis.bindings import Binding, BindingKind, dotted
from amp_migrate.analysis.exports import takers
from amp_migrate.analysis.files import File, object_bindings
from amp_migrate.analysis.hops import MAX_HOPS
from amp_migrate.analysis.project import Project
from amp_migrate.frozen import frozen
from amp_migrate.trees.nodes import find, walk_own

_PARSERS = frozenset({"argparse.ArgumentParser"})
_CLICK = frozenset({"click.command", "click.option"})
T = TypeVar("T")


@frozen
class Parsed:
    """What a variable holds: the arguments that a parser has parsed, or the dictionary that `vars()` makes of them."""

    parser: Parser
    is_dict: bool = False


class CommandLines:
    """Finds the command lines of a project, from the places that could use an option."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self._known: dict[cst.CSTNode, frozenset[Parsed]] = {}

    def command(self, file: File, function: cst.FunctionDef) -> Command | None:
        """The command that a function is."""
        decorators = [each.decorator for each in function.decorators]
        calls = [each.func if isinstance(each, cst.Call) else each for each in decorators]
        if any(file.names.meanings(each) & _CLICK for each in calls):
            return Command(file, function, is_click=True)
        if any(self._is_typer_app(file, each) for each in calls):
            return Command(file, function, is_click=False)
        runs = (call for call in file.calls if "typer.run" in file.names.meanings(call.func) and call.args)
        named = any(self.project.definition(file, call.args[0].value) == (file, function) for call in runs)
        return Command(file, function, is_click=False) if named else None

    def visible(self, file: File, at: cst.CSTNode, option: str) -> tuple[str, frozenset[Parser]] | None:
        """How the code at a place can read an option of parsed arguments, and where those are parsed."""
        for name, bindings in _names_seen(file, at):
            if any(_is_before(file, binding, name, at) for binding in bindings):
                found = _all(self._bound(file, name, binding, 0) for binding in bindings)
                if len({each.is_dict for each in found}) == 1:
                    is_dict = any(each.is_dict for each in found)
                    code = f'{name}["{option}"]' if is_dict else f"{name}.{option}"
                    return code, frozenset(each.parser for each in found)
        return None

    def _bound(self, file: File, name: str, binding: Binding, depth: int) -> frozenset[Parsed]:
        if binding.kind is BindingKind.PARAMETER:
            return self._parameter(file, name, binding.node, depth)
        if binding.kind is BindingKind.IMPORT:
            module = self.project.module_of(file, binding.imported)
            original = binding.imported.rpartition(".")[2]
            there = [] if module is None else module.scopes.module.bindings.get(original, [])
            if module is None or depth > MAX_HOPS:
                return frozenset()
            return _all(self._bound(module, original, each, depth + 1) for each in there)
        if binding.value is not None:
            return self._arguments(file, binding.value, depth)
        # `args, unknown = parser.parse_known_args()`
        targets = binding.node.targets if isinstance(binding.node, cst.Assign) else ()
        first = next((t.target.elements[0].value for t in targets if isinstance(t.target, cst.Tuple)), None)
        source = binding.source
        if first is None or dotted(first) != name or not isinstance(source, cst.Call):
            return frozenset()
        return self._parsing(file, source, "parse_known_args", depth)

    def _parameter(self, file: File, name: str, param: cst.CSTNode, depth: int) -> frozenset[Parsed]:
        """Where every caller passes parsed arguments for a parameter; or where it can hold nothing else by its use."""
        function = file.tree.parents[file.tree.parents[param]]
        if not isinstance(function, cst.FunctionDef) or depth > MAX_HOPS:
            return frozenset()
        if param not in self._known:
            self._known[param] = frozenset()  # what a function passes on to itself adds nothing
            reference = self.project.reference(file, function)
            sites = self.project.call_sites(reference)
            found: list[frozenset[Parsed]] = []
            for site in sites or ():
                value = reference.given(site.call, name)
                found.append(frozenset() if value is None else self._arguments(site.file, value, depth + 1))
            if sites is None:  # `mp.spawn(main_worker, args=(gpus, args))`
                found.append(self._by_use(file, function, name))
            self._known[param] = _all(found)
        return self._known[param]

    def _by_use(self, file: File, function: cst.FunctionDef, name: str) -> frozenset[Parsed]:
        """The parsers, where a function is used, that make all the options that it reads of its parameter."""
        read = {
            each.attr.value
            for each in find(function.body, cst.Attribute)
            if isinstance(each.value, cst.Name) and each.value.value == name
        }
        set_here = {
            path.partition(".")[2]
            for scope in file.scopes.all()
            for path in scope.bindings
            if path.startswith(f"{name}.")
        }
        users = (file, *takers(self.project, file, function.name.value))
        parsers = {parser for user in users for call in user.calls for parser in self._parser(user, call, 0)}
        fit = (each for each in parsers if read and read <= each.options | set_here and read & each.options)
        return frozenset(map(Parsed, fit))

    def _arguments(self, file: File, node: cst.BaseExpression, depth: int) -> frozenset[Parsed]:
        """The parsers that an expression has its parsed arguments from."""
        if depth > MAX_HOPS:
            return frozenset()
        if isinstance(node, cst.Call) and dotted(node.func) == "vars" and len(node.args) == 1:
            inner = self._arguments(file, node.args[0].value, depth + 1)
            return frozenset(Parsed(each.parser, is_dict=True) for each in inner)
        if isinstance(node, cst.Call):
            parsed = self._parsing(file, node, "parse_args", depth)
            return parsed or self._returned(file, node, depth, self._arguments)
        path = dotted(node)
        if path is None:
            return frozenset()
        return _all(self._bound(file, path, each, depth + 1) for each in object_bindings(file, node))

    def _parsing(self, file: File, call: cst.Call, method: str, depth: int) -> frozenset[Parsed]:
        func = call.func
        if not isinstance(func, cst.Attribute) or func.attr.value != method:
            return frozenset()
        return frozenset(map(Parsed, self._parser(file, func.value, depth + 1)))

    def _parser(self, file: File, node: cst.BaseExpression, depth: int) -> frozenset[Parser]:
        """The parser that an expression is."""
        if depth > MAX_HOPS:
            return frozenset()
        if isinstance(node, cst.Call):
            if not file.names.meanings(node.func) & _PARSERS:
                return self._returned(file, node, depth, self._parser)
            statement = file.tree.statement(node)
            target = statement.targets[0].target if isinstance(statement, cst.Assign) else None
            is_named = isinstance(statement, cst.Assign) and statement.value is node and isinstance(target, cst.Name)
            return frozenset({Parser(file, statement, file.tree.code(target))}) if is_named and target else frozenset()
        if not isinstance(node, cst.Name):
            return frozenset()
        values = [binding.value for binding in file.scopes.of(node).lookup(node.value)]
        # `parser = add_model_options(parser)` gives the same parser back.
        made = [each for each in values if each is None or not _takes(each, node.value)]
        if len(made) != 1 or made[0] is None:
            return frozenset()
        return self._parser(file, made[0], depth + 1)

    def _returned(
        self,
        file: File,
        call: cst.Call,
        depth: int,
        follow: Callable[[File, cst.BaseExpression, int], frozenset[T]],
    ) -> frozenset[T]:
        function = self.project.called(file, call)
        if function is None:
            return frozenset()
        given = [each.value for each in walk_own(function.node.body) if isinstance(each, cst.Return)]
        none: frozenset[T] = frozenset()
        return _all(none if each is None else follow(function.file, each, depth + 1) for each in given)

    def _is_typer_app(self, file: File, decorator: cst.BaseExpression) -> bool:
        """Whether a decorator is `app.command` of a `typer.Typer()`."""
        if not isinstance(decorator, cst.Attribute) or decorator.attr.value not in ("command", "callback"):
            return False
        values = [each.value for each in object_bindings(file, decorator.value)]
        return any(isinstance(each, cst.Call) and "typer.Typer" in file.names.meanings(each.func) for each in values)


def _all(found: Iterable[frozenset[T]]) -> frozenset[T]:
    """All that was found, where something was found each time."""
    sets = list(found)
    none: frozenset[T] = frozenset()
    return none.union(*sets) if all(sets) else none


def _names_seen(file: File, at: cst.CSTNode) -> Iterator[tuple[str, list[Binding]]]:
    """The variables and the attributes of `self` that a place can read, the nearest first, each with its bindings."""
    scope = file.scopes.of(at)
    current = scope
    while current is not None:
        for name, bindings in current.bindings.items():
            if "." not in name and scope.find(name) is current:
                yield name, list(bindings)
        if current.parent is None:
            break
        current = current.parent
    owner = file.tree.owner_class(at)
    if owner is not None:
        inside = map(file.scopes.inside, find(owner.body, cst.FunctionDef))
        paths = {path for each in inside for path in each.bindings if path.count(".") == 1}
        for path in sorted(path for path in paths if path.startswith("self.")):
            yield path, [*file.attribute_bindings(owner, path)]


def _is_before(file: File, binding: Binding, name: str, at: cst.CSTNode) -> bool:
    """Whether a name has its value for certain when the code at a place runs."""
    tree = file.tree
    if binding.kind is BindingKind.PARAMETER or name.startswith("self."):
        return True
    statement = tree.statement(binding.node)
    block, function = tree.block(statement), tree.function(at)
    if tree.function(statement) is function:
        return block in (tree.module, *tree.ancestors(at)) and tree.order[statement] < tree.order[at]
    # A variable of the module, read in a function: under `if __name__ == "__main__"` it is there only for some callers.
    used = function is not None and any(each.value == name for each in find(function.body, cst.Name))
    return block is tree.module or used


def _takes(value: cst.BaseExpression, name: str) -> bool:
    """Whether a value is a call with a variable among its arguments."""
    return isinstance(value, cst.Call) and any(dotted(each.value) == name for each in value.args)
