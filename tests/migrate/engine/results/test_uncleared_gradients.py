"""A step whose gradients nothing clears is left: whether each loss reaches the optimizer is not asked."""

from __future__ import annotations

import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.report.finding import Kind
from amp_migrate.settings import Dtype, Settings

HEAD = """\
import torch
from elsewhere import Distance, Host, distance, tidy
from torch import nn


class Slow(torch.optim.Optimizer):
    def __init__(self, fast):
        self.fast = fast
        self.param_groups = fast.param_groups

    def step(self, closure=None):
        return self.fast.step(closure)


"""
IN_FUNCTION = """\
def fit(batches):
    body, head = nn.Linear(6, 4).cuda(), nn.Linear(4, 2).cuda()
    optimizer = torch.optim.RMSprop([*body.parameters(), *head.parameters()])
    {before}
    for x, target in batches:
        guess = head(body(x.cuda()))
        loss = {loss}
        loss.backward()
        optimizer.step()
        {behind}
"""
IN_CLASS = """\
class Fit:
    def __init__(self, path):
        self.body = nn.Linear(6, 2).cuda()
        self.optimizer = torch.optim.RMSprop(self.body.parameters())
        {made}

    def restore(self, path):
        {restored}

    def run(self, batches):
        for x, target in batches:
            loss = (self.body(x.cuda()) - target.cuda()).abs().mean()
            loss.backward()
            self.optimizer.step()
"""
MEAN = "(guess - target.cuda()).abs().mean()"


def _in_function(loss: str = MEAN, before: str = "pass", behind: str = "pass") -> str:
    return HEAD + IN_FUNCTION.format(loss=loss, before=before, behind=behind)


def _is_left(text: str) -> bool:
    plan = migrate_text(text, Settings())
    left = [each for each in plan.findings if each.kind is Kind.LEFT]
    assert all("gradients are never cleared, and add up" in each.message for each in left)
    assert (plan.after == text) == bool(left)
    assert "autocast" in migrate_text(text, Settings(Dtype.BF16)).after
    return bool(left)


@pytest.mark.parametrize(
    ("loss", "before"),
    [
        (MEAN, "pass"),
        ("distance(guess, target.cuda())", "pass"),
        ("measure(guess, target.cuda())", "measure = Distance(weight=0.5)"),
        ("measure(guess, target.cuda())", "measure = Distance().cuda()"),
        (f"{MEAN} + tidy(guess.detach())", "pass"),
    ],
)
def test_code_that_gets_tensors_alone_clears_no_gradients(loss: str, before: str) -> None:
    assert _is_left(_in_function(loss, before))


@pytest.mark.parametrize(
    ("made", "restored"),
    [
        ("pass", "self.body = torch.load(path)"),
        ("pass", "self.body = self.body.to(path)"),
        ("if path:\n            self.body = torch.load(path)", "pass"),
        ("self.optimizer = Slow(self.optimizer)", "pass"),
        ("if path:\n            self.optimizer = Slow(self.optimizer)", "pass"),
    ],
)
def test_whatever_else_a_name_may_be_nothing_clears_its_gradients(made: str, restored: str) -> None:
    assert _is_left(HEAD + IN_CLASS.format(made=made, restored=restored))


def test_another_optimizer_whose_gradients_are_cleared_clears_none_of_these() -> None:
    before = "other = torch.optim.SGD(nn.Linear(2, 2).cuda().parameters(), 0.1)"
    assert _is_left(_in_function("distance(guess, target.cuda())", before, "other.zero_grad()"))
    assert not _is_left(_in_function("distance(guess, target.cuda())", before, "head.zero_grad()"))


EVERY = "for p in body.parameters():\n            "


@pytest.mark.parametrize(
    ("before", "behind"),
    [
        ("pass", "tidy({'trained': [optimizer]})"),
        ("tidy(optimizer.zero_grad)", "tidy(x)"),
        ("host = Host()\n    host.trained = optimizer", "host.tick()"),
        ("pass", "tidy(*body.parameters())"),
        ("weights = list(body.parameters())", "tidy(weights)"),
        ("pass", "tidy(optimizer.param_groups)"),
        ("pass", "tidy(body.weight)"),
        ("pass", "tidy([p.grad for p in body.parameters()])"),
        ("pass", f"{EVERY}p.grad.fill_(0)"),
        ("pass", f"{EVERY}del p.grad"),
    ],
)
def test_whoever_can_get_at_gradients_may_clear_them(before: str, behind: str) -> None:
    assert not _is_left(_in_function(before=before, behind=behind))


def test_a_base_that_nobody_has_read_may_clear_the_gradients_of_its_objects() -> None:
    text = HEAD + IN_CLASS.format(made="pass", restored="pass").replace("class Fit:", "class Fit(Host):")
    assert _is_left(text)
    for call in ("self.begin()", "super().begin(x)"):
        assert not _is_left(
            text.replace("            loss.backward()\n", f"            {call}\n            loss.backward()\n")
        )
