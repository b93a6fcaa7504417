"""How a migration that fails for precision may be written instead: what `amp-migrate` is told besides."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from amp_migrate.verify.experiments.float32_parts import Localised
from amp_migrate.verify.recorder.part import Part


@dataclass(frozen=True)
class Attempt:
    """One way to write a migration.

    Attributes:
        words: of `amp-migrate`'s command line.
        why: what speaks for it, in a few words; empty for the first.
        profile: a file with ranges for `--profile`, which is gone when somebody reads of it; empty for none.
    """

    words: tuple[str, ...] = ()
    why: str = ""
    profile: str = ""

    @property
    def line(self) -> tuple[str, ...]:
        """All words, with the profile."""
        return (*self.words, "--profile", self.profile) if self.profile else self.words

    @property
    def name(self) -> str:
        """What it is called where it is told."""
        return " ".join((*self.words, *(["--profile"] if self.profile else []))) or "as it is"


def attempts(found: Localised, dtype: str | None, profile: str = "") -> tuple[Attempt, ...]:
    """What is worth trying after parts have been looked for, the smallest change first.

    Args:
        dtype: what the user asked for; another one is tried only where nothing was.
        profile: a file with the ranges of what the script computes in float32; empty where there is none.
    """
    asked = ("--dtype", dtype) if dtype else ()
    ways = []
    if kept := classes(found.islands, found.parts):
        words = tuple(word for name in kept for word in ("--keep-float32", name))
        ways.append(Attempt((*asked, *words), f"passes with {' and '.join(kept)} in float32"))
    if profile and found.is_of_precision:
        ways.append(Attempt(asked, "keeps in float32 what left float16's range there", profile))
    if found.bfloat16 and not asked:
        ways.append(Attempt(("--dtype", "bf16"), "passes with all its mixed precision in bfloat16"))
    return tuple(ways)


def classes(islands: Iterable[Part], parts: Sequence[Part]) -> tuple[str, ...]:
    """The classes of the user's whose forwards hold all islands; nothing where one is in none but a whole model."""
    named = {(part.model, part.name): part.owner for part in parts}
    found: dict[str, None] = {}
    for part in islands:
        steps = part.name.split(".") if part.name else []
        above = [(part.model, ".".join(steps[:count])) for count in range(len(steps), 0, -1)]
        owner = next((named[each] for each in above if named.get(each)), "" if part.is_model else part.owner)
        if not owner:
            return ()
        found[owner] = None
    return tuple(found)
