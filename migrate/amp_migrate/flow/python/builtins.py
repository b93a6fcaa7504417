"""Python's own functions, and those of its library that hand on what they are given."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Callable
from functools import reduce
from itertools import pairwise
from math import isfinite

from amp_migrate.flow.domain.atoms import (
    NEVER,
    NONE_VALUE,
    TRUTHS,
    UNKNOWN,
    Class,
    Const,
    External,
    FileModule,
    Func,
    Obj,
    Opaque,
    Some,
    Tup,
    Value,
    Wrapped,
    const,
    constant,
    join,
    join_all,
    many,
    one,
    reads_of,
    some,
    tup,
    units_of,
)
from amp_migrate.flow.domain.tensor import Tensor
from amp_migrate.flow.python import attributes, containers
from amp_migrate.flow.python.arguments import Arguments
from amp_migrate.flow.python.frame import Frame
from amp_migrate.syntax import nodes_in

NAMES = frozenset(dir(builtins))
_DECORATORS = ("property", "staticmethod", "classmethod")
_PLAIN = {
    "len": "int", "id": "int", "hash": "int", "ord": "int", "str": "str", "repr": "str", "chr": "str", "format": "str",
    "input": "str", "bytes": "bytes", "hex": "str", "bin": "str", "slice": "slice", "range": "range", "ascii": "str",
}  # fmt: skip


def call(frame: Frame, name: str, args: Arguments, node: ast.AST) -> Value:
    """A call of a function or class of Python's own."""
    known = _BY_NAME.get(name)
    if known is not None:
        return known(frame, args, node)
    if name in _PLAIN:
        if name == "len" and args.positional:
            given, rest = containers.sequence(frame, args.positional[0], node)
            if given and not rest and not frame.analysis.pytorch.has_steps(given):
                return const(len(given))
        if name in ("str", "repr", "format"):
            if name == "str" and len(args.positional) == 1 and isinstance(constant(args.positional[0]), (str, int)):
                return const(str(constant(args.positional[0])))
            for each in args.positional:
                frame.analysis.pytorch.gauge(frame, each, node, "printed")
            # A device's name is as good as the device, and may have a number besides.
            devices = frozenset(e for each in args.positional for e in each if getattr(e, "kind", "") == "device")
            return devices | some("str")
        return some(_PLAIN[name])
    if name in _DECORATORS:
        return (
            frozenset(
                Wrapped(name, each)
                for value in args.positional[:1]
                for each in value
                if isinstance(each, (Func, Wrapped, Class))
            )
            or UNKNOWN
        )
    if name in ("isinstance", "issubclass", "hasattr", "callable", "any", "all", "bool"):
        for each in args.positional[:1]:
            frame.analysis.pytorch.tested(frame, each, node)
        return TRUTHS
    if name == "print":
        for each in args.all():
            frame.analysis.pytorch.gauge(frame, each, node, "printed")
        return NONE_VALUE
    if name in ("exit", "quit"):
        frame.may_raise()
        frame.is_dead = True
        return NEVER
    if name == "object":
        return one(Obj(frame.site(node), frame.context_of_objects, External("builtins.object")))
    made = getattr(builtins, name, None)
    if isinstance(made, type) and issubclass(made, BaseException):
        return one(Obj(frame.site(node), frame.context_of_objects, External(f"builtins.{name}")))
    return UNKNOWN


def _first(args: Arguments) -> Value:
    return args.positional[0] if args.positional else args.rest or NEVER


def _enumerate(frame: Frame, args: Arguments, node: ast.AST) -> Value:
    given, rest = containers.sequence(frame, _first(args), node)
    if given and not rest and len(given) <= 12:
        return tup([tup([const(index), item]) for index, item in enumerate(given)])
    return many(tup([some("int"), join_all((*given, rest))]))


def _zip(frame: Frame, args: Arguments, node: ast.AST) -> Value:
    sides = [containers.sequence(frame, each, node) for each in args.positional]
    if args.rest:
        rows = [each for each in args.rest if isinstance(each, Tup) and each.rest is None]
        if not sides and len(rows) == len(args.rest) and len({len(each.items) for each in rows}) == 1:
            return tup([many(join_all(column)) for column in zip(*(each.items for each in rows), strict=True)])
        return many(many(containers.elements(frame, args.rest, node)))
    if sides and all(given and not rest for given, rest in sides):
        return tup([tup(column) for column in zip(*(given for given, _ in sides), strict=False)])
    return many(tup([join_all((*given, rest)) for given, rest in sides]))


