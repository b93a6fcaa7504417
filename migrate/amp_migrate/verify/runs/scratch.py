"""The folder of one command's own, and when it is kept."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click

from amp_migrate.verify import fault
from amp_migrate.verify.runs import prepare
from amp_migrate.verify.usage import UsageError


@dataclass
class Scratch:
    """A folder for scripts, runs and logs; `keep`: somebody will want to read them."""

    folder: Path
    keep: bool = False


@contextmanager
def scratch(wanted: str | None) -> Iterator[Scratch]:
    """A new folder, `wanted` or a temporary one, which is then removed.

    It is kept where it was asked for, where the command says so, and after a fault of ours, with its traceback.
    """
    made = Scratch(prepare.scratch(wanted))
    try:
        yield made
    except UsageError:
        made.keep = False
        raise
    except Exception as error:
        fault.keep(error, made.folder)
        made.keep = True
        raise
    finally:
        if made.keep or wanted is not None:
            click.echo(f"logs and traces: {made.folder}", err=True)
        else:
            shutil.rmtree(made.folder, ignore_errors=True)
