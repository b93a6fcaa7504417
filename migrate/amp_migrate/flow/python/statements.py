"""What every kind of statement does to the state, and by which exits it is left."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from functools import partial
from typing import Any

from amp_migrate.counters import behind_all_in, implied_in
from amp_migrate.flow.domain.atoms import (
    NEVER,
    NONE_VALUE,
    UNBOUND,
    UNKNOWN,
    Atom,
    External,
    FileModule,
    Obj,
    Opaque,
    Part,
    Value,
    dtype_named,
    join,
    join_all,
    may_be,
    one,
    only,
    some,
    tensors_in,
)
from amp_migrate.flow.domain.contexts import Context
from amp_migrate.flow.domain.kept_casts import Turn
from amp_migrate.flow.domain.machine import AGAIN, World, changed, few_ways, following
from amp_migrate.flow.domain.state import State, meet
from amp_migrate.flow.domain.tensor import FLOWS, LOW, SOME_TENSOR, Tensor, told_apart
from amp_migrate.flow.events import Act
from amp_migrate.flow.python import containers
from amp_migrate.flow.python.expressions import OPERATORS, assign, binary, evaluate, in_turn
from amp_migrate.flow.python.frame import Frame, Loop
from amp_migrate.flow.python.narrow import assume, is_turned
from amp_migrate.syntax import nodes_in
from amp_migrate.tables.signatures import FORMS

# More rounds than any of the domains is high, so that a fault in one of them cannot hang the tool.
_MOST_ROUNDS = 40
_ROUNDS_WITH_ALL_WAYS = 10
# What PyTorch has, with the packages around it.
_OF_AMP = frozenset(FORMS).union(name[: dot.start()] for name in FORMS for dot in re.finditer(r"\.", name))


def execute(frame: Frame, statements: list[ast.stmt]) -> None:
    """Interpret the statements of a block."""
    for statement in statements:
        if frame.state is None:
            return
        step(frame, statement)


def step(frame: Frame, node: ast.stmt) -> None:
    """Interpret one statement."""
    frame.analysis.executed += 1
    if not frame.is_recorded:
        frame.analysis.consulted += 1
        frame.analysis.spent[frame.code] += 1
    else:
        contexts = frame.analysis.contexts
        own = contexts.get(node)
        contexts[node] = frame.now.context if own is None else own.join(frame.now.context)
        states = frame.analysis.states
        states[node] = states.get(node, frozenset()) | frame.now.worlds
    before = frame.now.copy() if node in frame.analysis.goes_on.get(frame.code, ()) else None
    _BY_KIND[type(node)](frame, node)
    is_dead = frame.is_dead
    if is_dead:
        frame.is_dead = False
        frame.state = None
    if frame.is_recorded:
        frame.analysis.note_end(frame, node, is_dead=is_dead)
    if frame.state is None and before is not None:
        _go_on(frame, node, before)


def _go_on(frame: Frame, node: ast.stmt, before: State) -> None:
    """Go on behind a statement that is never left, with nothing known of what it may have changed."""
    before.worlds = changed(before.worlds, lambda machine: (machine.losing(frame.task.touched),))
    before.cells = {cell: value for cell, value in before.cells.items() if cell not in frame.task.written}
    frame.state = before
    bound = {each.id for each in nodes_in(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    for name in sorted(bound):
        frame.bind(name, join(before.names.get(name, NEVER) - {UNBOUND}, UNKNOWN))


def _expression(frame: Frame, node: ast.Expr) -> None:
    evaluate(frame, node.value)


def _assign(frame: Frame, node: ast.Assign) -> None:
    value = evaluate(frame, node.value)
    for target in node.targets:
        assign(frame, target, value, node.value)
        if isinstance(target, ast.Name) and frame.now.casts:
            frame.analysis.pytorch.note_number(frame, target.id, node.value)


def _annotated(frame: Frame, node: ast.AnnAssign) -> None:
    if node.value is not None:
        assign(frame, node.target, evaluate(frame, node.value), node.value)
    elif isinstance(node.target, ast.Name) and isinstance(frame.code.node, ast.ClassDef):
        frame.analysis.heap.write(frame.analysis.class_atom(frame), f"field {node.target.id}", NONE_VALUE)


def _augmented(frame: Frame, node: ast.AugAssign) -> None:
    target = node.target
    old = evaluate(frame, ast.copy_location(_as_load(target), target))
    operand = evaluate(frame, node.value)
    frame.analysis.pytorch.updated_by_hand(frame, old, operand, node)
    # A list is changed, and stays the list that it is.
    lists = frozenset(each for each in old if isinstance(each, Obj) and each.made_of is containers.LIST)
    for each in lists:
        assert isinstance(each, Obj)
        containers.put(frame, each, containers.elements(frame, operand, node.value))
        frame.write(each, "<length>", some("int"))
    frame.augmenting = node.value
    value = binary(frame, type(node.op), old - lists, operand, node.value) if old - lists else NEVER
    frame.augmenting = None
    name = OPERATORS[type(node.op)]
    value = join(frame.analysis.pytorch.in_place(frame, name, old, operand, value, node), lists)
    assign(frame, target, value, node.value)


def _as_load(target: ast.Name | ast.Attribute | ast.Subscript) -> ast.expr:
    if isinstance(target, ast.Name):
        return ast.Name(target.id, ast.Load())
    if isinstance(target, ast.Attribute):
        return ast.Attribute(target.value, target.attr, ast.Load())
    return ast.Subscript(target.value, target.slice, ast.Load())


def _asked_dtype(frame: Frame, test: ast.expr, ending: bool, node: ast.stmt) -> None:
    """Note a test with whose outcome the code goes no further, if it surely has it for the dtype of something low."""
    asked = [each for each in nodes_in(test) if isinstance(each, ast.Attribute) and each.attr == "dtype"]
    found = join_all(evaluate(frame, each) for each in asked)
    is_low = any(precision and not precision & ~LOW for precision in map(dtype_named, found))
    if is_low and _comes_to(frame, test, ending):
        frame.analysis.event(frame, Act.DTYPE_REFUSED, node, why=ast.unparse(test))


def _comes_to(frame: Frame, test: ast.expr, outcome: bool) -> bool:
    """Whether a test surely has an outcome: `a and b` is false where one of them is."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or if outcome else ast.And):
        return any(_comes_to(frame, each, outcome) for each in test.values)
    value = evaluate(frame, test)
    return bool(value) and not may_be(value, not outcome)


