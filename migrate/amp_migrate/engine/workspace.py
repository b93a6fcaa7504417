"""The files of a run, read when they are asked for; of what was read last, a little is kept."""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from amp_migrate.engine.find import prefilter
from amp_migrate.engine.find.discover import Discovery, FoundFile, discover
from amp_migrate.engine.find.projects import Projects
from amp_migrate.engine.find.selection import Selection
from amp_migrate.engine.find.word_index import WordIndex
from amp_migrate.engine.imports import resolve_import
from amp_migrate.engine.imports.imports_of_text import imported_modules
from amp_migrate.engine.notebooks import notebook
from amp_migrate.engine.notebooks.installs import names_of
from amp_migrate.engine.parts.work import Work, count, count_lines
from amp_migrate.engine.problems import in_the_file, os_error, unreadable
from amp_migrate.engine.source import LatestRead, Source, SourceError, display_name, keep_latest
from amp_migrate.engine.texts.parse import parse, parses
from amp_migrate.flow.source import Module, read_module
from amp_migrate.frozen import frozen
from amp_migrate.pragmas import read_pragmas
from amp_migrate.report.finding import Finding

if TYPE_CHECKING:
    import libcst

# A file of this size is data in the shape of a program; its tree would take gigabytes.
MAX_BYTES = 4 * 2**20
MAX_NOTEBOOK_BYTES = 64 * 2**20  # most of a notebook is pictures
_READ_BYTES = 1536 * 2**10
# Of so much text, Python's own trees take about 80 MiB. A copy of a large library is asked for again by each script.
_PARSED_BYTES = 3 * 2**20
_T = TypeVar("_T")
_RELATIVE = re.compile(r"^[ \t]*from[ \t]*\.", re.MULTILINE)


@frozen
class Learned:
    """What was found out about the files on the disk, for all workspaces that are made of one.

    Attributes:
        index: their words.
        looked_at: those that are known to parse, or told of.
        imports: the modules that they may name in their imports.
        scripts: whether they can be run by their paths.
        modules: those that the analysis of values has parsed last.
        read: those that were wanted last, with the bytes that were searched: one is often asked for many names in turn.
    """

    index: WordIndex = field(default_factory=WordIndex)
    looked_at: set[str] = field(default_factory=set)
    imports: dict[str, tuple[str, ...]] = field(default_factory=dict)
    scripts: dict[str, bool] = field(default_factory=dict)
    modules: dict[Source, Module | None] = field(default_factory=dict)
    read: LatestRead = field(default_factory=lambda: LatestRead(_READ_BYTES))


