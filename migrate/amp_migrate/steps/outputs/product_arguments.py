"""Outputs that a function outside every region multiplies: `ssim(out, y)` becomes `ssim(out.float(), y)`.

There nothing casts: a product of a float16 output and a float32 target raises.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.analysis.project import FunctionRef
from amp_migrate.analysis.values.matrix_products import multiplies_matrices
from amp_migrate.plan.edit import Edit
from amp_migrate.steps.outputs.held_outputs import HeldOutputs, root_of
from amp_migrate.steps.regions.find_regions import RegionFinder
from amp_migrate.steps.statements.bodies import bodies
from amp_migrate.trees.nodes import find
from amp_migrate.trees.own_calls import calls_of
from amp_migrate.write.editor import Editor


def float_for_products(editor: Editor, outputs: HeldOutputs) -> Iterator[Edit]:
    """The edits that cast the outputs of a file's regions which functions of the project multiply outside."""
    editor = editor.of(outputs.finder.file)
    for _, body in bodies(outputs.finder.file):
        for statement, held in outputs.course(body):
            for call in calls_of(statement) if held and statement not in outputs.covered else ():
                yield from map(editor.as_float, _multiplied(outputs, call, held))


def _multiplied(outputs: HeldOutputs, call: cst.Call, held: dict[str, bool]) -> Iterator[cst.BaseExpression]:
    finder = outputs.finder
    given = [root_of(finder, arg.value, held.keys()) for arg in call.args if not arg.star]
    roots = [root for root in given if root is not None and outputs.is_floating(root, held)]
    function = finder.roles.project.called(finder.file, call) if roots else None
    if function is None or finder.roles.runs_forward(finder.file, call):
        return
    if _multiplies(finder, function):
        yield from roots


def _multiplies(finder: RegionFinder, function: FunctionRef) -> bool:
    """Whether a function computes a product of matrices, by itself or through others."""
    seen: set[cst.FunctionDef] = set()
    todo = [function]
    while todo:
        current = todo.pop()
        if current.node in seen:
            continue
        seen.add(current.node)
        if multiplies_matrices(current.file, current.node.body):
            return True
        called = (finder.roles.project.called(current.file, call) for call in find(current.node.body, cst.Call))
        todo += [each for each in called if each is not None]
    return False
