"""A file cannot be read or parsed."""

from amp_migrate.report.rule import Rule, Safety

RULE = Rule(
    code="AMP001",
    name="unreadable-file",
    summary="a file cannot be read or parsed",
    before='print "epoch", epoch',
    after="",
    why=(
        "The file is left as it is and the others are still done; the exit code is 2. Python 2 has to "
        "become Python 3 first."
    ),
    safety=Safety.MANUAL,
)
