"""`--profile`: what leaves float16's range, read from the record that `amp-verify` has of a run."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from amp_migrate.settings import Measured
from amp_migrate.tables import operators as table

LARGEST = 65504.0  # of float16's numbers
SMALLEST_NORMAL = 2.0**-14  # float16 has ever fewer digits for smaller numbers, and none below 2**-25
_FIELDS: dict[str, type | tuple[type, ...]] = {
    "file": str, "line": int, "text": str, "operation": str, "owner": str, "largest": (int, float),
}  # fmt: skip
_HOW = "`amp-verify profile train.py --output run.json` writes one"


class ProfileError(Exception):
    """A profile that cannot be used; the message names the file and the next step."""


def read_profile(file: Path) -> tuple[Measured, ...]:
    """The lines of a run whose results leave float16's range, in the order of places; files as absolute paths.

    Raises ProfileError where that is no record of a run.
    """
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ProfileError(f"{file}: {error.strerror}; {_HOW}") from None
    except ValueError:
        raise ProfileError(f"{file}: not JSON; {_HOW}") from None
    ranges = document.get("ranges") if isinstance(document, dict) else None
    if not isinstance(ranges, list) or not all(map(_is_range, ranges)):
        raise ProfileError(f"{file}: no ranges in it; {_HOW}")
    return tuple(dict.fromkeys(_leaving(ranges)))


def _is_range(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(value.get(key), kind) for key, kind in _FIELDS.items())


def _leaving(ranges: list[Mapping[str, Any]]) -> Iterator[Measured]:
    """What of it autocast would leave to float16."""
    for each in ranges:
        operation, largest = each["operation"], float(each["largest"])
        if _is_in_float32(operation) or operation in table.VIEWS or operation in table.FILLED:
            continue
        if LARGEST < largest < math.inf:
            why = f"{operation} gave values up to {largest:.3g}, and float16 ends at 65504"
        elif 0 < largest < SMALLEST_NORMAL:
            why = f"{operation} gave nothing above {largest:.3g}, and float16 has fewer digits below 6.1e-05"
        else:
            continue
        path = str(Path(each["file"]).resolve())
        yield Measured(path, each["line"], each["text"], each["owner"], why)


def _is_in_float32(operation: str) -> bool:
    """Whether autocast computes it in float32 by itself."""
    kinds = {table.AUTOCAST.get(name) for name in (operation, f"linalg.{operation}")}
    return bool(kinds & {table.FLOAT, table.FLOAT_UNLESS_SAID})
