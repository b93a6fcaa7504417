"""The fixtures through `amp-verify run`, with speed and memory."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpu_suite.amp_verify import amp_verify
from gpu_suite.sizes import Sizes

FOLDER = Path(__file__).parents[2] / "fixtures"
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
    options = ["--device", sizes.device, "--steps", str(sizes.steps), *TIMING]
    if sizes.device == "cuda":
        options += ["--jobs", str(max(1, min(8, (os.cpu_count() or 1) // 2)))]
    told = amp_verify("run", fixture / "train.py", options, arguments)
    if told.document is None:
        return {"verdict": f"exit status {told.status}", "sentence": told.said}
    assert told.document["exit_code"] == told.status
    return {key: told.document[key] for key in ("verdict", "sentence", "speed", "memory")}
