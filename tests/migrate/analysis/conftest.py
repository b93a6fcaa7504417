"""Files and projects held in memory."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Container, Iterator
from textwrap import dedent

import libcst as cst
import pytest
from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import Project


class Library:
    """Files by the dotted names of their modules."""

    def __init__(self, texts: dict[str, str]) -> None:
        self.files = {name: File(name, cst.parse_module(dedent(text))) for name, text in texts.items()}

    def mentioning(self, *identifiers: str) -> Iterator[File]:
        return (file for file in self.files.values() if all(each in file.tree.module.code for each in identifiers))

    def using_own(self, identifier: str, *, is_method: bool) -> Iterator[File]:
        return self.mentioning(identifier)

    def calling(
        self, method: str, beside: re.Pattern[str], among: Callable[[str], bool] | None = None
    ) -> Iterator[File]:
        return self.mentioning(method)

    def defining(
        self,
        name: str,
        *beside: str,
        text: Callable[[str], bool] | None = None,
        idle: Container[str] | None = None,
        among: Callable[[str], bool] | None = None,
    ) -> Iterator[File]:
        return self.mentioning(name, *beside)

    def module(self, dotted_name: str, importer: File) -> File | None:
        return self.files.get(dotted_name.lstrip("."))

    def name_of_module(self, dotted_name: str, importer: File) -> str | None:
        found = self.module(dotted_name, importer)
        return None if found is None else found.name

    def text(self, dotted_name: str, importer: File) -> str | None:
        found = self.module(dotted_name, importer)
        return None if found is None else found.tree.module.code

    def brings(self, importer: File, file: File, imports: int) -> bool:
        return importer is not file

    def importing(self, file: File, words: Collection[str]) -> Iterator[str]:
        return iter(())

    def named(self, name: str) -> File | None:
        return next((file for file in self.files.values() if file.name == name), None)

    def sees_folder_of(self, file: File) -> bool:
        return True

    def may_run_together(self, one: File, other: File) -> bool:
        return True

    def text_not_given(self, dotted_name: str, importer: File) -> str | None:
        return None


@pytest.fixture
def parse() -> Callable[[str], File]:
    return lambda text: File("file.py", cst.parse_module(dedent(text)))


@pytest.fixture
def project() -> Callable[..., tuple[Project, dict[str, File]]]:
    def make(**texts: str) -> tuple[Project, dict[str, File]]:
        library = Library(texts)
        return Project(library), library.files

    return make
