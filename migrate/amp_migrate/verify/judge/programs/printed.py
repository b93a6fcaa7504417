"""What scripts print and write, compared number by number: times, dates and places aside, which no two runs share."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from amp_migrate.verify.recorded import tensorboard
from amp_migrate.verify.runs.outputs import WRITTEN
from amp_migrate.verify.runs.process import RunResult

_MOST_LINES = 20_000

_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|\b(?:nan|inf)\b")
_UNIT = r"(?:ms|s|sec|secs|second|seconds|min|mins|minutes|h|hours?|it/s|s/it|(?:\w+)/s(?:ec)?|fps|[KMG]i?B|%CPU)\b"
_PART = r"\d+(?:\.\d+)?(?:ms|us|[dhms])"  # of a duration
_BLANK = re.compile("[ \t\b]+")  # as many as fill a line up behind times of some length
_TIME_WORD = r"(?:time|elapsed|eta|took|takes|duration|speed|throughput|per[_ ]second|fps|sps|date|mem(?:ory)?|pid)\w*"
_NOISE = re.compile(
    r"\d{4}[-/]\d\d?[-/]\d\d?(?:[T _]\d\d?[:-]\d\d(?:[:-]\d\d)?)?"  # dates
    r"|\d+:\d\d(?::\d\d)?(?:[.,]\d+)?"  # 0:01:23
    r"|\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun|Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*\b \d+"
    rf"|(?:{_PART})+{_PART}\b"  # 1m2s, and 812ms where another run took 1s2ms
    rf"|(?:{_PART})*[-+]?\d+\.?\d*(?:e[-+]?\d+)? ?{_UNIT}"
    rf"|\b{_TIME_WORD}\W{{1,4}}[-+]?\d+\.?\d*(?:e[-+]?\d+)?"
    r"|0x[0-9a-f]{6,}",  # addresses
    re.IGNORECASE,
)

# What a file's name may hold of the moment and the process.
_OWN = re.compile(
    r"(?<=tfevents)\..*|\d{5,}|\d\d?[-_:]\d\d[-_:]\d\d|(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\d+"
)


@dataclass(frozen=True)
class Line:
    """A line that differs: its number, both texts, and how far its numbers are apart; None where words differ."""

    number: int
    texts: tuple[str, str]
    size: float | None


def lines(result: RunResult) -> tuple[str, ...]:
    """What a run printed, without what says when and where it ran."""
    log = result.folder / "stdout.log"
    return _lines(log.read_text(encoding="utf-8", errors="replace"), result) if log.exists() else ()


def _lines(text: str, result: RunResult) -> tuple[str, ...]:
    text = text.replace(str(result.folder), "FOLDER").replace("\r", "\n")
    for word in result.command[1:2]:
        text = text.replace(word, "SCRIPT")
    found = text.split("\n")[:_MOST_LINES]
    return tuple(line.strip() for line in found if line.strip())


def differences(ours: Sequence[str], theirs: Sequence[str]) -> Iterator[Line]:
    """Lines that differ in more than times and dates, in order."""
    for number, (a, b) in enumerate(zip_longest(ours, theirs), start=1):
        if a is None or b is None:
            yield Line(number, (_cut(a), _cut(b)), None)
            return
        if a != b:
            x, y = (_BLANK.sub(" ", _NOISE.sub("~", text)) for text in (a, b))
            if x != y:
                yield Line(number, (_cut(a), _cut(b)), apart(x, y))


def apart(ours: str, theirs: str) -> float | None:
    """How far the numbers in two texts are apart at most, as a share; None where the texts differ in words."""
    if _NUMBER.sub("#", ours) != _NUMBER.sub("#", theirs):
        return None
    largest = 0.0
    for a, b in zip(_NUMBER.findall(ours), _NUMBER.findall(theirs), strict=True):
        if a == b:
            continue
        if a.isdigit() and b.isdigit() and len(a) > 12:
            return None  # an identifier
        x, y = float(a), float(b)
        scale = max(abs(x), abs(y))
        if not scale < float("inf") or (x == y and ("." in a) != ("." in b)):
            return None  # rounding does not make 8.0 of a count of 8
        largest = max(largest, abs(x - y) / scale if scale else 0.0)
    return largest


def written(result: RunResult) -> Mapping[str, Path]:
    """The files that a script wrote, by their paths in its working folder without dates, process ids and the like."""
    folder = result.folder / WRITTEN
    found: dict[str, Path] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            name = _OWN.sub("#", path.relative_to(folder).as_posix())
            found[name if name not in found else f"{name} ({len(found)})"] = path
    return found


def file_differences(ours: Path, theirs: Path) -> Iterator[Line]:
    """Lines of two files that differ; of files that are no text whether they do."""
    if "tfevents" in ours.name:
        a, b = ([f"{name} {value:.9g}" for name, value in tensorboard.scalars(path)] for path in (ours, theirs))
        yield from differences(a, b)
        return
    x, y = ours.read_bytes(), theirs.read_bytes()
    if x == y:
        return
    if b"\0" in x or b"\0" in y:
        yield Line(1, (_digest(x), _digest(y)), None)
        return
    yield from differences(*(data.decode("utf-8", "replace").splitlines()[:_MOST_LINES] for data in (x, y)))


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:8]


def _cut(line: str | None) -> str:
    if line is None:
        return "no such line"
    return repr(line if len(line) <= 80 else line[:77] + "...")
