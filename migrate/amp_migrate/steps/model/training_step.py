"""What a training step is, whichever dialect it is written in.

The model points into the tree it was read from: its statements and expressions are nodes there, and a writer says what
becomes of each.
"""

from __future__ import annotations

from dataclasses import replace

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import FunctionRef
from amp_migrate.frozen import frozen
from amp_migrate.plan.code import Code
from amp_migrate.trees.nodes import Statement


@frozen
class Region:
    """Sibling statements that compute in low precision: forward and loss of a step, or an evaluation forward.

    Attributes:
        first, last: the run of statements, both included, in one block.
    """

    first: Statement
    last: Statement


@frozen
class Backward:
    """One call of `backward`.

    Attributes:
        statement: all that stands for it in the old dialect: the call itself, or Apex's `with`, of which whatever else
            is in its body stays behind the call.
        call: the call; its arguments (`retain_graph=True`) stay.
        loss: the unscaled loss.
        inline: whether the loss is computed in this very expression, so that it needs a name and a region first.
        kept: the variable that has the loss from then on: `with amp.scale_loss(loss / 2, optimizer) as loss:`.
        part: where the call is of a function of the project that goes backward, that function; the loss is the call.
        computes: whether that function runs the forward, too.
        of_object: whether the loss is kept by the object whose method that function is.
        steps: whether it steps the optimizer, too.
        wrapped: whether it is a wrapper's `optimizer.backward(loss)`, which is given the loss.
        given: whether it is a function's, `torch.autograd.backward(loss)`, which goes on to be given it.
        context: where Apex's `with` stands for it, what that opens to scale the loss.
        before: the statements in front of the `with` that only keep what it opens.
    """

    statement: Statement
    call: cst.Call
    loss: cst.BaseExpression
    inline: bool = False
    kept: str = ""
    part: FunctionRef | None = None
    computes: bool = False
    of_object: bool = False
    steps: bool = False
    wrapped: bool = False
    given: bool = False
    context: cst.WithItem | None = None
    before: tuple[Statement, ...] = ()

    @property
    def of_wrapper(self) -> tuple[cst.Arg, ...]:
        """The arguments that only a wrapper takes: the loss, and whether it copies the gradients to its own weights."""
        if not self.wrapped:
            return ()
        asked = [each for each in self.call.args[1:] if each.keyword is None or each.keyword.value != "retain_graph"]
        return (self.call.args[0], *asked)

    def plain(self, loss: cst.BaseExpression) -> cst.Call:
        """The call as that of a loss's own `backward`."""
        assert isinstance(self.call.func, cst.Attribute)
        args = [each for each in self.call.args if each not in self.of_wrapper]
        return self.call.with_changes(func=self.call.func.with_changes(value=loss), args=args)


@frozen
class GradientUse:
    """Code that reads or changes gradients after a backward: clipping, norms, hand-made noise.

    Attributes:
        before: the statement that must find true gradients.
        optimizer: the optimizer whose gradients they are.
        loop: the loop over all optimizers that steps this one, where the gradients are read before it.
        test: what asks whether there is such an optimizer, where it may be None and that is asked of its step alone.
    """

    before: Statement
    optimizer: cst.BaseExpression
    loop: cst.For | cst.CompFor | None = None
    test: cst.BaseExpression | None = None


@frozen
class ScaledUse:
    """Clipping, or measuring, of gradients that more will be added to, so that they stay scaled.

    Attributes:
        before: the statement, a call by itself or what is given its result.
        limit: the norm or value that it clips to, which is scaled instead; None where nothing is clipped.
        norm: what measures them, where something is made of it, and which is divided by the scale; else None.
    """

    before: Statement
    limit: cst.BaseExpression | None
    norm: cst.BaseExpression | None = None


@frozen
class OptimizerStep:
    """One call of an optimizer's `step()`.

    Attributes:
        optimizer: the optimizer, or what wraps it.
        part: where the call is of a function of the project that steps, as `step_and_update_lr()`, that function.
        held: where that is a wrapper's method, the optimizer in it as it is written here: `wrapper.optimizer`.
    """

    statement: Statement
    call: cst.Call
    optimizer: cst.BaseExpression
    part: FunctionRef | None = None
    held: cst.BaseExpression | None = None


@frozen
class Island:
    """A loss that autocast refuses to run (`BCELoss`): it stays outside, and reads a region's output in float32.

    Attributes:
        inputs: the arguments that hold a region's output.
    """

    inputs: tuple[cst.BaseExpression, ...]


