"""Training scripts that nobody here wrote, and how each is made to end within seconds on one core.

Nothing of them is kept here: `field_scripts.json` names them, and they are looked for in checkouts, `OWNER+NAME` each,
below a folder that is named on the command line.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_MADE = {"words": " ".join(f"word{number * 7919 % 97} the of" for number in range(1500)) + " <eos>\n"}


@dataclass(frozen=True)
class FieldScript:
    """A script of a public repository.

    Attributes:
        repository: `OWNER+NAME`.
        path: of the script in it; it is run in its folder.
        arguments: what it is run with.
        smaller: texts in it and what stands there instead, for those whose sizes are written down in the code.
        files: further files that it reads, by path beside the script, and what is in them.
        steps: of each optimizer, at which a run ends whose script is not at its end before.
    """

    repository: str
    path: str
    arguments: tuple[str, ...]
    smaller: tuple[tuple[str, str], ...]
    files: tuple[tuple[str, str], ...]
    steps: int

    @property
    def name(self) -> str:
        """What reports call it."""
        return f"{self.repository}/{self.path}"


def _read(fields: dict[str, Any]) -> FieldScript:
    return FieldScript(
        repository=str(fields["repository"]),
        path=str(fields["path"]),
        arguments=tuple(map(str, fields["arguments"])),
        smaller=tuple((old, new) for old, new in fields["smaller"]),
        files=tuple((path, _MADE[made]) for path, made in fields["files"]),
        steps=int(fields["steps"]),
    )


SCRIPTS = tuple(map(_read, json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))))
