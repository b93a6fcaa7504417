"""Apex scripts to native AMP, a group of files at a time; what cannot be native goes to the shim as a whole.

`initialize` in one file, `scale_loss` in another and `state_dict` in a third are one script. Files that belong together
are migrated together, or they all keep Apex's calls and get them from `amp_shim`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import Project
from amp_migrate.analysis.roles import Roles
from amp_migrate.analysis.wanted import Wanted, everything
from amp_migrate.report.finding import Finding, Kind
from amp_migrate.settings import Apex, Dtype, Settings
from amp_migrate.steps.apex_beside import Beside, read_beside, write_beside
from amp_migrate.steps.apex_calls import amp_calls
from amp_migrate.steps.apex_functions import float_functions
from amp_migrate.steps.apex_group import Group, asks_apex, groups_of, starts, step_calls
from amp_migrate.steps.apex_guards import drop_imports, is_apex_import
from amp_migrate.steps.apex_helper import lifted
from amp_migrate.steps.apex_rest import ApexRest
from amp_migrate.steps.apex_script import ScriptReader
from amp_migrate.steps.apex_write import ApexWriter, Sited
from amp_migrate.steps.draft import Draft
from amp_migrate.steps.model import Refusal
from amp_migrate.steps.read_fp32 import bodies
from amp_migrate.steps.travel import Traveller
from amp_migrate.tables.apex_names import SHIM_SINCE
from amp_migrate.trees.nodes import Statement, nested_statements


class ApexMigration:
    """Moves the Apex scripts of a project; the edits end up in the drafts, what is said in `findings`."""

    def __init__(
        self,
        project: Project,
        roles: Roles,
        settings: Settings,
        draft_of: Callable[[File], Draft],
        wanted: Wanted = everything,
    ) -> None:
        self.project = project
        self.wanted = wanted
        self.roles = roles
        self.settings = settings
        self.draft = draft_of
        self.findings: list[Finding] = []
        self._files: tuple[File, ...] = ()
        self._unwanted: set[File] = set()
        self._native: set[File] = set()
        self._on_shim: set[File] = set()
        self._has_shim = settings.target_torch >= SHIM_SINCE and settings.apex is not Apex.NATIVE

    def _is_wanted(self, group: Group) -> bool:
        """Whether nothing of a group is to be left: a script moves as a whole, or not at all."""
        calls = [(file, call) for file in group.files for call in step_calls(file)]
        if calls:
            return all(self.wanted(file, call, "AMP201") for file, call in calls)
        return all(self.wanted(file, each, "AMP301") for file in group.files for each in _imports(file))

    def run(self, files: Iterable[File]) -> None:
        """Migrate every group of files that uses Apex."""
        self._files = tuple(files)
        apex = [file for file in self._files if asks_apex(file)]
        reader = ScriptReader(self.project, self.roles, self.settings, self._files, self.wanted)
        # What only says how functions compute belongs to the scripts there are, and goes their way.
        for group in sorted(groups_of(self.project, apex), key=lambda each: not any(map(step_calls, each.files))):
            if not self._is_wanted(group):
                self._unwanted.update(group.files)
                continue
            if self._folds_onto_native(group):
                self._native.update(group.files)
                continue
            reader.read(group, is_alone=bool(self._on_shim) or not self._native)
            if self.settings.apex is Apex.SHIM:
                group.refusals[:] = [self._asked_for_shim(group)]
            sited = self._site(group) if not group.refusals else []
            if not group.refusals:
                writer = ApexWriter(self.project, self.roles, self.settings.dtype, self.draft)
                refusal = writer.refusal(group.files, group.initializes, sited)
                if refusal is None:
                    writer.write(group.files, group.initializes, sited)
                    self._tell_native(group, sited, writer)
                    self._native.update(group.files)
                    continue
                group.refusals.append(refusal)
            self._to_shim(group)
            self._on_shim.update(group.files)
        rest = ApexRest(self.project, self.settings, self.draft, self.wanted)
        for file in self._files:
            if file not in self._unwanted:
                on_shim, amp_is_gone = self._is_on_shim(file), file in self._native
                self.findings.extend(rest.write(file, on_shim=on_shim, amp_is_gone=amp_is_gone))

    def _folds_onto_native(self, group: Group) -> bool:
        """Let native AMP, where a script has that beside Apex, serve what asked for Apex."""
        if self.settings.apex is Apex.SHIM or self.settings.apex_o2 is Apex.SHIM:
            return False
        beside = read_beside(self.project, group.files)
        if isinstance(beside, Refusal):
            group.refusals.append(beside)
        if not isinstance(beside, Beside):
            return False
        for file in group.files:
            write_beside(self.draft(file), beside)
            drop_imports(self.draft(file))
        for file, statement in beside.steps:
            message = "Apex step folded onto the native AMP that the script has beside it"
            self._tell(file, statement, "AMP201", Kind.MIGRATED, message)
        for file in group.files:
            for call in amp_calls(file, "initialize"):
                message = "amp.initialize is gone: what asked for Apex asks for the script's own native AMP"
                self._tell(file, call, "AMP202", Kind.MIGRATED, message)
                note = "the script's own native AMP decides about its scale and casts: Apex's options are not asked"
                self._tell(file, call, "AMP210", Kind.NOTE, note)
        return True

    def _asked_for_shim(self, group: Group) -> Refusal:
        file = group.files[0]
        place = next((i.call for i in group.initializes if i.file is file), file.tree.module)
        return Refusal(file, place, "that was asked for")

    def _is_on_shim(self, file: File) -> bool:
        """Whether a file belongs to a script whose steps stay on the shim, though it may not use `apex.amp` itself."""
        folders = (each.name.rpartition("/")[0] for each in self._on_shim if starts(each))
        beside = any(file.name.startswith(f"{folder}/" if folder else "") for folder in folders)
        return file in self._on_shim or (beside and file not in self._native)

    def _site(self, group: Group) -> list[Sited]:
        """Each step with the way of its scaler."""
        homes: dict[cst.CSTNode, Statement] = {}
        for index, each in enumerate(group.initializes):
            initialize = lifted(self.project, each)
            if isinstance(initialize, Refusal):
                group.refusals.append(initialize)
                return []
            group.initializes[index] = initialize
            tree = initialize.file.tree
            if isinstance(initialize.home, cst.Return):
                continue
            homes[tree.function(initialize.home) or tree.module] = initialize.home
        traveller = Traveller(self.project, homes)
        if self.settings.dtype is Dtype.BF16:
            return [Sited(each, None, traveller) for each in group.all_steps]
        found: list[Sited] = []
        for moving in group.steps:
            step = moving.gathered.step
            route = traveller.reach(step.file, [o.optimizer for o in step.optimizer_steps])
            if isinstance(route, Refusal):
                group.refusals.append(route)
                return []
            traveller.ways.add(route)
            found.append(Sited(moving, route, traveller))
        for split in group.splits:
            scaled = split.scaled(self.roles, traveller.reach)
            if isinstance(scaled, Refusal):
                group.refusals.append(scaled)
                return []
            for part, way in scaled:
                if way is not None:
                    traveller.ways.add(way)
                found.append(Sited(part, way, traveller))
        return found

    def _tell_native(self, group: Group, sited: list[Sited], writer: ApexWriter) -> None:
        for file, region in writer.left_in_float32:
            message = "evaluation stays in float32: whether mixed precision is on cannot be asked here"
            hint = "pass the switch to this function, and put the forward into torch.amp.autocast(..., enabled=...)"
            self._tell(file, region.first, "AMP211", Kind.NOTE, message, hint)
        for each in sited:
            step = each.step.gathered.step
            if all(backward.part is not None for backward in step.backwards):
                continue
            scaler = "" if each.route is None else f" with {each.route.scaler}"
            self._tell(step.file, step.place, "AMP201", Kind.MIGRATED, f"Apex step moved to native autocast{scaler}")
        is_import_only = not any(map(step_calls, group.files))
        for file in group.files:
            for statement in _imports(file) if is_import_only else ():
                self._tell(
                    file, statement, "AMP301", Kind.MIGRATED, "import of apex.amp is gone: no step here needs it"
                )
            for node in float_functions(file):
                note = "inside a function that was float_function, Apex went on casting and torch does not"
                self._tell(file, node, "AMP210", Kind.NOTE, note)
        for initialize in group.initializes:
            message = f"{initialize.what} is gone: native AMP needs no preparation of models and optimizers"
            self._tell(initialize.file, initialize.call, "AMP202", Kind.MIGRATED, message)
            for note in initialize.notes:
                self._tell(initialize.file, initialize.call, "AMP210", Kind.NOTE, note)

    def _to_shim(self, group: Group) -> None:
        kind = Kind.NOTE if self._has_shim else Kind.LEFT
        outcome = "kept on amp_shim instead of native AMP" if self._has_shim else "left on Apex"
        for refusal in dict.fromkeys(group.refusals):
            message = f"{outcome}: {refusal.reason}"
            self._tell(refusal.file, refusal.node, "AMP290", kind, message, refusal.hint)

    def _tell(self, file: File, node: cst.CSTNode, code: str, kind: Kind, message: str, hint: str = "") -> None:
        line, column = file.tree.position(node)
        self.findings.append(Finding(file.name, line, column, code, kind, message, hint))


def _imports(file: File) -> list[Statement]:
    """The imports that only bring in `apex.amp`."""
    inside = (statement for _, body in bodies(file) for statement in nested_statements(body))
    return [each for each in inside if isinstance(each, (cst.Import, cst.ImportFrom)) and is_apex_import(file, each)]
