"""What a person at a terminal sees while scripts run: which, for how long, and how many steps they have made."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

import click
from rich.console import Console
from rich.progress import Progress, ProgressColumn, SpinnerColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

from amp_migrate.verify.recorder.spec import STEPS_SUFFIX
from amp_migrate.verify.reports import as_text
from amp_migrate.verify.runs.kinds import Run
from amp_migrate.verify.runs.process import RunResult

_TIMES_A_SECOND = 4


class _Steps(ProgressColumn):
    """How many optimizer steps a run has made, as far as it has told; read whenever it is drawn."""

    def render(self, task: Task) -> Text:
        made = max((path.stat().st_size for path in task.fields["folder"].glob(f"*{STEPS_SUFFIX}")), default=0)
        of = f" of {task.fields['steps']}" if task.fields["steps"] else ""
        return Text(f"step {made}{of}" if made else "starting", style="dim")


class Live:
    """Tells of runs on stderr: a line that moves for each that is under way, and one for each that has ended.

    Only a terminal gets the lines that move.
    """

    def __init__(self) -> None:
        self._shown: Progress | None = None
        self._lock = Lock()

    @contextmanager
    def running(self, run: Run, folder: Path, steps: int) -> Iterator[None]:
        """Show a run while the block lasts.

        Args:
            folder: where the run writes.
            steps: how many it is to make; 0 where nobody knows.
        """
        if not sys.stderr.isatty():
            yield
            return
        with self._lock:
            if self._shown is None:
                self._shown = Progress(
                    SpinnerColumn(),
                    TimeElapsedColumn(),
                    TextColumn("{task.description}", markup=False),
                    _Steps(),
                    console=Console(stderr=True),
                    transient=True,
                    refresh_per_second=_TIMES_A_SECOND,
                )
                self._shown.start()
            shown = self._shown
            task = shown.add_task(run.name, total=None, folder=folder, steps=steps)
        try:
            yield
        finally:
            with self._lock:
                shown.remove_task(task)
                if not shown.tasks:
                    shown.stop()
                    self._shown = None

    def ended(self, result: RunResult) -> None:
        """Say what became of a run."""
        with self._lock:
            if self._shown is None:
                click.echo(as_text.progress(result), err=True)
            else:
                line = Text(as_text.progress(result))
                self._shown.console.print(line, soft_wrap=True)
