"""What a result adds can be imported and called."""

from __future__ import annotations

import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.plan.code import plain
from amp_migrate.prove.calls import wrong_call
from amp_migrate.prove.code.installed import PACKAGES, Installed
from amp_migrate.prove.code.program import Others, Program
from amp_migrate.report.finding import Kind
from amp_migrate.settings import Settings
from amp_migrate.tables.signatures import Version
from amp_migrate.write.editor import Editor

from .conftest import Check

HEAD = "import torch\n"
NEWEST = (2, 15)

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


def in_a_call(before: str, after: str, torch: Version = NEWEST) -> str:
    """What is wrong with a call that a text adds; empty where nothing is."""
    others = Others(lambda dotted, importer: None, lambda word: False)
    installed = Installed(frozenset(PACKAGES), (torch, torch))
    old, new = (Program({"train.py": text}, installed, lambda *_: None, others) for text in (before, after))
    found = wrong_call(old, new, "train.py", (torch,))
    return found[0] if found else ""


@pytest.mark.parametrize(
    "call",
    [
        'torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=x)',
        'torch.autocast("cuda", torch.float16)',
        "torch.amp.autocast(*args)",
        'torch.amp.autocast(device_type="cuda", **options)',
        'torch.amp.GradScaler("cuda", init_scale=4.0, enabled=x)',
        "torch.amp.GradScaler()",
        'torch.amp.custom_fwd(device_type="cuda")',
        'torch.amp.custom_fwd(f, device_type="cuda", cast_inputs=torch.float32)',
        'torch.get_autocast_dtype("cuda")',
        "torch.is_autocast_enabled()",
        'torch.is_autocast_enabled("cuda")',
        'torch.set_autocast_enabled("cuda", True)',
        "something.torch.amp.autocast()",
    ],
)
def test_a_call_that_pytorch_takes_is_no_fault(call: str) -> None:
    assert in_a_call(HEAD, f"{HEAD}{call}\n") == ""


@pytest.mark.parametrize(
    "call",
    [
        "torch.amp.autocast(enabled=x)",
        'torch.amp.autocast("cuda", device_type="cuda")',
        'torch.amp.autocast(device_type="cuda", amp=True, **options)',
        'torch.amp.GradScaler("cuda", 4.0, 2.0, 0.5, 2000, True, enabled=True)',
        "torch.amp.custom_fwd(f)",
        'torch.amp.custom_bwd(f, "cuda")',
        "torch.get_autocast_dtype()",
        'torch.set_autocast_dtype("cuda")',
    ],
)
def test_a_call_that_pytorch_does_not_take_is_named(call: str) -> None:
    assert in_a_call(HEAD, f"{HEAD}{call}\n").endswith("` is no call that PyTorch 2.15 takes")


@pytest.mark.parametrize(
    ("call", "target"),
    [
        ('torch.amp.GradScaler("cuda")', (2, 2)),
        ('torch.get_autocast_dtype("cuda")', (2, 3)),
        ('torch.amp.custom_bwd(device_type="cuda")', (2, 3)),
    ],
)
def test_a_function_that_the_target_lacks_is_named(call: str, target: Version) -> None:
    lacking = f"PyTorch {target[0]}.{target[1]} has no {call.partition('(')[0]}"
    assert in_a_call(HEAD, f"{HEAD}{call}\n", target) == lacking
    assert in_a_call(HEAD, f"{HEAD}{call}\n") == ""


@pytest.mark.parametrize(
    "importing",
    ["import torch as th\nth.amp.autocast()", "from torch.amp import autocast\nautocast()",
     "from torch import amp as a\na.autocast()", "def f():\n    import torch.amp\n    torch.amp.autocast()"],
)  # fmt: skip
def test_calls_are_found_by_whatever_name_they_go(importing: str) -> None:
    call = importing.splitlines()[-1].strip()
    assert in_a_call("", importing + "\n") == f"`{call}` is no call that PyTorch 2.15 takes"


def test_what_the_user_wrote_is_the_users_own() -> None:
    old = f"{HEAD}torch.amp.autocast(bad=1)\n"
    assert in_a_call(old, f"{HEAD}with torch.amp.autocast( bad=1 ):\n    pass\n") == ""


def test_a_call_that_never_fit_raises_as_it_did_whatever_goes_into_its_arguments() -> None:
    head = "def save(state, epoch, path):\n    pass\n\n\n"
    old, new = (f"{head}save({{'model': 1{more}}}, path='a.pth')\n" for more in ("", ", 'scaler': 2"))
    assert in_a_call(old, new) == ""
    assert "does not fit the parameters" in in_a_call(head, new)
    assert "does not fit the parameters" in in_a_call(old.replace("path=", "epoch=1, path="), new)


def test_what_the_original_calls_is_there() -> None:
    old, new = (f"{HEAD}scaler = torch.amp.GradScaler('cuda'{more})\n" for more in ("", ", enabled=False"))
    assert in_a_call(old, new, (2, 1)) == ""
    assert in_a_call("", new, (2, 1)) == "PyTorch 2.1 has no torch.amp.GradScaler"
    assert in_a_call(old, f"{HEAD}scaler = torch.amp.GradScaler('cuda', bad=1)\n") != ""


def test_a_plan_with_such_a_call_leaves_the_file_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Editor, "new_scaler", lambda self, at, arguments: plain('torch.amp.GradScaler("cuda")'))
    text = (
        "import torch\nmodel = torch.nn.Linear(3, 4)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "loss = model(torch.ones(3).cuda()).sum()\nloss.backward()\noptimizer.step()\n"
    )
    plan = migrate_text(text, Settings(target_torch=(2, 2)))
    assert plan.after == text
    assert [(finding.code, finding.kind) for finding in plan.findings] == [("AMP002", Kind.ERROR)]
    assert "PyTorch 2.2 has no torch.amp.GradScaler" in plan.findings[0].message
    assert migrate_text(text, Settings(target_torch=(2, 3))).changed


def test_nothing_is_said_of_half_precision_in_a_step_that_stays_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "import torch\nmodel = torch.nn.Linear(3, 4).cuda()\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "with torch.autograd.set_detect_anomaly(True):\n    loss = model(torch.ones(3).cuda()).sum()\n"
        "    loss.backward()\n    optimizer.step()\n"
    )
    assert [each.code for each in migrate_text(text, Settings(target_torch=(2, 3))).findings] == ["AMP615", "AMP501"]
    monkeypatch.setattr(Editor, "new_scaler", lambda self, at, arguments: plain('torch.amp.GradScaler("cuda")'))
    plan = migrate_text(text, Settings(target_torch=(2, 2)))
    assert (plan.after, [each.code for each in plan.findings]) == (text, ["AMP002"])
    beside = text + "with torch.cuda.amp.autocast():\n    model(torch.ones(3).cuda())\n"
    plan = migrate_text(beside, Settings(target_torch=(2, 2)))
    assert plan.after == beside.replace(
        "torch.cuda.amp.autocast()", 'torch.amp.autocast(device_type="cuda", dtype=torch.float16)'
    )
