"""What a workspace answers about its files."""

from __future__ import annotations

from pathlib import Path

import pytest
from amp_migrate.engine import workspace as workspace_module
from amp_migrate.engine.source import Source
from amp_migrate.engine.workspace import Workspace


def tree(root: Path, **files: str) -> Workspace:
    for name, text in files.items():
        path = root / (name.replace("__", "/").replace("//init//", "/__init__") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Workspace.open([root])


def names(root: Path, sources: object) -> list[str]:
    assert isinstance(sources, list)
    return [source.path.relative_to(root).as_posix() for source in sources]


def at(workspace: Workspace, path: Path) -> Source:
    source = workspace.file(path)
    assert source is not None
    return source


def test_candidates_are_the_files_with_a_word_that_matters(tmp_path: Path) -> None:
    workspace = tree(tmp_path, a="loss.backward()\n", b="x = 1\n", c="from apex import amp\n")
    assert names(tmp_path, list(workspace.candidates())) == ["a.py", "c.py"]


def test_mentioning_finds_call_sites_in_files_that_are_no_candidates(tmp_path: Path) -> None:
    workspace = tree(tmp_path, a="def train(): loss.backward()\n", b="from a import train\n", c="trainer = 1\n")
    assert names(tmp_path, list(workspace.mentioning("train"))) == ["a.py", "b.py"]
    assert names(tmp_path, list(workspace.mentioning("train", "loss"))) == ["a.py"]


def test_a_file_is_read_only_when_it_is_asked_for(tmp_path: Path) -> None:
    workspace = tree(tmp_path, a="amp = 1\n", b="amp = 2\n")
    candidates = workspace.candidates()
    next(candidates)
    (tmp_path / "b.py").write_text("amp = 3\n")
    assert next(candidates).text == "amp = 3\n"


def test_a_file_that_cannot_be_decoded_is_a_problem_and_the_others_go_on(tmp_path: Path) -> None:
    workspace = tree(tmp_path, a="amp = 1\n", c="amp = 3\n")
    (tmp_path / "b.py").write_bytes(b"amp = '\xff'\n")
    workspace = Workspace.open([tmp_path])
    assert names(tmp_path, list(workspace.candidates())) == ["a.py", "c.py"]
    list(workspace.mentioning("amp"))  # met a second time, told once
    assert [(problem.line, problem.message) for problem in workspace.problems] == [(1, "not UTF-8: byte 0xff")]


def test_bytes_that_are_not_wanted_are_no_problem(tmp_path: Path) -> None:
    (tmp_path / "data.py").write_bytes(b"x = '\xff'\n")
    workspace = Workspace.open([tmp_path])
    assert list(workspace.candidates()) == []
    assert workspace.problems == ()


def test_a_file_that_does_not_parse_is_a_problem_at_its_place(tmp_path: Path) -> None:
    workspace = tree(tmp_path, a="amp = (\n")
    assert workspace.parse(at(workspace, tmp_path / "a.py")) is None
    assert [(problem.line, problem.column, problem.code) for problem in workspace.problems] == [(1, 7, "AMP001")]


def problems_of(workspace: Workspace) -> list[str]:
    assert list(workspace.candidates()) == []
    return [problem.path.rpartition("/")[2] for problem in workspace.problems]


def test_a_file_about_torch_that_does_not_parse_is_a_problem_without_a_word_that_matters(tmp_path: Path) -> None:
    workspace = tree(tmp_path, a="import torch\ndef f(:\n", b="'amp'; import torch\ndef f(:\n", c="def f(:\n")
    assert problems_of(workspace) == ["a.py", "b.py"]


def test_a_file_that_was_named_and_does_not_parse_is_a_problem_whatever_is_in_it(tmp_path: Path) -> None:
    tree(tmp_path, a="def f(:\n", b="def f(:\n")
    assert problems_of(Workspace.open([tmp_path, tmp_path / "a.py"])) == ["a.py"]
    assert problems_of(Workspace.of_text(Source(tmp_path / "a.py", "a.py", "def f(:\n"))) == ["a.py"]


def test_a_file_that_asks_to_be_skipped_need_not_parse(tmp_path: Path) -> None:
    assert problems_of(tree(tmp_path, a="# amp-migrate: skip-file\nimport torch\ndef f(:\n")) == []


def test_what_holds_nothing_to_migrate_is_parsed_once_and_never_by_libcst(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[str] = []

    def parses(source: Source) -> bool:
        counted.append(source.path.name)
        return True

    monkeypatch.setattr(workspace_module, "parses", parses)
    monkeypatch.setattr(workspace_module, "parse", lambda source: pytest.fail(f"LibCST parses {source.name}"))
    workspace = tree(tmp_path, a="import torch\n", b="x = 1\n", c="'backward(torch)'\n", d="loss.backward()\n")
    for _ in range(2):
        list(workspace.candidates())
        list(workspace.focused(workspace.files).candidates())
    assert counted == ["a.py", "c.py"]


def test_a_file_of_many_megabytes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspace_module, "MAX_BYTES", 2**20)
    workspace = tree(tmp_path, a="amp = [\n" + "1,\n" * 400_000 + "]\n", b="x = [\n" + "1,\n" * 400_000 + "]\n")
    assert list(workspace.candidates()) == []
    assert [problem.message for problem in workspace.problems] == [
        "1.1 MiB is too large to be a program: the limit is 1 MiB"
    ]


@pytest.mark.parametrize(
    ("importer", "dotted", "expected"),
    [
        ("main.py", "engine", "engine.py"),
        ("main.py", "pkg", "pkg/__init__.py"),
        ("main.py", "pkg.engine", "pkg/engine.py"),
        ("main.py", "pkg.sub.deep", "pkg/sub/deep.py"),
        ("main.py", "torch", None),
        ("pkg/train.py", ".engine", "pkg/engine.py"),
        ("pkg/train.py", ".", "pkg/__init__.py"),
        ("pkg/train.py", "..engine", "engine.py"),
        ("pkg/train.py", "pkg.engine", "pkg/engine.py"),
        ("pkg/train.py", "engine", "engine.py"),
        ("pkg/train.py", "helper", "pkg/helper.py"),
        ("pkg/sub/deep.py", "..engine", "pkg/engine.py"),
        ("scripts/run.py", "engine", "scripts/engine.py"),
        ("scripts/run.py", "pkg.engine", "pkg/engine.py"),
        ("scripts/run.py", "library", "src/library.py"),
    ],
)
def test_a_module_is_the_file_that_the_import_would_load(
    tmp_path: Path, importer: str, dotted: str, expected: str | None
) -> None:
    files = """main.py engine.py pkg/__init__.py pkg/engine.py pkg/train.py pkg/helper.py pkg/sub/__init__.py
        pkg/sub/deep.py pkg.py scripts/run.py scripts/engine.py src/library.py"""
    for name in files.split():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    workspace = Workspace.open([tmp_path])
    module = workspace.locate(dotted, tmp_path / importer)
    assert (None if module is None else module.relative_to(tmp_path).as_posix()) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import _paths\n", "lib/core/steps.py"),
        ("import sys\nsys.path.insert(0, '../lib')\n", "lib/core/steps.py"),
        ("import other\n", None),  # nothing says that lib is searched
    ],
)
def test_a_module_may_stand_in_a_folder_that_a_script_puts_on_the_path(
    tmp_path: Path, text: str, expected: str | None
) -> None:
    files = {"tools/_paths.py": "import sys\nsys.path.append(lib)\n", "tools/other.py": "", "lib/core/steps.py": ""}
    for name, code in {**files, "tools/train.py": text, "far/away/core/steps.py": ""}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(code)
    module = Workspace.open([tmp_path]).locate("core.steps", tmp_path / "tools/train.py")
    assert (None if module is None else module.relative_to(tmp_path).as_posix()) == expected


