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
act = nn.Sigmoid()


def run(x):
    return head(model(x))


def right(p):
    return (torch.round(p) == 1).float().mean()


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
        (
            "q = out[:, 0].detach().cpu()\nprint(q.log_softmax(0))",
            "q = out[:, 0].detach().cpu()\nprint(q.float().log_softmax(0))",
        ),
        (
            "q = out.cpu()\nkept = kept + nn.CrossEntropyLoss()(q, y)",
            "q = out.cpu()\nkept = kept + nn.CrossEntropyLoss()(q.float(), y)",
        ),
        ("q = out * 2\nprint(q.log_softmax(0))", "q = out * 2\nprint(q.float().log_softmax(0))"),
        ("print(out.log_softmax(1)[0])", "print(out.float().log_softmax(1)[0])"),
        ("kept += torch.sigmoid(out[:, 0]).tolist()", "kept += torch.sigmoid(out[:, 0].float()).tolist()"),
        ("print(out.tanh().argsort())", "print(out.float().tanh().argsort())"),
        ("print(act(out).argsort())", "print(act(out.float()).argsort())"),
        ("kept.append(nn.Tanh()(out))\nprint(kept)", "kept.append(nn.Tanh()(out.float()))\nprint(kept)"),
        ("p = out.sigmoid()\nprint(p > 0.5, [p])", "p = out.float().sigmoid()\nprint(p > 0.5, [p])"),
        # On which side of a limit they are half precision tells, too.
        ("print((torch.sigmoid(out) > 0.5).sum())", "print((torch.sigmoid(out) > 0.5).sum())"),
        ("print(torch.sigmoid(out).round())", "print(torch.sigmoid(out).round())"),
        ("p = out.sigmoid().cpu()\nprint(p.shape, right(p))", "p = out.sigmoid().cpu()\nprint(p.shape, right(p))"),
        ("print(out.sigmoid_())", "print(out.sigmoid_())"),  # which changes what others may have
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


APEX = """\
from apex import amp

model, optimizer = amp.initialize(model, optimizer, opt_level="O1" if fast else "O0")
"""


def test_what_a_switch_makes_low_is_float32_on_the_cpu() -> None:
    lines = indent("print(out.cpu().mean(0))", " " * 8)
    text = TRAINING.format(model="run") + EVALUATION.format(model="run", lines=lines)
    scaled = "    with amp.scale_loss(loss, optimizer) as scaled:\n        scaled.backward()"
    text = text.replace("    loss.backward()", scaled).replace("store, kept", f"{APEX}store, kept")
    plan = migrate_text(text, Settings())
    assert "enabled=" in plan.after
    assert "print(out.float().cpu().mean(0))" in plan.after


def test_outputs_of_a_script_that_trains_nothing_are_float32() -> None:
    text = (
        "import torch\nfrom apex import amp\n\nmodel = torch.nn.Linear(9, 3).cuda()\n"
        "model = amp.initialize(model, None, opt_level='O1')\n"
        "for x in loader:\n    out = model(x.cuda())\n    print(out.softmax(1).tolist())\n"
    )
    plan = migrate_text(text, Settings())
    assert "        out = model(x.cuda())\n    print(out.float().softmax(1).tolist())\n" in plan.after
