"""Optimizers that are made for one batch, to adapt a model to it, or for a copy of a model that goes on.

A scale begins at 65536, and every step that it is too large for is lost. One that is made with such an optimizer is
made again for the next batch: it has to be as old as what the batches are given to.
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.analysis.bindings import dotted
from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import FunctionRef, Project
from amp_migrate.steps.model.route import Creation
from amp_migrate.steps.statements.data_flow import reads
from amp_migrate.trees.nodes import find

# A scale comes down to one in sixteen steps: of so many, they are the tenth part.
_MANY_STEPS = 160
_COUNTING = frozenset({"range", "trange", "tqdm.trange"})


def lives_for_a_batch(project: Project, creation: Creation, at: cst.CSTNode) -> bool:
    """Whether the optimizer that steps at a place, and with which a scaler would be made, is made for each batch.

    All its steps are on what is there when it is made: no loop round them takes batches, but one round its making does,
    or one that calls the function.
    """
    tree = creation.file.tree
    function = tree.function(at)
    if tree.function(creation.home) is not function:
        return False
    around = list(tree.loops(creation.home))
    if any(_takes_batches(each) or _is_long(each) for each in tree.loops(at) if each not in around):
        return False
    taking = [each for each in around if _takes_batches(each)]
    if not taking and (function is None or not _gets_batches(project, project.reference(creation.file, function))):
        return adapts_a_copy(project, creation)
    return not _is_of_a_new_model(project, creation, taking[-1] if taking else function)


def adapts_a_copy(project: Project, creation: Creation) -> bool:
    """Whether an optimizer is made by a method, for a copy of what its object keeps: once for all that it adapts to."""
    file = creation.file
    function = file.tree.function(creation.home)
    if function is None or project.reference(file, function).owner is None:
        return False
    return any(_copies_what_is_kept(file, each) for each in _made_of(creation, function))


def _copies_what_is_kept(file: File, value: cst.BaseExpression | None) -> bool:
    """Whether a value is a copy of an attribute of `self`, wherever that is moved to: `deepcopy(self.net).cuda()`."""
    while (
        isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute) and isinstance(value.func.value, cst.Call)
    ):
        value = value.func.value
    if not isinstance(value, cst.Call) or file.names.callee(value) != "copy.deepcopy" or not value.args:
        return False
    return (dotted(value.args[0].value) or "").startswith("self.")


def _is_of_a_new_model(project: Project, creation: Creation, within: cst.CSTNode | None) -> bool:
    """Whether what makes an optimizer makes what it trains as well: a training from the start, as for another fold."""
    return any(_makes_module(project, creation.file, each) for each in _made_of(creation, within))


def _made_of(creation: Creation, within: cst.CSTNode | None) -> list[cst.BaseExpression | None]:
    """What an optimizer is made of, as far as it is bound in some code."""
    scope, tree = creation.file.scopes.of(creation.home), creation.file.tree
    return [
        each.value
        for name in reads([creation.home])
        for each in scope.bindings.get(name, ())
        if any(around is within for around in tree.ancestors(each.node))
    ]


def _makes_module(project: Project, file: File, value: cst.BaseExpression | None) -> bool:
    """Whether a value is an object of a class, as `Net(3).cuda()` is, and no copy or part of another."""
    if not isinstance(value, cst.Call):
        return False
    if isinstance(value.func, cst.Attribute) and isinstance(value.func.value, cst.Call):
        return _makes_module(project, file, value.func.value)
    found = project.definition(file, value.func)
    is_class = found is not None and isinstance(found[1], cst.ClassDef)
    return is_class or file.names.callee(value).startswith("torch.nn.")


def _gets_batches(project: Project, function: FunctionRef) -> bool:
    """Whether a loop over batches gives some function one, through others or by itself."""
    waiting, seen = [function], {function.node}
    while waiting:
        called = waiting.pop()
        for site in (*(project.call_sites(called) or ()), *project.possible_calls(called)):
            tree = site.file.tree
            if site.call.args and any(map(_takes_batches, tree.loops(site.call))):
                return True
            caller = tree.function(site.call)
            if caller is not None and caller not in seen:
                seen.add(caller)
                waiting.append(project.reference(site.file, caller))
    return False


def _takes_batches(loop: cst.For | cst.While) -> bool:
    """Whether each round has something else to compute with: an item, what stands at its number, the next of some."""
    if isinstance(loop, cst.For) and not _counts(loop.iter):
        return True
    number = reads([loop.target]) if isinstance(loop, cst.For) else frozenset()
    return any(number & reads(each.slice) for each in find(loop.body, cst.Subscript)) or any(
        dotted(each.func) == "next" for each in find(loop.body, cst.Call)
    )


def _counts(over: cst.BaseExpression) -> bool:
    """Whether a loop runs over numbers: `range(n)`, `tqdm(range(n))`."""
    if not isinstance(over, cst.Call):
        return False
    return dotted(over.func) in _COUNTING or (bool(over.args) and _counts(over.args[0].value))


def _is_long(loop: cst.For | cst.While) -> bool:
    """Whether a loop says that it has many rounds."""
    over = loop.iter if isinstance(loop, cst.For) else None
    numbers = [each.value for each in over.args] if isinstance(over, cst.Call) else []
    return any(isinstance(each, cst.Integer) and each.evaluated_value >= _MANY_STEPS for each in numbers)
