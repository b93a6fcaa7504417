"""Apex scripts to native AMP, a group of files at a time; what cannot be native goes to the shim as a whole.

`initialize` in one file, `scale_loss` in another and `state_dict` in a third are one script. Files that belong together
are migrated together, or they all keep Apex's calls and get them from `amp_shim`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import Project
from amp_migrate.analysis.roles import Roles
from amp_migrate.analysis.wanted import Wanted, everything
from amp_migrate.report.finding import Finding, Kind
from amp_migrate.settings import Apex, Dtype, Settings
from amp_migrate.steps.apex_calls import amp_calls, amp_name
from amp_migrate.steps.apex_functions import float_functions, is_native
from amp_migrate.steps.apex_guards import is_apex_import
from amp_migrate.steps.apex_initialize import Initialize, read_initializes
from amp_migrate.steps.apex_rest import ApexRest
from amp_migrate.steps.apex_scale import understood
from amp_migrate.steps.apex_write import ApexWriter, Sited
from amp_migrate.steps.draft import Draft
from amp_migrate.steps.fp16_optimizer import not_understood, read_wrappers, wrapper_calls
from amp_migrate.steps.model import Refusal
from amp_migrate.steps.read_apex import ApexStep, read_steps
from amp_migrate.steps.read_fp32 import bodies
from amp_migrate.steps.travel import Traveller
from amp_migrate.steps.ways import Route
from amp_migrate.steps.write_shim import apex_uses
from amp_migrate.tables.apex_names import AMP, SHIM_SINCE
from amp_migrate.trees.tree import Statement, nested_statements

_CONVERTED = frozenset({"initialize", "scale_loss", "master_params", "state_dict", "load_state_dict"})


@dataclass(eq=False)
class Group:
    """The files of one script that use `apex.amp`."""

    files: list[File] = field(default_factory=list)
    initializes: list[Initialize] = field(default_factory=list)
    steps: list[ApexStep] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)


def uses_apex_amp(file: File) -> bool:
    """Whether a file imports `apex.amp`, reaches it through `import apex`, or makes an `FP16_Optimizer`."""
    names = {b.imported for scope in file.scopes.all() for bindings in scope.bindings.values() for b in bindings}
    if any(name == AMP or name.startswith(AMP + ".") for name in names):
        return True
    return bool(wrapper_calls(file)) or ("apex" in names and any(True for _ in apex_uses(file, AMP)))


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
        self._unwanted: set[File] = set()
        self._native: set[File] = set()
        self._on_shim: set[File] = set()
        self._has_shim = settings.target_torch >= SHIM_SINCE and settings.apex is not Apex.NATIVE

    def _is_wanted(self, group: Group) -> bool:
        """Whether nothing of a group is to be left: a script moves as a whole, or not at all."""
        calls = [(file, call) for file in group.files for call in _calls(file)]
        if calls:
            return all(self.wanted(file, call, "AMP201") for file, call in calls)
        return all(self.wanted(file, each, "AMP301") for file in group.files for each in _imports(file))

    def run(self, files: Iterable[File]) -> None:
        """Migrate every group of files that uses Apex."""
        apex = [file for file in files if uses_apex_amp(file)]
        for group in self._groups(apex):
            if not self._is_wanted(group):
                self._unwanted.update(group.files)
                continue
            self._read(group)
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
        for file in files:
            if file not in self._unwanted:
                on_shim, amp_is_gone = self._is_on_shim(file), file in self._native
                self.findings.extend(rest.write(file, on_shim=on_shim, amp_is_gone=amp_is_gone))

    def _asked_for_shim(self, group: Group) -> Refusal:
        file = group.files[0]
        place = next((i.call for i in group.initializes if i.file is file), file.tree.module)
        return Refusal(file, place, "that was asked for")

    def _is_on_shim(self, file: File) -> bool:
        """Whether a file belongs to a script whose steps stay on the shim, though it may not use `apex.amp` itself."""
        folders = (each.name.rpartition("/")[0] for each in self._on_shim if _starts(each))
        beside = any(file.name.startswith(f"{folder}/" if folder else "") for folder in folders)
        return file in self._on_shim or (beside and file not in self._native)

    def _groups(self, files: list[File]) -> list[Group]:
        """A file that initializes Apex, its helpers beside or below it, and what these import, are one script.

        Two files that both initialize are two scripts, unless one imports the other.
        """
        group_of = {file: Group([file]) for file in files}
        starting = {file for file in files if _starts(file)}
        for file in files:
            related = self._imported(file)
            if file in starting:
                folder = file.name.rpartition("/")[0]
                beside = [other for other in files if other.name.startswith(f"{folder}/" if folder else "")]
                related += [other for other in beside if other not in starting]
            for other in related:
                if other in group_of and group_of[other] is not group_of[file]:
                    mine, theirs = group_of[file], group_of[other]
                    mine.files.extend(theirs.files)
                    for moved in theirs.files:
                        group_of[moved] = mine
        return list(dict.fromkeys(group_of.values()))

    def _imported(self, file: File) -> list[File]:
        found: list[File] = []
        for scope in file.scopes.all():
            for bindings in scope.bindings.values():
                for binding in bindings:
                    module = binding.imported.rpartition(".")[0]
                    for name in (binding.imported, module):
                        other = self.project.library.module(name, file) if name.strip(".") else None
                        if other is not None:
                            found.append(other)
        return found

    def _read(self, group: Group) -> None:
        wraps = any(map(wrapper_calls, group.files))
        for file in group.files:
            group.refusals.extend(self._leftovers(file))
            group.refusals.extend(not_understood(file, self.roles) if wraps else ())
            wrapped = read_wrappers(file, self.settings.apex_o2)
            for read in read_initializes(file, self.settings.apex_o2, wrapped):
                if isinstance(read, Refusal):
                    group.refusals.append(read)
                else:
                    group.initializes.append(read)
            for step in read_steps(file, self.roles, wraps=wraps):
                if isinstance(step, Refusal):
                    group.refusals.append(step)
                elif self.settings.dtype is not Dtype.BF16 and step.gathered.unscalable is not None:
                    group.refusals.append(step.gathered.unscalable)
                else:
                    group.steps.append(step)
        if not group.initializes and not group.refusals:
            for file in group.files:
                reason = "amp.float_function belongs to a script that is not among the files that were given"
                group.refusals.extend(Refusal(file, node, reason) for node in float_functions(file))
        if group.initializes and not group.steps and not group.refusals:
            group.refusals.extend(self._without_steps(group.initializes))
        if not group.initializes and not group.refusals and group.steps:
            file = group.files[0]
            where = group.steps[0].gathered.step.place
            group.refusals.append(Refusal(file, where, "amp.initialize is not among the files that were given"))

    def _without_steps(self, initializes: list[Initialize]) -> Iterable[Refusal]:
        """Optimizers that Apex prepares for a step which is in none of the files."""
        for each in initializes:
            optimizers = each.optimizers
            if optimizers is not None and each.file.tree.code(optimizers) not in ("None", "[]"):
                reason = "no step that scales its loss is among the files that were given"
                yield Refusal(each.file, each.call, reason, "give the files with the training step, too")

    def _leftovers(self, file: File) -> Iterable[Refusal]:
        """Uses of `apex.amp` that have no native form here."""
        for name, bindings in file.scopes.module.bindings.items():
            for binding in bindings:
                if binding.imported == AMP and self.project.takers(file, name):
                    yield Refusal(file, binding.node, f"other files take `{name}` from this one")
        about_scale = understood(file)
        for node in file.tree.every(cst.Name, cst.Attribute):
            parent = file.tree.parents[node]
            if type(parent) in (cst.Attribute, cst.ImportAlias, cst.AsName, cst.ImportFrom):
                continue
            if node in about_scale or file.tree.parents[node] in about_scale:
                continue
            used = amp_name(file, node)
            if used is not None and used not in _CONVERTED and not is_native(file, node, self.settings.target_torch):
                yield Refusal(file, node, f"amp.{used} has no native form here")
            elif AMP in file.names.meanings(node) and not isinstance(parent, cst.AssignTarget):
                yield Refusal(file, node, "amp itself is used as a value")
        for call in amp_calls(file, "state_dict"):
            if call not in about_scale and isinstance(file.tree.parents[call], (cst.Subscript, cst.Attribute)):
                yield Refusal(file, call, "the result of amp.state_dict is taken apart in a way that is not understood")

    def _site(self, group: Group) -> list[Sited]:
        """Each step with the way of its scaler."""
        homes: dict[cst.CSTNode, Statement] = {}
        for initialize in group.initializes:
            tree = initialize.file.tree
            if isinstance(initialize.home, cst.Return):
                continue
            homes[tree.function(initialize.home) or tree.module] = initialize.home
        traveller = Traveller(self.project, homes)
        found: list[Sited] = []
        for each in group.steps:
            step = each.gathered.step
            if self.settings.dtype is Dtype.BF16:
                found.append(Sited(each, None, traveller))
                continue
            route = traveller.reach(step.file, [o.optimizer for o in step.optimizer_steps])
            if isinstance(route, Refusal):
                group.refusals.append(route)
                return []
            assert isinstance(route, Route)
            traveller.ways.add(route)
            found.append(Sited(each, route, traveller))
        return found

    def _tell_native(self, group: Group, sited: list[Sited], writer: ApexWriter) -> None:
        for file, region in writer.left_in_float32:
            message = "evaluation stays in float32: whether mixed precision is on cannot be asked here"
            hint = "pass the switch to this function, and put the forward into torch.amp.autocast(..., enabled=...)"
            self._tell(file, region.first, "AMP211", Kind.NOTE, message, hint)
        for each in sited:
            step = each.step.gathered.step
            scaler = "" if each.route is None else f" with {each.route.scaler}"
            self._tell(step.file, step.place, "AMP201", Kind.MIGRATED, f"Apex step moved to native autocast{scaler}")
        is_import_only = not any(map(_calls, group.files))
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


def _calls(file: File) -> list[cst.Call]:
    """The calls that prepare and take Apex's training steps."""
    return [*wrapper_calls(file), *(call for name in ("initialize", "scale_loss") for call in amp_calls(file, name))]


def _imports(file: File) -> list[Statement]:
    """The imports that only bring in `apex.amp`."""
    inside = (statement for _, body in bodies(file) for statement in nested_statements(body))
    return [each for each in inside if isinstance(each, (cst.Import, cst.ImportFrom)) and is_apex_import(file, each)]


def _starts(file: File) -> bool:
    return bool(wrapper_calls(file)) or any(True for _ in amp_calls(file, "initialize"))
