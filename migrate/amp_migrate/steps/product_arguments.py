"""Outputs that a function outside every region multiplies: `ssim(out, y)` becomes `ssim(out.float(), y)`.

There nothing casts: a product of a float16 output and a float32 target raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.products import multiplies_matrices
from amp_migrate.analysis.project import FunctionRef
from amp_migrate.analysis.roles import Roles
from amp_migrate.steps.draft import Draft
from amp_migrate.steps.model import Region
from amp_migrate.steps.output_chains import chain_root, is_floating
from amp_migrate.steps.read_fp32 import bodies
from amp_migrate.steps.regions import RegionFinder
from amp_migrate.steps.write_native import as_float
from amp_migrate.trees.calls import calls_of
from amp_migrate.trees.nodes import find, nested_statements


def float_for_products(draft_of: Callable[[File], Draft], file: File, roles: Roles, regions: Sequence[Region]) -> None:
    """Cast the outputs of a file's regions that functions of the project are given outside, to multiply them."""
    finder = RegionFinder(file, roles)
    for _, body in bodies(file) if regions else ():
        inside = [region for region in regions if file.tree.body(region.first) is body]
        covered = {statement for region in inside for statement in finder.members(region)}
        outputs = finder.outputs(inside)
        for statement in nested_statements(body) if outputs else ():
            if statement in covered or isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
                continue
            for root in _multiplied(finder, calls_of(statement), outputs):
                edits = draft_of(file).edits
                if root not in edits.changes:
                    edits.change(root, as_float)


def _multiplied(
    finder: RegionFinder, calls: Iterator[cst.Call], outputs: frozenset[str]
) -> Iterator[cst.BaseExpression]:
    for call in calls:
        given = [chain_root(finder, arg.value, outputs) for arg in call.args if not arg.star]
        roots = [root for root in given if root is not None and is_floating(finder, root)]
        function = finder.roles.project.called(finder.file, call) if roots else None
        if function is not None and not finder.roles.runs_forward(finder.file, call) and _multiplies(finder, function):
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
