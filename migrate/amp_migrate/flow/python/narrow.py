"""What a test says where it has come out as true, or as false."""

from __future__ import annotations

import ast
import numbers
from collections import abc
from collections.abc import Callable, Iterable, Mapping

from amp_migrate.counters import implied_in
from amp_migrate.flow.domain.atoms import (
    NEVER,
    NONE,
    Atom,
    Class,
    Const,
    External,
    Func,
    Member,
    Method,
    Native,
    Obj,
    Opaque,
    Some,
    Tup,
    Value,
    constant,
    may_be,
    of_truth,
)
from amp_migrate.flow.domain.machine import assuming
from amp_migrate.flow.domain.state import State
from amp_migrate.flow.domain.tensor import FLOATING, OTHER, Tensor
from amp_migrate.flow.python.classes import is_module_class, lineage
from amp_migrate.flow.python.frame import Frame
from amp_migrate.tables.operators import LAYERS
from amp_migrate.tables.torch_names import MODULE_WRAPPERS


def assume(frame: Frame, test: ast.expr, truth: bool) -> None:
    """Go on where a test has come out as `truth`; the state is None where it cannot."""
    if frame.analysis.as_written and is_turned(frame.analysis.values, test, truth):
        frame.state = None
    _narrow(frame, test, truth)
    if frame.state is None:
        return
    worlds = frame.state.worlds
    if frame.is_recorded or frame.state.context.cuda.may_be_on or any(world.now.items for world in worlds):
        known = assuming(worlds, implied_in(frame.module.tree, frame.code.node, test, truth))
        # Of a flag that is False, and not None, what is known of the one test denies the other.
        if not known and constant(frame.analysis.values.get(test, NEVER)) is not truth:
            frame.state = None
        else:
            frame.state.worlds = known or worlds


