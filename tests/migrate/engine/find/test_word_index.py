"""Searching a project for many words reads most files only once, and finds what it would find without an index."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from amp_migrate.engine import workspace as workspace_module
from amp_migrate.engine.find.prefilter import Bytes
from amp_migrate.engine.find.word_index import WordIndex
from amp_migrate.engine.source import Source
from amp_migrate.engine.workspace import Workspace


def searched(index: WordIndex, times: int) -> WordIndex:
    for _ in range(times):
        index.begin_search()
    return index


def test_a_word_that_is_there_is_never_ruled_out() -> None:
    index = searched(WordIndex(), 8)
    words = [f"name_{number}".encode() for number in range(2000)] + ["\u00e9t\u00e9".encode(), b"x", b"_"]
    index.learn("a.py", b" + ".join(words))
    assert not any(index.rules_out("a.py", [word]) for word in words)


@pytest.mark.parametrize("words", [500, 20_000])
def test_most_words_that_are_not_there_are_ruled_out(words: int) -> None:
    index = searched(WordIndex(), 8)
    index.learn("a.py", b" ".join(f"name_{number}".encode() for number in range(words)))
    kept = [number for number in range(1000) if not index.rules_out("a.py", [f"other_{number}".encode()])]
    assert len(kept) < 120
    assert index.rules_out("a.py", [b"name_1", b"other_1"])


def test_a_file_that_is_not_known_is_never_ruled_out() -> None:
    assert not searched(WordIndex(), 8).rules_out("a.py", [b"x"])


def test_a_few_searches_are_not_worth_an_index() -> None:
    index = searched(WordIndex(), 7)
    index.learn("a.py", b"x")
    assert not index.rules_out("a.py", [b"y"])


def test_a_project_is_not_read_again_for_every_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        (tmp_path / f"f{number}.py").write_text(f"def function_{number}(): return helper_{number + 1}\n")
    workspace = Workspace.open([tmp_path])
    reads: list[Path] = []
    read = workspace_module._read

    def counted(path: Path, wanted: Callable[[Bytes], bool]) -> tuple[bytes, Source] | None:
        reads.append(path)
        return read(path, wanted)

    monkeypatch.setattr(workspace_module, "_read", counted)
    for number in range(20):
        found = [source.path.name for source in workspace.mentioning(f"function_{number}")]
        assert found == [f"f{number}.py"]
    assert len(reads) < 8 * 20 + 40  # without an index: 400


def test_a_text_in_memory_is_searched_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("old = 1\n")
    workspace = Workspace.open([tmp_path])
    for _ in range(10):
        list(workspace.mentioning("old"))
    source = next(workspace.mentioning("old"))
    changed = workspace.with_texts([source.with_text("new = 1\n")])
    assert len(list(changed.mentioning("new"))) == 1
    assert list(changed.mentioning("old")) == []
