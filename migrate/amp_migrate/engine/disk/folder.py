"""A folder by an open handle: a name is what stands in this folder, and no link is ever followed.

A path is looked up anew at every use, and whoever may write to a folder on the way can put a link there in between. A
handle stays with the folder that it was opened on. Windows has no handles of this kind; there, paths are looked at
before they are used.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType

_HANDLES = {os.open, os.mkdir, os.unlink, os.stat, os.rename} <= os.supports_dir_fd
_BINARY = getattr(os, "O_BINARY", 0)
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
# To go through a folder, one needs no leave to list it.
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | _NOFOLLOW | getattr(os, "O_CLOEXEC", 0)
_NO_LINK = "a link stands where a {} is wanted, and links are not followed here"


class Folder:
    """One open folder; a context manager that closes it.

    Every method takes the name of something in the folder, and raises ValueError for one that would lead out of it.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.descriptor = descriptor

    @classmethod
    def open(cls, path: Path) -> Folder:
        """The folder at an absolute path; a link on the way to it is an error.

        Raises:
            OSError: there is none, or a link stands in its place or above.
        """
        anchor = path.anchor
        top = cls(Path(anchor), os.open(anchor, _FOLDER) if _HANDLES else -1)
        with top:
            return top.below(path.relative_to(anchor).parts)

    def below(self, names: Iterable[str]) -> Folder:
        """The folder that a series of names leads to, each found in the one before.

        Raises:
            OSError: there is none, or a link stands in the place of one of them.
        """
        path, descriptor = self.path, os.dup(self.descriptor) if _HANDLES else -1
        for name in names:
            try:
                path /= require_plain(name)
                if _HANDLES:
                    above, descriptor = descriptor, os.open(name, _FOLDER, dir_fd=descriptor)
                    os.close(above)
                elif not stat.S_ISDIR(_lstat(path).st_mode):
                    raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
            except OSError as error:
                if descriptor >= 0:
                    os.close(descriptor)
                if error.errno in (errno.ELOOP, errno.ENOTDIR) and path.is_symlink():
                    raise OSError(errno.ELOOP, _NO_LINK.format("folder"), str(path)) from None
                raise OSError(error.errno, error.strerror, str(path)) from None
        return Folder(path, descriptor)

    def make(self, name: str, mode: int = 0o777) -> None:
        """Make a folder, if nothing of that name is there."""
        with suppress(FileExistsError):
            os.mkdir(self._at(name), mode, **self._here)

    def below_made(self, names: Iterable[str], mode: int = 0o777) -> Folder:
        """Like `below`, making the folders that are not there."""
        folder = self.below(())
        for name in names:
            with folder:
                folder.make(name, mode)
                folder = folder.below((name,))
        return folder

    def open_file(self, name: str, flags: int, mode: int = 0o600) -> int:
        """A descriptor of a regular file.

        Raises:
            OSError: the system refuses, or it is a link, a pipe or the like.
        """
        if not _HANDLES and not flags & os.O_EXCL:
            with suppress(FileNotFoundError):
                _lstat(self.path / require_plain(name))
        wait = getattr(os, "O_NONBLOCK", 0)  # whoever puts a pipe there must not stop us
        flags |= _NOFOLLOW | _BINARY | wait | getattr(os, "O_CLOEXEC", 0)
        try:
            descriptor = os.open(self._at(name), flags, mode, **self._here)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise OSError(errno.ELOOP, _NO_LINK.format("file"), name) from None
            raise
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(errno.EINVAL, "not a regular file", name)
        return descriptor

    def read(self, name: str) -> bytes:
        """The bytes of a regular file."""
        with os.fdopen(self.open_file(name, os.O_RDONLY), "rb") as file:
            return file.read()

    def create(self, name: str, data: bytes, mode: int = 0o600, *, exactly: bool = False) -> None:
        """Make a new file and wait until the disk has its bytes; nothing is left of it if that fails.

        Args:
            exactly: the user's mask does not take anything from `mode`.
        """
        descriptor = self.open_file(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        try:
            with os.fdopen(descriptor, "wb") as file:
                if exactly and hasattr(os, "fchmod"):
                    os.fchmod(descriptor, mode)
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except BaseException:
            self.remove(name)
            raise

    def status(self, name: str | None = None) -> os.stat_result:
        """What the system knows of something in the folder, no link followed; without a name, of the folder itself."""
        if name is None:
            return os.fstat(self.descriptor) if _HANDLES else os.stat(self.path)
        return os.stat(self._at(name), follow_symlinks=False, **self._here)

    def rename(self, old: str, new: str) -> None:
        """Give something another name; what has that name goes."""
        if _HANDLES:
            os.rename(require_plain(old), require_plain(new), src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)
        else:
            os.replace(self._at(old), self._at(new))

    def link(self, old: str, new: str) -> None:
        """Give a file a second name, which nothing may have yet."""
        if _HANDLES:
            names = require_plain(old), require_plain(new)
            os.link(*names, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor, follow_symlinks=False)
        else:
            os.link(self._at(old), self._at(new))

    def remove(self, name: str) -> bool:
        """Whether there was something but a folder, which is gone now."""
        try:
            os.unlink(self._at(name), **self._here)
        except FileNotFoundError:
            return False
        return True

    def names(self) -> list[str]:
        """What is in the folder, sorted."""
        if not _HANDLES:
            return sorted(os.listdir(self.path))
        descriptor = os.open(".", os.O_RDONLY, dir_fd=self.descriptor)
        try:
            return sorted(os.listdir(descriptor))
        finally:
            os.close(descriptor)

    def keep_metadata(self, old: str, new: str) -> None:
        """Give the file `new` mode, extended attributes and, where the user may, owner and group of the file `old`."""
        if not _HANDLES:
            shutil.copystat(self._at(old), self._at(new))
            os.utime(self._at(new))
            return
        source, target = self.open_file(old, os.O_RDONLY), self.open_file(new, os.O_RDONLY)
        try:
            status = os.fstat(source)
            with suppress(PermissionError):  # only root may give a file away; the group may still be settable
                os.fchown(target, -1, status.st_gid)
            with suppress(PermissionError):
                os.fchown(target, status.st_uid, -1)
            os.fchmod(target, stat.S_IMODE(status.st_mode))  # after the owner, whose change clears the set-id bits
            _copy_attributes(source, target)
        finally:
            os.close(source)
            os.close(target)

    def sync(self) -> None:
        """Have the names in the folder on the disk, not only the bytes of its files."""
        if not _HANDLES:  # a folder cannot be opened there
            return
        with suppress(PermissionError):  # a folder that may not be listed cannot be synchronised
            descriptor = os.open(".", os.O_RDONLY, dir_fd=self.descriptor)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def may_be_changed(self) -> bool:
        """Whether names can be made and removed in the folder."""
        if not _HANDLES:
            return os.access(self.path, os.W_OK | os.X_OK)
        return os.access(".", os.W_OK | os.X_OK, dir_fd=self.descriptor)

    def close(self) -> None:
        """Let go of the folder."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def __enter__(self) -> Folder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _here(self) -> dict[str, int]:
        return {"dir_fd": self.descriptor} if _HANDLES else {}

    def _at(self, name: str) -> str:
        return require_plain(name) if _HANDLES else str(self.path / require_plain(name))


def reason(error: OSError) -> str:
    """What the system says about an error, to go on after a colon."""
    return (error.strerror or str(error)).lower()


def require_plain(name: str) -> str:
    """`name`, if it is that of something in a folder and no way out of it; ValueError otherwise."""
    marks = "\0/" if os.name == "posix" else "\0/\\:"
    if name in ("", ".", "..") or any(mark in name for mark in marks):
        raise ValueError(f"{name!r} is no name of a file")
    return name


def _lstat(path: Path) -> os.stat_result:
    status = os.lstat(path)
    reparse = getattr(stat, "FILE_ATTRIBUTE_REPARSE_POINT", 0)
    if stat.S_ISLNK(status.st_mode) or getattr(status, "st_file_attributes", 0) & reparse:
        raise OSError(errno.ELOOP, _NO_LINK.format("file or folder"), str(path))
    return status


def _copy_attributes(source: int, target: int) -> None:
    if not hasattr(os, "listxattr"):
        return
    passed_over = (errno.EPERM, errno.ENOTSUP, errno.ENODATA, errno.EINVAL, errno.EACCES)
    try:
        names = os.listxattr(source)
    except OSError as error:
        if error.errno in passed_over:
            return
        raise
    for name in names:
        try:
            os.setxattr(target, name, os.getxattr(source, name))
        except OSError as error:
            if error.errno not in passed_over:
                raise