class Workspace:
    """The Python files that a plan is made for.

    Files are read on demand. What cannot be read or parsed is left out of every answer and told in `problems`.
    """

    def __init__(
        self,
        discovery: Discovery,
        texts: Mapping[str, Source] | None = None,
        focus: frozenset[str] | None = None,
        projects: Projects | None = None,
        learned: Learned | None = None,
    ) -> None:
        self._discovery = discovery
        self._by_real = {found.real: found for found in discovery.files}
        self._reals = {found.path: found.real for found in discovery.files}
        self._texts = dict(texts or {})
        self._focus = focus
        self._projects = projects or Projects(tuple(self._by_real), discovery.roots, self._imports_of)
        self._problems = {finding.path: finding for finding in discovery.problems}
        self._learned = learned or Learned()
        self._installs: dict[Path, frozenset[str]] = {}

    @classmethod
    def open(cls, paths: Sequence[Path], scope: Selection | None = None) -> Workspace:
        """The files of `paths` and below them, as far as `scope` takes them."""
        return cls(discover(paths, scope))

    @classmethod
    def of_text(cls, source: Source) -> Workspace:
        """One file that is held in memory and need not exist on disk."""
        real = os.path.realpath(source.path)
        return cls(Discovery((FoundFile(source.path, real, named=True),), (os.path.dirname(real),), ()), {real: source})

    def focused(self, paths: Iterable[Path]) -> Workspace:
        """This workspace with only `paths` as candidates; all of its files still answer every other question."""
        focus = frozenset(map(self._real, paths))
        return Workspace(replace(self._discovery, problems=()), self._texts, focus, self._projects, self._learned)

    def seeing(self, files: Iterable[FoundFile], roots: Iterable[str]) -> Workspace:
        """This workspace with `files` to answer questions as well, which are no candidates.

        Args:
            roots: more folders that modules may be imported from.
        """
        known = {**{found.real: found for found in files}, **self._by_real}
        in_order = sorted(known.values(), key=lambda found: found.path.as_posix())
        all_roots = dict.fromkeys((*self._discovery.roots, *roots))
        discovery = replace(self._discovery, files=tuple(in_order), roots=tuple(all_roots))
        return Workspace(discovery, self._texts, frozenset(self._by_real))

    def settle_projects(self) -> None:
        """Find out the projects now, so that no process that begins later has to do it for itself."""
        for found in self._discovery.files[:1]:
            self._projects.of(found.real)

    def by_project(self) -> Iterator[Workspace]:
        """This workspace in its projects, as far as there are candidates: each sees no file of another."""
        found: dict[frozenset[str], list[str]] = {}
        for source in self.candidates():
            real = self._real(source.path)
            found.setdefault(self._projects.of(real), []).append(real)
        for files, candidates in found.items():
            discovery = Discovery(
                tuple(each for each in self._discovery.files if each.real in files), self._discovery.roots, ()
            )
            project = Workspace(discovery, self._texts, frozenset(candidates), self._projects, self._learned)
            project._problems = self._problems
            yield project

    def with_texts(self, sources: Iterable[Source]) -> Workspace:
        """This workspace with `sources` in the place of what the disk holds."""
        texts = {**self._texts, **{os.path.realpath(source.path): source for source in sources}}
        return Workspace(replace(self._discovery, problems=()), texts, self._focus, self._projects, self._learned)

    @property
    def files(self) -> tuple[Path, ...]:
        """All files, sorted by name, each once."""
        return tuple(found.path for found in self._discovery.files)

    @property
    def ignored(self) -> tuple[int, int]:
        """How many files and folders were passed over because git ignores them."""
        return self._discovery.ignored

    @property
    def problems(self) -> tuple[Finding, ...]:
        """What could not be found, read or parsed so far, in order of place."""
        return tuple(sorted(self._problems.values()))

    def file(self, path: Path) -> Source | None:
        """One file of this workspace; None where it is not among them or cannot be read."""
        found = self._by_real.get(self._real(path))
        return None if found is None else next(self._reading([found], lambda *_: True), None)

    def candidates(self) -> Iterator[Source]:
        """The files that may hold something to migrate and do not ask to be skipped, in order of name."""
        matter: set[str] = set()

        def wanted(real: str, data: prefilter.Bytes) -> bool:
            if prefilter.may_matter(data):
                matter.add(real)
                return True
            return not isinstance(data, mmap.mmap) and self._is_to_parse(real, b"torch" in data)

        for source in self._reading(self._focused, wanted):
            real = self._real(source.path)
            if read_pragmas(source.text).skips_file:
                continue
            written = source.written if isinstance(source, notebook.NotebookSource) else ()
            if real in matter and any(map(prefilter.holds_code, (source.text, *(each.text for each in written)))):
                yield source
            elif self._is_to_parse(real, "torch" in source.text):
                self._learned.looked_at.add(real)
                if not parses(source):
                    self.parse(source)

    def writing_notebooks(self) -> Iterator[notebook.NotebookSource]:
        """The notebooks among the candidates that write scripts from their cells."""
        files = [found for found in self._focused if found.path.suffix == notebook.SUFFIX]
        for source in self._reading(files, lambda _, data: data.find(b"%%") >= 0 and prefilter.may_matter(data)):
            is_taken = not read_pragmas(source.text).skips_file
            if isinstance(source, notebook.NotebookSource) and source.written and is_taken:
                yield source

    @property
    def _focused(self) -> Sequence[FoundFile]:
        files = [found for found in self._discovery.files if not found.is_apex]
        return files if self._focus is None else [found for found in files if found.real in self._focus]

    def _is_to_parse(self, real: str, about_torch: bool) -> bool:
        """Whether a file that holds nothing to migrate is to be looked at once, lest it only seem so.

        Those are files that were named, and those that have to do with PyTorch. Parsing all Python files of a large
        tree would take ten times as long as reading them.
        """
        return (about_torch or self._by_real[real].named) and real not in self._learned.looked_at

    def mentioning(self, *identifiers: str, among: Callable[[str], bool] | None = None) -> Iterator[Source]:
        """The files in which all `identifiers` stand as words, comments and strings included, in order of name.

        Args:
            among: says of a file's name whether it is to be read at all.
        """
        self._learned.index.begin_search()
        files = (each for each in self._discovery.files if among is None or among(display_name(each.path)))
        return self._mentioning(files, [each.encode() for each in identifiers])

    def _mentioning(self, files: Iterable[FoundFile], words: list[bytes]) -> Iterator[Source]:
        index = self._learned.index

        def wanted(real: str, data: prefilter.Bytes) -> bool:
            if real not in self._texts:
                index.learn(real, data)
            return all(prefilter.has_word(data, word) for word in words)

        wanting = (each for each in files if each.real in self._texts or not index.rules_out(each.real, words))
        return self._reading(wanting, wanted)

    def may_mention(self, *identifiers: str) -> Iterator[Path]:
        """The files in which all `identifiers` may stand as words, in order of name; no known one is read again."""
        index, words = self._learned.index, [each.encode() for each in identifiers]
        index.begin_search()
        for found in self._discovery.files:
            if found.real in self._texts or not index.knows(found.real):
                yield from (each.path for each in self._mentioning([found], words))
            elif not index.rules_out(found.real, words):
                yield found.path

    def may_hold_one(self, path: Path, words: Iterable[str]) -> bool:
        """Whether one of some words may stand in a file, as far as is known without reading it."""
        real, index = self._real(path), self._learned.index
        return real in self._texts or not all(index.rules_out(real, [each.encode()]) for each in words)

    def locate(self, dotted: str, importer: Path) -> Path | None:
        """The file of this workspace that `import dotted` (`.engine` if relative) in `importer` would load; unread."""
        return None if self.installs(dotted, importer) else self.beside(dotted, importer)

    def beside(self, dotted: str, importer: Path) -> Path | None:
        """The same, where nothing were installed by the importer itself."""
        at = self._real(importer)
        is_script = partial(self._may_be_script, importer)
        real = resolve_import.resolve(dotted, at, self._by_real, self._discovery.roots, is_script)
        real = real or self._projects.elsewhere(dotted, at)
        return self._by_real[real].path if real in self._by_real else None

    def _may_be_script(self, importer: Path) -> bool:
        """Whether a file can be run by its path: one that imports relatively is loaded as a part of its package."""
        return self._of_text(importer, self._learned.scripts, lambda text: _RELATIVE.search(text) is None, True)

    def imported(self, path: Path) -> tuple[str, ...]:
        """The modules that a file may name in its imports; none where it cannot be read."""
        return self._of_text(path, self._learned.imports, imported_modules, ())

    def _of_text(self, path: Path, known: dict[str, _T], ask: Callable[[str], _T], unread: _T) -> _T:
        """What a question to the text of a file gives: for what is on the disk, it is asked once."""
        real = self._real(path)
        if real in self._texts:
            return ask(self._texts[real].text)
        if real not in known:
            source = self.file(path)
            known[real] = unread if source is None else ask(source.text)
        return known[real]

    def installs(self, dotted: str, importer: Path) -> bool:
        """Whether a notebook installs a package by itself, whose released version it then imports.

        What stands beside it in this workspace is another version, and may change without it.
        """
        if importer.suffix != notebook.SUFFIX:
            return False
        if importer not in self._installs:
            source = self.file(importer)
            self._installs[importer] = source.installs if isinstance(source, notebook.NotebookSource) else frozenset()
        installed = self._installs[importer]
        return bool(installed) and not installed.isdisjoint(names_of(dotted.partition(".")[0], importer.parent))

    def sees_folder_of(self, source: Source) -> bool:
        """Whether all Python files that stand beside a file are in this workspace."""
        folder = os.path.dirname(self._real(source.path))
        if self._real(source.path) in self._texts or not os.path.isdir(folder):
            return True
        return all(os.path.join(folder, each) in self._by_real for each in os.listdir(folder) if each.endswith(".py"))

    def may_run_together(self, one: Source, other: Source) -> bool:
        """Whether two files may be of one script: they stand in one folder, or some file loads both."""
        return self._projects.may_run_together(self._real(one.path), self._real(other.path))

    def text_not_given(self, dotted: str, importer: Path) -> str | None:
        """The text of what `import dotted` in a file would load, if that is on the disk and not in this workspace."""
        at, is_script = self._real(importer), partial(self._may_be_script, importer)
        real = resolve_import.resolve(dotted, at, OnDisk(), self._discovery.roots, is_script)
        if real is None or real in self._by_real:
            return None
        try:
            return Path(real).read_text(errors="replace")
        except OSError:
            return None

    def parse(self, source: Source) -> libcst.Module | None:
        """The tree of a file; None, and a problem told, where it does not parse."""
        try:
            return parse(source)
        except SourceError as error:
            finding = in_the_file(source, unreadable(source.name, error))
            self._problems.setdefault(source.name, finding)
            return None

    def module(self, source: Source) -> Module | None:
        """A file as the analysis of values sees it, parsed once for all that look at it one after the other."""
        known = self._learned.modules
        if source in known:
            known[source] = known.pop(source)
            return known[source]
        count_lines(Work.AST, source.text)
        found = read_module(source.name, source.text)
        known[source] = found
        keep_latest(known, _PARSED_BYTES)
        return found

    def _real(self, path: Path) -> str:
        return self._reals.get(path) or os.path.realpath(path)

    def _imports_of(self, real: str) -> str:
        """What a file imports, as far as its bytes can be read as text at all."""
        return self._texts[real].text if real in self._texts else text_of_imports(self._by_real[real].path)

    def _reading(self, files: Iterable[FoundFile], wanted: Callable[[str, prefilter.Bytes], bool]) -> Iterator[Source]:
        for found in files:
            if found.real in self._texts:
                source = self._texts[found.real]
                if wanted(found.real, source.text.encode("utf-8", "surrogatepass")):
                    yield source
                continue
            try:
                read = self._read(found, partial(wanted, found.real))
                if read is not None:
                    yield read
            except SourceError as error:
                name = display_name(found.path)
                self._problems.setdefault(name, unreadable(name, error))

    def _read(self, found: FoundFile, wanted: Callable[[prefilter.Bytes], bool]) -> Source | None:
        known = self._learned.read.get(found.real)
        if known is not None:
            words, source = known
            return source if wanted(words) else None
        read = _read(found.path, wanted)
        if read is None:
            return None
        self._learned.read.keep(found.real, *read)
        return read[1]


