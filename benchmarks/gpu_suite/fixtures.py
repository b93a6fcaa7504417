"""The fixtures through `amp-verify run`, with speed and memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from amp_migrate.verify.verdict import Verdict

from gpu_suite.sizes import Sizes

FOLDER = Path(__file__).parents[2] / "fixtures"
AMP_VERIFY = "from amp_migrate.verify.cli import main; main()"
# One pair of timed runs: with fifteen fixtures there is no time for an interval.
TIMING = ("--timing-runs", "1", "--timing-steps", "60")


def run(sizes: Sizes, save: Callable[[Any], None]) -> None:
    """The verdict on each fixture, migrated to float16; saved fixture by fixture."""
    found: dict[str, Any] = {}
    for name in sizes.fixtures or names():
        found[name] = verified(FOLDER / name, sizes)
        save(found)


def names() -> list[str]:
    """All fixtures, the three kinds of code in turns: a run that is cut off has seen each kind."""
    kinds: dict[str, list[str]] = {}
    for path in sorted(FOLDER.glob("*/train.py")):
        kinds.setdefault(path.parent.name.partition("_")[0], []).append(path.parent.name)
    longest = max(map(len, kinds.values()))
    return [kind[turn] for turn in range(longest) for kind in kinds.values() if turn < len(kind)]


def verified(fixture: Path, sizes: Sizes) -> dict[str, Any]:
    """What `amp-verify run` says of a fixture."""
    arguments = (fixture / "quick.args").read_text(encoding="utf-8").split() if sizes.quick else []
    with tempfile.TemporaryDirectory() as name:
        output = Path(name) / "verdict.json"
        options = ["--device", sizes.device, "--steps", str(sizes.steps), *TIMING, "--json", str(output)]
        if sizes.device == "cuda":
            options += ["--jobs", str(max(1, min(8, (os.cpu_count() or 1) // 2)))]
        words = ["run", str(fixture / "train.py"), *options, "--", *arguments]
        done = subprocess.run(
            [sys.executable, "-c", AMP_VERIFY, *words], cwd=name, capture_output=True, text=True, check=False
        )
        if not output.exists():
            return {"verdict": f"exit status {done.returncode}", "sentence": _last_line(done.stderr)}
        told = json.loads(output.read_text(encoding="utf-8"))
    assert Verdict[told["verdict"]].value == done.returncode
    return {key: told[key] for key in ("verdict", "sentence", "speed", "memory")}


def _last_line(text: str) -> str:
    lines: Sequence[str] = text.strip().splitlines()
    return lines[-1] if lines else ""
