"""AMP638: what is put into a tensor at indices, or where a mask is true, is of another precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.settings import Settings

Check = Callable[..., Any]
SCRIPT = """\
import torch
from torch.nn.functional import softmax

net = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda")
for x in loader:
    optimizer.zero_grad()
    index = torch.randint(4, (4, 4)).cuda()
    with torch.autocast("cuda", dtype=torch.{dtype}):
        h = net(x.cuda())
        p = softmax(h, dim=-1)
        out = torch.zeros_like(h)
        {store}
        loss = (out * h).mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""
REFUSED = [
    "out.scatter_(1, index, p)",
    "out.scatter_(1, index, src=p)",
    "out.scatter_add_(1, index, p)",
    'out.scatter_reduce_(1, index, p, "sum")',
    "out.index_add_(0, index[:, 0], p)",
    "out.index_add_(0, index[:, 0], p, alpha=2)",
    "out.index_add_(0, index[:, 0], h * p[index[:, 0], 0, None])",  # of one dimension at least, which promotes
    "out.index_copy_(0, index[:, 0], p)",
    "out.index_put_((index[:, 0], index[:, 1]), p[:, 0])",
    "out.masked_scatter_(h > 0, p)",
    "out[h > 0] = p[h > 0]",
    "out[index[:, 0]] = p",
    "out[:, index[:, 0]] = p",
    "out = h.scatter(1, index, p)",
    "out = h.index_add(0, index[:, 0], p)",
    "out = h.masked_scatter(h > 0, p)",
    'out = h.index_reduce(0, index[:, 0], p, "mean")',
    "out = torch.scatter(h, 1, index, p)",
    "out = torch.scatter(input=h, dim=1, index=index, src=p)",
    "out = torch.scatter(p, 1, index, h)",
    "out = torch.index_add(h, 0, index[:, 0], source=p)",
    "out = torch.index_copy(h, 0, index[:, 0], p)",
    "out = torch.masked_scatter(h, h > 0, p)",
    "torch.index_put_(out, (index[:, 0],), p)",
    "torch.Tensor.scatter_(out, 1, index, p)",
]
TAKEN = [
    "out.scatter_(1, index, p.half())",
    "out.scatter_(1, index, p.to(out.dtype))",
    "out.scatter_(1, index, 1.0)",
    "out.scatter_(1, index, h)",
    "out[0] = p[0]",
    "out[:2] = p[:2]",
    "out.copy_(p)",
    "out[h > 0] = 0.0",
    "out = p.scatter(1, index, p * h.float())",
    "out = torch.where(h > 0, h, p)",
    "out = torch.scatter(h, 1, index, 1.0)",
    "out = torch.scatter(h, 1, index, p.to(h.dtype))",
    "out.masked_fill_(h > 0, 0)",
    "out = h.float().index_copy(0, index[:, 0], p)",
]


def told(store: str, dtype: str = "float16") -> list[tuple[str, int]]:
    plan = migrate_text(SCRIPT.format(store=store, dtype=dtype), Settings(select=("AMP638",)))
    again = migrate_text(plan.after, Settings(select=("AMP638",)))
    assert again.after == plan.after
    assert not again.findings
    return [(each.code, each.line) for each in plan.findings]


def raises(store: str, dtype: torch.dtype) -> bool:
    h = torch.zeros(4, 4, dtype=dtype)
    names = {"out": h.clone(), "h": h, "p": torch.ones(4, 4), "index": torch.zeros(4, 4, dtype=torch.long)}
    try:
        exec(store, {"torch": torch, "softmax": torch.softmax}, names)
    except RuntimeError:
        return True
    return False


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("store", REFUSED)
def test_what_pytorch_refuses_is_put_in_in_the_precision_of_the_tensor(store: str, dtype: str) -> None:
    assert raises(store, getattr(torch, dtype))
    assert told(store, dtype) == [("AMP638", 14)]


@pytest.mark.parametrize("store", TAKEN)
def test_what_it_takes_is_left_alone(store: str) -> None:
    assert not raises(store, torch.float16)
    assert told(store) == []


def test_what_autocast_makes_the_wider_of_two_is_left_alone() -> None:
    for store in ("h.scatter_add(1, index, p)", "h.index_put((index[:, 0],), p)", "torch.scatter_add(h, 1, index, p)"):
        assert told(f"out = {store}") == []


def test_where_the_tensor_has_no_name_it_is_told_with_what_to_write(marked: Check) -> None:
    marked(
        """
        net = torch.nn.Linear(4, 4).cuda()

        def train(optimizer, scaler, loader):
            for x in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    h = net(x.cuda())
                    p = torch.softmax(h, dim=-1)
                    out = torch.scatter(h * 2, 1, x.argmax(1, keepdim=True), p)  # AMP638
                scaler.scale(out.mean()).backward()
                scaler.step(optimizer)
                scaler.update()
        """
    )


@pytest.mark.parametrize("around", ["with torch.no_grad():", 'with torch.autocast("cuda", enabled=False):'])
def test_what_no_region_makes_low_is_of_one_precision(clean: Check, around: str) -> None:
    clean(
        f"""
        net = torch.nn.Linear(4, 4).cuda()

        def train(optimizer, scaler, loader):
            for x in loader:
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = net(x.cuda()).mean()
                {around}
                    h = net(x.cuda())
                    h[x > 0] = torch.softmax(h, dim=-1)[x > 0]
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
        """
    )
