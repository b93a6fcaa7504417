"""Calls: whatever may be called, what it is given, and what the call does to the caller's state."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from amp_migrate.flow.domain.atoms import (
    NEVER,
    UNBOUND,
    UNKNOWN,
    Atom,
    Class,
    Const,
    Dtype,
    External,
    FileModule,
    FrameRef,
    Func,
    Method,
    Native,
    Obj,
    Opaque,
    Some,
    Super,
    Tup,
    Value,
    Wrapped,
    const,
    given_by_one,
    join,
    join_all,
    made_by_choice,
    one,
    only,
    places_of,
    reads_of,
)
from amp_migrate.flow.domain.contexts import ON, Context
from amp_migrate.flow.domain.machine import Facts, assuming_all
from amp_migrate.flow.domain.state import Cell, meet
from amp_migrate.flow.domain.tensor import FLOWS, Tensor, is_same, settled
from amp_migrate.flow.events import Act
from amp_migrate.flow.python import attributes, builtins, containers, enums
from amp_migrate.flow.python.arguments import DEFAULT, Arguments, bind
from amp_migrate.flow.python.classes import class_of, has_unread_base, is_module_class, lineage
from amp_migrate.flow.python.frame import Frame
from amp_migrate.flow.python.statements import under
from amp_migrate.flow.source import Code, Site
from amp_migrate.syntax import is_keeping, nodes_in

if TYPE_CHECKING:
    from amp_migrate.flow.task import Task

# How many statements the run of an object is worth that is a part of itself, which no program has.
_OF_A_ROUND = 8
_VALUES = (Tensor, Some, Tup, Dtype)
UNDER = "under"
MANAGER = External("contextlib._GeneratorContextManager")


def call(frame: Frame, callee: Value, args: Arguments, node: ast.AST) -> Value:
    """What calling a value may give. Each thing that it may be runs on a state of its own."""
    if callee and all(isinstance(each, Native) and containers.lacks(each) for each in callee):
        frame.analysis.event(frame, Act.NOT_A_TENSOR, node)
    callee = _but_of_values(_but_of_truths(_but_out_of_registries(frame, callee)))
    if len(callee) == 1:
        (atom,) = callee
        return call_atom(frame, atom, args, node)
    if not callee:
        frame.is_dead = True
        return NEVER
    before = frame.now.copy()
    after = None
    given: list[Value] = []
    aside = _known_as_unknown(callee)
    for atom in sorted(callee, key=repr):
        frame.state = before.copy()
        frame.state.worlds = frame.analysis.pytorch.worlds_with(frame, atom, callee)
        if before.worlds and not frame.state.worlds:
            continue
        value = call_atom(frame, atom, args, node)
        if atom not in aside:
            given.append(value)
            after = after if frame.is_dead else meet(after, frame.state)
        frame.is_dead = False
    frame.is_dead = after is None
    frame.state = after or before
    found = made_by_choice(join_all(given), *given)
    return given_by_one(found, given) if all(attributes.is_module(frame, each) for each in callee) else found


def _but_out_of_registries(frame: Frame, callee: Value) -> Value:
    """What is called, without what was unknown before it was seen what is registered there."""
    known = frame.analysis.pytorch.out_of_registries
    if not known or len(callee) == 1:
        return callee
    return frozenset(e for e in callee if not (isinstance(e, Opaque) and e.made_at in known)) or callee


def _but_of_truths(callee: Value) -> Value:
    """What is called, without methods that no `bool` has: `(x > 0).sum()` of an unknown x is that of a tensor."""
    if len(callee) == 1:
        return callee
    lacking = (each for each in callee if isinstance(each, Native) and not hasattr(bool, each.name))
    told_apart = (each for each in lacking if isinstance(each.owner, Some) and each.owner.kind == "bool")
    return callee.difference(told_apart) or callee


def _but_of_values(callee: Value) -> Value:
    """What is called, without the tensors and numbers for which something unknown may have been taken, if it can be."""
    values = frozenset(each for each in callee if isinstance(each, _VALUES))
    return callee - values if any(not isinstance(each, Const) for each in callee - values) else callee


def _known_as_unknown(callee: Value) -> Value:
    """The objects of foreign classes, and their methods, which are something unknown as well, made in one place.

    It is the unknown one whose uses tell what it does: `transformers.AdamW(...).zero_grad()` clears gradients.
    """
    unknown = {each.made_at for each in callee if isinstance(each, Opaque)}
    owners = {each: each.owner if isinstance(each, Native) else each for each in callee}
    return frozenset(
        each for each, owner in owners.items() if isinstance(owner, Obj) and owner.external and owner.site in unknown
    )


def call_atom(frame: Frame, atom: Atom | Tensor, args: Arguments, node: ast.AST) -> Value:
    """What calling one thing may give."""
    pytorch = frame.analysis.pytorch
    if isinstance(atom, Func):
        return call_function(frame, atom, args, node)
    if isinstance(atom, Method):
        return call_atom(frame, atom.function, args.behind(one(atom.owner)), node)
    if isinstance(atom, Native):
        if atom.name in ("__getattr__", "__setattr__"):
            return builtins.call(frame, atom.name.strip("_"), args.behind(one(atom.owner)), node)
        if isinstance(atom.owner, Obj) and atom.owner.external and atom.owner.made_of not in containers.KINDS:
            return pytorch.method(frame, atom, args, node)
        if isinstance(atom.owner, (Tensor, Opaque, Class, External)) or (
            isinstance(atom.owner, Obj) and isinstance(atom.owner.made_of, Class)
        ):
            return pytorch.method(frame, atom, args, node)
        if isinstance(atom.owner, Some) and atom.owner.kind == "ndarray":
            return pytorch.array_method(frame, atom, args, node)
        assert isinstance(node, ast.AST)
        return containers.method(frame, atom, args.positional, args.keywords, node)  # type: ignore[arg-type]
    if isinstance(atom, External):
        if atom.name.startswith("builtins."):
            return builtins.call(frame, atom.name.removeprefix("builtins."), args, node)
        return pytorch.function(frame, atom.name, args, node)
    if isinstance(atom, Class):
        return instantiate(frame, atom, args, node)
    if isinstance(atom, Obj):
        return call_object(frame, atom, args, node)
    if isinstance(atom, Wrapped):
        return _call_wrapped(frame, atom, args, node)
    if isinstance(atom, Opaque):
        return pytorch.call_unknown(frame, atom, args, node)
    if isinstance(atom, _VALUES) or (isinstance(atom, Const) and atom.kind == "device"):
        return pytorch.call_value(frame, args, node)
    frame.is_dead = True
    return NEVER


def _call_wrapped(frame: Frame, atom: Wrapped, args: Arguments, node: ast.AST) -> Value:
    if atom.kind == UNDER:
        assert atom.context is not None
        args = frame.analysis.pytorch.cast_under(frame, atom.context, args)
        found: list[Value] = []
        enter(frame, one(atom.context), lambda _: found.append(call_atom(frame, atom.function, args, node)), node)
        return found[0] if found else NEVER
    if atom.kind == "contextmanager":
        made = Obj(frame.site(node), frame.context_of_objects, MANAGER)
        frame.analysis.managers.setdefault(made, {})[atom.function] = args
        return one(made)
    return call_atom(frame, atom.function, args, node)


def call_object(frame: Frame, owner: Obj, args: Arguments, node: ast.AST) -> Value:
    """Calling an object, which may seem to hold itself."""
    running, context, inside_themselves = frame.task.running, frame.now.context, frame.analysis.inside_themselves
    if running.has(owner):
        inside_themselves.add(owner)
    known = running.known(owner, context, args)
    if known is not None:
        frame.is_dead = not known
        return known

    def run(given: Arguments) -> Value:
        frame.is_dead = False
        frame.analysis.executed += _OF_A_ROUND if running.going_round else 0
        return _run_object(frame, owner, given, node)

    found = running.run(owner, context, args, run, goes_round=owner in inside_themselves)
    return frame.analysis.pytorch.call_unknown(frame, Opaque(), args, node) if found is None else found


def _run_object(frame: Frame, owner: Obj, args: Arguments, node: ast.AST) -> Value:
    """What an object does that is called: a module runs its hooks and its `forward`."""
    kind = class_of(owner)
    if isinstance(kind, Class):
        own = attributes.load_of_class(frame, kind, owner, owner, "__call__")
        projects = frozenset(each for each in own if not isinstance(each, Native))
        if projects:
            return call(frame, projects, args, node)
        if is_module_class(frame, kind):
            return frame.analysis.pytorch.run_module(frame, owner, args, node)
        if has_unread_base(frame, kind):
            return frame.analysis.pytorch.call_unknown(frame, Opaque((owner,)), args, node)
        if not own and all(isinstance(each, Class) for each in lineage(frame, kind)):
            frame.is_dead = True  # what cannot be called raises
            return NEVER
    if isinstance(kind, External):
        return frame.analysis.pytorch.call_object(frame, owner, args, node)
    return UNKNOWN


def call_function(frame: Frame, function: Func, args: Arguments, node: ast.AST) -> Value:
    """Calling a function of the project: by its summary."""
    analysis = frame.analysis
    analysis.note_callee(frame, node, function.code)
    is_followed = analysis.follows(
        function.code, lambda: analysis.is_own(frame.code) or analysis.pytorch.has_what_steps(frame, args.all())
    )
    if not is_followed or _is_derived_classes(function.code, args):
        return analysis.pytorch.call_not_followed(frame, function, args, node)
    given = bind(frame, function.code, function, args, node)
    if given is None:
        frame.is_dead = not args.rest and not args.others and not _may_take_others(function.code)
        return NEVER if frame.is_dead else UNKNOWN
    return _as_caller_knows(frame, function.code, args, _as_tests_tell(frame, function, given, node))


def _may_take_others(code: Code) -> bool:
    """Whether a decorator may let a function be called with other arguments: with the first, as `curry` does."""
    return not all(map(is_keeping, getattr(code.node, "decorator_list", ())))


def _is_derived_classes(code: Code, args: Arguments) -> bool:
    """Whether a method is one that derived classes override, of an object that nobody in sight makes."""
    owners = args.positional[0] if args.positional else NEVER
    is_nobodys = bool(owners) and all(
        isinstance(each, Obj) and isinstance(each.made_of, Class) and each.site == each.made_of.code.site
        for each in owners
    )
    return is_nobodys and code.is_abstract


def _as_caller_knows(frame: Frame, code: Code, args: Arguments, value: Value) -> Value:
    """What a function returns, of which its tests of what the caller gave it by name tell the caller, too."""
    if not any(isinstance(each, Tensor) and any(at is code for _, at, _, _ in each.spared) for each in value):
        return value
    own = frame.code
    nodes = ((each.arg, args.node(at, each.arg)) for at, each in enumerate(code.parameters))
    names = {name: node.id for name, node in nodes if isinstance(node, ast.Name)}
    frame.telling |= set(names.values())

    def here(facts: Facts) -> Facts | None:
        if not all(names.keys() >= fact[2] for fact in facts):
            return None
        return frozenset(
            (_renamed(text, names), outcome, frozenset(names[each] for each in of)) for text, outcome, of in facts
        )

    def told(each: Tensor) -> Tensor:
        kept = set()
        for entry in each.spared:
            leaf, at, spared, reached = entry
            if at is not code:
                kept.add(entry)
            elif (one_way := here(spared)) is not None and (other := here(reached)) is not None:
                kept.add((leaf, own, one_way, other))
        return each.but(spared=frozenset(kept))

    return frozenset(told(each) if isinstance(each, Tensor) else each for each in value)


def _renamed(text: str, names: Mapping[str, str]) -> str:
    """An expression with other names."""
    tree = ast.parse(text, mode="eval")
    for node in nodes_in(tree):
        if isinstance(node, ast.Name):
            node.id = names.get(node.id, node.id)
    return ast.unparse(tree)


def _as_tests_tell(frame: Frame, function: Func, given: dict[str, Value], node: ast.AST) -> Value:
    """Run a function that does something to gradients once for each of what a test makes of a tensor that it is given.

    Such a test is one of the caller's: the function itself does not know of it.
    """
    ways = [
        (facts, {**given, name: one(tensor)})
        for name, value in given.items()
        for known in [only(value, Tensor)]
        if known is not None and known.spared
        for facts, tensor in settled(known, frame.code)
    ]
    if len(ways) < 2:
        return invoke(frame, function, given, node)
    before = frame.now.copy()
    found = invoke(frame, function, given, node)
    if frame.is_dead or frame.now.worlds == before.worlds:
        return found
    after = None
    for facts, each in ways:
        frame.state = before.copy()
        frame.now.worlds = assuming_all(before.worlds, facts)
        if frame.now.worlds:
            invoke(frame, function, each, node)
            after = meet(after, None if frame.is_dead else frame.state)
        frame.is_dead = False
    frame.is_dead = after is None
    frame.state = after or before
    return found


def invoke(frame: Frame, function: Func, given: dict[str, Value], node: ast.AST) -> Value:
    """Run a function with values for its parameters, or take what is known from having run it."""
    analysis = frame.analysis
    ref = FrameRef(function.code, _context(frame, function.code, given, node), function.frame)
    task = analysis.task(function.code, ref, given, frame.now.context, _around(frame, function.code))
    site = frame.site(node)
    if frame.runs_often or (task.called_at is not None and task.called_at != site):
        task.is_many = True
    task.called_at = site
    analysis.bring(task, {world.now for world in frame.now.worlds})
    if reads_of(task.value) and function.code not in analysis.measuring:
        analysis.measuring.add(function.code)
        return invoke(frame, function, given, node)
    if function.code not in analysis.making and _makes_parts(frame, task):
        analysis.making.add(function.code)
        return invoke(frame, function, given, node)
    task.callers[frame.task] = task.version
    frame.task.called[task] = None
    if analysis.files.is_installed(function.code.file) and not analysis.files.is_installed(frame.module.file):
        task.called_from.setdefault(frame.task, set()).add(site)
    apply_summary(frame, task)
    for name, leaf in task.made_leaves.items():
        if (tensor := only(given[name], Tensor)) is not None:
            _require(frame, tensor, leaf)
    return _of_this_call(task.value, given.values(), site)


def _makes_parts(frame: Frame, task: Task) -> bool:
    """Whether a function gives modules, optimizers or scalers that it, or what it calls, makes and keeps nowhere."""
    value = task.value
    inside = value.union(*(item for each in value if isinstance(each, Tup) for item in each.items))
    made = {each for each in inside if any(map(task.code.has, places_of(each))) and _is_part(frame, each)}
    kept = (frame.analysis.heap.read(*cell, frame.task) for cell in task.written) if made else ()
    return bool(made.difference(*kept))


def _is_part(frame: Frame, atom: Atom | Tensor) -> bool:
    registry = frame.analysis.pytorch.registry
    if isinstance(atom, Opaque):
        return frame.analysis.pytorch.is_used_as_module(frame, atom)
    return attributes.is_module(frame, atom) or atom in registry.optimizers or atom in registry.scalers


def _around(frame: Frame, code: Code) -> dict[Cell, Value]:
    """What names of the file are here that a function of it may read, where the file binds them anew between calls."""
    if code.file != frame.module.file:
        return {}
    owner = FileModule(code.file)
    names = frame.now.names if frame.code.parent is None else {}
    known = ((each, names.get(each) or _told(frame, (owner, each))) for each in frame.module.told_by_caller(code))
    return {(owner, name): value for name, value in known if value and UNBOUND not in value}


def _told(frame: Frame, cell: Cell) -> Value:
    return frame.now.cells.get(cell, NEVER) if cell in frame.task.around else NEVER


def _of_this_call(value: Value, given: Iterable[Value], site: Site) -> Value:
    """What a call gives, told from what another call of the same function gives: what it makes, each makes anew."""
    made = [each for each in value if isinstance(each, Tensor)]
    if not made:
        return value
    known = frozenset().union(*(each.born for every in given for each in every if isinstance(each, Tensor)))
    here = frozenset({site})
    return frozenset(
        each.but(piece=here) if isinstance(each, Tensor) and not each.piece and each.born.isdisjoint(known) else each
        for each in value
    )


def _require(frame: Frame, tensor: Tensor, leaf: Atom) -> None:
    """A tensor has got a gradient of its own: by whatever name it is known here."""
    for name, value in frame.now.names.items():
        mine = only(value, Tensor)
        if mine is not None and is_same(mine, tensor):
            frame.now.names[name] = one(mine.but(flows=FLOWS, leaf=frozenset({leaf})))


def _context(frame: Frame, code: Code, given: dict[str, Value], node: ast.AST) -> tuple[Site, ...]:
    """On whose behalf a function makes objects, or measures gradients: its own object's, or that of the call.

    What it gives of gradients has the scale in it that they have where it is called.
    """
    parameters, makes, longest = code.parameters, frame.analysis.constructs(code), frame.analysis.longest_context
    is_measuring = code in frame.analysis.measuring and not makes
    if not is_measuring and parameters and isinstance(code.parent.node if code.parent else None, ast.ClassDef):
        owner = given.get(parameters[0].arg, NEVER)
        if len(owner) == 1:
            (atom,) = owner
            if isinstance(atom, Obj):
                here = (*atom.context, atom.site)
                if code in frame.analysis.making:  # not for itself, but for whoever calls it
                    return tuple(dict.fromkeys((*frame.ref.context, frame.site(node), *here)))[-longest:]
                # What is made inside itself, over and over, is one.
                return here[-longest:] if len(set(here)) == len(here) else atom.context
    if is_measuring or makes:
        here = (*frame.ref.context, frame.site(node))
        return here[-longest:] if len(set(here)) == len(here) else frame.ref.context
    return ()


def apply_summary(frame: Frame, task: Task) -> None:
    """Do to the caller's state what a call does by the summary of what it runs."""
    state = frame.now
    mode, around = state.context.gradients, state.context.cuda
    raised = task.through(task.raised, state.worlds)
    if raised and raised != state.worlds:
        if frame.raising:
            frame.to_handlers(raised)
        frame.task.raises(raised)
    frame.task.touched |= task.touched
    frame.task.written |= task.written
    if task.leaves_on is None:
        frame.is_dead = True
        return
    if task.touched:
        state.worlds = task.through(task.exits, state.worlds)
        if not state.worlds:
            frame.is_dead = True
            return
    if task.leaves_on is not task.context:
        state.context = task.leaves_on
    for cell in task.written:
        state.cells.pop(cell, None)
    for cell, value in task.cells.items():
        if cell[0] not in frame.analysis.many:
            state.cells[cell] = value
    state.forget_cells(task.written)
    # What a call keeps meets what comes after it: the ways through it have been followed, and may exclude each other.
    # What is run for callers without a region too casts nothing for them.
    kept = task.casts if around.may_be_on and around.cache & ON else ()
    for leaf, recorded, site in sorted(kept, key=lambda each: not (each[1] or mode) & ON):
        frame.analysis.pytorch.cast_weight(frame, leaf, recorded or mode, site)


