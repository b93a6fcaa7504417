"""`amp-verify fix` on programs of which plain float16 breaks three, and might break six: these end with PASS.

With `AMP_MIGRATE_NIGHTLY` set, all of them are run; else the first.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from amp_migrate.verify.cli import main
from click.testing import CliRunner

SCRIPTS = Path(__file__).parent.parent / "scripts" / "fix"
ISLAND = 'with torch.amp.autocast(device_type="cuda", enabled=False):'
MASK = "max(-1e9, torch.finfo(scores.dtype).min)"
# What the migration of each must say, the casts with it, and what stands there without the hand that wrote it.
BY_HAND = {
    "codebook.py": {ISLAND: "if True:", "flat.float()": "flat", "chosen.float()": "chosen"},
    "gram.py": {ISLAND: "if True:", "f.float()": "f"},
    "mask.py": {MASK: "-1e9"},
}
# What these compute beyond float16's range, autocast computes in float32 by itself: `exp`, `log`, `norm`, `pow`, `sum`.
BY_AUTOCAST = ("boxes.py", "gan.py", "norm.py")
pytestmark = pytest.mark.slow


def _now(names: list[str]) -> list[str]:
    return names if os.environ.get("AMP_MIGRATE_NIGHTLY") else names[:1]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").touch()
    return tmp_path


def _fixed(folder: Path, name: str) -> str:
    """The script as `fix` has written it, at the first attempt."""
    text = (SCRIPTS / name).read_text(encoding="utf-8")
    (folder / "train.py").write_text(text, encoding="utf-8")
    result = CliRunner().invoke(main, ["fix", "train.py", "--device", "cpu", "--json", "tries.json"])
    assert result.exit_code == 0, result.output
    tries = json.loads(Path("tries.json").read_text())["tries"]
    assert [(each["options"], each["verdict"]) for each in tries] == [([], "PASS")]
    (folder / "original.py").write_text(text, encoding="utf-8")
    return (folder / "train.py").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", _now([*BY_HAND]))
def test_what_float16_breaks_is_mended_by_the_migration_itself(folder: Path, name: str) -> None:
    text = _fixed(folder, name)
    for written, without in BY_HAND[name].items():
        assert written in text
        text = text.replace(written, without)
    (folder / "plain.py").write_text(text, encoding="utf-8")
    plain = CliRunner().invoke(main, ["run", "original.py", "plain.py", "--device", "cpu"])
    assert plain.exit_code in (1, 6), plain.output


@pytest.mark.parametrize("name", _now([*BY_AUTOCAST]))
def test_what_autocast_keeps_in_float32_needs_nothing_else(folder: Path, name: str) -> None:
    text = _fixed(folder, name)
    assert "dtype=torch.float16" in text
    assert ISLAND not in text
    assert "custom_fwd" not in text


@pytest.mark.skipif(not os.environ.get("AMP_MIGRATE_NIGHTLY"), reason="for a machine at night")
def test_a_part_that_no_class_but_the_model_s_holds_is_named(folder: Path) -> None:
    text = (SCRIPTS / "states.py").read_text(encoding="utf-8")
    (folder / "train.py").write_text(text, encoding="utf-8")
    result = CliRunner().invoke(main, ["fix", "train.py", "--device", "cpu"])
    assert (result.exit_code, (folder / "train.py").read_text(encoding="utf-8")) == (1, text)
    assert '`keep_fp32(model, "lstm")` before the first call' in result.stdout.splitlines()[-1]
