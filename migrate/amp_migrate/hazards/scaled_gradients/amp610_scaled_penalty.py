"""Gradients that are taken to build a penalty stay multiplied by the loss scale."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.catalog.rule import Rule, Safety, example
from amp_migrate.catalog.sources import EXAMPLES
from amp_migrate.flow.domain.atoms import tensors_in
from amp_migrate.hazards.seen.hazard import Hazard
from amp_migrate.hazards.seen.script import Script
from amp_migrate.hazards.seen.states import is_scaled
from amp_migrate.trees.nodes import find, is_constant
from amp_migrate.trees.own_calls import argument

RULE = Rule(
    code="AMP610",
    name="scaled-penalty",
    summary="gradients taken for a penalty stay multiplied by the loss scale",
    before=example(
        """
        import torch

        model = torch.nn.Linear(3, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cuda")

        for x, y in loader:
            optimizer.zero_grad()
            with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                loss = (model(x) - y).square().mean()
            grads = torch.autograd.grad(scaler.scale(loss), model.parameters(), create_graph=True)
            penalty = sum(grad.square().sum() for grad in grads)
            scaler.scale(loss + penalty).backward()
            scaler.step(optimizer)
            scaler.update()
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
            grads = torch.autograd.grad(scaler.scale(loss), model.parameters(), create_graph=True)
            grads = [grad / scaler.get_scale() for grad in grads]
            penalty = sum(grad.square().sum() for grad in grads)
            scaler.scale(loss + penalty).backward()
            scaler.step(optimizer)
            scaler.update()
        """
    ),
    why=(
        "What `torch.autograd.grad` gives is no optimizer's, so no `unscale_` reaches it. A penalty built on scaled "
        "gradients is wrong by the scale, or by its square. Divide by `get_scale()` before building it."
    ),
    sources=(f"{EXAMPLES}#gradient-penalty",),
    safety=Safety.MANUAL,
)
FLOAT16_ONLY = True


def detect(script: Script) -> Iterator[Hazard]:
    """Every differentiable gradient of a scaled loss in a function that never asks for the scale."""
    file = script.file
    for call in file.calls:
        if file.names.callee(call) != "torch.autograd.grad" or not is_constant(
            argument(call, "create_graph", 4), "True"
        ):
            continue
        outputs = argument(call, "outputs", 0)
        losses = [] if outputs is None else [*tensors_in(script.flowing.value_of(file, outputs))]
        courses = (each for each in script.courses if each.body is file.tree.body(call))
        scaler = next((each.scaler for each in courses if losses and all(map(is_scaled, losses))), None)
        if scaler is None or "get_scale" in {name.value for name in find(file.tree.body(call), cst.Name)}:
            continue
        yield Hazard(
            call,
            f"{file.tree.quote(call)} gives gradients that are still multiplied by the loss scale",
            f"divide each of them by {scaler}.get_scale() before building on them",
        )
