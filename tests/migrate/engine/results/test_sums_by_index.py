"""Sums by index, as over the neighbours in a graph, add term by term: a count in float16 ends at 2048."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from amp_migrate.engine.migrate import migrate, migrate_text
from amp_migrate.settings import Settings

ONE_BY_ONE = "terms are added up one by one, each sum rounded: a count ends at 2048 in float16, at 256 in bfloat16"
SCRIPT = """\
import torch
from torch import nn


class Gathering(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 8)

    def forward(self, x, at):
        x = self.body(x)
        {gathered}
        return found / 2


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = Gathering(), Gathering()

    def forward(self, x, at):
        return self.two(self.one(x, at), at)


net = Net().cuda()
optimizer = torch.optim.Adam(net.parameters())
for x, at in loader:
    optimizer.zero_grad()
    loss = net(x.cuda(), at.cuda()).pow(2).mean()
    loss.backward()
    optimizer.step()
"""


def migrated(gathered: str) -> tuple[str, list[str]]:
    plan = migrate_text(SCRIPT.format(gathered=gathered), Settings())
    assert "GradScaler" in plan.after
    found = (each.message for each in plan.findings if each.message.endswith(ONE_BY_ONE))
    return plan.after, [each.partition(": ")[0] for each in found]


def test_a_count_ends_at_2048() -> None:
    terms, at = torch.ones(3000, dtype=torch.float16), torch.zeros(3000, dtype=torch.long)
    assert torch.zeros(1, dtype=torch.float16).index_add_(0, at, terms).item() == 2048


@pytest.mark.parametrize(
    ("gathered", "kept"),
    [
        ("found = x.new_zeros(9, 8).index_add_(0, at, x)", "x.float().new_zeros(9, 8).index_add_(0, at, x.float())"),
        (
            "found = torch.zeros_like(x).scatter_add_(0, at, x[at])",
            "torch.zeros_like(x.float()).scatter_add_(0, at, x[at].float())",
        ),
        ("found = torch.index_add(x, 0, at, x[at])", "torch.index_add(x.float(), 0, at, x[at].float())"),
    ],
)
def test_a_sum_that_a_statement_begins_is_float32(gathered: str, kept: str) -> None:
    after, told = migrated(gathered)
    off = 'with torch.amp.autocast(device_type="cuda", enabled=False):'
    assert f"        {off}\n            found = {kept}\n" in after
    assert told == ["kept in float32"]


@pytest.mark.parametrize(
    ("begun", "added", "kept"),
    [
        ("x.new_zeros(9, 8)", "index_add_(0, at, x)", "x.float().new_zeros(9, 8)"),
        ("torch.zeros_like(x)", "index_put_((at,), x, accumulate=True)", "torch.zeros_like(x.float())"),
        ("torch.zeros_like(x)", "scatter_reduce_(0, at, x, reduce='mean')", "torch.zeros_like(x.float())"),
        ("torch.full_like(x, 1)", "index_add_(0, at, x.float().to(x.dtype))", "torch.full_like(x.float(), 1)"),
    ],
)
def test_a_sum_in_what_has_a_name_is_float32(begun: str, added: str, kept: str) -> None:
    after, told = migrated(f"found = {begun}\n        found.{added}")
    assert f"        found = {kept}\n" in after
    assert told == []


@pytest.mark.parametrize(
    "gathered",
    [
        "found = x * 0\n        found.index_add_(0, at, x)",
        "found = other = torch.zeros_like(x)\n        found.index_add_(0, at, x)",
        "found = torch.zeros_like(x)\n        found = found + x\n        found.index_add_(0, at, x)",
        "self.sum = torch.zeros_like(x)\n        found = self.sum\n        found.index_add_(0, at, x)",
    ],
)
def test_a_sum_in_what_is_made_in_another_way_is_told(gathered: str) -> None:
    after, told = migrated(gathered)
    assert told == ["may overflow, or round, in half precision"]
    assert "x.float()" not in after


def test_a_sum_in_a_file_of_its_own_is_told_beside_why_it_is_cast(tmp_path: Path) -> None:
    gathered = "found = x * 0\n        found.index_add_(0, at[0], at[1].rsqrt().unsqueeze(1) * x)"
    layer, mark, script = SCRIPT.format(gathered=gathered).partition("net = Net()")
    (tmp_path / "layer.py").write_text(layer)
    (tmp_path / "train.py").write_text(f"import torch\nfrom layer import Net\n\n{mark}{script}")
    outcome = migrate([tmp_path], Settings())
    after = {each.source.path.name: each.after for each in outcome.plans}
    assert "* x).to(found.dtype))" in after["layer.py"]
    assert [each.message for each in outcome.findings if each.path.endswith("layer.py")] == [
        f"may overflow, or round, in half precision: {ONE_BY_ONE}",
        "takes the precision of what a region of another file computes",
    ]


@pytest.mark.parametrize(
    "gathered",
    [
        "found = x.new_zeros(9, 8).index_copy_(0, at, x)",
        "found = torch.zeros_like(x)\n        found.index_put_((at,), x)",
        "found = torch.zeros_like(x)\n        found.scatter_reduce_(0, at, x, reduce='amax')",
        "found = torch.zeros(9, 8, device=x.device).index_add_(0, at, x.float())",
        "found = x.float().new_zeros(9, 8).index_add_(0, at, x.float())",
    ],
)
def test_what_adds_nothing_or_adds_in_float32_is_not_told(gathered: str) -> None:
    assert migrated(gathered)[1] == []
