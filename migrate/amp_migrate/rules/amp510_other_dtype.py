"""AMP code that is to compute in another dtype."""

from amp_migrate.report.rule import Rule

RULE = Rule(
    code="AMP510",
    name="other-dtype",
    summary="AMP code that is to compute in another dtype",
    before='with torch.amp.autocast(device_type="cuda", dtype=torch.float16):',
    after='with torch.amp.autocast(device_type="cuda", dtype=torch.bfloat16):',
    why=(
        "bfloat16 has the range of float32 and needs no loss scale: the scaler goes with every use of "
        "it, or is switched off where one use is not understood."
    ),
)
