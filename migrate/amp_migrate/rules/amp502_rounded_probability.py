"""A loss of probabilities reads those of a sigmoid that runs in low precision inside the model."""

from amp_migrate.report.rule import Rule, Safety

RULE = Rule(
    code="AMP502",
    name="rounded-probability",
    summary="a loss reads probabilities that a sigmoid computes in low precision",
    before="loss = nn.BCELoss()(model(x), y)  # the model ends in nn.Sequential(..., nn.Sigmoid())",
    after="",
    why=(
        "In float16 a sigmoid is exactly 1 for logits above 8, in bfloat16 above 6. Where the label is 0, such an "
        "output has no usable gradient: in float16 the scaler skips these steps and may never recover. Sigmoids that "
        "can be seen are given float32; one inside nn.Sequential is not. Let the model give logits, and use "
        "BCEWithLogitsLoss."
    ),
    safety=Safety.MANUAL,
)
