"""A deprecated import stays because what it brings cannot be followed."""

from amp_migrate.report.rule import Rule, Safety

RULE = Rule(
    code="AMP190",
    name="import-not-followed",
    summary="a deprecated import stays because what it brings cannot be followed",
    before="from torch.cuda.amp import *",
    after="",
    why=(
        "A star import of which nothing is used, or a name that other files take from this one: rewriting it here "
        "could break code elsewhere. Where every use in the project is understood, the definition and all its uses "
        "move in one go; otherwise the finding names the first that is not. Files that are given one by one may hide "
        "others."
    ),
    safety=Safety.MANUAL,
)
