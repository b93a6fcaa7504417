"""Scripts that train with native AMP wherever Apex is not installed: that is what they do today."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from amp_migrate.analysis.bindings import packages_of
from amp_migrate.analysis.files import File, object_bindings
from amp_migrate.steps.apex.beside.choice import natively
from amp_migrate.steps.apex.beside.conditions import conditions, is_fixed
from amp_migrate.steps.apex.uses.amp_tests import is_amp_or_none
from amp_migrate.steps.apex.uses.apex_calls import amp_calls
from amp_migrate.trees.nodes import walk


def is_native_without_apex(files: Sequence[File]) -> bool:
    """Whether a script prepares for Apex only where that is installed, and native AMP where it is not."""
    natives = {each for file in files for found in natively(file) for each in found}
    starting = [(file, call) for file in files for call in amp_calls(file, "initialize")]
    return bool(starting) and all(
        any(each.negated in natives and _asks_for_apex(file, each.node) for each in conditions(file, call))
        for file, call in starting
    )


def _asks_for_apex(file: File, test: cst.BaseExpression) -> bool:
    """Whether a test is of what a module sets where its import of Apex succeeds, or fails."""
    if not is_fixed(file, test):
        return False
    around = (each for binding in object_bindings(file, test) for each in file.tree.ancestors(binding.node))
    tried = (each for guard in around if isinstance(guard, cst.Try) for each in walk(guard.body))
    return is_amp_or_none(file, test) or any("apex" in packages_of(each) for each in tried)
