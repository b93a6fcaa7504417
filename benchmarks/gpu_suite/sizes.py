"""How much each part does: on a GPU, and in a rehearsal on a CPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Workload:
    """A training to measure: its name in the tables, its script, and the script's options."""

    name: str
    script: str
    options: tuple[str, ...]


@dataclass(frozen=True)
class Sizes:
    """What is run.

    Attributes:
        device: "cuda", or "cpu" in a rehearsal.
        workloads: what is trained to be timed.
        seeds: trainings per workload and arm.
        variants: also measure what might make a migrated script faster.
        whole, whole_seeds: what is trained to its end, and how often.
        operators: how many of CUDA's autocast are asked; None for all.
        programs: names of fixtures and of the suite's programs that are verified; none for all.
        more_programs: folders with further ones.
        examples, examples_options: a checkout of github.com/pytorch/examples, and further words for
            `benchmarks/verify_examples.py`.
        programs_at_once: how many are verified at a time.
        quick: run the fixtures with their quick arguments.
        steps: optimizer steps per run of `amp-verify`.
        bounds: by what the scripts that the doctor sees are bound.
        divided: what the widths of these are divided by.
        shim_options: of `benchmarks/shim.py`.
        recording_options: of `benchmarks/verify.py`.
        known: what an earlier run of the part has found, which is kept; only the rest is done.
    """

    device: str
    workloads: tuple[Workload, ...]
    seeds: int
    variants: bool
    whole: Workload
    whole_seeds: int
    operators: int | None
    programs: tuple[str, ...]
    more_programs: tuple[str, ...]
    examples: str | None
    examples_options: tuple[str, ...]
    programs_at_once: int
    quick: bool
    steps: int
    bounds: tuple[str, ...]
    divided: int
    shim_options: tuple[str, ...]
    recording_options: tuple[str, ...]
    known: Mapping[str, Any] | None = None


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _resnet(name: str, options: str) -> Workload:
    return Workload(name, "resnet.py", _words(options))


def _gpt(name: str, options: str) -> Workload:
    return Workload(name, "gpt.py", _words(options))


FULL = Sizes(
    device="cuda",
    workloads=(
        _resnet("ResNet-18, 32x32, batch 128", "--depth 18 --size 32 --batch-size 128 --steps 60"),
        _resnet("ResNet-18, 32x32, batch 512", "--depth 18 --size 32 --batch-size 512 --steps 30"),
        _resnet("ResNet-50, 224x224, batch 64", "--depth 50 --size 224 --batch-size 64 --steps 30"),
        _gpt("GPT, 12 layers, 16x512", "--depth 12 --width 768 --context 512 --batch-size 16 --steps 30"),
        Workload("LSTM, 2x1024, 64x256", "lstm.py", _words("--depth 2 --context 256 --batch-size 64 --steps 30")),
        Workload("DCGAN, 64x64, batch 128", "dcgan.py", _words("--batch-size 128 --steps 60")),
    ),
    seeds=3,
    variants=True,
    whole=_resnet("ResNet-18, 32x32, batch 128", "--depth 18 --size 32 --batch-size 128 --steps 600"),
    whole_seeds=5,
    operators=None,
    programs=(),
    more_programs=(),
    examples=None,
    examples_options=(),
    programs_at_once=7,
    quick=False,
    steps=20,
    bounds=("input", "launch", "compute"),
    divided=1,
    shim_options=_words("--seconds 8"),
    recording_options=_words("--rounds 60 --width 64"),
)

REHEARSAL = Sizes(
    device="cpu",
    workloads=(
        _resnet("ResNet-18, 8x8, batch 4", "--depth 18 --size 8 --batch-size 4 --steps 2"),
        _gpt("GPT, 1 layer, 2x16", "--depth 1 --width 16 --context 16 --batch-size 2 --steps 2"),
        Workload("LSTM, 1x16, 2x16", "lstm.py", _words("--depth 1 --width 16 --context 16 --batch-size 2 --steps 2")),
        Workload("DCGAN, batch 4", "dcgan.py", _words("--width 4 --batch-size 4 --steps 2")),
    ),
    seeds=1,
    variants=True,
    whole=_resnet("ResNet-18, 8x8, batch 4", "--depth 18 --size 8 --batch-size 4 --steps 2"),
    whole_seeds=1,
    operators=8,
    programs=("cuda_amp_linear", "bce"),
    more_programs=(),
    examples=None,
    examples_options=(),
    programs_at_once=2,
    quick=True,
    steps=20,
    bounds=("compute",),
    divided=64,
    shim_options=_words("--seconds 0 --steps 1 --only ResNet"),
    recording_options=_words("--rounds 2 --width 1"),
)
