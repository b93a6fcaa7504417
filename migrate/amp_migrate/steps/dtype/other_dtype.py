"""float16 code that has AMP already, and goes to bfloat16 (or to whichever the GPU has)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import Project
from amp_migrate.catalog.name_rules import CUDA_AUTOCAST_CODE, GRAD_SCALER_CODE
from amp_migrate.catalog.step_rules import OTHER_DTYPE
from amp_migrate.frozen import frozen
from amp_migrate.plan.move import Move
from amp_migrate.report.finding import Finding, Kind
from amp_migrate.settings import Dtype
from amp_migrate.steps.dtype.region_dtype import cuda_regions, on_in_float16, retarget, switched_off, undecided
from amp_migrate.steps.dtype.remove_scalers import UNTOUCHED, Descaler, Fates
from amp_migrate.steps.dtype.scale_reads import answer_when_off
from amp_migrate.steps.read.value_calls import ValueCalls
from amp_migrate.tables.torch_names import GRAD_SCALER
from amp_migrate.trees.tree import Tree
from amp_migrate.wishes import Wishes
from amp_migrate.write.editor import Editor


@frozen
class OtherDtype:
    """What becomes of a project's AMP code for the sake of another dtype.

    Attributes:
        dtype: what the code computes in afterwards: float16 as before, where that could not be changed.
        regions: the calls of autocast that computed in float16, with the dtype that each has afterwards.
        fates: which scalers went, and which are switched off.
        moves: what it takes.
    """

    dtype: Dtype
    regions: Mapping[cst.Call, Dtype] = field(default_factory=dict)
    fates: Fates = UNTOUCHED
    moves: tuple[Move, ...] = ()


def other_dtype(
    project: Project,
    values: ValueCalls,
    files: Sequence[File],
    wishes: Wishes,
    dtype: Dtype,
    kept: frozenset[str] = frozenset(),
    staying: Iterable[tuple[File, cst.CSTNode]] = (),
) -> OtherDtype:
    """Change regions and scalers together; where a region's dtype is decided at run time, all stays as it is.

    Args:
        kept: the rules about names that are not applied, so that their names keep their arguments, too.
        staying: the deprecated regions that are not rewritten, and go on meaning float16.
    """
    if dtype is Dtype.FP16:
        return OtherDtype(dtype)
    editor = Editor(files[0], wishes.settings, OTHER_DTYPE.code)
    regions = tuple(cuda_regions(files))
    choice = undecided(regions)
    if choice is not None:
        message = "float16 stays: this region's dtype is decided while the script runs"
        hint = "have the script choose bfloat16, and GradScaler(enabled=False), by hand"
        return _stays(choice.file.tree, choice.call, message, hint)
    deprecated = next((region for region in regions if not region.is_native), None)
    if deprecated is not None and CUDA_AUTOCAST_CODE in kept:
        message = "float16 stays: this region's deprecated name, which means float16, is not to be rewritten"
        return _stays(deprecated.file.tree, deprecated.call, message, "select AMP101, too")
    still = next(iter(staying), None)
    if still is not None:
        message = "float16 stays: this deprecated name, which means float16, cannot be rewritten"
        file, node = still
        return _stays(file.tree, node, message, "have it rewritten by hand first")
    moves: list[Move] = []
    for region in regions:
        edit = retarget(region, dtype, editor)
        if edit is not None:
            message = f"region computes in {'bfloat16' if dtype is Dtype.BF16 else 'what the GPU has'} now"
            told = Finding.at(region.file.tree, region.call, editor.rule, Kind.MIGRATED, message)
            moves.append(Move((edit,), (told,)))
    descaled = Descaler(project, values, editor).decide(files, regions, removes=dtype is Dtype.BF16)
    fates = descaled.fates
    for file in files:
        mine = editor.of(file)
        if dtype is Dtype.AUTO or fates.disabled:
            moves.append(Move(tuple(answer_when_off(mine))))
        calls = [call for call in file.calls if _keeps_name(file, call, fates, kept)]
        if dtype is Dtype.AUTO:
            moves.append(Move(tuple(on_in_float16(mine, call) for call in calls)))
        else:
            moves.append(Move(tuple(switched_off(mine, call) for call in calls if call in fates.disabled)))
    moves += descaled.moves
    unwanted = wishes.unwanted(edit for move in moves for edit in move.edits)
    if unwanted is not None:
        message = f"float16 stays: {unwanted.reason}, and regions and scalers change together"
        return _stays(unwanted.edit.tree, unwanted.edit.node, message)
    changed = {region.call: dtype for region in regions if region.is_float16}
    return OtherDtype(dtype, changed, fates, tuple(moves))


def _stays(tree: Tree, node: cst.CSTNode, message: str, hint: str = "") -> OtherDtype:
    """Everything stays in float16, because of one place."""
    return OtherDtype(
        Dtype.FP16, moves=(Move((), (Finding.at(tree, node, OTHER_DTYPE.code, Kind.LEFT, message, hint),)),)
    )


def _keeps_name(file: File, call: cst.Call, fates: Fates, kept: frozenset[str]) -> bool:
    """Whether a call makes a scaler by a name that stays, so that no rule about names sees to its switch."""
    if call in fates.kept:
        return False
    full = file.names.callee(call)
    is_deprecated = not full.startswith("torch.amp.")
    return full in GRAD_SCALER and not full.startswith("torch.cpu.") and (not is_deprecated or GRAD_SCALER_CODE in kept)
