"""What low precision does to results, for as long as the files that it was found in stay what they are."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, TypeAlias

from amp_migrate.engine.find.packages import Packages
from amp_migrate.engine.results.flow_files import FlowFiles
from amp_migrate.engine.workspace import Workspace
from amp_migrate.flow.programs import InRegions, Programs
from amp_migrate.flow.source import Site
from amp_migrate.frozen import frozen
from amp_migrate.prove.precision import Found, Harm, Measured, Original, Result, harms
from amp_migrate.tables.signatures import Version, Versions

# What results came to, by the oldest PyTorch and the scripts, each with the texts that it hangs on.
Looked: TypeAlias = "dict[tuple[Version, tuple[str, ...]], list[tuple[Mapping[str, str | None], Found]]]"


@frozen
class Results:
    """What would be written.

    Attributes:
        workspace: all files, as they would be.
        measured: lines of them that were measured in the originals.
        with_amp: the files with autocast or a scaler in them already.
        packages: the versions that are asked for, as settings have them.
    """

    workspace: Workspace
    measured: Measured
    with_amp: Collection[str]
    packages: Mapping[str, Versions]


@frozen
class Needless:
    """The casts of results that give what they are given, as far as scripts show it that were looked at.

    Attributes:
        casts: where they stand.
        looked: the names of the scripts. What another brings, if it comes there, was not seen.
    """

    casts: frozenset[Site] = frozenset()
    looked: frozenset[str] = frozenset()


class Examined:
    """What was found so far.

    Args:
        in_regions: what is known of the originals in regions, by name; new ones are added.
        workers: how many processes may look at once.
        looked: what results came to in other plans of the same files.
        packages: what is installed where the code runs.

    Attributes:
        programs: those of the originals.
        looked: what results came to, in these plans as well.
    """

    def __init__(
        self,
        workspace: Workspace,
        torch: Version,
        in_regions: InRegions | None = None,
        workers: int = 1,
        looked: Looked | None = None,
        packages: Packages | None = None,
    ) -> None:
        self._workspace, self._torch, self._workers = workspace, torch, workers
        self._packages = packages or Packages()
        self._too_large: set[tuple[str, ...]] = set()
        self.programs = Programs(in_regions)
        self._before: dict[tuple[str, ...], Original] = {}
        self.looked: Looked = {each: [*known] for each, known in (looked or {}).items()}

    def harms(self, results: Results, *scripts: str) -> list[Harm]:
        """What is wrong with the result of a script, and was not with the original.

        A later plan may come back to what an earlier one had: other scripts are what it is made for.

        Args:
            scripts: the script; behind it, files of which it makes what their functions get, called or not.
        """
        found = self._known(scripts, results)
        if found is None:
            found, texts = self._look(results, scripts)()
            self._note(scripts, found, texts)
        return harms(self._original(scripts, results), found)

    def needless(self, results: Results, looked: Collection[tuple[str, ...]]) -> Needless:
        """The casts in results that are needless to all who come to them of those that were looked at."""
        found = [each for scripts in looked if (each := self._known(scripts, results)) is not None]
        if len(found) < len(looked):  # a look that fails has shown nothing
            return Needless()
        needless = frozenset().union(*(each.casts.needless for each in found))
        needed = frozenset().union(*(each.casts.needed for each in found))
        return Needless(needless - needed, frozenset(chain.from_iterable(looked)))

    def look_at_once(self, results: Results, several: Iterable[tuple[str, ...]]) -> Mapping[tuple[str, ...], Found]:
        """Look at the results of several scripts at once, for who asks for their harms behind it: what each comes to.

        What fails is not among it, and fails again for who asks. Nothing is looked at, unless by several processes.
        """
        if self._workers < 2:
            return {}
        known = {each: self._known(each, results) for each in several}
        looks = {each: self._look(results, each) for each, found in known.items() if found is None}
        # What they have read before is parsed once for all of them, rather than once by each.
        before = (last.read for each in looks for _, last in self._of(each)[-1:])
        for file in dict.fromkeys(chain.from_iterable(map(sorted, before))):
            FlowFiles(results.workspace, self._packages).module(file)
        # Where something is wrong, the original is looked at, too: at the same time, if there is nothing else to do.
        is_free = len(results.with_amp) > 0 and 2 * len(looks) <= self._workers
        self._answer([*looks.values()], [self._original(each, results) for each in looks if is_free])
        found = {each: answer for each in known if (answer := self._known(each, results)) is not None}
        originals = ((self._original(each, results), answer) for each, answer in found.items())
        self._answer((), [original for original, answer in originals if original.is_asked_by(answer)])
        return found

    def _answer(self, looks: Sequence[_Look], originals: Iterable[Original]) -> None:
        unknown = [each for each in originals if "answer" not in vars(each)]
        questions: list[Callable[[], Any]] = [*looks, *(partial(getattr, each, "answer") for each in unknown)]
        if len(questions) < 2:
            return
        from amp_migrate.engine.parts.at_once import at_once  # a single script never needs it

        answers = at_once(questions, self._workers)
        for look, found in zip(looks, answers, strict=False):
            if found is not None:
                answer, texts = found
                self._note(look.scripts, answer, texts)
        for original, found in zip(unknown, answers[len(looks) :], strict=True):
            if found is not None:
                original.answer = found

    def _look(self, results: Results, scripts: tuple[str, ...]) -> _Look:
        packages = Packages() if scripts in self._too_large else self._packages
        return _Look(results, scripts, self._torch, packages)

    def _note(self, scripts: tuple[str, ...], found: Found, texts: Mapping[str, str | None]) -> None:
        """Note what a result came to: one that is too large with its packages is not looked at with them again."""
        self._of(scripts).append((texts, found))
        if not found.has_packages:
            self._too_large.add(scripts)

    def _of(self, scripts: tuple[str, ...]) -> list[tuple[Mapping[str, str | None], Found]]:
        return self.looked.setdefault((self._torch, scripts), [])

    def _known(self, scripts: tuple[str, ...], results: Results) -> Found | None:
        files = FlowFiles(results.workspace)
        return next((each for texts, each in self._of(scripts) if files.is_like(texts)), None)

    def _original(self, scripts: tuple[str, ...], results: Results) -> Original:
        if scripts not in self._before:
            files = FlowFiles(self._workspace, self._packages)
            self._before[scripts] = Original(files, *scripts, with_amp=results.with_amp)
        return self._before[scripts]


class _Look:
    """A look at the result of a script."""

    def __init__(self, results: Results, scripts: tuple[str, ...], torch: Version, packages: Packages) -> None:
        self.scripts = scripts
        self._files = FlowFiles(results.workspace, packages)
        self._result = Result(self._files, scripts, torch, results.measured, results.packages)

    def __call__(self) -> tuple[Found, Mapping[str, str | None]]:
        """What it comes to, and the texts of the files that this hangs on."""
        return self._result.answer, self._files.texts
