"""`amp-migrate`: the command line."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from amp_migrate.settings import Dtype, Settings

if TYPE_CHECKING:
    from amp_migrate.engine.migrate import Outcome

EPILOG = """\b
Exit codes:
  0  nothing to do, or all that could be done was done; what was left as it was does not count
  1  --check: something would change
  2  wrong usage, or a file that could not be read, parsed or written; the others were still done
"""


def _print_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if not wanted:
        return
    from amp_migrate import __version__

    click.echo(f"amp-migrate {__version__}")
    context.exit()


@click.command(epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.argument("paths", nargs=-1, metavar="PATH...")
@click.option("--diff", is_flag=True, help="Print the changes as a unified diff that `git apply` takes; write nothing.")
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if anything would change.")
@click.option(
    "--dtype",
    type=click.Choice([dtype.value for dtype in Dtype]),
    default=Dtype.FP16.value,
    show_default=True,
    help="What migrated code computes in: fp16 with a GradScaler, bf16 without, or auto: bf16 where the GPU has it.",
)
@click.option(
    "-o",
    "--output",
    metavar="FILE|DIR",
    help="Write a copy of all Python files, migrated, and leave the originals alone.",
)
@click.option(
    "--version", is_flag=True, expose_value=False, is_eager=True, callback=_print_version, help="Show the version."
)
def command(paths: tuple[str, ...], diff: bool, check: bool, dtype: str, output: str | None) -> None:
    """Move PyTorch training code to torch.amp: plain float32 loops, Apex, and the deprecated torch.cuda.amp.

    Each PATH is a Python file, a folder to search, or `-` for standard input to standard output. Files are rewritten
    in place, and what was done and what was left as it was is printed.
    """
    if not paths:
        raise click.UsageError("name a file or a folder; `amp-migrate .` takes the current folder")
    if output is not None and (diff or check):
        raise click.UsageError("--output writes files; --diff and --check write none")
    settings = Settings(dtype=Dtype(dtype))
    if "-" in paths:
        if len(paths) > 1 or output is not None:
            raise click.UsageError("`-` stands alone: it reads standard input and writes standard output")
        run: Callable[..., Outcome] = partial(_run_stdin, settings)
    else:
        run = partial(_run_paths, [Path(path) for path in paths], settings, output=output)
    try:
        outcome = run(diff=diff, check=check)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of our output went away, as `head` does. Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)  # what a shell shows for a SIGPIPE
    sys.exit(_exit_code(outcome, check))


def _run_paths(paths: Sequence[Path], settings: Settings, *, diff: bool, check: bool, output: str | None) -> Outcome:
    from amp_migrate.engine.apply import apply_elsewhere, apply_in_place, is_original
    from amp_migrate.engine.migrate import migrate_workspace
    from amp_migrate.engine.workspace import Workspace

    if output is not None and is_original(paths, output):
        raise click.UsageError("--output names the original; leave it out to rewrite in place")
    workspace = Workspace.open(paths, without=None if output is None else Path(output))
    outcome = migrate_workspace(workspace, settings)
    if output is not None:
        outcome = apply_elsewhere(workspace, outcome, paths, output)
    elif diff:
        _print_diff(outcome)
    elif not check:
        outcome = apply_in_place(workspace, outcome)
    _print_report(outcome, written=not (diff or check), err=diff)
    return outcome


def _run_stdin(settings: Settings, *, diff: bool, check: bool) -> Outcome:
    from amp_migrate.engine.migrate import Outcome, migrate_source
    from amp_migrate.engine.problems import unreadable
    from amp_migrate.engine.source import Source, SourceError

    name = "<stdin>"
    try:
        source = Source.decode(sys.stdin.buffer.read(), Path(name), name)
    except SourceError as error:
        outcome = Outcome((), (unreadable(name, error),), 1)
    else:
        plan = migrate_source(source, settings)
        outcome = Outcome((plan,), (), 1)
        if diff:
            _print_diff(outcome)
        elif not check and _exit_code(outcome, check) == 0:  # an editor must not get half a file for a broken one
            sys.stdout.buffer.write(source.encode(plan.after))
    _print_report(outcome, written=not (diff or check), err=True)
    return outcome


def _exit_code(outcome: Outcome, check: bool) -> int:
    from amp_migrate.report.finding import Kind

    if any(finding.kind is Kind.ERROR for finding in outcome.findings):
        return 2
    return 1 if check and outcome.changed else 0


def _print_report(outcome: Outcome, *, written: bool, err: bool) -> None:
    from amp_migrate.report.text import Totals, render

    totals = Totals(files=outcome.files, changed=len(outcome.changed), written=written)
    click.echo(render(outcome.findings, totals), nl=False, err=err)


def _print_diff(outcome: Outcome) -> None:
    from amp_migrate.report.diff import unified

    here = os.getcwd()
    parts = []
    for each in outcome.changed:
        source, name = each.source, each.source.name
        if source.path.is_absolute() and source.path.is_relative_to(here):
            name = source.path.relative_to(here).as_posix()  # `git apply` knows relative names only
        parts.append(unified(source.encode(source.text), source.encode(each.after), name))
    diff = b"".join(parts)
    if sys.stdout.isatty():
        from amp_migrate.report.terminal import print_diff

        print_diff(diff.decode("utf-8", "replace"))
    else:
        sys.stdout.buffer.write(diff)


def main() -> None:
    """The entry point of the console script."""
    for stream in (sys.stdout, sys.stderr):
        # A file name that the terminal's encoding does not have must not end the run.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        command(prog_name="amp-migrate", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted: files written so far are complete, the others untouched", err=True)
        sys.exit(130)  # and for a SIGINT
