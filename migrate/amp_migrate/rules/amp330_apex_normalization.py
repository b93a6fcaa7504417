"""Layers of Apex that torch has itself."""

from amp_migrate.report.rule import Rule

RULE = Rule(
    code="AMP330",
    name="apex-normalization",
    summary="a layer of apex.normalization that torch has itself",
    before="norm = apex.normalization.FusedRMSNorm(512)",
    after="norm = torch.nn.RMSNorm(512, eps=1e-5)",
    why=(
        "Parameters have the same names and meaning, so checkpoints still load. Torch's RMSNorm has another eps "
        "unless it is told. Under autocast torch's layers return float32, where Apex's returned float16."
    ),
)
