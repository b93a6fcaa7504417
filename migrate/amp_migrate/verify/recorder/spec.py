"""What one run is asked to do: written by the harness, read by the recorder in the script's process."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

ENVIRONMENT_VARIABLE = "AMP_VERIFY_SPEC"
STEPS_SUFFIX = ".steps"  # of a file that grows by a byte with every step, for who watches
NORM_STEPS = 6  # of each optimizer whose gradients and updates are compared
ONE_BATCH = "one batch"  # the variant whose data loaders give their first batch again and again


@dataclass(frozen=True)
class RecorderSpec:
    """One run's orders.

    Attributes:
        trace: folder for the event files, one per rank.
        parent: process id of the harness; a script that it started itself ends when it does.
        shim: folder of the `amp_shim` package, for the stand-in and for Apex scripts.
        device: "auto" (the GPU, or the CPU standing in where there is none), "cuda" or "cpu" (always the stand-in).
        steps: optimizer steps, skipped ones included, after which the run ends; 0 for all.
        seed_index: 0 leaves the script's seeds as they are; every other index maps them to seeds of its own.
        amp_off: autocast and loss scaling are forced off.
        oracle: the outermost module calls run under bfloat16 autocast, whatever the script says.
        census: count which operation gave which dtype, for the first steps.
        timing: record step times and memory only, with no determinism asked for.
        phases: of a run that is timed: where the time of its steps goes.
        anatomy: of a run that is timed, and whose times say nothing then: what its first steps consist of.
        synthetic: made-up pictures stand in for torchvision data sets that are not on disk.
        profile: profile the steps after the census.
        bfloat16: the script's autocast regions are of bfloat16, and nothing is scaled.
        parts: compare every part of the models with itself in float32, on the same inputs.
        islands: (model, part) pairs that stay in float32: the model by the order of first calls, the part by its name.
        variants: names of what is done to make the script faster.
        tf32: TF32 is on, or off, whatever the script says; None leaves it to the script.
        root: folder that modules are looked for in before all others, for a script that is run as a module.
        instead: files of modules, and which are loaded in their places.
        skips: indices of optimizer steps to leave out, as a loss scaler that met infs would.
    """

    trace: str
    parent: int
    shim: str
    device: str = "auto"
    steps: int = 20
    seed_index: int = 0
    amp_off: bool = False
    oracle: bool = False
    census: bool = False
    timing: bool = False
    phases: bool = False
    anatomy: bool = False
    synthetic: bool = False
    profile: bool = False
    bfloat16: bool = False
    parts: bool = False
    islands: tuple[tuple[int, str], ...] = ()
    variants: tuple[str, ...] = ()
    tf32: bool | None = None
    root: str = ""
    instead: dict[str, str] = field(default_factory=dict)
    skips: tuple[int, ...] = ()

    def write(self, path: Path) -> None:
        """Write the orders to `path` as JSON."""
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")

    @classmethod
    def read(cls, path: str) -> RecorderSpec:
        """Read what `write` wrote."""
        fields = json.loads(Path(path).read_text(encoding="utf-8"))
        islands = tuple((model, part) for model, part in fields["islands"])
        told = {name: tuple(fields[name]) for name in ("skips", "variants")}
        return cls(**{**fields, **told, "islands": islands})

    def seed(self, asked: int) -> int:
        """The effective seed where the script asks for `asked`: itself in run 0, a fixed function of both elsewhere."""
        if self.seed_index == 0:
            return asked
        digest = hashlib.sha256(f"{asked}:{self.seed_index}".encode()).digest()
        return int.from_bytes(digest[:4], "big")
