"""A scaler divides gradients by `param_groups`: what has none is not handed to one, and what may have none is told."""

from __future__ import annotations

import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.settings import Dtype, Settings

SCRIPT = """\
import abc, argparse, torch, rates
from apex.optimizers import FusedAdam
from transformers.optimization import AdamW

args = argparse.ArgumentParser().parse_args()
model = torch.nn.Linear(3, 1).cuda()


class Base({base}):
    def zero_grad(self):
        self.inner.zero_grad()


class Rated(Base):
    def __init__(self, params):
        self.inner = torch.optim.Adam(params)

    def step(self):
        self.inner.step()

    {shown}


rated = {made}
for x, y in loader:
    rated.zero_grad()
    loss = (model(x) - y).square().mean()
    loss.backward()
    rated.step()
"""
NEEDED = "a scaler takes only what has an optimizer's `param_groups`: "
UNREAD = "rates.Rated, which was not read, gets "


def said(
    made: str, base: str = "object", shown: str = "pass", dtype: Dtype = Dtype.FP16
) -> tuple[bool, list[tuple[str, str]]]:
    """Whether the step moves, and what is said of its optimizer."""
    plan = migrate_text(SCRIPT.format(made=made, base=base, shown=shown), Settings(dtype=dtype))
    found = [(each.code, each.message) for each in plan.findings if NEEDED in each.message]
    return "autocast(" in plan.after, found


@pytest.mark.parametrize("base", ["object", "abc.ABC"])
def test_a_wrapper_that_shows_no_parameters_leaves_the_step(base: str) -> None:
    moves, found = said("Rated(model.parameters())", base)
    assert not moves
    assert found == [("AMP590", f"left as it was: {NEEDED}Rated has none (line 29)")]


@pytest.mark.parametrize(
    "shown", ["param_groups = property(lambda self: self.inner.param_groups)", "def __getattr__(self, name): pass"]
)
def test_a_wrapper_that_may_show_them_moves(shown: str) -> None:
    assert said("Rated(model.parameters())", shown=shown) == (True, [])


def test_without_a_scaler_a_wrapper_is_as_good() -> None:
    assert said("Rated(model.parameters())", dtype=Dtype.BF16) == (True, [])


@pytest.mark.parametrize("given", ["'adam', 1e-3", "args.method, lr=args.lr", "[args.method]"])
def test_an_unread_class_that_gets_no_parameters_leaves_the_step(given: str) -> None:
    moves, found = said(f"rates.Rated({given})")
    assert not moves
    assert found == [("AMP590", f"left as it was: {NEEDED}{UNREAD}no parameters where it is made (line 29)")]


@pytest.mark.parametrize("given", ["512, torch.optim.Adam(model.parameters())", "[torch.optim.SGD([model.weight], 1)]"])
def test_an_unread_class_that_gets_an_optimizer_is_told(given: str) -> None:
    moves, found = said(f"rates.Rated({given})")
    assert moves
    assert found == [("AMP504", f"{NEEDED}{UNREAD}an optimizer, which it may not show")]


@pytest.mark.parametrize(
    "made",
    [
        "rates.Rated(model.parameters(), lr=0.1)",
        "rates.Rated([{'params': model.parameters()}])",
        "rates.Rated(model)",
        "rates.Rated(rates.groups(model, 0.1))",
        "rates.rated('adam', args)",
        "AdamW(model.parameters())",
        "FusedAdam(model.parameters())",
        "torch.optim.Adam(model.parameters())",
    ],
)
def test_what_may_be_an_optimizer_moves_without_a_word(made: str) -> None:
    assert said(made) == (True, [])
