"""Outputs that a region takes to the CPU to compute a loss there: `out.cpu()` becomes `out.float().cpu()`.

Autocast on a GPU does nothing for what is on the CPU: in half precision the loss would be inexact, or raise.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.analysis.hops import MAX_HOPS
from amp_migrate.plan.edit import Edit
from amp_migrate.steps.outputs.held_outputs import HeldOutputs
from amp_migrate.steps.regions.find_regions import RegionFinder
from amp_migrate.steps.statements.bodies import bodies
from amp_migrate.trees.nodes import Statement
from amp_migrate.write.editor import Editor


def float_for_cpu(editor: Editor, outputs: HeldOutputs) -> Iterator[Edit]:
    """The edits that cast the outputs of a file's regions which go to the CPU, and which losses in them read there."""
    finder = outputs.finder
    for _, body in bodies(finder.file) if editor.settings.device_type != "cpu" else ():
        for statement, held in outputs.course(body):
            moved = _moved(finder, statement) if statement in outputs.covered else None
            root = None if moved is None else outputs.root(moved, statement, held.keys())
            if root is None or not outputs.is_floating(root, held):
                continue
            if _feeds_loss(outputs, statement):
                yield editor.of(finder.file).as_float(root)


def _moved(finder: RegionFinder, statement: Statement) -> cst.BaseExpression | None:
    """What an assignment takes to the CPU, by `x.cpu()` or `x.to("cpu")`; None for any other statement."""
    if not isinstance(statement, cst.Assign) or not isinstance(statement.targets[0].target, cst.Name):
        return None
    value = statement.value
    if not isinstance(value, cst.Call) or not isinstance(value.func, cst.Attribute):
        return None
    method = value.func.attr.value
    is_moved = method == "cpu" or (method == "to" and len(value.args) == 1 and _is_cpu(finder, value.args[0].value))
    return value.func.value if is_moved else None


def _is_cpu(finder: RegionFinder, device: cst.BaseExpression, depth: int = 0) -> bool:
    """Whether a device is the CPU, whichever way the script goes."""
    if isinstance(device, cst.SimpleString):
        return device.evaluated_value == "cpu"
    if isinstance(device, cst.Call):
        is_device = finder.file.names.callee(device) == "torch.device" and len(device.args) == 1
        return is_device and _is_cpu(finder, device.args[0].value, depth)
    if depth == MAX_HOPS:
        return False
    made = [each.value for each in finder.roles.bindings(finder.file, device)]
    return bool(made) and all(each is not None and _is_cpu(finder, each, depth + 1) for each in made)


def _feeds_loss(outputs: HeldOutputs, statement: Statement) -> bool:
    """Whether a later statement in a region of the function computes a loss, or runs a module, on what is assigned."""
    finder, tree, order = outputs.finder, outputs.finder.tree, outputs.finder.tree.order
    names = finder.effects.writes(statement)
    return any(
        order[each] > order[statement]
        and tree.body(each) is tree.body(statement)
        and bool(finder.effects.reads(each) & names)
        and (finder.computes_loss(each) or finder.runs_forward(each))
        for each in outputs.covered
    )
