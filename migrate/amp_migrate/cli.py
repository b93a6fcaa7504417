"""`amp-migrate`: the command line."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from amp_migrate.config import ConfigError, find_config
from amp_migrate.report.formats import Format
from amp_migrate.settings import DEVICE_TYPES, NEWEST_TORCH, OLDEST_TORCH, Dtype, Settings

EPILOG = """\b
Exit codes:
  0  nothing to do, or all that could be done was done; what was left as it was does not count
  1  --check: something would change
  2  wrong usage, or a file that could not be read, parsed or written; the others were still done

Every option but those that ask for one run (--diff, --check, --output, --undo) can be set for a project, under its long
name, in the table [tool.amp-migrate] of pyproject.toml. Patterns are those of .gitignore.
"""
_CONFIG_FOLDER = "amp_migrate.config_folder"


def _print_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if not wanted or context.resilient_parsing:
        return
    from amp_migrate import __version__

    click.echo(f"amp-migrate {__version__}")
    context.exit()


def _list_rules(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if not wanted or context.resilient_parsing:
        return
    from amp_migrate.report.rules_text import table
    from amp_migrate.rules.rule import all_rules

    click.echo(table(all_rules()), nl=False)
    context.exit()


def _explain(context: click.Context, parameter: click.Parameter, code: str | None) -> None:
    if code is None or context.resilient_parsing:
        return
    from amp_migrate.report.rules_text import page
    from amp_migrate.rules.rule import nearest_rule

    rule = nearest_rule(code.upper())
    if rule.code != code.upper():
        message = f"no rule has the code {code!r}; the nearest is {rule.code}, and --list-rules shows all"
        raise click.BadParameter(message, param=parameter)
    click.echo(page(rule), nl=False)
    context.exit()


def _read_config(context: click.Context, _: click.Parameter, paths: tuple[str, ...]) -> tuple[str, ...]:
    """Make the project's settings the defaults of all other options."""
    if context.resilient_parsing:  # a shell completes the line: nothing is to be said about it
        return paths
    # Options are processed before arguments, so that this one is known already.
    named = [*(path for path in paths if path != "-"), *filter(None, [context.params.get("stdin_filename")])]
    try:
        config = find_config([Path(name) for name in named or ["."]], context)
    except ConfigError as error:
        raise click.UsageError(str(error)) from None
    context.default_map = dict(config.options)
    context.meta[_CONFIG_FOLDER] = config.folder
    return paths


class _TorchVersion(click.ParamType[Any]):
    name = "version"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, tuple):  # read from the project's settings already
            return value
        match = re.fullmatch(r"(\d+)\.(\d+)(\.\d+)*", value)
        if match is None:
            self.fail(f"{value!r} is not a version of PyTorch such as 2.1", param, ctx)
        version = int(match[1]), int(match[2])
        if version < OLDEST_TORCH:
            self.fail(f"torch.amp came with PyTorch {_dotted(OLDEST_TORCH)}, which is the oldest target", param, ctx)
        return version


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))


def _settings(options: Mapping[str, Any]) -> Settings:
    settings = Settings(
        Dtype(options["dtype"]),
        select=options["select"],
        ignore=options["ignore"],
        target_torch=options["target_torch"],
        device_type=options["device_type"],
        annotate=options["annotate"],
    )
    device = settings.device_type
    if device != "cuda" and settings.dtype is Dtype.AUTO:
        raise click.UsageError(f"--dtype auto asks a CUDA GPU what it has; name fp16 or bf16 for {device}")
    if device != "cuda" and settings.dtype is Dtype.FP16 and settings.target_torch < (2, 3):
        raise click.UsageError(f"a GradScaler for {device} came with PyTorch 2.3; use --dtype bf16 or a newer target")
    return settings