def instantiate(frame: Frame, kind: Class, args: Arguments, node: ast.AST) -> Value:
    """A new object of a class of the project."""
    analysis = frame.analysis
    member = enums.called(frame, kind, args.get(0, "value") or NEVER)
    if member:
        return member
    made = Obj(frame.site(node), frame.context_of_objects, kind)
    if frame.runs_often:
        analysis.many.add(made)
    for cell in [each for each in frame.now.cells if each[0] is made]:
        del frame.now.cells[cell]
    analysis.instances.setdefault(kind.code, {})[made] = None
    bases = [each.name for each in lineage(frame, kind) if isinstance(each, External)]
    init = attributes.load_of_class(frame, kind, made, made, "__init__")
    if not analysis.follows_objects(kind.code, bases, lambda: _is_told_cpu(frame, init, args)):
        analysis.pytorch.hide(frame, made)
        return one(made)
    container = next((containers.BASES[each][1] for each in bases if each in containers.BASES), None)
    if container is not None:
        frame.write(made, containers.ELEMENTS, containers.new(frame, node, container, length=0))
    maker = attributes.load_of_class(frame, kind, kind, None, "__new__")
    if projects := frozenset(each for each in maker if isinstance(each, Func)):
        given = call(frame, projects, args.behind(one(kind)), node)
        frame.is_dead = False
        others = frozenset(e for e in given if isinstance(e, Obj) and kind not in lineage(frame, class_of(e) or e))
        if others and others == given:
            return others
        # What else it gives is not told from the object that is made here.
    own = frozenset(each for each in init if not isinstance(each, (Native, Opaque)))
    if own:
        call(frame, own, args, node)
    elif _fields(frame, kind, made, args):
        after = attributes.load_of_class(frame, kind, made, made, "__post_init__")
        if after:
            call(frame, frozenset(e for e in after if isinstance(e, Method)), Arguments(), node)
    elif bases:
        analysis.pytorch.made_of_base(frame, made, bases, args, node)
    if frame.is_dead:
        return NEVER
    return one(made)


