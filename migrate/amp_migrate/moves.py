"""What becomes of a project: all its moves, each reader after those whose results it has to know."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import Project
from amp_migrate.catalog.apex_rules import APEX_INITIALIZE, APEX_STEP
from amp_migrate.catalog.rule import Safety
from amp_migrate.catalog.step_rules import FP32_STEP, OTHER_DTYPE
from amp_migrate.flow.files import Files
from amp_migrate.flow.programs import Programs
from amp_migrate.hazards.find_hazards import find_hazards
from amp_migrate.hazards.hazard_rules import hazard_rules
from amp_migrate.hazards.seen.flowing import Flowing
from amp_migrate.hazards.seen.script import Script, speaks_of_amp
from amp_migrate.plan.move import Move
from amp_migrate.renames.change.across_files import handed_on
from amp_migrate.renames.change.decide_uses import Renaming
from amp_migrate.renames.change.rename_file import rename_names
from amp_migrate.renames.change.staying_regions import staying_regions
from amp_migrate.renames.rename import renaming_rules
from amp_migrate.report.finding import Kind
from amp_migrate.settings import Dtype, Settings
from amp_migrate.steps.apex.migrate_apex import ApexMigration
from amp_migrate.steps.apex.uses.handed_amp import read_handed
from amp_migrate.steps.dtype.other_dtype import other_dtype
from amp_migrate.steps.kept_forwards import kept_forwards
from amp_migrate.steps.migrate_steps import StepMigration
from amp_migrate.steps.read.value_calls import ValueCalls
from amp_migrate.wishes import Wishes

# What is told of a file whose forwards get regions; others bring names only, from the shim or from torch.
_INTO_REGIONS = (APEX_STEP.code, APEX_INITIALIZE.code, FP32_STEP.code)


def wishes_of(settings: Settings) -> Wishes:
    """What the options want: of the rules about names, those that the target's PyTorch has the new names for."""
    renaming = (each.rule for each in renaming_rules())
    return Wishes(settings, frozenset(rule.code for rule in renaming if rule.since > settings.target_torch))


def repairing_rules() -> frozenset[str]:
    """The rules whose changes do what the code was meant to do, and did not."""
    return frozenset(each.rule.code for each in hazard_rules() if each.rule.safety is Safety.UNSAFE)


def moves_of(
    project: Project,
    files: Sequence[File],
    wishes: Wishes,
    texts: Files,
    programs: Programs,
    is_planned_elsewhere: Callable[[str], bool],
) -> Iterator[Move]:
    """All that becomes of `files`, and of others for their sake.

    Args:
        texts: the texts of all files of the project.
        programs: those that earlier plans have had interpreted.
        is_planned_elsewhere: whether a file with this text, which is none of `files`, has a plan of its own.
    """
    if not files:
        return
    read_handed(project, files)
    values = ValueCalls(project, texts, files, programs)
    project.calls_by_value, project.holds_computed = values.together, values.holds_computed
    steps = StepMigration(project, wishes, values)
    apex = ApexMigration(project, steps.roles, wishes, values, steps.scaler_beside)
    moves = [*steps.moves(files), *apex.moves(files)]
    yield from moves
    told = (finding for move in moves for finding in move.findings)
    moved = {each.path for each in told if each.kind is Kind.MIGRATED and each.code in _INTO_REGIONS}
    dtype = wishes.settings.dtype if wishes.applies(OTHER_DTYPE.code) else Dtype.FP16
    renaming = Renaming(project, wishes, dtype)
    handed = handed_on(files, renaming)
    kept = frozenset(each.rule.code for each in renaming_rules() if not wishes.applies(each.rule.code))
    staying = staying_regions(handed, files, renaming)
    other = other_dtype(project, values, files, wishes, dtype, kept, staying)
    yield from other.moves
    renaming = Renaming(project, wishes, other.dtype, other.fates)
    for file in handed:
        yield rename_names(renaming, file, handed[file])
    given = frozenset(files)
    flowing = Flowing(texts, project.library, files, programs, to_bfloat16=other.dtype is not Dtype.FP16)
    for file in files:
        has_amp = speaks_of_amp(file.tree.text)
        if not has_amp and file.name not in moved:
            continue
        script = Script(file, steps.roles, wishes.settings, flowing, has_amp, file.name in moved, other.regions)
        for hazard, move in find_hazards(script, other.dtype, wishes):
            where = hazard.file or file
            # A script planned elsewhere has its own hazards found there, with all that changes.
            is_of_another = where not in given and is_planned_elsewhere(where.tree.text)
            if not is_of_another and all(wishes.wants(where.tree, hazard.node, each.code) for each in move.findings):
                yield move
    for file, move in kept_forwards(project, wishes):
        if file in given or not is_planned_elsewhere(file.tree.text):
            yield move