def _codes(_: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    codes = tuple(code.strip() for value in values for code in value.split(","))
    for code in codes:
        if not re.fullmatch(r"AMP\d{0,3}", code):
            raise click.BadParameter(f"{code!r} is not AMP and up to three digits", param=parameter)
    return codes


def _options(command: Callable[..., None]) -> Callable[..., None]:
    options: tuple[Callable[..., Any], ...] = (
        # These two before all others, because they say which project's settings hold.
        click.option(
            "--stdin-filename",
            metavar="FILE",
            is_eager=True,
            help="With `-`: the name of what comes in, for its project's settings, for the report, and for notebooks.",
        ),
        click.argument("paths", nargs=-1, metavar="PATH...", is_eager=True, callback=_read_config),
        click.option("--diff", is_flag=True, help="Print the changes as a diff that `git apply` takes; write nothing."),
        click.option("--check", is_flag=True, help="Write nothing; exit with 1 if anything would change."),
        click.option(
            "--dtype",
            type=click.Choice([dtype.value for dtype in Dtype]),
            default=Dtype.FP16.value,
            show_default=True,
            help="What migrated code computes in: fp16 with a GradScaler, bf16 without, or auto: bf16 where the GPU "
            "has it.",
        ),
        click.option(
            "--device-type",
            type=click.Choice(DEVICE_TYPES),
            default="cuda",
            show_default=True,
            help="The device that new regions and scalers are for.",
        ),
        click.option(
            "--target-torch",
            type=_TorchVersion(),
            metavar="VERSION",
            default=_dotted(NEWEST_TORCH),
            show_default="the newest",
            help="The oldest PyTorch that the code must run on, as 2.1: what it lacks keeps its old spelling.",
        ),
        click.option(
            "--annotate",
            is_flag=True,
            help="Put a comment with the reason above what is left as it was.",
        ),
        click.option(
            "-o",
            "--output",
            metavar="FILE|DIR",
            help="Write a copy of all Python files, migrated, and leave the originals alone.",
        ),
        click.option(
            "--undo", is_flag=True, help="Give the files that the latest run changed their original bytes again."
        ),
        click.option(
            "--select",
            multiple=True,
            metavar="CODE",
            callback=_codes,
            help="Apply only these rules: codes or their beginnings, as AMP101 or AMP1, separated by commas.",
        ),
        click.option("--ignore", multiple=True, metavar="CODE", callback=_codes, help="Do not apply these rules."),
        click.option(
            "--format",
            "form",
            type=click.Choice([form.value for form in Format]),
            default=Format.TEXT.value,
            show_default=True,
            help="How to report what was done and what was left.",
        ),
        click.option(
            "--include",
            multiple=True,
            metavar="PATTERN",
            help="Take only files that match, instead of all Python files. May be given several times.",
        ),
        click.option(
            "--exclude",
            multiple=True,
            metavar="PATTERN",
            help="Pass over matching files and folders, besides .git, .venv, build and the like.",
        ),
        click.option(
            "--gitignore/--no-gitignore",
            default=True,
            show_default=True,
            help="Pass over what git ignores.",
        ),
        click.option(
            "--workers",
            type=click.IntRange(min=1),
            metavar="N",
            help="Use at most N processes.  [default: one for each processor]",
        ),
        click.option(
            "--list-rules",
            is_flag=True,
            expose_value=False,
            is_eager=True,
            callback=_list_rules,
            help="Show all rules: code, name, safety and what each finds.",
        ),
        click.option(
            "--explain",
            metavar="CODE",
            expose_value=False,
            is_eager=True,
            callback=_explain,
            help="Show the page of one rule: what it finds, why, and an example.",
        ),
        click.option(
            "--version",
            is_flag=True,
            expose_value=False,
            is_eager=True,
            callback=_print_version,
            help="Show the version.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.command(epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@_options
@click.pass_context
def command(context: click.Context, /, **options: Any) -> None:
    """Move PyTorch training code to torch.amp: plain float32 loops, Apex, and the deprecated torch.cuda.amp.

    Each PATH is a Python file, a folder to search, or `-` for standard input to standard output. Files are rewritten
    in place, and what was done and what was left as it was is printed.
    """
    paths, output = options["paths"], options["output"]
    if options["undo"]:
        from amp_migrate.run import undo

        if options["diff"] or options["check"] or output is not None or "-" in paths:
            raise click.UsageError("--undo goes with nothing but a file or folder of the project")
        sys.exit(undo([Path(path) for path in paths] or [Path()]))
    if not paths:
        raise click.UsageError("name a file or a folder; `amp-migrate .` takes the current folder")
    if output is not None and (options["diff"] or options["check"]):
        raise click.UsageError("--output writes files; --diff and --check write none")
    if "-" in paths and (len(paths) > 1 or output is not None):
        raise click.UsageError("`-` stands alone: it reads standard input and writes standard output")
    if options["stdin_filename"] is not None and "-" not in paths:
        raise click.UsageError("--stdin-filename goes with `-`")
    from amp_migrate.engine.apply import is_original
    from amp_migrate.engine.parts import default_workers
    from amp_migrate.engine.scope import Scope
    from amp_migrate.run import Request, execute

    named = tuple(Path(path) for path in paths if path != "-")
    if output is not None and is_original(named, output):
        raise click.UsageError("--output names the original; leave it out to rewrite in place")
    request = Request(
        paths=named,
        settings=_settings(options),
        scope=Scope(
            include=options["include"],
            exclude=options["exclude"],
            base=context.meta[_CONFIG_FOLDER] or Path(),
            gitignore=options["gitignore"],
            without=None if output is None else Path(output),
        ),
        diff=options["diff"],
        check=options["check"],
        output=output,
        form=Format(options["form"]),
        workers=options["workers"] or default_workers(),
        stdin_name=options["stdin_filename"] or "<stdin>",
    )
    try:
        sys.exit(execute(request))
    except BrokenPipeError:
        # The reader of our output went away, as `head` does. Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)  # what a shell shows for a SIGPIPE


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
        click.echo("interrupted: the files are as they were", err=True)
        sys.exit(130)  # and for a SIGINT
