"""`amp-verify`: run a training script before and after its migration, and say whether it still trains the same.

Nothing heavy is imported before it is needed, and torch never: it runs in the scripts' own processes.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

import click

from amp_migrate import __version__
from amp_migrate.settings import Dtype

if TYPE_CHECKING:
    from amp_migrate.verify.outcome import Outcome

_USAGE = 2
_SCRIPT_ARGUMENTS = "amp_verify.script_arguments"


class _Passing(click.Command):
    """A command that hands everything after `--` to the scripts, unread."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        cut = args.index("--") if "--" in args else len(args)
        ctx.meta[_SCRIPT_ARGUMENTS] = tuple(args[cut + 1 :])
        return super().parse_args(ctx, args[:cut])

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- ARGS...]"]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="amp-verify")
def main() -> None:
    """Prove that a migrated training script still trains the same."""


@dataclass(frozen=True)
class Request:
    """What the user asked for, as it was said."""

    original: str
    migrated: str | None
    arguments: tuple[str, ...]
    dtype: str
    device: str
    python: str
    launch: str | None
    synthetic_data: bool
    steps: int
    timeout: float
    isolate: str
    jobs: int | None
    fork: bool | None
    seeds: int | None
    strict: bool
    tolerance: float
    train_steps: int
    timing_runs: int
    timing_steps: int
    min_speedup: float | None
    max_memory_ratio: float | None
    json: str | None
    report: str | None
    junit: str | None
    cache: str | None
    work: str | None


@main.command(cls=_Passing)
@click.argument("original", metavar="ORIGINAL")
@click.argument("migrated", metavar="[MIGRATED]", required=False)
@click.option(
    "--dtype",
    type=click.Choice([dtype.value for dtype in Dtype]),
    default="fp16",
    show_default=True,
    help="What to migrate to where MIGRATED is missing.",
)
@click.option(
    "--device",
    type=click.Choice(["auto", "cuda", "cpu"]),
    default="auto",
    show_default=True,
    help="cpu: a CPU stands in for the GPU, with CUDA's casts; auto: where there is no GPU.",
)
@click.option("--python", default=sys.executable, show_default="this one", help="Interpreter that runs the scripts.")
@click.option(
    "--launch",
    metavar="WORDS",
    help="What starts the scripts: 'torchrun --nproc-per-node 2', 'accelerate launch'.",
)
@click.option(
    "--synthetic-data",
    is_flag=True,
    help="Make up torchvision data sets that are not on disk; nothing is downloaded.",
)
@click.option(
    "--steps",
    type=click.IntRange(min=0),
    default=20,
    show_default=True,
    help="Optimizer steps per run; 0 runs the scripts to their end.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=600,
    show_default=True,
    metavar="SECONDS",
    help="Time limit per run; 0 for none.",
)
@click.option(
    "--isolate",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    help="Give each run a copy of the working folder; auto: where it is small.",
)
@click.option(
    "--jobs", type=click.IntRange(min=1), show_default="2; 1 in a shared folder or on a GPU", help="Runs at a time."
)
@click.option(
    "--fork/--no-fork",
    default=None,
    help="Fork runs from one process that has imported torch, or start each afresh; "
    "by default they are forked where a CPU stands in for the GPU.",
)
@click.option(
    "--seeds",
    type=click.IntRange(min=3),
    help="Train both to the end over so many paired seeds, 5 for a start; more where they leave it open.",
)
@click.option("--strict", is_flag=True, help="With --seeds: one spread between seeds is the margin, not two.")
@click.option(
    "--tolerance",
    type=click.FloatRange(min=0),
    default=0.0,
    metavar="SHARE",
    help="With --seeds: a difference up to this share of the value is none.",
)
@click.option(
    "--train-steps",
    type=click.IntRange(min=0),
    default=0,
    help="With --seeds: optimizer steps per training.",
    show_default="all",
)
@click.option(
    "--timing-runs",
    type=click.IntRange(min=0),
    default=3,
    show_default=True,
    help="Pairs of runs that are timed, on a GPU.",
)
@click.option(
    "--timing-steps",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="Optimizer steps per timed run.",
)
@click.option("--min-speedup", type=float, metavar="RATIO", help="Exit 7 where the step time does not fall this much.")
@click.option("--max-memory-ratio", type=float, metavar="RATIO", help="Exit 7 where peak memory is more than this.")
@click.option("--json", metavar="FILE", help="Write the verdict and its numbers as JSON.")
@click.option("--report", metavar="FILE", help="Write a self-contained HTML report.")
@click.option("--junit", metavar="FILE", help="Write the checks as JUnit XML.")
@click.option("--cache", metavar="DIR", help="Keep the original's runs here, and make only those that are missing.")
@click.option("--work", metavar="DIR", help="Keep every run's logs and traces in this new folder.")
@click.pass_context
def run(ctx: click.Context, /, **options: Any) -> None:
    """Run ORIGINAL and MIGRATED with ARGS and compare them.

    Both run unmodified, several times, in processes of their own. Without MIGRATED, ORIGINAL is migrated to a scratch
    folder first. An Apex script runs on amp_shim where Apex is not installed.

    \b
    Exit status:
      0  PASS: trains like the original within measured noise
      1  FAIL: it does not
      2  usage
      3  INCONCLUSIVE
      4  VACUOUS: no low precision ran, or too few steps were seen
      5  the original script failed
      6  the migrated script failed
      7  only a performance gate was missed
      8  amp-verify itself failed: no verdict
    """
    request = Request(arguments=ctx.meta[_SCRIPT_ARGUMENTS], **options)
    signal.signal(signal.SIGTERM, _end)
    ctx.exit(_status(lambda: _verify(request)))


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


