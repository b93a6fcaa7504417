"""Whether the same program is left of two when the precision is taken out of both."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from functools import cached_property

from amp_migrate.prove.code.file import File
from amp_migrate.prove.code.program import Program
from amp_migrate.prove.code.scopes import Scope
from amp_migrate.prove.code.trees import is_same
from amp_migrate.prove.erasure.clips_in_step import Limits
from amp_migrate.prove.erasure.compare import Comparison, Difference
from amp_migrate.prove.erasure.erase import Eraser, MayGo, halved, is_scale
from amp_migrate.prove.erasure.simplify import IS_ON, is_method, is_parameters
from amp_migrate.prove.erasure.tidy import tidied
from amp_migrate.prove.erasure.unchanged import Texts, unchanged_statements, unchanged_units
from amp_migrate.prove.sources.chosen import Chosen
from amp_migrate.prove.sources.floating import Floating
from amp_migrate.prove.sources.origins import Origins, Source
from amp_migrate.prove.sources.updated import Updated


def differences(before: Program, after: Program, *, shows_casts: bool) -> dict[str, Difference]:
    """The first difference of each file in which two programs are not the same without their precision.

    Args:
        shows_casts: whether what is cast to float32 has to be shown to be floating: otherwise a cast is a difference
            where its value is known to be of another type.
    """
    before.beside(after)
    touched = before.values.words | after.values.words | {name for name, _ in before.imports ^ after.imports}
    allowed = _Allowed(before, shows_casts)

    def compared(trees: tuple[dict[str, ast.Module], dict[str, ast.Module]]) -> dict[str, Difference]:
        found = {name: allowed.compared(*trees, name) for name in before.files}
        return {name: difference for name, difference in found.items() if difference is not None}

    units = unchanged_units(before, after, touched)
    statements = unchanged_statements(before, after, touched)
    # Where the statements that both sides have stand in the same order, only the others need a look.
    halves = [_Halves(program, shows_casts).may_go for program in (before, after)]
    both = tuple({**unit, **statement} for unit, statement in zip(units, statements, strict=True))
    found = compared(_erased(before, after, both, halves))
    if found:
        trees = _erased(before, after, units, halves)
        found = compared(trees)
    if found:
        tidied(*trees, before.others.mentions)
        found = compared(trees)
    return found


def _erased(
    before: Program, after: Program, same: Sequence[Texts], halves: Sequence[MayGo]
) -> tuple[dict[str, ast.Module], dict[str, ast.Module]]:
    """The files of both sides without their precision."""
    trees: tuple[dict[str, ast.Module], dict[str, ast.Module]] = ({}, {})
    for side, program, texts, may_go in zip(trees, (before, after), same, halves, strict=True):
        limits = Limits(program.files)
        for name, file in program.files.items():
            eraser = Eraser(file, program.values, limits, texts, may_go)
            side[name] = eraser.run()
            program.switches[name] = eraser.switches
    return trees


class _Halves:
    """What `x = x.half()` may be of, so that nothing but precision goes with it."""

    def __init__(self, program: Program, shows_casts: bool) -> None:
        self._program = program
        self._shows_casts = shows_casts

    @cached_property
    def _floating(self) -> Floating:
        return Floating(Origins(self._program))

    def may_go(self, node: ast.expr, scope: Scope) -> bool:
        """Whether an expression is a module, or floating; where that need not be shown, whether it may be."""
        here = Source(node, scope)
        is_one = self._floating.is_floating if self._shows_casts else self._floating.may_be_floating
        return self._floating.is_module(here) or is_one(here)


class _Allowed:
    """What may be said otherwise, where it can be shown to be the same."""

    def __init__(self, before: Program, shows_casts: bool) -> None:
        self._before = before
        self._shows_casts = shows_casts
        self._file = ""
        self._comparison = Comparison(self._is_allowed)

    def compared(
        self, before: Mapping[str, ast.Module], after: Mapping[str, ast.Module], name: str
    ) -> Difference | None:
        """The first difference of one file."""
        self._file = name
        return self._comparison.blocks(before[name].body, after[name].body)

    @cached_property
    def _origins(self) -> Origins:
        return Origins(self._before)

    @cached_property
    def _chosen(self) -> Chosen:
        return Chosen(self._before)

    @cached_property
    def _updated(self) -> Updated:
        return Updated(self._before, self._origins)

    @cached_property
    def _floating(self) -> Floating:
        return Floating(self._origins)

    def _here(self, node: ast.expr, line: int) -> Source:
        """An expression of either side as it would stand in the original."""
        return Source(node, scope_at(self._before.files[self._file], line))

    def _is_allowed(self, one: ast.expr, other: ast.expr) -> bool:
        if is_parameters(one) and isinstance(other, ast.Call) and is_method(other, "parameters"):
            assert isinstance(one, ast.Call)
            assert isinstance(other.func, ast.Attribute)
            line = getattr(one, "lineno", 1)
            return self._updated.are_of(self._here(one.args[0], line), self._here(other.func.value, line))
        if _is_on(one):  # the original asks for `amp`, which is None where its own switch is off
            return self._chosen.is_by(other)
        if is_scale(one) or is_scale(other):
            return any(isinstance(each, ast.Constant) and each.value == 1 for each in (one, other))
        if isinstance(one, ast.Tuple) and isinstance(other, ast.IfExp) and len(one.elts) == 2:
            # `initialize` hands back the model alone where there is no optimizer.
            with_none = ast.Compare(one.elts[1], [ast.IsNot()], [ast.Constant(None)])
            return is_same([with_none, one, one.elts[0]], [other.test, other.body, other.orelse])
        if isinstance(one, ast.Subscript) and isinstance(other, ast.Call) and is_method(other, "get"):
            # What the original ran with has the key.
            found = ast.Subscript(other.func.value, other.args[0], ast.Load()) if len(other.args) == 2 else other  # type: ignore[attr-defined]
            return is_same(one, found)
        cast = _cast(other)
        is_one = self._floating.is_floating if self._shows_casts else self._floating.may_be_floating
        if cast is not None and self._comparison.nodes(one, cast) is None:
            here = self._here(one, getattr(one, "lineno", 1))
            return _is_asked(other) or is_one(here)
        model = halved(one)
        if model is not None and self._comparison.nodes(model, other) is None:
            here = self._here(model, getattr(one, "lineno", 1))
            return self._floating.is_module(here) or is_one(here)
        return self._is_loss_of_cast(one, other)

    def _is_loss_of_cast(self, one: ast.expr, other: ast.expr) -> bool:
        """Whether two calls of a loss differ by casts of what the original would not take unless it is floating."""
        if not (isinstance(one, ast.Call) and isinstance(other, ast.Call) and len(one.args) == len(other.args)):
            return False
        a, b = one.func, other.func
        if isinstance(a, ast.Attribute) and isinstance(b, ast.Attribute) and a.attr == b.attr:
            cast = _cast(b.value)
            is_cast = cast is not None and self._comparison.nodes(a.value, cast) is None
            if is_cast and self._floating.is_demanded_by(a.attr):
                return is_same([*one.args, *one.keywords], [*other.args, *other.keywords])
        casts = [index for index, each in enumerate(other.args) if _cast(each) is not None]
        if not casts or not is_same([one.func, *one.keywords], [other.func, *other.keywords]):
            return False
        demanded = self._floating.demanded(one, self._here(one, one.lineno).scope)
        return all(
            self._comparison.nodes(a, b) is None
            or (index < demanded and (cast := _cast(b)) is not None and self._comparison.nodes(a, cast) is None)
            for index, (a, b) in enumerate(zip(one.args, other.args, strict=True))
        )


def _is_on(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == IS_ON


def _cast(node: ast.expr) -> ast.expr | None:
    """What is cast to float32."""
    if isinstance(node, ast.IfExp) and _is_asked(node):
        return node.orelse
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.keywords:
        if node.func.attr == "float" and not node.args:
            return node.func.value
        is_type = len(node.args) == 1 and isinstance(node.args[0], ast.Name) and node.args[0].id in _FLOAT
        return node.func.value if node.func.attr == "to" and is_type else None
    return None


_FLOAT = ("torch.float", "torch.float32")


def _is_asked(node: ast.expr) -> bool:
    """`x.float() if x.is_floating_point() else x`, which needs no proof."""
    if not isinstance(node, ast.IfExp) or not isinstance(node.test, ast.Call):
        return False
    is_test = is_method(node.test, "is_floating_point")
    return is_test and is_same(node.test.func.value, node.orelse) and is_same(_cast(node.body), node.orelse)  # type: ignore[attr-defined]


def scope_at(file: File, line: int) -> Scope:
    """The innermost function, or the module, that a line stands in."""
    found = file.scopes.module
    for node, scope in file.scopes.functions:
        if node.lineno <= line <= (node.end_lineno or line):
            found = file.scopes.inside(node, scope)
    return found
