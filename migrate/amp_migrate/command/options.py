"""The options of `amp-migrate`: what each takes, and what those do that show something and end."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import click

from amp_migrate.command.config import ConfigError, find_config
from amp_migrate.command.profile import ProfileError, read_profile
from amp_migrate.report.fail_on import FailOn
from amp_migrate.report.formats import Format
from amp_migrate.settings import DEFAULT_TORCH, DEVICE_TYPES, OLDEST_TORCH, Apex, Dtype, Measured
from amp_migrate.tables.signatures import written

_Options: TypeAlias = tuple[Callable[..., Any], ...]
PathIgnore: TypeAlias = tuple[str, tuple[str, ...]]

# Where the context keeps the folder of the project's settings.
CONFIG_FOLDER = "amp_migrate.config_folder"


def _print_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if not wanted or context.resilient_parsing:
        return
    from amp_migrate import __version__

    click.echo(f"amp-migrate {__version__}")
    context.exit()


def _explain(context: click.Context, parameter: click.Parameter, code: str | None) -> None:
    if code is None or context.resilient_parsing:
        return
    from amp_migrate.report.rules.rules_text import page
    from amp_migrate.rulebook import nearest_rule

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
    context.meta[CONFIG_FOLDER] = config.folder
    return paths


def _torch_version(value: str | tuple[int, int]) -> tuple[int, int]:
    if isinstance(value, tuple):  # read from the project's settings already
        return value
    match = re.fullmatch(r"(\d+)\.(\d+)(\.\d+)*", value)
    if match is None:
        raise click.BadParameter(f"{value!r} is not a version of PyTorch such as 2.1")
    version = int(match[1]), int(match[2])
    if version < OLDEST_TORCH:
        raise click.BadParameter(f"torch.amp came with PyTorch {written(OLDEST_TORCH)}, which is the oldest target")
    return version


def _kinds(_: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> tuple[FailOn, ...]:
    names = [name.strip() for value in values for name in value.split(",")]
    for name in names:
        if name not in list(FailOn):
            known = ", ".join(each.value for each in FailOn)
            raise click.BadParameter(f"{name!r} is not one of {known}", param=parameter)
    return tuple(map(FailOn, names))


def _path_ignores(_: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> tuple[PathIgnore, ...]:
    found = []
    for value in values:
        pattern, colon, codes = value.rpartition(":")
        if not pattern or not colon:
            raise click.BadParameter(f"{value!r} is not a pattern and codes, as in 'tests/:AMP5'", param=parameter)
        found.append((pattern, _codes(_, parameter, (codes,))))
    return tuple(found)


def _codes(_: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    codes = tuple(code.strip() for value in values for code in value.split(","))
    for code in codes:
        if not re.fullmatch(r"AMP\d{0,3}", code):
            raise click.BadParameter(f"{code!r} is not AMP and up to three digits", param=parameter)
    return codes


def _classes(_: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for value in values for name in value.split(",")))
    for name in names:
        if not name.isidentifier():
            raise click.BadParameter(f"{name!r} is not the name of a class", param=parameter)
    return names


def _profile(_: click.Context, __: click.Parameter, file: str | None) -> tuple[Measured, ...]:
    try:
        return () if file is None else read_profile(Path(file))
    except ProfileError as error:
        raise click.UsageError(f"--profile {error}") from None


# Before all others, because they say which project's settings hold.
_PROJECT: _Options = (
    click.option(
        "--stdin-filename",
        metavar="FILE",
        is_eager=True,
        help="With `-`: the name of what comes in, for its project's settings, for the report, and for notebooks.",
    ),
    click.argument("paths", nargs=-1, metavar="PATH...", is_eager=True, callback=_read_config),
)
_MODES: _Options = (
    click.option("--diff", is_flag=True, help="Print the changes as a diff that `git apply` takes; write nothing."),
    click.option("--check", is_flag=True, help="Write nothing; exit with 1 if anything would change."),
    click.option(
        "--explain-plan",
        is_flag=True,
        help="Print every edit that would be made, with the rule behind it; write nothing.",
    ),
    click.option(
        "--fail-on",
        multiple=True,
        metavar="KIND",
        callback=_kinds,
        help="Exit with 1 for these kinds of findings: change, hazard, left or note, separated by commas.  "
        "[default: change with --check, else none]",
    ),
)
_TARGETS: _Options = (
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
        type=_torch_version,
        metavar="VERSION",
        help="The oldest PyTorch that the code must run on, as 2.1: what it lacks keeps its old spelling.  "
        f"[default: what the project's requirements ask for, else {written(DEFAULT_TORCH)}]",
    ),
    click.option(
        "--apex",
        type=click.Choice([apex.value for apex in Apex]),
        default=Apex.AUTO.value,
        show_default=True,
        help="Where Apex scripts go: native AMP, amp_shim, or auto: native where it is right, else amp_shim.",
    ),
    click.option(
        "--apex-o2",
        type=click.Choice([Apex.NATIVE.value, Apex.SHIM.value]),
        default=Apex.NATIVE.value,
        show_default=True,
        help="What opt levels O2 and O3 become: float32 weights under autocast, or float16 weights on amp_shim.",
    ),
)
_ADDITIONS: _Options = (
    click.option(
        "--only-deprecated",
        is_flag=True,
        help="Change nothing but names that PyTorch has deprecated, as --select AMP1: what is computed stays as it is.",
    ),
    click.option(
        "--unsafe",
        is_flag=True,
        help="Also repair AMP that is wrong and works somehow, where there is one right way: gradients that are "
        "clipped before unscale_(). Training will not be the same.",
    ),
    click.option(
        "--keep-float32",
        multiple=True,
        metavar="CLASS",
        callback=_classes,
        help="Let modules of this class compute in float32 inside every region; `amp-verify localize` says which need "
        "it. May be given several times.",
    ),
    click.option(
        "--profile",
        metavar="FILE",
        callback=_profile,
        help="Keep in float32 what left float16's range in a run of the script in float32, by the record that "
        "`amp-verify profile --output FILE` wrote of it.",
    ),
    click.option(
        "--prove",
        is_flag=True,
        help="Refuse what cannot be shown for every cast and every set of installed packages, too, and say of each "
        "file what was checked.",
    ),
    click.option(
        "--annotate",
        is_flag=True,
        help="Put a comment with the reason above what is left as it was.",
    ),
    click.option(
        "--add-flag",
        is_flag=True,
        help="Give the script's argparse, click or typer command line an option --amp/--no-amp that switches what "
        "is moved from plain float32.",
    ),
)
_COPIES: _Options = (
    click.option(
        "-o",
        "--output",
        metavar="FILE|DIR",
        help="Write a copy of all Python files, migrated, and leave the originals alone.",
    ),
    click.option(
        "--compare",
        is_flag=True,
        help="Say whether two files or folders, OLD and NEW, are the same program but for precision; write nothing.",
    ),
    click.option(
        "--undo",
        is_flag=True,
        help="Give the files that the latest run changed their original bytes again: those that are named, or else all "
        "of the run. With --diff, show it only.",
    ),
)
_REPORT: _Options = (
    click.option(
        "--select",
        multiple=True,
        metavar="CODE",
        callback=_codes,
        help="Apply only these rules: codes or their beginnings, as AMP101 or AMP1, separated by commas.",
    ),
    click.option("--ignore", multiple=True, metavar="CODE", callback=_codes, help="Do not apply these rules."),
    click.option(
        "--per-path-ignores",
        multiple=True,
        metavar="PATTERN:CODE",
        callback=_path_ignores,
        help="Do not apply these rules in files that match. May be given several times.",
    ),
    click.option(
        "--format",
        "form",
        type=click.Choice([form.value for form in Format]),
        default=Format.TEXT.value,
        show_default=True,
        help="How to report what was done and what was left.",
    ),
    click.option(
        "--statistics",
        is_flag=True,
        help="Tell how much was read, parsed and planned, and how many findings there are of each rule.",
    ),
    click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors, and the diff with --diff."),
)
_FILES: _Options = (
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
        "--python",
        type=click.Path(),
        metavar="PATH",
        help="Also read the packages that are installed for this interpreter, or in this environment, where a script "
        "uses them: what low precision does in them is told then. They are never changed.",
    ),
    click.option(
        "--workers",
        type=click.IntRange(min=1),
        metavar="N",
        help="Use at most N processes.  [default: one for each processor]",
    ),
)
_SHOWN: _Options = (
    click.option(
        "--language-server",
        is_flag=True,
        help="Serve an editor over standard input and output: findings when a file is opened or saved, with quick "
        "fixes. Needs amp-migrate[lsp].",
    ),
    click.option(
        "--list-rules",
        is_flag=True,
        help="Show all rules: code, name, safety and what each finds; as text, json or markdown by --format.",
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


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command with all options and its paths."""
    options = (*_PROJECT, *_MODES, *_TARGETS, *_ADDITIONS, *_COPIES, *_REPORT, *_FILES, *_SHOWN)
    for option in reversed(options):
        command = option(command)
    return command
