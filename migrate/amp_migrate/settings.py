"""The options of a run: one frozen value, made from the command line and from pyproject.toml."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from amp_migrate.environment import Environment
from amp_migrate.frozen import frozen
from amp_migrate.path_ignores import PathIgnores

OLDEST_TORCH = (1, 12)  # the first with torch.amp
NEWEST_TORCH = (2, 15)
# What is new since then would be an error on PyTorch as it is installed in most places, and is worth nothing to them.
DEFAULT_TORCH = (2, 6)
CUSTOM_FWD = (2, 4)  # the first PyTorch with torch.amp.custom_fwd
# The devices that PyTorch has both autocast and a GradScaler for.
DEVICE_TYPES = ("cuda", "cpu", "xpu", "mps", "hpu", "mtia")


# What PyTorch has deprecated: its names and their arguments, and nothing that changes what is computed.
DEPRECATED = ("AMP1",)


class Dtype(str, Enum):
    """The low-precision dtype that migrated code computes in."""

    FP16 = "fp16"  # float16 with a GradScaler: what `torch.cuda.amp` and Apex meant
    BF16 = "bf16"  # bfloat16, which has float32's range and needs no scaler
    AUTO = "auto"  # decided by the migrated script at run time: bfloat16 where the GPU has it


class Apex(str, Enum):
    """Where the code of an Apex script goes."""

    AUTO = "auto"  # native where that is right, `amp_shim` where it is not
    NATIVE = "native"  # native, and left as it is where that is not right
    SHIM = "shim"  # `amp_shim`, which keeps Apex's meaning


class Withdrawn(NamedTuple):
    """Steps of a file that another plan leaves as they are.

    Attributes:
        code: the rule that would move them.
        file: the file, by its name.
        reason: why they stay.
        hint: what to do by hand.
        line: that of the one step; 0 for all steps of the file.
        regions: the lines of the regions that the reason is about, as far as they are known.
        own: those of the steps that it is about, of all steps of the file, as far as functions tell them apart.
    """

    code: str
    file: str
    reason: str
    hint: str
    line: int = 0
    regions: tuple[int, ...] = ()
    own: tuple[int, ...] = ()

    @property
    def of(self) -> tuple[str, str, int]:
        """Which steps it is about."""
        return self.code, self.file, self.line


class Measured(NamedTuple):
    """A line whose results left float16's range where it ran in float32.

    Attributes:
        file: its absolute path.
        line: from 1 on.
        text: of the line, as it was then.
        owner: the class of modules whose forward it is in, where that can be kept in float32 as a whole; else empty.
        why: what was measured.
    """

    file: str
    line: int
    text: str
    owner: str
    why: str

    def is_in(self, text: str) -> bool:
        """Whether the file still has the line, in its place."""
        return self.text in (line.strip() for line in text.splitlines()[self.line - 1 : self.line])


@frozen
class Settings:
    """How to migrate.

    Attributes:
        dtype: the low-precision dtype of the emitted regions.
        select: the rules to apply, as codes or beginnings of codes (`AMP1` for all of AMP100 to AMP199); none for all.
        ignore: the rules not to apply, in the same way.
        path_ignores: those not to apply in some files.
        target_torch: the oldest PyTorch that the migrated code must run on.
        packages: the oldest and the newest version that is asked for of packages which autocast has not always suited,
            each None where nothing says so.
        nested_torch: another of these for what stands in some folders, by their real paths.
        device_type: the device that new regions and scalers are for.
        apex: where Apex scripts go.
        apex_o2: where those of them go that keep float16 weights (O2 and O3): never `AUTO`.
        unsafe: whether to repair what is wrong and works somehow: the code will not do what it did.
        annotate: whether a comment is to stand above what is left as it was.
        add_flag: whether the script's command line gets an option that switches what was moved from plain float32.
        keep_float32: the classes of modules whose forwards compute in float32 inside every region.
        measured: the lines that are to, where they would compute in half precision.
        prove: whether results are refused, too, that cannot be shown to be the same program for every cast to float32
            and every set of installed packages, and what was checked is said.
        explain: whether the plan of each file is also put into words, edit by edit.
        environment: the packages that are installed where the code runs; None where nobody has said which.
        uncached: the files whose new regions keep no casts of weights, for what was found of a first plan.
        withdrawn: the steps that cannot be native, for what was found of a first plan.
        evaluated_inside: the files of scripts that have no region round a call of what evaluates, for what was found of
            a first plan.
        scaled_already: the lines of files that go backward from a gradient which has the loss scale.
        evaluated_apart: the lines of files that are evaluated in float32, for what was found of a first plan.
        clipped_apart: the lines of files that clip, without Apex, more than is shown to be what Apex clips beside them.
        sized: the lines of files that read a gradient of which more than the direction may be used while it is scaled.
        unhalved: the lines of files that take the gradients of a penalty, where all that these come through is float32.
        masked: the lines of files that fill what a first plan made float16 with a number that float16 does not have.
    """

    dtype: Dtype = Dtype.FP16
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    path_ignores: PathIgnores = field(default_factory=PathIgnores)
    target_torch: tuple[int, int] = DEFAULT_TORCH
    packages: Mapping[str, tuple[tuple[int, int] | None, tuple[int, int] | None]] = field(
        default_factory=dict, hash=False
    )
    nested_torch: Mapping[str, tuple[int, int]] = field(default_factory=dict, hash=False)
    device_type: str = "cuda"
    unsafe: bool = False
    annotate: bool = False
    add_flag: bool = False
    apex: Apex = Apex.AUTO
    apex_o2: Apex = Apex.NATIVE
    keep_float32: tuple[str, ...] = ()
    measured: tuple[Measured, ...] = ()
    prove: bool = False
    explain: bool = False
    environment: Environment | None = None
    uncached: frozenset[str] = frozenset()
    withdrawn: tuple[Withdrawn, ...] = ()
    evaluated_inside: frozenset[str] = frozenset()
    scaled_already: frozenset[tuple[str, int]] = frozenset()
    evaluated_apart: frozenset[tuple[str, int]] = frozenset()
    clipped_apart: frozenset[tuple[str, int]] = frozenset()
    sized: frozenset[tuple[str, int]] = frozenset()
    unhalved: frozenset[tuple[str, int]] = frozenset()
    masked: frozenset[tuple[str, int]] = frozenset()

    def applies(self, code: str) -> bool:
        """Whether the rule with this code is wanted: the longer of the codes that match it in both lists decides."""
        selected = max((len(prefix) for prefix in self.select if matches(code, prefix)), default=0)
        ignored = max((len(prefix) for prefix in self.ignore if matches(code, prefix)), default=0)
        return (ignored == 0 and not self.select) or selected > ignored

    def torch_of(self, path: Path) -> tuple[int, int]:
        """The oldest PyTorch that a file must run on."""
        if not self.nested_torch:
            return self.target_torch
        folder = os.path.dirname(os.path.realpath(path))
        return self.nested_torch.get(folder, self.target_torch)

    def too_new_for(self, torch: tuple[int, int]) -> str:
        """What is asked for that a PyTorch does not have, in words; empty where it has all."""
        if self.device_type != "cuda" and self.dtype is Dtype.FP16 and torch < (2, 3):
            return f"a GradScaler for {self.device_type} came with PyTorch 2.3; use --dtype bf16 or a newer target"
        if self.keep_float32 and torch < CUSTOM_FWD:
            return "--keep-float32 writes torch.amp.custom_fwd, which came with PyTorch 2.4"
        return ""

    def written_for(self, paths: Iterable[Path]) -> Settings:
        """The same for files that are planned together: what all of them must run on is the oldest of theirs."""
        return replace(self, target_torch=min(map(self.torch_of, paths), default=self.target_torch), nested_torch={})

    def asks_for(self, code: str) -> bool:
        """Whether the rule with this code is wanted by its whole code, and not only among others."""
        return code in self.select and self.applies(code)


def matches(code: str, prefix: str) -> bool:
    """Whether `prefix` is a rule's code, or the beginning of one."""
    return bool(prefix) and code.startswith(prefix)
