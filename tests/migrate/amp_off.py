"""Run training scripts with mixed precision switched off, and write down every loss.

A program of its own: `python amp_off.py FOLDER ARGUMENTS [FOLDER ARGUMENTS ...]` runs each folder's `train.py` in
that folder with those arguments (one word, split as a shell would), one after the other. A run leaves behind
`stdout.txt` and `losses.json`: each loss that `backward()` was called on, as a hexadecimal number, exact to the bit.

Runs are forked from one process that has done the slow imports, which take longer than the runs themselves.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import runpy
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

DISABLED_APEX = Path(__file__).parent / "disabled_apex"
SHIM = Path(__file__).parents[2] / "shim"

# torch.optim imports the first of them when an optimizer is made.
SLOW_IMPORTS = ("torch._dynamo", "torchvision", "sklearn.datasets")


@contextlib.contextmanager
def amp_off() -> Iterator[None]:
    """Autocast and gradient scalers of every spelling are created disabled."""
    make_autocast = torch.amp.autocast.__init__
    make_scaler = torch.amp.GradScaler.__init__

    def disabled_autocast(self: torch.amp.autocast, *args: Any, **options: Any) -> None:
        make_autocast(self, *args, **{**options, "enabled": False})

    def disabled_scaler(self: torch.amp.GradScaler, *args: Any, **options: Any) -> None:
        make_scaler(self, *args, **{**options, "enabled": False})

    # The old classes of torch.cuda.amp inherit these two.
    with (
        patch.object(torch.amp.autocast, "__init__", disabled_autocast),
        patch.object(torch.amp.GradScaler, "__init__", disabled_scaler),
    ):
        yield


@contextlib.contextmanager
def recorded_losses() -> Iterator[list[str]]:
    """Every tensor that `backward()` is called on, as the hexadecimal form of its value."""
    losses: list[str] = []
    backward: Callable[..., None] = torch.Tensor.backward

    def recording(self: torch.Tensor, *args: Any, **options: Any) -> None:
        losses.append(float(self).hex())
        backward(self, *args, **options)

    with patch.object(torch.Tensor, "backward", recording):
        yield losses


def run(folder: Path, arguments: list[str]) -> None:
    """Run `train.py` of `folder` in this process, as `python train.py ARGUMENTS` would."""
    os.chdir(folder)
    sys.argv = ["train.py", *arguments]
    sys.path[0] = str(folder)
    sys.path += [str(DISABLED_APEX), str(SHIM)]
    with open("stdout.txt", "w") as output, contextlib.redirect_stdout(output), amp_off(), recorded_losses() as losses:
        runpy.run_path("train.py", run_name="__main__")
    Path("losses.json").write_text(json.dumps(losses))


def run_forked(folder: Path, arguments: list[str]) -> bool:
    """Whether `train.py` of `folder`, run in a process of its own, came to a good end."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1] == 0
    try:
        run(folder, arguments)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        os._exit(1)
    os._exit(0)


def main(words: list[str]) -> int:
    """Run the scripts in turn; 1 as soon as one fails."""
    gc.disable()  # what is imported is no garbage
    for module in SLOW_IMPORTS:
        importlib.import_module(module)
    gc.freeze()  # collections of the runs need not look at torch
    gc.enable()
    for folder, arguments in zip(words[::2], words[1::2], strict=True):
        if not run_forked(Path(folder).resolve(), shlex.split(arguments)):
            print(f"{folder}/train.py {arguments}: failed", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