def _is_told_cpu(frame: Frame, init: Value, args: Arguments) -> bool:
    """Whether a constructor is told the CPU, be it by a default."""
    functions = [each.function for each in init if isinstance(each, Method) and isinstance(each.function, Func)]
    read = frame.analysis.heap.read
    defaults = (read(of, DEFAULT + each.arg, frame.task) for of in functions for each in of.code.parameters)
    return any(map(frame.analysis.pytorch.is_cpu, (*args.all(), *defaults)))


def _fields(frame: Frame, kind: Class, made: Obj, args: Arguments) -> bool:
    """Store what a dataclass or named tuple is given; whether the class is one."""
    names: list[str] = []
    for each in reversed(lineage(frame, kind)):
        if isinstance(each, Class) and isinstance(each.code.node, ast.ClassDef):
            for statement in each.code.node.body:
                if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                    names.append(statement.target.id)
    if not names:
        return False
    for index, name in enumerate(dict.fromkeys(names)):
        value = args.get(index, name)
        default = frame.analysis.class_cell(frame, kind, name)
        frame.write(made, name, value if value is not None else default or UNKNOWN)
    return True


def enter(frame: Frame, managers: Value, body: Callable[[Value], None], node: ast.AST) -> None:
    """Run the body of a `with` under what it enters."""
    base = frame.now.context
    simple: list[tuple[Context, Value]] = []
    others: list[Obj] = []
    for atom in sorted(managers, key=repr):
        if isinstance(atom, Obj) and (atom.made_of is MANAGER or isinstance(atom.made_of, Class)):
            others.append(atom)
        else:
            simple.append(frame.analysis.pytorch.context_of(frame, atom, base, node))
    before = frame.now.copy() if others and (simple or len(others) > 1) else None
    after = None
    if simple:
        context, value = simple[0]
        for other, more in simple[1:]:
            context, value = context.join(other), join(value, more)
        if context is base:
            body(value)
        else:
            under(frame, context, lambda: body(value))
        after = frame.state
    for manager in others:
        if before is not None:
            frame.state = before.copy()
        if manager.made_of is MANAGER:
            _enter_generator(frame, manager, body, node)
        else:
            _enter_object(frame, manager, body, node)
        after = meet(after, frame.state)
    if managers:
        frame.state = after
    else:
        frame.is_dead = True