def _if(frame: Frame, node: ast.If) -> None:
    evaluate(frame, node.test)
    if frame.is_dead:
        return
    if isinstance(node.body[0], ast.Raise):
        _asked_dtype(frame, node.test, True, node)
    other = frame.now.copy()
    assume(frame, node.test, True)
    pytorch, values = frame.analysis.pytorch, frame.analysis.values
    with pytorch.where(is_turned=is_turned(values, node.test, True)):
        execute(frame, node.body)
    then, frame.state = frame.state, other
    assume(frame, node.test, False)
    if frame.state is not None:
        pytorch.clear_where_none(frame, node)
    with pytorch.where(is_turned=is_turned(values, node.test, False)):
        execute(frame, node.orelse)
    frame.state = meet(then, other := frame.state)
    if then is not None and other is not None:
        _tell_apart(frame, then, other, node.test)


def _tell_apart(frame: Frame, then: State, other: State, test: ast.expr) -> None:
    """Note of tensors that a branch has computed from more, or less, than another that the test tells which it was."""
    here, there = (implied_in(frame.module.tree, frame.code.node, test, each) for each in (True, False))
    if not here or not there:
        return
    for name, value in frame.now.names.items():
        a, b = then.names.get(name), other.names.get(name)
        if a is not None and b is not None and a is not b:
            one_way_, another, either = (only(each, Tensor) for each in (a, b, value))
            if one_way_ and another and either and one_way_.reach != another.reach:
                frame.now.names[name] = one(told_apart(either, one_way_, another, frame.code, here, there))
                frame.telling |= frozenset().union(*(fact[2] for fact in here | there))


