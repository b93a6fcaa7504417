"""Whether torch's `DistributedDataParallel` can look for parameters that get no gradient.

With `find_unused_parameters=True` it walks from what the forward pass returns, and takes what it does not come to for
unused. Where such a parameter gets a gradient all the same, it raises: one behind a reentrant checkpoint, or behind a
tensor that a module puts on itself for a loss.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.analysis.bindings import dotted
from amp_migrate.analysis.exports import is_exported
from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import Project
from amp_migrate.tables.operators import NO_TENSORS
from amp_migrate.trees.nodes import find

CHECKPOINT = "torch.utils.checkpoint"


def hides_parameters(project: Project) -> str:
    """What may hide parameters from that search in a project; empty where nothing does."""
    if any(_recomputes(project, file) for file in project.library.mentioning(*CHECKPOINT.split("."))):
        return CHECKPOINT
    names = dict.fromkeys(name for file in project.library.mentioning("forward") for name in _set_in_forward(file))
    return next((f"`.{name}`, which a forward sets" for name in names if _is_read_elsewhere(project, name)), "")


def _recomputes(project: Project, file: File) -> bool:
    """Whether a file uses anything of torch's checkpoints, or imports it for another that does."""
    uses = (file.names.full(node) for node in file.uses.get("checkpoint", ()))
    if any(each.startswith(CHECKPOINT) for each in (*uses, *file.scopes.module.star_imports)):
        return True
    names = (
        name
        for scope in file.scopes.all()
        for name, bindings in scope.bindings.items()
        if any(each.imported.startswith(CHECKPOINT) for each in bindings)
    )
    return any(name in file.uses or is_exported(project, file, name) for name in names)


def _set_in_forward(file: File) -> Iterator[str]:
    """The attributes that the forward passes of a file give the result of a computation."""
    for function in file.tree.every(cst.FunctionDef):
        if function.name.value != "forward" or file.tree.owner_class(function) is None:
            continue
        for assign in find(function.body, cst.Assign):
            path = dotted(assign.targets[0].target) or ""
            is_computed = isinstance(assign.value, (cst.Call, cst.BinaryOperation, cst.UnaryOperation, cst.Name))
            if is_computed and not _is_no_tensor(assign.value) and path.startswith("self.") and path.count(".") == 1:
                yield path.removeprefix("self.")


def _is_no_tensor(value: cst.BaseExpression) -> bool:
    """Whether a value is something that a tensor is asked for, as `x.size()`."""
    func = value.func if isinstance(value, cst.Call) else value
    return isinstance(func, cst.Attribute) and func.attr.value in NO_TENSORS


def _is_read_elsewhere(project: Project, name: str) -> bool:
    return any(
        isinstance(node, cst.Attribute)
        and dotted(node.value) != "self"
        and not isinstance(file.tree.parents[node], (cst.AssignTarget, cst.Del))
        and _may_run(project, file, node)
        for file in project.library.using_own(name, is_method=True)
        for node in file.uses.get(name, ())
    )


def _may_run(project: Project, file: File, node: cst.CSTNode) -> bool:
    """Whether anything names the function that something stands in, or Python or PyTorch calls it by itself."""
    function = file.tree.function(node)
    if function is None or function.decorators:
        return True
    name = function.name.value
    called_unnamed = name == "forward" or name.startswith("__")
    is_method = file.tree.owner_class(function) is not None
    using = project.library.using_own(name, is_method=is_method)
    return called_unnamed or any(name in each.uses for each in using)
