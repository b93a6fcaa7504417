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
        self.weight, self.scale = nn.Parameter(torch.randn(8, 8)), nn.Parameter(torch.randn(8, 8))

    def forward(self, graph, x):
        weight = torch.matmul(self.weight, self.scale)

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


EVALUATOR = """\
import torch
from {package} import Engine
from torch import nn

model = nn.Linear(8, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
    loss.backward()
    optimizer.step()


def judge(engine, batch):
    with torch.no_grad():
        out = model(batch[0].cuda())
    {gives}


{used}
"""
FOREIGN = "code that could not be read gets a half-precision value: evaluators.Engine"


@pytest.mark.parametrize(
    ("gives", "after"),
    [
        ("return out", "return out.float()"),
        ("return out.view(-1, 2), batch[1]", "return out.float().view(-1, 2), batch[1]"),
        ("return {'guess': out, 'y': [batch[1]]}", "return {'guess': out.float(), 'y': [batch[1]]}"),
        ("return out.softmax(1)", "return out.float().softmax(1)"),
        ("return out.argmax(1)", "return out.argmax(1)"),
        ("return len(out)", "return len(out)"),
    ],
)
def test_what_it_gives_to_code_that_is_not_read_is_float32(gives: str, after: str) -> None:
    text = EVALUATOR.format(package="evaluators", gives=gives, used="Engine(judge).run(loader)")
    plan = migrate_text(text, Settings())
    assert plan.after.count("autocast(") == 2
    assert f"    {after}\n" in plan.after
    assert [each.code for each in plan.findings] == ["AMP501"]


def test_what_it_gives_is_told_where_no_cast_can_be_seen() -> None:
    text = EVALUATOR.format(
        package="evaluators", gives="kept = [out]\n    return kept", used="Engine(judge).run(loader)"
    )
    told = [each.message for each in migrate_text(text, Settings()).findings if each.code == "AMP504"]
    assert told == [FOREIGN]


@pytest.mark.parametrize(("package", "used"), [("accelerate", "Engine(judge)"), ("evaluators", "judge(None, batch)")])
def test_what_it_gives_to_code_that_takes_half_precision_or_is_read_is_as_it_was(package: str, used: str) -> None:
    plan = migrate_text(EVALUATOR.format(package=package, gives="return out", used=used), Settings())
    assert "    return out\n" in plan.after