def text_of_imports(path: Path) -> str:
    """A text in which a file's imports stand on lines of their own; empty where it cannot be read."""
    try:
        if path.stat().st_size > MAX_NOTEBOOK_BYTES:
            return ""
        text = path.read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""
    # In a notebook, each line of code is a string of its own.
    return text.replace('"', "\n") if path.suffix == notebook.SUFFIX else text


class OnDisk:
    """All files that there are."""

    def __contains__(self, path: object) -> bool:
        return isinstance(path, str) and os.path.isfile(path)


def _read(path: Path, wanted: Callable[[prefilter.Bytes], bool]) -> tuple[bytes, Source] | None:
    """A file whose bytes are wanted, with what was searched of it; None for the others, which are not even decoded."""
    is_notebook = path.suffix == notebook.SUFFIX
    limit = MAX_NOTEBOOK_BYTES if is_notebook else MAX_BYTES
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size <= limit:
                data = file.read()
                count(Work.READ)
                count(Work.BYTES, len(data))
                # In JSON, the `n` of an escaped line end would run into the word that follows it.
                words = data.replace(rb"\n", b"\n") if is_notebook else data
                return (words, notebook.read_source(data, path)) if wanted(words) else None
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
                if not wanted(view):
                    return None
    except OSError as error:
        raise os_error(error) from None
    raise SourceError(f"{size / 2**20:.1f} MiB is too large to be a program: the limit is {limit / 2**20:g} MiB")
