"""A training step scaled by apex.amp."""

from amp_migrate.report.rule import Rule

RULE = Rule(
    code="AMP201",
    name="apex-step",
    summary="a training step scaled by apex.amp",
    before=("with amp.scale_loss(loss, optimizer) as scaled_loss:\n    scaled_loss.backward()\noptimizer.step()"),
    after=("scaler.scale(loss).backward()\nscaler.step(optimizer)\nscaler.update()"),
    why=(
        "NVIDIA deleted apex.amp in May 2025. The step moves to a native region and GradScaler as a "
        "whole; where the script also trains without Apex, the two branches become one with `enabled=`."
    ),
)
