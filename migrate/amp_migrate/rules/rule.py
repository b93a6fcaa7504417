"""What a rule file holds, and how the rule files are found."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from types import ModuleType

import libcst as cst

import amp_migrate.rules
from amp_migrate.hazards.hazard import Hazard
from amp_migrate.hazards.script import Script
from amp_migrate.plan.edit import Given
from amp_migrate.report.rule import Rule
from amp_migrate.settings import Dtype
from amp_migrate.write.editor import Editor


@dataclass(frozen=True)
class Unsure:
    """Why a use of a name is not rewritten, and what to write by hand."""

    reason: str
    hint: str


@dataclass(frozen=True)
class Context:
    """What a rewrite may ask for: the file's editor, the place, and the dtype that is migrated to."""

    editor: Editor
    node: cst.CSTNode
    dtype: Dtype


# Given the arguments of a call of the old name, those of the new one.
Arguments = Callable[[Context, "tuple[cst.Arg, ...]"], "list[Given] | Unsure"]


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


@dataclass(frozen=True)
class HazardRule:
    """A rule that finds AMP that is used wrongly.

    Attributes:
        rule: what is said about it.
        detect: finds its hazards in a file that has AMP.
        float16_only: whether its hazards are gone once the file computes in bfloat16 and has no scaler.
        of_models: whether they are in what a script runs, and come up when a float32 script is moved as well.
    """

    rule: Rule
    detect: Callable[[Script], Iterator[Hazard]]
    float16_only: bool
    of_models: bool


def _rule_modules() -> list[ModuleType]:
    names = (info.name for info in pkgutil.iter_modules(amp_migrate.rules.__path__))
    return [importlib.import_module(f"{amp_migrate.rules.__name__}.{name}") for name in names if name.startswith("amp")]


@cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule there is, in the order of codes."""
    return tuple(sorted((module.RULE for module in _rule_modules()), key=lambda rule: rule.code))


def rules_of(codes: Collection[str]) -> tuple[Rule, ...]:
    """The rules with these codes, in the order of codes."""
    return tuple(rule for rule in all_rules() if rule.code in codes)


def nearest_rule(code: str) -> Rule:
    """The rule whose code begins most like `code`: the rule itself, where `code` is one."""

    def shared(rule: Rule) -> int:
        pairs = zip(rule.code, code, strict=False)
        return len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))

    return max(all_rules(), key=shared)


@cache
def name_rules() -> tuple[NameRule, ...]:
    """The rules that rename something, in the order of codes."""
    found = [NameRule(module.RULE, module.RENAMES) for module in _rule_modules() if hasattr(module, "RENAMES")]
    return tuple(sorted(found, key=lambda each: each.rule.code))


@cache
def all_renames() -> dict[str, tuple[Rule, Rename]]:
    """Every old name, with its rule and what becomes of it."""
    return {rename.old: (each.rule, rename) for each in name_rules() for rename in each.renames}


def rule_of(renames: Iterable[Rename]) -> str:
    """The code of the rule that the first of some renames belongs to; without any, of that about most old names."""
    return next((all_renames()[rename.old][0].code for rename in renames), "AMP101")


@cache
def hazard_rules() -> tuple[HazardRule, ...]:
    """The rules that find hazards, in the order of codes."""
    found = [
        HazardRule(module.RULE, module.detect, module.FLOAT16_ONLY, hasattr(module, "OF_MODELS"))
        for module in _rule_modules()
        if hasattr(module, "detect")
    ]
    return tuple(sorted(found, key=lambda each: each.rule.code))
