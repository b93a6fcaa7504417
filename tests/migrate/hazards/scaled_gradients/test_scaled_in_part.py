"""AMP607 of one backward pass: losses of which some are scaled, and some are not, or twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]

LOOP = """
    net = nn.Linear(8, 8).cuda()
    head = nn.Linear(8, 2).cuda()
    optimizer = torch.optim.Adam([*net.parameters(), *head.parameters()])
    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        optimizer.zero_grad()
        with torch.amp.autocast("cuda", dtype=torch.float16):
            h = net(x)
            loss, penalty = F.cross_entropy(head(h), y), h.float().square().mean()
        {backward}
        scaler.step(optimizer)
        scaler.update()
"""


@pytest.mark.parametrize(
    "backward",
    [
        "torch.autograd.backward([scaler.scale(loss), penalty])",
        "torch.autograd.backward((penalty, scaler.scale(loss)))",
        "(scaler.scale(loss) + penalty).backward()",
        "(0.1 * penalty - scaler.scale(loss)).backward()",
        "sum([scaler.scale(loss), penalty]).backward()",
        "loss = scaler.scale(loss); loss += penalty; loss.backward()",
    ],
)
def test_an_unscaled_term_beside_a_scaled_one_is_told(marked: Check, backward: str) -> None:
    (found,) = marked(LOOP.format(backward=f"{backward}  # AMP607"))
    assert "is scaled in part, but scaler.step(optimizer) unscales all of it once" in found.message
    assert found.hint.startswith("write scaler.scale(loss).backward() with the whole loss")


def test_a_loss_that_is_scaled_twice_is_told(marked: Check) -> None:
    (found,) = marked(LOOP.format(backward="loss = scaler.scale(loss); scaler.scale(loss).backward()  # AMP607"))
    assert "is scaled twice, but scaler.step(optimizer) unscales all of it once" in found.message


@pytest.mark.parametrize(
    "backward",
    [
        "torch.autograd.backward(scaler.scale(loss))",
        "torch.autograd.backward([scaler.scale(loss), scaler.scale(penalty)])",
        "torch.autograd.backward(scaler.scale([loss, penalty]))",
        "scaler.scale(loss).backward(retain_graph=True); scaler.scale(penalty).backward()",
        "(scaler.scale(loss) + scaler.scale(penalty)).backward()",
        "(scaler.scale(loss) + 1.0).backward()",
        "sum([scaler.scale(loss), scaler.scale(penalty)]).backward()",
        "sum(scaler.scale(each) for each in (loss, penalty)).backward()",
        "(scaler.scale(loss) + penalty.detach()).backward()",
        "(scaler.scale(loss) + scaler.get_scale() * penalty).backward()",
        "(0 + scaler.scale(loss)).backward()",
        "total = torch.zeros((), device='cuda'); total += scaler.scale(loss); total.backward()",
    ],
)
def test_several_scaled_ones_and_numbers_beside_them_are_right(clean: Check, backward: str) -> None:
    clean(LOOP.format(backward=backward))


def test_a_loss_that_is_scaled_only_by_a_switch_is_not_scaled_in_part(clean: Check) -> None:
    clean(
        """
        def train(net, optimizer, scaler, loader, use_amp):
            for x, y in loader:
                with torch.amp.autocast("cuda", dtype=torch.float16, enabled=use_amp):
                    loss = F.mse_loss(net(x), y)
                total = scaler.scale(loss) if use_amp else loss
                torch.autograd.backward([total])
                if use_amp:
                    scaler.step(optimizer)
                    scaler.update()
                else:
                    optimizer.step()
                optimizer.zero_grad()
        """
    )
