"""What every kind of expression comes to."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from amp_migrate.flow.domain.atoms import (
    NEVER,
    NONE_VALUE,
    TRUTHS,
    UNKNOWN,
    Class,
    Const,
    DeviceOf,
    External,
    Func,
    Member,
    Obj,
    Opaque,
    Some,
    Super,
    Tup,
    Value,
    const,
    constant,
    dtype_named,
    join,
    join_all,
    many,
    named,
    of_truth,
    one,
    reads_of,
    some,
    truth_of_flag,
    tup,
    units_of,
)
from amp_migrate.flow.domain.contexts import ON
from amp_migrate.flow.domain.dtypes import DTYPE_OF
from amp_migrate.flow.domain.state import meet
from amp_migrate.flow.domain.tensor import BOOL, INT, OTHER, Tensor, Units, multiplied, powered
from amp_migrate.flow.python import attributes, containers
from amp_migrate.flow.python.arguments import Arguments
from amp_migrate.flow.python.frame import Frame
from amp_migrate.flow.python.narrow import assume, is_turned
from amp_migrate.syntax import nodes_in

_MOST_APART = 4
_MOST_ITEMS = 24
_LARGEST_EXPONENT = 64
_NUMBERS = frozenset(("int", "bool", "float", "number", "complex"))
_RANGE, _LEN = External("builtins.range"), External("builtins.len")
_SUMS = ("add", "sub")
OPERATORS = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floor_divide",
    ast.Mod: "remainder", ast.Pow: "pow", ast.MatMult: "matmul", ast.BitAnd: "bitwise_and", ast.BitOr: "bitwise_or",
    ast.BitXor: "bitwise_xor", ast.LShift: "bitwise_left_shift", ast.RShift: "bitwise_right_shift",
}  # fmt: skip
_SPECIAL = {
    "add": "__add__", "sub": "__sub__", "mul": "__mul__", "div": "__truediv__", "matmul": "__matmul__", "pow": "__pow__"
}  # fmt: skip


def evaluate(frame: Frame, node: ast.expr) -> Value:
    """What an expression may be."""
    value = _BY_KIND[type(node)](frame, node)
    analysis = frame.analysis
    analysis.evaluated += 1
    if frame.keeps_values:
        old = analysis.values.get(node)
        analysis.values[node] = value if old is None or old is value else join(old, value)
    return value


def _constant(frame: Frame, node: ast.Constant) -> Value:
    return const(node.value)


def _name(frame: Frame, node: ast.Name) -> Value:
    found = frame.variable(node.id)
    if found:
        resolved = attributes.resolve(frame, found)
        if resolved is not found and node.id in frame.now.names and resolved:
            frame.now.names[node.id] = resolved
        return resolved
    return frame.analysis.unbound_name(frame, node)


def _attribute(frame: Frame, node: ast.Attribute) -> Value:
    owner = evaluate(frame, node.value)
    return attributes.resolve(frame, attributes.load(frame, owner, node.attr, node))


def _subscript(frame: Frame, node: ast.Subscript) -> Value:
    owner = evaluate(frame, node.value)
    index = evaluate(frame, node.slice)
    return attributes.resolve(frame, containers.item(frame, owner, index, node))


def _slice(frame: Frame, node: ast.Slice) -> Value:
    for each in (node.lower, node.upper, node.step):
        if each is not None:
            evaluate(frame, each)
    return some("slice")


def _items(frame: Frame, nodes: list[ast.expr]) -> tuple[list[Value], Value]:
    """The values of a display: those that are known to stand at a place, and what else there may be."""
    items: list[Value] = []
    rest = NEVER
    for each in nodes:
        if isinstance(each, ast.Starred):
            given, more = containers.sequence(frame, evaluate(frame, each.value), each)
            if given and not more and not rest:
                items += given
            else:
                rest = join_all((rest, more, *given))
        elif rest:
            rest = join(rest, evaluate(frame, each))
        else:
            items.append(evaluate(frame, each))
    return items, rest


def _tuple(frame: Frame, node: ast.Tuple) -> Value:
    items, rest = _items(frame, node.elts)
    return many(join_all((*items, rest))) if rest else tup(items)


def _list(frame: Frame, node: ast.List | ast.Set) -> Value:
    items, rest = _items(frame, node.elts)
    if node in frame.unkept and not rest:
        return tup(items)
    kind = containers.LIST if isinstance(node, ast.List) else containers.SET
    if rest or kind is containers.SET:
        return containers.new(frame, node, kind, rest=join_all((*items, rest)))
    return containers.new(frame, node, kind, items)


def _dict(frame: Frame, node: ast.Dict) -> Value:
    made = containers.new(frame, node, containers.DICT, length=len(node.keys))
    (owner,) = made
    assert isinstance(owner, Obj)
    for key, value in zip(node.keys, node.values, strict=True):
        given = evaluate(frame, value)
        if key is None:
            containers.merge_dict(frame, owner, given)
            continue
        index = evaluate(frame, key)
        name = containers.key(index)
        containers.note_key(frame, owner, index)
        if name is None:
            containers.put(frame, owner, given)
        else:
            frame.write(owner, name, given)
    return made


def _comprehension(frame: Frame, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Value:
    saved = dict(frame.now.names)
    bound = {each.id for one_of in node.generators for each in nodes_in(one_of.target) if isinstance(each, ast.Name)}
    frame.depth += 1
    key = value = NEVER
    entries: list[tuple[Value, Value]] = []
    first = node.generators[0]
    source = evaluate(frame, first.iter)
    parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
    items = in_turn(frame, source, first, parts) or [_any_item(frame, source, first)]
    is_single = isinstance(node, ast.DictComp) and len(node.generators) == 1
    few = _few(frame, source, first) if is_single else []
    is_told = bool(few)
    for item in few or items:
        left = None
        is_out = is_optional = False
        for generator in node.generators:
            given = item if generator is first else _any_item(frame, evaluate(frame, generator.iter), generator)
            assign(frame, generator.target, given, generator.iter, scoped=True)
            for test in generator.ifs:
                outcome = constant(evaluate(frame, test))
                before, passed = frame.now, frame.now.copy()
                frame.state = before.copy()
                assume(frame, test, False)
                left = meet(left, frame.state)
                is_optional |= frame.state is not None and outcome is not True
                frame.state = passed
                assume(frame, test, True)
                is_out |= bool(few) and (frame.state is None or outcome is False)
                frame.state = frame.state or before
        if is_out:
            continue
        is_told &= not is_optional
        if isinstance(node, ast.DictComp):
            entries.append((evaluate(frame, node.key), evaluate(frame, node.value)))
            key, value = join(key, entries[-1][0]), join(value, entries[-1][1])
        else:
            value = join(value, evaluate(frame, node.elt))
        frame.state = frame.state if frame.is_dead else meet(frame.now, left)
    frame.depth -= 1
    for name in bound:
        frame.now.forget(name)
        if name in saved:
            frame.now.names[name] = saved[name]
        else:
            frame.now.names.pop(name, None)
    if isinstance(node, ast.GeneratorExp):
        return many(value)
    frame.depth += 1
    if isinstance(node, ast.DictComp):
        by_key = {containers.key(each): held for each, held in entries} if is_told else {}
        made = NEVER if None in by_key else containers.new_with(frame, node, by_key)
        made = made or containers.new(frame, node.key, containers.DICT, rest=value)
        for each in made:
            assert isinstance(each, Obj)
            frame.write(each, "<key>", key, strong=False)
    else:
        made = containers.new(
            frame, node, containers.LIST if isinstance(node, ast.ListComp) else containers.SET, rest=value
        )
    for each in made:
        assert isinstance(each, Obj)
        frame.write(each, "<length>", some("int"))
    frame.depth -= 1
    return made


def _few(frame: Frame, source: Value, generator: ast.comprehension) -> list[Value]:
    """The items of a sequence whose length is known, and is not large; else nothing."""
    items, rest = containers.sequence(frame, source, generator.iter)
    return items if not rest and len(items) <= _MOST_ITEMS else []


def _any_item(frame: Frame, source: Value, generator: ast.comprehension) -> Value:
    given, rest = containers.sequence(frame, source, generator.iter)
    return join_all((*given, rest))


def in_turn(
    frame: Frame, source: Value, node: ast.For | ast.AsyncFor | ast.comprehension, body: Sequence[ast.AST]
) -> list[Value]:
    """What a target is bound to, each in its turn: a few optimizers, what has some, or keys of some; else nothing."""
    given, rest = containers.sequence(frame, source, node.iter)
    if given and not rest and len(given) <= _MOST_APART and _has_what_steps(frame, given, node.target, body):
        return given
    held = frame.module.held_under(node.target, body) if isinstance(node.target, ast.Name) else ()
    if not held:
        return []
    keys = _counted(frame, node.iter) if rest else given
    is_key = 0 < len(keys) <= _MOST_APART and all(constant(each) is not None for each in keys)
    return keys if is_key and any(_holds_steps(frame, each) for each in held) else []


def _has_what_steps(frame: Frame, items: list[Value], target: ast.expr, body: Sequence[ast.AST]) -> bool:
    """Whether one of some items is or has an optimizer or a scaler, or an attribute has that the body takes of each."""
    found = [*items]
    owners = [each for item in items for each in item if isinstance(each, Obj) and isinstance(each.made_of, Class)]
    if owners and isinstance(target, ast.Name):
        taken = (each for part in body for each in nodes_in(part) if isinstance(each, ast.Attribute))
        names = {each.attr: None for each in taken if isinstance(each.value, ast.Name) and each.value.id == target.id}
        found += (frame.read(owner, name) for owner in owners for name in names)
    return frame.analysis.pytorch.has_what_steps(frame, found)


def _counted(frame: Frame, node: ast.expr) -> list[Value]:
    """The numbers of `range(2)` and `range(len(optimizers))`, where it is known that they are few."""
    if not (isinstance(node, ast.Call) and len(node.args) == 1 and _RANGE in evaluate(frame, node.func)):
        return []
    (most,) = node.args
    number = None
    if isinstance(most, (ast.Constant, ast.Name, ast.Attribute)):
        number = constant(evaluate(frame, most))
    elif isinstance(most, ast.Call) and len(most.args) == 1 and _LEN in evaluate(frame, most.func):
        items, rest = containers.sequence(frame, evaluate(frame, most.args[0]), most)
        number = None if rest else len(items)
    is_few = isinstance(number, int) and number <= _MOST_APART
    return [const(each) for each in range(number or 0)] if is_few else []


def _holds_steps(frame: Frame, node: ast.expr) -> bool:
    held = [each for each in evaluate(frame, node) if isinstance(each, Obj)]
    return frame.analysis.pytorch.has_steps(containers.contents(frame, each) for each in held)


def _call(frame: Frame, node: ast.Call) -> Value:
    if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args:
        return frame.analysis.super_of(frame)
    if isinstance(node.func, ast.Name) and node.func.id == "super" and len(node.args) == 2:
        kinds, owners = ([*evaluate(frame, each)] for each in node.args)
        objects = [each for each in owners if isinstance(each, (Obj, Class, Opaque))]
        return frozenset(Super(kind, each) for kind in kinds if isinstance(kind, Class) for each in objects) or UNKNOWN
    callee = evaluate(frame, node.func)
    if lists := {each for each in node.args if isinstance(each, ast.List)}:
        frame.unkept -= lists
        if all(isinstance(each, External) and _keeps_no_list(each.name) for each in callee):
            frame.unkept |= lists
    args = Arguments.read(frame, node, evaluate)
    frame.may_raise()
    value = frame.analysis.call(frame, callee, args, node)
    if not value:  # nothing that is known is called, or it never returns
        frame.analysis.pytorch.works(frame)
    owner = node.func.value if isinstance(node.func, ast.Attribute) and node.func.attr == "requires_grad_" else None
    if isinstance(owner, (ast.Name, ast.Attribute)) and any(isinstance(each, Tensor) for each in value):
        assign(frame, owner, value, node)  # it changes the tensor that it is called on
    if frame.raising:
        frame.may_raise()
    return attributes.resolve(frame, value)


def _keeps_no_list(name: str) -> bool:
    """Whether something is a function of `torch` itself, as `torch.cat` is: of a list it takes what is in it now."""
    package, _, function = name.rpartition(".")
    return package == "torch" and function.islower()


def _lambda(frame: Frame, node: ast.Lambda) -> Value:
    return frame.analysis.define(frame, node)


def _if(frame: Frame, node: ast.IfExp) -> Value:
    evaluate(frame, node.test)
    if frame.is_dead:
        return NEVER
    before = frame.now.copy()
    found = NEVER
    after = None
    for branch, truth in ((node.body, True), (node.orelse, False)):
        frame.state = before.copy()
        assume(frame, node.test, truth)
        if frame.state is not None:
            with frame.analysis.pytorch.where(is_turned=is_turned(frame.analysis.values, node.test, truth)):
                value = evaluate(frame, branch)
            if not frame.is_dead:
                found, after = join(found, value), meet(after, frame.state)
            frame.is_dead = False
    frame.state, frame.is_dead = after or before, after is None
    return found


def _boolean(frame: Frame, node: ast.BoolOp) -> Value:
    """`a and b`: `a` where it is false, else `b`."""
    wanted = isinstance(node.op, ast.And)
    found = NEVER
    leaving = None
    last = len(node.values) - 1
    for index, each in enumerate(node.values):
        value = evaluate(frame, each)
        here = frame.now
        if frame.is_dead:
            break
        stops = value if index == last else of_truth(value, not wanted)
        found = join(found, stops)
        if index == last:
            leaving = meet(leaving, here)
            break
        going = here.copy()
        if stops:
            assume(frame, each, not wanted)
            leaving = meet(leaving, frame.state)
        frame.state = going
        assume(frame, each, wanted)
        if frame.state is None:
            here = going
            break
    frame.state, frame.is_dead = leaving or here, leaving is None
    return found


def _unary(frame: Frame, node: ast.UnaryOp) -> Value:
    value = evaluate(frame, node.operand)
    if isinstance(node.op, ast.Not):
        return join_all(const(not truth) for truth in (True, False) if of_truth(value, truth))
    found = NEVER
    name = {ast.USub: "neg", ast.UAdd: "positive", ast.Invert: "bitwise_not"}[type(node.op)]
    for atom in value:
        if isinstance(atom, (Tensor, Opaque)):
            found = join(found, frame.analysis.pytorch.operate(frame, name, [one(atom)], node))
        elif isinstance(atom, Const) and atom.kind in ("int", "float", "bool"):
            found = join(
                found,
                const(-atom.value if name == "neg" else ~int(atom.value) if name == "bitwise_not" else atom.value),
            )
        else:
            found = join(found, one(atom))
    return found


def _binary(frame: Frame, node: ast.BinOp) -> Value:
    left, right = evaluate(frame, node.left), evaluate(frame, node.right)
    return binary(frame, type(node.op), left, right, node)


def binary(frame: Frame, operator: type[ast.operator], left: Value, right: Value, node: ast.expr | ast.stmt) -> Value:
    """What an operator makes of two values."""
    name = OPERATORS[operator]
    found = NEVER
    tensors = [any(isinstance(each, Tensor) for each in side) for side in (left, right)]
    unknown = [any(isinstance(each, Opaque) for each in side) for side in (left, right)]
    if any(isinstance(each, Some) and each.kind == "ndarray" for each in left | right):
        frame.analysis.pytorch.to_numpy(frame, left | right, node)
    if any(tensors) or any(unknown):
        found = frame.analysis.pytorch.operate(frame, name, [left, right], node)
        is_of_tensors = name == "matmul" and frame.now.context.cuda.on == ON  # a region is there for no other products
        is_unsure = not any(tensors) or (unknown[0] and not tensors[1]) or (unknown[1] and not tensors[0])
        if is_unsure and not is_of_tensors:
            known = [each.tensor for side in (left, right) for each in side if isinstance(each, Opaque)]
            found = join(found, one(Opaque((), next((each for each in known if each is not None), None))))
    plain = [frozenset(each for each in side if not isinstance(each, (Tensor, Opaque))) for side in (left, right)]
    for a in plain[0]:
        for b in plain[1]:
            found = join(found, _plain(frame, name, operator, a, b, node))
        if not plain[1] and isinstance(a, Obj) and not (a.made_of in containers.KINDS and _are_floating(right)):
            found = join(found, _special(frame, a, name, right, node))
    return found


def _are_floating(value: Value) -> bool:
    """Whether these are tensors of no whole numbers: a list times one, or with any of these added, raises."""
    return all(isinstance(each, Tensor) and not each.precision & (INT | BOOL | OTHER) for each in value)


def _plain(frame: Frame, name: str, operator: type[ast.operator], a: Any, b: Any, node: ast.AST) -> Value:
    if isinstance(a, Const) and isinstance(b, Const):
        return _folded(operator, a, b)
    if isinstance(a, Tup) or (isinstance(a, Obj) and a.made_of is containers.LIST):
        return _joined_sequence(frame, name, a, b, node)
    if isinstance(a, Obj):
        return _special(frame, a, name, one(b), node)
    if isinstance(b, Obj) and not (isinstance(a, (Const, Some)) and a.kind == "str"):
        return UNKNOWN
    kinds = {each.kind for each in (a, b) if isinstance(each, (Const, Some))}
    if "str" in kinds:
        return some("str")
    if kinds & {"ndarray"}:
        return frame.analysis.pytorch.with_array(frame, one(a), one(b), node)
    if kinds <= _NUMBERS:
        units = _units(frame, name, one(a), one(b), node)
        kind = "float" if "float" in kinds or name == "div" else "int" if kinds <= {"int", "bool"} else "number"
        return some(kind, units, reads_of(one(a)) | reads_of(one(b)))
    is_of_none = all(isinstance(each, (Const, Some)) for each in (a, b)) and kinds <= _NUMBERS | {"NoneType"}
    return NEVER if is_of_none else UNKNOWN  # as a gradient may be None: a number with it raises


def _units(frame: Frame, name: str, left: Value, right: Value, node: ast.AST) -> Units:
    if name in ("mul", "div"):
        return multiplied(units_of(left), units_of(right), 1 if name == "mul" else -1)
    if name == "pow":
        power = constant(right)
        return powered(units_of(left), power if isinstance(power, (int, float)) else None)
    return frame.analysis.pytorch.add_numbers(frame, left, right, node) if name in _SUMS else units_of(left | right)


def _power(a: Any, b: Any) -> Any:
    """A power of numbers that is a real number, and soon computed."""
    if abs(b) > _LARGEST_EXPONENT or (a < 0 and b != int(b)):
        raise OverflowError
    return a**b


_FOLD: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
    ast.Pow: _power,
}


def _folded(operator: type[ast.operator], a: Const, b: Const) -> Value:
    kinds = {a.kind, b.kind}
    numbers = kinds <= {"int", "float", "bool"}
    if operator in _FOLD and (numbers or (kinds == {"str"} and operator is ast.Add)):
        try:
            made = _FOLD[operator](a.value, b.value)
        except (ZeroDivisionError, OverflowError, ValueError, TypeError, MemoryError):
            return some("number")
        return const(made) if not isinstance(made, str) or len(made) < 200 else some("str")
    if numbers:
        return some("float" if "float" in kinds else "number")
    return some("str") if a.kind == "str" else UNKNOWN if "NoneType" not in kinds else NEVER


def _joined_sequence(frame: Frame, name: str, a: Any, b: Any, node: ast.AST) -> Value:
    first, rest = containers.sequence(frame, one(a), node)
    is_list = isinstance(a, Obj)
    if name == "mul":
        whole = join_all((*first, rest))
        count = b.value if isinstance(b, Const) and isinstance(b.value, int) and not rest else None
        if count is not None and len(first) * count <= 12:
            items = first * count
            return containers.new(frame, node, containers.LIST, items) if is_list else tup(items)
        return containers.new(frame, node, containers.LIST, rest=whole) if is_list else many(whole)
    second, more = containers.sequence(frame, one(b), node)
    if not rest and not more and len(first) + len(second) <= 12 and isinstance(b, (Tup, Obj)):
        items = [*first, *second]
        return containers.new(frame, node, containers.LIST, items) if is_list else tup(items)
    whole = join_all((*first, rest, *second, more))
    return containers.new(frame, node, containers.LIST, rest=whole) if is_list else many(whole)


def _special(frame: Frame, owner: Obj, name: str, right: Value, node: ast.AST) -> Value:
    method = attributes.load_of_object(frame, owner, _SPECIAL.get(name, ""), node) if name in _SPECIAL else NEVER
    if any(isinstance(each, (Func,)) or type(each).__name__ == "Method" for each in method):
        return frame.analysis.call(frame, method, Arguments([right]), node)
    return UNKNOWN


def _compare(frame: Frame, node: ast.Compare) -> Value:
    values = [evaluate(frame, each) for each in (node.left, *node.comparators)]
    found = NEVER
    for index, operator in enumerate(node.ops):
        left, right = values[index], values[index + 1]
        if isinstance(operator, (ast.Is, ast.IsNot, ast.In, ast.NotIn)):
            own = _identity(operator, left, right)
        elif any(isinstance(each, (Tensor, Opaque)) for side in (left, right) for each in side):
            own = frame.analysis.pytorch.compare(frame, left, right, node)
        else:
            frame.analysis.pytorch.compare_numbers(frame, left, right, node)
            own = _equality(operator, left, right)
        found = own if len(node.ops) == 1 else TRUTHS
    frame.analysis.pytorch.tests(values, node)
    frame.analysis.pytorch.asks_dtype(frame, values, node)
    return found


def _identity(operator: ast.cmpop, left: Value, right: Value) -> Value:
    members = [each for side in (left, right) for each in side if isinstance(each, Member)]
    if isinstance(operator, (ast.Is, ast.IsNot)) and len(members) == len(left) + len(right) == 2:
        return const((members[0] is members[1]) is isinstance(operator, ast.Is))
    if (
        isinstance(operator, (ast.Is, ast.IsNot))
        and right == NONE_VALUE
        and not any(isinstance(e, Opaque) for e in left)
    ):
        is_none = left >= NONE_VALUE
        sure = left == NONE_VALUE
        if sure or not is_none:
            return const(sure is isinstance(operator, ast.Is))
    return TRUTHS


def _equality(operator: ast.cmpop, left: Value, right: Value) -> Value:
    if len(left) == len(right) == 1:
        (a,), (b,) = left, right
        if isinstance(a, DeviceOf) or isinstance(b, DeviceOf):
            # One that is a GPU as far as anybody knows is mps, too.
            kinds = {str(each.value) for each in (a, b) if isinstance(each, Const)}
            if "" in kinds or (len(kinds) == 2 and "cpu" not in kinds):
                return TRUTHS
        if isinstance(a, Const) and isinstance(b, Const):
            try:
                return const(bool(_COMPARE[type(operator)](a.value, b.value)))
            except (TypeError, KeyError):
                return TRUTHS
        if isinstance(operator, (ast.Eq, ast.NotEq)):
            one_is, other_is = dtype_named(a), dtype_named(b)
            is_same = one_is == other_is and (one_is in DTYPE_OF or (isinstance(a, External) and a is b and not one_is))
            if is_same:  # int64 stands for all integers
                return const(isinstance(operator, ast.Eq))
            if one_is and other_is and not (one_is & other_is or (one_is | other_is) & OTHER):
                return const(isinstance(operator, ast.NotEq))
    return TRUTHS


_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: lambda a, b: a == b,
    ast.NotEq: lambda a, b: a != b,
    ast.Lt: lambda a, b: a < b,
    ast.LtE: lambda a, b: a <= b,
    ast.Gt: lambda a, b: a > b,
    ast.GtE: lambda a, b: a >= b,
}


def _text(frame: Frame, node: ast.JoinedStr) -> Value:
    texts: list[str | None] = []
    for each in node.values:
        value = evaluate(frame, each.value) if isinstance(each, ast.FormattedValue) else evaluate(frame, each)
        is_plain = isinstance(each, ast.Constant)
        if isinstance(each, ast.FormattedValue):
            frame.analysis.pytorch.gauge(frame, value, each.value, "printed")
            is_plain = each.conversion == -1 and each.format_spec is None
        known = constant(value) if is_plain else None
        texts.append(str(known) if isinstance(known, (str, int)) else None)
    return some("str") if None in texts else const("".join(filter(None, texts)))


def _formatted(frame: Frame, node: ast.FormattedValue) -> Value:
    evaluate(frame, node.value)
    return some("str")


def _walrus(frame: Frame, node: ast.NamedExpr) -> Value:
    value = evaluate(frame, node.value)
    assign(frame, node.target, value, node.value)
    return value


def _await(frame: Frame, node: ast.Await) -> Value:
    return evaluate(frame, node.value)


def _yield(frame: Frame, node: ast.Yield) -> Value:
    value = NONE_VALUE if node.value is None else evaluate(frame, node.value)
    frame.yielded = join(frame.yielded, value)
    if frame.on_yield:
        run = frame.on_yield[-1]
        assert callable(run)
        run(frame, value)
        if frame.state is None:
            frame.state, frame.is_dead = frame.analysis.dead_state(frame), True
        return NONE_VALUE
    frame.pause()
    return UNKNOWN


def _yield_from(frame: Frame, node: ast.YieldFrom) -> Value:
    frame.yielded = join(frame.yielded, containers.elements(frame, evaluate(frame, node.value), node))
    frame.pause()
    return UNKNOWN


def _starred(frame: Frame, node: ast.Starred) -> Value:
    return containers.elements(frame, evaluate(frame, node.value), node)


_BY_KIND: dict[type[ast.expr], Callable[[Frame, Any], Value]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.Subscript: _subscript,
    ast.Slice: _slice,
    ast.Tuple: _tuple,
    ast.List: _list,
    ast.Set: _list,
    ast.Dict: _dict,
    ast.ListComp: _comprehension,
    ast.SetComp: _comprehension,
    ast.DictComp: _comprehension,
    ast.GeneratorExp: _comprehension,
    ast.Call: _call,
    ast.Lambda: _lambda,
    ast.IfExp: _if,
    ast.BoolOp: _boolean,
    ast.UnaryOp: _unary,
    ast.BinOp: _binary,
    ast.Compare: _compare,
    ast.JoinedStr: _text,
    ast.FormattedValue: _formatted,
    ast.NamedExpr: _walrus,
    ast.Await: _await,
    ast.Yield: _yield,
    ast.YieldFrom: _yield_from,
    ast.Starred: _starred,
}


def assign(frame: Frame, target: ast.expr, value: Value, source: ast.AST, *, scoped: bool = False) -> None:
    """Give a target a value.

    Args:
        scoped: whether the names are those of a comprehension, which nobody else sees.
    """
    if isinstance(target, ast.Name):
        births = {each.born for each in value if isinstance(each, Tensor)}
        value = named(value, frame.site(target))
        frame.analysis.pytorch.births.setdefault(frame.site(target), set()).update(*births)
        if scoped:
            frame.now.names[target.id] = value
            frame.now.forget(target.id)
        else:
            frame.bind(target.id, value)
        if frame.keeps_values:
            values = frame.analysis.values
            values[target] = join(values.get(target, NEVER), value)
    elif isinstance(target, (ast.Tuple, ast.List)):
        star = next((i for i, each in enumerate(target.elts) if isinstance(each, ast.Starred)), None)
        parts = containers.unpack(frame, value, len(target.elts), star, source)
        for each, part in zip(target.elts, parts, strict=True):
            assign(frame, each.value if isinstance(each, ast.Starred) else each, part, source, scoped=scoped)
    elif isinstance(target, ast.Attribute):
        owner = evaluate(frame, target.value)
        attributes.store(frame, owner, target.attr, value, target)
        truth = truth_of_flag(value)
        if truth is not None and isinstance(target.value, ast.Name):
            path = f"{target.value.id}.{target.attr}"
            if path in frame.code.stored_anew:
                frame.learn(path, truth, target.value.id, target.attr)
        if frame.keeps_values:
            values = frame.analysis.values
            values[target] = join(values.get(target, NEVER), value)
    elif isinstance(target, ast.Subscript):
        owner = evaluate(frame, target.value)
        index = evaluate(frame, target.slice)
        containers.store_item(frame, owner, index, value, target)
        if isinstance(target.value, ast.Name):
            after = frame.analysis.pytorch.taking_up(frame, owner, value, target)
            if after != owner:
                frame.bind(target.value.id, after)
    elif isinstance(target, ast.Starred):
        assign(frame, target.value, value, source, scoped=scoped)
