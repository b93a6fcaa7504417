"""Programs to check, without files and without a project around them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from textwrap import dedent
from typing import TypeAlias

import pytest
from amp_migrate.prove.check import Change, Fault, Project, faults
from amp_migrate.prove.code.program import Others

Texts: TypeAlias = "str | Mapping[str, str]"
Check: TypeAlias = "Callable[[Texts, Texts], str]"


def _files(texts: Texts) -> dict[str, str]:
    named = {"train.py": texts} if isinstance(texts, str) else texts
    return {name: dedent(text) for name, text in named.items()}


def found(before: Texts, after: Texts) -> dict[str, Fault]:
    """The faults of files that stand in one folder, by name; where they are one text, it is `train.py`."""
    old, new = _files(before), _files(after)

    def locate(dotted: str, importer: str) -> str | None:
        name = f"{dotted.lstrip('.')}.py"
        return name if name in old else None

    def text(dotted: str, importer: str) -> str | None:
        return None

    project = Project(locate, Others(text, lambda word: False), ((2, 6), (2, 15)))
    return faults([Change(name, old[name], new[name]) for name in old], project)


@pytest.fixture
def wrong() -> Check:
    """What is wrong with results, in words; empty where nothing is."""

    def check(before: Texts, after: Texts) -> str:
        return "; ".join(each.message for each in found(before, after).values())

    return check
