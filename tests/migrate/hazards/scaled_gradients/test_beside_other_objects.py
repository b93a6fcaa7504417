"""What one object has, or one call has made, is not there where another runs: it hides no hazard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]

LEARNER = """
class Learner:
    def __init__(self, model):
        self.model = model

    def set_optimizer(self, optimizer):
        self.optimizer = optimizer

    def warm_up(self, args, loader):
        scaler = torch.amp.GradScaler("cuda")
        for x, y in loader:
            with torch.amp.autocast("cuda", dtype=torch.float16):
                loss = F.cross_entropy(self.model(x.cuda()), y.cuda())
            scaler.scale(loss).backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), args.clip)  # AMP601
            scaler.step(self.optimizer)
            scaler.update()
            self.model.zero_grad()

    def train(self, args, loader):
        scaler = torch.amp.GradScaler("cuda"){anew}
        for x, y in loader:
            with torch.amp.autocast("cuda", enabled=args.amp):
                loss = F.cross_entropy(self.model(x.cuda()), y.cuda())
            if args.amp:
                scaler.scale(loss).backward()
                if args.clip > 0:
                    nn.utils.clip_grad_norm_(self.model.parameters(), args.clip)  # AMP601
                scaler.step(self.optimizer)
                scaler.update()
            else:
                loss.backward()
                self.optimizer.step()
            self.model.zero_grad()


def main(args, loader):
    model = nn.Linear(3, 3).cuda()
    learner = Learner(model)
    learner.set_optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    {run}
"""


@pytest.mark.parametrize(
    ("run", "anew"),
    [
        ("learner.train(args, loader)", ""),
        ("go = learner.train\n    for epoch in range(9):\n        go(args, loader)", "  # AMP614"),
    ],
)
def test_a_method_that_nobody_calls_beside_one_that_is_called(marked: Check, run: str, anew: str) -> None:
    marked(LEARNER.format(run=run, anew=anew))


SEVERAL = """
def optimizer_of(net, name):
    parts = [{"params": [each for _, each in net.named_parameters()]}]
    if name == "SGD":
        return torch.optim.SGD(parts, lr=0.1)
    return torch.optim.AdamW(parts)


def make(name, deep):
    if deep:
        return nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    return nn.Linear(3, 3)


def worker(gpu, args, loader):
    model = make(args.net, args.deep).cuda()
    optimizer = optimizer_of(model, args.optimizer)
    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        with torch.amp.autocast("cuda", dtype=torch.float16):
            loss = F.cross_entropy(model(x.cuda()), y.cuda())
        scaler.scale(loss).backward()
        nn.utils.clip_grad_norm_(model.parameters(), args.clip)  # AMP601
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()


def main(args, loader):
    if args.distributed:
        torch.multiprocessing.spawn(worker, nprocs=4, args=(args, loader))
    else:
        worker(args.gpu, args, loader)
"""


def test_what_two_calls_make_is_one_thing_in_each(marked: Check) -> None:
    marked(SEVERAL)


@pytest.mark.parametrize("own", ["optimizer", "None"])
def test_one_object_steps_what_another_computes_of_what_both_are_given(marked: Check, own: str) -> None:
    marked(
        f"""
        class Half:
            def __init__(self, model, optimizer, scaler):
                self.model, self.optimizer, self.scaler = model, optimizer, scaler

            def learn(self, x, y):
                with torch.amp.autocast("cuda", dtype=torch.float16):
                    loss = F.mse_loss(self.model(x), y)
                self.scaler.scale(loss).backward()

            def finish(self):
                nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)  # AMP601
                self.scaler.step(self.optimizer)
                self.scaler.update()
                self.optimizer.zero_grad()

        def main(model, optimizer, loader):
            scaler = torch.amp.GradScaler("cuda")
            first, second = Half(model, {own}, scaler), Half(model, optimizer, scaler)
            for x, y in loader:
                first.learn(x, y)
                second.finish()
        """
    )
