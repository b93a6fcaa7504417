"""What a `with` opens that scales a loss: a call of `amp.scale_loss`, by whichever name or function it comes there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import libcst as cst

from amp_migrate.analysis.bindings import Binding, BindingKind, local_name
from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import FunctionRef, Project
from amp_migrate.frozen import frozen
from amp_migrate.steps.apex.uses.apex_calls import amp_calls, amp_name, amp_uses
from amp_migrate.steps.apex.uses.apex_guards import is_apex_import
from amp_migrate.steps.statements.data_flow import reads, writes
from amp_migrate.tables.apex_names import SCALE_LOSS
from amp_migrate.trees.nodes import Block, Statement, block_of, blocks, find, last_word, nested_statements, statements
from amp_migrate.trees.own_calls import may_act, named_arguments

# A context that a `with` may open: what scales its loss, None where that is entered as it is, and the loss.
Outcome: TypeAlias = "tuple[cst.Call | None, cst.BaseExpression]"


@frozen
class Opened:
    """What scales a loss for a `with`.

    Attributes:
        call: the call of `amp.scale_loss`.
        loss: the loss as it is written where the `with` is; None where it cannot be said there.
        kept: the statements before the `with` that only keep what it opens.
    """

    call: cst.Call
    loss: cst.BaseExpression | None
    kept: tuple[Statement, ...] = ()


@frozen
class Giver:
    """A function that does nothing but give such a context.

    Attributes:
        call: its call of `amp.scale_loss`.
        loss: the parameter that is the loss.
    """

    call: cst.Call
    loss: str


class Contexts:
    """What the `with` statements of a file open."""

    def __init__(self, project: Project, file: File) -> None:
        self._project, self._file = project, file
        self._found: dict[cst.With, tuple[cst.WithItem, Opened] | None] = {}

    def of(self, statement: cst.With) -> tuple[cst.WithItem, Opened] | None:
        """The item that scales a loss, with what does; None where there is none, or more than one."""
        if statement not in self._found:
            items = ((item, opened(self._project, self._file, item.item)) for item in statement.items)
            found = [(item, each) for item, each in items if each is not None]
            self._found[statement] = found[0] if len(found) == 1 else None
        return self._found[statement]


def opened(project: Project, file: File, context: cst.BaseExpression) -> Opened | None:
    """What scales a loss where a `with` opens a context: the same on every way to it, or entered as it is."""
    if isinstance(context, cst.Name):
        return _kept(file, context)
    function = project.called(file, context) if isinstance(context, cst.Call) else None
    giver = None if function is None else giver_of(project, function)
    if giver is not None and function is not None and isinstance(context, cst.Call):
        return Opened(giver.call, function.given(context, giver.loss))
    if isinstance(context, cst.Call) and amp_name(file, context.func) == "scale_loss":
        return Opened(context, _loss(context))
    return _alike(file, _outcomes_of(file, context))


def giver_of(project: Project, function: FunctionRef) -> Giver | None:
    """What a function gives that a `with` opens wherever it is called, in files that know of Apex."""
    file, node = function.file, function.node
    given = _gives(file, node)
    found = None if given is None else _alike(file, given)
    name = None if found is None else found.loss
    if found is None or not isinstance(name, cst.Name) or project.overriding(function):
        return None
    bindings = file.scopes.inside(node).bindings.get(name.value, [])
    if [each.kind for each in bindings] != [BindingKind.PARAMETER] or any(
        True for _ in project.possible_calls(function)
    ):
        return None
    sites = project.call_sites(function)
    is_opened = all(
        isinstance(each.file.tree.parents[each.call], cst.WithItem) and any(True for _ in amp_uses(each.file))
        for each in sites or ()
    )
    return Giver(found.call, name.value) if sites and is_opened else None


def givers(project: Project, file: File) -> list[FunctionRef]:
    """The functions of a file that give such contexts."""
    functions = (file.tree.function(call) for call in amp_calls(file, "scale_loss"))
    found = [project.reference(file, each) for each in dict.fromkeys(functions) if each is not None]
    return [each for each in found if giver_of(project, each) is not None]


def imported_givers(project: Project, file: File) -> Iterator[tuple[cst.ImportFrom, cst.ImportAlias]]:
    """The items of imports that bring such functions, each with its statement."""
    for with_ in file.tree.every(cst.With):
        for call in (item.item for item in with_.items):
            function = project.called(file, call) if isinstance(call, cst.Call) else None
            if function is None or function.file is file or giver_of(project, function) is None:
                continue
            name = last_word(cst.ensure_type(call, cst.Call).func)
            for node in (binding.node for binding in file.scopes.of(call).lookup(name)):
                if isinstance(node, cst.ImportFrom) and not isinstance(node.names, cst.ImportStar):
                    yield from ((node, alias) for alias in node.names if local_name(alias) == name)


def _kept(file: File, name: cst.Name) -> Opened | None:
    """What is opened under a name that is given nothing else, by statements before the `with`, and is only opened."""
    scope = file.scopes.of(name).find(name.value)
    uses = [use for use in file.uses.get(name.value, ()) if file.scopes.of(use).find(name.value) is scope]
    parents = [file.tree.parents[use] for use in uses if isinstance(use, cst.Name)]
    bindings = file.scopes.of(name).lookup(name.value)
    if not bindings or not all(isinstance(each, (cst.AssignTarget, cst.WithItem)) for each in parents):
        return None
    outcomes = [None if (value := _value(each)) is None else _outcomes_of(file, value) for each in bindings]
    found = _alike(file, [one for each in outcomes for one in each or (None,)])
    kept = tuple(each.node for each in bindings if isinstance(each.node, cst.Assign))
    if found is None or found.loss is None or not _says_the_same(file, found.loss, kept, file.tree.statement(name)):
        return None
    return Opened(found.call, found.loss, kept)


def _value(binding: Binding) -> cst.BaseExpression | None:
    is_plain = isinstance(binding.node, cst.Assign) and len(binding.node.targets) == 1
    return binding.value if is_plain else None


def _says_the_same(file: File, loss: cst.BaseExpression, kept: Sequence[Statement], with_: Statement) -> bool:
    """Whether a loss is at a `with` what it is where the context is kept, in the block of that or one inside."""
    tree, block = file.tree, file.tree.block(with_)
    if any(find(loss, cst.Call)) or not all(block in tree.ancestors(each) for each in kept):
        return False
    first = min((tree.lift(each, block) for each in kept), key=lambda each: tree.order[each])
    behind = [each for each in nested_statements(block) if tree.order[first] <= tree.order[each] < tree.order[with_]]
    return tree.order[first] < tree.order[with_] and not any(reads([loss]) & writes(each) for each in behind)


def _gives(file: File, function: cst.FunctionDef) -> list[Outcome | None] | None:
    """The contexts that a function gives, and does nothing else; None for any other function."""
    decorators = [file.names.full(each.decorator) for each in function.decorators]
    if function.asynchronous is not None or decorators not in ([], ["contextlib.contextmanager"]):
        return None
    found = [*_given(file, block_of(function), yields=bool(decorators))]
    return found if found and None not in found else None


def _given(file: File, block: Block, *, yields: bool) -> Iterator[Outcome | None]:
    for statement in statements(block):
        value = statement.value if isinstance(statement, (cst.Return, cst.Expr)) else None
        if isinstance(value, cst.SimpleString) or is_apex_import(file, statement):
            continue
        if isinstance(statement, cst.If) and not may_act(statement.test):
            for each in blocks(statement):
                yield from _given(file, each, yields=yields)
        elif yields and isinstance(value, cst.Yield) and isinstance(value.value, cst.BaseExpression):
            yield None, value.value
        elif yields and isinstance(statement, cst.With) and len(statement.items) == 1:
            yield from _outcomes_of(file, statement.items[0].item) if _only_yields(statement) else (None,)
        elif not yields and isinstance(statement, cst.Return) and value is not None:
            yield from _outcomes_of(file, value)
        else:
            yield None


def _only_yields(with_: cst.With) -> bool:
    """Whether a `with` does nothing but give what it has opened: `with ... as scaled: yield scaled`."""
    name = with_.items[0].asname
    (first, *rest) = statements(block_of(with_))
    value = first.value if isinstance(first, cst.Expr) and not rest else None
    given = value.value if isinstance(value, cst.Yield) else None
    return name is not None and isinstance(given, cst.Name) and given.deep_equals(name.name)


def _outcomes_of(file: File, context: cst.BaseExpression) -> list[Outcome | None]:
    """What a context may be: Apex's call or `nullcontext(loss)`, of which a test without effects may choose one."""
    if isinstance(context, cst.IfExp) and not may_act(context.test):
        return [one for side in (context.body, context.orelse) for one in _outcomes_of(file, side)]
    if not isinstance(context, cst.Call):
        return [None]
    if amp_name(file, context.func) == "scale_loss":
        loss = _loss(context)
        return [None if loss is None else (context, loss)]
    is_plain = file.names.callee(context) == "contextlib.nullcontext" and len(context.args) == 1
    return [(None, context.args[0].value) if is_plain and context.args[0].keyword is None else None]


def _alike(file: File, outcomes: Sequence[Outcome | None]) -> Opened | None:
    """What scales one loss in each of some contexts that does not enter it as it is."""
    known = [each for each in outcomes if each is not None]
    calls = [call for call, _ in known if call is not None]
    losses = {file.tree.code(loss) for _, loss in known}
    is_one = len(known) == len(outcomes) and len(losses) == 1 and bool(calls)
    return Opened(calls[0], next(loss for call, loss in known if call is calls[0])) if is_one else None


def _loss(call: cst.Call) -> cst.BaseExpression | None:
    return (named_arguments(call, SCALE_LOSS) or {}).get("loss")
