"""The command line imports no torch: scripts run in processes, and in an interpreter, of their own."""

from __future__ import annotations

import subprocess
import sys

import pytest

MODULES = (
    "amp_migrate.verify.cli",
    "amp_migrate.verify.ladder",
    "amp_migrate.verify.verdict",
    "amp_migrate.verify.as_text",
    "amp_migrate.verify.as_json",
    "amp_migrate.verify.as_html",
    "amp_migrate.verify.prepare",
    "amp_migrate.verify.verification",
    "amp_migrate.verify.tracing",
    "amp_migrate.verify.localizing",
    "amp_migrate.verify.doctor",
)


def imports_torch(module: str) -> bool:
    code = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    return subprocess.run([sys.executable, "-c", code], env=environment(), check=False).returncode == 1


def environment() -> dict[str, str]:
    import os

    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


@pytest.mark.parametrize("module", MODULES)
def test_torch_stays_out(module: str) -> None:
    assert not imports_torch(module)


def test_the_wall_would_be_seen_to_fall() -> None:
    assert imports_torch("amp_migrate.verify.recorder.losses")
