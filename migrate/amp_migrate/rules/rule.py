"""What a rule file holds, and how the rule files are found."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import libcst as cst

import amp_migrate.rules
from amp_migrate.settings import Dtype
from amp_migrate.steps.draft import Draft


@dataclass(frozen=True)
class Rule:
    """What a rule is called and what it does, for reports and documentation.

    Attributes:
        code: `AMP` and three digits.
        name: a short name in words joined by hyphens.
        summary: what is wrong with the old form, in one sentence.
        before, after: a minimal example.
    """

    code: str
    name: str
    summary: str
    before: str
    after: str


@dataclass(frozen=True)
class Unsure:
    """Why a use of a name is not rewritten, and what to write by hand."""

    reason: str
    hint: str


@dataclass(frozen=True)
class Context:
    """What a rewrite may ask for: the file's draft, the place, and the dtype that is migrated to."""

    draft: Draft
    node: cst.CSTNode
    dtype: Dtype


# Given the arguments of a call of the old name, those of the new one.
Arguments = Callable[[Context, "tuple[cst.Arg, ...]"], "list[cst.Arg] | Unsure"]


@dataclass(frozen=True)
class Rename:
    """One old name and its successor.

    Attributes:
        old: the full name that goes.
        new: the full name that comes.
        arguments: how a call's arguments change; None where they stay as they are.
        bare_call: whether the old name also works as a decorator without parentheses, and the new one needs a call.
        is_type: whether the name is a class that annotations and `isinstance` name; a use as a value is then a rename.
    """

    old: str
    new: str
    arguments: Arguments | None = None
    bare_call: bool = False
    is_type: bool = False


@dataclass(frozen=True)
class NameRule:
    """A rule with the names it is about."""

    rule: Rule
    renames: tuple[Rename, ...]


@cache
def name_rules() -> tuple[NameRule, ...]:
    """All rules of the package, in the order of their codes."""
    found: list[NameRule] = []
    for info in pkgutil.iter_modules(amp_migrate.rules.__path__):
        module = importlib.import_module(f"{amp_migrate.rules.__name__}.{info.name}")
        if hasattr(module, "RULE"):
            found.append(NameRule(module.RULE, module.RENAMES))
    return tuple(sorted(found, key=lambda each: each.rule.code))
