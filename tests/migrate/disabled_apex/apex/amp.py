"""What `apex.amp` does after `amp.initialize(..., enabled=False)`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import torch


def initialize(models: Any, optimizers: Any = None, **options: Any) -> Any:
    """The models and the optimizers as they are."""
    return models if optimizers is None else (models, optimizers)


@contextlib.contextmanager
def scale_loss(loss: torch.Tensor, optimizers: Any, **options: Any) -> Iterator[torch.Tensor]:
    """The loss itself."""
    yield loss


def master_params(optimizer: torch.optim.Optimizer) -> Iterator[torch.Tensor]:
    """The parameters that the optimizer steps."""
    for group in optimizer.param_groups:
        yield from group["params"]


def state_dict() -> dict[str, Any]:
    """No scaler, no state."""
    return {}


def load_state_dict(state: dict[str, Any]) -> None:
    """No scaler, nothing to restore."""


def float_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as it is."""
    return function


@contextlib.contextmanager
def disable_casts() -> Iterator[None]:
    """Nothing is cast."""
    yield


def register_half_function(module: Any, name: str) -> None:
    """Nothing is cast."""


def register_float_function(module: Any, name: str) -> None:
    """Nothing is cast."""


_amp_state = SimpleNamespace(loss_scalers=[SimpleNamespace(loss_scale=lambda: 1.0)])
