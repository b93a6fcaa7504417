"""What happens in a program that matters to precision and gradients, with everything that is known where it does."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from amp_migrate.flow.domain.atoms import Atom, Value
from amp_migrate.flow.domain.contexts import Context
from amp_migrate.flow.domain.machine import Facts, Machine
from amp_migrate.flow.domain.tensor import Tensor, Units
from amp_migrate.flow.source import Code, Site

# Reasons of a risk.
A_ROUNDED_PROBABILITY = "a rounded probability"
LIKE_A_RESULT = "weights take the precision of what a region gives"
OF_ITSELF = "products of a matrix with itself"
OUT_OF_SIGHT = "given to something unknown"
A_BUFFER = "a buffer is multiplied"
A_RUNNING_BUFFER = "a running buffer is updated from products"
ROUNDED_GUARD = "the number that keeps it from a singular point is rounded to that point"
CANCELLED = "E[x*y] - E[x]*E[y] of rounded means, which may come to zero or below it"
OF_DISTANCE = "x*x - 2*x*y + y*y of a rounded product, whose steps may be as large as what tells near from far"
OF_DIFFERENCES = "a kernel of constants takes differences of what is rounded for it"
OF_DATA = "a product of data alone, without any weights, which half precision rounds and nothing else"
OF_SPECTRA = "a bank of filters is multiplied with spectra, whose powers are beyond float16's range for a loud tone"
ONE_BY_ONE = "terms are added up one by one, each sum rounded: a count ends at 2048 in float16, at 256 in bfloat16"
OF_EXTENTS = "a product of lengths, as an area is: that of 256 by 256 pixels is beyond float16's range"
OF_NEIGHBOURS = "squares of features are added up, over neighbouring channels: from 256 on they are infinite in float16"
OF_WHOLE = "a product of whole numbers, as of a quantization, whose sums are beyond float16's range"
OF_AN_INVERSE = "the inverse of a matrix is multiplied"
BESIDE_AN_INVERSE = "a product that the inverse of a matrix is multiplied with"
A_ROUGH_INVERSE = "the inverse of a matrix that is a product in half precision"
OF_WIDENED = "a product of what a cast has made float32, which autocast makes half precision again"
OF_CASTS = "a product of what casts have made float32, as it was where Apex cast models alone, and no functions"
A_GRID = "a sampling grid is a product of matrices, and off by part of a pixel"
A_ROUNDED_GRID = "a sampling grid is rounded, and off by part of a pixel"
WHERE_NOT_FINITE = "as they are finite or not"
TOO_LARGE = "a number that float16 does not have makes it infinite"
OF_STEEP = "a product with an inverse of what may be zero but for a number whose inverse float16 does not have"
OF_TOO_LARGE = "a product with a number that float16 does not have, infinite there, and NaN times zero"
WITHOUT_LIMIT = (
    "a loss that is a difference of scores has no least value, and nothing in sight limits the weights that these come "
    "of: they may leave float16's range"
)
A_LARGE_NUMBER = "it gets a size at which half precision has no fractions, or no numbers at all"
A_COARSE_DRAW = "noise is drawn in half precision, where it has few values, by parameters that a region has made low"
A_LONG_SUM = "it is summed up round by round outside of its region"


class Act(Enum):
    """What happens."""

    # Gradients and scalers.
    BACKWARD = "backward"
    UNSCALE = "unscale_"
    SCALER_STEP = "the scaler's step"
    UPDATE = "update"
    STEP = "an optimizer's own step"
    ZERO = "gradients are cleared"
    READ = "a gradient is taken to be read"
    CLIP = "gradients are clipped or measured"
    SCALED_AGAIN = "a scaled loss goes backward from a gradient that may be scaled"
    REPLACED = "a gradient gets another value, or some of its elements do"
    GAUGE = "something is made of a gradient that depends on its size"
    HISTOGRAM = "a histogram of gradients takes its range from them"
    CLOSURE = "a step with a closure"
    NO_OPTIMIZER = "a scaler gets what has no `param_groups`"
    NO_TENSOR = "a scaler gets a loss that is no tensor"
    SCALER_MADE = "a scaler is made"
    OPTIMIZER_MADE = "an optimizer is made"
    HANDED_ON = "a scaler, optimizer, or what holds parameters goes where nobody follows it"
    OWN_GRADIENT = "gradients are taken by torch.autograd.grad"
    HOOK = "a hook is registered that gets gradients"
    SAVED = "a state is saved"
    LOADED = "a state is loaded"
    # Precision.
    REGION = "an autocast region begins"
    GIVEN = "what callers hand in computes in a region"
    NOT_ALL = "one of more functions and classes than are looked at computes in a region"
    REFUSED = "autocast refuses a loss"
    UNREAD_LOSS = "a loss goes backward that code which is not read computes in a region"
    UNREAD_MODEL = "code that is not read, and has weights or runs what has, computes in a region"
    SMALL_GIVEN = "code that is not read gets a number whose inverse float16 does not have"
    NO_KERNEL = "no kernel takes half precision"
    MISMATCH = "operands differ in precision"
    CAST_INPUT = "what the code itself has cast to half precision meets what is float32, where autocast is off"
    OVERFLOW = "a constant does not fit into a low value"
    DTYPE_REFUSED = "code refuses the dtype of a low value"
    INDEX_STORE = "a low value is stored by index into another precision, or another into it"
    TO_NUMPY = "a value goes to NumPy"
    HALF_ARRAY = "code that may not take it gets an array in half precision"
    LEFT_FLOAT = "a low value meets, outside of its region, what autocast computes in float32, or what saturates"
    COMPARES_DTYPE = "code asks for a dtype that a region has changed"
    NOT_A_TENSOR = "a container is cast like a tensor"
    HALVED = "weights of modules are cast to half precision"
    DOUBLED = "weights of modules are cast to float64, or without a subject, whatever is made from then on is float64"
    LOW_LEAF = "an optimizer gets a tensor that a region has made low, or a parameter is made of one"
    KEPT_LOW = "a parameter or buffer gets the data of what a region has made low, and its dtype"
    WEIGHT_CAST = "a cast that was kept without a gradient serves where one is wanted"
    RISK = "a value may overflow or round in half precision"
    INVERSE_USED = "a product with an inverse, of something that was rounded before"
    NORM_TWICE = "a gradient through a norm in float16 is computed with, to be derived again"
    REPLICAS = "replicas of a module compute in threads that do not know the dtype of a region"
    OLD_KERNELS = "a package computes whose older releases have no kernels for half precision"
    FOREIGN = "code that is not read gets a low value"
    ON_CPU = "a low value is computed with on the CPU"


# A state, what tests have come to, and the optimizers and scalers that something is about there.
Reached: TypeAlias = "tuple[Machine, Facts, Value, Value]"


@dataclass(eq=False)
class Event:
    """One thing that happens at one place, on all ways to it together.

    Attributes:
        code: the function it is in.
        node: the call or other expression.
        scaler: the scalers that it is about.
        optimizer: the optimizers.
        subject: what it is about: the loss, the value that leaves, the module that runs.
        why: the reason in words, where there are several.
        seen_by: the states of scalers and gradients that it is reached in, each with what tests have come to and with
            the optimizers and scalers that it is about then, by what was interpreted when it was: an earlier time that
            knew less says nothing.
        sure_in: by what was interpreted, whether it happens there on every way on which it is reached; of gradients
            that are taken, whether they go on from no other gradient.
        context: what is switched on, over all ways.
    """

    act: Act
    code: Code
    node: ast.AST
    site: Site
    scaler: Value = frozenset()
    optimizer: Value = frozenset()
    subject: Value = frozenset()
    why: str = ""
    tensor: Tensor | None = None
    seen_by: dict[object, set[Reached]] = field(default_factory=dict)
    sure_in: dict[object, bool] = field(default_factory=dict)
    context: Context | None = None
    sources: frozenset[Site] = frozenset()
    leaves: frozenset[Atom] = frozenset()
    units: Units = frozenset()

    @property
    def states(self) -> set[tuple[Machine, Facts]]:
        """The states that it is reached in, each with what tests have come to."""
        return {(machine, facts) for machine, facts, _, _ in self.reached}

    @property
    def reached(self) -> set[Reached]:
        """The states that it is reached in, each with what tests have come to, and the optimizers and scalers then."""
        return set().union(*self.seen_by.values())
