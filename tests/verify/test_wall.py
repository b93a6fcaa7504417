"""The command line imports no torch: scripts run in processes, and in an interpreter, of their own."""

from __future__ import annotations

import os
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


IMPORTS = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
    if "torch" in sys.modules:
        sys.exit(name)
"""


def brings_torch(*modules: str) -> str:
    """What is said of modules that are imported in this order: the first with which torch comes, or nothing."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", IMPORTS, *modules]
    return subprocess.run(command, env=environment, stderr=subprocess.PIPE, text=True, check=False).stderr.strip()


@pytest.mark.torch
def test_torch_stays_out() -> None:
    assert brings_torch(*MODULES) == ""


def test_the_wall_would_be_seen_to_fall() -> None:
    losses = "amp_migrate.verify.recorder.record.losses"
    assert brings_torch(*MODULES, losses) == losses
