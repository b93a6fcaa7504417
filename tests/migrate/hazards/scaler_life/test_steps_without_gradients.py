"""AMP617: a scaler that finds no gradients raises, where an optimizer by itself says nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]

STEP = """
    def train(net, optimizer, scaler, loader):
        for x, y in loader:
            optimizer.zero_grad()
            with torch.amp.autocast("cuda", dtype=torch.float16):
                loss = F.cross_entropy({net}(x), y)
            scaler.scale(loss).backward()
            {between}
            scaler.step(optimizer){told}
            scaler.update()

    net, other = nn.Linear(8, 2).cuda(), nn.Linear(8, 2).cuda()
    train(net, torch.optim.Adam(net.parameters()), torch.amp.GradScaler("cuda"), loader)
"""


@pytest.mark.parametrize(
    ("net", "between"),
    [("net", "optimizer.zero_grad()"), ("net", "net.zero_grad()"), ("other", "pass")],
)
def test_gradients_that_are_cleared_before_the_step_or_of_another_model_are_told(
    marked: Check, net: str, between: str
) -> None:
    (found,) = marked(STEP.format(net=net, between=between, told="  # AMP617"))
    assert found.message == "scaler.step(optimizer) finds no gradients, and raises"


@pytest.mark.parametrize(("net", "between"), [("net", "pass"), ("net", "other.zero_grad()")])
def test_gradients_that_are_there_are_right(clean: Check, net: str, between: str) -> None:
    clean(STEP.format(net=net, between=between, told=""))


SKIPPED = """
    net = nn.Linear(8, 2).cuda()
    optimizer, scaler = torch.optim.Adam(net.parameters()), torch.amp.GradScaler("cuda")
    for x, y in loader:
        optimizer.zero_grad()
        with torch.amp.autocast("cuda", dtype=torch.float16):
            loss = F.cross_entropy(net(x), y)
        {body}
"""
BACKWARD, STEPS, NEXT = "scaler.scale(loss).backward()", "scaler.step(optimizer); scaler.update()", "\n        "


def test_a_step_behind_a_backward_pass_that_a_test_skips_is_told(marked: Check) -> None:
    body = f"if torch.isfinite(loss): {BACKWARD}{NEXT}scaler.step(optimizer)  # AMP617{NEXT}scaler.update()"
    (found,) = marked(SKIPPED.format(body=body))
    assert found.message.endswith("raises, where the test in line 11 skips scaler.scale(loss).backward()")


@pytest.mark.parametrize(
    "body",
    [
        f"if not torch.isfinite(loss): continue{NEXT}{BACKWARD}{NEXT}{STEPS}",
        f"if torch.isfinite(loss): {BACKWARD}; {STEPS}",
        f"is_right = torch.isfinite(loss){NEXT}if is_right: {BACKWARD}{NEXT}if is_right: {STEPS}",
        f"for part in loss.chunk(4): scaler.scale(part.sum()).backward(retain_graph=True){NEXT}{STEPS}",
    ],
)
def test_a_step_that_is_skipped_with_it_is_right(clean: Check, body: str) -> None:
    clean(SKIPPED.format(body=body))


EPOCHS = """
    import copy

    class Average:
        def __init__(self, net):
            self.shadow = copy.deepcopy(net)

        def update(self, net):
            for mine, its in zip(self.shadow.parameters(), net.parameters()):
                mine.data.lerp_(its.data, 0.01)

    class Runner:
        def __init__(self, net):
            self.net = net.cuda()
            self.average = Average(self.net)
            self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
            self.scaler = torch.amp.GradScaler("cuda")

        def epoch(self, loader):
            for x, y in loader:
                self.optimizer.zero_grad()
                with torch.amp.autocast("cuda", dtype=torch.float16):
                    loss = F.cross_entropy(self.net(x), y)
                self.scaler.scale(loss).backward()
                self.scaler.step(self.optimizer)
                self.scaler.update()
                self.average.update(self.net)

        def run(self, loader):
            for epoch in range(3):
                self.epoch(loader)
                {behind}

    Runner(nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2))).run(loader)
"""


@pytest.mark.parametrize(
    "behind",
    [
        "self.net = self.average.shadow",
        "self.net = copy.deepcopy(self.net)",
        "if epoch == 1: self.net = self.average.shadow",
    ],
)
def test_a_model_that_its_copy_replaces_is_told_where_it_does(marked: Check, behind: str) -> None:
    (found,) = marked(EPOCHS.format(behind=f"{behind}  # AMP617"))
    assert found.hint == (
        "load the values, self.net.load_state_dict(...), or make the optimizer anew of self.net.parameters()"
    )


@pytest.mark.parametrize(
    "behind",
    [
        "self.net.load_state_dict(self.average.shadow.state_dict())",
        "best = copy.deepcopy(self.net)",
        "kept = self.net; self.net = self.average.shadow; print(self.net(loader)); self.net = kept",
        "self.net = copy.deepcopy(self.net); self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)",
        "self.net = nn.parallel.DistributedDataParallel(self.net)",
        "if epoch == 2:\n                    self.net = self.average.shadow\n                    break",
        "\n            self.net = self.average.shadow",
    ],
)
def test_a_copy_beside_the_model_is_right(clean: Check, behind: str) -> None:
    clean(EPOCHS.format(behind=behind))


@pytest.mark.parametrize("told", ["x.requires_grad = True", "x.requires_grad_()", "x.requires_grad = ctx.size is None"])
def test_what_a_function_of_autograd_gives_has_the_gradients_of_what_it_takes(clean: Check, told: str) -> None:
    text = f"""
    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.size = a.size()[0] if a.dim() == 3 else None
            a, b = a.detach(), b.detach()
            if ctx.size is not None:
                a, b = torch.block_diag(*a), torch.cat([*b])
            x = torch.sparse.mm(a, b)
            if ctx.size is not None:
                x = x.view(ctx.size, 8, 4)
            {told}
            return x

        @staticmethod
        def backward(ctx, grad):
            return grad, None

    """
    step = STEP.replace(
        "F.cross_entropy({net}(x), y)",
        "Product.apply(torch.sparse_coo_tensor(at, net(x).reshape(-1), (8, 4)).coalesce(), y).mean()",
    )
    clean(text + step.format(between="pass", told=""))
