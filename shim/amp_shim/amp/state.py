"""What Apex keeps for the whole process. Scripts read it as `amp._amp_state`."""

from __future__ import annotations

from collections.abc import Iterator

import torch.distributed as dist
from torch.nn import Parameter
from torch.optim import Optimizer

from amp_shim.amp.casts.torch_functions import CastHandle
from amp_shim.amp.properties import Properties
from amp_shim.amp.scaling.scaler import LossScaler


class AmpState:
    """The fields that scripts read and write.

    opt_properties: what `amp.initialize` settled on; None before the first call. loss_scalers: one per loss, in the
    order of `loss_id`. handle: the casts of O1; None while none were asked for. verbosity: 0 silences the prints.
    hard_override: errors about contradictory options are printed instead of raised. allow_incoming_model_not_fp32:
    `initialize` accepts models that are in half already. forced_opt_level: the level that replaces the script's own.
    """

    def __init__(self) -> None:
        self.opt_properties: Properties | None = None
        self.loss_scalers: list[LossScaler] = []
        self.handle: CastHandle | None = None
        self.verbosity = 1
        self.hard_override = False
        self.allow_incoming_model_not_fp32 = False
        self.forced_opt_level: str | None = None
        self.min_loss_scale: float | None = None
        self.max_loss_scale: float = 2.0**24


_amp_state = AmpState()


def reset() -> None:
    """Take off the process what `initialize` and `init` have put in force: its casts, its loss scales, its options.

    For a process that trains more than once, or trains first and evaluates in float32 then. Models and optimizers stay
    as they are.
    """
    if _amp_state.handle is not None:
        _amp_state.handle._deactivate()
    vars(_amp_state).update(vars(AmpState()))


def maybe_print(message: str, rank0: bool = False) -> None:
    """Print unless verbosity is 0; with `rank0`, on the first process of a distributed run only."""
    if _amp_state.verbosity > 0 and not (rank0 and _rank() != 0):
        print(message)


def warn_or_err(message: str) -> None:
    """Raise RuntimeError, or print where the script has set `_amp_state.hard_override`."""
    if not _amp_state.hard_override:
        raise RuntimeError(message)
    print(f"Warning: {message}")


def master_params(optimizer: Optimizer) -> Iterator[Parameter]:
    """The parameters that the optimizer steps: float32 masters at O2, the model's own otherwise.

    A generator, for `torch.nn.utils.clip_grad_norm_(amp.master_params(optimizer), 1.0)` after `scale_loss`.
    """
    for group in optimizer.param_groups:
        yield from group["params"]


def _rank() -> int:
    return dist.get_rank() if dist.is_available() and dist.is_initialized() else 0
