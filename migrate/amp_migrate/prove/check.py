"""All that a result must pass before it is written: what is asked of it, and what comes of that."""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterator, Sequence
from itertools import combinations

from amp_migrate.frozen import frozen
from amp_migrate.prove.bound_names import unbound
from amp_migrate.prove.calls import wrong_call
from amp_migrate.prove.code.installed import APEX, OLD, PACKAGES, Installed
from amp_migrate.prove.code.program import Locate, Others, Program
from amp_migrate.prove.code.scopes import heads
from amp_migrate.prove.erasure.compare import Difference
from amp_migrate.prove.erasure.native_choice import chosen_natively
from amp_migrate.prove.erasure.same_program import differences
from amp_migrate.prove.scaler_order import disorders, new_disorder
from amp_migrate.syntax import nodes_in
from amp_migrate.tables.apex_names import SHIM
from amp_migrate.tables.signatures import Version

# What is asked of every result, by name.
CHECKS = ("erasure", "names", "calls", "scaler order")
_ALL = frozenset({*PACKAGES, OLD})
_TODAY = frozenset(PACKAGES)
_Switches = dict[str, list[str]]


@frozen
class Change:
    """A file that would be written.

    Attributes:
        name: what the file is known by to `Project.locate`.
        before, after: both of its texts.
        is_repair: whether it is meant to be another program, so that nobody asks whether it is the same.
    """

    name: str
    before: str
    after: str
    is_repair: bool = False


@frozen
class Fault:
    """Why a result must not be written.

    Attributes:
        message: the fact, in one line.
        line_before, line_after: the places in both texts; 0 where there is none.
        is_unread: whether nothing was asked, because this Python is too old to read the file.
        is_disorder: whether a scaler does not work on some way through the result, which is the original for the rest.
    """

    message: str
    line_before: int = 0
    line_after: int = 0
    is_unread: bool = False
    is_disorder: bool = False


_UNREAD = Fault(
    "it is written for a newer Python than the one that amp-migrate runs on, which cannot read what it would check",
    is_unread=True,
)


@frozen
class Project:
    """What is around the files that change.

    Attributes:
        locate: gives the name of the file of `Change.name`s that an import in a file loads.
        others: the files that stay as they are.
        torch: the oldest and the newest PyTorch that results are written for.
    """

    locate: Locate
    others: Others
    torch: tuple[Version, Version]


def faults(changes: Sequence[Change], project: Project, *, is_strict: bool = True) -> dict[str, Fault]:
    """What is wrong with results, for each file with which something is: the first thing that was found.

    Args:
        is_strict: whether a cast to float32 is a fault, too, where its value cannot be shown to be floating, and
            whether it counts what a result does where a package is missing.
    """
    found: dict[str, Fault] = {}
    sides = _Sides(changes, project, is_strict)
    if not sides.are_readable:
        found = {each.name: _UNREAD for each in changes if not is_readable(each)}
        sides = _Sides([each for each in changes if each.name not in found], project, is_strict)
    for name, fault in sides.faults():
        found.setdefault(name, fault)
    return found


def is_readable(change: Change) -> bool:
    """Whether this Python reads both texts: a newer one may have more syntax."""
    try:
        for text in (change.before, change.after):
            compile(text, change.name, "exec", dont_inherit=True, flags=ast.PyCF_ONLY_AST)
    except (SyntaxError, ValueError):
        return False
    return True


