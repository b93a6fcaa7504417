"""PyTorch's optimizer that keeps a part of its state in each process is an optimizer as others are."""

from __future__ import annotations

import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.settings import Dtype, Settings

TEXT = """\
import torch
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

model = DistributedDataParallel(nn.Linear(8, 4).cuda())
optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.Adam, MORE)
for x, y in loader:
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize("more", ["lr=0.1", "overlap_with_ddp=False"])
def test_its_step_moves_with_nothing_to_be_told(more: str) -> None:
    plan = migrate_text(TEXT.replace("MORE", more), Settings())
    assert [each.code for each in plan.findings] == ["AMP501"]
    assert "scaler.step(optimizer)" in plan.after


def test_what_it_never_clears_adds_up() -> None:
    text = TEXT.replace("    optimizer.zero_grad()\n", "").replace("MORE", "lr=0.1")
    assert ["never cleared" in each.message for each in migrate_text(text, Settings()).findings] == [True]


@pytest.mark.parametrize("more", ["overlap_with_ddp=True", "overlap_with_ddp=config.overlaps"])
def test_one_that_steps_in_the_backward_pass_has_no_scaler(more: str) -> None:
    text = TEXT.replace("MORE", more)
    assert ["overlap_with_ddp" in each.message for each in migrate_text(text, Settings()).findings] == [True]
    assert [each.code for each in migrate_text(text, Settings(dtype=Dtype.BF16)).findings] == ["AMP501"]
