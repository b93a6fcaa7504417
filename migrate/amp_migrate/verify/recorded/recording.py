"""What a run recorded, as plain values."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from amp_migrate.verify.recorder.part import Part

LOW_DTYPES = frozenset({"float16", "bfloat16"})


@dataclass(frozen=True)
class Backward:
    """One backward pass.

    Attributes:
        loss: the mean of its losses, unscaled.
        scale: what they were multiplied by; 1 without a loss scale, None where the loss is 0 or not finite
            and nothing can be told.
        attempt: how many optimizer steps had been tried before it.
        autocast: autocast was on.
        half: PyTorch's loss functions that computed it in half precision.
    """

    loss: float
    attempt: int
    scale: float | None = 1.0
    autocast: bool = False
    half: tuple[str, ...] = ()


@dataclass(frozen=True)
class Step:
    """One attempt at an optimizer step.

    Norms are 2-norms over all of the optimizer's parameters; None where none was recorded (a skipped step, an
    optimizer without gradients, a late step, a script that does not clip for `clip_norm`).

    Attributes:
        index: position among all attempts of the run.
        optimizer: which optimizer, in order of first use.
        skipped: a loss scaler met infs and left the parameters as they were.
        grads: a character per parameter, "1" where it has a gradient; late steps may repeat an earlier one's.
        dtypes: dtypes of the parameters.
        grad_norm: gradients as the optimizer takes them: unscaled and clipped.
        clip_norm: gradients as the clipping call before this step saw them, over the limit that it clipped to.
        update_norm: change of the parameters.
        autocast: autocast was on when the step was made.
        past_scaler: its loss was scaled, and it did not go through the scaler.
        zeroed: calls that zeroed gradients since the step before, or 1 where nothing was left of them without a call;
            None where that was not looked at.
        settings: what each of the optimizer's groups holds beside parameters, as learning rate, by name.
        zeros: elements of each parameter's gradient that are zero, -1 for one without; empty for a step that was not
            looked at so closely.
    """

    index: int
    optimizer: int
    skipped: bool
    grads: str
    dtypes: tuple[str, ...] = ("float32",)
    shapes: tuple[tuple[int, ...], ...] | None = None
    grad_norm: float | None = None
    clip_norm: float | None = None
    update_norm: float | None = None
    autocast: bool = False
    past_scaler: bool = False
    zeroed: int | None = None
    settings: tuple[Mapping[str, Any], ...] = ()
    zeros: tuple[int, ...] = ()


@dataclass(frozen=True)
class Counted:
    """Operations by dtype of their results, over one attempt at an optimizer step.

    `table`: (operation, dtype, calls, floating-point operations of matrix products and convolutions). `kept`: those of
    these operations that are made where a region is switched off within another.
    """

    attempt: int
    table: tuple[tuple[str, str, int, int], ...]
    kept: int = 0

    def work(self, dtypes: Collection[str] | None = None) -> int:
        """Floating-point operations that gave results of some dtypes, or of any."""
        return sum(flops for _, dtype, _, flops in self.table if dtypes is None or dtype in dtypes)


@dataclass(frozen=True)
class Clip:
    """One call that clips gradients: to which limit, and, of one that clips a norm, the norm in limits."""

    call: str
    attempt: int
    limit: float
    norm: float | None = None


@dataclass(frozen=True)
class Range:
    """What an operation gives in float32 at a line of the script's.

    Attributes:
        text: of the line.
        owner: the class of modules whose forward it is in, where a decorator could keep that in float32; else empty.
        largest: absolute value that is finite.
        smallest: absolute value but zero; 0 where all are zero.
    """

    file: str
    line: int
    text: str
    operation: str
    owner: str
    largest: float
    smallest: float


@dataclass(frozen=True)
class Mixed:
    """A line of the script that mixes tensors of the CPU and of the GPU in one operation, which CUDA refuses."""

    operation: str
    place: str
    line: str


@dataclass(frozen=True)
class Held:
    """A tensor at one point of a run: by its name, its dtype and shape, its bits, and a few of its values."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    bits: str
    values: tuple[float, ...] = ()


@dataclass(frozen=True)
class State:
    """What the script's objects held at one point.

    Attributes:
        point: after how many attempts at optimizer steps, or "end".
        attempt: the number of attempts by then.
        models: a tuple of tensors for each model.
        settings: (name, value) of the optimizers' groups, the schedules and the models' modes.
        optimizers: a tuple of tensors for each optimizer.
        random: the random generators' states, by name.
    """

    point: str
    attempt: int
    models: tuple[tuple[Held, ...], ...] = ()
    optimizers: tuple[tuple[Held, ...], ...] = ()
    settings: tuple[tuple[str, Any], ...] = ()
    random: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Scale:
    """The loss scale after an update, how many optimizer steps had been tried by then, and which scaler's it is.

    `grows`: the scaler would raise it some day.
    """

    value: float
    attempt: int
    scaler: int = 0
    grows: bool = True


@dataclass(frozen=True)
class Checkpoint:
    """What one call of `torch.save` held: the states that belong together, and where it was looked at all the rest.

    Attributes:
        entries: (path, value): of a tensor dtype, shape, bits and a few values; of the rest what Python prints.
    """

    optimizer: bool
    scaler: bool
    attempt: int = 0
    entries: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class Model:
    """A module that the script calls by itself and trains: what the calling code calls it, and where it first does."""

    variable: str
    path: str
    line: int


