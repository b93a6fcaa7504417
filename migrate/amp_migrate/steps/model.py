"""What a training step is, whichever dialect it is written in.

The model points into the tree it was read from: its statements and expressions are nodes there, and a writer says what
becomes of each.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.trees.tree import Statement


@dataclass(frozen=True)
class Region:
    """Sibling statements that compute in low precision: forward and loss of a step, or an evaluation forward.

    Attributes:
        first, last: the run of statements, both included, in one block.
    """

    first: Statement
    last: Statement


@dataclass(frozen=True)
class Backward:
    """One call of `backward`.

    Attributes:
        statement: all that stands for it in the old dialect: the call itself, or Apex's `with`, or an `if` that
            chooses between the two.
        call: the call; its arguments (`retain_graph=True`) stay.
        loss: the unscaled loss.
        inline: whether the loss is computed in this very expression, so that it needs a name and a region first.
    """

    statement: Statement
    call: cst.Call
    loss: cst.BaseExpression
    inline: bool = False


@dataclass(frozen=True)
class GradientUse:
    """Code that reads or changes gradients after a backward: clipping, norms, hand-made noise.

    Attributes:
        before: the statement that must find true gradients.
        optimizer: the optimizer whose gradients they are.
    """

    before: Statement
    optimizer: cst.BaseExpression


@dataclass(frozen=True)
class OptimizerStep:
    """One call of an optimizer's `step()`."""

    statement: Statement
    call: cst.Call
    optimizer: cst.BaseExpression


@dataclass(frozen=True)
class Island:
    """A loss that autocast refuses to run (`BCELoss`): it stays outside, and reads a region's output in float32.

    Attributes:
        inputs: the arguments that hold a region's output.
    """

    inputs: tuple[cst.BaseExpression, ...]


@dataclass(frozen=True)
class Extraction:
    """A forward inside a loss that autocast refuses: it gets a name, in a region before its statement.

    Attributes:
        statement: the statement that holds the loss.
        value: the argument of the loss that runs the forward.
        name: what its result will be called.
    """

    statement: Statement
    value: cst.BaseExpression
    name: str


@dataclass(frozen=True)
class TrainingStep:
    """Everything that has to move together when one step changes its precision.

    Attributes:
        file: where it is.
        function: the function it runs in; None at module level.
        regions: what computes in low precision.
        islands: what must not.
        extractions: what must, but stands inside what must not.
        backwards: the calls of backward, in source order; never empty.
        gradient_uses: where gradients must be true, in source order.
        optimizer_steps: the calls of `step()`, in source order.
        updates: the statements after which one iteration's last optimizer has stepped.
        enabled: the expression that switches mixed precision on in the script; None where it is always on.
    """

    file: File
    function: cst.FunctionDef | None
    regions: tuple[Region, ...]
    islands: tuple[Island, ...]
    extractions: tuple[Extraction, ...]
    backwards: tuple[Backward, ...]
    gradient_uses: tuple[GradientUse, ...]
    optimizer_steps: tuple[OptimizerStep, ...]
    updates: tuple[Statement, ...]
    enabled: cst.BaseExpression | None = None

    @property
    def place(self) -> cst.CSTNode:
        """The node that findings about the step point at."""
        return self.backwards[0].statement


@dataclass(frozen=True)
class Refusal:
    """Why a step stays as it is.

    Attributes:
        file: where it is.
        node: the place that stands in the way.
        reason: the fact, as it is shown.
        hint: what to do by hand.
    """

    file: File
    node: cst.CSTNode
    reason: str
    hint: str = ""
    code: str = field(default="AMP590")
