"""Apex's L1 test on the shim: does `main_amp.py` print the same losses at every level and option?

    git clone https://github.com/NVIDIA/apex && git -C apex checkout cb65b8ed^
    python benchmarks/apex_l1.py apex

Apex compared a build with extensions and its plain Python, to the bit. Here the shim takes the place of the extensions,
and Apex's Python is that of the checkout; `main_amp.py` and `compare.py` run as they stand there. Scaled down: a CPU in
the place of the GPU, noise as pictures, a small network in place of a ResNet-50, five steps.
"""

from __future__ import annotations

import argparse
import json
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import asdict, dataclass
from io import StringIO
from itertools import product
from pathlib import Path
from typing import Any

import torch
import torchvision
from apex_on_cpu import apex_of, stand_in
from shim_machine import RESULTS, machine
from torch import Tensor, nn

LEVELS = ("O0", "O1", "O2", "O3")
SCALES = (None, "1.0", "128.0", "dynamic")
BATCH_NORMS = (None, "True", "False")
_STEPS_READ = 3  # losses are kept from the third step on


@dataclass(frozen=True)
class Comparison:
    """One run of `main_amp.py` on both sides.

    same: whether Apex's `compare.py` found the losses equal to the bit; None where only the shim ran. farthest: the
    largest difference of a loss, relative to Apex's.
    """

    level: str
    loss_scale: str | None
    keep_batchnorm_fp32: str | None
    fused_adam: bool
    same: bool | None
    farthest: float | None


def options_of(level: str) -> Iterator[tuple[str | None, str | None, bool]]:
    """What `run_test.sh` runs at a level: loss scale, batch norms, FusedAdam."""
    for scale, norms in product(SCALES, BATCH_NORMS):
        if level != "O1" or norms is None:
            yield scale, norms, False
    if level == "O2":
        yield from ((scale, "False", True) for scale in SCALES)


def small() -> nn.Module:
    """A network for 1000 classes that takes a picture of any size."""
    first = [nn.Conv2d(3, 8, 7, stride=4), nn.BatchNorm2d(8), nn.ReLU()]
    second = [nn.Conv2d(8, 16, 3, stride=4), nn.BatchNorm2d(16), nn.ReLU()]
    return nn.Sequential(*first, *second, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 1000))


def train(folder: Path, data: Path, side: str, level: str) -> None:
    """Every run of one level by one side, in this process; the losses are left in the current folder."""
    stand_in()
    _view_as_before()
    if side == "shim":
        from amp_shim.install import install

        install()
    else:
        apex_of(folder)
    torchvision.models.small = small
    from apex import amp  # type: ignore[import-not-found]

    for scale, norms, fused_adam in options_of(level):
        if fused_adam and side == "apex":  # needs the extensions
            continue
        sys.argv = ["main_amp.py", "-a", "small", "-b", "8", "-j", "0", "-p", "1", "--deterministic"]
        sys.argv += [
            "--prints-to-process",
            str(_STEPS_READ),
            "--opt-level",
            level,
            *_arguments(scale, norms, fused_adam),
        ]
        sys.argv += [*["--has-ext"] * (side == "shim"), str(data)]
        with suppress(SystemExit):
            runpy.run_path(str(folder / "tests/L1/common/main_amp.py"), run_name="__main__")
        if level == "O1":
            amp._amp_state.handle._deactivate()


def _view_as_before() -> None:
    """`correct[:k].view(-1)` of a transposed comparison, which was contiguous when `main_amp.py` was written."""
    native: Any = Tensor.view
    tensor: Any = Tensor

    def view(self: Tensor, *shape: Any) -> Any:
        return native(self.contiguous() if self.dtype is torch.bool else self, *shape)

    tensor.view = view


def compare(folder: Path, data: Path, level: str) -> Iterator[Comparison]:
    """Train at one level on both sides, each in a process of its own, and let Apex compare."""
    with tempfile.TemporaryDirectory() as place:
        for side in ("shim", "apex"):
            command = [sys.executable, __file__, str(folder), "--data", str(data), "--side", side, "--level", level]
            subprocess.run(command, check=True, cwd=place, stdout=subprocess.DEVNULL)
        for scale, norms, fused_adam in options_of(level):
            files = [f"{ext}_{level}_{scale}_{norms}_{fused_adam}" for ext in (True, False)]
            ours, apexs = (_losses(Path(place) / name) for name in files)
            same = _is_same(folder, Path(place), level, scale, norms) if apexs else None
            farthest = max(abs(a - b) / abs(b) for a, b in zip(ours, apexs, strict=True)) if apexs else None
            assert len(ours) == _STEPS_READ
            yield Comparison(level, scale, norms, fused_adam, same, farthest)


def _is_same(folder: Path, place: Path, level: str, scale: str | None, norms: str | None) -> bool:
    sys.argv = ["compare.py", "--opt-level", level, *_arguments(scale, norms, False)]
    before = Path.cwd()
    os.chdir(place)
    try:
        with redirect_stdout(StringIO()):
            runpy.run_path(str(folder / "tests/L1/common/compare.py"), run_name="__main__")
    except AssertionError:
        return False
    finally:
        os.chdir(before)
    return True


def _arguments(scale: str | None, norms: str | None, fused_adam: bool) -> list[str]:
    given = (("--loss-scale", scale), ("--keep-batchnorm-fp32", norms))
    return [word for pair in given if pair[1] for word in pair if word] + ["--fused-adam"] * fused_adam


def _losses(path: Path) -> list[float]:
    return list(torch.load(path)["Loss"]) if path.exists() else []


def _make_pictures(data: Path) -> None:
    torch.manual_seed(0)
    for split, count in (("train", 24), ("val", 1)):
        for label in ("a", "b"):
            (data / split / label).mkdir(parents=True)
            for number in range(count):
                noise = torch.randint(256, (3, 64, 64), dtype=torch.uint8)
                torchvision.io.write_jpeg(noise, str(data / split / label / f"{number}.jpg"))


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare, print, and write the result; with `--side`, train that side."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a checkout of NVIDIA/apex that has apex/amp")
    parser.add_argument("--output", type=Path, help="default: results/apex-l1.json beside this file")
    parser.add_argument("--data", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--side", choices=["apex", "shim"], help=argparse.SUPPRESS)
    parser.add_argument("--level", choices=LEVELS, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    folder = options.folder.resolve()
    if not (folder / "apex" / "amp" / "__init__.py").is_file():
        parser.error(f"{folder} has no apex/amp; check out a commit from before May 2025, such as cb65b8ed^")
    torch.set_num_threads(1)
    if options.side:
        train(folder, options.data, options.side, options.level)
        return
    found = []
    with tempfile.TemporaryDirectory() as data:
        _make_pictures(Path(data))
        for level in LEVELS:
            for each in compare(folder, Path(data), level):
                found.append(each)
                names = f"{each.level} scale {each.loss_scale} batch norms {each.keep_batchnorm_fp32}"
                told = "ran" if each.same is None else f"same: {each.same}, farthest {each.farthest:.1e}"
                print(f"{names}{' FusedAdam' if each.fused_adam else ''}: {told}", flush=True)
    output = options.output or RESULTS / "apex-l1.json"
    output.write_text(
        json.dumps({"machine": machine("cpu"), "comparisons": [asdict(c) for c in found]}, indent=2) + "\n"
    )


if __name__ == "__main__":
    main()
