"""A loss is computed in float16, and its backward pass is not scaled."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from amp_migrate.analysis.bindings import dotted
from amp_migrate.catalog.rule import Rule, Safety, example
from amp_migrate.catalog.sources import AMP
from amp_migrate.hazards.seen.autocast_regions import AutocastRegion
from amp_migrate.hazards.seen.hazard import Hazard
from amp_migrate.hazards.seen.script import Script
from amp_migrate.hazards.seen.training import is_step, training_calls
from amp_migrate.steps.statements.data_flow import statement_reads, writes
from amp_migrate.trees.nodes import nested_statements, walk
from amp_migrate.trees.tree import Tree

RULE = Rule(
    code="AMP629",
    name="float16-without-scaler",
    summary="a loss computed in float16 goes backward without a scaler",
    before=example(
        """
        import torch

        model = torch.nn.Linear(3, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        for x, y in loader:
            optimizer.zero_grad()
            with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                loss = (model(x) - y).square().mean()
            loss.backward()
            optimizer.step()
        """
    ),
    after=example(
        """
        import torch

        model = torch.nn.Linear(3, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cuda")

        for x, y in loader:
            optimizer.zero_grad()
            with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                loss = (model(x) - y).square().mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        """
    ),
    why=(
        "Gradients of a float16 forward are float16 on their way: what is smaller than 6e-8 is zero. A scaler "
        "multiplies the loss so that they are not; bfloat16 does not need one."
    ),
    sources=(f"{AMP}#gradient-scaling",),
    safety=Safety.MANUAL,
)
FLOAT16_ONLY = True
# Whoever may scale, or set the dtype, without being seen.
_OTHERS = re.compile(r"scaler|loss_scale|scale_loss|^scale$|accelerat|deepspeed|fabric|set_autocast", re.IGNORECASE)


def detect(script: Script) -> Iterator[Hazard]:
    """Every plain backward of a float16 loss that an optimizer steps on, in a file where nothing scales."""
    file = script.file
    regions = [region for region in script.regions.values() if region.is_float16]
    if not regions or any(map(_OTHERS.search, file.uses)):
        return
    calls = list(training_calls(file, script.roles))
    stepping = {file.tree.body(call) for call in calls if is_step(call)}
    for call in calls:
        if is_step(call) or file.tree.body(call) not in stepping or not isinstance(call.func, cst.Attribute):
            continue
        path = dotted(call.func.value)
        if path is not None and any(_computes(script, region, call, path) for region in regions):
            yield Hazard(
                call,
                f"{file.tree.quote(call)} is the backward of a float16 loss, and nothing scales it",
                "scale it and step through a GradScaler, or compute in bfloat16",
            )


def _computes(script: Script, region: AutocastRegion, call: cst.Call, path: str) -> bool:
    """Whether a region of the same function gives a name the value that it has at a backward."""
    tree = script.file.tree
    block = region.node.body
    assert isinstance(block, (cst.IndentedBlock, cst.SimpleStatementSuite))
    return (
        tree.body(region.node) is tree.body(call)
        and tree.order[region.node] < tree.order[call]
        and any(path in writes(statement) for statement in nested_statements(block))
        and not _is_overwritten(tree, region, call, path)
    )


def _is_overwritten(tree: Tree, region: AutocastRegion, call: cst.Call, path: str) -> bool:
    """Whether a name is given a value of another making on every way from a region to a backward."""
    around = set(tree.ancestors(call))
    inside = set(walk(region.node))
    return any(
        tree.order[region.node] < tree.order[statement] < tree.order[call]
        and statement not in inside
        and tree.block(statement) in around
        and isinstance(statement, cst.Assign)
        and path in writes(statement)
        and path not in statement_reads(statement)
        for statement in nested_statements(tree.body(call))
    )
