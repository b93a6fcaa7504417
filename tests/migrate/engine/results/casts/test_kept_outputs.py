"""What an evaluation makes of outputs behind its region, or keeps of them, is float32 as before."""

from __future__ import annotations

from textwrap import indent

import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.settings import Settings

TRAINING = """\
import h5py
import torch
import torchvision
from torch import nn

model, head = torchvision.models.resnet18().cuda(), nn.Linear(1000, 3).cuda()
optimizer = torch.optim.Adam(model.parameters())
store, kept, soft = h5py.File("outputs.h5", "w"), [], nn.Softmax(dim=1)


def run(x):
    return head(model(x))


for x, y in loader:
    x, y = x.cuda(), y.cuda()
    loss = nn.functional.cross_entropy({model}(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
EVALUATION = """\
with torch.no_grad():
    for i, (x, y) in enumerate(loader):
        x = x.cuda()
        out = {model}(x)
        print(out.shape)
{lines}
"""


@pytest.mark.parametrize("model", ["model", "run"])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("print(torch.softmax(out, dim=1).max())", "print(torch.softmax(out.float(), dim=1).max())"),
        ("print(out.log_softmax(1)[0])", "print(out.float().log_softmax(1)[0])"),
        ("print(out.argmax(1))", "print(out.argmax(1))"),
        ("store[str(i)] = out.cpu().numpy()", "store[str(i)] = out.float().cpu().numpy()"),
        ("store[str(i)] = out.argmax(1).cpu().numpy()", "store[str(i)] = out.argmax(1).cpu().numpy()"),
        ("torch.save(out, f'{i}.pt')", "torch.save(out.float(), f'{i}.pt')"),
        (
            "kept.append(out.cpu())\ntorch.save(kept, 'all.pt')",
            "kept.append(out.float().cpu())\ntorch.save(kept, 'all.pt')",
        ),
        ("kept.append(out.cpu())\nprint(len(kept))", "kept.append(out.cpu())\nprint(len(kept))"),
    ],
)
def test_outputs_behind_the_region_of_an_evaluation(before: str, after: str, model: str) -> None:
    text = TRAINING.format(model=model) + EVALUATION.format(model=model, lines=indent(before, " " * 8))
    plan = migrate_text(text, Settings())
    assert plan.after.count("autocast(") == 2
    assert plan.after.endswith(f"print(out.shape)\n{indent(after, ' ' * 8)}\n")
    assert [each.code for each in plan.findings] == ["AMP501"]


def test_a_softmax_in_a_region_gives_float32_whoever_computes_the_logits() -> None:
    lines = indent("p = soft(out)\nprint((p * p.log()).sum())", " " * 8)
    text = TRAINING.format(model="model") + EVALUATION.format(model="model", lines=lines).replace(
        "        print(out.shape)\n", ""
    )
    plan = migrate_text(text, Settings())
    assert lines.splitlines()[1] in plan.after
    assert [each.code for each in plan.findings] == ["AMP501"]
