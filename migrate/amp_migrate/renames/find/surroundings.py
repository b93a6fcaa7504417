"""Where a name stands: as a type, or in code that already provides for more than one PyTorch."""

from __future__ import annotations

import re
from collections.abc import Sequence

import libcst as cst

from amp_migrate.analysis.bindings import dotted
from amp_migrate.analysis.files import File
from amp_migrate.analysis.names.versions import outcome
from amp_migrate.renames.rename import Rename
from amp_migrate.trees.nodes import compared_with_none, parts_of, walk
from amp_migrate.trees.tree import Tree

_VERSION_WORDS = ("version", "hasattr", "torch_greater", "torch_1", "torch_2", "_available")
# A question about the machine, as in `torch.cuda.is_available()` and `device.type == "cuda"`, is none about PyTorch.
_DEVICE = re.compile(r"\b\w*(?:cuda|gpu|npu|xpu|mps|mlu|hpu|mtia|device)\w*(?:\.\w+)*|\bis_available\b")


def names_a_type(tree: Tree, node: cst.CSTNode) -> bool:
    """Whether a class is named for its type only: in an annotation, or as what `isinstance` tests for."""
    for ancestor in tree.ancestors(node):
        if isinstance(ancestor, cst.Annotation):
            return True
        if isinstance(ancestor, cst.Call):
            return dotted(ancestor.func) in ("isinstance", "issubclass")
        if isinstance(ancestor, cst.BaseCompoundStatement):
            return False
    return False


def is_imported(tree: Tree, node: cst.CSTNode) -> bool:
    """Whether a chain of names is what an import names, or a part of it: `torch.cuda` of `import torch.cuda.amp`."""
    parent = tree.parents[node]
    while isinstance(parent, cst.Attribute):
        parent = tree.parents[parent]
    return isinstance(parent, (cst.ImportAlias, cst.ImportFrom))


def is_only_tested(tree: Tree, node: cst.CSTNode) -> bool:
    """Whether a value is only asked for being there: `if amp:`, `amp is not None and x`."""
    parent = tree.parents[node]
    if isinstance(parent, cst.Comparison) and parent.left is node:
        return compared_with_none(parent) is not None
    while isinstance(parent, cst.BooleanOperation):
        node, parent = parent, tree.parents[parent]
    if isinstance(parent, cst.UnaryOperation):
        return isinstance(parent.operator, cst.Not)
    return isinstance(parent, (cst.If, cst.While, cst.IfExp, cst.Assert)) and parent.test is node


def is_provided_for(file: File, node: cst.CSTNode, rename: Rename) -> bool:
    """Whether a use of the old name is one side of a choice between PyTorch versions, or between old and new name."""
    if file.names.is_never_run(node):
        return True
    inside: cst.CSTNode = node
    for ancestor in file.tree.ancestors(node):
        if isinstance(ancestor, (cst.If, cst.IfExp)) and file.names.outcome(ancestor) is not None:
            inside = ancestor
            continue
        if isinstance(ancestor, cst.IfExp) and inside is not ancestor.test:
            other = ancestor.orelse if inside is ancestor.body else ancestor.body
            if _chooses(file, ancestor.test, [other], rename):
                return True
        if isinstance(ancestor, cst.If) and inside is not ancestor.test:
            others = [ancestor.orelse] if inside is ancestor.body else [ancestor.body]
            if _chooses(file, ancestor.test, others, rename):
                return True
        if isinstance(ancestor, cst.Try) and any(
            part is not None and part is not inside and _names(file, part, rename.new)
            for part in (ancestor.body, *ancestor.handlers, ancestor.orelse)
        ):
            return True
        inside = ancestor
    return False


def _chooses(file: File, test: cst.BaseExpression, others: Sequence[cst.CSTNode | None], rename: Rename) -> bool:
    """Whether a test decides between PyTorch versions, by what it asks for or by what its other sides use."""
    undecided = (each for each in parts_of(test) if outcome(file.names, each, file.names.target_torch) is not True)
    code = " ".join(file.tree.code(part).lower() for part in undecided)
    without_devices = _DEVICE.sub("", code)
    if any(word in without_devices for word in _VERSION_WORDS):
        return True
    return without_devices == code and any(each is not None and _names(file, each, rename.new) for each in others)


def _names(file: File, part: cst.CSTNode, full: str) -> bool:
    for each in walk(part):
        if isinstance(each, (cst.Name, cst.Attribute)) and full in file.names.meanings(each):
            return True
        if isinstance(each, cst.ImportFrom) and dotted(each.module) == full.rpartition(".")[0]:
            return True
    return False
