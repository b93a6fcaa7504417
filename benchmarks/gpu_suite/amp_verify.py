"""`amp-verify` as a command that writes JSON."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_COMMAND = (sys.executable, "-c", "from amp_migrate.verify.cli import main; main()")


@dataclass(frozen=True)
class Told:
    """What came of a command: its exit status, the last line of what it said on stderr, its JSON (None without one)."""

    status: int
    said: str
    document: dict[str, Any] | None


def amp_verify(
    command: str, script: Path, options: Sequence[str], arguments: Sequence[str], *, migrated: Path | None = None
) -> Told:
    """Run `amp-verify COMMAND SCRIPT [MIGRATED] OPTIONS --json ... -- ARGUMENTS` in a folder of its own."""
    with tempfile.TemporaryDirectory() as name:
        output = Path(name) / "told.json"
        scripts = [str(path) for path in (script, migrated) if path is not None]
        words = [command, *scripts, *options, "--json", str(output), "--", *arguments]
        done = subprocess.run([*_COMMAND, *words], cwd=name, capture_output=True, text=True, check=False)
        document = json.loads(output.read_text(encoding="utf-8")) if output.exists() else None
    return Told(done.returncode, (done.stderr.strip().splitlines() or [""])[-1], document)
