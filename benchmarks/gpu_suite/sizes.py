"""How much each part does: on a GPU, and in a rehearsal on a CPU."""

from __future__ import annotations

from dataclasses import dataclass


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
        operators: how many of CUDA's autocast are asked; None for all.
        seeds: trainings per workload and arm.
        variants: also measure what might make a migrated script faster.
        diagnosed: names of the workloads that `amp-verify doctor` looks at; none for all.
        fixtures: names of fixtures; none for all.
        quick: run the fixtures with their quick arguments.
        steps: optimizer steps per run of `amp-verify`.
        shim_options: of `benchmarks/shim.py`.
    """

    device: str
    workloads: tuple[Workload, ...]
    operators: int | None
    seeds: int
    variants: bool
    diagnosed: tuple[str, ...]
    fixtures: tuple[str, ...]
    quick: bool
    steps: int
    shim_options: tuple[str, ...]


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _resnet(name: str, options: str) -> Workload:
    return Workload(name, "resnet.py", _words(options))


def _gpt(name: str, options: str) -> Workload:
    return Workload(name, "gpt.py", _words(options))


FULL = Sizes(
    device="cuda",
    workloads=(
        _resnet("ResNet-18, 32x32, batch 128", "--depth 18 --size 32 --batch-size 128 --steps 240"),
        _resnet("ResNet-18, 32x32, batch 512", "--depth 18 --size 32 --batch-size 512 --steps 80"),
        _resnet("ResNet-50, 224x224, batch 64", "--depth 50 --size 224 --batch-size 64 --steps 60"),
        _gpt("GPT, 12 layers, 16x512", "--depth 12 --width 768 --context 512 --batch-size 16 --steps 60"),
    ),
    operators=None,
    seeds=3,
    variants=True,
    diagnosed=(),
    fixtures=(),
    quick=False,
    steps=20,
    shim_options=_words("--device cuda --seconds 20"),
)

REHEARSAL = Sizes(
    device="cpu",
    workloads=(
        _resnet("ResNet-18, 8x8, batch 4", "--depth 18 --size 8 --batch-size 4 --steps 2"),
        _gpt("GPT, 1 layer, 2x16", "--depth 1 --width 16 --context 16 --batch-size 2 --steps 2"),
    ),
    operators=8,
    seeds=1,
    variants=True,
    diagnosed=("GPT, 1 layer, 2x16",),
    fixtures=("cuda_amp_linear",),
    quick=True,
    steps=6,
    shim_options=_words("--device cpu --seconds 0 --steps 1 --only ResNet"),
)