def _enter_object(frame: Frame, manager: Obj, body: Callable[[Value], None], node: ast.AST) -> None:
    before = frame.now.context
    value = call(frame, attributes.load_of_object(frame, manager, "__enter__", node) or UNKNOWN, Arguments(), node)
    if frame.is_dead:
        return
    entered, frame.now.context = frame.now.context, before
    under(frame, entered, lambda: body(value))
    if frame.state is not None:
        leave = attributes.load_of_object(frame, manager, "__exit__", node) or UNKNOWN
        call(frame, leave, Arguments([const(None)] * 3), node)
        frame.now.context = before


def _enter_generator(frame: Frame, manager: Obj, body: Callable[[Value], None], node: ast.AST) -> None:
    """Interpret the generator behind a context manager in place, with the body of the `with` where it yields."""
    after = None
    entry = frame.now.copy()
    for wrapped, passed in list(frame.analysis.managers.get(manager, {}).items()):
        frame.state = entry.copy()
        function, args = wrapped, passed
        while isinstance(function, (Method, Wrapped)):
            args = args.behind(one(function.owner)) if isinstance(function, Method) else args
            function = function.function
        given = bind(frame, function.code, function, args, node) if isinstance(function, Func) else None
        if given is None or not isinstance(function, Func):
            body(UNKNOWN)
        else:
            frame.analysis.inline(frame, function, given, body, node)
        after = meet(after, frame.state)
    frame.state = after


def super_of(frame: Frame) -> Value:
    """`super()`: the class around, and the first parameter."""
    code: Code | None = frame.code
    while code is not None and not (
        code.is_function and isinstance(code.parent.node if code.parent else None, ast.ClassDef)
    ):
        code = code.parent
    if code is None or code.parent is None or not code.parameters:
        return UNKNOWN
    ref = frame.ref if code is frame.code else frame.frame_of(code)
    kind = Class(code.parent, None if ref is None else ref.parent)
    owners = frame.variable(code.parameters[0].arg)
    return frozenset(Super(kind, each) for each in owners if isinstance(each, (Obj, Class, Opaque)))
