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
        ('"{}/optimizer.{}".format(name, 3)', '"{}/scaler.{}".format(name, 3)'),
        ('str(name) + "_optimizer"', 'str(name) + "_scaler"'),
        ("os.path.join(name, 'best', 'optimizer')", "os.path.join(name, 'best', 'scaler')"),
    ],
)
def test_the_file_is_called_as_that_of_the_optimizer(path: str, other: str) -> None:
    text = TEXT.replace('name + "_actor_optimizer"', path)
    after = migrate_text(text.replace("import torch\n", "import os\nimport torch\n", 1), Settings()).after
    assert SAVED.format(path=other) in after
    assert RESTORED.format(path=other) in after


@pytest.mark.parametrize(
    "start",
    ["os.path.join(name, 'last', 'optimizer.pt')", '"{}/last/optimizer.pt".format(name)', 'f"{name}/optimizer.pt"'],
)
def test_it_is_the_same_file_in_whichever_words_its_path_is_written(start: str) -> None:
    text = TEXT.replace("import torch\n", "import os\nimport torch\n", 1)
    text = text.replace('load(name + "_actor_optimizer"', f"load({start}")
    text = text.replace('name + "_actor_optimizer")', 'os.path.join(name, "optimizer.pt"), pickle_protocol=4)')
    plan = migrate_text(text, Settings())
    assert SAVED.format(path='os.path.join(name, "scaler.pt"), pickle_protocol=4') in plan.after
    assert RESTORED.format(path=start.replace("optimizer", "scaler")) in plan.after
    assert "AMP611" not in {each.code for each in plan.findings}
    assert migrate_text(plan.after, Settings()).after == plan.after


def test_what_says_how_it_is_saved_is_not_asked_twice() -> None:
    text = TEXT.replace('_actor_optimizer")\n\n', '_actor_optimizer", pickle_module=self.pickler())\n\n')
    assert '"_actor_scaler"' not in migrate_text(text, Settings()).after


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


_KEPT = """\
    def keep(self, name):
        {kept}

    def go_on"""


@pytest.mark.parametrize(
    ("kept", "saved"),
    [
        ("if self.best:\n            {first}\n        elif self.last:\n            {first}", 2),
        ("{first}\n        name = str(name) + '.2'\n        {first}", 2),
        ("{first}\n        {second}", 2),
        ("if self.last:\n            {first}\n        {first}", 1),
        ("{other}\n        if self.last:\n            {first}", 2),
        ("if self.last:\n            {other}\n        {first}", 1),
    ],
)
def test_it_is_saved_wherever_its_optimizer_is(kept: str, saved: int) -> None:
    first = 'torch.save(self.actor_optimizer.state_dict(), name + "_actor_optimizer")'
    second, other = first.replace('"_actor', '"_last_actor'), first.replace("actor", "critic")
    written = _KEPT.format(kept=kept.format(first=first, second=second, other=other))
    text = re.sub(r"    def keep.*?def go_on", lambda _: written, TEXT, flags=re.DOTALL)
    assert migrate_text(text, Settings()).after.count("scaler.state_dict()") == saved


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
    loss = (model(x) - y).square().mean()
    with amp.scale_loss(loss, optimizer) as scaled_loss:
        scaled_loss.backward()
    optimizer.step()
