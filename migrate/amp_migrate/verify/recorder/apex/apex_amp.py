"""Apex scripts: answered by the shim where Apex is not installed, and followed like native ones."""

from __future__ import annotations

import functools
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import MethodType, ModuleType
from typing import TYPE_CHECKING, Any

from ..process.imports import after_import, once_after_import
from ..spec import RecorderSpec
from . import fp16_utils

if TYPE_CHECKING:
    from ..progress import Progress
    from ..record.steps import StepRecorder

_MODULES = ("apex.amp", "amp_shim.amp")


class _WhereApexIsMissing:
    """Asked last: `import apex` comes here only if nothing else answers it."""

    def __init__(self, spec: RecorderSpec) -> None:
        self._spec = spec
        self._asked = False

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if self._asked or name != "apex":
            return None
        self._asked = True
        import torch  # noqa: F401  (the recorder's hooks on torch come before the shim)

        from ..shim import load_shim

        load_shim(self._spec.shim)
        from amp_shim.install import install

        install()
        return importlib.util.find_spec(name)


def answer_imports(spec: RecorderSpec) -> None:
    """Have the shim answer `import apex` where Apex is not installed."""
    sys.meta_path.append(_WhereApexIsMissing(spec))


def keep_on_cpu() -> None:
    """Under the stand-in the shim must see a machine without a GPU, whatever `torch.cuda.is_available()` says."""

    def on_device(module: ModuleType) -> None:
        module.__dict__["device_type"] = lambda: "cpu"

    after_import("amp_shim.amp.casts.device", on_device)


def switch_off() -> None:
    """`amp.initialize` leaves models and optimizers alone."""

    def on_amp(amp: Any) -> None:
        initialize = amp.initialize

        @functools.wraps(initialize)
        def disabled(*args: Any, **kwargs: Any) -> Any:
            return initialize(*args, **{**kwargs, "enabled": False})

        amp.initialize = disabled

    once_after_import(_MODULES, "scale_loss", on_amp)
    fp16_utils.switch_off()


def follow(progress: Progress, steps: StepRecorder) -> None:
    """Record what `amp.scale_loss` scales and which optimizer steps it leaves out."""
    from ..record.losses import mark_scaled

    def on_amp(amp: Any) -> None:
        scale_loss = amp.scale_loss

        @contextmanager
        def followed(loss: Any, optimizers: Any, *args: Any, **kwargs: Any) -> Iterator[Any]:
            with scale_loss(loss, optimizers, *args, **kwargs) as scaled:
                mark_scaled(scaled, loss)
                yield scaled
            for scaler in _scalers(amp):
                progress.writer.put("scale", attempt=progress.attempts, scale=float(scaler.loss_scale()))
            for optimizer in optimizers if isinstance(optimizers, (list, tuple)) else [optimizers]:
                if getattr(getattr(optimizer, "_amp_stash", None), "already_patched", False):
                    _record_skip(optimizer, steps)

        amp.scale_loss = functools.wraps(scale_loss)(followed)

    once_after_import(_MODULES, "scale_loss", on_amp)
    fp16_utils.follow(progress, steps)


def _scalers(amp: Any) -> Sequence[Any]:
    state = amp._amp_state
    return getattr(getattr(state, "_amp_state", state), "loss_scalers", ())


def _record_skip(optimizer: Any, steps: StepRecorder) -> None:
    """The next `step()` does nothing but undo itself: record it as an attempt that was skipped."""
    skip = optimizer.step
    if getattr(skip, "recorded", False):
        return

    @functools.wraps(skip)
    def recorded(self: Any, *args: Any, **kwargs: Any) -> Any:
        steps.begin(self, scaled=True)
        result = skip(*args, **kwargs)
        steps.end(infs=1.0)
        return result

    recorded.__dict__["recorded"] = True
    optimizer.step = MethodType(recorded, optimizer)
