"""Questions that are answered at once, and what looks at the results of several scripts so."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest
from amp_migrate.engine.migrate import migrate_workspace
from amp_migrate.engine.parts import work
from amp_migrate.engine.parts.at_once import at_once
from amp_migrate.engine.results.examined import Examined
from amp_migrate.engine.workspace import Workspace
from amp_migrate.flow.questions import Questions
from amp_migrate.prove import precision
from amp_migrate.prove.precision import Found, Measured
from amp_migrate.settings import Settings
from amp_migrate.tables.signatures import Version, Versions

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing is forked")

STEP = """
import torch
from torch import nn
from {loss} import loss_of

model = nn.Linear(8, 8).cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for x in [torch.randn(4, 8)] * 8:
    loss = loss_of(model(x.cuda()))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
LOSSES = {
    "sums": "def loss_of(y):\n    return (y @ y.t()).sum()\n",
    "means": "def loss_of(y):\n    return y.float().square().mean()\n",
}
# The model is made by whoever calls it.
TRAINER = """
def fit(model, optimizer, xs):
    for x in xs:
        loss = model(x.cuda()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
CALLER = """
import torch
from torch import nn
from trainer import fit

model = nn.Sequential(nn.Linear(8, 8), {last}).cuda()
fit(model, torch.optim.Adam(model.parameters()), [torch.randn(4, 8)] * 8)
"""


def write(folder: Path) -> None:
    for name, text in LOSSES.items():
        (folder / f"{name}.py").write_text(text)
    for number, loss in enumerate(("sums", "means", "sums")):
        (folder / f"train{number}.py").write_text(STEP.format(loss=loss))
    (folder / "trainer.py").write_text(TRAINER)
    for number, last in enumerate(("nn.ReLU()", "nn.Softmax(-1)")):
        (folder / f"run{number}.py").write_text(CALLER.format(last=last))


def test_each_question_has_its_answer_and_what_it_did_is_counted() -> None:
    def answer(number: int) -> tuple[int, int]:
        time.sleep(0.05 * (5 - number))  # they end in another order
        work.count(work.Work.PLANS, number)
        return number, os.getpid()

    before = work.done()
    numbers, processes = zip(*at_once([partial(answer, number) for number in range(5)], 3), strict=True)
    assert numbers == (0, 1, 2, 3, 4)
    assert len({*processes, os.getpid()}) == 6
    assert work.since(before)[work.Work.PLANS] == 10


def test_what_fails_and_what_dies_is_left_to_who_asks() -> None:
    assert at_once([lambda: 1 / 0, lambda: os._exit(3), lambda: 7], 2) == [None, None, 7]


@pytest.mark.parametrize(("questions", "workers"), [(1, 8), (2, 1), (0, 2)])
def test_nothing_is_forked_for_nothing(questions: int, workers: int) -> None:
    assert at_once([lambda: 7] * questions, workers) == [None] * questions


def test_several_results_are_looked_at_at_once_and_say_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path)
    looked: list[str] = []
    look = precision._found

    def here(
        questions: Questions, script: str, torch: Version, measured: Measured, packages: Mapping[str, Versions]
    ) -> Found:
        looked.append(script)
        return look(questions, script, torch, measured, packages)

    monkeypatch.setattr(precision, "_found", here)
    outcomes, by_itself = [], []
    for workers in (1, 3):
        looked.clear()
        workspace, settings = Workspace.open([tmp_path]), Settings()
        examined = Examined(workspace, settings.target_torch, workers=workers)
        outcomes.append(migrate_workspace(workspace, settings, examined=examined))
        by_itself.append(len(looked))
    assert outcomes[0] == outcomes[1]
    assert len(outcomes[0].changed) == 7
    assert by_itself[0] > 5
    assert by_itself[1] == 0  # the others have looked
