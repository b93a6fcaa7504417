"""Optimizers of Apex that torch has fused itself."""

from amp_migrate.report.rule import Rule

RULE = Rule(
    code="AMP320",
    name="apex-optimizer",
    summary="an optimizer of Apex that torch has itself",
    before="optimizer = apex.optimizers.FusedAdam(model.parameters(), lr=1e-3)",
    after="optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0, fused=True)",
    why=(
        "FusedAdam is AdamW without weight decay unless it is told otherwise, and AdamW decays by 0.01 by default, so "
        "the decay is written out. `fused=True` keeps one kernel for all parameters. What torch computes otherwise "
        "or not at all (`bias_correction=False`, FusedLAMB, FusedNovoGrad) comes from amp_shim."
    ),
)
