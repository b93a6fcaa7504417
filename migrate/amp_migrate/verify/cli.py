"""`amp-verify`: run a training script before and after its migration, and say whether it still trains the same.

Nothing heavy is imported before it is needed, and torch never: it runs in the scripts' own processes.
"""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, NoReturn

import click

from amp_migrate import __version__
from amp_migrate.verify.options import (
    CACHE,
    COMPARING,
    DTYPE,
    GATES,
    JSON,
    REPORTS,
    RESUME,
    RUNNING,
    TIMING,
    WHOLE,
    DoctorRequest,
    FixRequest,
    LocalizeRequest,
    ProfileRequest,
    Request,
    TraceRequest,
    TuneRequest,
)

_USAGE = 2
_SCRIPT_ARGUMENTS = "amp_verify.script_arguments"
_TYPED = "amp_verify.typed"


class _Passing(click.Command):
    """A command that hands everything after `--` to the scripts, unread, and ends in order when it is asked to."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        cut = args.index("--") if "--" in args else len(args)
        ctx.meta[_SCRIPT_ARGUMENTS] = tuple(args[cut + 1 :])
        ctx.meta[_TYPED] = shlex.join([*ctx.command_path.split(), *args])
        try:
            return super().parse_args(ctx, args[:cut])
        except click.NoSuchOption as error:
            where = f"{ctx.command_path} ... -- {error.option_name}"
            message = f"{error.format_message()} An option of the script goes behind `--`: {where}"
            raise click.UsageError(message, ctx) from None

    def invoke(self, ctx: click.Context) -> Any:
        before = signal.signal(signal.SIGTERM, _end)
        try:
            return super().invoke(ctx)
        finally:
            signal.signal(signal.SIGTERM, before)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- ARGS...]"]


class _Commands(click.Group):
    """Commands of which the first is the one that is meant where a script is named at once."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0].endswith(".py"):
            ctx.fail(f"say what is to be done with {args[0]}: {ctx.command_path} run {args[0]}")
        return super().resolve_command(ctx, args)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="amp-verify")
def main() -> None:
    """Prove that a migrated training script still trains the same."""


@main.command(cls=_Passing)
@click.argument("original", metavar="ORIGINAL")
@click.argument("migrated", metavar="[MIGRATED]", required=False)
@COMPARING
@WHOLE
@RESUME
@TIMING
@GATES
@RUNNING
@REPORTS
@click.pass_context
def run(ctx: click.Context, /, **options: Any) -> None:
    """Run ORIGINAL and MIGRATED with ARGS and compare them.

    Both run unmodified, several times, in processes of their own. Without MIGRATED, ORIGINAL is migrated to a scratch
    folder first. An Apex script runs on amp_shim where Apex is not installed.

    \b
    Exit status:
      0  PASS: all that was compared is the same, but for rounding
      1  FAIL: something is not
      2  usage
      3  INCONCLUSIVE
      4  VACUOUS: no low precision ran, or too few steps were seen
      5  the original script failed
      6  the migrated script failed
      7  only a performance gate was missed
      8  amp-verify itself failed: no verdict
    """
    request = Request(arguments=ctx.meta[_SCRIPT_ARGUMENTS], typed=ctx.meta[_TYPED], **options)
    from amp_migrate.verify.commands.verify import verify

    ctx.exit(_status(lambda: verify(request)))


@main.command(cls=_Passing)
@click.argument("original", metavar="SCRIPT")
@click.option(
    "--steps", type=click.IntRange(min=1), default=3, show_default=True, help="Optimizer steps that are profiled."
)
@click.option("--output", metavar="FILE", default="trace.json", show_default=True, help="Where the trace goes.")
@RUNNING
@click.pass_context
def trace(ctx: click.Context, /, **options: Any) -> None:
    """Show which operation of SCRIPT runs in which dtype, and where the time goes.

    The script runs as it is with ARGS, for a few optimizer steps. The trace can be opened at https://ui.perfetto.dev.
    """
    request = TraceRequest(arguments=ctx.meta[_SCRIPT_ARGUMENTS], **options)
    from amp_migrate.verify.commands.trace import trace

    ctx.exit(_status(lambda: trace(request)))


@main.command(cls=_Passing)
@click.argument("original", metavar="ORIGINAL")
@click.argument("migrated", metavar="[MIGRATED]", required=False)
@COMPARING
@TIMING
@RUNNING
@JSON
@click.option("--sarif", metavar="FILE", help="Write the parts as SARIF, beside the line that calls the model.")
@CACHE
@click.pass_context
def localize(ctx: click.Context, /, **options: Any) -> None:
    """Find the parts of MIGRATED's models that must stay in float32.

    Where MIGRATED fails for precision, it is run again with more and more parts in float32, the most suspected first,
    until it passes, and then with ever fewer: none of the parts that are named can be left out.

    The exit status is the verdict's, as of `amp-verify run`.
    """
    request = LocalizeRequest(arguments=ctx.meta[_SCRIPT_ARGUMENTS], **options)
    from amp_migrate.verify.commands.localize import localize

    ctx.exit(_status(lambda: localize(request)))


