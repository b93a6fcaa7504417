"""A batch that nobody reads may hold what a script has moved to a GPU: its loss is not for certain on the CPU."""

from __future__ import annotations

import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.settings import Settings

TEXT = """\
import torch
from elsewhere import Net, Rows
from torch.utils.data import DataLoader


def on_gpu(x):
    if torch.cuda.is_available():
        x = x.cuda()
    return x


model = Net()
if torch.cuda.is_available():
    model = model.cuda()
optimizer = torch.optim.Adam(model.parameters())
nll = torch.nn.NLLLoss(reduction="sum")
for batch in DataLoader(Rows("x"), batch_size=4):
    for key, value in batch.items():
        if torch.is_tensor(value):
            {moved}
    logp, mean = model(batch["input"].cuda(), batch["length"])
    target = batch["target"][:, : torch.max(batch["length"]).item()].contiguous().view(-1)
    loss = (nll(logp.view(-1, logp.size(2)), target) + mean.pow(2).sum()) / 4
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("moved", "is_told"), [("batch[key] = on_gpu(value)", False), ("on_gpu(value)", True), ("batch[key] = 1", True)]
)
def test_what_is_put_into_a_batch(moved: str, is_told: bool) -> None:
    plan = migrate_text(TEXT.format(moved=moved), Settings())
    assert "scaler.step(optimizer)" in plan.after
    assert any("a loss is scaled on the CPU" in each.message for each in plan.findings) is is_told


HELD = """\
import torch
from elsewhere import Net
from torch import nn
from torch.utils.data import DataLoader

device = torch.device(input())


class Rows:
    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index], 1


def together(rows):
    return [torch.stack(each).to(device) for each in zip(*rows)]


model = Net()
if torch.cuda.is_available():
    model = model.cuda()
optimizer = torch.optim.Adam(model.parameters())
xs = [torch.zeros(8){moved} for _ in range(8)]
for x, y in DataLoader({data}, batch_size=2):
    loss = nn.CrossEntropyLoss()(model(x).view(-1, 3), y.view(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("moved", "data", "is_told"),
    [
        (".to(device)", "list(zip(xs, xs))", False),
        ("", "list(zip(xs, xs))", True),
        (".to(device)", "Rows(xs)", False),
        ("", "Rows(xs)", True),
        ("", "list(zip(xs, xs)), collate_fn=together", False),
    ],
)
def test_what_a_loader_gives_is_where_its_data_holds_it_or_is_brought(moved: str, data: str, is_told: bool) -> None:
    plan = migrate_text(HELD.format(moved=moved, data=data), Settings())
    assert "scaler.step(optimizer)" in plan.after
    assert any("a loss is scaled on the CPU" in each.message for each in plan.findings) is is_told
