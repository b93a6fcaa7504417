"""A loss that autocast refuses is found in whatever way a module of modules got it and gives it back."""

from __future__ import annotations

from pathlib import Path

import pytest
from amp_migrate.engine.migrate import migrate, migrate_text
from amp_migrate.settings import Settings

LAYER = """\
import torch
from torch import nn


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.loss = nn.BCELoss()

    def forward(self, x, y):
        return self.loss(torch.sigmoid(self.layer(x)), y)


class Net(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.heads = nn.KIND()
        for i in range(count):
            self.heads.add_module(f"head{i}", Head())

    def forward(self, x, y):
        ASKED
"""
STEP = """\
model = Net(3).cuda()
optimizer = torch.optim.Adam(model.parameters())
for x, y in loader:
    optimizer.zero_grad()
    loss = model(x.cuda(), y.cuda())
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("kind", "asked"),
    [
        ("Sequential", "return self.heads[0](x, y)"),
        ("Sequential", "return self.heads[-1](x, y)"),
        ("Sequential", "return sum(head(x, y) for head in self.heads)"),
        ("Sequential", "return list(self.heads)[1](x, y)"),
        ("ModuleList", "return self.heads[0](x, y)"),
        ("ModuleDict", "return self.heads['head1'](x, y)"),
    ],
)
def test_a_layer_that_was_added_by_a_made_name(tmp_path: Path, kind: str, asked: str) -> None:
    text = LAYER.replace("KIND", kind).replace("ASKED", asked)
    in_one_file = migrate_text(f"{text}\n\n{STEP}", Settings())
    assert "enabled=False" in in_one_file.after
    assert {each.code for each in in_one_file.findings} == {"AMP501", "AMP504"}
    (tmp_path / "layers.py").write_text(text, encoding="utf-8")
    (tmp_path / "train.py").write_text(f"import torch\n\nfrom layers import Net\n\n{STEP}", encoding="utf-8")
    assert any("enabled=False" in plan.after for plan in migrate([tmp_path], Settings()).changed)


def test_one_of_the_layers_that_a_module_got_by_made_names() -> None:
    text = LAYER.replace("self.heads = nn.KIND()\n        ", "").replace("self.heads.add", "self.add")
    text = text.replace("ASKED", 'return sum(self.__getattr__(f"head{i}")(x, y) for i in range(3))')
    assert "enabled=False" in migrate_text(f"{text}\n\n{STEP}", Settings()).after


def test_those_it_was_made_with_come_first() -> None:
    made = "nn.Sequential(nn.Linear(8, 8))"
    text = LAYER.replace("nn.KIND()", made).replace("ASKED", "return self.heads[0](x).mean()")
    assert {each.code for each in migrate_text(f"{text}\n\n{STEP}", Settings()).findings} == {"AMP501"}
