"""Puts the scripts of github.com/pytorch/examples through `amp-verify run`, in float16 and in bfloat16.

    python benchmarks/verify_examples.py ~/src/examples
    python benchmarks/verify_examples.py ~/src/examples --device cuda --at-once 4 --output gpu.json

The scripts run as they are, on a copy of the checkout, with arguments that make them small, and against what
amp-migrate writes of them. Pictures are made up, nothing is downloaded; what cannot run so is listed with the reason.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path

from codemod import RESULTS, machine

DTYPES = ("fp16", "bf16")
VERIFY = "from amp_migrate.verify.cli import main; main(prog_name='amp-verify')"
_LEFT = re.compile(r"AMP59\d step left as it was: (.*)")
WORDS = "the model reads one word after another and says which comes next because it has seen them before"


@dataclass(frozen=True)
class Example:
    """A script of the checkout.

    Attributes:
        arguments: what makes it small, and use the GPU that the CPU stands in for.
        launch: what starts it; empty for the interpreter.
        prepare: makes the data that it wants, in the script's folder.
    """

    script: str
    arguments: str = ""
    launch: str = ""
    prepare: Callable[[Path], None] | None = None


@dataclass(frozen=True)
class Verified:
    """What became of one script in one dtype. `verdict` may be NOT_MIGRATED; it is empty where there is none."""

    script: str
    arguments: str
    launch: str
    dtype: str
    verdict: str
    sentence: str
    seconds: float


def _some_text(folder: Path) -> None:
    for name in ("train", "valid", "test"):
        (folder / "data/wikitext-2" / f"{name}.txt").write_text(f" {WORDS} \n" * 400, encoding="utf-8")


def _some_waves(folder: Path) -> None:
    import numpy
    import torch

    at = numpy.arange(40) + numpy.arange(10).reshape(-1, 1) * 3
    torch.save(numpy.sin(at / 5.0), folder / "traindata.pt")


_SMALL_TEXT = "--accel --use-optimizer --emsize 32 --nhid 32 --batch_size 4 --bptt 16"
EXAMPLES = (
    Example("dcgan/main.py", "--dataset fake --accel --workers 0 --batchSize 8 --ngf 8 --ndf 8 --niter 1"),
    Example("distributed/ddp-tutorial-series/multigpu_torchrun.py", "2 1", "torchrun --nproc-per-node 2"),
    Example("distributed/ddp-tutorial-series/single_gpu.py", "2 1"),
    Example("imagenet/main.py", "--dummy --arch resnet18 --batch-size 2 --workers 0 --gpu 0"),
    Example("mnist/main.py", "--epochs 1 --batch-size 16"),
    Example("mnist_forward_forward/main.py", "--epochs 20 --train_size 200 --test_size 50"),
    Example("mnist_hogwild/main.py", "--cuda --epochs 1"),
    Example("mnist_rnn/main.py", "--accel --epochs 1 --batch-size 16"),
    Example("siamese_network/main.py", "--epochs 1 --batch-size 8"),
    Example("time_sequence_prediction/train.py", "--steps 6", prepare=_some_waves),
    Example("vae/main.py", "--epochs 1"),
    Example("word_language_model/main.py", f"--model LSTM {_SMALL_TEXT}", prepare=_some_text),
    Example("word_language_model/main.py", f"--model GRU {_SMALL_TEXT}", prepare=_some_text),
    Example("word_language_model/main.py", f"--model Transformer {_SMALL_TEXT}", prepare=_some_text),
)
NOT_RUN = {
    "distributed/FSDP, FSDP2, tensor_parallelism, rpc, ddp": "want several GPUs, and packages that are not installed",
    "distributed/minGPT-ddp": "wants Hydra and a bucket of files",
    "fast_neural_style": "downloads the weights of a VGG16",
    "fx": "trains nothing",
    "gat, gcn": "download the Cora graph, and want `requests`",
    "language_translation, legacy/snli": "download their text, and want torchtext",
    "reinforcement_learning": "wants gymnasium",
    "super_resolution": "downloads BSDS300, and wants `six`",
    "regression, word_language_model without --use-optimizer": "update parameters by hand: no steps to compare",
}


def verified(checkout: Path, example: Example, dtype: str, device: str, folder: Path) -> Verified:
    """Verify one script in one dtype; what it needs beside itself goes into a folder."""
    script = checkout / example.script
    if example.prepare is not None:
        example.prepare(script.parent)
    folder.mkdir(parents=True, exist_ok=True)
    report = folder / f"{dtype}.json"
    command = [sys.executable, "-c", VERIFY, "run", script.name, "--dtype", dtype, "--device", device]
    command += ["--synthetic-data", "--json", str(report), "--cache", str(folder / "cache")]
    command += ["--timing-runs", "0"] if device == "cuda" else []  # others run beside it
    if example.launch:
        command += ["--launch", example.launch]
    began = time.monotonic()
    done = subprocess.run(
        [*command, "--", *example.arguments.split()], cwd=script.parent, capture_output=True, text=True, check=False
    )
    seconds = round(time.monotonic() - began, 1)
    found = {"verdict": "", "sentence": (done.stderr.strip().splitlines() or [""])[-1]}
    if left := _LEFT.search(done.stderr):
        found = {"verdict": "NOT_MIGRATED", "sentence": left[1]}
    if report.exists():
        found = json.loads(report.read_text(encoding="utf-8"))
    sentence = found["sentence"].partition(" (log: ")[0].replace(f"{script.parent}{os.sep}", "")
    return Verified(example.script, example.arguments, example.launch, dtype, found["verdict"], sentence, seconds)


def main() -> None:
    """Verify every script, print the verdicts, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument(
        "--only", default="", help="scripts whose path or arguments contain this; others keep their result"
    )
    parser.add_argument("--go-on", action="store_true", help="only scripts that have no result yet")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="default: %(default)s")
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES, default=DTYPES, help="default: both")
    parser.add_argument("--at-once", type=int, default=1, help="scripts at a time (default: %(default)s)")
    parser.add_argument("--commit", help="of a checkout without its history")
    parser.add_argument("--output", type=Path, default=RESULTS / "verify_examples.json", help="default: %(default)s")
    options = parser.parse_args()
    commit = options.commit or _commit(options.checkout)
    known = (
        json.loads(options.output.read_text(encoding="utf-8"))["verified"]
        if (options.only or options.go_on) and options.output.exists()
        else []
    )
    results = {(each["script"], each["arguments"], each["dtype"]): each for each in known}
    wanted = [each for each in EXAMPLES if options.only in f"{each.script} {each.arguments}"]
    if options.go_on:
        have = {(script, arguments) for script, arguments, _ in results}
        wanted = [each for each in wanted if (each.script, each.arguments) not in have]
    with tempfile.TemporaryDirectory(prefix="amp-examples-") as name, ThreadPoolExecutor(options.at_once) as pool:

        def verify(number: int) -> list[Verified]:
            # Each in a copy of its own: they write beside themselves. The dtypes share the original's runs.
            copy, folder = Path(name) / f"examples{number}", Path(name) / f"runs{number}"
            shutil.copytree(options.checkout, copy, ignore=shutil.ignore_patterns(".git"))
            return [verified(copy, wanted[number], dtype, options.device, folder) for dtype in options.dtypes]

        for done in as_completed([pool.submit(verify, number) for number in range(len(wanted))]):
            for found in done.result():
                results[found.script, found.arguments, found.dtype] = asdict(found)
                # Before it is told: who reads along looks into the file then.
                _write(options.output, commit, [results[key] for key in sorted(results)])
                print(
                    f"{found.seconds:6.1f} s  {found.script} {found.dtype}: {found.verdict}: {found.sentence}",
                    flush=True,
                )


def _commit(checkout: Path) -> str:
    command = ["git", "-C", str(checkout), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _write(output: Path, commit: str, found: list[dict[str, object]]) -> None:
    result = {"machine": machine(), "commit": commit, "verified": found, "not_run": NOT_RUN}
    output.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
