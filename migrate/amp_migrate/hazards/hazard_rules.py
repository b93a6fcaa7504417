"""What a file of a hazard rule holds, and how these files are found."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from functools import cache

import amp_migrate.hazards
from amp_migrate.catalog.rule import Rule
from amp_migrate.frozen import frozen
from amp_migrate.hazards.seen.hazard import Hazard
from amp_migrate.hazards.seen.script import Script


@frozen
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


@cache
def hazard_rules() -> tuple[HazardRule, ...]:
    """The rules that find hazards, in the order of codes: every file `amp6..._....py` below this folder is one."""
    package = amp_migrate.hazards
    names = (info.name for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."))
    modules = (importlib.import_module(name) for name in names if name.rpartition(".")[2].startswith("amp"))
    found = [
        HazardRule(module.RULE, module.detect, module.FLOAT16_ONLY, hasattr(module, "OF_MODELS")) for module in modules
    ]
    return tuple(sorted(found, key=lambda each: each.rule.code))
