"""Files that the user asked for: looked at beforehand, and then written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from amp_migrate.verify.reports.written import require_writable, write
from amp_migrate.verify.usage import UsageError


@pytest.mark.parametrize("path", ["missing/x.json", "folder", "file/x.json"])
def test_what_cannot_be_written_is_found_out_beforehand(path: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=f"--json .*{path}: "):
        require_writable({"--report": None, "--json": str(tmp_path / path)})


def test_looking_leaves_nothing_behind_and_changes_nothing(tmp_path: Path) -> None:
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text("before")
    require_writable({"--json": str(old), "--report": str(new)})
    assert [path.name for path in tmp_path.iterdir()] == ["old.json"]
    assert old.read_text() == "before"


def test_a_file_is_written_with_the_mode_and_in_the_place_that_it_had(tmp_path: Path) -> None:
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    real.write_text("before")
    real.chmod(0o640)
    link.symlink_to(real)
    assert write("--json", str(link), "after")
    assert (real.read_text(), real.stat().st_mode & 0o777, link.is_symlink()) == ("after", 0o640, True)


def test_a_device_is_written_to_and_not_replaced(capfd: pytest.CaptureFixture[str]) -> None:
    require_writable({"--json": "/dev/stdout"})
    assert write("--json", "/dev/stdout", "{}\n")
    assert capfd.readouterr().out == "{}\n"


def test_a_write_that_fails_leaves_the_old_file_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "amp.json"
    path.write_text("before")

    def full(self: Path, data: bytes) -> int:
        with self.open("wb") as file:
            file.write(data[:1])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    assert not write("--json", str(path), "after")
    assert (path.read_text(), os.listdir(tmp_path)) == ("before", ["amp.json"])
    assert capsys.readouterr().err == f"amp-verify: --json {path} was not written: No space left on device\n"