@dataclass(frozen=True)
class Profile:
    """Where the time went.

    Attributes:
        path: the trace, in Chrome's format; empty if none was made.
        total: microseconds of all operations.
        products: microseconds of matrix products and convolutions among them.
        rows: (operation, calls, microseconds of its own), the longest first.
    """

    path: str = ""
    total: float = 0.0
    rows: tuple[tuple[str, int, float], ...] = ()
    products: float = 0.0


@dataclass(frozen=True)
class Product:
    """One kind of matrix product or convolution: of one dtype and one shape.

    Attributes:
        operation: what the script calls.
        dtype: of its result.
        sizes: rows, inner size and columns; of a convolution its channels; of an attention the size of a head.
        flops: floating-point operations of all calls, forward.
    """

    operation: str
    dtype: str
    sizes: tuple[int, ...]
    flops: int


@dataclass(frozen=True)
class Anatomy:
    """What the first steps consist of.

    Attributes:
        steps: how many they are.
        weight_casts: weights that were cast to half precision.
        other_casts: other tensors that were.
        cast_bytes: bytes that those casts read.
        reads: calls that wait for the GPU, by name.
    """

    steps: int
    products: tuple[Product, ...]
    weight_casts: int
    other_casts: int
    cast_bytes: int
    reads: Mapping[str, int]


@dataclass(frozen=True)
class Failure:
    """An exception that ended the script: its class, its message, and `file:line` in the user's code."""

    type: str
    message: str
    place: str


@dataclass(frozen=True)
class Trace:
    """Everything that a run recorded.

    Attributes:
        environment: interpreter, torch, device; empty if the script never imported torch.
        checkpoints: what was saved, in order.
        census: (operation, dtype, count), over the first steps of the runs that count.
        counted: the same and their work, attempt by attempt, of the first and of further ones.
        ranges: of what is computed in float32; of the original's first run.
        models: of the runs that look at models, in the order of their first calls.
        parts: of the runs that compare them.
        profile: of the runs that profile.
        anatomy: of the runs that look at it.
        phases: milliseconds by phase for each step, "step" for all of it; of the runs that look at them.
        milliseconds: step times, of timing runs.
        memory: peak bytes by kind: `peak_resident`, and on a GPU `peak_allocated` and `peak_reserved`.
        clips: every call that clipped gradients.
        states: of the runs whose programs are compared.
        seeds: (function, seed) of the script's calls, of these runs.
        code: (module, file, hash) of the user's code that was loaded.
        mixed: of the runs that watch where tensors would be.
        drilled: of a run with a planted overflow, the attempt that it spoils; None where it was not planted.
        nonfinite: parameters and buffers that are not finite at the end.
        stopped: ended by the harness after the steps that were asked for.
        lost: why it was ended before that: nothing further could change the verdict; empty where it was not.
        ranks: processes that trained together.
        synthetic: data sets that made-up pictures stood in for.
        uncompiled: the script wanted something compiled, and it ran as it is written.
        refused: why the recorder would not run the script at all; empty otherwise.
    """

    environment: Mapping[str, Any] = field(default_factory=dict)
    backwards: tuple[Backward, ...] = ()
    steps: tuple[Step, ...] = ()
    scales: tuple[Scale, ...] = ()
    checkpoints: tuple[Checkpoint, ...] = ()
    census: tuple[tuple[str, str, int], ...] = ()
    counted: tuple[Counted, ...] = ()
    ranges: tuple[Range, ...] = ()
    models: tuple[Model, ...] = ()
    parts: tuple[Part, ...] = ()
    profile: Profile = Profile()
    anatomy: Anatomy | None = None
    phases: tuple[Mapping[str, float], ...] = ()
    milliseconds: tuple[float, ...] = ()
    memory: Mapping[str, int] = field(default_factory=dict)
    clips: tuple[Clip, ...] = ()
    states: tuple[State, ...] = ()
    seeds: tuple[tuple[str, str], ...] = ()
    code: tuple[tuple[str, str, str], ...] = ()
    nonfinite: tuple[str, ...] = ()
    mixed: tuple[Mixed, ...] = ()
    drilled: int | None = None
    failure: Failure | None = None
    stopped: bool = False
    lost: str = ""
    ranks: int = 1
    synthetic: tuple[str, ...] = ()
    uncompiled: bool = False
    refused: str = ""

    @property
    def losses(self) -> tuple[float, ...]:
        """The unscaled loss of each backward pass."""
        return tuple(backward.loss for backward in self.backwards)

    @property
    def skips(self) -> tuple[int, ...]:
        """Indices of the optimizer steps that a loss scaler left out."""
        return tuple(step.index for step in self.steps if step.skipped)

    @property
    def stand_in(self) -> bool:
        """Whether a CPU stood in for the GPU."""
        return bool(self.environment.get("stand_in", False))

    @property
    def scaled(self) -> bool:
        """Whether a loss scale was seen."""
        return bool(self.scales) or any(backward.scale not in (1, None) for backward in self.backwards)

    @property
    def uses_amp(self) -> bool:
        """Whether autocast, a loss scale or half weights were seen."""
        half_weights = any(dtype != "float32" for step in self.steps for dtype in step.dtypes)
        low = any(dtype in LOW_DTYPES for _, dtype, _ in self.census)
        return low or half_weights or self.scaled
