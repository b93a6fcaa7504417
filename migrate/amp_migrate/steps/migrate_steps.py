"""From the files of a project to the edits that move its training steps."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import Project
from amp_migrate.analysis.roles import Roles
from amp_migrate.catalog.step_rules import FP32_STEP, STEP_LEFT, SWITCH_ADDED
from amp_migrate.plan.code import Code
from amp_migrate.plan.edit import Edit
from amp_migrate.plan.move import InFile, Move, Refusal
from amp_migrate.report.finding import Finding, Kind, seen_from
from amp_migrate.settings import Apex, Dtype, Withdrawn
from amp_migrate.steps.apex.script.prepared_steps import PreparedOptimizers
from amp_migrate.steps.apex.script.script_group import handed_wrappers, idle_files, never_scaled, uses_apex_amp
from amp_migrate.steps.flag.decide_flag import decide_flags, flag_places
from amp_migrate.steps.flag.write_flag import WrittenFlags, write_flags
from amp_migrate.steps.gradients.gradient_uses import told_of_scaled_gradients
from amp_migrate.steps.gradients.penalties import LOW_SCALE_NOTE, has_large_penalty, with_low_scale
from amp_migrate.steps.gradients.steppers import Steppers
from amp_migrate.steps.model.route import Route, ScaledStep, Ways
from amp_migrate.steps.model.training_step import Backward, Region, TrainingStep
from amp_migrate.steps.read import fp32
from amp_migrate.steps.read.called_in_float32 import called_in_float32
from amp_migrate.steps.read.gather import Gathered
from amp_migrate.steps.read.split import Joiner, Split
from amp_migrate.steps.read.unfit import of_a_test, unfit
from amp_migrate.steps.read.value_calls import ValueCalls
from amp_migrate.steps.regions.evaluation import EvaluationRegions, evaluated_elsewhere
from amp_migrate.steps.regions.find_regions import Placement
from amp_migrate.steps.scaler.find_route import Traveller
from amp_migrate.steps.scaler.in_checkpoints import keep_in_checkpoints
from amp_migrate.steps.scaler.made_first import make_first
from amp_migrate.steps.scaler.of_split_step import scale_parts
from amp_migrate.steps.scaler.own_scalers import OwnScalers
from amp_migrate.steps.scaler.stale_calls import told_of_stale
from amp_migrate.steps.statements.bodies import backward_calls, bodies, outermost_loop
from amp_migrate.steps.told_beside import told_beside
from amp_migrate.steps.write.write_route import write_arguments, write_ways
from amp_migrate.steps.write.write_step import write_island, write_region, write_step
from amp_migrate.trees.nodes import Statement, inner_statements
from amp_migrate.wishes import Wishes
from amp_migrate.write.editor import Editor

# What the text of a file has that trains, by an optimizer or by hand. One that only clears gradients, or only reads
# them, looks at something.
_TRAINS = re.compile(r"optim|(?:\b|_)opt(?:\b|_)|zero_grad.*\.grad\b|\.grad\b.*zero_grad", re.IGNORECASE | re.DOTALL)
_GOES_WITH = "it goes with what goes backward in line {}, and stays with that"


class StepMigration:
    """Moves the training steps of a project."""

    def __init__(self, project: Project, wishes: Wishes, values: ValueCalls) -> None:
        self._values = values
        self.project = project
        self.wishes = wishes
        self.settings = wishes.settings
        self.roles = Roles(project, self.settings.sized)
        self._traveller = Traveller(project, {}, values)
        self._own = OwnScalers(lambda names: Traveller(project, {}, values, names=names, is_own=True))
        self._steppers = None if self.settings.dtype is Dtype.BF16 else Steppers(self.roles, values)
        self._moved: dict[File, list[ScaledStep]] = defaultdict(list)
        self._refused: list[Finding] = []
        self._obstacles: dict[File, Refusal | None] = {}
        self._covered: set[cst.CSTNode] = set()
        self._loops: dict[File, dict[cst.For | cst.While, dict[Statement, Withdrawn | None]]] = {}
        self._idle: frozenset[File] = frozenset()
        self._handed: Collection[File] = ()
        self._never_scaled: Mapping[File, cst.Call] = {}
        self._prepared = PreparedOptimizers(project, ())

    def moves(self, files: Sequence[File]) -> list[Move]:
        """Read and decide about every step."""
        if not self.wishes.applies(FP32_STEP.code):
            return []
        if self.settings.apex is not Apex.SHIM:
            self._idle = idle_files(self.project, files)
        self._handed = handed_wrappers(self.project, files)
        self._never_scaled = dict(never_scaled(self.project, files, self._handed))
        self._prepared = PreparedOptimizers(self.project, files)
        for move in self._move_all(files):
            self._moved[move.step.file].append(move)
        moves = [Move((), tuple(self._refused))]
        forwards = {file: self._without_apart(file, each) for file, each in self._evaluated(files).items()}
        evaluated = {file: self._wanted_of(file, each) for file, each in forwards.items()}
        editor, ways = self._editor(files[0]), self._traveller.ways
        travellers = (self._traveller, *self._own.travellers.values())
        kept = [move for each in travellers for move in keep_in_checkpoints(self.roles, each, editor, self.wishes)]
        in_checkpoints = [edit for move in kept for edit in move.edits]
        of_steps = [edit for each in self._steps for edit in self._edits(each)]
        for each in travellers:
            make_first(each.ways, (*in_checkpoints, *of_steps, *write_arguments(each.ways, editor)))
        flags = self._flags(evaluated)
        moves.append(flags.move)
        ways.enable({node: str(each) for node, each in flags.conditions.items()})
        moves += [self._step(each, flags.conditions) for each in self._steps]
        for file, placed in evaluated.items():
            moves += [Move((edit,)) for edit in self._evaluation(file, placed, flags.conditions)]
        moves += kept
        for each in travellers:
            moves.append(Move((), tuple(told_of_stale(self.project, each.ways, FP32_STEP.code))))
        way = [edit for each in travellers for edit in write_ways(each.ways, editor, self.settings.dtype)]
        moves += [Move(tuple(edit for edit in way if edit.tree is tree)) for tree in dict.fromkeys(e.tree for e in way)]
        if flags.conditions:
            moves = [replace(move, beside=move.beside | flags.move.trees) for move in moves]
        return list(told_beside(moves))

    def scaler_beside(self, file: File, optimizer: cst.BaseExpression) -> str | None:
        """The new scaler of an optimizer, as code, where a place can see it and it is made by then."""
        route = self._traveller.reach(file, [optimizer], create=False)
        if isinstance(route, Refusal) or route.parameters:
            return None
        tree, made = file.tree, self._traveller.ways.creations.get(file.tree.function(optimizer) or file.tree.module)
        is_late = made is not None and tree.order[made.home] > tree.order[tree.statement(optimizer)]
        return None if is_late else route.scaler

    def _editor(self, file: File) -> Editor:
        return Editor(file, self.settings, FP32_STEP.code)

    @property
    def _steps(self) -> list[ScaledStep]:
        return [move for moved in self._moved.values() for move in moved]

    def _evaluated(self, files: Sequence[File]) -> dict[File, Placement]:
        """The evaluation forwards beside the steps that have moved, and in the functions that they call for it."""
        regions = EvaluationRegions(self.roles, [move.step for move in self._steps], training=files)
        found = {file: regions.of(file) for file in self._moved}
        for file, functions in evaluated_elsewhere(self.project, tuple(self._moved)).items():
            wanted = [each for each in functions if self.wishes.wants(file.tree, each, FP32_STEP.code)]
            if not self._is_of_apex(file) and self._obstacle(file) is None:
                found[file] = regions.of(file, wanted)
        return found

    def _move_all(self, files: Sequence[File]) -> Iterator[ScaledStep]:
        """Decide about every step, those that are split over functions last; gives the parts of what moves."""
        found: list[Gathered] = []
        for file in files:
            if self._is_of_apex(file):
                continue
            self._tell_of_left_alone(file)
            for read in fp32.read_steps(file, self.roles, self._steppers, self._obstacle, self._left_alone(file)):
                if isinstance(read, Refusal):
                    self._refuse(read)
                elif (withdrawn := self._withdrawn(read.step, 0)) is not None:
                    own = self._withdrawn(read.step, file.tree.position(read.step.place)[0])
                    self._leave(own or withdrawn, read.step)
                else:
                    found.append(read)
        joined = Joiner(self.project, self._gather_again, self._steppers, self._values).join(found)
        # Last those with a scaler for each optimizer, once it is known which others there are.
        for each in sorted(joined, key=lambda each: isinstance(each, Gathered) and bool(each.own)):
            parts = each.parts if isinstance(each, Split) else () if isinstance(each, Refusal) else (each,)
            steps = [step for part in parts for step in (part.own or (part.step,)) if _goes_backward(step)]
            reasons = (self._withdrawn(step, step.file.tree.position(step.place)[0]) for step in steps)
            withdrawn = next((why for why in reasons if why is not None), None)
            if withdrawn is not None:
                self._leave(withdrawn, *steps)
            elif isinstance(each, Split):
                yield from self._move_split(each)
            else:
                yield from self._move(each)

    def _is_of_apex(self, file: File) -> bool:
        """Whether the steps of a file are those of an Apex script."""
        return (uses_apex_amp(file) and file not in self._idle) or file in self._handed

    def _obstacle(self, file: File) -> Refusal | None:
        if file not in self._obstacles:
            self._obstacles[file] = unfit(file, self.settings.dtype)
        return self._obstacles[file]

    def _withdrawn(self, step: TrainingStep, line: int) -> Refusal | None:
        """What a first plan has shown of a step, or of all in its file where the line is 0: nobody could write it.

        What goes backward first behind the regions that it is about is where it is told.
        """
        wanted = (FP32_STEP.code, step.file.name, line)
        why = next((each for each in self.settings.withdrawn if each.of == wanted), None)
        if why is None:
            return None
        lines = {file.tree.position(node)[0]: (file, node) for file, node in step.places}
        behind = {next((each for each in sorted(lines) if each >= region), 0) for region in why.regions}
        left = tuple(lines[each] for each in behind if each) if len(behind) == 1 < len(lines) else ()
        is_of_others = line == 0 and why.own and lines.keys().isdisjoint(why.own)
        reason = _GOES_WITH.format(why.own[0]) if is_of_others else why.reason
        return Refusal(step.file, step.place, reason, why.hint, left=left)

    def _withdrawn_loops(self, file: File) -> dict[cst.For | cst.While, dict[Statement, Withdrawn | None]]:
        """The loops of one body that a first plan has shown to stay, beside others that train: what each has.

        One behind the other, they train models of their own, or in another way, by whatever names.
        """
        if file not in self._loops:
            known = {e.line: e for e in self.settings.withdrawn if (e.code, e.file) == (FP32_STEP.code, file.name)}
            self._loops[file] = {}
            for _, body in bodies(file) if any(known) else ():
                loops: defaultdict[cst.For | cst.While | None, dict[Statement, Withdrawn | None]] = defaultdict(dict)
                for statement, _ in backward_calls(body):
                    loops[outermost_loop(file, statement)][statement] = known.get(file.tree.position(statement)[0])
                several = ((loop, own) for loop, own in loops.items() if len(loops) > 1)
                own_of = {loop: own for loop, own in several if loop is not None and any(own.values())}
                self._loops[file].update(own_of)
        return self._loops[file]

    def _left_alone(self, file: File) -> frozenset[Statement]:
        """The statements of these loops."""
        return frozenset(each for loop in self._withdrawn_loops(file) for each in inner_statements(loop))

    def _tell_of_left_alone(self, file: File) -> None:
        for own in self._withdrawn_loops(file).values():
            line, first = next((file.tree.position(each)[0], why) for each, why in own.items() if why is not None)
            for each, why in own.items():
                refusal = Refusal(file, each, _GOES_WITH.format(line) if why is None else why.reason, first.hint)
                self._tell(file, each, refusal, f"left as it was: {refusal.reason}")

    def _gather_again(
        self, file: File, function: cst.FunctionDef | None, backwards: list[Backward]
    ) -> Gathered | Refusal:
        if self._is_of_apex(file):
            return Refusal(file, backwards[0].statement, "it is called beside Apex", "migrate it by hand")
        return self._obstacle(file) or fp32.gather_again(
            file, function, backwards, self.roles, self._steppers, self._left_alone(file)
        )

    def _move_split(self, split: Split) -> Iterator[ScaledStep]:
        """Move all parts of a step, or none but what is a step by itself."""
        refused = next((part.step for part in split.parts if not self._is_wanted(part.step)), None)
        if refused is not None:
            return
        off = next(filter(None, (called_in_float32(self.project, part.step) for part in split.parts)), None)
        if off is not None:
            self._refuse(off, *(part.step for part in split.parts if _goes_backward(part.step)))
            return
        parts = [ScaledStep(part.step, None) for part in split.parts]
        told = next(part.step for part in reversed(split.parts) if _goes_backward(part.step))
        if self.settings.dtype is not Dtype.BF16:
            scaled = scale_parts(split, self.roles, self._reach)
            if isinstance(scaled, Refusal):
                whole = [each for each in split.alone if each.is_by_itself]
                left = [each for each in split.alone if each not in whole] if whole else split.parts
                self._refuse(scaled, *(part.step for part in left if _goes_backward(part.step)))
                for each in whole:
                    yield from self._move(each)
                return
            parts = scaled
        is_low = any(has_large_penalty(part.step, self.settings) for part in parts)
        if is_low:
            parts = [replace(part, route=part.route and with_low_scale(part.route)) for part in parts]
        if self._is_left(told, parts):
            return
        for part in parts:
            if part.route is not None:
                self._traveller.ways.add(part.route)
            yield part

    def _is_left(self, told: TrainingStep, parts: Sequence[ScaledStep]) -> bool:
        """Whether some code that a step would change is to be left alone, so that all of it is; which is told."""
        ways = [Ways.of([part.route]) for part in parts if part.route is not None]
        trees = frozenset().union(*(each.trees for each in ways))
        if not self.wishes.are_asked({*(part.step.file.tree for part in parts), *trees}):
            return False
        dtype = self.settings.dtype
        edits = (edit for part in parts for edit in self._edits(part))
        way = (edit for each in ways for edit in write_ways(each, self._editor(told.file), dtype))
        unwanted = self.wishes.unwanted(chain(edits, way))
        if unwanted is not None:
            reason = f"{unwanted.seen_from(told.file.tree)}, and the step moves as a whole"
            steps = (part.step for part in parts if _goes_backward(part.step))
            self._refuse(Refusal(told.file, told.place, reason), *steps)
        return unwanted is not None

    def _edits(self, part: ScaledStep) -> Iterator[Edit]:
        """The edits of one step, or of one part of it."""
        return write_step(self._editor(part.step.file), part.step, self.settings.dtype, _scaler(part))

    def _is_wanted(self, step: TrainingStep) -> bool:
        return self.wishes.wants(step.file.tree, step.place, FP32_STEP.code)

    def _reach(self, file: File, optimizers: list[cst.BaseExpression]) -> Route | Refusal:
        """The way of a scaler to the optimizers of a step, where nothing speaks against one."""
        return self._reach_by(self._traveller, file, optimizers)

    def _reach_by(self, traveller: Traveller, file: File, optimizers: list[cst.BaseExpression]) -> Route | Refusal:
        route = traveller.reach(file, optimizers)
        homes = [] if isinstance(route, Refusal) else [*dict.fromkeys(each.file for each in route.creations)]
        tests = {each for each in homes if of_a_test(each) is not None}
        training = [each for each in homes if each not in tests]
        obstacles = map(self._obstacle, training or homes)
        refused = self._cast_by_apex(route, file, optimizers) or next(filter(None, obstacles), None)
        if refused is not None or isinstance(route, Refusal):
            return refused or route
        # A test that calls what a script trains by goes on as it did, on the CPU if it is there: nothing is scaled.
        creations = (replace(e, arguments=("enabled=False",)) if e.file in tests else e for e in route.creations)
        return replace(route, creations=tuple(creations))

    def _cast_by_apex(
        self, route: Route | Refusal, file: File, optimizers: Sequence[cst.BaseExpression]
    ) -> Refusal | None:
        """Why a step stays whose optimizers Apex prepares: its script stays on the shim, or has a switch for it."""
        reason = "Apex prepares its optimizer, and casts what is computed here though nothing scales the loss"
        for creation in () if isinstance(route, Refusal) else route.creations:
            if creation.file in self._never_scaled:
                return Refusal(creation.file, self._never_scaled[creation.file], reason)
        by = next(filter(None, (self._prepared.preparing(file, each) for each in optimizers)), None)
        if by is not None and by.is_off:
            reason = "it is what the script computes in float32, where its own switch does not ask for Apex"
        return None if by is None else Refusal(by.file, by.call, reason)

    def _move(self, read: Gathered | Refusal) -> Sequence[ScaledStep]:
        if isinstance(read, Refusal):
            self._refuse(read)
            return ()
        step, route = read.step, None
        own: list[tuple[Traveller, Route]] = []
        if not self.wishes.wants(step.file.tree, step.place, FP32_STEP.code):
            return ()
        off = called_in_float32(self.project, step)
        if off is not None:
            self._refuse(off, step)
            return ()
        if step.file.spelling.is_shadowed("torch", step.place):
            hint = "give it another name, so that torch can be imported"
            self._refuse(Refusal(step.file, step.place, "`torch` is the name of something else here", hint), step)
            return ()
        if not step.optimizer_steps and not _TRAINS.search(step.file.tree.text):
            hint = "put forward and loss into torch.amp.autocast by hand, if a step elsewhere trains on these gradients"
            self._refuse(Refusal(step.file, step.place, "no optimizer is in sight of it", hint), step)
            return ()
        if self.settings.dtype is not Dtype.BF16:
            own = self._own_routes(read) if read.own else []
            if read.unscalable is not None and not own:
                self._refuse(read.unscalable, step)
                return ()
            found = own[0][1] if own else self._reach(step.file, [each.optimizer for each in step.optimizer_steps])
            if isinstance(found, Refusal):
                self._refuse(found, step)
                return ()
            route = with_low_scale(found) if has_large_penalty(step, self.settings) else found
        elif (self._never_scaled or self._prepared) and step.optimizer_steps:
            optimizers = [each.optimizer for each in step.optimizer_steps]
            refused = self._cast_by_apex(self._traveller.reach(step.file, optimizers), step.file, optimizers)
            if refused is not None:
                self._refuse(refused, step)
                return ()
        parts = [(step, self._traveller, route)]
        if own:
            parts = [(part, *way) for part, way in zip(read.own, own, strict=True)]
        moves = [ScaledStep(part, way) for part, _, way in parts]
        if self._is_left(step, moves):
            return ()
        for _, traveller, way in parts:
            if way is not None:
                traveller.ways.add(way)
        return moves

    def _own_routes(self, read: Gathered) -> list[tuple[Traveller, Route]]:
        """The ways of a scaler for each optimizer of a step; none where those of all have to be known by one name."""
        if self.settings.add_flag:
            return []
        return self._own.routes(read.own, self._reach_by, self._traveller.ways)

    def _flags(self, evaluated: Mapping[File, Placement]) -> WrittenFlags:
        """How a new option comes to all regions and scalers, if one is wanted."""
        if not self.settings.add_flag or not self.wishes.applies(SWITCH_ADDED.code):
            return WrittenFlags()
        traveller = self._traveller
        places = flag_places(self._steps, evaluated, traveller.ways, self.settings.dtype, traveller.may_be_none)
        return write_flags(decide_flags(self.project, places), self.settings, self.wishes)

    def _without_apart(self, file: File, placed: Placement) -> Placement:
        """The evaluation forwards but for those that have to be float32, as a first plan has shown."""
        return replace(placed, regions=self._but_apart(file, placed.regions))

    def _but_apart(self, file: File, regions: tuple[Region, ...]) -> tuple[Region, ...]:
        apart = {line for name, line in self.settings.evaluated_apart if name == file.name}
        return tuple(each for each in regions if file.tree.position(each.first)[0] not in apart)

    def _wanted_of(self, file: File, placed: Placement) -> Placement:
        """The evaluation forwards that are not to be left alone."""
        if not self.wishes.are_asked([file.tree]):
            return placed
        editor, dtype = self._editor(file), self.settings.dtype
        regions = (each for each in placed.regions if not self.wishes.unwanted([write_region(editor, each, dtype)]))
        return replace(placed, regions=tuple(regions))

    def _step(self, move: ScaledStep, conditions: Mapping[cst.CSTNode, Code]) -> Move:
        """What becomes of one step, or of one part of it."""
        step, scaler = move.step, _scaler(move)
        if step.regions:
            enabled = conditions.get(step.regions[0].first)
            step = replace(step, regions=self._but_apart(step.file, step.regions), enabled=enabled)
        told: list[Finding] = []
        if _goes_backward(step):
            message = f"training step moved to {self._what(scaler)}"
            told += (Finding.at(step.file.tree, each, FP32_STEP.code, Kind.MIGRATED, message) for each in step.told)
        if scaler is not None and has_large_penalty(step, self.settings):
            told.append(Finding.at(step.file.tree, step.place, FP32_STEP.code, Kind.NOTE, LOW_SCALE_NOTE))
        if scaler is not None:
            told += told_of_scaled_gradients(self.roles, step)
        trees = frozenset() if move.route is None else Ways.of([move.route]).trees
        return Move(tuple(self._edits(replace(move, step=step))), tuple(told), trees)

    def _evaluation(self, file: File, placed: Placement, conditions: Mapping[cst.CSTNode, Code]) -> Iterator[Edit]:
        """The edits of the evaluation forwards in a file, and of what all regions there hand out."""
        editor = self._editor(file)
        for region in placed.regions:
            yield write_region(editor, region, self.settings.dtype, conditions.get(region.first))
        for island in placed.islands:
            yield from write_island(editor, island)

    def _what(self, scaler: str | None) -> str:
        names = {Dtype.FP16: "float16", Dtype.BF16: "bfloat16", Dtype.AUTO: "bfloat16 or float16"}
        return f"{names[self.settings.dtype]} autocast" + ("" if scaler is None else f" with {scaler}")

    def _leave(self, withdrawn: Refusal, *steps: TrainingStep) -> None:
        """Say of each place of what is withdrawn why it is: the reason has a place of its own."""
        for file, node in (place for step in steps for place in step.places):
            reason = withdrawn.reason
            if withdrawn.left and (file, node) not in withdrawn.left:
                ((_, own),) = withdrawn.left
                reason = _GOES_WITH.format(file.tree.position(own)[0])
            self._tell(file, node, withdrawn, f"left as it was: {reason}")

    def _refuse(self, refusal: Refusal, *steps: TrainingStep) -> None:
        """Say of everything that stays why it does, each at its own place."""
        self._covered.update(refusal.covered)
        told = [place for step in steps for place in step.places] or refusal.left or ((refusal.file, refusal.node),)
        for file, node in told:
            if not self._covered.isdisjoint(file.tree.ancestors(node)):
                continue
            self._tell(file, node, refusal, f"step left as it was: {refusal.reason}{_elsewhere(refusal, file, node)}")

    def _tell(self, file: InFile, node: cst.CSTNode, refusal: Refusal, message: str) -> None:
        if self.wishes.wants(file.tree, node, FP32_STEP.code):
            code = refusal.code or STEP_LEFT.code
            self._refused.append(Finding.at(file.tree, node, code, Kind.LEFT, message, refusal.hint))


def _elsewhere(refusal: Refusal, file: InFile, node: cst.CSTNode) -> str:
    """Where the cause of a refusal stands, as it is shown at another place; empty for a whole file."""
    if refusal.node is refusal.file.tree.module:
        return ""
    line = refusal.file.tree.position(refusal.node)[0]
    if refusal.file.tree is not file.tree:
        return f" ({seen_from(refusal.file.name, file.name)}:{line})"
    return "" if line == file.tree.position(node)[0] else f" (line {line})"


def _scaler(part: ScaledStep) -> str | None:
    """How the scaler is written where a part of a step is."""
    return None if part.route is None else part.route.scaler


def _goes_backward(step: TrainingStep) -> bool:
    """Whether a part of a step calls `backward()` itself: a finding tells of it."""
    return any(backward.part is None for backward in step.backwards)
