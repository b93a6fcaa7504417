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
MODULES = sorted(
    "amp_shim." + ".".join(path.relative_to(Path(amp_shim.__file__).parent).with_suffix("").parts)
    for path in Path(amp_shim.__file__).parent.rglob("*.py")
    if not path.name.startswith("__")
)
REACHED = f"print([name for name in {FORBIDDEN!r} if name in sys.modules])\n"
# What a patch could touch: attributes of torch, autocast kernels, import hooks, the state of this thread.
FINGERPRINT = """
import sys, torch
from multiprocessing import spawn
from torch.autograd.function import BackwardCFunction
def fingerprint():
    spaces = (torch, torch.Tensor, torch.nn.functional, torch.autograd, torch.optim.Optimizer, BackwardCFunction, spawn)
    attributes = [(n, k, id(v)) for n, s in enumerate(spaces) for k, v in sorted(vars(s).items()) if callable(v)]
    kernels = sorted(torch._C._dispatch_get_registrations_for_dispatch_key("AutocastCPU"))
    return attributes, kernels, list(sys.meta_path), torch.is_autocast_enabled("cpu")
before = fingerprint()
"""


def python(code: str) -> list[str]:
    environment = {**os.environ, "PYTHONPATH": ROOTS}
    result = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


def test_importing_every_module_reaches_nothing_forbidden_and_patches_nothing() -> None:
    reached, same, same_after_a_patch = python(
        f"{FINGERPRINT}\nimport amp_shim, {', '.join(MODULES)}\n{REACHED}"
        "print(fingerprint() == before)\n"
        "torch.clear_autocast_cache = print\n"
        "print(fingerprint() == before)\n"
    )
    assert reached == "[]"
    assert same == "True"
    assert same_after_a_patch == "False", "this test could not fail"


@pytest.mark.parametrize("name", ["libcst", "amp_migrate"])
def test_the_wall_test_can_fail(name: str) -> None:
    assert python(f"import sys, amp_shim, {name}\n{REACHED}") == [f"[{name!r}]"]


def test_importing_the_package_alone_does_not_import_torch() -> None:
    assert python("import sys, amp_shim, amp_shim.install\nprint('torch' in sys.modules)") == ["False"]