def _loop(frame: Frame, node: ast.For | ast.AsyncFor | ast.While) -> None:
    """Go round until nothing changes. Where the order of a scaler's calls is concerned, it runs at least once."""
    source = NEVER
    if not isinstance(node, ast.While):
        source = evaluate(frame, node.iter)
        if frame.is_dead:
            return
        if few := in_turn(frame, source, node, node.body):
            _one_after_another(frame, node, few)
            return
    turn = None if isinstance(node, ast.While) else frame.analysis.pytorch.turn_of_loop(frame, node)
    entry = frame.now.copy()
    before: State | None = None
    head: State | None = frame.now
    leaving: State | None = None
    frame.depth += 1
    for rounds in range(_MOST_ROUNDS):
        assert head is not None
        frame.state = head.copy()
        loop = Loop()
        frame.loops.append(loop)
        leaving = None
        if isinstance(node, ast.While):
            evaluate(frame, node.test)
            tested = frame.now.copy()
            assume(frame, node.test, True)
            execute(frame, node.body)
            frame.loops.pop()
            back = meet(frame.state, loop.continues)
            frame.state = tested
            assume(frame, node.test, False)
            leaving = frame.state
        else:
            given, rest = containers.sequence(frame, source, node.iter)
            items = join_all((*given, rest))
            assign(frame, node.target, items, node.iter)
            _one_round(frame, node.body, turn, entry)
            frame.loops.pop()
            back = meet(frame.state, loop.continues)
            leaving = head.copy()
            if loop.breaks is not None:
                loop.breaks.casts |= head.casts
        behind = None if back is None else _come_round(back)
        if leaving is not None:
            leaving = _having_run(frame, leaving, behind, node, entry, loop.breaks)
        new = meet(head, behind, loop=True)
        assert new is not None
        if rounds > _ROUNDS_WITH_ALL_WAYS:
            new.worlds = few_ways(new.worlds)  # which can only know less from round to round
        if new.same(head):
            break
        head, before = new, head
        if frame.analysis.is_spent and rounds > 1:
            leaving = _given_up(frame, leaving, before, head)
            break
    else:
        leaving = _given_up(frame, leaving, before, head)
    frame.depth -= 1
    frame.state = leaving
    if node.orelse:
        execute(frame, node.orelse)
    frame.state = meet(frame.state, loop.breaks)


def _one_round(frame: Frame, body: list[ast.stmt], turn: Turn | None, entry: State) -> None:
    """Go once through the body of a loop: with a layer of which no round before has cast a weight, if it takes those.

    Args:
        entry: the state before the loop.
    """
    if turn is None:
        execute(frame, body)
        return
    state = frame.now
    others = (each for each in state.casts if not (isinstance(each.leaf, Part) and each.leaf.owner in turn.owners))
    state.casts = entry.casts.union(others)
    frame.turns.append(turn)
    execute(frame, body)
    frame.turns.pop()


def _one_after_another(frame: Frame, node: ast.For | ast.AsyncFor, items: list[Value]) -> None:
    """Go through a few optimizers that are known, each in its turn."""
    loop = Loop()
    frame.loops.append(loop)
    for item in items:
        if frame.state is not None:
            assign(frame, node.target, item, node.iter)
            execute(frame, node.body)
        frame.state = meet(frame.state, loop.continues)
        loop.continues = None
    frame.loops.pop()
    if node.orelse and frame.state is not None:
        execute(frame, node.orelse)
    frame.state = meet(frame.state, loop.breaks)


def _given_up(frame: Frame, leaving: State | None, before: State | None, head: State | None) -> State | None:
    """The state behind a loop that does not come to rest: what still changed is anything."""
    assert head is not None
    frame.analysis.gives_up(frame.task, frame.code, head.context)
    if leaving is not None:
        known = {} if before is None else before.names
        changed_names = {name for name, value in head.names.items() if known.get(name) != value}
        leaving.names |= dict.fromkeys(changed_names, UNKNOWN)
        leaving.cells = {}
        leaving.worlds = frozenset(
            World(each.entry, frozenset(), each.now.losing(frame.task.touched)) for each in leaving.worlds
        )
    return leaving


def _come_round(state: State) -> State:
    """The state in which a loop is entered again: what happens from now on is not the first time."""
    found = state.copy()
    if any(world.now.items for world in found.worlds):
        found.worlds = changed(found.worlds, lambda machine: (machine.but({AGAIN: True}),))
    return found


def _having_run(
    frame: Frame, leaving: State, behind: State | None, node: ast.stmt, entry: State, breaks: State | None
) -> State | None:
    """A state behind a loop: values as if it may not have run at all, worlds and gradients as if it has."""
    if behind is None:
        # Every way through the body leaves the loop by itself, or the loop is not left at all.
        return leaving if breaks is None else meet(entry, leaving)
    if isinstance(node, ast.While):
        frame.state = behind.copy()
        assume(frame, node.test, False)
        behind = frame.state or behind
    leaving.worlds = behind.worlds
    if isinstance(node, (ast.For, ast.AsyncFor)):
        leaving.worlds = following(behind.worlds, partial(behind_all_in, frame.module.tree, node))
    for name, value in leaving.names.items():
        through = only(behind.names.get(name, NEVER), Tensor)
        if through is not None and through.flows & FLOWS and value != behind.names[name]:
            leaving.names[name] = frozenset(_depending(each, through) for each in value)
    return leaving


