"""What a file of a rule about names holds, and how these files are found."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from functools import cache

import libcst as cst

import amp_migrate.renames
from amp_migrate.catalog.name_rules import CUDA_AUTOCAST_CODE
from amp_migrate.catalog.rule import Rule
from amp_migrate.frozen import frozen
from amp_migrate.plan.edit import Given
from amp_migrate.settings import Dtype
from amp_migrate.write.editor import Editor


@frozen
class Unsure:
    """Why a use of a name is not rewritten, and what to write by hand."""

    reason: str
    hint: str


@frozen
class UsePlace:
    """What a rewrite may ask for: the file's editor, the place, and the dtype that is migrated to."""

    editor: Editor
    node: cst.CSTNode
    dtype: Dtype


# Given the arguments of a call of the old name, those of the new one.
Conversion = Callable[[UsePlace, "tuple[cst.Arg, ...]"], "list[Given] | Unsure"]


@frozen
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
    arguments: Conversion | None = None
    bare_call: bool = False
    is_type: bool = False


@frozen
class NameRule:
    """A rule with the names it is about."""

    rule: Rule
    renames: tuple[Rename, ...]


@cache
def renaming_rules() -> tuple[NameRule, ...]:
    """The rules that rename something, in the order of codes: every file `amp1..._....py` of this folder is one."""
    package = amp_migrate.renames
    names = (info.name for info in pkgutil.iter_modules(package.__path__) if info.name.startswith("amp"))
    modules = (importlib.import_module(f"{package.__name__}.{name}") for name in names)
    return tuple(sorted((NameRule(each.RULE, each.RENAMES) for each in modules), key=lambda each: each.rule.code))


@cache
def all_renames() -> dict[str, tuple[Rule, Rename]]:
    """Every old name, with its rule and what becomes of it."""
    return {rename.old: (each.rule, rename) for each in renaming_rules() for rename in each.renames}


def rule_of(renames: Iterable[Rename]) -> str:
    """The code of the rule that the first of some renames belongs to; without any, of that about most old names."""
    return next((all_renames()[rename.old][0].code for rename in renames), CUDA_AUTOCAST_CODE)
