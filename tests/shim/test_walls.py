"""What importing the shim leaves alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import amp_shim
import pytest

ROOTS = os.pathsep.join(str(Path(amp_shim.__file__).parents[2] / root) for root in ("shim", "migrate"))
FORBIDDEN = ("libcst", "amp_migrate", "apex")
CHECK = f"""
import sys
found = [name for name in {FORBIDDEN!r} if name in sys.modules]
sys.exit("reached " + " ".join(found) if found else 0)
"""
MODULES = sorted(
    "amp_shim." + ".".join(path.relative_to(Path(amp_shim.__file__).parent).with_suffix("").parts)
    for path in Path(amp_shim.__file__).parent.rglob("*.py")
    if not path.name.startswith("__")
)
FINGERPRINT = """
import sys, torch
from multiprocessing import spawn
from torch.autograd.function import BackwardCFunction
def fingerprint():
    spaces = (torch, torch.Tensor, torch.nn.functional, torch.autograd, torch.optim.Optimizer, BackwardCFunction, spawn)
    return [(n, k, id(v)) for n, s in enumerate(spaces) for k, v in sorted(vars(s).items()) if callable(v)], \\
        sorted(torch._C._dispatch_get_registrations_for_dispatch_key("AutocastCPU")), list(sys.meta_path), \\
        torch.is_autocast_enabled("cpu")
before = fingerprint()
"""


def python(code: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": ROOTS}
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def test_importing_every_module_stays_within_the_wall() -> None:
    result = python(f"import amp_shim, {', '.join(MODULES)}\n{CHECK}")
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("name", ["libcst", "amp_migrate"])
def test_the_wall_test_can_fail(name: str) -> None:
    result = python(f"import amp_shim, {name}\n{CHECK}")
    assert result.returncode == 1
    assert f"reached {name}" in result.stderr


def test_importing_patches_nothing() -> None:
    result = python(f"{FINGERPRINT}\nimport amp_shim, {', '.join(MODULES)}\nsys.exit(fingerprint() != before)")
    assert result.returncode == 0, result.stderr


def test_the_patch_test_can_fail() -> None:
    result = python(
        f"{FINGERPRINT}\nimport torch\ntorch.clear_autocast_cache = print\nsys.exit(fingerprint() != before)"
    )
    assert result.returncode == 1, result.stderr
