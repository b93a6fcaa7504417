"""What is said about a rule: on the command line, in reports and in the documentation."""

from __future__ import annotations

from enum import Enum
from textwrap import dedent

from amp_migrate.frozen import frozen
from amp_migrate.settings import OLDEST_TORCH
from amp_migrate.tables.signatures import written


class Safety(str, Enum):
    """What may be expected of a rule's change."""

    SAFE = "safe"
    UNSAFE = "unsafe"
    MANUAL = "manual"

    @property
    def meaning(self) -> str:
        """What the word promises."""
        return _MEANINGS[self]


_MEANINGS = {
    Safety.SAFE: "the new code does what the old code did",
    Safety.UNSAFE: "the new code does what the old code was meant to do, and did not; changed with --unsafe only",
    Safety.MANUAL: "nothing is changed; the finding says what to do by hand",
}


@frozen
class Rule:
    """What a rule is called and what it does.

    Attributes:
        code: `AMP` and three digits.
        name: a short name in words joined by hyphens.
        summary: what the rule finds, in one sentence without a full stop.
        example: the smallest script that the rule has a finding for, as a diff: with `-` and `+` what becomes of it,
            or should by hand. One without either is only what it was: there is no one way to write it.
        why: what is behind the rule, in a paragraph.
        safety: what may be expected of the change.
        since: the first PyTorch that has what the rule writes.
        on_request: whether it is applied only where it is selected by its whole code.
        sources: where PyTorch, Apex or Python say what the rule rests on; none where it rests on nothing but the tool.
        options: those of `amp-migrate` that the example takes.
    """

    code: str
    name: str
    summary: str
    example: str
    why: str
    safety: Safety = Safety.SAFE
    since: tuple[int, int] = OLDEST_TORCH
    on_request: bool = False
    sources: tuple[str, ...] = ()
    options: tuple[str, ...] = ()

    @property
    def before(self) -> str:
        """The script of the example as it was."""
        return self._side("-")

    @property
    def after(self) -> str:
        """The same script as the rule leaves it, or as a person should; empty where the example has no second one."""
        return self._side("+")

    def _side(self, mark: str) -> str:
        lines = dedent(self.example).strip("\n").splitlines()
        if not any(line.startswith(("-", "+")) for line in lines):
            return "\n".join(lines) if mark == "-" else ""
        return "\n".join(line[2:] for line in lines if not line or line[0] in (" ", mark))

    @property
    def asking(self) -> str:
        """How to ask for a rule that is applied on request only, as a sentence; empty for all others."""
        return f"It is applied on request only: --select {self.code}." if self.on_request else ""

    @property
    def after_title(self) -> str:
        """What stands above the script as the rule leaves it."""
        return f"After, with {' '.join(self.options)}" if self.options else "After"

    @property
    def torch(self) -> str:
        """`since` as people write a version."""
        return written(self.since)

    @property
    def sentence(self) -> str:
        """The summary with a capital letter, where it does not begin with a name from code."""
        first, _, rest = self.summary.partition(" ")
        return self.summary if "." in first or "_" in first else f"{first[:1].upper()}{first[1:]} {rest}"

    @property
    def anchor(self) -> str:
        """Where the rule stands in the documentation's page of rules."""
        return self.code.lower()
