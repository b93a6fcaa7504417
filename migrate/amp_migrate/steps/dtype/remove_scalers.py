"""Takes a GradScaler out of code that goes from float16 to bfloat16, which needs none.

A scaler goes with every use of it, its way through arguments and its entry in checkpoints; where one use is not
understood, everything stays and the scaler is created with `enabled=False`, which does the same. Where the region of
its step cannot be seen it stays on: float16 without a scaler loses gradients, and bfloat16 with one does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import Project
from amp_migrate.catalog.step_rules import OTHER_DTYPE
from amp_migrate.frozen import frozen
from amp_migrate.plan.move import Move
from amp_migrate.report.finding import Finding, Kind
from amp_migrate.steps.dtype.follow_scaler import Component, Follower
from amp_migrate.steps.dtype.region_dtype import AutocastCall
from amp_migrate.steps.read.value_calls import ValueCalls
from amp_migrate.steps.statements.amp_signs import foreign_autocast, is_switched_off, names_any
from amp_migrate.tables.torch_names import AUTOCAST, GRAD_SCALER
from amp_migrate.write.editor import Editor


@frozen
class Fates:
    """What becomes of the scalers of a project.

    Attributes:
        removed: the names of `GradScaler` that go with the code around them.
        disabled: the calls of `GradScaler` that are to say `enabled=False`.
        kept: the calls of `GradScaler` that stay on, because the region they belong to may stay in float16.
    """

    removed: frozenset[cst.CSTNode] = frozenset()
    disabled: frozenset[cst.CSTNode] = frozenset()
    kept: frozenset[cst.CSTNode] = frozenset()


UNTOUCHED = Fates()


@frozen
class Descaled:
    """What becomes of the scalers of a project, and the moves that it takes."""

    fates: Fates
    moves: tuple[Move, ...]


class Descaler:
    """Removes the scalers of a project."""

    def __init__(self, project: Project, values: ValueCalls, editor: Editor) -> None:
        self._project = project
        self._follower = Follower(project, values, editor)

    def decide(self, files: Sequence[File], regions: Sequence[AutocastCall], *, removes: bool) -> Descaled:
        """Find the scalers created in `files` that have to stay on, as their region is not among `regions`.

        Args:
            removes: take out, or switch off, all others.
        """
        removed: set[cst.CSTNode] = set()
        disabled: set[cst.CSTNode] = set()
        stay_on: set[cst.CSTNode] = set()
        moves: list[Move] = []
        for component in self._components(files):
            calls = [call for _, call in component.creations]
            left = self._why_left(component, regions)
            if left is not None:
                stay_on.update(calls)
                hint = "give the file with the region, too, or change both by hand"
                moves.append(Move((), _told(component, Kind.LEFT, f"GradScaler stays on: {left}", hint)))
                continue
            if not removes:
                continue
            kept = self._why_kept(component)
            if kept is None:
                removed.update(component.removed)
                message = "GradScaler removed: bfloat16 needs no loss scaling"
                moves.append(Move(tuple(component.edits), _told(component, Kind.MIGRATED, message)))
            else:
                disabled.update(calls)
                message = f"GradScaler switched off: bfloat16 needs none, but {kept}"
                hint = "remove the scaler by hand where you can"
                moves.append(Move((), _told(component, Kind.NOTE, message, hint)))
        return Descaled(Fates(frozenset(removed), frozenset(disabled), frozenset(stay_on)), tuple(moves))

    def _components(self, files: Sequence[File]) -> Iterator[Component]:
        done: set[cst.CSTNode] = set()
        for file in files:
            for call in file.calls:
                if call in done or file.names.callee(call) not in GRAD_SCALER or is_switched_off(file, call):
                    continue
                component = self._follower.component(file, call)
                done.update(creation for _, creation in component.creations)
                done.add(call)
                yield component

    def _why_left(self, component: Component, regions: Sequence[AutocastCall]) -> str | None:
        """Why a scaler has to stay on: float16 without one would lose gradients. None where it may go."""
        for file, call in component.creations:
            if any(arg.star for arg in call.args):
                return f"the arguments of `{file.tree.quote(call)}` are starred, and may say whether it is on"
        for file, call in component.scaled:
            context = foreign_autocast(self._project, file.tree.body(call), file)
            if context is not None:
                return f"`{file.tree.quote(context)}` of the step at {_place(file, call)} may compute in float16"
        # Regions that are bfloat16 already say nothing: a step beside this one may have moved in an earlier run.
        if any(region.is_float16 and self._may_be_of(region.file, component) for region in regions):
            return None
        if component.scaled and all(names_any(file, file.tree.body(call), AUTOCAST) for file, call in component.scaled):
            return None
        return "the autocast region of its step is in none of the files, and may compute in float16"

    def _may_be_of(self, region: File, component: Component) -> bool:
        """Whether a script may have both a region and a scaler."""
        files = dict.fromkeys(file for file, _ in (*component.creations, *component.scaled))
        return any(self._project.library.may_run_together(region, file) for file in files)

    @staticmethod
    def _why_kept(component: Component) -> str | None:
        """Why a scaler cannot be taken out; None where it can."""
        if component.obstacle is not None:
            return f"its use at {_place(*component.obstacle)} is not understood"
        for file, call in component.scaled:
            # Without its scaler, the step would look like one that has no mixed precision yet.
            if not names_any(file, file.tree.module, AUTOCAST):
                return f"the autocast region of the step at {_place(file, call)} is in another file"
        return None


def _told(component: Component, kind: Kind, message: str, hint: str = "") -> tuple[Finding, ...]:
    """What is said where each scaler is made."""
    return tuple(
        Finding.at(file.tree, call, OTHER_DTYPE.code, kind, message, hint) for file, call in component.creations
    )


def _place(file: File, node: cst.CSTNode) -> str:
    return f"{file.name}:{file.tree.position(node)[0]}"
