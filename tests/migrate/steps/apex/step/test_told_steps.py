"""What is told of a step that goes native and does otherwise than Apex's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from amp_migrate.engine.migrate import migrate
from amp_migrate.settings import Settings

Check = Callable[..., Any]

_SWITCH = """
from apex import amp
def train(model, optimizer, loader, use_amp=False):
    for x in loader:
        optimizer.zero_grad()
        loss = model(x).mean()
        if use_amp:
            with amp.scale_loss(loss, optimizer) as scaled_loss:
                scaled_loss.backward()
        else:
            loss.backward()
        optimizer.step()
def main(args, loader):
    MODEL
    if args.fp16:
        model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
    train(model, optimizer, loader)
"""
_IDLE = "use_amp asks nothing any more: amp.initialize said whether mixed precision is on, and not this"


def _told(migrate: Check, text: str) -> set[str]:
    plan = migrate(text)
    assert "scaler.scale(loss).backward()" in plan.after
    return {each.message for each in plan.findings if each.code == "AMP210"}


def test_switch_that_stays_in_a_signature(migrate: Check) -> None:
    assert _IDLE in _told(migrate, _SWITCH)


def test_switch_that_is_read_still(migrate: Check) -> None:
    text = _SWITCH.replace("optimizer.zero_grad()", "print(use_amp)")
    assert not any("asks nothing" in each for each in _told(migrate, text))


def test_switch_that_the_step_asks_natively(migrate: Check) -> None:
    text = (
        _SWITCH.replace("use_amp=False", "args")
        .replace("use_amp", "args.fp16")
        .replace("er, loader)\n", "er, loader, args)\n")
    )
    assert not any("asks nothing" in each for each in _told(migrate, text))


@pytest.mark.parametrize(
    ("given", "is_told"),
    [
        ("args.fp16", False),  # what decides about Apex
        ("use_amp", False),  # what is set beside it
        ("args.fp16), train(model, optimizer, loader", True),
        ("args.half", True),
        ("args", True),
    ],
)
def test_switch_that_is_given_what_decides_about_apex(given: str, is_told: bool, migrate: Check) -> None:
    text = _SWITCH.replace("optimizer, loader)\n", f"optimizer, loader, {given})\n")
    text = text.replace("    if args.fp16:\n", "    use_amp = False\n    if args.fp16:\n        use_amp = True\n")
    assert (_IDLE in _told(migrate, text)) is is_told


@pytest.mark.parametrize(("asked", "is_told"), [("fp16", False), ("half", True)])
def test_switch_that_is_an_attribute_of_what_is_given(asked: str, is_told: bool, migrate: Check) -> None:
    text = _SWITCH.replace("use_amp=False", "options").replace("if use_amp", f"if options.{asked}")
    told = _told(migrate, text.replace("er, loader)\n", "er, loader, args)\n"))
    assert any("options asks nothing" in each for each in told) is is_told


def test_switch_of_an_object_is_no_parameter(migrate: Check) -> None:
    text = _ELSEWHERE.format(test="True").replace("self.args.fp16", "self.fp16").replace("backward(self, loss)", "{0}")
    text = text.replace("{0}", "backward(self, loss, optimizer)").replace("loss, self.optimizer)", "loss, optimizer)")
    plan = migrate(text.replace("self.backward(loss)", "self.backward(loss, self.optimizer)"))
    assert "scale(loss).backward()" in plan.after
    assert not any("asks nothing" in each.message for each in plan.findings)


_CLIPS = """
from apex import amp
def main(args, loader):
    MODEL
    model, optimizer = amp.initialize(model, optimizer, opt_level="{level}")
    for x in loader:
        optimizer.zero_grad()
        loss = model(x).mean()
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
        nn.utils.clip_grad_norm_({parameters}, 1.0)
        optimizer.step()
"""
_OWN, _MASTERS = "model.parameters()", "amp.master_params(optimizer)"


@pytest.mark.parametrize(
    ("level", "parameters", "is_told"),
    [("O2", _OWN, True), ("O2", _MASTERS, False), ("O1", _OWN, False), ("O1", _MASTERS, False)],
)
def test_clip_of_what_was_scaled(level: str, parameters: str, is_told: bool, migrate: Check) -> None:
    told = _told(migrate, _CLIPS.format(level=level, parameters=parameters))
    assert ("this clipped gradients of float16 weights under the loss scale: now it clips true ones" in told) is is_told


def test_clip_beside_the_backward_of_a_wrapper(migrate: Check) -> None:
    text = """
    from apex.optimizers import FP16_Optimizer
    def main(args, loader):
        MODEL
        if args.fp16:
            optimizer = FP16_Optimizer(optimizer, dynamic_loss_scale=True)
        for x in loader:
            loss = model(x).mean()
            if args.fp16:
                optimizer.backward(loss)
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            else:
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            model.zero_grad()
    """
    found = [each for each in migrate(text).findings if "under the loss scale" in each.message]
    assert [each.code for each in found] == ["AMP210"]


_UNDER_SWITCH = """
from apex import amp
def main(args, loader):
    MODEL
    if args.fp16:
        model, optimizer = amp.initialize(model, optimizer, opt_level="O2")
    for x in loader:
        optimizer.zero_grad()
        loss = model(x).mean()
        if args.fp16:
            with amp.scale_loss(loss, optimizer) as scaled_loss:
                scaled_loss.backward()
        else:
            loss.backward()
        if {test}:
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        else:
            print("not clipped")
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("test", "is_told"), [("not args.fp16", False), ("args.fp16 is False and args.clip", False), ("args.clip", True)]
)
def test_clip_where_apex_does_not_scale(test: str, is_told: bool, migrate: Check) -> None:
    told = _told(migrate, _UNDER_SWITCH.format(test=test))
    assert any("clips true ones" in each for each in told) is is_told


