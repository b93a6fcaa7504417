"""What only a person at a terminal gets: colour, and a bar that moves."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from amp_migrate.report.plain import plain

_STYLES = (("+++", "bold"), ("---", "bold"), ("@@", "cyan"), ("+", "green"), ("-", "red"))


def print_diff(diff: str) -> None:
    """Print a unified diff to the terminal in colours, as far as the terminal and `NO_COLOR` allow."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, markup=False, emoji=False)
    for line in diff.split("\n")[:-1]:
        style = next((style for start, style in _STYLES if line.startswith(start)), "")
        console.print(Text(plain(line.rstrip("\r"), keep="\t"), style=style), soft_wrap=True)


@contextmanager
def progress_bar() -> Iterator[Callable[[int, int], None]]:
    """A function to be called with how much is done and of how much; it draws a bar on stderr if that is a terminal.

    The bar comes at the first call, and goes when all is done or the block ends.
    """
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import Progress

    # No thread of its own: this process forks, and threads do not survive that.
    with Progress(console=Console(stderr=True), transient=True, auto_refresh=False) as bar:
        task = bar.add_task("planning", total=None, visible=False)

        def show(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total, visible=done < total, refresh=True)

        yield show
