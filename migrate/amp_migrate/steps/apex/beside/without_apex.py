"""Scripts that train with native AMP wherever Apex is not installed: that is what they do today."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import takewhile

import libcst as cst

from amp_migrate.analysis.bindings import packages_of
from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import Project
from amp_migrate.steps.apex.beside.choice import goes_natively, natively
from amp_migrate.steps.apex.beside.conditions import conditions
from amp_migrate.steps.apex.uses.amp_tests import is_amp_or_none, is_none_without_apex
from amp_migrate.steps.apex.uses.apex_calls import amp_calls
from amp_migrate.tables.apex_names import PROBES
from amp_migrate.trees.nodes import block_of, last_word, walk

_CAUGHT = ("Exception", "BaseException")


def is_native_without_apex(project: Project, files: Sequence[File]) -> bool:
    """Whether a script prepares for Apex only where that is installed, and native AMP where it is not."""
    natives = {each for file in files for found in natively(file) for each in found}
    flags = {name for file in files for name in _set_by_import(file)}
    starting = [(file, call) for file in files for call in amp_calls(file, "initialize")]
    scaling = [(file, call) for file in files for call in amp_calls(file, "scale_loss")]
    if starting and all(_is_tried(*each) for each in starting):
        return all(
            _is_tried(file, call) or any(each.negated in natives for each in conditions(file, call))
            for file, call in scaling
        )
    return bool(starting) and all(
        any(
            each.negated in natives and _asks_for_apex(project, file, each.node, flags)
            for each in conditions(file, call)
        )
        for file, call in starting
    )


def _is_tried(file: File, call: cst.Call) -> bool:
    """Whether native AMP stands in for a call of Apex that raises, as it does where Apex is missing."""
    around = [call, *takewhile(lambda each: not isinstance(each, cst.FunctionDef), file.tree.ancestors(call))]
    guard = next((each for each in around if isinstance(each, cst.Try) and each.body in around), None)
    imports = [each for each in file.tree.every(cst.Import, cst.ImportFrom) if "apex" in packages_of(each)]
    if guard is None or not imports or not all(_tries_apex(file.tree.ancestors(each)) for each in imports):
        return False
    caught = _CAUGHT + ("ImportError", "ModuleNotFoundError") * _tries_apex([guard])
    handlers = (each for each in guard.handlers if each.type is None or file.tree.code(each.type) in caught)
    return any(goes_natively(file, block_of(each)) for each in handlers)


def _asks_for_apex(project: Project, file: File, test: cst.BaseExpression, flags: Collection[str]) -> bool:
    """Whether a test is of what the import of Apex decides: `has_apex`, `has_apex()`, `kind == "apex"`."""
    if isinstance(test, cst.Call):
        found = project.definition(file, test.func)
        return last_word(test.func) in PROBES if found is None else _tries_apex(walk(found[1]))
    asked = test.left if isinstance(test, cst.Comparison) else test
    is_flag = isinstance(asked, (cst.Name, cst.Attribute)) and last_word(asked) in flags
    return is_flag or (is_amp_or_none(file, asked) and is_none_without_apex(file, asked))


def _set_by_import(file: File) -> Iterator[str]:
    """The names of a module that are given a value in a `try` which imports Apex."""
    for name, bindings in file.scopes.module.bindings.items():
        around = (around for each in bindings for around in file.tree.ancestors(each.node))
        if not any(each.imported for each in bindings) and _tries_apex(around):
            yield name


def _tries_apex(nodes: Iterable[cst.CSTNode]) -> bool:
    tried = (each for guard in nodes if isinstance(guard, cst.Try) for each in walk(guard.body))
    return any("apex" in packages_of(each) for each in tried)
