"""What is found in a script is found once, however many scripts are planned beside it, and however often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from amp_migrate.engine.migrate import migrate
from amp_migrate.engine.parts.work import Work, done, since
from amp_migrate.flow.files import Files
from amp_migrate.flow.questions import Questions
from amp_migrate.prove import precision
from amp_migrate.settings import Settings

NET = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.first, self.second = nn.Linear(size, 8), nn.Linear(8, 2)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


def gram(x):
    f = x.flatten(1)
    return f @ f.transpose(0, 1)
"""
SCRIPT = """
import torch
from parts.net import Net, gram

model = Net({0} + 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in range(9):
    out = model(torch.ones(4, {0} + 1).cuda())
    loss = (gram(out) - 1).pow(2).mean()
{1}    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
REFUSING = "    if out.dtype != torch.float32:\n        raise TypeError(out.dtype)\n"
IN_AMP = """
import torch

model = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.cuda.amp.GradScaler()
for x in range(9):
    optimizer.zero_grad()
    with torch.cuda.amp.autocast():
        loss = model(torch.ones(2, 4).cuda()).mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    if x == 5:
        scaler.step(optimizer)
"""


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Counter[str], int]]:
    """How often files are interpreted, and how many lines are parsed for it, in a tree of so many scripts.

    All use one loss, of which a first plan shows that it has to be float32. Of one more script it shows that its step
    has to be left, so that everything is planned again.
    """

    def run(scripts: int, shared: str = "", other: str = "") -> tuple[Counter[str], int]:
        root = tmp_path / f"{scripts}-{len(shared)}"
        (root / "parts").mkdir(parents=True)
        (root / "parts" / "net.py").write_text(NET + shared)
        (root / "refusing.py").write_text(SCRIPT.format(0, REFUSING))
        (root / "other.py").write_text(other)
        for number in range(scripts):
            (root / f"train_{number}.py").write_text(SCRIPT.format(number, ""))
        interpreted: Counter[str] = Counter()

        def counting(files: Files, scripts: Sequence[str], *, as_written: bool) -> Questions:
            interpreted[Path(scripts[0]).name] += 1
            return read(files, scripts, as_written=as_written)

        before, read = done(), precision._read
        with monkeypatch.context() as patch:
            patch.setattr(precision, "_read", counting)
            outcome = migrate([root], Settings())
        changed = {each.source.path.name for each in outcome.changed} - {"other.py"}
        assert changed == {"net.py", *(f"train_{number}.py" for number in range(scripts))}
        return interpreted, since(before)[Work.AST]

    return run


def test_a_script_is_interpreted_once_with_each_text_of_what_it_imports(
    work: Callable[..., tuple[Counter[str], int]],
) -> None:
    for scripts in (1, 4):
        interpreted, _ = work(scripts)
        assert set(interpreted.values()) == {2}  # with the loss as it was, and in float32


def test_a_script_without_amp_is_not_interpreted_as_it_was_for_one_that_has_it(
    work: Callable[..., tuple[Counter[str], int]],
) -> None:
    interpreted, _ = work(2, other=IN_AMP)
    assert interpreted["train_0.py"] == interpreted["train_1.py"] == 2


def test_what_scripts_share_is_parsed_as_often_for_many_as_for_one(
    work: Callable[..., tuple[Counter[str], int]],
) -> None:
    idle = "".join(f"\n\ndef idle_{number}(x):\n    return x + {number}\n" for number in range(50))
    small, large = ({scripts: work(scripts, shared)[1] for scripts in (1, 4)} for shared in ("", idle))
    assert large[4] - large[1] == small[4] - small[1]
