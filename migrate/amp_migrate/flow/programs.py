"""Programs that have been interpreted, for all plans that are made of the same files."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from amp_migrate.flow.analysis import Analysis, analysed
from amp_migrate.flow.domain.atoms import numbers_in, tensor_of
from amp_migrate.flow.domain.contexts import ON, Autocast, Context
from amp_migrate.flow.domain.tensor import F16
from amp_migrate.flow.events import Act
from amp_migrate.flow.files import Files
from amp_migrate.flow.questions import Questions
from amp_migrate.frozen import frozen


@frozen
class InRegion:
    """A file where all that is there runs in a region of float16, whoever calls it.

    It is all that is kept of a program which many scripts ask about, each in a part of the project by itself.

    Attributes:
        tree: the file, as it was read; empty where it could not be.
        precisions: those of the expressions that are tensors, as bits.
        without_kernel: the operators of the calls that no kernel may serve in half precision.
        numbers: what those names and attributes may be that are numbers, as far as is seen.
    """

    tree: ast.Module
    precisions: Mapping[ast.AST, int]
    without_kernel: Mapping[ast.AST, str]
    numbers: Mapping[ast.AST, tuple[float, ...]]


InRegions: TypeAlias = dict[str, InRegion]


# How many times as far as a question of one script is worth files are followed into that are only consulted: what is
# asked here is told or not by all of the model, and a run that comes to rest sooner costs no more.
_PATIENCE = 8
# One place is asked about after the other, and each program that is kept takes up memory.
_MOST_PARTS = 4


class Programs:
    """A plan that has to be made again, for what was wrong with its result, asks about the same originals.

    Args:
        in_regions: what is known of files in regions, by name; new ones are added.
    """

    def __init__(self, in_regions: InRegions | None = None) -> None:
        self._known: dict[tuple[tuple[str, ...], tuple[str, ...]], Analysis] = {}
        self._parts: dict[tuple[str, ...], Analysis] = {}
        self._in_regions = {} if in_regions is None else in_regions

    def of(self, files: Files, focus: Iterable[str], beside: Iterable[str]) -> Analysis:
        """The program of some files, with what is called from others."""
        key = tuple(focus), tuple(beside)
        if key not in self._known:
            part = None if key[1] else self._parts.get(key[0])
            is_as_good = part is not None and part.met_no_limit and not part.may_take_for_one
            self._known[key] = part if part and is_as_good else analysed(files, *key, patience=_PATIENCE)
        return self._known[key]

    def part(self, files: Files, focus: tuple[str, ...], *, only_whole: bool) -> Analysis:
        """The program of some files alone, as far as it is worth to be asked what calls what.

        Args:
            only_whole: whether nothing is asked of it unless all of it has been looked at.
        """
        found = self._parts.pop(focus, None)
        if found is None or (found.was_stopped and not only_whole):
            found = Analysis(files, focus, keeps_all=True, only_whole=only_whole).run()
        self._parts[focus] = found
        if len(self._parts) > _MOST_PARTS:
            del self._parts[next(iter(self._parts))]
        return found

    def in_region(self, files: Files, file: str) -> InRegion:
        """Any file, as it is where all that is there runs in a region of float16, whoever calls it."""
        if file not in self._in_regions:
            self._in_regions[file] = _in_region(files, file)
        return self._in_regions[file]


def _in_region(files: Files, file: str) -> InRegion:
    analysis = Analysis(files, [file], around=Context(Autocast(ON, F16))).run()
    module = analysis.module(file)
    tensors = ((node, tensor_of(value)) for node, value in analysis.values.items())
    events = (each for each in Questions(analysis).events(Act.NO_KERNEL) if each.site.file == file)
    named = ((node, value) for node, value in analysis.values.items() if isinstance(node, (ast.Name, ast.Attribute)))
    numbers: dict[ast.AST, tuple[float, ...]] = {node: known for node, value in named if (known := numbers_in(value))}
    found = InRegion(
        ast.Module([], []) if module is None else module.tree,
        {node: tensor.precision for node, tensor in tensors if tensor is not None},
        {each.node: each.why for each in events},
        numbers,
    )
    analysis.let_go()
    return found