def _sequence(kind: External | None) -> Callable[[Frame, Arguments, ast.AST], Value]:
    def make(frame: Frame, args: Arguments, node: ast.AST) -> Value:
        if not args.positional and not args.rest:
            return tup([]) if kind is None else containers.new(frame, node, kind, [])
        given, rest = containers.sequence(frame, _first(args), node)
        if kind is None:
            return many(join_all((*given, rest))) if rest else tup(given) if given else many(NEVER)
        if rest or kind is containers.SET:
            made = containers.new(frame, node, kind, rest=join_all((*given, rest)))
            for each in made:
                frame.write(each, "<length>", some("int"))  # type: ignore[arg-type]
            return made
        return containers.new(frame, node, kind, given)

    return make


def _dict(frame: Frame, args: Arguments, node: ast.AST) -> Value:
    made = containers.new(frame, node, containers.DICT, length=None if args.positional else len(args.keywords))
    (owner,) = made
    assert isinstance(owner, Obj)
    for each in args.positional:
        count = containers.merge_pairs(frame, owner, each, node)
        if count:
            frame.write(owner, "<length>", const(count + len(args.keywords)))
    for name, value in args.keywords.items():
        frame.write(owner, f"[{name!r}]", value)
    if args.others:
        containers.put(frame, owner, args.others)
    return made


def _map(frame: Frame, args: Arguments, node: ast.AST) -> Value:
    if len(args.positional) < 2:
        return UNKNOWN
    given, rest = containers.sequence(frame, args.positional[1], node)
    if not rest and len(args.positional) == 2 and frame.analysis.pytorch.has_steps(given):
        rows = [[each] for each in given]  # optimizers, each in its turn
    else:
        rows = [[containers.elements(frame, each, node) for each in args.positional[1:]]]
    frame.depth += 1
    found = join_all(frame.analysis.call(frame, args.positional[0], Arguments(each), node) for each in rows)
    frame.depth -= 1
    frame.is_dead = False
    return many(found)


def _filter(frame: Frame, args: Arguments, node: ast.AST) -> Value:
    if len(args.positional) < 2:
        return UNKNOWN
    inside = containers.elements(frame, args.positional[1], node)
    if args.positional[0] != NONE_VALUE:
        frame.analysis.call(frame, args.positional[0], Arguments([inside]), node)
        frame.is_dead = False
    return many(inside)


def _sorted(frame: Frame, args: Arguments, node: ast.AST) -> Value:
    inside = containers.elements(frame, _first(args), node)
    if "key" in args.keywords:
        frame.analysis.call(frame, args.keywords["key"], Arguments([inside]), node)
        frame.is_dead = False
    made = containers.new(frame, node, containers.LIST, rest=inside)
    for each in made:
        frame.write(each, "<length>", some("int"))  # type: ignore[arg-type]
    return made


def _reversed(frame: Frame, args: Arguments, node: ast.AST) -> Value:
    given, rest = containers.sequence(frame, _first(args), node)
    return many(join_all((*given, rest))) if rest else tup(reversed(given))


def _sum(frame: Frame, args: Arguments, node: ast.AST) -> Value:
    inside = containers.elements(frame, _first(args), node)
    start = args.positional[1] if len(args.positional) > 1 else const(0)
    pytorch = frame.analysis.pytorch
    if any(isinstance(each, (Tensor, Opaque)) for each in inside):
        items, rest = containers.sequence(frame, _first(args), node)
        # Of how many terms it is a sum may not be known: then it may be one.
        if len(items) > 1 and not rest and start == const(0):
            return reduce(lambda total, each: pytorch.operate(frame, "add", [total, each], node), items)
        total = pytorch.operate(frame, "add", [inside, inside], node)
        return join(join(total, inside), frozenset(e for e in start if not isinstance(e, Const)))
    return join(
        some(
            "float" if any(isinstance(e, (Const, Some)) and e.kind == "float" for e in inside) else "number",
            units_of(inside),
            reads_of(inside),
        ),
        start,
    )


