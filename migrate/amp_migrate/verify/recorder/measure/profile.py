"""A profile of a few optimizer steps: which operation took how long, and a trace to open in Perfetto."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import torch
import torch.profiler

from ..products import PRODUCT
from ..progress import Progress

WARM_UP = 3  # attempts, which the census has to itself
_SHOWN = 15


class Profile:
    """Profiles from the end of the warm-up to the end of the run, then writes a `profile` event and the trace."""

    def __init__(self, progress: Progress, folder: str) -> None:
        self._progress = progress
        self._path = os.path.join(folder, f"profile-{os.getpid()}.json")
        self._profile: Any = None
        self._left = progress.spec.steps - WARM_UP
        progress.after_attempt.append(self._after_attempt)

    def _after_attempt(self) -> None:
        attempts = self._progress.attempts
        if attempts == WARM_UP:
            activities = [torch.profiler.ProfilerActivity.CPU]
            if self._progress.device == "cuda":
                activities.append(torch.profiler.ProfilerActivity.CUDA)
            self._profile = torch.profiler.profile(activities=activities, record_shapes=True)
            self._profile.start()
        elif attempts == WARM_UP + self._left:
            self.close()

    def close(self) -> None:
        """Stop, and write what was seen."""
        if self._profile is None:
            return
        profile, self._profile = self._profile, None
        profile.stop()
        profile.export_chrome_trace(self._path)
        rows = rows_of(profile.key_averages(), self._progress.device == "cuda")
        self._progress.writer.put(
            "profile",
            path=self._path,
            total=sum(row[2] for row in rows),
            products=sum(row[2] for row in rows if PRODUCT.match(row[0])),
            table=rows[:_SHOWN],
        )


def rows_of(averages: Iterable[Any], on_gpu: bool) -> list[list[Any]]:
    """(operation, calls, microseconds of its own) of what the profiler averaged, the longest first.

    On a GPU these are the times of the kernels that an operation launched. The profiler lists the kernels once more, by
    their own names: those rows are left out.
    """
    if not on_gpu:
        rows = [[row.key, row.count, row.self_cpu_time_total] for row in averages]
    else:
        operations = [row for row in averages if row.device_type.name == "CPU"]
        rows = [[row.key, row.count, row.self_device_time_total] for row in operations]
    return sorted(rows, key=lambda row: -row[2])
