"""An import of something that Apex still has."""

from amp_migrate.report.rule import Rule, Safety

RULE = Rule(
    code="AMP391",
    name="apex-left",
    summary="an import of something that Apex still has, and torch has not under another name",
    before="from apex.contrib.xentropy import SoftmaxCrossEntropyLoss",
    after="",
    why="It goes on working where Apex is built with its CUDA extensions. The finding names what does without.",
    safety=Safety.MANUAL,
)
