"""An opt level or an override means something slightly different natively."""

from amp_migrate.report.rule import Rule, Safety

RULE = Rule(
    code="AMP210",
    name="apex-level",
    summary="an opt level or an override means something slightly different natively",
    before='amp.initialize(model, optimizer, opt_level="O2")',
    after="",
    why=(
        "O2 kept float16 weights with float32 masters; natively the weights are float32 under autocast. "
        "Inputs and outputs are not cast, and batch norm keeps float32 statistics."
    ),
    safety=Safety.MANUAL,
)
