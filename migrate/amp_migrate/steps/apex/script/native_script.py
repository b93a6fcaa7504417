"""A whole Apex script as it goes native: what each of its places becomes, with its switch and its scaler."""

from __future__ import annotations

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.frozen import frozen
from amp_migrate.plan.code import Code
from amp_migrate.steps.apex.initialize.initialize_calls import Initialize
from amp_migrate.steps.apex.script.decide_evaluation import Evaluation
from amp_migrate.steps.apex.step.apex_steps import ApexStep
from amp_migrate.steps.apex.step.folded_branches import FoldedBranch
from amp_migrate.steps.apex.uses.amp_tests import AmpTest
from amp_migrate.steps.model.route import Creation, Route, Ways
from amp_migrate.steps.model.training_step import Island, Region, TrainingStep
from amp_migrate.steps.scaler.checkpoint_entries import RestoredEntry, SavedEntry
from amp_migrate.trees.nodes import Statement


@frozen
class ScriptStep:
    """A step of a script with the way of its scaler; no way where it goes without one."""

    step: ApexStep
    route: Route | None


@frozen
class NativeStep:
    """A training step with its switch in it, the branches that fold round it, and its scaler as code, if it has one.

    Attributes:
        norm_limit: what its optimizer clipped gradients to in `step()`, as code; None for one that did not.
        is_limited_elsewhere: whether another function made that optimizer, whose tests mean nothing here.
    """

    step: TrainingStep
    folds: tuple[FoldedBranch, ...]
    scaler: str | None
    norm_limit: str | None = None
    is_limited_elsewhere: bool = False


@frozen
class WrapperUses:
    """What a file asks of an `FP16_Optimizer`.

    Attributes:
        scales: reads of its loss scale, each with the scaler that answers; None where there is none.
        clips: `optimizer.clip_master_grads` where it is called, each with the parameters as code.
        zeroed: `optimizer.zero_grad` where it is called.
        inner: `optimizer.optimizer`, what it wraps, each with the wrapper.
        copied: the statements that have gradients copied to the weights of the wrapper.
        networks: the calls that make a network's weights float16, each with the network.
        saved, restored: the checkpoint entries of optimizers, each with the scaler that is kept beside.
    """

    scales: tuple[tuple[cst.Attribute, str | None], ...]
    clips: tuple[tuple[cst.Attribute, str], ...]
    zeroed: tuple[cst.Attribute, ...]
    inner: tuple[tuple[cst.Attribute, cst.BaseExpression], ...]
    copied: tuple[cst.Expr, ...]
    networks: tuple[tuple[cst.Call, cst.BaseExpression], ...]
    saved: tuple[tuple[SavedEntry, str | None], ...]
    restored: tuple[tuple[RestoredEntry, str | None], ...]


@frozen
class NativeFile:
    """What of one file goes native, beside its training steps. A scaler is code; None where there is none.

    Attributes:
        evaluated: regions of evaluation forwards, each with its switch; None where mixed precision is always on.
        islands: the losses of evaluation that read their inputs in float32.
        folds: branches that clip as others do, in functions that have nothing else of a step.
        tests: the tests of whether `apex.amp` is there that ask for the script's switch, each with that as code.
        reads: what asks Apex for the loss scale, each with the scaler that answers.
        saved, restored: the calls of `amp.state_dict` and `amp.load_state_dict`, each with the scaler.
        spared: those of `saved` and `restored` whose scaler may be None: callers in float32 share them.
        keeps_keys: whether what is saved stays under the keys that it is saved by, since some cannot be seen.
        given: the calls that pass `apex.amp` to what restores it, with the place of the argument and the scaler.
        parameters: the calls of `amp.master_params`, or choices of one, each with what it gave, as code.
        plain: the statements that take a loss backward which Apex does not scale, and stay in float32.
        wrapper: what it asks of an `FP16_Optimizer`; None in a script that has none.
    """

    file: File
    evaluated: tuple[tuple[Region, Code | None], ...]
    islands: tuple[Island, ...]
    folds: tuple[FoldedBranch, ...] = ()
    tests: tuple[tuple[AmpTest, str | None], ...] = ()
    reads: tuple[tuple[cst.BaseExpression, str | None], ...] = ()
    saved: tuple[tuple[cst.Call, str | None], ...] = ()
    restored: tuple[tuple[cst.Call, str | None], ...] = ()
    spared: frozenset[cst.Call] = frozenset()
    keeps_keys: bool = False
    given: tuple[tuple[cst.Call, int, str | None], ...] = ()
    parameters: tuple[tuple[cst.BaseExpression, str], ...] = ()
    plain: tuple[Statement, ...] = ()
    wrapper: WrapperUses | None = None


@frozen
class NativeStart:
    """What stands where Apex was initialized.

    Attributes:
        creation: the scaler that is made there, if one is.
        is_named: whether the script's switch gets a name there, where it is long or something else later.
        others: the names of the scalers that are made beside that, where each serves one optimizer.
    """

    initialize: Initialize
    creation: Creation | None
    is_named: bool
    others: tuple[str, ...] = ()


@frozen
class NativeScript:
    """Everything that an Apex script becomes.

    Attributes:
        starts: what stands where Apex was initialized.
        in_callers: the scalers that callers make of a helper which initialized Apex.
        ways: those of all scalers, and where the others are made.
        others: the further ways of those that serve one optimizer each, and are made where the first of them is.
        evaluation: the regions of evaluation forwards, and those that get none.
    """

    steps: tuple[NativeStep, ...]
    files: tuple[NativeFile, ...]
    starts: tuple[NativeStart, ...]
    in_callers: tuple[NativeStart, ...]
    ways: Ways
    evaluation: Evaluation
    others: tuple[Ways, ...] = ()

    @property
    def scaling(self) -> tuple[Initialize, ...]:
        """What prepared optimizers, whose losses were scaled."""
        made = (start.initialize for start in (*self.starts, *self.in_callers))
        return tuple(each for each in made if each.optimizers is not None)

    @property
    def limits(self) -> tuple[str | None, str | None]:
        """The least and the greatest dynamic loss scale, as code; None where there is none, or not the same for all."""
        low, high = ({each.limits[i] for each in self.scaling if not each.is_static} for i in range(2))
        return low.pop() if len(low) == 1 else None, high.pop() if len(high) == 1 else None
