"""What all runs of a verification share."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from amp_migrate.verify.runs.kinds import Arm
from amp_migrate.verify.runs.target import Target


@dataclass(frozen=True)
class Setup:
    """What all runs of a verification share.

    Attributes:
        scripts: the script, or the module, of each arm.
        arguments: passed to both.
        python: the interpreter that runs them.
        cwd: the working folder; where `copy_cwd`, each run gets a copy of it.
        scratch: folder of the verification's own, holding a folder per run.
        shim: folder of the `amp_shim` package.
        device: "auto", "cuda" or "cpu".
        steps: optimizer steps per run; 0 for all.
        seconds: of training after which a run of the original ends as well; the others then make as many steps.
        whole_steps: optimizer steps per whole training; 0 for all.
        timing_steps: optimizer steps per timing run.
        timeout: seconds per run; 0 for no limit.
        jobs: runs at a time; timing runs are always made one at a time.
        metrics: pattern of the files below the working folder in which scripts write metrics; empty for none.
        launch: words that start the script instead of the interpreter (`torchrun --nproc-per-node 2`); empty for none.
        dtype: the half format that was asked for, as torch calls it; empty where none was.
        synthetic: made-up pictures stand in for torchvision data sets that are not on disk.
        resume: words behind the script's own with which it goes on from what it saved; empty where that is not asked.
        forked: fork runs from a process that has torch imported, instead of starting an interpreter for each.
    """

    scripts: dict[Arm, Target]
    arguments: tuple[str, ...]
    python: str
    cwd: Path
    copy_cwd: bool
    scratch: Path
    shim: Path
    device: str
    steps: int
    timing_steps: int
    timeout: float
    jobs: int
    seconds: float = 0.0
    whole_steps: int = 0
    metrics: str = ""
    launch: tuple[str, ...] = ()
    dtype: str = ""
    synthetic: bool = False
    resume: tuple[str, ...] = ()
    forked: bool = False

    @property
    def made_here(self) -> bool:
        """Whether the migrated script was made for this verification, and is gone when somebody reads its report."""
        return self.scripts[Arm.MIGRATED].file.is_relative_to(self.scratch)

    @property
    def title(self) -> str:
        """What is compared, with paths as seen from the working folder."""
        original, migrated = (os.path.relpath(self.scripts[arm].file, self.cwd) for arm in (Arm.ORIGINAL, Arm.MIGRATED))
        return f"{original} and {'its migration' if self.made_here else migrated}"
