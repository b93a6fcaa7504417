"""Small trainings that Apex and the shim both run, for `benchmarks/apex_reference.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer


class Attention(nn.Module):
    """One head over the 8 columns of a picture, with the operations that O1 lists."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = nn.Linear(24, 32), nn.Linear(24, 32), nn.Linear(24, 32)
        self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, 5)

    def forward(self, x: Tensor) -> Tensor:
        columns = x.flatten(1, 2).transpose(1, 2)
        query, key, value = self.query(columns), self.key(columns), self.value(columns)
        mixed = torch.bmm(nn.functional.softmax(torch.bmm(query, key.transpose(1, 2)), dim=-1), value)
        output: Tensor = self.head(nn.functional.gelu(self.norm(mixed)).mean(1))
        return output


def convolutions() -> nn.Module:
    """Convolutions, batch norms, and a linear layer."""
    parts = [nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.BatchNorm2d(8), nn.ReLU()]
    return nn.Sequential(*parts, nn.Flatten(), nn.Linear(128, 5))


@dataclass(frozen=True)
class Case:
    """A training on pictures of noise in 5 classes.

    passes: backward passes before each step, each with a loss scaler of its own. delayed: all but the last of them
    with `delay_unscale`, and with its scaler. overflows: steps at which the first pass meets an inf. resumed: a step
    before which all is saved, and loaded into a new model, optimizer and amp.
    """

    name: str
    model: Callable[[], nn.Module]
    optimizer: Callable[[Any], Optimizer]
    passes: int = 1
    delayed: bool = False
    overflows: frozenset[int] = frozenset()
    resumed: int | None = None


def _sgd(params: Any) -> Optimizer:
    return torch.optim.SGD(params, lr=0.05, momentum=0.9)


def _adam(params: Any) -> Optimizer:
    return torch.optim.Adam(params, lr=1e-3, eps=1e-4)


_INFS = frozenset({0, 7, 8})
CASES = (
    Case("convolutions, SGD", convolutions, _sgd),
    Case("attention, Adam", Attention, _adam),
    Case("convolutions, two losses, overflows", convolutions, _sgd, passes=2, overflows=_INFS),
    Case("attention, delayed unscaling, overflows", Attention, _adam, passes=2, delayed=True, overflows=_INFS),
    Case("attention, resumed after an overflow", Attention, _adam, overflows=_INFS, resumed=9),
)


def batches(case: Case, step: int, device: str) -> Iterator[tuple[Tensor, Tensor]]:
    """The pictures and their classes for each pass of a step; four steps repeat."""
    for number in range(case.passes):
        source = torch.Generator().manual_seed(1000 * number + step % 4)
        x, y = torch.randn(16, 3, 8, 8, generator=source), torch.randint(5, (16,), generator=source)
        yield x.to(device), y.to(device)


def poison(model: nn.Module) -> None:
    """Put an inf into every gradient."""
    for param in model.parameters():
        if param.grad is not None:
            param.grad.view(-1)[0] = float("inf")
