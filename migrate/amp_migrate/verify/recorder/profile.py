"""A profile of a few optimizer steps: which operation took how long, and a trace to open in Perfetto."""

from __future__ import annotations

import os
import re
from typing import Any

import torch
import torch.profiler

from .progress import Progress

WARM_UP = 3  # attempts, which the census has to itself
_SHOWN = 15
# Operations that call the kernels of matrix products and convolutions, forward and backward, on a CPU and on a GPU.
_PRODUCT = re.compile(r"^aten::(\w*mm|mv|dot|\w*convolution\w*|_scaled_dot_product_\w+|\w*rnn\w*|\w*attention\w*)$")


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
        on_gpu = self._progress.device == "cuda"
        rows = [
            [row.key, row.count, row.self_device_time_total if on_gpu else row.self_cpu_time_total]
            for row in profile.key_averages()
        ]
        rows.sort(key=lambda row: -row[2])
        self._progress.writer.put(
            "profile",
            path=self._path,
            total=sum(row[2] for row in rows),
            products=sum(row[2] for row in rows if _PRODUCT.search(row[0])),
            table=rows[:_SHOWN],
        )