def is_turned(values: Mapping[ast.AST, Value], test: ast.expr, truth: bool) -> bool:
    """Whether a test comes out as `truth` only in a run with other numbers, texts and booleans than those in sight."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And if truth else ast.Or):
        return any(is_turned(values, each, truth) for each in test.values)  # `a and b` is true only where both are
    known = values.get(test, NEVER)
    return bool(known) and not may_be(known, truth)


def _narrow(frame: Frame, test: ast.expr, truth: bool) -> None:
    if frame.state is None:
        return
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        _narrow(frame, test.operand, not truth)
    elif isinstance(test, ast.BoolOp):
        if isinstance(test.op, ast.And) is truth:
            for each in test.values:
                _narrow(frame, each, truth)
        else:
            _narrow_to_one(frame, test.values, truth)
    elif isinstance(test, ast.NamedExpr):
        _narrow(frame, test.target, truth)
    elif isinstance(test, ast.Constant):
        if bool(test.value) is not truth:
            frame.state = None
    elif isinstance(test, (ast.Name, ast.Attribute)):
        is_own = _is_of_module(frame, test) or (isinstance(test, ast.Name) and _is_local(frame, test.id))
        _keep(frame, test, lambda value: _tested(value, truth, is_own))
    elif isinstance(test, ast.Compare) and len(test.ops) == 1:
        _narrow_comparison(frame, test, truth)
    elif isinstance(test, ast.Call) and isinstance(test.func, ast.Name):
        if test.func.id == "isinstance" and len(test.args) == 2:
            _narrow_kind(frame, test, truth)
        elif test.func.id == "callable" and len(test.args) == 1:
            _keep(frame, test.args[0], lambda value: frozenset(e for e in value if _may_be_called(e, truth)))
    elif isinstance(test, ast.Call) and isinstance(test.func, ast.Attribute) and test.func.attr == "is_floating_point":
        asked = test.args[0] if test.args else test.func.value
        _keep(frame, asked, lambda value: frozenset(filter(None, (_of_floats(each, truth) for each in value))))


def _of_floats(atom: Atom | Tensor, truth: bool) -> Atom | Tensor | None:
    """What a value is if it has floating point numbers, or has none; None where it is not that."""
    tensor = atom.tensor if isinstance(atom, Opaque) else atom
    if not isinstance(tensor, Tensor):
        return atom
    precision = tensor.precision & (FLOATING | OTHER if truth else ~FLOATING)
    if not precision:
        return None
    known = tensor.but(precision=precision)
    return atom.with_tensor(known) if isinstance(atom, Opaque) else known


def _narrow_to_one(frame: Frame, tests: Iterable[ast.expr], truth: bool) -> None:
    """One of some tests is `truth`, and those before it are not: something is known where only one of them can be."""
    before, ways = frame.now, []
    behind: State | None = before
    for each in tests:
        frame.state = behind and behind.copy()
        _narrow(frame, each, truth)
        ways += [frame.state] if frame.state else []
        frame.state = behind and behind.copy()
        _narrow(frame, each, not truth)
        behind = frame.state
    frame.state = before if len(ways) > 1 else ways[0] if ways else None


def _is_local(frame: Frame, name: str) -> bool:
    return frame.code.is_function and name in frame.code.bound


def _tested(value: Value, truth: bool, is_own: bool) -> Value:
    """What a value is after a test: numbers, texts and booleans of a configuration may be others in another run."""
    if is_own:
        return of_truth(value, truth)
    loose = frozenset(each for each in value if isinstance(each, Const) and each is not NONE)
    return of_truth(value - loose, truth) | loose


def _keep(frame: Frame, node: ast.expr, keep: Callable[[Value], Value]) -> None:
    """Narrow a variable or an attribute; nothing where it is not known what to narrow."""
    state = frame.now
    if isinstance(node, ast.NamedExpr):
        node = node.target
    if isinstance(node, ast.Name):
        own = state.names.get(node.id)
        value = own if own is not None else frame.variable(node.id)
        kept = keep(value)
        if not kept and value:
            frame.state = None
        elif own is not None and kept is not own and kept != own:
            state.names[node.id] = kept
    elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        owner = state.names.get(node.value.id)
        if owner is None or len(owner) != 1:
            return
        (atom,) = owner
        if isinstance(atom, Obj) and atom not in frame.analysis.many:
            value = frame.read(atom, node.attr)
            kept = keep(value)
            if value and not kept and not isinstance(atom.made_of, External):
                frame.state = None if not _has_class_attribute(frame, atom, node.attr) else state
            elif kept != value:
                state.cells[atom, node.attr] = kept


def _has_class_attribute(frame: Frame, atom: Obj, name: str) -> bool:
    kinds = [each for each in lineage(frame, atom.made_of) if isinstance(each, Class)]
    return any(frame.analysis.class_cell(frame, each, name) for each in kinds)


def _narrow_comparison(frame: Frame, test: ast.Compare, truth: bool) -> None:
    operator, right = test.ops[0], test.comparators[0]
    if (
        isinstance(right, ast.Constant)
        and right.value is None
        and isinstance(operator, (ast.Is, ast.IsNot, ast.Eq, ast.NotEq))
    ):
        wants_none = isinstance(operator, (ast.Is, ast.Eq)) is truth
        _keep(
            frame,
            test.left,
            lambda value: frozenset(e for e in value if _may_be_none(e) is None or _may_be_none(e) is wants_none),
        )
    elif (
        isinstance(right, ast.Constant)
        and isinstance(operator, (ast.Eq, ast.NotEq))
        and (_is_of_module(frame, test.left) or (isinstance(test.left, ast.Name) and _is_local(frame, test.left.id)))
    ):
        equal = isinstance(operator, ast.Eq) is truth
        wanted = right.value
        _keep(frame, test.left, lambda value: frozenset(e for e in value if _may_equal(e, wanted, equal)))


def _is_of_module(frame: Frame, node: ast.expr) -> bool:
    """Whether something is an attribute of a module: what its maker has given it, and no option of a run."""
    if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
        return False
    owners = frame.now.names.get(node.value.id, frozenset())
    return bool(owners) and all(isinstance(each, Obj) and is_module_class(frame, each.made_of) for each in owners)


def _may_equal(atom: object, wanted: object, equal: bool) -> bool:
    return not isinstance(atom, Const) or (atom.value == wanted) is equal


def _may_be_none(atom: object) -> bool | None:
    if atom is NONE:
        return True
    return None if isinstance(atom, Opaque) else False


def _may_be_called(atom: object, truth: bool) -> bool:
    if isinstance(atom, (Func, Method, Native, Class)):
        return truth
    return not truth if isinstance(atom, (Const, Some, Tup, Tensor)) else True


_KINDS = {
    "builtins.int": ("int", "bool"),
    "builtins.float": ("float",),
    "builtins.str": ("str",),
    "builtins.bool": ("bool",),
}


def _narrow_kind(frame: Frame, test: ast.Call, truth: bool) -> None:
    wanted = frame.analysis.evaluate(frame, test.args[1])
    kinds: list[object] = []
    for each in wanted:
        kinds += [atom for item in each.items for atom in item] if isinstance(each, Tup) else [each]
    if not kinds or not all(isinstance(each, (External, Class)) for each in kinds):
        return

    def fits(atom: object) -> bool:
        answers = {_is_of(frame, atom, kind) for kind in kinds}
        answer = True if True in answers else None if None in answers else False
        return answer is None or answer is truth

    _keep(frame, test.args[0], lambda value: frozenset(each for each in value if fits(each)))


def _is_of(frame: Frame, atom: object, kind: object) -> bool | None:
    name = kind.name if isinstance(kind, External) else ""
    if isinstance(atom, Opaque):
        return None
    if isinstance(atom, Tensor):
        return (
            None
            if name in ("torch.nn.Parameter", "torch.cuda.FloatTensor")
            else name in ("torch.Tensor", "torch.autograd.Variable")
        )
    if isinstance(atom, Member):
        return True if kind is atom.of else None
    if isinstance(atom, (Const, Some)):
        if atom.kind not in ("int", "float", "str", "bool", "NoneType"):
            return None
        return atom.kind in _KINDS.get(name, ()) or _is_abstractly(_TYPES[atom.kind], name)
    if isinstance(atom, Tup):
        return name == "builtins.tuple" or _is_abstractly(tuple, name)
    if isinstance(atom, Obj):
        if isinstance(atom.made_of, Class):
            order = lineage(frame, atom.made_of)
            if kind in order:
                return True
            others = [each for each in order if isinstance(each, (Opaque, External))]
            return None if name and not all(_is_apart(getattr(each, "name", ""), name) for each in others) else False
        if atom.made_of is kind:
            return True
        return False if _is_apart(atom.external, name) else None
    return None


def _is_abstractly(kind: type, name: str) -> bool:
    """Whether a type is one of Python's abstract ones, by whichever name those have had: `collections.Sequence`."""
    module, _, last = name.rpartition(".")
    abstract = getattr(numbers if module == "numbers" else abc, last, None) if module in _ABSTRACT else None
    return isinstance(abstract, type) and issubclass(kind, abstract)


def _is_apart(name: str, other: str) -> bool:
    """Whether a class of PyTorch's inherits from no other of its layers and wrappers that is asked for."""
    is_known = name == "torch.nn.Module" or _is_plain_layer(name)
    return is_known and name != other and (other in MODULE_WRAPPERS or _is_plain_layer(other))


def _is_plain_layer(name: str) -> bool:
    """Whether a class is a layer of PyTorch's that inherits from no other layer that has a name."""
    last = name.removeprefix("torch.nn.")
    is_layer = last in LAYERS or last in ("Sequential", "ModuleList", "ModuleDict", "Embedding")
    return name != last and is_layer and not last.startswith(("Lazy", "Upsampling")) and last not in _OF_ANOTHER


_ABSTRACT = frozenset("collections collections.abc numbers typing".split())
_TYPES = {"int": int, "float": float, "str": str, "bool": bool, "NoneType": type(None)}
_OF_ANOTHER = frozenset(("NLLLoss2d", "ReLU6", "TripletMarginWithDistanceLoss"))
