"""Training whose precision is set elsewhere."""

from amp_migrate.report.rule import Rule, Safety

RULE = Rule(
    code="AMP591",
    name="other-precision",
    summary="training whose precision is set elsewhere",
    before="accelerator.backward(loss)",
    after="",
    why=("A framework or a sharding wrapper has a precision switch of its own; a second one around it would be wrong."),
    safety=Safety.MANUAL,
)
