"""An evaluation forward stays in float32."""

from amp_migrate.report.rule import Rule, Safety

RULE = Rule(
    code="AMP211",
    name="apex-evaluation",
    summary="an evaluation forward stays in float32",
    before="def validate(model, loader): ...",
    after="",
    why=(
        "Apex patched the whole process. Where the script's switch cannot be asked at the forward, no "
        "region is written there."
    ),
    safety=Safety.MANUAL,
)