def test_a_module_may_stand_in_a_folder_above_that_a_script_runs_from(tmp_path: Path) -> None:
    workspace = tree(tmp_path, lib__main="", lib__models__net="", lib__trains__deep__base="")
    module = workspace.locate("models.net", tmp_path / "lib/trains/deep/base.py")
    assert module == tmp_path / "lib/models/net.py"


def test_a_module_that_two_folders_on_the_path_may_have_is_none(tmp_path: Path) -> None:
    tree(tmp_path, train="import sys\nsys.path.append(lib)\n", one__steps="", two__steps="")
    assert Workspace.open([tmp_path]).locate("steps", tmp_path / "train.py") is None


def test_a_module_outside_of_what_was_opened_is_not_looked_at(tmp_path: Path) -> None:
    tree(tmp_path, main="import other\n", other="x = 1\n")
    workspace = Workspace.open([tmp_path / "main.py"])
    assert workspace.locate("other", tmp_path / "main.py") is None


def test_a_focus_narrows_the_candidates_and_nothing_else(tmp_path: Path) -> None:
    workspace = tree(tmp_path, a="import b\namp = 1\n", b="amp = 2\n")
    a = at(workspace, tmp_path / "a.py")
    focused = workspace.focused([a.path])
    assert list(focused.candidates()) == [a]
    assert names(tmp_path, list(focused.mentioning("amp"))) == ["a.py", "b.py"]
    assert focused.locate("b", a.path) is not None


def test_texts_in_memory_stand_before_those_on_disk(tmp_path: Path) -> None:
    workspace = tree(tmp_path, a="amp = 1\n", b="import a\n")
    changed = at(workspace, tmp_path / "a.py").with_text("amp = 2\n")
    after = workspace.with_texts([changed])
    assert list(after.candidates()) == [changed]
    found = after.locate("a", tmp_path / "b.py")
    assert found is not None
    assert after.file(found) == changed
    assert list(workspace.candidates()) != [changed]


def test_absolute_import_in_a_package_is_not_that_of_a_sibling(tmp_path: Path) -> None:
    of_package = "from apex import amp\nfrom .base import hook\n"
    hooks = {"pkg__hooks____init____": "", "pkg__hooks__apex": "from apex import amp\n", "pkg__hooks__amp": of_package}
    workspace = tree(tmp_path, **hooks, tools____init____="", tools__apex="", tools__run="import apex\n")
    folder = tmp_path / "pkg/hooks"
    assert workspace.locate("apex", folder / "apex.py") is None  # no file loads itself
    assert workspace.locate("apex", folder / "amp.py") is None  # what imports relatively is no script
    assert workspace.locate("apex", tmp_path / "tools/run.py") == tmp_path / "tools/apex.py"
