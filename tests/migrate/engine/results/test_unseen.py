"""What a program is too large for is told where a step moves, if it has to do with the step."""

from __future__ import annotations

from pathlib import Path

import pytest
from amp_migrate.engine.migrate import migrate
from amp_migrate.settings import Settings

SCRIPT = """\
import torch
from library import first
from torch import nn

model = nn.Linear(8, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{before}
for x, target in loader:
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy({out}, target.cuda())
    loss.backward()
    optimizer.step()
"""
TOLD = "the program is too large to look at all of what low precision does in it: step_"


@pytest.mark.parametrize(
    ("before", "out", "functions", "is_told"),
    [
        ("", "first(model(x.cuda()))", 300, True),
        ("first(model)", "model(x.cuda())", 300, True),
        ("first(12)", "model(x.cuda())", 300, False),
        ("", "first(model(x.cuda()))", 3, False),
    ],
)
def test_functions_that_nobody_has_looked_at_are_told_where_a_step_moves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str, out: str, functions: int, is_told: bool
) -> None:
    monkeypatch.setattr("amp_migrate.flow.analysis._STATEMENTS", 20)
    library = "".join(f"def step_{n}(x):\n    return step_{n + 1}(x)\n\n\n" for n in range(functions))
    library += f"def step_{functions}(x):\n    return x\n\n\nfirst = step_0\n"
    (tmp_path / "library.py").write_text(library)
    (tmp_path / "train.py").write_text(SCRIPT.format(before=before, out=out))
    outcome = migrate([tmp_path], Settings())
    assert len(outcome.changed) == 1
    told = [each.message for each in outcome.findings if each.code == "AMP504"]
    assert [each.startswith(TOLD) for each in told] == [True] * is_told


KERNELS = """\
from torch.autograd import Function
from torch.utils.cpp_extension import load

kernels = load("kernels", sources=["kernels.cu"])


class Act(Function):
    @staticmethod
    def forward(ctx, x, bias):
        return kernels.act(x, bias)
"""


@pytest.mark.parametrize("base", ["Function", "object"])
def test_a_step_stays_whose_kernels_nobody_has_seen_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, base: str
) -> None:
    monkeypatch.setattr("amp_migrate.flow.analysis._STATEMENTS", 20)
    library = "import kernels\n\nkernels.Act\n\n\n"
    library += "".join(f"def step_{n}(x):\n    return step_{n + 1}(x)\n\n\n" for n in range(300))
    (tmp_path / "library.py").write_text(library + "def step_300(x):\n    return kernels.act(x)\n\n\nfirst = step_0\n")
    (tmp_path / "kernels.py").write_text(KERNELS.replace("Act(Function)", f"Act({base})"))
    (tmp_path / "train.py").write_text(SCRIPT.format(before="", out="first(model(x.cuda()))"))
    outcome = migrate([tmp_path], Settings())
    is_told = [each.message.startswith(TOLD) for each in outcome.findings if each.code == "AMP504"]
    left = [each.message for each in outcome.findings if "kernels.py compiles may take one type" in each.message]
    assert (len(outcome.changed), len(is_told), len(left)) == ((0, 0, 1) if base == "Function" else (1, 1, 0))
