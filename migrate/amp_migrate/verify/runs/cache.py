"""A cache of the original's runs, so that CI pays for the migrated script's only.

A run is found again only if nothing that could change it has changed: the script and the modules of its repository,
the working folder, the arguments, the interpreter and its packages, the machine, and the harness itself. Timing runs
are never kept, because they compare with the migrated script's of the same minutes.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import subprocess
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from amp_migrate.repository import repository
from amp_migrate.verify.recorded.events import read_ranks
from amp_migrate.verify.recorder.spec import RecorderSpec
from amp_migrate.verify.runs import folders, outputs
from amp_migrate.verify.runs.kinds import Arm, Run
from amp_migrate.verify.runs.process import RunResult
from amp_migrate.verify.runs.setup import Setup

_PACKAGES = "from importlib.metadata import distributions as d; print(sorted((i.name, i.version) for i in d()))"
_KEPT = ("rank-*.jsonl", "stdout.log", "stderr.log", "metrics-*")


@dataclass(frozen=True)
class Cache:
    """Runs of one original in one place.

    Attributes:
        folder: holds a folder per run, named by the run's key.
        base: what all the runs' keys have in common.
    """

    folder: Path
    base: str

    def find(self, run: Run, orders: RecorderSpec) -> RunResult | None:
        """The result of the same run, made before; None where there is none."""
        kept = self.folder / self._key(run, orders)
        try:
            fields = json.loads((kept / "result.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return RunResult(
            run=run,
            command=tuple(fields["command"]),
            folder=kept,
            returncode=fields["returncode"],
            seconds=0.0,
            trace=read_ranks(kept),
            cached=True,
        )

    def keep(self, result: RunResult, orders: RecorderSpec) -> None:
        """Keep a run of the original that ended well; others are made again."""
        if result.run.arm is not Arm.ORIGINAL or result.run.timing or not result.ended_well:
            return
        there = self.folder / self._key(result.run, orders)
        made = there.with_name(f"{there.name}.{os.getpid()}")
        made.mkdir(parents=True, exist_ok=True)
        for pattern in _KEPT:
            for path in result.folder.glob(pattern):
                shutil.copy2(path, made)
        if (result.folder / outputs.WRITTEN).is_dir():
            shutil.copytree(result.folder / outputs.WRITTEN, made / outputs.WRITTEN, dirs_exist_ok=True)
        fields = {"command": result.command, "returncode": result.returncode}
        (made / "result.json").write_text(json.dumps(fields), encoding="utf-8")
        shutil.rmtree(there, ignore_errors=True)
        made.rename(there)

    def _key(self, run: Run, orders: RecorderSpec) -> str:
        # `skips` is a part of the run; where the records go and who asks for them is not.
        places = {"trace": "", "shim": "", "reference": "", "extensions": "", "copies": {}}
        told = {**asdict(orders), **places, "parent": 0, "port": 0}
        text = json.dumps([self.base, asdict(run), told], sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:32]


def open_cache(folder: Path, setup: Setup, threads: int, ours: Collection[Path]) -> Cache:
    """The cache in `folder` for the original's runs. `ours`: what verifications write into the working folder."""
    original, migrated = setup.scripts[Arm.ORIGINAL], setup.scripts[Arm.MIGRATED]
    home = original.root or repository(original.file.parent) or original.file.parent
    not_read = {migrated.file, *original.changed} - {original.file}
    digest = hashlib.sha256()
    for item in (
        *_environment(setup.python, threads),
        *setup.arguments,
        setup.metrics,
        *original.words,
        *_modules(home, not_read),
        *_modules(Path(__file__).parents[1]),
        *_working_folder(setup.cwd, {folder, *ours}, not_read),
    ):
        digest.update(item.encode("utf-8", "surrogateescape") + b"\0")
    return Cache(folder, digest.hexdigest())


def _environment(python: str, threads: int) -> Iterator[str]:
    yield subprocess.run((python, "-c", _PACKAGES), capture_output=True, text=True, check=True).stdout
    yield os.path.realpath(python)
    yield f"{platform.platform()} {platform.machine()} {os.cpu_count()} {threads}"
    for path in ("/proc/cpuinfo", "/proc/driver/nvidia/version"):
        if os.path.exists(path):
            lines = Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
            yield next((line for line in lines if line.startswith(("model name", "NVRM"))), "")
    for information in sorted(Path("/proc/driver/nvidia/gpus").glob("*/information")):
        yield information.read_text(encoding="utf-8", errors="replace")
    for name in ("PYTHONPATH", "CUDA_VISIBLE_DEVICES"):
        yield os.environ.get(name, "")


def _modules(folder: Path, without: Collection[Path] = ()) -> Iterator[str]:
    """Paths and contents of the Python files below a folder."""
    for path in folders.files(folder):
        if path.suffix == ".py" and path not in without:
            yield str(path.relative_to(folder))
            yield hashlib.sha256(path.read_bytes()).hexdigest()


def _working_folder(cwd: Path, ours: Collection[Path], without: Collection[Path]) -> Iterator[str]:
    """Contents where the folder is small enough to be copied for a run; elsewhere sizes and times."""
    small = folders.copyable(cwd)
    for path in folders.files(cwd):
        if path in without or any(path.is_relative_to(each) for each in ours):
            continue
        yield str(path.relative_to(cwd))
        status = path.stat()
        yield hashlib.sha256(path.read_bytes()).hexdigest() if small else f"{status.st_size} {status.st_mtime_ns}"
