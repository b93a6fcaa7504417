"""float16 code that has AMP already, and goes to bfloat16 (or to whichever the GPU has)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import Project
from amp_migrate.report.finding import Finding, Kind
from amp_migrate.settings import Dtype
from amp_migrate.steps.descale import Descaler
from amp_migrate.steps.draft import Draft
from amp_migrate.steps.retarget import cuda_regions, retarget, switch_scalers, undecided


class OtherDtype:
    """Gives a project's AMP code another dtype.

    Attributes:
        dtype: what the code computes in afterwards: float16 as before, where that could not be changed.
        descaler: knows which scalers went, and which are switched off.
    """

    def __init__(self, project: Project, dtype: Dtype, draft_of: Callable[[File], Draft]) -> None:
        self.dtype = dtype
        self.descaler = Descaler(project, draft_of)
        self._draft = draft_of

    def run(self, files: Sequence[File]) -> Iterator[Finding]:
        """Change regions and scalers together; where a region's dtype is decided at run time, all stays as it is."""
        if self.dtype is Dtype.FP16:
            return
        regions = tuple(cuda_regions(files))
        choice = undecided(regions)
        if choice is not None:
            self.dtype = Dtype.FP16
            line, column = choice.file.tree.position(choice.call)
            message = "float16 stays: this region's dtype is decided while the script runs"
            hint = "have the script choose bfloat16, and GradScaler(enabled=False), by hand"
            yield Finding(choice.file.name, line, column, "AMP510", Kind.LEFT, message, hint)
            return
        for region in retarget(regions, self.dtype, self._draft):
            line, column = region.file.tree.position(region.call)
            message = f"region computes in {'bfloat16' if self.dtype is Dtype.BF16 else 'what the GPU has'} now"
            yield Finding(region.file.name, line, column, "AMP510", Kind.MIGRATED, message)
        if self.dtype is Dtype.AUTO:
            switch_scalers(files, self._draft)
        else:
            yield from self.descaler.run(files)
