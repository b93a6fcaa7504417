"""A training step in plain float32."""

from amp_migrate.report.rule import Rule

RULE = Rule(
    code="AMP501",
    name="fp32-step",
    summary="a training step in plain float32",
    before=("loss = criterion(model(images), labels)\nloss.backward()\noptimizer.step()"),
    after=(
        'with torch.amp.autocast(device_type="cuda", dtype=torch.float16):\n'
        "    loss = criterion(model(images), labels)\n"
        "scaler.scale(loss).backward()\n"
        "scaler.step(optimizer)\n"
        "scaler.update()"
    ),
    why=(
        "Forward and loss compute in low precision; float16 gradients need a loss scale, and its scaler "
        "goes wherever the optimizer goes. Gradients are unscaled before anything reads them."
    ),
)
