"""From the files of a project to the edits that move its training steps."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import Project
from amp_migrate.analysis.roles import Roles
from amp_migrate.analysis.sigmoids import sigmoids_behind
from amp_migrate.analysis.wanted import Wanted, everything
from amp_migrate.report.finding import Finding, Kind
from amp_migrate.settings import Dtype, Settings
from amp_migrate.steps import read_fp32
from amp_migrate.steps.apex_group import idle_files, uses_apex_amp
from amp_migrate.steps.apex_migration import ApexMigration
from amp_migrate.steps.draft import Draft
from amp_migrate.steps.evaluation import evaluated_elsewhere, evaluation_regions
from amp_migrate.steps.flag import decide_flags, flag_places
from amp_migrate.steps.gather import Gathered
from amp_migrate.steps.keep_scalers import keep_in_checkpoints
from amp_migrate.steps.model import Backward, Refusal, TrainingStep
from amp_migrate.steps.move_split import scale_parts
from amp_migrate.steps.numpy_outputs import float_for_numpy
from amp_migrate.steps.penalties import with_low_scale
from amp_migrate.steps.product_arguments import float_for_products
from amp_migrate.steps.regions import Placement
from amp_migrate.steps.split import Joiner, Split
from amp_migrate.steps.steppers import Steppers
from amp_migrate.steps.travel import Traveller
from amp_migrate.steps.unfit import unfit
from amp_migrate.steps.ways import Route, ScaledStep
from amp_migrate.steps.write_flag import write_flags
from amp_migrate.steps.write_native import as_float, write_island, write_region, write_step
from amp_migrate.steps.write_ways import write_ways
from amp_migrate.trees import build

# What the text of a file has that trains, by an optimizer or by hand. One that only clears gradients, or only reads
# them, looks at something.
_TRAINS = re.compile(r"optim|(?:\b|_)opt(?:\b|_)|zero_grad.*\.grad\b|\.grad\b.*zero_grad", re.IGNORECASE | re.DOTALL)


class StepMigration:
    """Moves the training steps of a project; the edits end up in the drafts, what is said in `findings`."""

    def __init__(self, project: Project, settings: Settings, wanted: Wanted = everything) -> None:
        self.project = project
        self.settings = settings
        self.wanted = wanted
        self.roles = Roles(project)
        self.drafts: dict[File, Draft] = {}
        self.findings: list[Finding] = []
        self._traveller = Traveller(project, {})
        self._steppers = None if settings.dtype is Dtype.BF16 else Steppers(self.roles)
        self._in_float32: set[cst.CSTNode] = set()
        self._moved: dict[File, list[ScaledStep]] = defaultdict(list)
        self._obstacles: dict[File, Refusal | None] = {}
        self._idle: set[File] = set()

    def draft(self, file: File) -> Draft:
        """The draft of a file, made when something in it is to change."""
        return self.drafts.setdefault(file, Draft(file, self.settings))

    def run(self, files: Sequence[File]) -> None:
        """Read, decide and write every step."""
        self._idle = idle_files(self.project, files)
        for move in self._move_all(files):
            self._moved[move.step.file].append(move)
        evaluated = self._evaluated()
        conditions = self._add_flag(evaluated)
        for move in self._moves:
            self._write(move, conditions)
        for file, placed in evaluated.items():
            for region in placed.regions:
                write_region(self.draft(file), region, self.settings.dtype, conditions.get(region.first))
            for island in placed.islands:
                write_island(self.draft(file), island)
            trained = (region for move in self._moved.get(file, ()) for region in move.step.regions)
            regions = [*placed.regions, *trained]
            float_for_numpy(self.draft, file, self.roles, regions, self.settings.dtype)
            float_for_products(self.draft, file, self.roles, regions)
        keep_in_checkpoints(self.roles, self._traveller, self.draft)
        apex = ApexMigration(self.project, self.roles, self.settings, self.draft, self.wanted)
        apex.run(files)
        self.findings.extend(apex.findings)
        write_ways(self._traveller.ways, self.draft, self.settings.dtype, {})

    @property
    def _moves(self) -> list[ScaledStep]:
        return [move for moved in self._moved.values() for move in moved]

    def _evaluated(self) -> dict[File, Placement]:
        """The evaluation forwards beside the steps that have moved, and in the functions that they call for it."""
        found = {
            file: evaluation_regions(file, self.roles, [move.step for move in moved])
            for file, moved in self._moved.items()
        }
        for file, functions in evaluated_elsewhere(self.project, tuple(self._moved)).items():
            wanted = [each for each in functions if self.wanted(file, each, "AMP501")]
            if not self._is_on_apex(file) and self._obstacle(file) is None:
                found[file] = evaluation_regions(file, self.roles, [], wanted)
        return found

    def _move_all(self, files: Sequence[File]) -> Iterator[ScaledStep]:
        """Decide about every step, those that are split over functions last; gives the parts of what moves."""
        found: list[Gathered] = []
        for file in files:
            if self._is_on_apex(file):
                continue
            for read in read_fp32.read_steps(file, self.roles, self._steppers):
                obstacle = self._obstacle(file)
                if isinstance(read, Refusal) or obstacle is not None:
                    self._move(read if isinstance(read, Refusal) or obstacle is None else obstacle)
                else:
                    found.append(read)
        joined = Joiner(self.project, self._gather_again, self._steppers).join(found)
        for each in joined:
            if isinstance(each, Split):
                yield from self._move_split(each)
            else:
                move = self._move(each)
                if move is not None:
                    yield move

    def _is_on_apex(self, file: File) -> bool:
        return file not in self._idle and uses_apex_amp(file)

    def _obstacle(self, file: File) -> Refusal | None:
        if file not in self._obstacles:
            self._obstacles[file] = unfit(file, self.roles, self.settings.dtype)
        return self._obstacles[file]

    def _gather_again(
        self, file: File, function: cst.FunctionDef | None, backwards: list[Backward]
    ) -> Gathered | Refusal:
        if self._is_on_apex(file):
            return Refusal(file, backwards[0].statement, "it is called beside Apex", "migrate it by hand")
        return self._obstacle(file) or read_fp32.gather_again(file, function, backwards, self.roles, self._steppers)

    def _move_split(self, split: Split) -> Iterator[ScaledStep]:
        """Move all parts of a step, or none."""
        refused = next((part.step for part in split.parts if not self._is_wanted(part.step)), None)
        if refused is not None:
            return
        parts = [ScaledStep(part.step, None) for part in split.parts]
        if self.settings.dtype is not Dtype.BF16:
            scaled = scale_parts(split, self.roles, self._reach)
            if isinstance(scaled, Refusal):
                self._refuse(scaled, next(p.step for p in reversed(split.parts) if _goes_backward(p.step)))
                return
            parts = scaled
        is_low = any(part.step.has_summed_penalty for part in parts)
        for part in parts:
            if part.route is not None:
                self._traveller.ways.add(with_low_scale(part.route) if is_low else part.route)
            yield ScaledStep(part.step, part.route)

    def _is_wanted(self, step: TrainingStep) -> bool:
        return self.wanted(step.file, step.place, "AMP501")

    def _reach(self, file: File, optimizers: list[cst.BaseExpression]) -> Route | Refusal:
        """The way of a scaler to the optimizers of a step, where nothing speaks against one."""
        route = self._traveller.reach(file, optimizers)
        homes = () if isinstance(route, Refusal) else {creation.file for creation in route.creations}
        return next((obstacle for home in homes if (obstacle := self._obstacle(home)) is not None), route)

    def _move(self, read: Gathered | Refusal) -> ScaledStep | None:
        file, place = (read.file, read.node) if isinstance(read, Refusal) else (read.step.file, read.step.place)
        if not self.wanted(file, place, "AMP501"):
            return None
        if isinstance(read, Refusal):
            self._refuse(read)
            return None
        step, route = read.step, None
        if step.file.spelling.is_shadowed("torch", step.place):
            hint = "give it another name, so that torch can be imported"
            self._refuse(Refusal(step.file, step.place, "`torch` is the name of something else here", hint))
            return None
        if not step.optimizer_steps and not _TRAINS.search(step.file.tree.text):
            hint = "put forward and loss into torch.amp.autocast by hand, if a step elsewhere trains on these gradients"
            self._refuse(Refusal(step.file, step.place, "no optimizer is in sight of it", hint))
            return None
        if self.settings.dtype is not Dtype.BF16:
            if read.unscalable is not None:
                self._refuse(read.unscalable)
                return None
            found = self._reach(step.file, [each.optimizer for each in step.optimizer_steps])
            if isinstance(found, Refusal):
                self._refuse(found, step)
                return None
            route = with_low_scale(found) if step.has_summed_penalty else found
            self._traveller.ways.add(route)
        return ScaledStep(step, route)

    def _add_flag(self, evaluated: Mapping[File, Placement]) -> Mapping[cst.CSTNode, cst.BaseExpression]:
        """Bring a new option to all regions and scalers, if one is wanted; gives the condition of each region."""
        if not self.settings.add_flag:
            return {}
        ways = self._traveller.ways
        flags = decide_flags(self.project, flag_places(self._moves, evaluated, ways, self.settings.dtype))
        self.findings.extend(write_flags(flags, self.draft))
        ways.enable(flags.conditions)
        return {node: build.expression(code) for node, code in flags.conditions.items()}

    def _write(self, move: ScaledStep, conditions: Mapping[cst.CSTNode, cst.BaseExpression]) -> None:
        step, scaler = move.step, None if move.route is None else move.route.scaler
        if step.regions:
            step = replace(step, enabled=conditions.get(step.regions[0].first))
        write_step(self.draft(step.file), step, self.settings.dtype, scaler)
        self._keep_probabilities(step)
        if _goes_backward(step):
            line, column = step.file.tree.position(step.place)
            message = f"training step moved to {self._what(scaler)}"
            self.findings.append(Finding(step.file.name, line, column, "AMP501", Kind.MIGRATED, message))

    def _keep_probabilities(self, step: TrainingStep) -> None:
        """Compute in float32 the sigmoids behind losses of probabilities, and tell of those that cannot be seen."""
        inputs = [value for island in step.islands for value in island.inputs]  # `write_step` has cast these
        for value in (*inputs, *(extraction.value for extraction in step.extractions)):
            found = sigmoids_behind(self.roles, step.file, value)
            for file, given in found.arguments:
                if given not in inputs and given not in self._in_float32:
                    self._in_float32.add(given)
                    self.draft(file).edits.change(given, as_float)
            if found.hidden:
                line, column = step.file.tree.position(value)
                message = f"{step.file.tree.quote(value)} holds probabilities that a sigmoid computes in low precision"
                hint = "let the model give logits, and use BCEWithLogitsLoss: what is rounded to 1 has no gradient"
                self.findings.append(Finding(step.file.name, line, column, "AMP502", Kind.NOTE, message, hint))
                break

    def _what(self, scaler: str | None) -> str:
        names = {Dtype.FP16: "float16", Dtype.BF16: "bfloat16", Dtype.AUTO: "bfloat16 or float16"}
        return f"{names[self.settings.dtype]} autocast" + ("" if scaler is None else f" with {scaler}")

    def _refuse(self, refusal: Refusal, step: TrainingStep | None = None) -> None:
        file, node = refusal.file, refusal.node
        line, column = file.tree.position(node)
        message = f"step left as it was: {refusal.reason}"
        if step is not None and (step.file is not file or step.place is not node):
            where = step.file.tree.position(step.place)
            message += f" (step at {step.file.name}:{where[0]})"
        self.findings.append(Finding(file.name, line, column, refusal.code, Kind.LEFT, message, refusal.hint))


def _goes_backward(step: TrainingStep) -> bool:
    """Whether a part of a step calls `backward()` itself: a finding tells of it."""
    return any(backward.part is None for backward in step.backwards)
