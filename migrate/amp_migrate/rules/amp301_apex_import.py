"""An import of something that Apex has deleted."""

from amp_migrate.report.rule import Rule
from amp_migrate.tables.apex_names import SHIM_SINCE

RULE = Rule(
    code="AMP301",
    name="apex-import",
    summary="an import of something that Apex has deleted",
    before="from apex.parallel import DistributedDataParallel",
    after="from amp_shim.parallel import DistributedDataParallel",
    why="The shim has the same names with the same meaning, on torch's own parts.",
    since=SHIM_SINCE,
)
