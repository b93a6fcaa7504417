"""A planned change did not pass the checks that every change must pass."""

from amp_migrate.report.rule import Rule, Safety

RULE = Rule(
    code="AMP002",
    name="refused-result",
    summary="a planned change did not pass the checks that every change must pass",
    before="",
    after="",
    why=(
        "A new text must parse, compile, bind every name it uses, call autocast and its like as the target's PyTorch "
        "takes it, and stay as it is on a second run. "
        "What does not is a fault of the tool: the file is left as it is."
    ),
    safety=Safety.MANUAL,
)
