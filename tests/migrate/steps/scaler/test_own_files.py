"""A scaler whose optimizer has a file of its own is saved beside it, and restored where that file is there."""

from __future__ import annotations

import re

import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.settings import Dtype, Settings

TEXT = """\
import torch
from torch import nn


class Agent:
    def __init__(self):
        self.critic, self.actor = nn.Linear(6, 1).cuda(), nn.Linear(6, 2).cuda()
        self.critic_optimizer = torch.optim.Adam(self.critic.parameters())
        self.actor_optimizer = torch.optim.Adam(self.actor.parameters())

    def learn(self, batches):
        for x, y, z in batches:
            loss = nn.functional.mse_loss(self.critic(x.cuda()), y.cuda())
            self.critic_optimizer.zero_grad()
            loss.backward()
            self.critic_optimizer.step()
            loss = nn.functional.mse_loss(self.actor(x.cuda()), z.cuda())
            self.actor_optimizer.zero_grad()
            loss.backward()
            self.actor_optimizer.step()

    def keep(self, name):
        torch.save(self.critic_optimizer.state_dict(), name + "_critic_optimizer")
        torch.save(self.actor_optimizer.state_dict(), name + "_actor_optimizer")

    def go_on(self, name):
        self.critic_optimizer.load_state_dict(torch.load(name + "_critic_optimizer"))
        self.actor_optimizer.load_state_dict(torch.load(name + "_actor_optimizer", map_location="cpu"))
"""
SAVED = """\
        if self.scaler.is_enabled():
            torch.save(self.scaler.state_dict(), {path})
"""
RESTORED = """\
        if os.path.exists({path}):
            self.scaler.load_state_dict(torch.load({path}, map_location="cpu"))
"""


def test_what_two_optimizers_share_is_saved_and_restored_once_behind_the_last() -> None:
    plan = migrate_text(TEXT, Settings())
    path = 'name + "_actor_scaler"'
    assert f'name + "_actor_optimizer")\n{SAVED.format(path=path)}\n    def' in plan.after
    assert plan.after.endswith(f'map_location="cpu"))\n{RESTORED.format(path=path)}')
    assert plan.after.startswith("import os\n")
    assert {each.code for each in plan.findings} == {"AMP501"}
    assert migrate_text(plan.after, Settings()).after == plan.after
    assert "scaler" not in migrate_text(TEXT, Settings(Dtype.BF16)).after


@pytest.mark.parametrize(
    ("path", "other"),
    [
        ('f"{name}/optim_1.pt"', 'f"{name}/scaler_1.pt"'),
        ('"%s.opt" % name', '"%s.scaler" % name'),
        ('name / "optimizer.pth"', 'name / "scaler.pth"'),
        ("os.path.join(name, 'best', 'optimizer')", "os.path.join(name, 'best', 'scaler')"),
    ],
)
def test_the_file_is_called_as_that_of_the_optimizer(path: str, other: str) -> None:
    text = TEXT.replace('name + "_actor_optimizer"', path)
    after = migrate_text(text.replace("import torch\n", "import os\nimport torch\n", 1), Settings()).after
    assert SAVED.format(path=other) in after
    assert RESTORED.format(path=other) in after


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (r'name \+ "_\w+_optimizer"', "name.with_suffix('.optimizer')"),
        (r'name \+ "_\w+_optimizer"', "self.path_of(name)"),
        (r'_optimizer"', '_adopted"'),  # nothing says which part of it is the optimizer's
        ("import torch\n", 'import torch\nTAKEN = \'_actor_scaler\', "_actor_scaler", "_critic_scaler"\n'),
    ],
)
def test_where_it_has_no_name_of_its_own_it_is_told(old: str, new: str) -> None:
    plan = migrate_text(re.sub(old, new, TEXT), Settings())
    assert "scaler.step(" in plan.after
    assert "scaler.state_dict()" not in plan.after
    assert "AMP611" in {each.code for each in plan.findings}


_RESUMED = """\
import os
import torch
from apex import amp

model = torch.nn.Linear(3, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{first}
{then}
for x, y in loader:
    optimizer.zero_grad()
    with amp.scale_loss((model(x) - y).square().mean(), optimizer) as scaled_loss:
        scaled_loss.backward()
    optimizer.step()
torch.save(optimizer.state_dict(), os.path.join(out, "optimizer.pt"))
"""
_LOADS = 'optimizer.load_state_dict(torch.load(os.path.join(start, "optimizer.pt")))'
_INITIALIZES = 'model, optimizer = amp.initialize(model, optimizer, opt_level="O1")'


def test_where_the_optimizer_is_restored_before_the_scaler_is_made_it_is_told() -> None:
    plan = migrate_text(_RESUMED.format(first=_LOADS, then=_INITIALIZES), Settings())
    assert "torch.save(scaler.state_dict()" in plan.after
    assert "scaler.load_state_dict(" not in plan.after
    assert [each.line for each in plan.findings if each.code == "AMP611"] == [7]
    plan = migrate_text(_RESUMED.format(first=_INITIALIZES, then=_LOADS), Settings())
    assert "scaler.load_state_dict(" in plan.after
    assert "AMP611" not in {each.code for each in plan.findings}
