"""A deprecated import stays because what it brings cannot be followed."""

from amp_migrate.report.rule import Rule, Safety

RULE = Rule(
    code="AMP190",
    name="import-not-followed",
    summary="a deprecated import stays because what it brings cannot be followed",
    before="from torch.cuda.amp import *",
    after="",
    why=("A star import, or a name that other files take from this one: rewriting it here could break code elsewhere."),
    safety=Safety.MANUAL,
)
