"""An outcome on the disk."""

from __future__ import annotations

from pathlib import Path

import pytest
from amp_migrate.engine.disk import write
from amp_migrate.engine.disk.apply import apply_elsewhere, apply_in_place, is_original
from amp_migrate.engine.migrate import migrate_workspace
from amp_migrate.engine.outcome import Outcome
from amp_migrate.engine.workspace import Workspace
from amp_migrate.settings import Settings

pytestmark = pytest.mark.usefixtures("toy_planner")
OLD, NEW = "amp, old_amp = 1, 2\n", "amp, new_amp = 1, 2\n"


def plan(root: Path, **texts: str) -> tuple[Workspace, Outcome]:
    root.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (root / f"{name}.py").write_text(text)
    workspace = Workspace.open([root])
    return workspace, migrate_workspace(workspace, Settings())


def test_changed_files_are_written_and_no_others(tmp_path: Path) -> None:
    workspace, outcome = plan(tmp_path, a=OLD, b="x = 1\n")
    before = (tmp_path / "b.py").stat()
    assert apply_in_place(workspace, outcome, tmp_path) == outcome
    assert (tmp_path / "a.py").read_text() == NEW
    assert (tmp_path / "b.py").stat().st_mtime_ns == before.st_mtime_ns


def test_a_file_edited_meanwhile_is_left_with_the_files_that_belong_to_it(tmp_path: Path) -> None:
    workspace, outcome = plan(tmp_path, main=f"import engine\n{OLD}", engine=OLD, other=OLD)
    (tmp_path / "engine.py").write_text("edited\n")
    done = apply_in_place(workspace, outcome, tmp_path)
    assert [each.source.path.stem for each in done.changed] == ["other"]
    assert (tmp_path / "engine.py").read_text() == "edited\n"
    assert (tmp_path / "main.py").read_text() == f"import engine\n{OLD}"
    assert (tmp_path / "other.py").read_text() == NEW
    assert [(Path(f.path).stem, f.message) for f in done.findings if f.code == "AMP002"] == [
        ("engine", "changed on disk since it was read; run again"),
        ("main", f"file left as it was, because {(tmp_path / 'engine.py').as_posix()} is and the two belong together"),
    ]


@pytest.mark.parametrize("step", ["prepare", "put"])
def test_a_file_that_fails_at_the_last_moment_is_told_and_the_others_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    workspace, outcome = plan(tmp_path / "tree", a=OLD, b=OLD, main=f"import a\n{OLD}")
    take = getattr(write.Swaps, step)

    def failing(swaps: write.Swaps, swap: write.Swap) -> None:
        if swap.parts == ("a.py",):
            raise write.WriteError("cannot be written: no space left on device")
        take(swaps, swap)

    monkeypatch.setattr(write.Swaps, step, failing)
    done = apply_in_place(workspace, outcome, tmp_path / "tree")
    assert [each.source.path.stem for each in done.changed] == ["b"]
    assert {path.stem: path.read_text() for path in (tmp_path / "tree").iterdir()} == {
        "a": OLD,
        "b": NEW,
        "main": f"import a\n{OLD}",
    }
    assert [(Path(f.path).stem, f.code) for f in done.findings if f.code == "AMP002"] == [
        ("a", "AMP002"),
        ("main", "AMP002"),
    ]


def test_a_file_that_cannot_be_put_back_is_told_as_what_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace, outcome = plan(tmp_path / "tree", a=f"import b\n{OLD}", b=OLD)
    put = write.Swaps.put

    def failing(swaps: write.Swaps, swap: write.Swap) -> None:
        if swap.parts == ("b.py",):
            raise write.WriteError("cannot be written: input/output error")
        put(swaps, swap)

    def stuck(swaps: write.Swaps, swap: write.Swap) -> None:
        raise write.WriteError("cannot be put back: input/output error")

    monkeypatch.setattr(write.Swaps, "put", failing)
    monkeypatch.setattr(write.Swaps, "take_back", stuck)
    done = apply_in_place(workspace, outcome, tmp_path / "tree")
    assert [each.source.path.stem for each in done.changed] == ["a"]
    assert (tmp_path / "tree/a.py").read_text() == f"import b\n{NEW}"
    (told,) = [f for f in done.findings if Path(f.path).stem == "a" and f.message.startswith("cannot be put back")]
    assert "other than the files that it belongs with; `amp-migrate --undo" in told.hint


def test_a_folder_is_mirrored_with_its_unchanged_files(tmp_path: Path) -> None:
    source, output = tmp_path / "src", tmp_path / "out"
    plan(source / "pkg", a=OLD, b="x = 1\n")
    workspace, outcome = plan(source, c=OLD)
    apply_elsewhere(workspace, outcome, [source], str(output))
    copies = {path.relative_to(output).as_posix(): path.read_text() for path in output.rglob("*.py")}
    assert copies == {"c.py": NEW, "pkg/a.py": NEW, "pkg/b.py": "x = 1\n"}
    assert (source / "c.py").read_text() == OLD


def test_several_paths_are_mirrored_from_the_folder_they_share(tmp_path: Path) -> None:
    for name in ("one", "two"):
        plan(tmp_path / name, a=OLD)
    paths = [tmp_path / "one", tmp_path / "two/a.py"]
    workspace = Workspace.open(paths)
    apply_elsewhere(workspace, migrate_workspace(workspace, Settings()), paths, str(tmp_path / "out"))
    assert sorted(path.relative_to(tmp_path).as_posix() for path in (tmp_path / "out").rglob("*.py")) == [
        "out/one/a.py",
        "out/two/a.py",
    ]


@pytest.mark.parametrize(("output", "target"), [("new.py", "new.py"), ("new/", "new/a.py"), ("there", "there/a.py")])
def test_one_file_goes_to_a_file_or_into_a_folder(tmp_path: Path, output: str, target: str) -> None:
    plan(tmp_path, a=OLD)
    (tmp_path / "there").mkdir()
    paths = [tmp_path / "a.py"]
    workspace = Workspace.open(paths)
    apply_elsewhere(workspace, migrate_workspace(workspace, Settings()), paths, f"{tmp_path}/{output}")
    assert (tmp_path / target).read_text() == NEW


def test_a_copy_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    workspace, outcome = plan(tmp_path / "src", a=OLD, b=OLD)
    (tmp_path / "out/a.py").mkdir(parents=True)
    done = apply_elsewhere(workspace, outcome, [tmp_path / "src"], str(tmp_path / "out"))
    assert (tmp_path / "out/b.py").read_text() == NEW
    assert [(f.path, f.code) for f in done.findings if f.code == "AMP002"] == [(str(tmp_path / "out/a.py"), "AMP002")]


def test_an_output_in_the_place_of_an_original_is_recognised(tmp_path: Path) -> None:
    plan(tmp_path, a=OLD)
    (tmp_path / "link").symlink_to(tmp_path)
    assert is_original([tmp_path / "a.py"], f"{tmp_path}/link/a.py")
    assert is_original([tmp_path], str(tmp_path))
    assert not is_original([tmp_path / "a.py"], f"{tmp_path}/b.py")
    assert not is_original([tmp_path], f"{tmp_path}/out")
