"""What a step clipped by itself: `FusedAdam` as Apex had it in 2019, inside of an `FP16_Optimizer`.

The wrapper told `FusedAdam(max_grad_norm=limit)` the norms of the gradients, and its `step` clipped each group of
parameters to the limit: what `clip_grad_norm_` does before a step that does not.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from amp_migrate.frozen import frozen
from amp_migrate.prove.code.file import File
from amp_migrate.prove.code.scopes import Scope
from amp_migrate.prove.code.values import Values
from amp_migrate.prove.erasure.calls_of_torch import native_call
from amp_migrate.syntax import nodes_in
from amp_migrate.tables.apex_names import CLIPS_IN_STEP

KEYWORD = "max_grad_norm"
CLIP = "torch.nn.utils.clip_grad_norm_"
_GROUP = "<group>"


@frozen
class Limit:
    """What the gradients of an optimizer are clipped to in its step.

    Attributes:
        norm: the limit.
        test: what has to be true for the optimizer to be one that does so; None where nothing has.
        scope: where both stand.
    """

    norm: ast.expr
    test: ast.expr | None
    scope: Scope

    def is_read_alike(self, scope: Scope) -> bool:
        """Whether the names of the limit are the same things in another scope."""
        nodes = [n for each in (self.norm, self.test) if each is not None for n in nodes_in(each)]
        return all(self.scope.find(n.id) is scope.find(n.id) for n in nodes if isinstance(n, ast.Name))


class Limits:
    """The optimizers of some files that clip in their steps.

    Attributes:
        are_known: whether there are wrappers that have them clip: without one, nothing does.
    """

    def __init__(self, files: Mapping[str, File]) -> None:
        words = {word for file in files.values() for line in file.words for word in line}
        self.are_known = {KEYWORD, "FP16_Optimizer"} <= words
        self._values = Values(files, follows_optimizers=True) if self.are_known else None

    def of(self, optimizer: ast.expr, scope: Scope) -> tuple[Limit, ...]:
        """The limits of what an optimizer may be, for the step that is written with it."""
        if self._values is None:
            return ()
        made = {each[1] for each in self._values.of(optimizer, scope) if isinstance(each, tuple) and each[0] == "made"}
        found = []
        for file in self._values.files.values():
            for statement, at in file.scopes.statements:
                calls = nodes_in(statement) if isinstance(statement, ast.Assign) else ()
                for call in (each for each in calls if isinstance(each, ast.Call)):
                    if call in made and self._values.name(call.func, at) in CLIPS_IN_STEP:
                        norms = [each.value for each in call.keywords if each.arg == KEYWORD and not _is_nothing(each)]
                        is_here = isinstance(optimizer, ast.Name) and scope.find(optimizer.id) is at
                        given = list(_bindings(at.node, optimizer.id)) if isinstance(optimizer, ast.Name) else []
                        tests = list(_tests(getattr(at.node, "body", []), call, optimizer, given if is_here else []))
                        test = None if not tests else tests[0] if len(tests) == 1 else ast.BoolOp(ast.And(), tests)
                        found += [Limit(norm, test, at) for norm in norms]
        return tuple(found)


def clips(optimizer: ast.expr, norm: ast.expr, test: ast.expr | None, at: ast.stmt) -> ast.For:
    """The loop that clips each group of an optimizer, in the form by which such loops are compared."""
    groups: ast.expr = ast.Attribute(optimizer, "param_groups", ast.Load())
    if test is not None:
        groups = ast.IfExp(test, groups, ast.Tuple([], ast.Load()))
    params = ast.Subscript(ast.Name(_GROUP, ast.Load()), ast.Constant("params"), ast.Load())
    call = native_call(ast.Call(ast.Name(CLIP, ast.Load()), [params, norm], []), CLIP)
    found = ast.For(ast.Name(_GROUP, ast.Store()), groups, [ast.Expr(call)], [])
    for each in nodes_in(found):
        ast.copy_location(each, at)
    return found


def named_alike(loop: ast.For) -> ast.For:
    """An erased loop over the groups of an optimizer that clips them, in the form of `clips`; any other as it is."""
    groups = loop.iter.body if isinstance(loop.iter, ast.IfExp) else loop.iter
    only = loop.body[0] if len(loop.body) == 1 and not loop.orelse else None
    call = only.value if isinstance(only, ast.Expr) and isinstance(only.value, ast.Call) else None
    is_clip = call is not None and isinstance(call.func, ast.Name) and call.func.id == CLIP
    is_groups = isinstance(groups, ast.Attribute) and groups.attr == "param_groups"
    if call is not None and is_clip and is_groups and isinstance(loop.target, ast.Name):
        name = loop.target.id
        for each in [loop.target, *(n for k in (*call.args, *(k.value for k in call.keywords)) for n in nodes_in(k))]:
            if isinstance(each, ast.Name) and each.id == name:
                each.id = _GROUP
    return loop


def _tests(body: list[ast.stmt], call: ast.AST, step: ast.AST, given: list[ast.AST]) -> Iterator[ast.expr]:
    """What the branches around a call ask for: all but those that a step is only come to with.

    It stands in them, too, or whatever gives its optimizer a value does: elsewhere it raises for want of one.

    Args:
        given: where its name is bound, for a step in the function of the call.
    """
    for statement in body:
        if isinstance(statement, ast.If):
            for branch, is_own in ((statement.body, True), (statement.orelse, False)):
                inside = {id(each) for inner in branch for each in nodes_in(inner)} if branch else set()
                is_asked = id(step) not in inside and not (given and all(id(each) in inside for each in given))
                if id(call) in inside and is_asked:
                    yield statement.test if is_own else ast.UnaryOp(ast.Not(), statement.test)
        if any(each is call for each in nodes_in(statement)):
            for name in ("body", "orelse", "finalbody"):
                yield from _tests(getattr(statement, name, []), call, step, given)


def _bindings(node: ast.AST, name: str) -> Iterator[ast.AST]:
    """Where something may give a name a value that can step, in a scope or in what is inside of it."""
    nothing = {
        id(target)
        for each in nodes_in(node)
        if isinstance(each, ast.Assign) and isinstance(each.value, ast.Constant) and each.value.value is None
        for target in each.targets
    }
    for each in nodes_in(node):
        if isinstance(each, ast.Name):
            is_bound = each.id == name and isinstance(each.ctx, ast.Store) and id(each) not in nothing
        elif isinstance(each, ast.alias):
            is_bound = (each.asname or each.name.partition(".")[0]) in (name, "*")
        else:  # a parameter, a definition, an exception or a pattern
            is_bound = name in (getattr(each, "arg", None), getattr(each, "name", None))
        if is_bound and not isinstance(each, ast.keyword):
            yield each


def _is_nothing(limit: ast.keyword) -> bool:
    return isinstance(limit.value, ast.Constant) and not limit.value.value