@main.command(cls=_Passing)
@click.argument("original", metavar="SCRIPT")
@COMPARING
@TIMING
@RUNNING
@JSON
@CACHE
@click.option("--diff", is_flag=True, help="Show what would be written, and write nothing.")
@click.pass_context
def fix(ctx: click.Context, /, **options: Any) -> None:
    """Migrate SCRIPT so that it passes, and write it.

    It is migrated and verified. Where it fails for precision, the parts of its models that need float32 are looked for,
    and it is migrated with their classes kept in float32; then with the lines whose results left float16's range; then
    in bfloat16, unless --dtype says what to compute in. The first that passes is written, as `amp-migrate` writes, and
    `amp-migrate --undo` takes it back. Where none does, nothing is written.

    The exit status is that of the verdict, as of `amp-verify run`: of the one that passes, else of the first.
    """
    request = FixRequest(arguments=ctx.meta[_SCRIPT_ARGUMENTS], migrated=None, **options)
    from amp_migrate.verify.commands.fix import fix

    ctx.exit(_status(lambda: fix(request)))


@main.command(cls=_Passing)
@click.argument("original", metavar="SCRIPT")
@click.option(
    "--steps",
    type=click.IntRange(min=0),
    default=100,
    show_default=True,
    help="Optimizer steps of the run; 0 runs SCRIPT to its end.",
)
@click.option("--output", metavar="FILE", default="run.json", show_default=True, help="Where the ranges go.")
@RUNNING
@click.pass_context
def profile(ctx: click.Context, /, **options: Any) -> None:
    """Measure the range of what each line of SCRIPT computes in float32, before it is migrated.

    The script runs once with ARGS, with mixed precision off. What leaves float16's range is then kept in float32 by
    `amp-migrate --profile run.json`.
    """
    request = ProfileRequest(arguments=ctx.meta[_SCRIPT_ARGUMENTS], **options)
    from amp_migrate.verify.commands.profile import profile

    ctx.exit(_status(lambda: profile(request)))


@main.command(cls=_Passing)
@click.argument("original", metavar="SCRIPT")
@click.option("--steps", type=click.IntRange(min=1), default=20, show_default=True, help="Optimizer steps per run.")
@RUNNING
@JSON
@click.pass_context
def doctor(ctx: click.Context, /, **options: Any) -> None:
    """Say what SCRIPT can gain from mixed precision on this machine, and what keeps it from that.

    Each cause comes with its measurement. Without a GPU, those that need one are named, and the others are made.
    """
    request = DoctorRequest(arguments=ctx.meta[_SCRIPT_ARGUMENTS], **options)
    from amp_migrate.verify.commands.doctor import doctor

    ctx.exit(_status(lambda: doctor(request)))


@main.command(cls=_Passing)
@click.argument("original", metavar="SCRIPT")
@click.option("--arg", metavar="WORDS", help="How SCRIPT takes its batch size: '--batch-size {}'; on a GPU only.")
@click.option("--start", type=click.IntRange(min=1), default=8, show_default=True, help="The first batch size tried.")
@DTYPE
@TIMING
@RUNNING
@JSON
@click.pass_context
def tune(ctx: click.Context, /, **options: Any) -> None:
    """Time ways to run SCRIPT faster, each on SCRIPT itself, and rank them.

    On a GPU these are channels_last, fused optimizers, torch.compile and mixed precision; with --arg the largest batch
    that fits is looked for, too. On a CPU only channels_last and fused optimizers are timed: the rest would say nothing
    about a GPU.
    """
    request = TuneRequest(arguments=ctx.meta[_SCRIPT_ARGUMENTS], **options)
    from amp_migrate.verify.commands.tune import tune_script

    ctx.exit(_status(lambda: tune_script(request)))


def _status(work: Callable[[], int]) -> int:
    """The exit status of a command: its verdict's, or that of what kept it from one."""
    from amp_migrate.verify import fault
    from amp_migrate.verify.usage import UsageError

    try:
        return work()
    except UsageError as error:
        click.echo(f"amp-verify: {error}", err=True)
        return _USAGE
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except Exception as error:
        click.echo(f"amp-verify: {fault.describe(error)}", err=True)
        return fault.STATUS


def _end(number: int, frame: FrameType | None) -> NoReturn:
    sys.exit(128 + number)