@frozen
class Extraction:
    """What is computed in low precision inside a statement that stays outside: it gets a name, in a region before.

    Attributes:
        statement: the statement that holds a loss which autocast refuses, or the call for a gradient penalty.
        value: the argument of the loss that runs the forward; what is computed before the call.
        name: what its result will be called.
        is_cast: whether the statement reads it in float32.
    """

    statement: Statement
    value: cst.BaseExpression
    name: str
    is_cast: bool = True


@frozen
class Penalty:
    """Gradients that are taken by `torch.autograd.grad` to build a penalty on.

    Attributes:
        statement: the assignment of the gradients.
        outputs: what they are the gradients of.
        names: what they are assigned to, as written.
        is_single: whether each name is one gradient, not all of them.
        is_summed: whether they begin with one at every output, not with its share of a mean.
    """

    statement: Statement
    outputs: cst.BaseExpression
    names: tuple[str, ...]
    is_single: bool
    is_summed: bool


@frozen
class PenaltyCall:
    """A call of a function of the project that takes such gradients."""

    statement: Statement
    call: cst.Call
    part: FunctionRef


@frozen
class TrainingStep:
    """Everything that has to move together when one step changes its precision.

    Attributes:
        file: where it is.
        function: the function it runs in; None at module level.
        regions: what computes in low precision.
        islands: what must not.
        extractions: what must, but stands inside what must not.
        backwards: the calls of backward, in source order; empty only in a function that does nothing but step.
        gradient_uses: where gradients must be true, or are clipped as they are, in source order.
        optimizer_steps: the calls of `step()`, in source order.
        updates: the statements after which one iteration's last optimizer has stepped.
        early_ends: the statements that leave an iteration when only some optimizer has.
        penalties: the gradients that penalties are built on.
        penalty_calls: the calls of functions that take them.
        enabled: what switches mixed precision on in the script; None where it is always on.
    """

    file: File
    function: cst.FunctionDef | None
    regions: tuple[Region, ...] = ()
    islands: tuple[Island, ...] = ()
    extractions: tuple[Extraction, ...] = ()
    backwards: tuple[Backward, ...] = ()
    gradient_uses: tuple[GradientUse | ScaledUse, ...] = ()
    optimizer_steps: tuple[OptimizerStep, ...] = ()
    updates: tuple[Statement, ...] = ()
    early_ends: tuple[Statement, ...] = ()
    penalties: tuple[Penalty, ...] = ()
    penalty_calls: tuple[PenaltyCall, ...] = ()
    enabled: Code | None = None

    @property
    def place(self) -> cst.CSTNode:
        """The node that findings about the step point at."""
        parts: tuple[Backward | OptimizerStep | Penalty | PenaltyCall, ...] = (
            *self.backwards,
            *self.optimizer_steps,
            *self.penalties,
            *self.penalty_calls,
        )
        return parts[0].statement

    @property
    def places(self) -> tuple[tuple[File, cst.CSTNode], ...]:
        """Where the step goes backward by itself, each with the file; where it only steps, if it does not."""
        own = tuple((self.file, each.statement) for each in self.backwards if each.part is None)
        return own or ((self.file, self.place),)

    @property
    def told(self) -> tuple[cst.CSTNode, ...]:
        """The place, and that of what goes backward by itself first in another loop, or behind an optimizer's step."""
        tree = self.file.tree
        stepping = {tree.loop(each.statement) for each in self.optimizer_steps}
        stepped = [tree.position(each.statement) for each in self.optimizer_steps]
        first: dict[tuple[cst.CSTNode | None, int], cst.CSTNode] = {}
        for node in (self.place, *(node for _, node in self.places)):
            loop = next((each for each in tree.loops(node) if each in stepping), None)
            first.setdefault((loop, sum(each < tree.position(node) for each in stepped)), node)
        return tuple(first.values())

    @property
    def computes(self) -> bool:
        """Whether something here computes in low precision, and does not only go backward or step."""
        return bool(self.regions or self.extractions) or any(each.inline for each in self.backwards)

    @property
    def in_float32(self) -> TrainingStep:
        """The same step where nothing computes in low precision, and no loss needs a name for a region."""
        backwards = tuple(replace(each, inline=False) for each in self.backwards)
        return replace(self, regions=(), islands=(), extractions=(), backwards=backwards)

    @property
    def called_parts(self) -> tuple[tuple[cst.Call, FunctionRef], ...]:
        """The functions that step, or take the gradients of penalties, for this one, each with the call."""
        stepped = [(each.call, each.part) for each in self.optimizer_steps if each.part is not None]
        return (*stepped, *((each.call, each.part) for each in self.penalty_calls))
