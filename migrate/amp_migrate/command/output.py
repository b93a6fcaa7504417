"""What goes to standard output and standard error, besides the report."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from amp_migrate.engine.source import display_name, from_here
from amp_migrate.report.forms.diff import unified
from amp_migrate.report.forms.terminal import print_diff
from amp_migrate.report.plain import plain


def shown(path: Path) -> str:
    """A path as a user in the current folder would name it, safe to print."""
    return plain(display_name(from_here(path)))


def note(text: str) -> None:
    """Say something on standard error that is no part of the result."""
    sys.stderr.write(f"note: {text}\n")


def print_changes(changes: Iterable[tuple[Path, str, bytes, bytes]]) -> None:
    """Print the diff of files: the path of each, the name it goes by, and its bytes before and after.

    Where standard output is no terminal, the bytes are those of the files, for `git apply` to take.
    """
    here = os.getcwd()
    parts = []
    for path, name, before, after in changes:
        # `git apply` knows relative names only.
        relative = path.is_absolute() and path.is_relative_to(here)
        parts.append(unified(before, after, path.relative_to(here).as_posix() if relative else name))
    diff = b"".join(parts)
    if sys.stdout.isatty():
        print_diff(diff.decode("utf-8", "replace"))
    else:
        sys.stdout.buffer.write(diff)
