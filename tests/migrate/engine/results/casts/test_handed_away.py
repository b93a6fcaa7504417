"""A function that goes to code which is not read: it may run there, in the region that is around, or later."""

from __future__ import annotations

import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.settings import Settings

TEXT = """\
import torch
from elsewhere import Graph, update
from torch import nn


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 8))

    def forward(self, graph, x):
        weight = torch.matmul(self.weight, self.weight)

        def message(edges):
            return torch.mm(edges.source, weight)

        {inside}


layer = Layer().cuda()
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
criterion = nn.MSELoss()
for graph, x, y in Graph.load():
    optimizer.zero_grad()
    out = layer(graph, x)
    loss = criterion(out, y)
    {behind}
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("inside", "behind", "is_cast"),
    [
        ("return graph.update(message, x)", "pass", False),
        ("return update(graph, message, x)", "pass", False),
        ("graph.message = message\n        return x @ weight", "graph.update(graph.message)", True),
    ],
)
def test_it_runs_in_the_region_that_it_is_handed_on_in(inside: str, behind: str, is_cast: bool) -> None:
    plan = migrate_text(TEXT.format(inside=inside, behind=behind), Settings())
    assert "scaler.step(optimizer)" in plan.after
    assert ("torch.mm(edges.source, weight.float())" in plan.after) is is_cast
