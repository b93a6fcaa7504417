"""`--add-flag`: one option of the script that switches all that was moved, or none at all."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import libcst as cst

from amp_migrate.analysis.arguments.command_line import CommandLine, Parser
from amp_migrate.analysis.components import Components
from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import Project
from amp_migrate.catalog.step_rules import NO_SWITCH
from amp_migrate.frozen import frozen
from amp_migrate.plan.move import Refusal
from amp_migrate.settings import Dtype
from amp_migrate.steps.flag.flag_route import OPTION, FlagTraveller
from amp_migrate.steps.flag.switch_route import FlagWay
from amp_migrate.steps.model.route import Creation, ScaledStep, Ways
from amp_migrate.steps.regions.find_regions import Placement

# `args.amp`, whatever the script means by it; modules of that name are not one.
_READ = re.compile(rf"(?<!torch)(?<!cuda)(?<!cpu)(?<!apex)\.{OPTION}\b|\[['\"]{OPTION}['\"]\]")


@frozen
class FlagPlace:
    """Something that the flag is to switch.

    Attributes:
        node: the first statement of a region, or the one that a scaler is made behind.
        scaler: how a scaler that can tell whether mixed precision is on is written there, if one is at hand.
        homes: the files that this scaler may be made in.
    """

    file: File
    node: cst.CSTNode
    scaler: str | None = None
    homes: tuple[File, ...] = ()


@frozen
class Flags:
    """What was decided.

    Attributes:
        conditions: the condition at each place that has one.
        ways: all that carries the flag there.
        lost: what speaks against an option, for each group of files that gets none.
    """

    conditions: dict[cst.CSTNode, str]
    ways: tuple[FlagWay, ...]
    lost: tuple[Refusal, ...]


def flag_places(
    moves: Sequence[ScaledStep],
    evaluated: Mapping[File, Placement],
    ways: Ways,
    dtype: Dtype,
    may_be_none: Callable[[File, cst.CSTNode, str], bool],
) -> list[FlagPlace]:
    """Every region and every new scaler.

    Args:
        may_be_none: whether a scaler may be None at a place.
    """
    creations = list(ways.creations.values())
    everywhere = tuple(dict.fromkeys(creation.file for creation in creations))
    places = [FlagPlace(creation.file, creation.home) for creation in creations]
    for move in moves:
        for region in move.step.regions:
            file, scaler = move.step.file, None if move.route is None else move.route.scaler
            # A scaler beside bfloat16 is off, and tells nothing.
            if scaler is None or dtype is not Dtype.FP16 or may_be_none(file, region.first, scaler):
                places.append(FlagPlace(file, region.first))
            else:
                homes = tuple(creation.file for creation in move.route.creations) if move.route else ()
                places.append(FlagPlace(file, region.first, scaler, homes or everywhere))
    for file, placed in evaluated.items():
        for region in placed.regions:
            beside = None if dtype is not Dtype.FP16 else _own_scaler(file, region.first, creations)
            places.append(FlagPlace(file, region.first, beside, (file,)))
    return places


def _own_scaler(file: File, at: cst.CSTNode, creations: Sequence[Creation]) -> str | None:
    """The scaler of the object whose method a place is in."""
    owner = file.tree.owner_class(at)
    own = (each for each in creations if each.target.startswith("self.") and each.file is file)
    return next((each.target for each in own if file.tree.owner_class(each.home) is owner), None)


def decide_flags(project: Project, places: Sequence[FlagPlace]) -> Flags:
    """Find a way of the flag to every place; files that share a command line or a scaler get it together or not."""
    traveller = FlagTraveller(project)
    ways = {place: _way(traveller, place) for place in places}
    group = _groups(ways)
    lost: dict[int, Refusal] = {}
    for place, way in ways.items():
        problem = way if isinstance(way, Refusal) else next(filter(None, map(_taken, way.lines)), None)
        if problem is not None:
            lost.setdefault(group[place.file], problem)
    kept = {place: way for place, way in ways.items() if isinstance(way, FlagWay) and group[place.file] not in lost}
    conditions = {place.node: way.code for place, way in kept.items()}
    return Flags(conditions, tuple(kept.values()), tuple(lost.values()))


def _groups(ways: Mapping[FlagPlace, FlagWay | Refusal]) -> dict[File, int]:
    """For each file the number of the files that it shares a scaler or a command line with."""
    links = [(place.file, home) for place in ways for home in place.homes]
    links += [(place.file, line.file) for place, way in ways.items() if isinstance(way, FlagWay) for line in way.lines]
    files = Components(dict.fromkeys([*(place.file for place in ways), *(other for _, other in links)]))
    for file, other in links:
        files.link(file, other)
    return {file: number for number, group in enumerate(files.all()) for file in group}


def _way(traveller: FlagTraveller, place: FlagPlace) -> FlagWay | Refusal:
    way = traveller.reach(place.file, place.node)
    is_direct = isinstance(way, FlagWay) and not way.parameters
    if is_direct or place.scaler is None:
        return way
    # The scaler is here already, and its own flag comes to it where it is made.
    return FlagWay(f"{place.scaler}.is_enabled()", frozenset())


def _taken(line: CommandLine) -> Refusal | None:
    """What speaks against the option on a command line: one of that name, or something else the script calls so."""
    if isinstance(line, Parser) and (OPTION in line.options or _READ.search(line.file.tree.text)):
        hint = f"give autocast and GradScaler enabled=... by hand, from the script's own --{OPTION}"
        return Refusal(line.file, line.statement, f"its command line has `{OPTION}` already", hint, NO_SWITCH.code)
    return None
