"""`amp-migrate`: the command line."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from amp_migrate.command.config import common_folder
from amp_migrate.command.declared_torch import declared_packages, target_for
from amp_migrate.command.options import CONFIG_FOLDER, with_options
from amp_migrate.environment import Environment, NoEnvironment, environment_of
from amp_migrate.path_ignores import PathIgnores
from amp_migrate.report.fail_on import FailOn
from amp_migrate.report.formats import Format
from amp_migrate.report.plain import plain
from amp_migrate.settings import CUSTOM_FWD, DEPRECATED, Apex, Dtype, Settings
from amp_migrate.stack import with_room

EPILOG = """\b
Exit codes:
  0  nothing to do, or all that could be done was done; what was left as it was does not count
  1  --check: something would change; --fail-on: there is a finding of that kind; --compare: not the same program
  2  wrong usage, or a file that could not be read, parsed or written; the others were still done

Every option but those that ask for one run (--diff, --check, --explain-plan, --output, --undo, --compare, --profile)
can be set for a project, under its long name, in the table [tool.amp-migrate] of pyproject.toml. Patterns are those of
.gitignore.
"""


def settings_of(options: Mapping[str, Any], base: Path | None) -> tuple[Settings, str]:
    """How to migrate by the values of all options, and where the target's PyTorch comes from; empty where it was said.

    Args:
        base: the folder of the project's settings; None where no project sets anything.

    Raises UsageError where options do not go together.
    """
    target, said = options["target_torch"], ""
    paths = [*(path for path in options["paths"] if path != "-"), *filter(None, [options["stdin_filename"]])]
    folder = common_folder([Path(path) for path in paths or ["."]])
    if target is None:
        target, said = target_for(folder)
    dtype, kept, measured = Dtype(options["dtype"]), options["keep_float32"], options["profile"]
    if dtype is Dtype.BF16:
        measured = ()  # it has float32's range
    elif target >= CUSTOM_FWD:
        kept = tuple(dict.fromkeys([*kept, *(each.owner for each in measured if each.owner)]))
        measured = tuple(each for each in measured if not each.owner)
    settings = Settings(
        dtype,
        select=DEPRECATED if options["only_deprecated"] else options["select"],
        ignore=options["ignore"],
        path_ignores=PathIgnores(options["per_path_ignores"], base or Path()),
        target_torch=target,
        packages=declared_packages(folder),
        device_type=options["device_type"],
        unsafe=options["unsafe"],
        annotate=options["annotate"],
        add_flag=options["add_flag"],
        keep_float32=kept,
        measured=measured,
        prove=options["prove"],
        explain=options["explain_plan"],
        environment=_environment(options["python"]),
        apex=Apex(options["apex"]),
        apex_o2=Apex(options["apex_o2"]),
    )
    device = settings.device_type
    if device != "cuda" and settings.dtype is Dtype.AUTO:
        raise click.UsageError(f"--dtype auto asks a CUDA GPU what it has; name fp16 or bf16 for {device}")
    if why_not := settings.too_new_for(settings.target_torch):
        raise click.UsageError(why_not)
    return settings, said


def _environment(path: str | None) -> Environment | None:
    """What is installed for an interpreter.

    Raises UsageError where it is none.
    """
    try:
        return None if path is None else environment_of(Path(path))
    except NoEnvironment as error:
        raise click.UsageError(f"--python {path}: {error}") from None


def _chosen(context: click.Context, options: Mapping[str, Any]) -> Mapping[str, Any]:
    """The options, of two that say which rules apply the one that was given on the command line.

    Raises UsageError where both are in one place.
    """
    if not (options["only_deprecated"] and options["select"]):
        return options
    preset, select = (
        context.get_parameter_source(name) is ParameterSource.COMMANDLINE for name in ("only_deprecated", "select")
    )
    if preset == select:
        raise click.UsageError(f"--only-deprecated is --select {','.join(DEPRECATED)}: name one of the two")
    return {**options, "only_deprecated": preset}


def _check(options: Mapping[str, Any]) -> None:
    """Raise UsageError where options do not go together."""
    paths, output = options["paths"], options["output"]
    if options["quiet"] and options["form"] != Format.TEXT.value:
        raise click.UsageError(f"--quiet leaves the report out, which --format {options['form']} is to give a form to")
    if options["statistics"] and (options["quiet"] or options["form"] not in (Format.TEXT.value, Format.JSON.value)):
        raise click.UsageError("--statistics are told in a report of --format text or json")
    if options["undo"]:
        if options["check"] or options["explain_plan"] or output is not None or "-" in paths:
            raise click.UsageError("--undo goes with files and folders, and with --diff to see what it would do")
        return
    if options["compare"]:
        others = ("diff", "check", "explain_plan", "output")
        if len(paths) != 2 or "-" in paths or any(options[each] for each in others):
            raise click.UsageError("--compare goes with two files or two folders, OLD and NEW, and with nothing else")
        return
    if not paths:
        raise click.UsageError("name a file or a folder; `amp-migrate .` takes the current folder")
    if output is not None and (options["diff"] or options["check"] or options["explain_plan"]):
        raise click.UsageError("--output writes files; --diff, --check and --explain-plan write none")
    if options["explain_plan"] and options["diff"]:
        raise click.UsageError("--explain-plan and --diff each print something else of the same changes; take one")
    if "-" in paths and (len(paths) > 1 or output is not None):
        raise click.UsageError("`-` stands alone: it reads standard input and writes standard output")
    if options["stdin_filename"] is not None and "-" not in paths:
        raise click.UsageError("--stdin-filename goes with `-`")


def _listed_rules(form: Format) -> str:
    from amp_migrate.report.rules import rules_json, rules_markdown, rules_text
    from amp_migrate.rulebook import all_rules

    if form is Format.JSON:
        return rules_json.table(all_rules())
    if form is Format.MARKDOWN:
        return rules_markdown.table(all_rules(), "docs/rules.md")
    if form is Format.TEXT:
        return rules_text.table(all_rules())
    raise click.UsageError(f"--list-rules has no form {form.value}; use text, json or markdown")


def _serve() -> None:
    if find_spec("pygls") is None:
        raise click.UsageError("--language-server needs pygls: pip install 'amp-migrate[lsp]'")
    from amp_migrate.command.language_server import make_server

    gc.enable()
    make_server(project_settings).start_io()


@click.command(epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@with_options
@click.pass_context
def command(context: click.Context, /, **options: Any) -> None:
    """Move PyTorch training code to torch.amp: plain float32 loops, Apex, and the deprecated torch.cuda.amp.

    Each PATH is a Python file, a folder to search, or `-` for standard input to standard output. Files are rewritten
    in place, and what was done and what was left as it was is printed.
    """
    if options["list_rules"]:
        click.echo(_listed_rules(Format(options["form"])), nl=False)
        return
    if options["language_server"]:
        _serve()
        return
    options = dict(_chosen(context, options))
    _check(options)
    paths, output = options["paths"], options["output"]
    if options["undo"]:
        from amp_migrate.command.undo_runs import execute as undo

        sys.exit(undo([Path(path) for path in paths], diff=options["diff"]))
    if options["compare"]:
        from amp_migrate.command.compare_versions import execute as compare

        sys.exit(compare(Path(paths[0]), Path(paths[1]), settings_of(options, context.meta[CONFIG_FOLDER])[0]))
    from amp_migrate.command.run import MigrationRequest, execute
    from amp_migrate.engine.disk.apply import is_original
    from amp_migrate.engine.find.selection import Selection
    from amp_migrate.engine.parts.in_parts import default_workers

    named = tuple(Path(path) for path in paths if path != "-")
    if output is not None and is_original(named, output):
        raise click.UsageError("--output names the original; leave it out to rewrite in place")
    settings, target_said = settings_of(options, context.meta[CONFIG_FOLDER])
    request = MigrationRequest(
        paths=named,
        settings=settings,
        scope=Selection(
            include=options["include"],
            exclude=options["exclude"],
            base=context.meta[CONFIG_FOLDER] or Path(),
            gitignore=options["gitignore"],
            without=None if output is None else Path(output),
        ),
        diff=options["diff"],
        check=options["check"],
        target_said=target_said,
        target_folder=None if options["target_torch"] is not None else common_folder([*named] or [Path()]),
        fail_on=options["fail_on"] or ((FailOn.CHANGE,) if options["check"] else ()),
        statistics=options["statistics"],
        quiet=options["quiet"],
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


def project_settings(path: Path, *words: str) -> Settings:
    """How `amp-migrate` would migrate a file, given more words of its command line: as its project sets it.

    Raises UsageError where the project's settings cannot be used.
    """
    context = command.make_context("amp-migrate", [*words, "--", str(path)])
    settings, _ = settings_of(_chosen(context, context.params), context.meta[CONFIG_FOLDER])
    return settings


def main() -> None:
    """The command, with its exit code; what interrupts it is the caller's to tell.

    What it leaves behind is looked at between the parts of a project, and goes with the process: to look for garbage
    in the trees of a large project, and to take it apart at the end, took a fifth of the time.
    """
    gc.disable()
    atexit.register(gc.freeze)
    for stream in (sys.stdout, sys.stderr):
        # A file name that the terminal's encoding does not have must not end the run.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        with_room(command, prog_name="amp-migrate", standalone_mode=False)
    except click.ClickException as error:
        error.message = plain(error.message, keep="\n")  # type: ignore[misc]  # may quote a file
        error.show()
        sys.exit(2)
    except click.Abort:  # what click makes of an interrupt
        raise KeyboardInterrupt from None
