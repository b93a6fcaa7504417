"""The command line imports no torch: scripts run in processes, and in an interpreter, of their own."""

from __future__ import annotations

import subprocess
import sys

import pytest

MODULES = (
    "amp_migrate.verify.cli",
    "amp_migrate.verify.experiments.ladder",
    "amp_migrate.verify.judge.verdict",
    "amp_migrate.verify.reports.as_text",
    "amp_migrate.verify.reports.as_json",
    "amp_migrate.verify.reports.as_html",
    "amp_migrate.verify.reports.live",
    "amp_migrate.verify.runs.prepare",
    "amp_migrate.verify.commands.verify",
    "amp_migrate.verify.commands.trace",
    "amp_migrate.verify.commands.localize",
    "amp_migrate.verify.commands.profile",
    "amp_migrate.verify.commands.doctor",
    "amp_migrate.verify.commands.tune",
)


def imports_torch(module: str) -> bool:
    code = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    return subprocess.run([sys.executable, "-c", code], env=environment(), check=False).returncode == 1


def environment() -> dict[str, str]:
    import os

    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


@pytest.mark.torch
@pytest.mark.parametrize("module", MODULES)
def test_torch_stays_out(module: str) -> None:
    assert not imports_torch(module)


def test_the_wall_would_be_seen_to_fall() -> None:
    assert imports_torch("amp_migrate.verify.recorder.record.losses")
