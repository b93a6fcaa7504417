"""Casts of weights that a region keeps: where one that was made without a gradient serves again.

Layers that a list holds may be one object for all that is known of them. A loop over the list takes each of them once,
and what is in `layers[:k]` is not in `layers[k:]`.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

from amp_migrate.flow.domain.atoms import NEVER, Atom, Obj, Opaque, Part, Tup, Value, one, whole_of
from amp_migrate.flow.domain.contexts import ON
from amp_migrate.flow.domain.kept_casts import KeptCast, Portion, Turn
from amp_migrate.flow.domain.machine import known_in_all
from amp_migrate.flow.events import Act
from amp_migrate.flow.python import containers
from amp_migrate.flow.python.expressions import evaluate
from amp_migrate.flow.python.frame import Frame
from amp_migrate.flow.pytorch import gradients
from amp_migrate.flow.source import Site
from amp_migrate.syntax import nodes_in

AS_CALLER = 0
_IN_ORDER = frozenset("enumerate reversed list tuple zip".split())
_OF_EACH = frozenset("children named_children values items".split())


def cast_weight(frame: Frame, leaf: Atom, recorded: int, site: Site) -> None:
    """Autocast casts a weight, and keeps the cast until the outermost region ends.

    Args:
        recorded: whether gradients may be recorded, may not be, as bits.
    """
    owner = leaf.owner if isinstance(leaf, Part) else None
    if isinstance(owner, Opaque) and owner.made_in in frame.analysis.pytorch.told_apart:
        return  # from before it was seen who calls for it
    state = frame.now
    outermost = state.context.cuda.outermost
    portion, facts = _portion(frame, leaf), known_in_all(state.worlds)
    if recorded & ON:
        met = frozenset(each.leaf for each in state.casts if each.may_serve(frame.code, portion, facts))
        if met and gradients.overlap(met, frozenset({leaf})):
            frame.analysis.event(frame, Act.WEIGHT_CAST, ast.expr(), site=site, leaves=frozenset({leaf}))
    else:
        state.casts |= {KeptCast(leaf, frame.code, portion, facts)}
    if outermost & frame.task.context.cuda.outermost:
        # What is run for callers of both kinds records gradients for those that do.
        own = AS_CALLER if recorded == frame.task.context.gradients else recorded
        frame.task.casts[leaf, own, site] = None


def note_number(frame: Frame, name: str, number: ast.expr) -> None:
    """A variable gets a value: what begins there is behind the parts of lists that end there, or before."""
    state = frame.now
    text, facts = ast.unparse(number), known_in_all(state.worlds)
    state.casts = frozenset(
        each._replace(behind=each.behind | {name})
        if each.code is frame.code and each.portion and each.portion.ends_before(text, facts)
        else each
        for each in state.casts
    )


def cast_of_unknown(frame: Frame, module: Atom, node: ast.AST) -> None:
    """Autocast casts the weights of what nobody looks into."""
    context = frame.now.context
    if context.cuda.may_be_on and context.cuda.cache & ON:
        cast_weight(frame, whole_of(module), context.gradients, frame.site(node))


def _portion(frame: Frame, leaf: Atom) -> Portion | None:
    owner = leaf.owner if isinstance(leaf, Part) else leaf
    return next((turn.portion for turn in reversed(frame.turns) if owner in turn.owners), None)


def turn_of_loop(frame: Frame, node: ast.For | ast.AsyncFor) -> Turn | None:
    """The layers that a loop takes one after the other, in itself or by its index; None where it takes none."""
    if not frame.now.context.cuda.may_be_on:
        return None
    owners: Counter[Atom] = Counter()
    portions: list[Portion | None] = []
    for holder, portion in _holders(frame, node):
        if isinstance(holder, (ast.Name, ast.Attribute)):
            owners += _owners(frame, evaluate(frame, holder))
            portions.append(portion)
    found = frozenset(each for each, count in owners.items() if count == 1)
    return Turn(found, portions[0] if len(portions) == 1 else None) if found else None


def turn_of_chain(frame: Frame, owner: Obj, node: ast.AST) -> Turn | None:
    """The layers of a chain that is a part of another one: `self.layers[:k](x)`."""
    portion = _sliced(frame, node.func, node)[1] if isinstance(node, ast.Call) else None
    return None if portion is None else Turn(frozenset(_owners(frame, one(owner))), portion)


def _holders(frame: Frame, node: ast.For | ast.AsyncFor) -> Iterator[tuple[ast.expr, Portion | None]]:
    """The lists that a loop goes through, each with the part that it takes."""
    waiting = [node.iter]
    while waiting:
        each = waiting.pop()
        function, args = (each.func, each.args) if isinstance(each, ast.Call) else (None, [])
        if isinstance(function, ast.Name) and function.id in _IN_ORDER:
            waiting += args if function.id == "zip" else args[:1]
        elif isinstance(function, ast.Attribute) and function.attr in _OF_EACH and not args:
            yield function.value, None
        elif isinstance(function, ast.Name) and function.id == "range" and isinstance(node.target, ast.Name):
            yield from _indexed(frame, node, node.target.id, args)
        else:
            yield _sliced(frame, each, node)


def _sliced(frame: Frame, node: ast.expr, taking: ast.expr | ast.stmt) -> tuple[ast.expr, Portion | None]:
    """The list that is taken a part of, and the part."""
    if not (isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice)):
        return node, None
    bounds = (node.slice.lower, node.slice.upper)
    return node.value, None if node.slice.step else _between(frame, taking, node.value, *bounds)


def _indexed(
    frame: Frame, loop: ast.For | ast.AsyncFor, index: str, bounds: list[ast.expr]
) -> Iterator[tuple[ast.expr, Portion | None]]:
    """The lists of which a loop takes the element of an index alone."""
    taken: dict[str, list[ast.Subscript]] = {}
    for each in (node for statement in loop.body for node in nodes_in(statement)):
        if isinstance(each, ast.Subscript) and isinstance(each.value, (ast.Name, ast.Attribute)):
            taken.setdefault(ast.unparse(each.value), []).append(each)
    for of_one in taken.values():
        if all(isinstance(each.slice, ast.Name) and each.slice.id == index for each in of_one):
            lower, upper = (None, *bounds) if len(bounds) == 1 else bounds[:2]
            yield of_one[0].value, None if len(bounds) > 2 else _between(frame, loop, of_one[0].value, lower, upper)


def _between(
    frame: Frame, taking: ast.expr | ast.stmt, of: ast.expr, lower: ast.expr | None, upper: ast.expr | None
) -> Portion | None:
    """The part of a list that a loop or a call takes; None where what says which list may be another later."""
    if not _is_steady(frame, of):
        return None
    bounds = ["" if each is None else ast.unparse(each) if _is_steady(frame, each) else None for each in (lower, upper)]
    start = lower.id if isinstance(lower, ast.Name) else ""
    lines = range(taking.lineno, (taking.end_lineno or taking.lineno) + 1)
    is_moved = any(line in lines for line in frame.code.stores(start))
    return Portion(frame.code, ast.unparse(of), bounds[0], bounds[1], "" if is_moved else start)


def _is_steady(frame: Frame, node: ast.expr) -> bool:
    """Whether an expression is the same later: not of an attribute, or a name, that is stored."""
    parts = [*nodes_in(node)]
    rebound = [each.attr for each in parts if isinstance(each, ast.Attribute) and frame.code.stores(each.attr)]
    names = {each.id for each in parts if isinstance(each, ast.Name)}
    # What is bound once is another in each round of a loop around.
    own = [each.arg for each in frame.code.parameters]
    most = 0 if frame.depth else 1
    return not rebound and all(len(frame.code.stores(each)) <= (0 if each in own else most) for each in names)


def _owners(frame: Frame, value: Value) -> Counter[Atom]:
    """What has weights in the elements of a list: once, where that is in one element, and in the list once."""
    found: Counter[Atom] = Counter()
    for element, count in _elements(frame, value).items():
        is_several = isinstance(element, Opaque) or element in frame.analysis.many
        leaves = frame.analysis.pytorch.leaves_of(frame, element)
        for owner in {each.owner for each in leaves if isinstance(each, Part)}:
            found[owner] += 1 if is_several else count
    return found


def _elements(frame: Frame, value: Value) -> Counter[Atom]:
    """The elements of a list, and how often each is in it; twice, where nobody knows how often."""
    found: Counter[Atom] = Counter()
    for holder in value if len(value) == 1 else NEVER:
        if isinstance(holder, Tup):
            cells = [*((item, 1) for item in holder.items), (holder.rest or NEVER, 2)]
        elif isinstance(holder, Obj):
            names = frame.analysis.heap.names(holder, frame.task)
            held = [name for name in names if not name.startswith("<")]
            cells = [(frame.read(holder, name), 2 if name == containers.REST else 1) for name in held]
        else:
            cells = [(one(holder.part("[]")), 1)] if isinstance(holder, Opaque) else []
        for inside, count in cells:
            found.update({each: count for each in inside if isinstance(each, (Obj, Opaque))})
    return found
