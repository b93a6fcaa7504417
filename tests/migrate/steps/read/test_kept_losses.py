"""A loss that a forward keeps somewhere: in its module, or in what it is given."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from amp_migrate.engine.outcome import FilePlan
from amp_migrate.report.finding import Kind

Migrate = Callable[..., FilePlan]
KEEPING = """\
class Fitted(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Conv2d(3, 1, 3)

    @property
    def error(self):
        return self.last

    def forward(self, x, y):
        out = self.body(x)
        self.last = nn.functional.mse_loss(out, y)
        return out


fitted = Fitted().cuda()
other = nn.Linear(3, 3).cuda()
optimizer = torch.optim.SGD(fitted.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
{lines}
    loss.backward()
    optimizer.step()
"""
REGION = '    with torch.amp.autocast(device_type="cuda", dtype=torch.float16):\n        '
LEFT = "step left as it was: the forward pass behind `loss` "


@pytest.mark.parametrize(
    ("forward", "loss"),
    [
        ("out = fitted(x.cuda(), y.cuda())", "loss = fitted.error"),
        ("fitted(x.cuda(), y.cuda())", "loss = fitted.error"),
        ("out = fitted(x.cuda(), y.cuda())", "loss = fitted.last"),
        ("out = fitted(x.cuda(), y.cuda())", "loss = 2 * fitted.error"),
    ],
)
def test_a_loss_that_its_module_keeps_moves_with_the_forward(migrate: Migrate, forward: str, loss: str) -> None:
    plan = migrate(KEEPING.format(lines=f"    {forward}\n    {loss}"))
    assert f"{REGION}{forward}\n" in plan.after
    assert "scaler.scale(loss).backward()" in plan.after


@pytest.mark.parametrize(
    "lines",
    [
        "    loss = fitted.error",
        "    out = other(x.cuda())\n    loss = fitted.error",
        "    with torch.no_grad():\n        out = fitted(x.cuda(), y.cuda())\n    loss = fitted.error",
        "    out = fitted(x.cuda(), y.cuda())\n    loss = sum(p.sum() for p in fitted.parameters())",
        "    out = fitted(x.cuda(), y.cuda())\n    loss = y.cuda().sum() * fitted.training",
        "    out = fitted(x.cuda(), y.cuda())\n    loss = kept.error",
    ],
)
def test_a_loss_that_no_forward_in_sight_keeps_is_left(migrate: Migrate, lines: str) -> None:
    text = KEEPING.format(lines=lines)
    plan = migrate(text)
    assert [each.message.startswith(LEFT) for each in plan.findings if each.kind is Kind.LEFT] == [True]
    assert "scaler" not in plan.after


SCENE = """\
class Scene:
    def __init__(self, x):
        self.x = x
        self.found = None


class Fill(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 2)

    def forward(self, scene):
        scene.found = self.layer(scene.x)
        return 0.5


def error(scene):
    return scene.found.float().square().mean()


fill = Fill().cuda()
optimizer = torch.optim.SGD(fill.parameters(), lr=0.1)
for x in loader:
    scene = Scene(x.cuda())
    second = Scene(x.cuda())
    optimizer.zero_grad()
{lines}
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize("loss", ["loss = error(scene)", "loss = scene.found.square().mean()"])
def test_a_loss_of_what_a_forward_is_given_moves_with_it(migrate: Migrate, loss: str) -> None:
    plan = migrate(SCENE.format(lines=f"    fill(scene)\n    {loss}"))
    assert f"{REGION}fill(scene)\n" in plan.after
    assert "scaler.scale(loss).backward()" in plan.after


@pytest.mark.parametrize(
    "lines",
    [
        "    loss = error(scene)",
        "    fill(second)\n    loss = error(scene)",
        "    with torch.no_grad():\n        fill(scene)\n    loss = error(scene)",
        "    took = fill(scene)\n    loss = error(scene)",
        "    fill(Scene(x.cuda()))\n    loss = error(scene)",
        "    scene = x.cuda()\n    fill(scene)\n    loss = scene.sum()",
    ],
)
def test_a_loss_of_what_no_forward_is_given_for_its_own_sake_is_left(migrate: Migrate, lines: str) -> None:
    plan = migrate(SCENE.format(lines=lines))
    assert [each.message.startswith(LEFT) for each in plan.findings if each.kind is Kind.LEFT] == [True]
    assert "scaler" not in plan.after


COLLECTED = """\
class Losses{of_module}:
    def __init__(self):
        super().__init__()
        self.kept = []

    def put(self, loss):
        {put}

    def total(self):
        return sum(self.kept)


net = nn.Linear(3, 3).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for parts in loader:
    losses = Losses(){cuda}
    for x, y in parts:
        loss = nn.functional.mse_loss(net(x.cuda()), y.cuda())
        losses.put(loss)
    total = losses.total()
    optimizer.zero_grad()
    total.backward()
    optimizer.step()
"""
OF_MODULE = {"of_module": "(nn.Module)", "cuda": ".cuda()"}
OF_NONE = {"of_module": "", "cuda": ""}


@pytest.mark.parametrize("kind", [OF_MODULE, OF_NONE], ids=["module", "object"])
@pytest.mark.parametrize("put", ["self.kept.append(loss)", "self.kept = [*self.kept, loss / 2]"])
def test_losses_that_an_object_collects_move_with_their_forwards(
    migrate: Migrate, kind: dict[str, str], put: str
) -> None:
    plan = migrate(COLLECTED.format(put=put, **kind))
    assert f"{REGION}for x, y in parts:\n" in plan.after
    assert "        total = losses.total()\n    optimizer.zero_grad()\n    scaler.scale(total).backward()" in plan.after


@pytest.mark.parametrize("kind", [OF_MODULE, OF_NONE], ids=["module", "object"])
@pytest.mark.parametrize("put", ["print(loss)", "self.kept.append(self.other)"])
def test_losses_that_an_object_is_not_seen_to_collect_are_left(
    migrate: Migrate, kind: dict[str, str], put: str
) -> None:
    plan = migrate(COLLECTED.format(put=put, **kind))
    assert [each.kind for each in plan.findings] == [Kind.LEFT]
    assert "scaler" not in plan.after


@pytest.mark.parametrize("kind", [OF_MODULE, OF_NONE], ids=["module", "object"])
def test_a_sum_of_collected_losses_is_no_forward_where_nothing_says_what_gave_them(
    migrate: Migrate, kind: dict[str, str]
) -> None:
    unseen = "learners = package.Learners(net)\noptimizer = torch.optim.SGD(learners.parameters(), lr=0.1)\n"
    text = COLLECTED.format(put="self.kept.append(loss)", **kind).replace("net(x", "learners.clone()(x")
    plan = migrate(text.replace("optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n", unseen))
    assert [each.message.startswith(LEFT.replace("loss", "total")) for each in plan.findings] == [True]
    assert "scaler" not in plan.after
