"""The ways to train that are compared; what is migrated is what `amp-migrate` writes of the plain scripts, now."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SCRIPTS = Path(__file__).parent / "scripts"
_ENDINGS = {"by_hand": "_amp.py", "apex": "_apex.py"}
Main = Callable[[Sequence[str]], dict[str, Any]]


@dataclass(frozen=True)
class Arm:
    """One way to train.

    Attributes:
        name: its row in the tables.
        source: "plain", "fp16", "bf16", "by_hand" or "apex", which runs on the shim.
        options: of the script.
        scripts: the scripts that have these options; none for all.
    """

    name: str
    source: str
    options: tuple[str, ...] = ()
    scripts: tuple[str, ...] = ()


PLAIN, BY_HAND = "float32", "hand-written float16"
MIGRATED, MIGRATED_BF16 = "migrated float16", "migrated bfloat16"
ARMS = (
    Arm(PLAIN, "plain"),
    Arm("TF32", "plain", ("--tf32",)),
    Arm(MIGRATED, "fp16"),
    Arm(MIGRATED_BF16, "bf16"),
    Arm(BY_HAND, "by_hand"),
    Arm("shim, O1", "apex", ("--opt-level", "O1")),
    Arm("shim, O2", "apex", ("--opt-level", "O2")),
)
# What a migrated script is held to: within one seed a step of 10 ms varies by more than the 1 % that is asked about.
COMPARED = tuple(arm for arm in ARMS if arm.name in {PLAIN, MIGRATED, BY_HAND})
# What may keep a migrated script from being faster: measured, not assumed.
VARIANTS = (
    Arm(f"{MIGRATED}, fused optimizer", "fp16", ("--fused",)),
    Arm(f"{MIGRATED}, channels last", "fp16", ("--channels-last",), ("resnet.py",)),
    Arm(f"{MIGRATED}, both", "fp16", ("--fused", "--channels-last"), ("resnet.py",)),
)


def sources(folder: Path) -> Mapping[str, Path]:
    """Where the scripts of each source are; the migrated ones are written below `folder`.

    Raises:
        RuntimeError: `amp-migrate` left a training as it was.
    """
    found = {"plain": SCRIPTS, "by_hand": SCRIPTS / "by_hand", "apex": SCRIPTS / "apex"}
    plain = sorted(map(str, SCRIPTS.glob("*.py")))
    for dtype in ("fp16", "bf16"):
        found[dtype] = folder / dtype
        command = [sys.executable, "-m", "amp_migrate", *plain, "--dtype", dtype, "--output", str(found[dtype])]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0 or " 0 left as they were" not in done.stdout:
            raise RuntimeError(f"amp-migrate --dtype {dtype}: {(done.stderr or done.stdout).strip()}")
    return found


def main_of(arm: Arm, script: str, found: Mapping[str, Path]) -> Main:
    """The `main` of a script: it takes the words of a command line and returns what was measured."""
    name = script.replace(".py", _ENDINGS.get(arm.source, ".py"))
    if str(SCRIPTS) not in sys.path:
        sys.path.append(str(SCRIPTS))  # for what the scripts share
    spec = importlib.util.spec_from_file_location(f"{arm.source}_{Path(name).stem}", found[arm.source] / name)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    main: Main = module.main
    return main
