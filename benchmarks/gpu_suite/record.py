"""The JSON file of one part: written anew whenever there is more to say, and never seen half-written."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RUNNING, DONE = "running", "done"
NO_TIME, CUT_SHORT = "not run: time", "cut short: time"


@dataclass(frozen=True)
class Record:
    """Where a part's results are kept."""

    path: Path

    def write(self, **changes: Any) -> None:
        """Change the named fields of the file: `status`, `result`, `seconds`, `machine`, `rehearsal`."""
        text = json.dumps({**self.read(), **changes}, indent=1) + "\n"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        beside = self.path.with_suffix(".part")
        beside.write_text(text, encoding="utf-8")
        os.replace(beside, self.path)

    def read(self) -> Mapping[str, Any]:
        """The file's fields; none where there is no file."""
        if not self.path.exists():
            return {}
        found: Mapping[str, Any] = json.loads(self.path.read_text(encoding="utf-8"))
        return found

    def clear(self) -> None:
        """Forget an earlier run."""
        self.path.unlink(missing_ok=True)
