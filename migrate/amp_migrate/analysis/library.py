"""What the analysis asks of the files of a project, however they are found."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Container, Iterator
from typing import Protocol

from amp_migrate.analysis.files import File

_TEST = re.compile(r"(^|/)test_[^/]*$|_test\.py$")


def is_unit_test(name: str) -> bool:
    """Whether a file is run as tests, by the name that pytest and unittest find it by."""
    return _TEST.search(name) is not None


class Library(Protocol):
    """The files that can be asked for; they are parsed when somebody asks."""

    def mentioning(self, *identifiers: str) -> Iterator[File]:
        """The files that contain all `identifiers` as words."""

    def using_own(self, identifier: str, *, is_method: bool) -> Iterator[File]:
        """The files that may use a function, class or method of that name which a file of the project defines.

        Those that define it, and have been parsed, among them; and none that only knows something else so called, as a
        variable or `subprocess.run`.
        """

    def calling(
        self, method: str, beside: re.Pattern[str], among: Callable[[str], bool] | None = None
    ) -> Iterator[File]:
        """The files that may call a method of that name, among those whose text matches `beside` somewhere.

        Args:
            among: says of a file's name whether it is asked about.
        """

    def defining(
        self,
        name: str,
        *beside: str,
        text: Callable[[str], bool] | None = None,
        idle: Container[str] | None = None,
        among: Callable[[str], bool] | None = None,
    ) -> Iterator[File]:
        """The files that may define a function or method of that name, contain all words `beside`, and fit `text`.

        Args:
            idle: what is called for nothing, functions as `len` and methods as `.reset`: files will do in which one of
                that name calls something else. All will, if None.
            among: says of a file's name whether it is asked about.
        """

    def module(self, dotted_name: str, importer: File) -> File | None:
        """The file that `import dotted_name` in `importer` loads; None where it is not one of the project's."""

    def name_of_module(self, dotted_name: str, importer: File) -> str | None:
        """The name of the file that `module` would give, which is not parsed for it."""

    def text(self, dotted_name: str, importer: File) -> str | None:
        """The text of the file that `module` would give, which is not parsed for it."""

    def brings(self, importer: File, file: File, imports: int) -> bool:
        """Whether a file gets another by way of at most so many imports."""

    def importing(self, file: File, words: Collection[str]) -> Iterator[str]:
        """The names of the other files that import one, be it from a package, and have one of some words."""

    def named(self, name: str) -> File | None:
        """The file of a name; None where it does not parse, or is none of these files."""

    def sees_folder_of(self, file: File) -> bool:
        """Whether all Python files that stand beside a file can be asked for."""

    def may_run_together(self, one: File, other: File) -> bool:
        """Whether two files may be of one script: they stand in one folder, or some file loads both."""

    def text_not_given(self, dotted_name: str, importer: File) -> str | None:
        """The text of what `import dotted_name` in `importer` loads, if that is on the disk and cannot be asked for."""
