"""Changes to a script that leave it a program, if an unusual one: steps that are taken twice, early or not, and moved.

A mutation takes the statements of a loop that goes backward. Whether the result still runs is found out by running it.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterator
from random import Random
from typing import TypeAlias

Statements: TypeAlias = "list[ast.stmt]"
CONDITIONS = (
    "i % 2 == 0",
    "i != 1",
    "i < 3",
    "loss.item() < 100",
    "i or True",
    "not i",
    "model.training",
    "opt is not None",
)
MANAGERS = ("contextlib.nullcontext()", "torch.enable_grad()", "torch.autograd.set_detect_anomaly(False)")
EXITS = ("break", "continue")
ERRORS = ("RuntimeError", "ValueError", "(RuntimeError, AssertionError)")


def mutate(text: str, rng: Random, times: int) -> str:
    """The text of a script after so many mutations."""
    module = ast.parse(text)
    for _ in range(times):
        rng.choice(MUTATIONS)(module, rng)
    return ast.unparse(ast.fix_missing_locations(module)) + "\n"


def loops(node: ast.AST) -> Iterator[Statements]:
    """The bodies of the loops that go backward, and of the blocks in them."""
    for each in ast.walk(node):
        if isinstance(each, (ast.For, ast.While, ast.AsyncFor)) and goes_backward(each):
            yield each.body
            for inner in ast.walk(each):
                if isinstance(inner, (ast.If, ast.With, ast.Try)) and goes_backward(inner):
                    yield inner.body


def goes_backward(node: ast.AST) -> bool:
    """Whether there is a call of `backward` in a node."""
    return any(isinstance(each, ast.Attribute) and each.attr == "backward" for each in ast.walk(node))


def statements(text: str) -> Statements:
    """The statements of a text, also of those that stand in a loop or in a function only."""
    return ast.parse(text).body


def names(nodes: Statements, context: type[ast.expr_context]) -> set[str]:
    """The names that statements read, or write."""
    found = {
        each.id
        for node in nodes
        for each in ast.walk(node)
        if isinstance(each, ast.Name) and isinstance(each.ctx, context)
    }
    if context is ast.Store:
        found |= {
            each.target.id
            for node in nodes
            for each in ast.walk(node)
            if isinstance(each, ast.AugAssign) and isinstance(each.target, ast.Name)
        }
    else:
        found |= names(nodes, ast.Store) & {
            each.target.id
            for node in nodes
            for each in ast.walk(node)
            if isinstance(each, ast.AugAssign) and isinstance(each.target, ast.Name)
        }
    return found


def _body(module: ast.Module, rng: Random) -> Statements:
    found = list(loops(module))
    return rng.choice(found) if found else []


def _slice(body: Statements, rng: Random) -> tuple[int, int]:
    first = rng.randrange(len(body))
    return first, rng.randint(first + 1, len(body))


def under_a_condition(module: ast.Module, rng: Random) -> None:
    """Put some statements under an `if`."""
    body = _body(module, rng)
    if body:
        first, last = _slice(body, rng)
        block = ast.parse(f"if {rng.choice(CONDITIONS)}:\n    pass").body[0]
        assert isinstance(block, ast.If)
        block.body = body[first:last]
        if rng.random() < 0.2:
            block.orelse = statements("print('else')")
        body[first:last] = [block]


def in_a_try(module: ast.Module, rng: Random) -> None:
    """Put some statements into a `try`, and sometimes let one of them fail."""
    body = _body(module, rng)
    if not body:
        return
    first, last = _slice(body, rng)
    errors = rng.choice(ERRORS)
    ends = (
        f"except {errors}:\n        print('failed')",
        f"except {errors}:\n        continue",
        "finally:\n        pass",
    )
    loop = ast.parse(f"for _ in ():\n    try:\n        pass\n    {rng.choice(ends)}").body[0]
    assert isinstance(loop, ast.For)
    attempt = loop.body[0]
    assert isinstance(attempt, ast.Try)
    inside = body[first:last]
    if attempt.handlers and rng.random() < 0.6:
        failing = statements(f"if i == {rng.randrange(4)}:\n    raise RuntimeError('out of memory')")
        place = rng.randrange(len(inside) + 1)
        inside[place:place] = failing
    attempt.body = inside
    body[first:last] = [attempt]


def an_early_exit(module: ast.Module, rng: Random) -> None:
    """Leave the loop, or one turn of it, at some place."""
    body = _body(module, rng)
    if body:
        place = rng.randrange(len(body) + 1)
        loop = ast.parse(f"for _ in ():\n    if i == {rng.randrange(1, 5)}:\n        {rng.choice(EXITS)}").body[0]
        assert isinstance(loop, ast.For)
        body[place:place] = loop.body


def once_more(module: ast.Module, rng: Random) -> None:
    """Do some statements again at once."""
    body = _body(module, rng)
    if body:
        first, last = _slice(body, rng)
        again = ast.parse(ast.unparse(ast.Module(body[first:last], []))).body
        if rng.random() < 0.3:
            block = ast.parse("for again in range(2):\n    pass").body[0]
            assert isinstance(block, ast.For)
            block.body = body[first:last]
            body[first:last] = [block]
        else:
            body[last:last] = again


def one_less(module: ast.Module, rng: Random) -> None:
    """Leave a statement out."""
    body = _body(module, rng)
    if len(body) > 3:
        del body[rng.randrange(len(body))]


def the_other_way_round(module: ast.Module, rng: Random) -> None:
    """Let two neighbours change places."""
    body = _body(module, rng)
    if len(body) > 1:
        place = rng.randrange(len(body) - 1)
        body[place], body[place + 1] = body[place + 1], body[place]


def in_a_region(module: ast.Module, rng: Random) -> None:
    """Put some statements into a `with`."""
    body = _body(module, rng)
    if body:
        first, last = _slice(body, rng)
        manager = rng.choice(MANAGERS)
        block = ast.parse(f"with {manager}:\n    pass").body[0]
        assert isinstance(block, ast.With)
        block.body = body[first:last]
        body[first:last] = [block]


def into_a_function(module: ast.Module, rng: Random) -> None:
    """Move some statements into a function, which gets what it needs by arguments, defaults or from around it."""
    body = _body(module, rng)
    if not body:
        return
    first, last = _slice(body, rng)
    inside = body[first:last]
    if any(isinstance(each, (ast.Yield, ast.Await, ast.Return)) for node in inside for each in ast.walk(node)):
        return
    if _leaves_a_loop(inside):
        return
    number = sum(isinstance(each, ast.FunctionDef) for each in ast.walk(module))
    name = f"part{number}"
    outside = [each for each in module.body if not (isinstance(each, ast.stmt) and _holds(each, body))]
    made = names(outside, ast.Store) | {
        each.name for each in outside if isinstance(each, (ast.ClassDef, ast.FunctionDef))
    }
    imported = {
        (alias.asname or alias.name).partition(".")[0]
        for each in ast.walk(module)
        if isinstance(each, (ast.Import, ast.ImportFrom))
        for alias in each.names
    }
    reads = names(inside, ast.Load) - imported - set(dir(builtins)) - _own(inside)
    writes = names(inside, ast.Store)
    local = sorted(reads - made | (reads & writes))
    around = sorted((reads & made) - writes)
    style = rng.choice(("arguments", "globals", "defaults", "keywords", "nested"))
    results = sorted(
        writes & (names(body[last:], ast.Load) | names(body[:first], ast.Load) | _read_later(module, body))
    )
    parameters, passed = list(local), list(local)
    if style == "arguments":
        parameters += around
        passed += around
    elif style == "keywords" and around:
        parameters += ["*", *around]
        passed += [f"{each}={each}" for each in around]
    elif style == "defaults":
        parameters += [f"{each}={each}" for each in around]
    call = f"{name}({', '.join(passed)})"
    text = f"{', '.join(results)} = {call}" if results else call
    function = ast.parse(f"def {name}({', '.join(parameters)}):\n    pass").body[0]
    assert isinstance(function, ast.FunctionDef)
    function.body = inside + (statements_of_return(results) if results else [])
    body[first:last] = statements(text)
    if style == "nested":
        body[first:first] = [function]
    else:
        _above(module, body, function)


def bound_beforehand(module: ast.Module, rng: Random) -> None:
    """Call a function through `functools.partial`, or a lambda."""
    calls = [each for each in ast.walk(module) if isinstance(each, ast.Call) and _is_part(each.func) and each.args]
    if calls:
        call = rng.choice(calls)
        form = rng.choice(("functools.partial(f, a)", "(lambda *rest, **named: f(a, *rest, **named))"))
        bound = ast.parse(form, mode="eval").body
        first = call.args.pop(0)
        call.func = _Filled({"f": call.func, "a": first}).visit(bound)


class _Filled(ast.NodeTransformer):
    """An expression with other expressions for its names."""

    def __init__(self, parts: dict[str, ast.expr]) -> None:
        self._parts = parts

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._parts.get(node.id, node)


def an_early_return(module: ast.Module, rng: Random) -> None:
    """Leave a function that returns nothing before it is done."""
    functions = [
        each
        for each in ast.walk(module)
        if isinstance(each, ast.FunctionDef)
        and each.name.startswith("part")
        and not any(isinstance(inner, ast.Return) for inner in ast.walk(each))
    ]
    if functions:
        body = rng.choice(functions).body
        place = rng.randrange(len(body) + 1)
        function = ast.parse(f"def f():\n    if i == {rng.randrange(1, 4)}:\n        return").body[0]
        assert isinstance(function, ast.FunctionDef)
        body[place:place] = function.body


def _is_part(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id.startswith("part")


def statements_of_return(results: list[str]) -> Statements:
    """`return a, b`."""
    function = ast.parse(f"def f():\n    return {', '.join(results)}").body[0]
    assert isinstance(function, ast.FunctionDef)
    return function.body


def _own(nodes: Statements) -> set[str]:
    """The names that comprehensions, lambdas and `for` of these statements bind, and read only after that."""
    found: set[str] = set()
    for node in nodes:
        for each in ast.walk(node):
            if isinstance(each, ast.comprehension):
                found |= {target.id for target in ast.walk(each.target) if isinstance(target, ast.Name)}
            elif isinstance(each, ast.Lambda):
                found |= {argument.arg for argument in each.args.args}
    first_writes: set[str] = set()
    for node in nodes:
        found |= first_writes & names([node], ast.Load)
        if isinstance(node, ast.Assign):
            reads = names([node], ast.Load)
            first_writes |= names([node], ast.Store) - reads - (names(nodes[: nodes.index(node)], ast.Load))
        elif isinstance(node, ast.For):
            found |= {target.id for target in ast.walk(node.target) if isinstance(target, ast.Name)}
    return found


def _read_later(module: ast.Module, body: Statements) -> set[str]:
    """What is read at the end of the script, or by a loop around."""
    return names([each for each in module.body[-2:] if not _holds(each, body)], ast.Load)


def _holds(node: ast.AST, body: Statements) -> bool:
    return any(getattr(each, "body", None) is body for each in ast.walk(node))


def _leaves_a_loop(nodes: Statements) -> bool:
    def leaves(node: ast.AST) -> bool:
        if isinstance(node, (ast.Break, ast.Continue)):
            return True
        if isinstance(node, (ast.For, ast.While, ast.FunctionDef, ast.Lambda)):
            return False
        return any(map(leaves, ast.iter_child_nodes(node)))

    return any(map(leaves, nodes))


def _above(module: ast.Module, body: Statements, function: ast.FunctionDef) -> None:
    """Put a function right before the statement of the module that holds a loop."""
    for place, each in enumerate(module.body):
        if _holds(each, body):
            module.body.insert(place, function)
            return


Mutation: TypeAlias = "Callable[[ast.Module, Random], None]"
MUTATIONS: tuple[Mutation, ...] = (
    under_a_condition,
    in_a_try,
    an_early_exit,
    once_more,
    one_less,
    the_other_way_round,
    in_a_region,
    into_a_function,
    into_a_function,
    into_a_function,
    bound_beforehand,
    an_early_return,
)
