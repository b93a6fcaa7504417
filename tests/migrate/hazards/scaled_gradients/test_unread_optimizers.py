"""AMP601 where code that nobody has read makes the optimizers, or parts what they step, of modules that it is given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.settings import Settings

Check = Callable[..., Any]

TWO = """
from maps import build, build_both

net, critic = nn.Linear(8, 4).cuda(), nn.Linear(4, 1).cuda()
{made}
scaler, other = torch.amp.GradScaler("cuda"), torch.amp.GradScaler("cuda")
for x, y in loader:
    with torch.amp.autocast("cuda"):
        out = net(x.cuda())
        loss_of_critic = critic(out.detach()).mean()
    second.zero_grad()
    other.scale(loss_of_critic).backward()
    {before}
    other.step(second)
    other.update()
    first.zero_grad()
    with torch.amp.autocast("cuda"):
        loss = critic(out).mean()
    scaler.scale(loss).backward()
    {unscale}
    nn.utils.clip_grad_norm_(net.parameters(), 1.0){mark}
    scaler.step(first)
    scaler.update()
"""
BUILT = "first, second = build(load(), net), build(load(), critic)"
OF_PARAMETERS = "first, second = build(load(), net.parameters()), build(load(), critic.parameters())"


@pytest.mark.parametrize("made", [BUILT, OF_PARAMETERS, "first, second = build(net), build(critic, lr=0.1)"])
def test_an_optimizer_that_is_built_of_a_module_has_the_parameters_of_that(
    marked: Check, clean: Check, made: str
) -> None:
    clean(TWO.format(made=made, before="", unscale="scaler.unscale_(first)", mark=""))
    (found,) = marked(TWO.format(made=made, before="other.unscale_(second)", unscale="", mark="  # AMP601"))
    assert "on some way" not in found.message


@pytest.mark.parametrize("made", ["first, second = build_both(load(), net, critic)", "first, second = build(load())"])
def test_of_several_that_one_call_builds_nobody_knows_which_has_what(clean: Check, made: str) -> None:
    clean(TWO.format(made=made, before="", unscale="scaler.unscale_(first)", mark=""))


PARTS = """
import maps
from maps import split

net = nn.Sequential(nn.Linear(8, 4), nn.Linear(4, 1)).cuda()
{parted}
first, second = {kind}(a, lr=0.1), {kind}(b, lr=0.2)
scaler = torch.amp.GradScaler("cuda")
for x, y in loader:
    with torch.amp.autocast("cuda"):
        loss = F.mse_loss(net(x.cuda()), y.cuda())
    first.zero_grad()
    second.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(second)
    nn.utils.clip_grad_norm_({clipped}, 1.0){mark}
    scaler.step(first)
    scaler.step(second)
    scaler.update()
"""


@pytest.mark.parametrize("kind", ["torch.optim.SGD", "maps.build"])
@pytest.mark.parametrize("parted", ["a, b = split(net)", "parts = split(net)\na, b = parts['a'], parts['b']"])
def test_two_parts_of_what_a_call_gives_are_not_the_same_parameters(
    marked: Check, clean: Check, parted: str, kind: str
) -> None:
    clean(PARTS.format(parted=parted, kind=kind, clipped="b", mark=""))
    (found,) = marked(PARTS.format(parted=parted, kind=kind, clipped="a", mark="  # AMP601"))
    assert "on some way" not in found.message


FROZEN = """\
import torch
from maps import build
from torch import nn

net, frozen = nn.Linear(8, 4).cuda(), nn.Linear(8, 4).cuda()
first, second = build(load(), net), build(load(), {of})
for x, y in loader:
    loss = nn.functional.mse_loss(net(x.cuda()) + frozen(x.cuda()){but}, y.cuda())
    first.zero_grad()
    second.zero_grad()
    loss.backward()
    first.step()
    second.step()
"""


@pytest.mark.parametrize(("of", "but", "is_left"), [("frozen", ".detach()", True), ("frozen", "", False)])
def test_a_step_is_left_where_no_loss_is_of_what_an_optimizer_is_built_of(of: str, but: str, is_left: bool) -> None:
    plan = migrate_text(FROZEN.format(of=of, but=but), Settings())
    assert ["without gradients" in each.message for each in plan.findings if each.code == "AMP590"] == [True] * is_left
