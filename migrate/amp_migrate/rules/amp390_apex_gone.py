"""An import of something that Apex has deleted and the shim does not have."""

from amp_migrate.report.rule import Rule, Safety

RULE = Rule(
    code="AMP390",
    name="apex-gone",
    summary="an import of something that Apex has deleted and the shim does not have",
    before="from apex.RNN import LSTM",
    after="",
    why="Replace its uses by torch's own classes by hand.",
    safety=Safety.MANUAL,
)
