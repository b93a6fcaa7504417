"""The workspace's files as the analysis asks for them: parsed once, kept while a plan is made and checked."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Container, Iterator
from functools import partial
from pathlib import Path
from typing import TypeAlias

from amp_migrate.analysis.files import File
from amp_migrate.engine.imports.import_graph import ImportGraph
from amp_migrate.engine.imports.importers import may_import
from amp_migrate.engine.imports.neighbours import Neighbours
from amp_migrate.engine.results.flow_files import FlowFiles
from amp_migrate.engine.source import Source, keep_latest
from amp_migrate.engine.texts.parse import MIXED_INDENTS, parse_to_read
from amp_migrate.engine.texts.textual_calls import calls_other, may_use
from amp_migrate.engine.workspace import Workspace
from amp_migrate.tables.signatures import Version

Parsed: TypeAlias = "dict[Source, File]"


# With their trees, so much text takes about 60 MiB.
_KEPT_BYTES = 768 * 2**10


def forget_oldest(parsed: Parsed) -> None:
    """Keep only the files that were parsed last, so that memory does not grow with what is planned one by one."""
    keep_latest(parsed, _KEPT_BYTES)
    for file in parsed.values():
        file.read_alone()


class ParsedLibrary:
    """Implements `amp_migrate.analysis.library.Library` on a workspace.

    Args:
        parsed: files that were parsed for an earlier plan, looked up by their whole text; new ones are added.
        target_torch: the oldest PyTorch that they are read for.
    """

    def __init__(self, workspace: Workspace, parsed: Parsed, target_torch: Version) -> None:
        self._workspace = workspace
        self.texts = FlowFiles(workspace)
        self._target_torch = target_torch
        self._parsed_before = parsed
        self._files: dict[Path, File | None] = {}
        self._modules: dict[Path, Source | None] = {}
        self._sources: dict[File, Source] = {}
        self._imports = ImportGraph(workspace)

    def candidates(self) -> Iterator[File]:
        """The files that may hold something to migrate."""
        return (each for each in self._parsed(self._workspace.candidates()) if not each.tree.refused)

    def mentioning(self, *identifiers: str) -> Iterator[File]:
        return self._parsed(self._workspace.mentioning(*identifiers))

    def using_own(self, identifier: str, *, is_method: bool) -> Iterator[File]:
        files = self._workspace.mentioning(identifier)
        return self._parsed(
            each
            for each in files
            if self._is_known(each)
            or may_use(each.text, identifier, is_method=is_method, is_own=partial(self._is_own, importer=each.path))
        )

    def _is_own(self, dotted: str, importer: Path) -> bool:
        """Whether `import dotted` in a file loads one of the project's, given or not."""
        workspace = self._workspace
        return workspace.locate(dotted, importer) is not None or workspace.text_not_given(dotted, importer) is not None

    def calling(
        self, method: str, beside: re.Pattern[str], among: Callable[[str], bool] | None = None
    ) -> Iterator[File]:
        files = self._matching(rf"\.[\s\\]*{method}[\s\\]*\(", method, among=among)
        return self._parsed(each for each in files if beside.search(each.text))

    def defining(
        self,
        name: str,
        *beside: str,
        text: Callable[[str], bool] | None = None,
        idle: Container[str] | None = None,
        among: Callable[[str], bool] | None = None,
    ) -> Iterator[File]:
        # Begun with a word, it is looked for at the speed of memory; `\bdef` is tried at every letter.
        files = self._matching(rf"def(?<!\wdef)[\s\\]+{name}\b", name, *beside, among=among)
        fit = (each for each in files if text is None or text(each.text))
        return self._parsed(each for each in fit if idle is None or self._calls_other(each, name, idle))

    def _calls_other(self, source: Source, name: str, idle: Container[str]) -> bool:
        """Whether the functions of that name call others: Python's own parser tells in a tenth of the time."""
        return self._is_known(source) or calls_other(source.text, name, idle)

    def _is_known(self, source: Source) -> bool:
        return source.path in self._files or source in self._parsed_before

    def _matching(
        self, pattern: str, *identifiers: str, among: Callable[[str], bool] | None = None
    ) -> Iterator[Source]:
        """The sources that contain words in a certain place: not every one that contains them is worth a parse."""
        wanted = re.compile(pattern)
        files = self._workspace.mentioning(*identifiers, among=among)
        return (each for each in files if wanted.search(each.text))

    def module(self, dotted_name: str, importer: File) -> File | None:
        found = self._module(dotted_name, importer)
        return None if found is None else self._parse(found)

    def name_of_module(self, dotted_name: str, importer: File) -> str | None:
        found = self._module(dotted_name, importer)
        return None if found is None else found.name

    def text(self, dotted_name: str, importer: File) -> str | None:
        found = self._module(dotted_name, importer)
        return None if found is None else found.text

    def _module(self, dotted_name: str, importer: File) -> Source | None:
        path = self._workspace.locate(dotted_name, self._sources[importer].path)
        if path is None:
            return None
        if path not in self._modules:
            self._modules[path] = self._workspace.file(path)
        return self._modules[path]

    def brings(self, importer: File, file: File, imports: int) -> bool:
        return self._sources[file].path in self._imports.within(self._sources[importer].path, imports)

    def importing(self, file: File, words: Collection[str]) -> Iterator[str]:
        path, workspace = self._sources[file].path, self._workspace
        wanted = re.compile(rf"\b(?:{'|'.join(map(re.escape, sorted(words)))})\b")
        for each in may_import(workspace, {path}) if words else ():
            if workspace.may_hold_one(each, words) and path in self._imports.brought(each):
                source = workspace.file(each)
                if source is not None and wanted.search(source.text):
                    yield source.name

    def named(self, name: str) -> File | None:
        source = self._workspace.file(Path(name))
        return None if source is None else self._parse(source)

    def sees_folder_of(self, file: File) -> bool:
        return self._workspace.sees_folder_of(self._sources[file])

    def may_run_together(self, one: File, other: File) -> bool:
        return self._workspace.may_run_together(self._sources[one], self._sources[other])

    def text_not_given(self, dotted_name: str, importer: File) -> str | None:
        return self._workspace.text_not_given(dotted_name, self._sources[importer].path)

    @property
    def parsed(self) -> tuple[File, ...]:
        """Every file that has been parsed so far."""
        return tuple(self._sources)

    def file_of(self, source: Source) -> File | None:
        """A file, parsed; None where it does not parse."""
        return self._parse(source)

    def source(self, file: File) -> Source:
        """What a file was parsed from."""
        return self._sources[file]

    def _parsed(self, sources: Iterator[Source]) -> Iterator[File]:
        for source in sources:
            file = self._parse(source)
            if file is not None:
                yield file

    def _read(self, source: Source) -> File | None:
        module = self._workspace.parse(source)
        if module is not None:
            return File(source.name, module, source.text, self._target_torch)
        module = parse_to_read(source)
        refused = f"its {MIXED_INDENTS}"
        return None if module is None else File(source.name, module, module.code, self._target_torch, refused)

    def _parse(self, source: Source) -> File | None:
        if source.path not in self._files:
            file = self._parsed_before.get(source)
            if file is None:
                file = self._read(source)
            if file is not None:
                self._parsed_before[source] = file
            self._files[source.path] = file
            if file is not None:
                self._sources[file] = source
                file.read_among(Neighbours(self, file))
        return self._files[source.path]