def _verify(request: Request) -> int:
    from amp_migrate.verify import as_text, fault, prepare
    from amp_migrate.verify.usage import UsageError
    from amp_migrate.verify.verdict import Verdict

    prepare.can_report(request.report)
    scratch = prepare.scratch(request.work)
    keep = True
    try:
        outcome = _outcome(request, scratch)
        keep = request.work is not None or outcome.assessment.verdict is not Verdict.PASS
        as_text.show(outcome)
        _write_files(request, outcome)
        return outcome.assessment.verdict.value
    except UsageError:
        keep = request.work is not None
        raise
    except Exception as error:
        fault.keep(error, scratch)
        raise
    finally:
        if keep:
            click.echo(f"logs and traces: {scratch}", err=True)
        else:
            shutil.rmtree(scratch, ignore_errors=True)


def _outcome(request: Request, scratch: Path) -> Outcome:
    from amp_migrate.verify import as_text, folders, forks, prepare
    from amp_migrate.verify.cache import open_cache
    from amp_migrate.verify.convergence import SPREADS, STRICT_SPREADS, Tolerance
    from amp_migrate.verify.ladder import climb, train_whole
    from amp_migrate.verify.outcome import Outcome
    from amp_migrate.verify.plan import Arm
    from amp_migrate.verify.pool import Pool
    from amp_migrate.verify.setup import Setup
    from amp_migrate.verify.usage import UsageError
    from amp_migrate.verify.verdict import Limits, Verdict, assess

    original, python, cwd = prepare.script(request.original), prepare.interpreter(request.python), Path.cwd()
    if request.migrated is None:
        migrated, findings = prepare.migrate(original, Dtype(request.dtype), scratch / "migrated")
        for finding in findings:
            click.echo(finding, err=True)
    else:
        migrated, findings = prepare.script(request.migrated), ()
    isolated = request.isolate == "always" or (request.isolate == "auto" and folders.copyable(cwd))
    setup = Setup(
        scripts={Arm.ORIGINAL: original, Arm.MIGRATED: migrated},
        arguments=request.arguments,
        python=python,
        launch=prepare.launcher(request.launch, python) if request.launch is not None else (),
        synthetic=request.synthetic_data,
        cwd=cwd,
        copy_cwd=isolated,
        scratch=scratch,
        shim=prepare.shim_folder(),
        device=request.device,
        steps=request.steps,
        whole_steps=request.train_steps,
        timing_steps=request.timing_steps,
        timeout=request.timeout,
        jobs=prepare.jobs(request.jobs, isolated, request.device),
        forked=request.launch is None and (forks.possible(request.device) if request.fork is None else request.fork),
    )
    pool = Pool(setup, lambda result: click.echo(as_text.progress(result), err=True))
    if request.cache is not None:
        folder = prepare.cache(request.cache)
        written = (request.json, request.report, request.junit)
        ours = [scratch, *(Path(os.path.abspath(path)) for path in written if path is not None)]
        pool.cache = open_cache(folder, setup, pool.threads, ours)
    evidence = climb(pool, request.timing_runs)
    if evidence.original.trace.refused:
        raise UsageError(evidence.original.trace.refused)
    limits = Limits(request.min_speedup, request.max_memory_ratio)
    tolerance = Tolerance(STRICT_SPREADS if request.strict else SPREADS, request.tolerance)
    assessment = assess(evidence, limits, tolerance)
    if request.seeds and assessment.verdict in (Verdict.PASS, Verdict.TOO_SLOW):
        evidence = train_whole(pool, evidence, request.seeds, tolerance)
        assessment = assess(evidence, limits, tolerance)
    return Outcome(setup, evidence, assessment, findings)


def _write_files(request: Request, outcome: Outcome) -> None:
    from amp_migrate.verify import as_github, as_json, as_junit, prepare

    if annotation := as_github.tell(outcome, os.environ):
        click.echo(annotation)
    if request.junit is not None:
        prepare.write("--junit", request.junit, as_junit.render(outcome))
    if request.json is not None:
        prepare.write("--json", request.json, as_json.render(outcome))
    if request.report is not None:
        from amp_migrate.verify import as_html  # imports matplotlib

        prepare.write("--report", request.report, as_html.render(outcome))
        click.echo(f"report: {request.report}", err=True)
