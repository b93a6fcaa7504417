"""From the user's words to a set-up: the two scripts, the folders, the interpreter. All bad input is caught here."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from amp_migrate.report.finding import Finding, Kind
from amp_migrate.report.report import place, told
from amp_migrate.settings import Dtype
from amp_migrate.verify.runs import folders
from amp_migrate.verify.runs.target import Target
from amp_migrate.verify.usage import UsageError

if TYPE_CHECKING:
    from amp_migrate.engine.outcome import Outcome

_MISSING = 3
_LOOK_FOR_TORCH = f"import importlib.util, sys; sys.exit({_MISSING} * (importlib.util.find_spec('torch') is None))"


def interpreter(python: str) -> str:
    """The absolute path of an interpreter, given by path or by a name on PATH."""
    found = shutil.which(python)
    if found is None:
        raise UsageError(f"--python {python}: no such program")
    return os.path.abspath(found)


def require_torch(python: str) -> None:
    """Complain before the runs where the interpreter that is to run the scripts has no torch."""
    if python == os.path.abspath(sys.executable):
        missing = importlib.util.find_spec("torch") is None
    else:
        looked = subprocess.run((python, "-c", _LOOK_FOR_TORCH), capture_output=True, check=False)
        if looked.returncode not in (0, _MISSING):
            raise UsageError(f"--python {python}: does not run Python 3")
        missing = looked.returncode == _MISSING
    if missing:
        raise UsageError(
            f"no torch in {python}: pip install 'amp-migrate[verify]' there, or name the Python that has it "
            "with --python"
        )


def launcher(words: str, python: str) -> tuple[str, ...]:
    """The words that start a script, the program among them looked for beside the interpreter first."""
    try:
        program, *rest = shlex.split(words)
    except ValueError as error:
        raise UsageError(f"--launch {words}: {error}") from error
    beside = os.pathsep.join([os.path.dirname(python), os.environ.get("PATH", os.defpath)])
    found = shutil.which(program, path=beside)
    if found is None:
        raise UsageError(f"--launch {program}: no such program")
    return (found, *rest)


def shim_folder() -> Path:
    """Where `amp_shim` is installed beside this package."""
    spec = importlib.util.find_spec("amp_shim")
    if spec is None or not spec.submodule_search_locations:
        raise UsageError("amp_shim is not installed beside amp_migrate; install amp-migrate anew")
    return Path(next(iter(spec.submodule_search_locations)))


def scratch(wanted: str | None) -> Path:
    """The verification's own folder: the one asked for, which must be new or empty, or a temporary one."""
    if wanted is None:
        return Path(tempfile.mkdtemp(prefix="amp-verify-"))
    folder = Path(os.path.abspath(wanted))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise UsageError(f"--work {wanted}: the folder is not empty; name a new one")
    except OSError as error:
        raise UsageError(f"--work {wanted}: {error.strerror}") from error
    return folder


def cache(wanted: str) -> Path:
    """The folder of the cache, made where it is missing."""
    folder = Path(os.path.abspath(wanted))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--cache {wanted}: {error.strerror}") from error
    return folder


def resume_words(words: str | None, launch: str | None) -> tuple[str, ...]:
    """The words with which a script goes on from a checkpoint; none where that is not asked."""
    if words is None:
        return ()
    if launch is not None:
        raise UsageError("--resume-args goes without --launch: checkpoints are compared of one process")
    try:
        found = tuple(shlex.split(words))
    except ValueError as error:
        raise UsageError(f"--resume-args {words}: {error}") from error
    if not found:
        raise UsageError("--resume-args is empty: name the script's own option to resume, '--resume last.pt'")
    return found


def pattern(files: str | None) -> str:
    """A pattern of files below the working folder; empty for none."""
    if files is not None and (not files or os.path.isabs(files) or ".." in Path(files).parts):
        raise UsageError(f"--metrics {files}: name files below the working folder, such as 'runs/**/*tfevents*'")
    return files or ""


def migrate(original: Target, dtype: Dtype | None, destination: Path) -> tuple[Target, tuple[Finding, ...]]:
    """Migrate a script into `destination` and return it there, with what the migration has to say.

    It is migrated as `amp-migrate` would do it, by the settings of its project. Raises UsageError where nothing can be
    migrated.

    Args:
        dtype: what it is to compute in; None leaves that to the project.
    """
    outcome = planned(original, () if dtype is None else ("--dtype", dtype.value))
    return laid_out(original, outcome, destination), told_of(outcome)


def planned(original: Target, words: tuple[str, ...]) -> Outcome:
    """What a script and its modules become by the settings of its project, and more words of `amp-migrate`'s line.

    Raises UsageError where nothing can be migrated.
    """
    from amp_migrate.cli import project_settings
    from amp_migrate.engine.migrate import migrate_file  # loads the parser; not needed when both scripts are given

    try:
        settings = project_settings(original.file, *words)
    except click.UsageError as error:
        raise UsageError(error.format_message()) from None
    outcome = migrate_file(original.file, settings)
    findings = told_of(outcome)
    failed = [finding for finding in findings if finding.kind is Kind.ERROR]
    if failed and not outcome.changed:
        raise UsageError("; ".join(f"{place(finding)}: {finding.message}" for finding in failed))
    if not outcome.changed:
        reasons = "".join(f"\n  {told(finding)}" for finding in findings)
        raise UsageError(
            f"{original.file}: nothing to migrate; one that has been migrated is named behind its original{reasons}"
        )
    return outcome


def told_of(outcome: Outcome) -> tuple[Finding, ...]:
    """What a migration has to say, with files as seen from here."""
    from amp_migrate.engine.source import display_name, from_here

    return tuple(replace(each, path=display_name(from_here(Path(each.path)))) for each in outcome.findings)


def laid_out(original: Target, outcome: Outcome, destination: Path) -> Target:
    """A script as an outcome would leave it, in `destination`; the user's files are only read.

    The script's folder (or the one that its outermost package is in) is rebuilt out of links, with the changed files in
    their places.
    """
    changed = {each.source.path.resolve(): each.source.encode(each.after) for each in outcome.changed}
    # Python looks for siblings where a script's link points to, so the script itself must be a file.
    script = original.file.resolve()
    changed.setdefault(script, script.read_bytes())
    root = (original.root or script.parent).resolve()
    top = _top([root, *(path.parent for path in changed)])
    folders.overlay(top, {path.relative_to(top): data for path, data in changed.items()}, destination)
    there = destination / root.relative_to(top) if original.root is not None else None
    now = {path: destination / path.relative_to(top) for path in changed}
    return Target(now[script], original.module, there, now, {destination: top})


def _top(parents: Sequence[Path]) -> Path:
    return Path(os.path.commonpath(parents))


def jobs(asked: int | None, isolated: bool, device: str) -> int:
    """Runs at a time.

    Scripts that share a working folder could overwrite each other's files, and two on one GPU might not fit: one by
    one then. A GPU is guessed from its driver, because asking torch would take as long as a run.
    """
    if asked is not None:
        return asked
    alone = not isolated or (device != "cpu" and Path("/dev/nvidiactl").exists())
    return 1 if alone else min(2, os.cpu_count() or 1)


def can_report(report: str | None) -> None:
    """Complain before the runs, not after them, where an HTML report cannot be made."""
    missing = [name for name in ("jinja2", "matplotlib") if importlib.util.find_spec(name) is None]
    if report is not None and missing:
        raise UsageError(f"--report needs {' and '.join(missing)}: pip install 'amp-migrate[verify]'")