def _extreme(frame: Frame, args: Arguments, node: ast.AST) -> Value:
    inside = containers.elements(frame, _first(args), node) if len(args.positional) == 1 else join_all(args.positional)
    if any(isinstance(each, Tensor) for each in inside):
        frame.analysis.pytorch.compare(frame, inside, inside, node)
    for one_of_two, other in pairwise(args.positional):
        frame.analysis.pytorch.compare_numbers(frame, one_of_two, other, node)
    numbers = [each for each in inside if isinstance(each, Const)]
    return join(inside, args.keywords.get("default", NEVER)) if not len(numbers) > 1 else some("number")


def _number(kind: str) -> Callable[[Frame, Arguments, ast.AST], Value]:
    def make(frame: Frame, args: Arguments, node: ast.AST) -> Value:
        value = _first(args)
        known = constant(value)
        if kind == "float" and known in ("inf", "-inf"):
            return const(float(known))
        if isinstance(known, (int, float)) and (kind == "float" or isfinite(known)):
            return const(int(known) if kind == "int" else float(known))
        return some(kind, units_of(value), reads_of(value))

    return make


def _absolute(frame: Frame, args: Arguments, node: ast.AST) -> Value:
    value = _first(args)
    if any(isinstance(each, (Tensor, Opaque)) for each in value):
        return frame.analysis.pytorch.operate(frame, "abs", [value], node)
    return some("number", units_of(value), reads_of(value))


def _getattr(frame: Frame, args: Arguments, node: ast.AST) -> Value:
    if len(args.positional) < 2:
        return UNKNOWN
    owner, name = args.positional[:2]
    default = args.positional[2] if len(args.positional) > 2 else NEVER
    if all(isinstance(each, Const) and each.kind == "str" for each in name):
        found = join_all(attributes.load(frame, owner, each.value, node) for each in name if isinstance(each, Const))
        return attributes.resolve(frame, join(found, default))
    found, of_dimensions = default, _of_dimensions(_filled(args.node(1, "name")))
    for atom in owner:
        is_torch = isinstance(atom, External) and atom.name.startswith("torch.nn")
        known = join_all(attributes.load(frame, one(atom), each, node) for each in (of_dimensions if is_torch else ()))
        found = join(found, known or any_attribute(frame, atom))
    return attributes.resolve(frame, found)


def _of_dimensions(text: str) -> list[str]:
    """The names of layers and functions of PyTorch that a text makes of a number of dimensions: `f"conv{n}d"`."""
    is_one = text.endswith(f"{_HOLE}d") and text.count(_HOLE) == 1 and text != f"{_HOLE}d"
    return [text.replace(_HOLE, each) for each in "123"] if is_one else []


def _eval(frame: Frame, args: Arguments, node: ast.AST) -> Value:
    """What a text gives that takes an attribute of something known: `eval("nn.{}()".format(name))`."""
    made = _expression(args)
    called = made.func if isinstance(made, ast.Call) else made
    if not isinstance(called, ast.Attribute) or called.attr != _HOLE or not isinstance(called.value, ast.Name):
        return UNKNOWN
    found = join_all(any_attribute(frame, each) for each in frame.analysis.evaluate(frame, called.value))
    if isinstance(made, ast.Call):
        return UNKNOWN if made.args or made.keywords else frame.analysis.call(frame, found, Arguments(), node)
    return found


def _exec(frame: Frame, args: Arguments, node: ast.AST) -> Value:
    """What a text does that is one call, whatever is put into it: `exec("models.append(" + name + "())")`."""
    run = _expression(args)
    if run is None:
        return UNKNOWN
    for each in nodes_in(run):
        ast.copy_location(each, node)
    frame.analysis.evaluate(frame, run)
    return NONE_VALUE


def _expression(args: Arguments) -> ast.expr | None:
    """The expression that a text is, with holes where something is put into it; None where it is none."""
    try:
        return ast.parse(_filled(args.node(0, "")), mode="eval").body
    except (SyntaxError, ValueError):
        return None