def _depending(atom: Atom | Tensor, through: Tensor) -> Atom | Tensor:
    """A tensor, or what may be one, with gradients that flow as through another."""
    tensor = atom.tensor or SOME_TENSOR if isinstance(atom, Opaque) else atom
    if not isinstance(tensor, Tensor):
        return atom
    reach, surely = tensor.reach | through.reach, tensor.surely | through.surely
    tensor = tensor.but(flows=through.flows, reach=reach, surely=surely)
    return atom.with_tensor(tensor) if isinstance(atom, Opaque) else tensor


def _break(frame: Frame, node: ast.Break) -> None:
    if frame.loops:
        frame.loops[-1].breaks = meet(frame.loops[-1].breaks, frame.state)
    frame.state = None


def _continue(frame: Frame, node: ast.Continue) -> None:
    if frame.loops:
        frame.loops[-1].continues = meet(frame.loops[-1].continues, frame.state)
    frame.state = None


def _return(frame: Frame, node: ast.Return) -> None:
    value = NONE_VALUE if node.value is None else evaluate(frame, node.value)
    if not frame.is_dead:
        if to := frame.analysis.handed_to(frame.code):
            frame.analysis.pytorch.given_back(frame, value, to, node)
        if "update" in frame.code.asked:
            frame.analysis.pytorch.returned(frame, value, node)
        frame.leave(value)


def _raise(frame: Frame, node: ast.Raise) -> None:
    for each in (node.exc, node.cause):
        if each is not None:
            evaluate(frame, each)
    frame.may_raise(is_seen=True)
    frame.state = None


def _with(frame: Frame, node: ast.With | ast.AsyncWith) -> None:
    _with_items(frame, node, 0)


def _with_items(frame: Frame, node: ast.With | ast.AsyncWith, index: int) -> None:
    if index == len(node.items):
        execute(frame, node.body)
        return
    item = node.items[index]
    mode = frame.now.context.gradients
    managers = evaluate(frame, item.context_expr)
    if frame.is_dead:
        return
    # `torch.set_grad_enabled` switches as soon as it is made: here, only until the `with` ends.
    frame.now.context = frame.now.context.but(gradients=mode)
    frame.may_raise()

    def body(value: Value) -> None:
        if item.optional_vars is not None and frame.state is not None:
            assign(frame, item.optional_vars, value, item.context_expr)
        if frame.state is not None:
            _with_items(frame, node, index + 1)

    frame.analysis.enter(frame, managers, body, item.context_expr)


def under(frame: Frame, context: Context, body: Callable[[], None]) -> None:
    """Run something in a context that ends with it, by whichever exit it is left."""
    before = frame.now.context
    casts = frame.now.casts
    opens = before.cuda.outermost != context.cuda.outermost
    if opens:
        frame.now.casts = frozenset()
    frame.now.context = context
    exits = [(loop.breaks, loop.continues) for loop in frame.loops]
    ended, raising = frame.ended, list(frame.raising)
    for loop in frame.loops:
        loop.breaks = loop.continues = None
    frame.ended = None
    frame.raising = [None] * len(raising)
    body()

    def restored(state: State | None) -> State | None:
        if state is not None:
            state.context = before
            state.casts = casts if opens else state.casts
        return state

    frame.state = restored(frame.state)
    for loop, (breaks, continues) in zip(frame.loops, exits, strict=True):
        loop.breaks = meet(breaks, restored(loop.breaks))
        loop.continues = meet(continues, restored(loop.continues))
    frame.ended = meet(ended, restored(frame.ended))
    frame.raising = [meet(old, restored(new)) for old, new in zip(raising, frame.raising, strict=True)]


