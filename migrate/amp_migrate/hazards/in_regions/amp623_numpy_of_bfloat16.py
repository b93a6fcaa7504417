"""The output of a bfloat16 region goes to NumPy, which has no bfloat16."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.catalog.rule import Rule, example
from amp_migrate.catalog.sources import TORCH
from amp_migrate.hazards.seen.hazard import Hazard
from amp_migrate.hazards.seen.script import Script
from amp_migrate.steps.model.training_step import Region
from amp_migrate.steps.outputs.held_outputs import HeldOutputs
from amp_migrate.steps.outputs.numpy_outputs import numpy_roots, write_float
from amp_migrate.steps.regions.find_regions import RegionFinder
from amp_migrate.trees.nodes import Statement, statements

RULE = Rule(
    code="AMP623",
    name="numpy-of-bfloat16",
    summary="the output of a bfloat16 region goes to NumPy, which has no bfloat16",
    before=example(
        """
        import torch

        model = torch.nn.Linear(3, 1)


        def predict(x):
            with torch.no_grad():
                with torch.amp.autocast(device_type="cuda", dtype=torch.bfloat16):
                    out = model(x)
            return out.cpu().numpy()
        """
    ),
    after=example(
        """
        import torch

        model = torch.nn.Linear(3, 1)


        def predict(x):
            with torch.no_grad():
                with torch.amp.autocast(device_type="cuda", dtype=torch.bfloat16):
                    out = model(x)
            return out.float().cpu().numpy()
        """
    ),
    why=(
        "`.numpy()` of a bfloat16 tensor raises TypeError. `.float()` before it changes no value, and nothing at all "
        "where the output is float32 already."
    ),
    sources=(f"{TORCH}/generated/torch.Tensor.numpy.html",),
)
FLOAT16_ONLY = False


def detect(script: Script) -> Iterator[Hazard]:
    """Outputs that go from a bfloat16 region to NumPy: there, in a caller, or in a function that is handed it."""
    file = script.file
    regions = [_covered(region.node) for region in script.regions.values() if region.is_bfloat16]
    if not regions:
        return
    finder = RegionFinder(file, script.roles)
    for root in numpy_roots(HeldOutputs(finder, regions)):
        if not root.holds_loss:
            quoted = root.finder.tree.quote(root.node)
            yield Hazard(
                root.node,
                f"{quoted} comes from a bfloat16 region, and .numpy() of it raises",
                f"write {quoted}.float()",
                (write_float(script.editor(RULE.code), root),),
                root.finder.file,
            )


def _covered(node: cst.With) -> Region:
    block = node.body
    assert isinstance(block, (cst.IndentedBlock, cst.SimpleStatementSuite))
    inside: tuple[Statement, ...] = statements(block)
    return Region(inside[0], inside[-1])
