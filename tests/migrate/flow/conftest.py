"""Texts that are analysed, and answers about what stands in them."""

from __future__ import annotations

import ast
from collections.abc import Callable
from textwrap import dedent

import pytest
from amp_migrate.flow.analysis import Analysis
from amp_migrate.flow.domain.atoms import Value, join_all
from amp_migrate.flow.events import Act, Event
from amp_migrate.flow.source import Module, Site, read_module

from .moved_texts import WRITTEN

HEAD = "import torch\nimport torch.nn.functional as F\nfrom torch import nn, optim\n"


class Texts:
    """Files by name, imports resolved as from one folder."""

    def __init__(self, texts: dict[str, str]) -> None:
        self.texts = texts

    def text(self, file: str) -> str | None:
        """The text of a file."""
        return self.texts.get(file)

    def module(self, file: str) -> Module | None:
        """A file, parsed."""
        text = self.text(file)
        return None if text is None else read_module(file, text)

    def note_run(self, statements: int) -> None:
        """Nobody asks."""

    def locate(self, dotted: str, importer: str) -> str | None:
        """The file of an import."""
        name = dotted.lstrip(".").replace(".", "/")
        folder = importer.rpartition("/")[0] if dotted.startswith(".") else ""
        stem = "/".join(filter(None, (folder, name)))
        return next((each for each in (f"{stem}/__init__.py", f"{stem}.py") if each.lstrip("/") in self.texts), None)

    without_packages = None

    def is_installed(self, file: str) -> bool:
        """There are no packages."""
        return False

    def shown(self, file: str) -> str:
        """It."""
        return file


class Told:
    """What an analysis says of one text."""

    def __init__(self, analysis: Analysis, file: str) -> None:
        self.analysis = analysis
        self.file = file

    def value(self, name: str) -> Value:
        """What a variable, or an attribute written `self.x`, is given in the text, over all places together."""
        found = [
            value
            for node, value in self.analysis.values.items()
            if isinstance(node, (ast.Name, ast.Attribute))
            and isinstance(node.ctx, ast.Store)
            and ast.unparse(node) == name
        ]
        return join_all(found)

    def events(self, *acts: Act) -> list[Event]:
        """What happens of some kinds, in the order of the text."""
        found = [each for each in self.analysis.events.values() if each.act in acts and each.site.file == self.file]
        return sorted(found, key=lambda each: each.site)

    def lines(self, *acts: Act) -> list[int]:
        """The lines of the text, counted behind its head, where something of a kind happens."""
        return sorted({self.line(each.site) for each in self.events(*acts)})

    def line(self, site: Site) -> int:
        """The line of a place, counted behind the head, without those that were written into the text."""
        text = self.analysis.files.text(self.file) or ""
        return sum(not line.endswith(WRITTEN) for line in text.splitlines()[HEAD.count("\n") : site.line])


@pytest.fixture
def told() -> Callable[..., Told]:
    """Analyse a text, with other files beside it."""

    def analyse(text: str, **others: str) -> Told:
        texts = {"train.py": HEAD + dedent(text).removeprefix("\n")}
        texts |= {f"{name}.py": dedent(each).removeprefix("\n") for name, each in others.items()}
        compile(texts["train.py"], "train.py", "exec")
        return Told(Analysis(Texts(texts), list(texts)).run(), "train.py")

    return analyse
