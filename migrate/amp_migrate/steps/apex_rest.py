"""The rest of an Apex script, beside `apex.amp`: names that torch has become torch's, the others come from the shim.

A script whose steps stay on the shim stays there as a whole: its processes and optimizers are those of Apex too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import Project
from amp_migrate.analysis.wanted import Wanted
from amp_migrate.report.finding import Finding, Kind
from amp_migrate.settings import Apex, Settings
from amp_migrate.steps.apex_frameworks import framework_switches
from amp_migrate.steps.apex_imports import ApexImports, Fate, ImportStatement, Item
from amp_migrate.steps.apex_names import NoForm, Use, native_of, uses_of_apex, write_native
from amp_migrate.steps.draft import Draft
from amp_migrate.steps.write_shim import gone_by_guard, write_import
from amp_migrate.tables.apex_names import COUNTERPARTS, SHIM_SINCE
from amp_migrate.tables.apex_natives import Native

# What follows the training steps to the shim. A layer is torch's own in the shim, too.
_WITH_THE_STEP = ("apex.parallel.", "apex.optimizers.")


class ApexRest:
    """Writes what a file uses of Apex beside `apex.amp`."""

    def __init__(self, project: Project, settings: Settings, draft_of: Callable[[File], Draft], wanted: Wanted) -> None:
        self.project = project
        self.settings = settings
        self.draft = draft_of
        self.wanted = wanted

    def write(self, file: File, *, on_shim: bool, amp_is_gone: bool) -> Iterator[Finding]:
        """Write one file, and tell what was done.

        Args:
            on_shim: whether the training steps of the file stay on the shim.
            amp_is_gone: whether they are native now.
        """
        draft = self.draft(file)
        converted: dict[cst.CSTNode, Native] = {}
        for old, uses in _by_name(file).items():
            if self.settings.apex is Apex.SHIM or (on_shim and old.startswith(_WITH_THE_STEP)):
                continue
            found = [native_of(file, use, self.settings.target_torch) for use in uses]
            kept = [each for each in found if isinstance(each, NoForm)]
            if kept:
                yield from (self._no_form(file, each) for each in kept)
                continue
            natives = [(use, each) for use, each in zip(uses, found, strict=True) if isinstance(each, Native)]
            if all(self._is_wanted(file, use, native) for use, native in natives):
                converted.update((use.node, native) for use, native in natives)
        for use in uses_of_apex(file):
            native = converted.get(use.node)
            if native is not None:
                write_native(draft, use, native)
                message = f"{use.old} is now {native.new}"
                yield _finding(file, use.node, native.code, Kind.MIGRATED, message)
                if native.note and "load_state_dict" in file.uses:
                    yield _finding(file, use.node, native.code, Kind.NOTE, native.note)
        yield from framework_switches(file)
        yield from self._write_imports(file, draft, ApexImports(file, self.project, converted, amp_is_gone=amp_is_gone))

    def _is_wanted(self, file: File, use: Use, native: Native) -> bool:
        return self.wanted(file, use.node, native.code) and not file.spelling.is_shadowed("torch", use.node)

    def _no_form(self, file: File, each: NoForm) -> Finding:
        return _finding(
            file, each.use.node, "AMP301", Kind.NOTE, f"{each.use.old} has no native form here: {each.reason}"
        )

    def _write_imports(self, file: File, draft: Draft, imports: ApexImports) -> Iterator[Finding]:
        gone: list[ImportStatement] = []
        for statement, items in imports.statements():
            if draft.edits.is_gone(file.tree, statement):
                gone.append(statement)
                continue
            if any(item.fate is Fate.SHIM for item in items):
                if not self.wanted(file, statement, "AMP301"):
                    continue
                if self.settings.apex is Apex.NATIVE or self.settings.target_torch < SHIM_SINCE:
                    yield self._without_shim(file, statement)
                    continue
                yield self._from_shim(file, statement, items)
            yield from self._stays(file, statement, items)
            if any(item.fate in (Fate.SHIM, Fate.GONE) for item in items) and write_import(draft, statement, items):
                gone.append(statement)
        gone_by_guard(draft, gone)

    def _from_shim(self, file: File, statement: ImportStatement, items: tuple[Item, ...]) -> Finding:
        served = [item for item in items if item.fate is Fate.SHIM]
        why = "Apex has deleted" if any(item.is_deleted for item in served) else "torch has no form of"
        message = f"{why} what this imports: it comes from amp_shim now"
        return _finding(
            file, statement, "AMP301", Kind.MIGRATED, message, "add amp-migrate[shim] to what the script needs"
        )

    def _without_shim(self, file: File, statement: ImportStatement) -> Finding:
        if self.settings.apex is Apex.NATIVE:
            reason, hint = "only native code was asked for", "run with --apex auto, or replace its uses by hand"
        else:
            reason, hint = "amp_shim needs PyTorch 2.4", "raise --target-torch, or keep an old Apex"
        message = f"import left as it was: torch has no form of what it names, and {reason}"
        return _finding(file, statement, "AMP301", Kind.LEFT, message, hint)

    def _stays(self, file: File, statement: ImportStatement, items: tuple[Item, ...]) -> Iterator[Finding]:
        for item in items:
            if item.fate is not Fate.STAYS or item.full == "apex":
                continue
            if item.is_deleted:
                message = "import left as it was: Apex has deleted what it names, and amp_shim does not have it"
                yield _finding(file, statement, "AMP390", Kind.LEFT, message, "replace its uses by torch's own by hand")
            else:
                package = ".".join(item.full.split(".")[: 3 if item.full.startswith("apex.contrib.") else 2])
                message = f"import left as it was: Apex still has {item.full}"
                hint = COUNTERPARTS.get(package, "")
                yield _finding(file, statement, "AMP391", Kind.LEFT, message, hint and f"without Apex: {hint}")


def _by_name(file: File) -> dict[str, list[Use]]:
    found: dict[str, list[Use]] = {}
    for use in uses_of_apex(file):
        found.setdefault(use.old, []).append(use)
    return found


def _finding(file: File, node: cst.CSTNode, code: str, kind: Kind, message: str, hint: str = "") -> Finding:
    line, column = file.tree.position(node)
    return Finding(file.name, line, column, code, kind, message, hint)
