"""Why the user does not want a rule at a place."""

from __future__ import annotations

from amp_migrate.pragmas import Pragmas
from amp_migrate.settings import Settings


def why_unwanted(code: str, line: int, settings: Settings, pragmas: Pragmas) -> str:
    """The reason in a few words, from the options and the comments of the file; empty where the rule is wanted."""
    if pragmas.skips_file:
        return "it asks to be skipped"
    if not settings.applies(code):
        return f"{code} is not selected"
    return f"{code} is ignored here" if pragmas.ignores(code, line) else ""
