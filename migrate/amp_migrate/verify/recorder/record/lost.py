"""A run that is lost: what it would still do could change nothing about the verdict, so it ends.

Its losses are compared with the original's as they are written, a batch of events at a time: nothing waits for a GPU.
"""

from __future__ import annotations

import json
import math
import os
from typing import Any

from ..progress import Progress
from ..spec import EARLY_STEPS

_IN_A_ROW = 24  # passes
_FAR = 1e-3  # relative: another training, not another rounding


def follow(progress: Progress, folder: str) -> None:
    """Compare with the run whose records are in `folder`, and end this one when it is lost."""
    losses = _losses(os.path.join(folder, "rank-0.jsonl"))
    if losses:
        progress.writer.readers.append(_Lost(progress, losses).read)


class _Lost:
    def __init__(self, progress: Progress, losses: list[float]) -> None:
        self._progress = progress
        self._losses = losses
        self._passes = self._row = 0

    def read(self, event: dict[str, Any]) -> None:
        """Look at an event whose values are known."""
        if event["kind"] == "scale" and event["scale"] < 1:
            self._end(f"the loss scale fell to {event['scale']:g}")
        if event["kind"] != "backward":
            return
        number = self._passes
        self._passes += 1
        if number >= len(self._losses):
            return
        ours, theirs = self._losses[number], sum(event["loss"]) / len(event["loss"])
        if math.isfinite(ours) and not math.isfinite(theirs):
            self._row += 1
            reason = "its losses are not finite any more"
        elif self._progress.spec.amp_off and abs(ours - theirs) > _FAR * abs(ours):
            self._row += 1
            reason = "it trains another way, with mixed precision off"
        else:
            self._row = 0
        if self._row >= _IN_A_ROW and self._progress.attempts >= EARLY_STEPS:
            self._end(reason)

    def _end(self, reason: str) -> None:
        if not self._progress.lost:
            self._progress.lost = f"{reason}: ended after {self._passes} backward passes"


def _losses(path: str) -> list[float]:
    found = []
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            for line in file:
                event = json.loads(line) if line.endswith("\n") else {"kind": ""}
                if event["kind"] == "backward":
                    found.append(sum(event["loss"]) / len(event["loss"]))
    return found
