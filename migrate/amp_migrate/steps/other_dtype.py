"""float16 code that has AMP already, and goes to bfloat16 (or to whichever the GPU has)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import Project
from amp_migrate.report.finding import Finding, Kind
from amp_migrate.settings import Dtype
from amp_migrate.steps.descale import Descaler
from amp_migrate.steps.draft import Draft
from amp_migrate.steps.native import GRAD_SCALER
from amp_migrate.steps.retarget import cuda_regions, retarget, switch_scalers, switched_off, undecided
from amp_migrate.steps.scale_state import answer_when_off


class OtherDtype:
    """Gives a project's AMP code another dtype.

    Attributes:
        dtype: what the code computes in afterwards: float16 as before, where that could not be changed.
        regions: the calls of autocast that computed in float16, with the dtype that each has afterwards.
        descaler: knows which scalers went, and which are switched off.
    """

    def __init__(
        self,
        project: Project,
        dtype: Dtype,
        draft_of: Callable[[File], Draft],
        kept: frozenset[str] = frozenset(),
        staying: Iterable[tuple[File, cst.CSTNode]] = (),
    ) -> None:
        """
        Args:
            kept: the rules about names that are not applied, so that their names keep their arguments, too.
            staying: the deprecated regions that are not rewritten, and go on meaning float16.
        """
        self.dtype = dtype
        self.regions: dict[cst.Call, Dtype] = {}
        self._kept = kept
        self._staying = staying
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
        deprecated = next((region for region in regions if not region.is_native), None)
        if deprecated is not None and "AMP101" in self._kept:
            self.dtype = Dtype.FP16
            line, column = deprecated.file.tree.position(deprecated.call)
            message = "float16 stays: this region's deprecated name, which means float16, is not to be rewritten"
            yield Finding(deprecated.file.name, line, column, "AMP510", Kind.LEFT, message, "select AMP101, too")
            return
        staying = next(iter(self._staying), None)
        if staying is not None:
            self.dtype = Dtype.FP16
            file, node = staying
            line, column = file.tree.position(node)
            message = "float16 stays: this deprecated name, which means float16, cannot be rewritten"
            yield Finding(file.name, line, column, "AMP510", Kind.LEFT, message, "have it rewritten by hand first")
            return
        self.regions = {region.call: self.dtype for region in regions if region.is_float16}
        for region in retarget(regions, self.dtype, self._draft):
            line, column = region.file.tree.position(region.call)
            message = f"region computes in {'bfloat16' if self.dtype is Dtype.BF16 else 'what the GPU has'} now"
            yield Finding(region.file.name, line, column, "AMP510", Kind.MIGRATED, message)
        yield from self.descaler.run(files, regions, removes=self.dtype is Dtype.BF16)
        if self.dtype is Dtype.AUTO or self.descaler.fates.disabled:
            for file in files:
                answer_when_off(file, self._draft)
        if self.dtype is Dtype.AUTO:
            switch_scalers(files, self._draft, self._keeps_name)
        else:
            disabled = self.descaler.fates.disabled
            for file in files:
                for call in file.calls:
                    if call in disabled and self._keeps_name(file, call):
                        self._draft(file).edits.change(call, switched_off)

    def _keeps_name(self, file: File, call: cst.Call) -> bool:
        """Whether a call makes a scaler by a name that stays, so that no rule about names sees to its switch."""
        if call in self.descaler.fates.kept:
            return False
        full = file.names.callee(call)
        is_deprecated = not full.startswith("torch.amp.")
        return (
            full in GRAD_SCALER and not full.startswith("torch.cpu.") and (not is_deprecated or "AMP103" in self._kept)
        )
