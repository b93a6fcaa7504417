"""Scripts through `amp-verify run`: the fixtures, programs whose faults only a GPU shows, and whatever is named."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_suite.amp_verify import amp_verify
from gpu_suite.sizes import Sizes

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "fixtures"
PROGRAMS = Path(__file__).parent / "programs"
# Others run beside them: no speed is measured.
UNTIMED = ("--timing-runs", "0")


@dataclass(frozen=True)
class Program:
    """A script to be verified.

    Attributes:
        name: its row in the table.
        script: the original.
        migrated: a migration by hand; None for that of `amp-migrate`.
        arguments: of the script.
    """

    name: str
    script: Path
    migrated: Path | None = None
    arguments: tuple[str, ...] = ()


def run(sizes: Sizes, save: Callable[[Any], None]) -> None:
    """The verdict on each program, migrated to float16; saved one by one, in the order in which they end."""
    found: dict[str, Any] = dict(sizes.known or {})
    wanted = [each for each in programs(sizes) if each.name not in found]
    with ThreadPoolExecutor(sizes.programs_at_once) as pool:
        for done in as_completed([pool.submit(verified, each, sizes) for each in wanted]):
            name, told = done.result()
            found[name] = told
            save(found)


def programs(sizes: Sizes) -> Iterator[Program]:
    """All of them: those of the suite first, then the fixtures, then the folders that are named."""
    for folder in sorted(PROGRAMS.iterdir()):
        if _wanted(folder.name, sizes) and (folder / "train.py").exists():
            yield Program(folder.name, folder / "train.py")
            yield Program(f"{folder.name}, by hand and wrong", folder / "train.py", folder / "naive.py")
    for script in sorted(FIXTURES.glob("*/train.py")):
        if _wanted(script.parent.name, sizes):
            words = script.with_name("quick.args" if sizes.quick else "gpu.args")
            arguments = words.read_text(encoding="utf-8").split() if words.exists() else []
            yield Program(script.parent.name, script, arguments=tuple(arguments))
    for more in sizes.more_programs:
        for script in sorted(Path(more).resolve().rglob("train.py")):
            yield Program(f"{script.parent.parent.name}/{script.parent.name}", script)


def _wanted(name: str, sizes: Sizes) -> bool:
    return not sizes.programs or name in sizes.programs


def verified(program: Program, sizes: Sizes) -> tuple[str, dict[str, Any]]:
    """The program's name, and what `amp-verify run` says of it: verdict, sentence, and the checks that did not pass."""
    options = ["--device", sizes.device, "--steps", str(sizes.steps), *UNTIMED]
    if sizes.device == "cuda":
        options += ["--jobs", str(max(1, (os.cpu_count() or 1) // sizes.programs_at_once))]
    told = amp_verify("run", program.script, options, program.arguments, migrated=program.migrated)
    if told.document is None:
        return program.name, {"verdict": f"exit status {told.status}", "sentence": told.said, "checks": []}
    assert told.document["exit_code"] == told.status
    checks = [check for check in told.document["checks"] if check["status"] != "pass" or check["id"] == "E"]
    found = {**{key: told.document[key] for key in ("verdict", "sentence")}, "checks": checks}
    # Where the checkout is tells nobody anything.
    return program.name, json.loads(json.dumps(found).replace(f"{ROOT}{os.sep}", ""))
