"""A script that was to get an option for mixed precision, and has none."""

from amp_migrate.report.rule import Rule, Safety

RULE = Rule(
    code="AMP593",
    name="no-switch",
    summary="--add-flag found no command line for an option, or no way from it to what was moved",
    before="torch.multiprocessing.spawn(worker, args=(2,))",
    after="",
    why=(
        "An option that switched a part of the regions and scalers would be worse than none: scaling would be off "
        "where float16 is on. The step itself has moved, and its mixed precision is always on."
    ),
    safety=Safety.MANUAL,
)