class _Sides:
    """Both sides of all changes, on every machine that makes a difference to them."""

    def __init__(self, changes: Sequence[Change], project: Project, is_strict: bool) -> None:
        self._is_strict = is_strict
        self._names = tuple(each.name for each in changes)
        self._repairs = frozenset(each.name for each in changes if each.is_repair)
        self._texts = tuple({e.name: e.after if side else e.before for e in changes} for side in (False, True))
        self._project = project
        self._compared: dict[Hashable, tuple[dict[str, Difference], _Switches, _Switches]] = {}
        self._programs: dict[tuple[int, frozenset[str], tuple[str, ...]], Program] = {}

    @property
    def are_readable(self) -> bool:
        """Whether this Python reads all files."""
        try:
            return all(each.files.keys() == set(self._names) for each in self._both(_ALL))
        except (SyntaxError, ValueError):
            return False

    def faults(self) -> Iterator[tuple[str, Fault]]:
        """All faults, those that the others follow from first."""
        if self._differences(*self._both(_ALL)):
            self._choose_natively()
        before, after = self._both(_ALL)
        yield from self._erased(before, after)
        for name in self._names:
            lacking = unbound(before, after, name)
            if lacking is not None:
                yield name, Fault(f"the result uses `{lacking.name}` where it may have no value", 0, lacking.line)
            wrong = wrong_call(before, after, name, self._project.torch)
            if wrong is not None:
                yield name, Fault(f"the result cannot run: {wrong[0]}", 0, wrong[1])
        found = disorders(after)
        known = disorders(before) if any(found.values()) else {}
        for name in self._names if known else ():
            disorder = new_disorder(known[name], found[name])
            if disorder is not None:
                yield name, Fault(f"on some way, {disorder.what}", 0, disorder.line, is_disorder=True)

    def _choose_natively(self) -> None:
        """Compare with the original where native AMP is chosen for Apex, if that is what the result is."""
        original = self._texts
        chosen = chosen_natively(original[0])
        for texts in () if chosen is None else ((chosen, original[1]), original):
            self._texts = texts
            self._programs.clear()
            self._compared.clear()
            if not self._differences(*self._both(_ALL)):
                return

    def _differences(self, before: Program, after: Program) -> dict[str, Difference]:
        key = (before.code, after.code)
        if key not in self._compared:
            found = differences(before, after, shows_casts=self._is_strict)
            found = {name: each for name, each in found.items() if name not in self._repairs}
            self._compared[key] = found, dict(before.switches), dict(after.switches)
        found, *switches = self._compared[key]
        for program, each in zip((before, after), switches, strict=True):
            program.switches.update(each)
        return found

    def _program(self, side: int, packages: frozenset[str], names: tuple[str, ...]) -> Program:
        """Some files of one side on one machine."""
        key = (side, packages, names)
        if key not in self._programs:
            installed = Installed(packages, self._project.torch)
            texts = {name: self._texts[side][name] for name in names}
            self._programs[key] = Program(texts, installed, self._project.locate, self._project.others)
        return self._programs[key]

    def _both(self, packages: frozenset[str]) -> tuple[Program, Program]:
        return self._program(0, packages, self._names), self._program(1, packages, self._names)

    def _erased(self, before: Program, after: Program) -> Iterator[tuple[str, Fault]]:
        """Files in which another program is left when the precision is taken out, on any machine that counts."""
        for name, each in self._differences(before, after).items():
            yield name, _other_program(each)
        if not self._is_strict:
            return
        # What is installed changes only files that ask for it; where that is another program, all files are looked at.
        asking = tuple(name for name in self._names if before.files[name].decides or after.files[name].decides)
        consulted = before.consulted | after.consulted
        for missing in _some(consulted):
            if dict(self._without(missing, asking)):
                yield from self._without(missing, self._names)
        if consulted:
            yield from self._with_nothing(asking)

    def _with_nothing(self, names: tuple[str, ...]) -> Iterator[tuple[str, Fault]]:
        """Files that end with an error, or claim to have Apex, where the original does not."""
        before, after = (self._program(side, frozenset(), names) for side in (0, 1))
        for name, file in after.files.items():
            new = file.needs - before.files[name].needs
            if new and "" not in before.files[name].needs:
                place = min(new).lstrip(".") or "it"
                yield name, Fault(f"{place} needs amp_shim in the result, where the original runs without Apex")
        before.beside(after)
        # Nobody reads what a file says that ends before anyone can.
        ended = {name for name in names if _ends(self._program(0, _ALL, names), before, name)}
        claimed, known = self._program(0, _ALL, names).flags, before.flags
        for (name, flag), value in after.flags.items():
            was, is_now = known.get((name, flag)), claimed.get((name, flag))
            is_for_others = self._project.others.mentions(flag) or self._both(_ALL)[1].uses(flag) < 2
            if value is is_now and was is not None and was is not value and is_for_others and name not in ended:
                yield name, Fault(f"`{flag}` no longer tells whether Apex is installed")

    def _without(self, missing: frozenset[str], names: tuple[str, ...]) -> Iterator[tuple[str, Fault]]:
        """Files that do otherwise than the original where some packages are not installed."""
        where = f" where {' and '.join(sorted(missing))} is not installed"
        after = self._program(1, _TODAY - missing, names)
        with_apex = self._program(0, (_TODAY - missing) | {APEX}, names)
        wrong = self._differences(with_apex, after)
        # Without Apex, the result may do what the original does with it, or without. What Apex has no more is what the
        # shim stands for: without the shim, the result may do what the original does without Apex.
        if wrong and (APEX in missing or (SHIM in missing and not after.asks_for_living)):
            as_without = self._differences(self._program(0, _TODAY - missing - {APEX}, names), after)
            wrong = {name: each for name, each in wrong.items() if name in as_without}
        for name, each in wrong.items():
            yield name, _other_program(each, where)
        complete = [self._program(side, _ALL, names) for side in (0, 1)]
        if not all(each.switches for each in complete):
            self._differences(complete[0], complete[1])  # fills them
        for name, switches in after.switches.items():
            if switches != complete[1].switches[name] and complete[0].switches[name] != switches:
                yield name, Fault(f"the result decides otherwise whether it is in mixed precision{where}")


def _some(packages: set[str]) -> Iterator[frozenset[str]]:
    for number in range(1, len(packages) + 1):
        yield from map(frozenset, combinations(sorted(packages), number))


def _ends(complete: Program, lacking: Program, name: str) -> bool:
    """Whether a file that misses packages ends with an error, by using at once what they would have brought."""
    lost = complete.files[name].scopes.module.names - lacking.files[name].scopes.module.names
    used = (each for node in lacking.files[name].tree.body for head in heads(node) for each in nodes_in(head))
    return any(isinstance(each, ast.Name) and each.id in lost for each in used)


def _other_program(difference: Difference, where: str = "") -> Fault:
    before, after = (f"`{code}`" if code else "nothing" for code in (difference.before, difference.after))
    message = f"the result is another program{where}: {after} stands where the original has {before}"
    return Fault(message, difference.line_before, difference.line_after)
