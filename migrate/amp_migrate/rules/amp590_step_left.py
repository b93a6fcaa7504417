"""A training step that stays as it was."""

from amp_migrate.report.rule import Rule, Safety

RULE = Rule(
    code="AMP590",
    name="step-left",
    summary="a training step that stays as it was",
    before="optimizer.step(closure)",
    after="",
    why=(
        "A step moves as a whole or not at all. The finding names the part that stands in the way and "
        "what to write by hand."
    ),
    safety=Safety.MANUAL,
)
