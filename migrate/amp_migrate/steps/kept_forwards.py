"""`--keep-float32`: forwards that compute in float32 inside every region, because they were seen to need it."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import Project
from amp_migrate.catalog.step_rules import KEPT_FORWARD
from amp_migrate.plan.code import code
from amp_migrate.plan.edit import AddDecorator, Edit
from amp_migrate.plan.move import Move
from amp_migrate.report.finding import Finding, Kind
from amp_migrate.trees.nodes import find
from amp_migrate.wishes import Wishes
from amp_migrate.write.editor import Editor

RULE = KEPT_FORWARD.code


def kept_forwards(project: Project, wishes: Wishes) -> Iterator[tuple[File, Move]]:
    """What keeps the named classes in float32, each with its file; nothing for one that is kept already."""
    for name in wishes.settings.keep_float32:
        for file in project.library.defining("forward", name):
            for forward in _forwards(file, name):
                if not _is_kept(forward):
                    edit = _decorated(Editor(file, wishes.settings, RULE), forward)
                    message = f"{name} computes in float32 in every region, as --keep-float32 or --profile asks"
                    finding = Finding.at(file.tree, forward, RULE, Kind.MIGRATED, message)
                    yield file, Move((edit,), (finding,))


def _forwards(file: File, name: str) -> Iterator[cst.FunctionDef]:
    for owner in file.tree.every(cst.ClassDef):
        if owner.name.value == name:
            methods = (each for each in owner.body.body if isinstance(each, cst.FunctionDef))
            yield from (each for each in methods if each.name.value == "forward")


def _is_kept(forward: cst.FunctionDef) -> bool:
    """Whether its decorators say something of autocast already."""
    return any(name.value in ("custom_fwd", "autocast") for each in forward.decorators for name in find(each, cst.Name))


def _decorated(editor: Editor, forward: cst.FunctionDef) -> Edit:
    """The forward under `custom_fwd`, which switches autocast off and casts floating inputs, nested ones too."""
    device = f'device_type="{editor.settings.device_type}"'
    name, torch = editor.amp("custom_fwd", forward), editor.torch(forward)
    return editor.edit(forward, AddDecorator(code("{}({}, cast_inputs={}.float32)", name, device, torch)))
