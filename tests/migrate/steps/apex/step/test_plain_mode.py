"""A mode of a script without Apex, chosen by a constant: what reads gradients there reads true ones."""

from __future__ import annotations

import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.settings import Settings

TEXT = """\
import torch
from apex import amp
from torch import nn

OLD = False


class Clipper:
    def step(self, parameters):
        grads = [p.grad for p in parameters if p.grad is not None]
        total = torch.norm(torch.stack([g.norm() for g in grads])).item()
        if total > 1.0:
            for g in grads:
                g.mul_(1.0 / total)


def main():
    model = nn.Linear(4, 2).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    if not OLD:
        model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
    clipper = Clipper()
    for step in range(10):
        loss = model(torch.randn(8, 4).cuda()).sum()
        if not OLD:
            with amp.scale_loss(loss, optimizer) as scaled_loss:
                scaled_loss.backward()
        if OLD:
            loss.backward()
            clipper.step(model.parameters())
        if step % 2:
            optimizer.step()
            optimizer.zero_grad()


main()
"""
INITIALIZED = "    if not OLD:\n        model, optimizer"


def test_what_only_reads_gradients_in_the_mode_without_a_scale_is_left_as_it_is() -> None:
    plan = migrate_text(TEXT, Settings())
    assert 'scaler = torch.amp.GradScaler("cuda", enabled=amp_enabled)' in plan.after
    assert "        if OLD:\n            scaler.scale(loss).backward()\n            clipper.step(" in plan.after
    again = migrate_text(plan.after, Settings())
    assert (again.after, again.findings) == (plan.after, ())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (INITIALIZED, "    if True:\n        model, optimizer"),  # it scales in both modes
        ("        if OLD:\n", "        if step:\n"),
        ("    clipper = Clipper()\n", "    clipper = Clipper()\n    global OLD\n    OLD = True\n"),
        ("        if OLD:\n            loss.backward()\n", "        if True:\n"),
        ("\n\nmain()\n", "    clipper.step(model.parameters())\n\n\nmain()\n"),  # in the other mode, too
        ("\n\nmain()\n", "    go(clipper, model)\n\n\ndef go(it, net):\n    it.step(net.parameters())\n\n\nmain()\n"),
    ],
)
def test_where_the_scale_may_be_in_them_the_step_stays(old: str, new: str) -> None:
    assert old in TEXT
    plan = migrate_text(TEXT.replace(old, new), Settings())
    assert "GradScaler" not in plan.after
    assert "AMP290" in {each.code for each in plan.findings}
