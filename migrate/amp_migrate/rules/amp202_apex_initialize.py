"""Amp.initialize prepares models and optimizers for Apex."""

from amp_migrate.report.rule import Rule

RULE = Rule(
    code="AMP202",
    name="apex-initialize",
    summary="amp.initialize prepares models and optimizers for Apex",
    before='model, optimizer = amp.initialize(model, optimizer, opt_level="O1")',
    after='scaler = torch.amp.GradScaler("cuda")',
    why="Native AMP needs no preparation. The scaler is created in the place of the call.",
)
