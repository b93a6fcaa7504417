"""What is said of files that cannot be migrated at all."""

from __future__ import annotations

from amp_migrate.catalog.rule import Rule, Safety

UNREADABLE_FILE = Rule(
    code="AMP001",
    name="unreadable-file",
    summary="a file cannot be read or parsed",
    example="""
        print "epoch", epoch
        """,
    why=(
        "The file is left as it is and the others are still done; the exit code is 2. Python 2 has to "
        "become Python 3 first."
    ),
    safety=Safety.MANUAL,
)

REFUSED_RESULT = Rule(
    code="AMP002",
    name="refused-result",
    summary="a planned change did not pass the checks that every change must pass",
    example="",
    why=(
        "A new text must parse, compile, bind every name it uses, call autocast and its like as the target's PyTorch "
        "takes it, and be the same program as the original when the precision is taken out of both. "
        "What is not is a fault of the tool: the file is left as it is, with the files that belong to it."
    ),
    safety=Safety.MANUAL,
)