_HOLE = "hole"
_PUT_IN = re.compile(r"%[dis]")


def _filled(node: ast.AST | None) -> str:
    """A text, with a name for whatever is put into it."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(map(_filled, node.values))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _filled(node.left) + _filled(node.right)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and isinstance(node.left, ast.Constant):
        return _PUT_IN.sub(_HOLE, str(node.left.value))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        return _filled(node.func.value).replace("{}", _HOLE).replace("{0}", _HOLE)
    return _HOLE


def any_attribute(frame: Frame, atom: object) -> Value:
    """What an attribute of an unknown name may be: anything of the project that the object is known to hold."""
    if isinstance(atom, FileModule):
        return frame.analysis.any_global(frame, atom.file)
    if isinstance(atom, Obj):
        names = frame.analysis.heap.names(atom, frame.task)
        return join(join_all(frame.read(atom, each) for each in names), UNKNOWN)
    if isinstance(atom, Opaque):
        return one(atom.part("[]"))  # one of many, as an element is
    return UNKNOWN if not isinstance(atom, External) else one(External(f"{atom.name}.?"))


def _setattr(frame: Frame, args: Arguments, node: ast.AST) -> Value:
    if len(args.positional) == 3:
        owner, name, value = args.positional
        known = [each.value for each in name if isinstance(each, Const) and each.kind == "str"]
        for each in known if len(known) == len(name) else (containers.ANY_ATTRIBUTE,):
            attributes.store(frame, owner, each, value, node)
    return NONE_VALUE


def _iter(frame: Frame, args: Arguments, node: ast.AST) -> Value:
    return many(containers.elements(frame, _first(args), node))


def _next(frame: Frame, args: Arguments, node: ast.AST) -> Value:
    default = args.positional[1] if len(args.positional) > 1 else NEVER
    return join(containers.elements(frame, _first(args), node), default)


def _type(frame: Frame, args: Arguments, node: ast.AST) -> Value:
    found = NEVER
    for atom in _first(args):
        own = atom.made_of if isinstance(atom, Obj) else External("torch.Tensor") if isinstance(atom, Tensor) else None
        found = join(found, UNKNOWN if own is None else one(own))
    return found


def _vars(frame: Frame, args: Arguments, node: ast.AST) -> Value:
    """`vars(module)` has what the module has, and is taken for it; so are `globals()` and a script's own `vars()`."""
    if not args.positional and not frame.code.is_function:
        return _globals(frame, args, node)
    objects = frozenset(each for each in _first(args) if isinstance(each, (FileModule, Obj)))
    return attributes.load(frame, objects, "__dict__", node) or UNKNOWN


def _locals(frame: Frame, args: Arguments, node: ast.AST) -> Value:
    """Those of a file are its `globals()`; a function gets a copy of its own."""
    return UNKNOWN if frame.code.is_function else _globals(frame, args, node)


def _globals(frame: Frame, args: Arguments, node: ast.AST) -> Value:
    return one(FileModule(frame.module.file))


def _divmod(frame: Frame, args: Arguments, node: ast.AST) -> Value:
    return tup([some("number"), some("number")])


def _round(frame: Frame, args: Arguments, node: ast.AST) -> Value:
    return some("number", units_of(_first(args)), reads_of(_first(args)))


_BY_NAME: dict[str, Callable[[Frame, Arguments, ast.AST], Value]] = {
    "enumerate": _enumerate,
    "zip": _zip,
    "list": _sequence(containers.LIST),
    "tuple": _sequence(None),
    "set": _sequence(containers.SET),
    "frozenset": _sequence(containers.SET),
    "dict": _dict,
    "map": _map,
    "filter": _filter,
    "sorted": _sorted,
    "reversed": _reversed,
    "sum": _sum,
    "min": _extreme,
    "max": _extreme,
    "int": _number("int"),
    "float": _number("float"),
    "abs": _absolute,
    "round": _round,
    "getattr": _getattr,
    "eval": _eval,
    "exec": _exec,
    "setattr": _setattr,
    "object.__setattr__": _setattr,
    "iter": _iter,
    "next": _next,
    "type": _type,
    "vars": _vars,
    "globals": _globals,
    "locals": _locals,
    "divmod": _divmod,
}
