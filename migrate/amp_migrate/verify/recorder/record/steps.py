"""Optimizer steps: which parameters had gradients, in which dtypes, through which scaler, and the first ones' norms."""

from __future__ import annotations

import functools
import itertools
import weakref
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from ..progress import Attempt, Progress, is_looked_at, is_sampled
from .norms import Norms, norm_of
from .scaler import found_inf

_PLAIN = (bool, int, float, str)
_SOME_TIME = 10**6  # steps between two growths of a loss scale that is never to grow


class StepRecorder:
    """Records a `step` event for every attempt at an optimizer step."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._norms = Norms()
        self._fields: dict[str, Any] = {}
        self._by_hand: Any = None  # what stands for an optimizer, while the script makes a step itself
        self._seen: set[int] = set()  # optimizers whose parameters were looked at
        self._told: dict[int, list[dict[str, Any]]] = {}  # what each optimizer's groups held at its last attempt
        self._withheld: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._optimizers: dict[int, weakref.ref[Any]] = {}
        self._left: dict[
            int, torch.Tensor | None
        ] = {}  # norms of what the last steps have left, where nothing zeroed it
        self._ordinals = itertools.count()
        self._scalers: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()

    def install(self) -> None:
        """Hook into every optimizer of the process."""
        register_optimizer_step_pre_hook(lambda optimizer, args, kwargs: self._before_step(optimizer))
        register_optimizer_step_post_hook(lambda optimizer, args, kwargs: self._after_step(optimizer))
        for kind in (torch.optim.Optimizer, torch.nn.Module):
            self.count_zeroing(kind)
        self._progress.at_first_backward.append(self._look_back)

    def count_zeroing(self, kind: Any) -> None:
        """Count the calls of `zero_grad()` of a class."""
        zero_grad = kind.zero_grad
        progress = self._progress

        @functools.wraps(zero_grad)
        def counted(this: Any, *args: Any, **kwargs: Any) -> Any:
            progress.zeroed += 1
            return zero_grad(this, *args, **kwargs)

        kind.zero_grad = counted

    def scaled(self) -> None:
        """From now on a step has to go through the scaler."""
        self._progress.loss_scaled = True

    def begin(self, optimizer: torch.optim.Optimizer, scaled: bool) -> Attempt:
        """Start an attempt: which parameters have gradients is known even if the step is then skipped."""
        self.end_by_hand()
        progress = self._progress
        attempt = progress.begin(optimizer, scaled)
        self._fields = {
            "index": attempt.index,
            "optimizer": attempt.optimizer,
            **self._look(attempt, optimizer),
            "autocast": progress.autocast_on(),
            "past_scaler": progress.loss_scaled and not scaled,
            "zeroed": progress.zeroed or self._zeroed_by_hand(attempt.optimizer),
            **self._zeros(attempt, optimizer),
            **self._settings(attempt, optimizer),
        }
        progress.zeroed = 0
        self._left = {}
        self._optimizers[attempt.optimizer] = weakref.ref(optimizer)
        if scaled:
            progress.loss_scaled = False
        if progress.clip_norm is not None:
            self._fields["clip_norm"], self._fields["clip_limit"] = progress.clip_norm
            progress.clip_norm = None
        return attempt

    def end(self, infs: Any = 0.0) -> None:
        """Finish the attempt. `infs`: not 0 where a loss scaler met infs; a tensor is read later."""
        attempt = self._progress.current
        assert attempt is not None
        self._progress.writer.put("step", **self._fields, stepped=attempt.stepped, found_inf=infs)
        self._progress.end()

    def begin_by_hand(self, this: Any) -> None:
        """Start a step that the script makes itself. Its gradients may be scaled still: only its update is told."""
        attempt = self.begin(this, scaled=False)
        attempt.stepped = True
        self._by_hand = this
        if not self._progress.spec.profile and self._norms.wanted(attempt, this):
            self._norms.before(this, _parameters(this))

    def end_by_hand(self) -> None:
        """Finish it, where one is under way."""
        this, self._by_hand = self._by_hand, None
        if this is None:
            return
        if self._norms.under_way:
            self._fields["update_norm"] = self._norms.after(_parameters(this))
        self.end()

    def end_scaled(self, scaler: Any, optimizer: torch.optim.Optimizer) -> None:
        """Finish an attempt that a native loss scaler made."""
        self.end(found_inf(scaler, optimizer))

    def updated(self, scaler: Any) -> None:
        """Record the scale after an update."""
        if scaler not in self._scalers:
            self._scalers[scaler] = next(self._ordinals)
        self._progress.writer.put(
            "scale",
            attempt=self._progress.attempts,
            scaler=self._scalers[scaler],
            scale=scaler._scale.clone(),
            grows=scaler.get_growth_factor() > 1 and scaler.get_growth_interval() <= _SOME_TIME,
        )

    def _look_back(self) -> None:
        """What of gradients is there still where a new one is to come and no `zero_grad()` was called."""
        if self._progress.zeroed or self._progress.spec.profile:
            return
        for ordinal, known in self._optimizers.items():
            optimizer = known()
            if optimizer is not None:
                self._left[ordinal] = norm_of([p.grad for p in _parameters(optimizer) if p.grad is not None])

    def _zeroed_by_hand(self, ordinal: int) -> Any:
        """Whether nothing is left, as after `p.grad = None`; a tensor is read later."""
        if ordinal not in self._left:
            return 0
        left = self._left[ordinal]
        return 1 if left is None else left == 0

    def _zeros(self, attempt: Attempt, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        """How many elements of each parameter's gradient are zero; nothing for an attempt that is not sampled."""
        if not is_sampled(attempt.index) or self._progress.spec.profile:
            return {}
        gradients = [parameter.grad for parameter in _parameters(optimizer)]
        return {"zeros": [-1.0 if g is None or g.layout is not torch.strided else (g == 0).sum() for g in gradients]}

    def _settings(self, attempt: Attempt, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        """What the groups hold beside tensors, which would be waited for; nothing where that stays as it was."""
        now = [{key: each for key, each in group.items() if _is_plain(each)} for group in optimizer.param_groups]
        if now == self._told.get(attempt.optimizer):
            return {}
        self._told[attempt.optimizer] = now
        return {"settings": now}

    def _look(self, attempt: Attempt, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        """What the parameters are; nothing where they are not looked at: what was seen last holds."""
        first = attempt.optimizer not in self._seen
        if not first and not is_looked_at(self._progress.attempts_of(attempt.optimizer)):
            return {}
        self._seen.add(attempt.optimizer)
        parameters = _parameters(optimizer)
        now = {
            "grads": "".join(["0" if p.grad is None else "1" for p in parameters]),
            "dtypes": sorted(str(dtype).removeprefix("torch.") for dtype in {p.dtype for p in parameters}),
        }
        return {**now, "shapes": [list(p.shape) for p in parameters]} if first else now

    def _before_step(self, optimizer: torch.optim.Optimizer) -> None:
        self.end_by_hand()
        attempt = self._progress.current or self.begin(optimizer, scaled=False)
        attempt.stepped = True
        spec = self._progress.spec
        if spec.profile:  # nothing of ours belongs into a profile
            return
        if attempt.index in spec.skips:
            self._withhold_gradients(_parameters(optimizer))
            attempt.stepped = False
        elif self._norms.wanted(attempt, optimizer):
            self._fields["grad_norm"] = self._norms.before(optimizer, _parameters(optimizer))

    def _after_step(self, optimizer: torch.optim.Optimizer) -> None:
        attempt = self._progress.current
        if attempt is None:  # a step within a step: an optimizer that wraps another
            return
        if self._norms.under_way:
            self._fields["update_norm"] = self._norms.after(_parameters(optimizer))
        for parameter, gradient in self._withheld:
            parameter.grad = gradient
        self._withheld = []
        if not attempt.scaled:
            self.end(infs=0.0 if attempt.stepped else 1.0)

    def _withhold_gradients(self, parameters: list[torch.Tensor]) -> None:
        """Leave the step out as a loss scaler would: an optimizer does nothing for a parameter without a gradient."""
        for parameter in parameters:
            if parameter.grad is not None:
                self._withheld.append((parameter, parameter.grad))
                parameter.grad = None


def _is_plain(value: Any) -> bool:
    return isinstance(value, _PLAIN) or (type(value) is tuple and all(isinstance(each, _PLAIN) for each in value))


def _parameters(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [p for group in optimizer.param_groups for p in group["params"]]
