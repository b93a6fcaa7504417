"""A result that is in half precision, or float32 by an option, is float32 for code that nobody has read."""

from __future__ import annotations

import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.settings import Settings

TEXT = """\
import torch
from torch import nn
from elsewhere import closeness


def score(a, b):
    return closeness(a, b).item()


def after(args, x, out):
    if args.residual:
        return {other}
    return out


def main(args, loader, held_out):
    model = nn.Conv2d(1, 1, 3, padding=1).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    criterion = nn.L1Loss()
    for x, y in loader:
        x, y = x.cuda(), y.cuda()
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
    total = 0.0
    count = 0
    with torch.no_grad():
        for x, y in held_out:
            x, y = x.cuda(), y.cuda()
            out = after(args, x, model(x))
            {scored}
    print(total / count)
"""


@pytest.mark.parametrize("other", ["torch.clamp(x + out, 0, 1)", "x + 0.5 * out"])
def test_it_is_cast_where_it_is_given(other: str) -> None:
    after = migrate_text(TEXT.format(other=other, scored="total += score(out, y)"), Settings()).after
    assert "total += score(out.float(), y)" in after


def test_it_is_told_where_nobody_knows_what_else_it_may_be() -> None:
    plan = migrate_text(TEXT.format(other="x", scored="total += score(out, y)"), Settings())
    assert "total += score(out, y)" in plan.after
    told = "code that could not be read gets a half-precision value: elsewhere.closeness"
    assert told in [each.message for each in plan.findings]


def test_statements_of_one_line_are_told_apart() -> None:
    scored = "total += score(out, y); count += len(after(args, x, out))"
    after = migrate_text(TEXT.format(other="x + out", scored=scored), Settings()).after
    assert "total += score(out.float(), y)" in after
    assert "score(out, y)" not in after


def test_what_may_be_low_on_no_way_for_certain_is_left() -> None:
    text = TEXT.format(other="x", scored="total += score(x, y)")
    assert "total += score(x, y)" in migrate_text(text, Settings()).after