def _try(frame: Frame, node: Any) -> None:
    outer = (frame.ended, frame.returned, [(loop.breaks, loop.continues) for loop in frame.loops])
    has_finally = bool(node.finalbody)
    if has_finally:
        frame.ended = None
        for loop in frame.loops:
            loop.breaks = loop.continues = None
    frame.raising.append(None)
    is_there = all(map(_only_brings_amp, node.body))
    if not is_there:
        frame.may_raise()
    execute(frame, node.body)
    raised = frame.raising.pop()
    raised = None if is_there else raised
    done = frame.state
    frame.raising.append(None)
    if node.orelse:
        execute(frame, node.orelse)
        done = frame.state
    for handler in node.handlers:
        frame.state = None if raised is None else raised.copy()
        if frame.state is None:
            break
        if handler.type is not None:
            evaluate(frame, handler.type)
        if handler.name:
            frame.bind(handler.name, frozenset({Opaque((frame.site(handler), handler.name))}))
        execute(frame, handler.body)
        done = meet(done, frame.state)
    again = frame.raising.pop()
    frame.state = done
    escaping = again if node.handlers else meet(raised, again)
    if has_finally:
        _finally(frame, node.finalbody, outer, escaping)
    elif frame.raising:
        frame.raising[-1] = meet(frame.raising[-1], escaping)


def _only_brings_amp(statement: ast.stmt) -> bool:
    """Whether a statement is of what PyTorch has, so that a handler's stub is never meant, or is a constant."""
    if isinstance(statement, ast.Import):
        return all(each.name in _OF_AMP for each in statement.names)
    if isinstance(statement, ast.ImportFrom):
        return all(f"{statement.module}.{each.name}" in _OF_AMP for each in statement.names) and not statement.level
    value = statement.value if isinstance(statement, ast.Assign) else None
    if isinstance(value, ast.Call) and ast.unparse(value.func) in _OF_AMP:
        return all(isinstance(each, ast.Constant) for each in (*value.args, *(word.value for word in value.keywords)))
    return isinstance(value, ast.Constant)


def _finally(frame: Frame, body: list[ast.stmt], outer: Any, escaping: State | None) -> None:
    """Run a `finally` on every way out of what it belongs to."""
    ended_before, _, exits_before = outer
    ended, exits = frame.ended, [(loop.breaks, loop.continues) for loop in frame.loops]
    frame.ended = ended_before
    for loop, (breaks, continues) in zip(frame.loops, exits_before, strict=True):
        loop.breaks, loop.continues = breaks, continues
    normal = frame.state

    def through(state: State | None) -> State | None:
        if state is None:
            return None
        frame.state = state.copy()
        execute(frame, body)
        return frame.state

    after_return = through(ended)
    frame.ended = meet(frame.ended, after_return)
    for loop, (breaks, continues) in zip(frame.loops, exits, strict=True):
        loop.breaks = meet(loop.breaks, through(breaks))
        loop.continues = meet(loop.continues, through(continues))
    after_raise = through(escaping)
    if after_raise is not None:
        frame.state = after_raise
        frame.may_raise()
    frame.state = through(normal)


