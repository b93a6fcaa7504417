"""A package whose older releases have no kernels for half precision: what it computes in a region raises there."""

from __future__ import annotations

from pathlib import Path

import pytest
from amp_migrate.cli import command
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.report.finding import Kind
from amp_migrate.settings import Settings
from click.testing import CliRunner

TEXT = """\
import dgl
import dgl.function as fn
import torch
from dgl.nn import GraphConv
from torch import nn


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.conv = GraphConv(4, 4)

    def forward(self, graph, x):
        with graph.local_scope():
            graph.ndata["h"] = self.fc(x)
            {computed}
            return graph.ndata["h"]


layer = Layer().cuda()
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for graph, x in loader:
    loss = layer(graph.to("cuda"), x.cuda()).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
MESSAGES = 'graph.update_all(fn.copy_u("h", "m"), fn.sum("m", "h"))'
WHY = "dgl has no kernels for half precision before its 0.9"


@pytest.mark.parametrize("computed", [MESSAGES, "return self.conv(graph, graph.ndata['h'])"])
@pytest.mark.parametrize(
    ("versions", "told"),
    [
        (None, [Kind.NOTE]),
        (((0, 6), None), [Kind.NOTE]),
        (((0, 6), (0, 6)), [Kind.LEFT]),
        ((None, (0, 8)), [Kind.LEFT]),
        (((0, 9), None), []),
    ],
)
def test_what_is_asked_for_tells_whether_it_has_them(
    computed: str, versions: tuple[tuple[int, int] | None, tuple[int, int] | None] | None, told: list[Kind]
) -> None:
    settings = Settings(packages={} if versions is None else {"dgl": versions})
    plan = migrate_text(TEXT.format(computed=computed), settings)
    assert [each.kind for each in plan.findings if WHY in each.message] == told
    assert plan.changed is (Kind.LEFT not in told)


def test_what_only_asks_a_graph_computes_by_no_kernels() -> None:
    plan = migrate_text(TEXT.format(computed="print(graph.num_nodes(), fn.copy_u('h', 'm'))"), Settings())
    assert not [each for each in plan.findings if "half precision before" in each.message]


def test_the_requirements_say_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.py").write_text(TEXT.format(computed=MESSAGES))
    (tmp_path / "requirements.txt").write_text("dgl==0.6.1\n")
    monkeypatch.chdir(tmp_path)
    output = CliRunner().invoke(command, ["--check", "."]).output
    assert f"left as it was: {WHY}" in output
