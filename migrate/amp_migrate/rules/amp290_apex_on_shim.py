"""An Apex script has no native form and runs on amp_shim."""

from amp_migrate.report.rule import Rule
from amp_migrate.tables.apex_names import SHIM_SINCE

RULE = Rule(
    code="AMP290",
    name="apex-on-shim",
    summary="an Apex script has no native form and runs on amp_shim",
    before="from apex import amp",
    after="from amp_shim import amp",
    why=(
        "O3, static loss scales, cast functions and the like: all files of the script "
        "keep Apex's calls, which amp_shim answers on today's PyTorch."
    ),
    since=SHIM_SINCE,
)
