"""AMP616: a scaler beside Horovod's optimizer, which adds up gradients in its step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]

MADE = """
        import horovod.torch as hvd

        def main(loader):
            model = nn.Linear(4, 2)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            optimizer = {wrapper}(optimizer, named_parameters=model.named_parameters())
            scaler = torch.amp.GradScaler("cuda")
            train(model, optimizer, scaler, loader)

        def train(model, optimizer, scaler, loader):
            for x, y in loader:
                optimizer.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = F.cross_entropy(model(x), y)
                scaler.scale(loss).backward()
                {rest}
                scaler.update()

        main(loader)
"""
CLIP = """scaler.unscale_(optimizer){mark}
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                scaler.step(optimizer)"""
WAITED = """optimizer.synchronize()
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                with optimizer.skip_synchronize():
                    scaler.step(optimizer)"""


@pytest.mark.parametrize("rest", ["scaler.step(optimizer)  # AMP616", CLIP.format(mark="  # AMP616")])
def test_the_first_read_of_gradients_that_are_still_added_up_is_told(rest: str, marked: Check) -> None:
    marked(MADE.format(wrapper="hvd.DistributedOptimizer", rest=rest))


@pytest.mark.parametrize(
    ("wrapper", "rest"),
    [("hvd.DistributedOptimizer", WAITED), ("keep", CLIP.format(mark="")), ("keep", "scaler.step(optimizer)")],
)
def test_gradients_that_are_complete_are_not(wrapper: str, rest: str, clean: Check) -> None:
    clean(MADE.format(wrapper=wrapper, rest=rest))


def test_to_wait_for_the_gpu_is_not_to_wait_for_gradients(marked: Check) -> None:
    rest = "torch.cuda.synchronize()\n                scaler.step(optimizer)  # AMP616"
    marked(MADE.format(wrapper="hvd.DistributedOptimizer", rest=rest))
