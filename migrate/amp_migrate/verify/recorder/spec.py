"""What one run is asked to do: written by the harness, read by the recorder in the script's process."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field, fields
from enum import Enum
from pathlib import Path
from typing import Any

ENVIRONMENT_VARIABLE = "AMP_VERIFY_SPEC"
STEPS_SUFFIX = ".steps"  # of a file that grows by a byte with every step, for who watches
EARLY_STEPS = 20  # of the window in which runs are compared step by step
NORM_STEPS = 6  # of each optimizer whose gradients and updates are compared
ONE_BATCH = "one batch"  # the variant whose data loaders give their first batch again and again


class Resume(str, Enum):
    """What a run has to do with checkpoints; the value is the point at which it looks at its state."""

    NOT_ASKED = ""
    SAVES = "saves"  # whenever it saves an optimizer
    GOES_ON = "goes on"  # before it trains for the first time


@dataclass(frozen=True, kw_only=True)
class Orders:
    """What tells one run of a script from another, in the words that the harness and the recorder share.

    Attributes:
        seed_index: 0 leaves the script's seeds as they are; every other index maps them to seeds of its own, the same
            ones in both scripts.
        amp_off: autocast and loss scaling are forced off.
        unseen: of a run whose mixed precision is forced off: the script is told that it is on, and its losses are
            scaled by powers of two, which float32 gives back to the bit.
        program: record all that tells whether two programs are the same: state, checkpoints, seeds, loaded code.
        ulp: not 0: every result of a module and every gradient is off by a unit in the last place, at random, by this
            seed.
        places: watch where tensors would be if the CPU did not stand in for a GPU.
        drill: an infinity is put into the gradients of one step, which the script's loss scaler is to leave out.
        plant: a share by which every result of a model is made larger, to see whether that is seen.
        oracle: not 0: the outermost module calls run under bfloat16 autocast, whatever the script says; above 1 their
            results are further off by a unit in bfloat16's last place, at random, by this seed.
        census: count which operation gave which dtype, for the first steps.
        ranges: of a run that counts: the range of what is computed in float32, line by line.
        timing: record step times and memory only, with no determinism asked for.
        phases: of a run that is timed: where the time of its steps goes.
        anatomy: of a run that is timed, and whose times say nothing then: what its first steps consist of.
        profile: profile the steps after the first ones.
        bfloat16: the script's autocast regions are of bfloat16, and nothing is scaled.
        parts: compare every part of the models with itself in float32, on the same inputs.
        islands: (model, part) pairs that stay in float32: the model by the order of first calls, the part by its name.
        variants: names of what is done to make the script faster.
        tf32: TF32 is on, or off, whatever the script says; None leaves it to the script.
        skips: indices of optimizer steps to leave out, as a loss scaler that met infs would.
        resume: what its state is looked at for, loss scales included, where it is to go on from a checkpoint.
    """

    seed_index: int = 0
    amp_off: bool = False
    unseen: bool = False
    program: bool = False
    ulp: int = 0
    places: bool = False
    drill: bool = False
    plant: float = 0.0
    oracle: int = 0
    census: bool = False
    ranges: bool = False
    timing: bool = False
    phases: bool = False
    anatomy: bool = False
    profile: bool = False
    bfloat16: bool = False
    parts: bool = False
    islands: tuple[tuple[int, str], ...] = ()
    variants: tuple[str, ...] = ()
    tf32: bool | None = None
    skips: tuple[int, ...] = ()
    resume: Resume = Resume.NOT_ASKED

    def orders(self) -> dict[str, Any]:
        """These fields, and none that a subclass adds."""
        return {each.name: getattr(self, each.name) for each in fields(Orders)}


@dataclass(frozen=True, kw_only=True)
class RecorderSpec(Orders):
    """One run's orders, and what all runs of a verification share.

    Attributes:
        trace: folder for the event files, one per rank.
        parent: process id of the harness; a script that it started itself ends when it does.
        shim: folder of the `amp_shim` package, for the stand-in and for Apex scripts.
        device: "auto" (the GPU, or the CPU standing in where there is none), "cuda" or "cpu" (always the stand-in).
        steps: optimizer steps, skipped ones included, after which the run ends; 0 for all.
        seconds: of training, after which it ends as well, but not before the early window's steps; 0 for no limit.
        synthetic: made-up pictures stand in for torchvision data sets that are not on disk.
        reference: folder of a run of the original: where this one is lost beside it, it ends; empty for none.
        port: at which the processes of a script meet, whichever it names; 0 leaves it to the script.
        root: folder that modules are looked for in before all others, for a script that is run as a module.
        instead: files of modules, and which are loaded in their places.
        extensions: folder in which extensions are built that the script compiles; empty leaves that to PyTorch.
        copies: folders of this run, and the user's that they are copies of, or made of links to.
    """

    trace: str
    parent: int
    shim: str
    device: str = "auto"
    steps: int = 20
    seconds: float = 0.0
    synthetic: bool = False
    reference: str = ""
    port: int = 0
    root: str = ""
    instead: dict[str, str] = field(default_factory=dict)
    extensions: str = ""
    copies: dict[str, str] = field(default_factory=dict)

    def write(self, path: Path) -> None:
        """Write the orders to `path` as JSON."""
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")

    @classmethod
    def read(cls, path: str) -> RecorderSpec:
        """Read what `write` wrote."""
        told = json.loads(Path(path).read_text(encoding="utf-8"))
        islands = tuple((model, part) for model, part in told["islands"])
        tuples = {"islands": islands, "skips": tuple(told["skips"]), "variants": tuple(told["variants"])}
        return cls(**{**told, **tuples, "resume": Resume(told["resume"])})

    def seed(self, asked: int) -> int:
        """The effective seed where the script asks for `asked`: itself in run 0, a fixed function of both elsewhere."""
        if self.seed_index == 0:
            return asked
        digest = hashlib.sha256(f"{asked}:{self.seed_index}".encode()).digest()
        return int.from_bytes(digest[:4], "big")
