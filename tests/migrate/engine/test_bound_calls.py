"""Calls that a migration adds are held against the signatures of the target's PyTorch."""

from __future__ import annotations

from pathlib import Path

import pytest
from amp_migrate.engine.bound_calls import unbound_call
from amp_migrate.engine.check import Refused, check_text
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.engine.source import Source
from amp_migrate.plan.code import plain
from amp_migrate.report.finding import Kind
from amp_migrate.settings import Settings
from amp_migrate.write.editor import Editor

HEAD = "import torch\n"
NEWEST = (2, 15)


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
def test_a_call_that_binds_is_no_fault(call: str) -> None:
    assert unbound_call(HEAD, f"{HEAD}{call}\n", NEWEST) is None


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
def test_a_call_that_does_not_bind_is_named(call: str) -> None:
    wrong = unbound_call(HEAD, f"{HEAD}{call}\n", NEWEST)
    assert wrong is not None
    assert wrong.endswith(" is no call that PyTorch 2.15 takes")


@pytest.mark.parametrize(
    ("call", "target"),
    [
        ('torch.amp.GradScaler("cuda")', (2, 2)),
        ('torch.get_autocast_dtype("cuda")', (2, 3)),
        ('torch.amp.custom_bwd(device_type="cuda")', (2, 3)),
    ],
)
def test_a_function_that_the_target_lacks_is_named(call: str, target: tuple[int, int]) -> None:
    wrong = unbound_call(HEAD, f"{HEAD}{call}\n", target)
    assert wrong == f"PyTorch {target[0]}.{target[1]} has no {call.partition('(')[0]}"
    assert unbound_call(HEAD, f"{HEAD}{call}\n", NEWEST) is None


@pytest.mark.parametrize(
    "importing",
    ["import torch as th\nth.amp.autocast()", "from torch.amp import autocast\nautocast()",
     "from torch import amp as a\na.autocast()", "def f():\n    import torch.amp\n    torch.amp.autocast()"],
)  # fmt: skip
def test_calls_are_found_by_whatever_name_they_go(importing: str) -> None:
    assert unbound_call("", importing + "\n", NEWEST) == (
        f"{importing.splitlines()[-1].strip()} is no call that PyTorch 2.15 takes"
    )


def test_what_the_user_wrote_is_the_users_own() -> None:
    old = f"{HEAD}torch.amp.autocast(bad=1)\ntorch.amp.GradScaler('cuda')\n"
    assert unbound_call(old, f"{HEAD}with torch.amp.autocast( bad=1 ):\n    pass\n", NEWEST) is None
    assert unbound_call(old, f"{HEAD}torch.amp.GradScaler('cuda', enabled=False)\n", (2, 1)) is None


def test_a_result_with_such_a_call_is_refused() -> None:
    source = Source(Path("train.py"), "train.py", HEAD)
    with pytest.raises(Refused, match=r"cannot run: torch\.amp\.autocast"):
        check_text(source, f"{HEAD}torch.amp.autocast()\n")
    with pytest.raises(Refused, match=r"cannot run: PyTorch 2\.1 has no torch.amp.GradScaler"):
        check_text(source, f"{HEAD}torch.amp.GradScaler('cuda')\n", (2, 1))


def test_a_plan_with_such_a_call_leaves_the_file_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Editor, "new_scaler", lambda self, at, arguments: plain('torch.amp.GradScaler("cuda")'))
    text = (
        "import torch\nmodel = torch.nn.Linear(3, 4)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "loss = model(torch.ones(3)).sum()\nloss.backward()\noptimizer.step()\n"
    )
    plan = migrate_text(text, Settings(target_torch=(2, 2)))
    assert plan.after == text
    assert [(finding.code, finding.kind) for finding in plan.findings] == [("AMP002", Kind.ERROR)]
    assert "PyTorch 2.2 has no torch.amp.GradScaler" in plan.findings[0].message
    assert migrate_text(text, Settings(target_torch=(2, 3))).changed
