"""What a script writes into its working folder is kept, and nothing that was there before."""

from __future__ import annotations

from pathlib import Path

from amp_migrate.verify.runs import outputs


def kept(folder: Path) -> dict[str, str]:
    written = folder / outputs.WRITTEN
    return {path.relative_to(written).as_posix(): path.read_text() for path in written.rglob("*") if path.is_file()}


def test_new_and_changed_files_are_kept_and_those_that_were_there_are_not(tmp_path: Path) -> None:
    cwd, folder = tmp_path / "cwd", tmp_path / "run"
    (cwd / "lib").mkdir(parents=True)
    for name in ("lib/loop.py", "log.csv", "weights.pt"):
        (cwd / name).write_text("before")
    before = outputs.listing(cwd)
    (cwd / "log.csv").write_text("step,loss")
    (cwd / "runs").mkdir()
    (cwd / "runs" / "metrics.json").write_text("{}")
    (cwd / "weights.pt").write_text("other weights")
    outputs.keep(cwd, before, folder)
    assert kept(folder) == {"log.csv": "step,loss", "runs/metrics.json": "{}"}


def test_a_file_that_is_too_large_is_left(tmp_path: Path) -> None:
    cwd, folder = tmp_path / "cwd", tmp_path / "run"
    cwd.mkdir()
    (cwd / "large.txt").write_bytes(b"0" * (2**22 + 1))
    outputs.keep(cwd, {}, folder)
    assert kept(folder) == {}
