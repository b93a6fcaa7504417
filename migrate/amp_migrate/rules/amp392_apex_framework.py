"""A training framework that is told to use Apex."""

from amp_migrate.report.rule import Rule, Safety

RULE = Rule(
    code="AMP392",
    name="apex-framework",
    summary="a training framework that is told to use Apex",
    before='trainer = Trainer(amp_backend="apex", amp_level="O2", precision=16)',
    after="",
    why=(
        "Lightning, Hugging Face's Trainer and mmengine have native mixed precision of their own behind another "
        "switch. The finding says which; its name depends on the framework's version, so nothing is changed."
    ),
    safety=Safety.MANUAL,
)
