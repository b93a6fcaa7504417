"""The rest of an Apex script, beside `apex.amp`: names that torch has become torch's, deleted ones come from the shim.

What Apex still has becomes torch's where that frees the file from Apex, or where only native code is asked for; else it
stays as it was. Deleted names of a script whose steps stay on the shim go there, too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property, partial
from typing import TypeAlias

import libcst as cst

from amp_migrate.analysis.bindings import dotted
from amp_migrate.analysis.files import File, object_bindings
from amp_migrate.analysis.project import Project
from amp_migrate.catalog.apex_rules import APEX_GONE, APEX_IMPORT, APEX_LEFT, APEX_STEP
from amp_migrate.plan.code import code
from amp_migrate.plan.edit import Edit, Reimport, dropped_by, is_within, replaced_by
from amp_migrate.plan.move import Move
from amp_migrate.report.finding import Finding, Kind
from amp_migrate.settings import Apex
from amp_migrate.steps.apex.names.apex_imports import ApexImports, Fate, ImportStatement, Item
from amp_migrate.steps.apex.names.frameworks import framework_switches
from amp_migrate.steps.apex.names.missing_texts import write_texts
from amp_migrate.steps.apex.names.native_names import ApexUse, NoForm, native_of, uses_of_apex, write_native
from amp_migrate.steps.apex.names.searched_graph import hides_parameters
from amp_migrate.steps.apex.names.shim_imports import is_gone, write_guards, write_import
from amp_migrate.steps.apex.uses.apex_calls import is_in
from amp_migrate.steps.apex.uses.apex_guards import find_probes, imports_by_name, library_probes
from amp_migrate.steps.apex.uses.norm_limits import norm_limits
from amp_migrate.steps.apex.write.write_uses import answered
from amp_migrate.steps.scaler.checkpoint_entries import loads_optimizer
from amp_migrate.tables.apex_names import COUNTERPARTS, DELETED, SHIM, SHIM_SINCE
from amp_migrate.tables.apex_natives import A_HIDING, TorchForm
from amp_migrate.wishes import Wishes
from amp_migrate.write.editor import Editor

Imports: TypeAlias = "tuple[tuple[ImportStatement, tuple[Item, ...]], ...]"
# What follows the training steps to the shim. A layer is torch's own in the shim, too.
_WITH_THE_STEP = "apex.parallel."
_IF_ALL_ARE_USED = (
    "drop find_unused_parameters=True where every parameter gets a gradient: torch looks for others in every iteration"
)
_NOT_SEARCHED = (
    "find_unused_parameters=True is not there, because it would take for unused what is behind {}: a parameter that "
    "never gets a gradient, which Apex took, raises in the second iteration"
)


class ApexRest:
    """Decides about what a file uses of Apex beside `apex.amp`.

    Args:
        edits: those of the steps of all scripts.
    """

    def __init__(self, project: Project, wishes: Wishes, edits: Sequence[Edit]) -> None:
        self.project = project
        self._dropped = dropped_by(edits)  # the branches that go, with all that is in them
        self._replaced = replaced_by(edits) | self._dropped
        self._edits = edits
        self._divided: dict[str, bool] = {}
        self.wishes = wishes
        self.settings = wishes.settings

    def moves(self, file: File, *, stays: bool, amp_is_gone: bool, probes: Fate) -> list[Move]:
        """What becomes of one file.

        Args:
            stays: whether the training steps of the file stay what they are, on the shim or on an old Apex.
            amp_is_gone: whether they are native now.
            probes: what becomes of imports that are only there to see whether Apex is.
        """
        edits: list[Edit] = []
        told: list[Finding] = []
        living_too = self.settings.apex is Apex.SHIM
        read = partial(ApexImports, file, self.project, amp_is_gone=amp_is_gone, living_too=living_too, probes=probes)
        gone = [limit.arg for limit in norm_limits(file)] if amp_is_gone else []
        converted = self._converted(file, told, gone, stays=stays)
        imports = tuple(read(converted, self._dropped).statements())
        if self.settings.apex is not Apex.NATIVE and _has(imports, Fate.STAYS):
            converted = {node: native for node, native in converted.items() if is_in(native.old, DELETED)}
            imports = tuple(read(converted, self._dropped).statements())
        for use in uses_of_apex(file):
            native = converted.get(use.node)
            if native is not None:
                beside = {name.partition(".")[0] for name in file.imported} | ({A_HIDING} if self._hidden else set())
                edits += write_native(Editor(file, self.settings, native.code), use, native, beside)
                message = f"{use.old} is now {native.new}"
                hint = _of_unused(native, self._hidden)
                told.append(Finding.at(file.tree, use.node, native.code, Kind.MIGRATED, message, hint))
                if native.note and self._may_resume(file):
                    told.append(Finding.at(file.tree, use.node, native.code, Kind.NOTE, native.note))
        told += framework_switches(file)
        told += _told_of_names(file)
        dropped: dict[ImportStatement, str] = {}
        for statement, items in imports:
            if is_within(file.tree, statement, self._replaced):
                dropped[statement] = APEX_STEP.code
                continue
            if any(item.fate is Fate.SHIM for item in items):
                if not self.wishes.wants(file.tree, statement, APEX_IMPORT.code):
                    continue
                if self.settings.apex is Apex.NATIVE or self.settings.target_torch < SHIM_SINCE:
                    told.append(self._without_shim(file, statement))
                    continue
                told.append(self._from_shim(file, statement, items))
            told += self._stays(file, statement, items)
            if any(item.fate in (Fate.SHIM, Fate.GONE) for item in items):
                is_unused = any(item.fate is Fate.GONE and item.is_unused for item in items)
                if is_unused and not self.wishes.wants(file.tree, statement, APEX_IMPORT.code):
                    continue
                rule = _rule_of(items, converted.values())
                edits += write_import(Editor(file, self.settings, rule), statement, items)
                if is_gone(statement, items):
                    dropped[statement] = rule
                told += self._unused(file, statement, items, amp_is_gone=amp_is_gone)
        asks_more = _has(imports, Fate.STAYS, Fate.PROVIDED_FOR)
        edits += self._probed(file, told, probes, asks_more=asks_more)
        edits += self._asked_of_libraries(file, told) if _has(imports, Fate.SHIM) and not asks_more else ()
        if _has(imports, Fate.SHIM) and not asks_more and any(isinstance(edit.change, Reimport) for edit in edits):
            edits += write_texts(Editor(file, self.settings, APEX_IMPORT.code))
        written = [str(new) for edit in self._edits if edit.tree is file.tree for new in edit.codes]
        editor = Editor(file, self.settings, next(iter(dropped.values()), APEX_IMPORT.code))
        guards = write_guards(editor, self.project, dropped, self._replaced, written)
        return [Move(tuple(edits), tuple(told)), *map(Move, guards)]

    def _may_resume(self, file: File) -> bool:
        """Whether the state of an optimizer is loaded in a file, or in one of its program."""
        library = self.project.library
        others = (each for each in library.mentioning("load_state_dict") if library.may_run_together(file, each))
        return loads_optimizer(file) or any(map(loads_optimizer, others))

    @cached_property
    def _hidden(self) -> str:
        """What may hide parameters from a search for unused ones, in any file of the project."""
        return hides_parameters(self.project)

    def _converted(
        self,
        file: File,
        told: list[Finding],
        gone: Collection[cst.Arg],
        *,
        stays: bool,
    ) -> dict[cst.CSTNode, TorchForm]:
        """The uses that torch has a name for; why others have none is told."""
        converted: dict[cst.CSTNode, TorchForm] = {}
        for old, uses in _by_name(file, self._dropped, self._replaced).items():
            if self.settings.apex is Apex.SHIM or (stays and old.startswith(_WITH_THE_STEP)):
                continue
            found = [native_of(file, use, self.settings.target_torch, gone) for use in uses]
            kept = [each for each in found if isinstance(each, NoForm)]
            if kept:
                told += (self._no_form(file, each) for each in kept)
                continue
            natives = [(use, each) for use, each in zip(uses, found, strict=True) if isinstance(each, TorchForm)]
            if not self._is_divided(old) and all(self._is_wanted(file, use, native) for use, native in natives):
                converted.update((use.node, native) for use, native in natives)
        return converted

    def _is_divided(self, old: str) -> bool:
        """Whether a file asks what is of a class, which torch has a name for, and a file makes it that keeps Apex's.

        One keeps it that hands it on, or whose arguments torch does not have.
        """
        if old not in self._divided:
            files = [*self.project.library.mentioning("apex", old.rpartition(".")[2])]
            uses = {file: [use for use in uses_of_apex(file) if use.old == old] for file in files}
            asks = any(_asks_class(file, use.node) for file in files for use in uses[file])
            self._divided[old] = asks and any(self._keeps(file, uses[file]) for file in files if uses[file])
        return self._divided[old]

    def _keeps(self, file: File, uses: Sequence[ApexUse]) -> bool:
        """Whether a name that is used in a file stays Apex's there."""
        if any(isinstance(native_of(file, use, self.settings.target_torch), NoForm) for use in uses):
            return True
        nodes = {use.node for use in uses}
        read = ApexImports(
            file, self.project, nodes, self._dropped, amp_is_gone=False, living_too=False, probes=Fate.PROVIDED_FOR
        )
        items = (item for _, items in read.statements() for item in items)
        return any(item.fate is Fate.STAYS and item.full == uses[0].old for item in items)

    def _probed(self, file: File, told: list[Finding], probes: Fate, *, asks_more: bool) -> Iterator[Edit]:
        """The edits of what asks the import system for Apex; what asks for more than mixed precision is told."""
        editor = Editor(file, self.settings, APEX_IMPORT.code)
        for probe in find_probes(file) if probes is not Fate.PROVIDED_FOR else ():
            if not self.wishes.wants(file.tree, probe.node, APEX_IMPORT.code):
                continue
            is_answered = probes is Fate.GONE
            if is_answered and (asks_more or probe.answer is None):
                message = "this asks whether Apex is there, which mixed precision does not need any more"
                told.append(Finding.at(file.tree, probe.node, APEX_IMPORT.code, Kind.LEFT, message))
                continue
            message = "this asked whether Apex is there" if is_answered else "this asks for amp_shim now"
            told.append(Finding.at(file.tree, probe.node, APEX_IMPORT.code, Kind.MIGRATED, message))
            quote = probe.package.quote
            yield (
                answered(editor, probe.node, answer=bool(probe.answer))
                if is_answered
                else editor.replace(probe.package, f"{quote}{SHIM}{quote}")
            )

    def _asked_of_libraries(self, file: File, told: list[Finding]) -> Iterator[Edit]:
        """The edits that let a file ask for the shim where another package asks for Apex, and knows nothing of it."""
        editor = Editor(file, self.settings, APEX_IMPORT.code)
        for probe in library_probes(self.project, file):
            finder = editor.module("importlib.util", probe)
            message = "this asks for amp_shim now"
            told.append(Finding.at(file.tree, probe, APEX_IMPORT.code, Kind.MIGRATED, message))
            yield editor.replace(probe, code('{}.find_spec("{}") is not None', finder, SHIM))

    def _is_wanted(self, file: File, use: ApexUse, native: TorchForm) -> bool:
        return self.wishes.wants(file.tree, use.node, native.code) and not file.spelling.is_shadowed("torch", use.node)

    def _no_form(self, file: File, each: NoForm) -> Finding:
        return Finding.at(
            file.tree,
            each.use.node,
            APEX_IMPORT.code,
            Kind.NOTE,
            f"{each.use.old} has no native form here: {each.reason}",
        )

    def _unused(
        self, file: File, statement: ImportStatement, items: tuple[Item, ...], *, amp_is_gone: bool
    ) -> Iterator[Finding]:
        for item in items:
            is_told = amp_is_gone and item.is_deleted  # with the steps that it was there for
            if item.fate is Fate.GONE and item.is_unused and not (is_told and item.index >= 0):
                what = f"all of {item.full}" if item.index < 0 else item.full
                message = f"import of {what} is gone: nothing uses it"
                yield Finding.at(file.tree, statement, APEX_IMPORT.code, Kind.MIGRATED, message)

    def _from_shim(self, file: File, statement: ImportStatement, items: tuple[Item, ...]) -> Finding:
        served = [item for item in items if item.fate is Fate.SHIM]
        why = "Apex has deleted" if any(item.is_deleted for item in served) else "torch has no form of"
        message = f"{why} what this imports: it comes from amp_shim now"
        if all(item.is_unused for item in served):
            message = "this asked whether Apex is there: it asks for amp_shim now"
        return Finding.at(
            file.tree,
            statement,
            APEX_IMPORT.code,
            Kind.MIGRATED,
            message,
            "add amp-migrate[shim] to what the script needs",
        )

    def _without_shim(self, file: File, statement: ImportStatement) -> Finding:
        if self.settings.apex is Apex.NATIVE:
            reason, hint = "only native code was asked for", "run with --apex auto, or replace its uses by hand"
        else:
            reason, hint = "amp_shim needs PyTorch 2.4", "raise --target-torch, or keep an old Apex"
        message = f"import left as it was: torch has no form of what it names, and {reason}"
        return Finding.at(file.tree, statement, APEX_IMPORT.code, Kind.LEFT, message, hint)

    def _stays(self, file: File, statement: ImportStatement, items: tuple[Item, ...]) -> Iterator[Finding]:
        for item in items:
            if item.fate is not Fate.STAYS or item.full == "apex":
                continue
            if item.is_deleted:
                message = "import left as it was: Apex has deleted what it names, and amp_shim does not have it"
                yield Finding.at(
                    file.tree, statement, APEX_GONE.code, Kind.LEFT, message, "replace its uses by torch's own by hand"
                )
            else:
                package = ".".join(item.full.split(".")[: 3 if item.full.startswith("apex.contrib.") else 2])
                message = f"import left as it was: Apex still has {item.full}"
                hint = COUNTERPARTS.get(item.full) or COUNTERPARTS.get(package, "")
                yield Finding.at(
                    file.tree, statement, APEX_LEFT.code, Kind.LEFT, message, hint and f"without Apex: {hint}"
                )