torch.save(optimizer.state_dict(), os.path.join(out, "optimizer.pt"))
"""
_LOADS = 'optimizer.load_state_dict(torch.load(os.path.join(start, "optimizer.pt")))'
_INITIALIZES = 'model, optimizer = amp.initialize(model, optimizer, opt_level="O1")'


def test_where_the_optimizer_is_restored_before_the_scaler_is_made_that_is_restored_behind() -> None:
    plan = migrate_text(_RESUMED.format(first=_LOADS, then=_INITIALIZES), Settings())
    assert (
        'scaler = torch.amp.GradScaler("cuda")\nif os.path.exists(os.path.join(start, "scaler.pt")):\n'
        '    scaler.load_state_dict(torch.load(os.path.join(start, "scaler.pt")))\nfor x, y in loader:\n'
    ) in plan.after
    assert "AMP611" not in {each.code for each in plan.findings}
    assert migrate_text(plan.after, Settings()).after == plan.after
    plan = migrate_text(_RESUMED.format(first=_INITIALIZES, then=_LOADS), Settings())
    assert "scaler.load_state_dict(" in plan.after


_FILE = 'os.path.isfile(os.path.join(start, "optimizer.pt"))'


@pytest.mark.parametrize(
    ("test", "asked"),
    [
        (_FILE, ""),
        (f"{_FILE} and ready()", ""),
        (f"start and {_FILE}", "start and "),
        ("start is not None", "start is not None and "),
        ("(start or other)", "(start or other) and "),
        ("len(start) > 1 and os.path.isdir(start)", "len(start) > 1 and os.path.isdir(start) and "),
    ],
)
def test_it_asks_first_what_says_that_there_is_a_path(test: str, asked: str) -> None:
    loads = f"if {test}:\n    {_LOADS}"
    after = migrate_text(_RESUMED.format(first=loads, then=_INITIALIZES), Settings()).after
    assert f'\nif {asked}os.path.exists(os.path.join(start, "scaler.pt")):\n' in after


_NAMED = 'state = os.path.join(start, "optimizer.pt")\n'


@pytest.mark.parametrize(
    "loads",
    [
        f"{_NAMED}optimizer.load_state_dict(torch.load(state))",
        f"{_NAMED}if os.path.exists(state):\n    optimizer.load_state_dict(torch.load(state))",
    ],
)
@pytest.mark.parametrize("is_late", [True, False])
def test_a_path_that_has_a_name_is_written_out(loads: str, is_late: bool) -> None:
    order = (loads, _INITIALIZES) if is_late else (_INITIALIZES, loads)
    plan = migrate_text(_RESUMED.format(first=order[0], then=order[1]), Settings())
    path = 'os.path.join(start, "scaler.pt")'
    assert f"if os.path.exists({path}):" in plan.after
    assert f"scaler.load_state_dict(torch.load({path}))" in plan.after
    assert "AMP611" not in {each.code for each in plan.findings}
    assert migrate_text(plan.after, Settings()).after == plan.after


@pytest.mark.parametrize(
    "named",
    [
        f"{_NAMED}state = other or state\n",
        f"{_NAMED}start = out\n",
        f"if start:\n    {_NAMED}",
        f"for start in starts:\n    {_NAMED}",
        f"{_NAMED}for start in starts:\n    pass\n",
        "state = newest(start, 'optimizer.pt')\n",
    ],
)
def test_a_name_that_may_stand_for_another_path_is_not(named: str) -> None:
    loads = f"{named}optimizer.load_state_dict(torch.load(state))"
    plan = migrate_text(_RESUMED.format(first=_INITIALIZES, then=loads), Settings())
    assert "scaler.load_state_dict(" not in plan.after
    assert "AMP611" in {each.code for each in plan.findings}


@pytest.mark.parametrize(("again", "saved"), [("", 1), ("        out = newer\n", 0)])
def test_nor_is_one_whose_path_is_another_in_the_next_round(again: str, saved: int) -> None:
    text = _RESUMED.format(first=_INITIALIZES, then='state = os.path.join(out, "optimizer.pt")')
    text, _, _ = text.partition("torch.save(")
    kept = f"    if saves(x):\n        torch.save(optimizer.state_dict(), state)\n{again}"
    assert migrate_text(text + kept, Settings()).after.count("torch.save(scaler.state_dict()") == saved


@pytest.mark.parametrize(
    "first",
    [
        f"{_LOADS}\nstart = out",
        f"if go_on():\n    {_LOADS}",
        f"if start or other:\n    {_LOADS}",
        f"if new:\n    pass\nelif start:\n    {_LOADS}",
        f"if new:\n    pass\nelse:\n    {_LOADS}",
        f"for start in starts:\n    {_LOADS}",
    ],
)
def test_where_the_path_may_be_another_by_then_the_scaler_is_made_in_front(first: str) -> None:
    plan = migrate_text(_RESUMED.format(first=first, then=_INITIALIZES), Settings())
    assert "torch.save(scaler.state_dict()" in plan.after
    assert f'lr=0.1)\nscaler = torch.amp.GradScaler("cuda")\n{first.partition(_LOADS)[0]}{_LOADS}\n' in plan.after
    restored = plan.after[plan.after.index(_LOADS) + len(_LOADS) :].lstrip()
    assert restored.startswith('if os.path.exists(os.path.join(start, "scaler.pt")):')
    assert "AMP611" not in {each.code for each in plan.findings}
    assert migrate_text(plan.after, Settings()).after == plan.after


@pytest.mark.parametrize(
    ("first", "said"),
    [
        (f"if torch.distributed.get_rank() == 0:\n    {_LOADS}\nstart = out", '"O1"'),
        (f"{_LOADS}\nstart = out\nlevel = next(levels)", "level"),
    ],
)
def test_where_it_cannot_be_made_there_or_be_restored_it_is_told(first: str, said: str) -> None:
    then = _INITIALIZES.replace('"O1"', said)
    plan = migrate_text(_RESUMED.format(first=first, then=then), Settings())
    assert "torch.save(scaler.state_dict()" in plan.after
    assert "scaler.load_state_dict(" not in plan.after
    assert "AMP611" in {each.code for each in plan.findings}


_CHECKPOINT = """\
import os
import torch
from apex import amp

