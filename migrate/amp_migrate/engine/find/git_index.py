"""Which files git tracks, read from its index: to those, no pattern of a `.gitignore` applies.

The format is that of https://git-scm.com/docs/index-format. Git itself is not run: in a repository, its configuration
may name programs of its own.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from functools import cached_property

from amp_migrate.frozen import frozen

_HEADER = struct.Struct(">4sII")
_FLAGS = 60  # where the flags of an entry stand, behind its times, sizes and SHA-1
_EXTENDED = 0x4000


@frozen
class Tracked:
    """The files that a repository tracks; none where it has no index that can be read.

    Attributes:
        repository: the real path of its top folder; empty for none.
    """

    repository: str = ""

    def __contains__(self, path: str) -> bool:
        """Whether a file is tracked, or something in a folder, at a real path."""
        return path in self._paths

    @cached_property
    def _paths(self) -> frozenset[str]:
        found: set[str] = set()
        for name in self._names():
            path = os.path.join(self.repository, name)
            while path not in found and len(path) > len(self.repository):
                found.add(path)
                path = os.path.dirname(path)
        return frozenset(found)

    def _names(self) -> list[str]:
        try:
            with open(os.path.join(_git_folder(self.repository), "index"), "rb") as file:
                data = file.read()
            return [os.fsdecode(name) for name in _names(data)]
        except (OSError, ValueError, IndexError, struct.error):
            return []


def _git_folder(repository: str) -> str:
    """The folder that a repository keeps its index in; a worktree and a submodule have a file that names it."""
    path = os.path.join(repository, ".git")
    if not os.path.isfile(path):
        return path
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return os.path.join(repository, file.read().partition("gitdir:")[2].strip())


def _names(data: bytes) -> Iterator[bytes]:
    """The names in an index.

    Raises:
        ValueError, IndexError, struct.error: it is none that is known.
    """
    signature, version, count = _HEADER.unpack_from(data)
    if signature != b"DIRC" or version not in (2, 3, 4):
        raise ValueError("not an index of git")
    position, name = _HEADER.size, b""
    for _ in range(count):
        (flags,) = struct.unpack_from(">H", data, position + _FLAGS)
        start = position + _FLAGS + (4 if flags & _EXTENDED else 2)
        if version == 4:  # what is cut from the end of the name before, and what follows instead
            cut, start = _number(data, start)
            name = name[: len(name) - cut]
        end = data.index(b"\0", start)
        name = (name if version == 4 else b"") + data[start:end]
        position = end + 1 if version == 4 else position + (end - position + 8) // 8 * 8
        yield name


def _number(data: bytes, position: int) -> tuple[int, int]:
    """A number of variable width, and where it ends."""
    byte = data[position]
    value = byte & 0x7F
    while byte & 0x80:
        position += 1
        byte = data[position]
        value = ((value + 1) << 7) | (byte & 0x7F)
    return value, position + 1