def test_clip_where_no_wrapper_goes_backward(migrate: Check) -> None:
    text = """
    from apex.optimizers import FP16_Optimizer
    def main(args, loader):
        MODEL
        if args.fp16:
            optimizer = FP16_Optimizer(optimizer, dynamic_loss_scale=True)
        for x in loader:
            loss = model(x).mean()
            if args.fp16:
                optimizer.backward(loss)
            else:
                loss.backward()
                print("plain")
            if not args.fp16:
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            model.zero_grad()
    """
    assert not any("under the loss scale" in each.message for each in migrate(text).findings)


_CENTER = """
def step_center(optimizer_center, center):
    for param in center.parameters():
        param.grad.data *= 100.0
    optimizer_center.step()
"""
_WITH_CENTER = """
def main(model, center, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer_center = torch.optim.SGD(center.parameters(), lr=0.5)
    {prepare}
    for x, y in loader:
        optimizer.zero_grad()
        optimizer_center.zero_grad()
        loss = center(model(x), y)
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
        optimizer.step()
        step_center(optimizer_center, center)
"""


@pytest.mark.parametrize("is_apart", [True, False])
@pytest.mark.parametrize(
    ("prepare", "is_told"),
    [
        ("model, optimizer = amp.initialize(model, optimizer)", True),
        ("model, optimizer = amp.initialize(model, optimizer, opt_level='O0')", False),
        ("model, (optimizer, optimizer_center) = amp.initialize(model, [optimizer, optimizer_center])", False),
        ("optimizers = [optimizer, optimizer_center]\n    amp.initialize(model, optimizers)", False),
        (
            "options = dict(opt_level='O1')\n    model, optimizer = amp.initialize(model, optimizer, **options)",
            True,
        ),
        (
            "both, options = [optimizer, optimizer_center], dict(verbosity=0)\n    "
            "model, both = amp.initialize(model, both, **options)",
            False,
        ),
    ],
)
def test_an_optimizer_whose_gradients_apex_left_scaled(
    tmp_path: Path, prepare: str, is_told: bool, is_apart: bool
) -> None:
    train = _WITH_CENTER.format(prepare=prepare)
    head = "import torch\nfrom apex import amp\n"
    if is_apart:
        (tmp_path / "center.py").write_text(_CENTER)
        head += "from center import step_center\n"
    (tmp_path / "train.py").write_text(head + ("" if is_apart else _CENTER) + train)
    outcome = migrate([tmp_path], Settings())
    assert any(each.code == "AMP201" for each in outcome.findings)
    told = [each for each in outcome.findings if "under the loss scale" in each.message]
    assert [each.message for each in told] == [
        "amp.initialize never prepared optimizer_center: Apex left its gradients under the loss scale"
    ] * is_told


_CRITIC = """
import torch
from apex import amp

def penalty(critic, x):
    scores = critic(x.requires_grad_())
    slope = torch.autograd.grad(scores, x, grad_outputs=torch.ones_like(scores), create_graph=True)[0]
    return ((slope.norm(2, dim=1) - 1) ** 2).mean()

model, critic = torch.nn.Linear(8, 8).cuda(), torch.nn.Linear(8, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
critic_optimizer = torch.optim.Adam(critic.parameters())
model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
for x, y in loader:
    output = model(x.cuda())
    cost = critic(output.detach()).mean()
    FIRST
    cost.backward()
    critic_optimizer.step()
    THEN
    optimizer.zero_grad()
    with amp.scale_loss(torch.nn.functional.cross_entropy(output, y.cuda()), optimizer) as scaled_loss:
        scaled_loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize("clears_first", [True, False])
def test_critic_of_a_loss_that_apex_did_not_scale_is_native_beside_a_penalty_of_nobody(
    tmp_path: Path, clears_first: bool
) -> None:
    clear, keep = ("FIRST", "THEN") if clears_first else ("THEN", "FIRST")
    text = _CRITIC.replace(clear, "critic_optimizer.zero_grad()").replace(keep, "print(cost.item())")
    (tmp_path / "train.py").write_text(text)
    outcome = migrate([tmp_path], Settings())
    assert any(each.code == "AMP201" for each in outcome.findings)
    assert any("under the loss scale" in each.message for each in outcome.findings) is not clears_first


_ELSEWHERE = """
from apex import amp
class Trainer:
    def __init__(self, model, args):
        self.args, self.model = args, model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        if args.fp16:
            self.model, self.optimizer = amp.initialize(self.model, self.optimizer, opt_level="O2")
    def backward(self, loss):
        if self.args.fp16:
            with amp.scale_loss(loss, self.optimizer) as scaled_loss:
                scaled_loss.backward()
        else:
            loss.backward()
    def step(self):
        if {test}:
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
    def fit(self, loader):
        for x in loader:
            loss = self.model(x).mean()
            self.backward(loss)
            self.step()
"""


@pytest.mark.parametrize(("test", "is_told"), [("not self.args.fp16", False), ("self.args.clip", True)])
def test_clip_under_a_switch_in_another_function_than_the_backward(test: str, is_told: bool, migrate: Check) -> None:
    found = [each for each in migrate(_ELSEWHERE.format(test=test)).findings if "under the loss scale" in each.message]
    assert bool(found) is is_told
