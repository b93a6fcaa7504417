"""The user's own folder for what is kept from one run to the next, and why it can be believed.

What lies in a tree came with the tree: with a clone, an archive, or from whoever may write there. So nothing is kept in
it. What decides over files is kept in one folder that only this user can write to, outside of the tree.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

import platformdirs

from amp_migrate.engine.disk.folder import Folder, reason

_ELSEWHERE = "set XDG_STATE_HOME to a folder of your own outside of every project"
_PROJECT = (".git", ".hg", ".svn", "pyproject.toml", "setup.py")


class StateError(Exception):
    """There is no folder to keep records in; the message says why, and what to do."""


def state_path() -> Path:
    """Where the folder is, whether it is there or not (`~/.local/state/amp-migrate` on Linux)."""
    path = platformdirs.user_state_path("amp-migrate", appauthor=False)
    if not path.is_absolute():
        raise StateError(f"{path} is no absolute path; correct XDG_STATE_HOME")
    return Path(os.path.realpath(path.parent), path.name)


def open_state(*, make: bool = True) -> Folder:
    """The folder.

    Args:
        make: make it, if it is not there.

    Raises:
        FileNotFoundError: it is not there, and was not to be made.
        StateError: it cannot be made or opened, or somebody else could have put there what is in it.
    """
    path = state_path()
    _require_outside_of_projects(path)
    try:
        if make:
            path.parent.mkdir(parents=True, exist_ok=True)
            with Folder.open(path.parent) as above:
                above.make(path.name, 0o700)
        folder = Folder.open(path)
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not make:
            raise
        raise StateError(f"{path}: {reason(error)}; {_ELSEWHERE}") from None
    try:
        _require_own(folder)
    except StateError:
        folder.close()
        raise
    return folder


def home() -> Path:
    """The user's home folder, and not what somebody says in the environment."""
    if os.name == "nt":
        return Path.home()
    import pwd

    try:
        return Path(os.path.realpath(pwd.getpwuid(os.geteuid()).pw_dir))
    except KeyError:  # a user that exists in a container only as a number
        return Path(os.devnull)


def _require_outside_of_projects(path: Path) -> None:
    """Raise StateError if the folder may have come with a project, as where CI makes a checkout the home folder."""
    for folder in path.parents:
        if home().is_relative_to(folder):
            return
        if any((folder / mark).exists() for mark in _PROJECT):
            raise StateError(f"{path} lies in a project, {folder}, and may have come with it; {_ELSEWHERE}")


def _require_own(folder: Folder) -> None:
    """Raise StateError unless the folder belongs to this user, and nobody else may write to it."""
    if os.name == "nt":  # its profiles are closed to others by access lists
        return
    status = folder.status()
    if status.st_uid != os.geteuid():
        raise StateError(f"{folder.path} belongs to another user; {_ELSEWHERE}")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise StateError(f"others may write to {folder.path}; make it yours alone: chmod 700")