model = torch.nn.Linear(3, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
if start:
    if os.path.isfile(start):
        state = torch.load(start)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
{between}
model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
for x, y in loader:
    optimizer.zero_grad()
    loss = (model(x) - y).square().mean()
    with amp.scale_loss(loss, optimizer) as scaled_loss:
        scaled_loss.backward()
    optimizer.step()
torch.save({{"model": model.state_dict(), "optimizer": optimizer.state_dict()}}, out)
"""


def test_an_entry_of_a_checkpoint_is_restored_behind_the_making_of_its_scaler() -> None:
    plan = migrate_text(_CHECKPOINT.format(between=""), Settings())
    restored = (
        'if start and os.path.isfile(start) and state.get("scaler"):\n    scaler.load_state_dict(state["scaler"])\n'
    )
    assert f'scaler = torch.amp.GradScaler("cuda")\n{restored}for x, y in loader:\n' in plan.after
    assert '"scaler": scaler.state_dict()' in plan.after
    assert "AMP611" not in {each.code for each in plan.findings}
    assert migrate_text(plan.after, Settings()).after == plan.after


@pytest.mark.parametrize("between", ["state = None", "if start:\n    del state", "start = out"])
def test_a_checkpoint_that_is_gone_by_then_is_read_where_the_optimizer_is(between: str) -> None:
    plan = migrate_text(_CHECKPOINT.format(between=between), Settings())
    restored = (
        '        optimizer.load_state_dict(state["optimizer"])\n'
        '        if state.get("scaler"):\n            scaler.load_state_dict(state["scaler"])\n'
    )
    assert f"{restored}{between}\n" in plan.after
    assert 'lr=0.1)\nscaler = torch.amp.GradScaler("cuda")\nif start:\n' in plan.after
    assert "AMP611" not in {each.code for each in plan.findings}


_WHOLE = """\
import os

import torch
from torch import nn

model = nn.Linear(6, 1).cuda()
opt = torch.optim.Adam(model.parameters())
for x, y in batches:
    loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())
    opt.zero_grad()
    loss.backward()
    opt.step()
    path = os.path.join(folder, "optim.pth")
    torch.save(model, os.path.join(folder, "model.pth"))
    torch.save(opt, path)
"""
_TOLD = "a checkpoint holds the state of an optimizer, and not that of the scaler which steps it"


def test_beside_an_optimizer_that_is_saved_as_a_whole_its_state_is() -> None:
    plan = migrate_text(_WHOLE, Settings())
    saved = '    if scaler.is_enabled():\n        torch.save(scaler.state_dict(), os.path.join(folder, "scaler.pth"))\n'
    assert plan.after.endswith(f"    torch.save(opt, path)\n{saved}")
    assert {each.code for each in plan.findings} == {"AMP501"}
    again = migrate_text(plan.after, Settings())
    assert (again.after, again.findings) == (plan.after, ())


@pytest.mark.parametrize(
    "loads",
    [
        'opt = torch.load(os.path.join(folder, "optim.pth"))',
        'found = torch.load(folder + "/optim.pth")',
        "opt = torch.load(start)",
    ],
)
def test_but_not_where_somebody_may_load_one_as_a_whole(loads: str) -> None:
    first = f"if os.path.exists(folder):\n    {loads}\nfor x"
    plan = migrate_text(_WHOLE.replace("for x", first, 1), Settings())
    assert "scaler.state_dict" not in plan.after
    assert "scaler.step(opt)" in plan.after
    assert _TOLD in [each.message for each in plan.findings]


def test_options_that_are_saved_are_no_optimizer() -> None:
    text = _WHOLE.replace("opt.", "optimizer.").replace("opt =", "optimizer =")
    after = migrate_text(text.replace("for x", "opt = parser.parse_args()\nfor x", 1), Settings()).after
    assert "scaler.step(optimizer)" in after
    assert "scaler.state_dict" not in after
