"""A file was left whole because a part of the change was not wanted."""

from amp_migrate.report.rule import Rule, Safety

RULE = Rule(
    code="AMP003",
    name="partly-unwanted",
    summary="a file was left whole because a part of the change was not wanted",
    before="scaler = torch.cuda.amp.GradScaler()  # amp-migrate: ignore",
    after="",
    why=(
        "Where a line that is to be left belongs to a change that only makes sense as a whole, the file stays as it is."
    ),
    safety=Safety.MANUAL,
)
