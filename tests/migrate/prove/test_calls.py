"""What a result adds can be imported and called."""

from __future__ import annotations

import pytest

from .conftest import Check

BEFORE = """
import torch
def run(model, x):
    return model(x)
run(torch.nn.Linear(3, 3), 1)
"""


def region(call: str, head: str = "import torch") -> str:
    return f"""
{head}
def run(model, x):
    with {call}:
        return model(x)
run(torch.nn.Linear(3, 3), 1)
"""


def test_a_call_that_every_version_takes_passes(wrong: Check) -> None:
    assert wrong(BEFORE, region('torch.amp.autocast(device_type="cuda", dtype=torch.float16)')) == ""


@pytest.mark.parametrize(
    "call", ["torch.amp.autocast(dtype=torch.float16)", 'torch.amp.autocast("cuda", type=torch.float16)']
)
def test_a_call_that_autocast_does_not_take_is_refused(wrong: Check, call: str) -> None:
    assert (
        wrong(BEFORE, region(call))
        == f"the result cannot run: `{call.replace(chr(34), chr(39))}` is no call that PyTorch 2.6 takes"
    )


def test_a_name_that_the_shim_does_not_have_is_refused(wrong: Check) -> None:
    before = "from apex.optimizers import FusedAdam\noptimizer = FusedAdam(p)\n"
    assert wrong(before, before.replace("apex", "amp_shim")) == ""
    other = before.replace("FusedAdam", "FusedAdagraad")
    assert "imports what is not there" in wrong(other, other.replace("apex", "amp_shim"))


def test_a_name_that_a_file_of_the_project_does_not_have_is_refused(wrong: Check) -> None:
    before = {"a.py": "from b import f\nf()\n", "b.py": "def f():\n    pass\n"}
    after = {**before, "a.py": "from b import f\nfrom b import GradScaler\nf()\nGradScaler()\n"}
    assert wrong(before, after) != ""


def test_a_call_that_a_changed_function_does_not_take_is_refused(wrong: Check) -> None:
    before = "def step(loss):\n    loss.backward()\nstep(f())\n"
    after = "def step(loss, scaler):\n    loss.backward()\nstep(f())\n"
    assert "does not fit the new parameters" in wrong(before, after) or "another program" in wrong(before, after)