def _asks_class(file: File, node: cst.CSTNode) -> bool:
    """Whether a class is asked for: by `isinstance` or `issubclass`, or by a comparison of types."""
    statement = file.tree.statement(node)
    for around in file.tree.ancestors(node):
        if isinstance(around, cst.Call) and dotted(around.func) in ("isinstance", "issubclass"):
            return True
        if isinstance(around, cst.Comparison) or around is statement:
            return isinstance(around, cst.Comparison)
    return False


def _of_unused(native: TorchForm, hidden: str) -> str:
    """What to say of parameters without a gradient, which Apex took."""
    if not any(each.unless == (A_HIDING,) for each in native.says):
        return ""
    return _NOT_SEARCHED.format(hidden) if hidden else _IF_ALL_ARE_USED


def _told_of_names(file: File) -> Iterator[Finding]:
    """What is imported by a string, and is gone: nobody can say where it is used."""
    for call, full in imports_by_name(file):
        if is_in(full, DELETED):
            message = "import left as it was: Apex has deleted what it names, and a name in a string is not followed"
            hint = "import it by a statement (`from apex import amp`), and run again"
            yield Finding.at(file.tree, call, APEX_GONE.code, Kind.LEFT, message, hint)


def _rule_of(items: Iterable[Item], converted: Iterable[TorchForm]) -> str:
    """The rule that an import changes for: that of the names which torch has, unless some come from the shim."""
    if any(item.fate is Fate.SHIM for item in items):
        return APEX_IMPORT.code
    named = tuple(item.full for item in items)
    return min((native.code for native in converted if is_in(native.old, named)), default=APEX_IMPORT.code)


def _has(imports: Imports, *fates: Fate) -> bool:
    """Whether something of one of these fates is imported."""
    return any(item.fate in fates for _, items in imports for item in items)


def _by_name(
    file: File, dropped: Collection[cst.CSTNode], replaced: Collection[cst.CSTNode]
) -> dict[str, list[ApexUse]]:
    """The uses of each name, but for those that are gone, or are another's for that their import of Apex is."""
    found: dict[str, list[ApexUse]] = {}
    for use in uses_of_apex(file):
        made = object_bindings(file, use.node) if not file.names.full(use.node) else []
        if not is_within(file.tree, use.node, dropped) and not any(
            is_within(file.tree, e.node, replaced) for e in made
        ):
            found.setdefault(use.old, []).append(use)
    return found
