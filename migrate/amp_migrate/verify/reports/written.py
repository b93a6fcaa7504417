"""Files that the user asked for: that they can be written is found out before the runs, and each is written whole."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

import click

from amp_migrate.verify.usage import UsageError


def require_writable(files: Mapping[str, str | None]) -> None:
    """Raise UsageError where a file, given by the option that names it, could not be written."""
    for option, path in files.items():
        if path is None:
            continue
        try:
            _try(_resolved(path))
        except OSError as error:
            raise UsageError(f"{option} {path}: {error.strerror}") from error


def _resolved(path: str) -> str:
    """The file behind links, but `/dev/stdout` itself: behind that is what the shell has opened for us."""
    path = os.path.abspath(path)
    return path if path.startswith("/dev/") else os.path.realpath(path)


def _try(target: str) -> None:
    if os.path.exists(target):
        with open(target, "ab"):  # changes nothing, and complains of a folder and of a file that must not be written
            pass
    if _is_replaced(target):
        with tempfile.TemporaryFile(dir=os.path.dirname(target)):
            pass


def write(option: str, path: str, data: str | bytes) -> bool:
    """Write a file whole, or leave what is there; False, and a word to the user, where that fails.

    A verdict has been reached by then, and stands.
    """
    try:
        _write(_resolved(path), data if isinstance(data, bytes) else data.encode("utf-8"))
    except OSError as error:
        click.echo(f"amp-verify: {option} {path} was not written: {error.strerror}", err=True)
        return False
    return True


def _write(target: str, data: bytes) -> None:
    if not _is_replaced(target):
        Path(target).write_bytes(data)
        return
    beside = Path(os.path.dirname(target), f".{os.path.basename(target)}.{os.getpid()}")
    try:
        beside.write_bytes(data)
        if os.path.exists(target):
            shutil.copymode(target, beside)
        os.replace(beside, target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def _is_replaced(target: str) -> bool:
    """Whether a file is replaced by a new one: not a device, and not in a folder that takes no new file."""
    if target.startswith("/dev/") or not os.path.exists(target):
        return not target.startswith("/dev/")
    return os.path.isfile(target) and os.access(os.path.dirname(target), os.W_OK)
