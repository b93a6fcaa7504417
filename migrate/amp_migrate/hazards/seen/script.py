"""One file that computes under AMP, as the hazard rules see it: read once, when the first of them asks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.imported import imported_names
from amp_migrate.analysis.roles import Roles
from amp_migrate.flow.domain.atoms import NEVER, Const
from amp_migrate.hazards.seen import autocast_regions
from amp_migrate.hazards.seen.autocast_regions import AutocastRegion
from amp_migrate.hazards.seen.course import Course, courses
from amp_migrate.hazards.seen.flowing import CLIPS_BESIDE_ACCELERATE, Flowing
from amp_migrate.settings import Dtype, Settings
from amp_migrate.write.editor import Editor

_SCALES = re.compile(r"GradScaler|\bunscale_\b|scaler\.scale\b")
# What gets a module, or what is in one, by a name that is known at run time alone.
_BY_NAME = ("import_module", "__import__", "spec_from_file_location", "run_path", "exec", "instantiate", "locate")
_AMP = re.compile(rf"autocast|GradScaler|\bunscale_\b|scaler\.scale\b|{CLIPS_BESIDE_ACCELERATE}")


@dataclass(frozen=True, eq=False)
class Script:
    """A file that computes under AMP.

    Attributes:
        file: the file.
        roles: what its objects are.
        settings: the PyTorch and the device it is for.
        flowing: what its values are, in which states its gradients.
        has_amp: whether it has AMP already, as the file is written.
        moved: whether it was float32, and this run moves it to AMP.
        becomes: the calls of autocast that this run gives another dtype, with that dtype.
    """

    file: File
    roles: Roles
    settings: Settings
    flowing: Flowing
    has_amp: bool = True
    moved: bool = False
    becomes: Mapping[cst.Call, Dtype] = field(default_factory=dict)

    def editor(self, rule: str, file: File | None = None) -> Editor:
        """Makes the repairs of a rule, in the script's own file or in another."""
        return Editor(file or self.file, self.settings, rule)

    @cached_property
    def courses(self) -> tuple[Course, ...]:
        """How each function uses each scaler."""
        return tuple(courses(self.file, self.flowing)) if _SCALES.search(self.file.tree.text) else ()

    @cached_property
    def regions(self) -> dict[cst.CSTNode, AutocastRegion]:
        """The autocast regions, by their `with`."""
        found = autocast_regions.regions_in(self.file)
        return {each.node: replace(each, becomes=self.becomes.get(each.call)) for each in found}

    def region_around(self, node: cst.CSTNode) -> AutocastRegion | None:
        """The innermost region that a node runs in; None where there is none, or it is switched off."""
        return autocast_regions.region_around(self.file, self.regions, node)

    def may_be_on_cuda(self, region: AutocastRegion) -> bool:
        """Whether a region is for CUDA, by its text or by what the name of its device may stand for."""
        device = None if region.device else self.file.names.argument(region.call, "device_type")
        devices = NEVER if device is None else self.flowing.value_of(self.file, device)
        named = (str(each.value).partition(":")[0] for each in devices if isinstance(each, Const))
        return region.device == "cuda" or "cuda" in named

    @property
    def computes_in_float16(self) -> bool:
        """Whether some of it runs in float16, as far as the text shows."""
        return self.moved or any(region.is_float16 for region in self.regions.values())

    @property
    def goes_to_bfloat16(self) -> bool:
        """Whether this run moves it from float32 to regions that may be bfloat16."""
        return self.moved and self.settings.dtype is not Dtype.FP16

    @property
    def computes_in_bfloat16(self) -> bool:
        """Whether some of it may run in bfloat16, as far as the text shows."""
        return self.goes_to_bfloat16 or any(region.is_bfloat16 for region in self.regions.values())

    def models(self, method: str, beside: re.Pattern[str], imports: int = 0) -> Iterator[File]:
        """The files of the script that may call a method, as those of its models may.

        They are in its folder and below, or in the package that its relative imports reach up to, or what its regions
        run is in them.

        Args:
            beside: what the text of such a file has somewhere.
            imports: how many imports away they may be, wherever they are.
        """
        library = self.roles.project.library
        for file in library.calling(method, beside, None if imports else self.may_run):
            if self.may_run(file.name) or (imports and library.brings(self.file, file, imports)):
                yield file

    def modules(self, text: Callable[[str], bool]) -> Iterator[File]:
        """The files of the script that define a forward, as those of its models do; see `models`.

        Args:
            text: whether a file with this text is worth a look.
        """
        return self.roles.project.library.defining("forward", text=text, among=self.may_run)

    def may_enter(self, file: File, node: cst.CSTNode) -> bool:
        """Whether a place is in a method of a module that some region may be round, of whoever calls it.

        None of the script is where a file makes the module itself, and no other gets it from there: a benchmark beside
        the script. Nor is one that the script makes, and never calls.
        """
        owner, method = file.tree.owner_class(node), file.tree.function(node)
        if owner is not None and file is not self.file and self._is_alone(file, owner.name.value):
            return False
        may_run = autocast_regions.is_left_to_callers(file, node)
        if not (may_run and self.has_amp) or method is None:  # what this run moves is not interpreted for it
            return may_run
        return not self.flowing.is_idle(file, method)

    def _is_alone(self, file: File, name: str) -> bool:
        library, module = self.roles.project.library, file.name.rpartition("/")[2].removesuffix(".py")
        parents = (file.tree.parents[each] for each in file.uses.get(name, ()))
        is_made = any(isinstance(each, cst.Call) for each in parents)
        is_taken = any(True for _ in library.importing(file, (name, module)))
        return is_made and not is_taken and not self._gets_by_name

    @cached_property
    def _gets_by_name(self) -> bool:
        """Whether some file of the project may get a module by a name that is known at run time alone."""
        return any(True for each in _BY_NAME for _ in self.roles.project.library.mentioning(each))

    def may_run(self, name: str) -> bool:
        """Whether a file stands where those of the script do, or something of it runs in the script's regions."""
        is_below = any(not folder or name.startswith(f"{folder}/") for folder in self._folders)
        return is_below or name in self._run_in_regions

    @cached_property
    def _run_in_regions(self) -> frozenset[str]:
        """The names of the files of which the regions run something, as far as the analysis of values can tell."""
        return frozenset(name for node in self.regions for name in self.flowing.files_run(self.file, node))

    @cached_property
    def _folders(self) -> frozenset[str]:
        """The folders that hold what the script runs: its own and what is below, and those of what it imports.

        `from ..model import Net` speaks of the package above, `from models.net import Net` of a folder on the path.
        """
        up = max((len(each.relative) for each in self.file.tree.every(cst.ImportFrom)), default=0)
        parts = self.file.name.split("/")
        own = "/".join(parts[: -max(up, 1)])
        imported = (name.rpartition("/")[0] for name in imported_names(self.roles.project, self.file))
        # A folder above its own holds other scripts, too.
        return frozenset({own, *(folder for folder in imported if folder and not f"{own}/".startswith(f"{folder}/"))})


def speaks_of_amp(text: str) -> bool:
    """Whether a text may hold AMP at all: most files are told apart by this alone."""
    return _AMP.search(text) is not None
