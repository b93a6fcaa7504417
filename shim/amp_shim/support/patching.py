"""Replace attributes of modules, classes and objects, and put the originals back."""

from __future__ import annotations

from typing import Any

_ABSENT = object()


class Patches:
    """A pile of replaced attributes; `undo()` takes them off in reverse order."""

    def __init__(self) -> None:
        self._originals: list[tuple[Any, str, Any]] = []

    def set(self, owner: Any, name: str, value: Any) -> None:
        """`owner.name = value`, remembering what `owner` itself held under that name (not what it inherits)."""
        self._originals.append((owner, name, vars(owner).get(name, _ABSENT)))
        setattr(owner, name, value)

    def undo(self) -> None:
        while self._originals:
            owner, name, original = self._originals.pop()
            if original is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, original)