def _define(frame: Frame, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
    if isinstance(node, ast.ClassDef):
        value = frame.analysis.define_class(frame, node)
    else:
        value = frame.analysis.define(frame, node)
    for decorator in reversed(node.decorator_list):
        value = frame.analysis.decorate(frame, decorator, value, node)
    frame.bind(node.name, value)


def _import(frame: Frame, node: ast.Import) -> None:
    for alias in node.names:
        whole = alias.asname is not None
        name = alias.name if whole else alias.name.partition(".")[0]
        found = frame.analysis.files.locate(name, frame.module.file)
        bound = alias.asname or name
        frame.bind(bound, one(External(name)) if found is None else one(FileModule(found)))


def _import_from(frame: Frame, node: ast.ImportFrom) -> None:
    base = "." * node.level + (node.module or "")
    for alias in node.names:
        if alias.name == "*":
            frame.analysis.import_star(frame, base)
            continue
        frame.bind(alias.asname or alias.name, frame.analysis.imported(frame, base, alias.name))


def _delete(frame: Frame, node: ast.Delete) -> None:
    for target in node.targets:
        if isinstance(target, ast.Name):
            frame.now.names.pop(target.id, None)
            frame.now.names[target.id] = one(UNBOUND)
        elif isinstance(target, ast.Subscript):
            evaluate(frame, target.value)
        elif isinstance(target, ast.Attribute):
            for each in tensors_in(evaluate(frame, target.value)):
                frame.analysis.pytorch.tensor_stored(frame, each, target.attr, NONE_VALUE, target)


def _assert(frame: Frame, node: ast.Assert) -> None:
    evaluate(frame, node.test)
    _asked_dtype(frame, node.test, False, node)
    if not frame.is_dead:
        frame.may_raise()
        assume(frame, node.test, True)


def _match(frame: Frame, node: ast.Match) -> None:
    subject = evaluate(frame, node.subject)
    done: State | None = None
    falls = True
    for case in node.cases:
        if frame.state is None:
            break
        before = frame.now.copy()
        test, is_all = _test_of(case.pattern, node.subject)
        if test is not None:
            assume(frame, test, True)
        if frame.state is not None:
            known = frame.now.names.get(node.subject.id) if isinstance(node.subject, ast.Name) else None
            _pattern(frame, case.pattern, known or subject, node.subject)
        if case.guard is not None and frame.state is not None:
            evaluate(frame, case.guard)
            assume(frame, case.guard, True)
        execute(frame, case.body)
        done = meet(done, frame.state)
        frame.state = before
        if test is not None and is_all and case.guard is None:
            assume(frame, test, False)
        is_any = isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None and case.guard is None
        if is_any:
            falls = False
            break
    frame.state = meet(done, frame.state if falls else None)


def _test_of(pattern: ast.pattern, subject: ast.expr) -> tuple[ast.expr | None, bool]:
    """What a pattern asks of a subject, as an expression, if it is one; and whether there is no more to it."""
    made: ast.expr | None = None
    is_all = True
    if isinstance(pattern, ast.MatchAs) and pattern.pattern is not None:
        return _test_of(pattern.pattern, subject)
    if isinstance(pattern, ast.MatchOr):
        parts = [_test_of(each, subject) for each in pattern.patterns]
        tests = [test for test, _ in parts if test is not None]
        made = ast.BoolOp(ast.Or(), tests) if len(tests) == len(parts) else None
        is_all = all(each for _, each in parts)
    elif isinstance(pattern, ast.MatchClass):
        made = ast.Call(ast.Name("isinstance", ast.Load()), [subject, pattern.cls], [])
        is_all = not (pattern.patterns or pattern.kwd_patterns)
    elif isinstance(pattern, ast.MatchSingleton):
        made = ast.Compare(subject, [ast.Is()], [ast.Constant(pattern.value)])
    elif isinstance(pattern, ast.MatchValue):
        made = ast.Compare(subject, [ast.Eq()], [pattern.value])
    return (None if made is None else ast.fix_missing_locations(ast.copy_location(made, pattern))), is_all


def _pattern(frame: Frame, pattern: ast.pattern, subject: Value, source: ast.AST) -> None:
    """Bind the names of a pattern: to the subject where it is bound whole, to what it may hold elsewhere."""
    if isinstance(pattern, ast.MatchAs):
        if pattern.pattern is not None:
            _pattern(frame, pattern.pattern, subject, source)
        if pattern.name is not None:
            frame.bind(pattern.name, subject)
        return
    if isinstance(pattern, ast.MatchStar):
        if pattern.name is not None:
            frame.bind(pattern.name, containers.new(frame, source, containers.LIST, rest=subject))
        return
    inner = UNKNOWN
    if isinstance(pattern, ast.MatchSequence):
        inner = containers.elements(frame, subject, source)
    elif isinstance(pattern, ast.MatchOr):
        inner = subject
    if isinstance(pattern, ast.MatchMapping) and pattern.rest is not None:
        frame.bind(pattern.rest, UNKNOWN)
    for each in ast.iter_child_nodes(pattern):
        if isinstance(each, ast.pattern):
            _pattern(frame, each, inner, source)


def _nothing(frame: Frame, node: ast.stmt) -> None:
    pass


_BY_KIND: dict[type[ast.stmt], Callable[[Frame, Any], None]] = {
    ast.Expr: _expression,
    ast.Assign: _assign,
    ast.AnnAssign: _annotated,
    ast.AugAssign: _augmented,
    ast.If: _if,
    ast.For: _loop,
    ast.AsyncFor: _loop,
    ast.While: _loop,
    ast.Break: _break,
    ast.Continue: _continue,
    ast.Return: _return,
    ast.Raise: _raise,
    ast.With: _with,
    ast.AsyncWith: _with,
    ast.Try: _try,
    ast.FunctionDef: _define,
    ast.AsyncFunctionDef: _define,
    ast.ClassDef: _define,
    ast.Import: _import,
    ast.ImportFrom: _import_from,
    ast.Delete: _delete,
    ast.Assert: _assert,
    ast.Match: _match,
    ast.Global: _nothing,
    ast.Nonlocal: _nothing,
    ast.Pass: _nothing,
}
if hasattr(ast, "TryStar"):
    _BY_KIND[ast.TryStar] = _try
if hasattr(ast, "TypeAlias"):
    _BY_KIND[ast.TypeAlias] = _nothing
