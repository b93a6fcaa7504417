"""Seeds: the same run index gives both arms the same random numbers, whatever the script seeds or forgets to seed."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from numbers import Integral
from types import ModuleType
from typing import Any

from ..spec import RecorderSpec

_UNASKED = 0  # stands for the seed of a script that asks for none
_MOST = 1000

_inside: list[bool] = []  # torch.manual_seed seeds the GPU's generators as well
asked_for: list[list[str]] = []  # (function, seed) of the script's calls, in order
_NUMPY_SEEDS = 2**32


def seed_python(spec: RecorderSpec) -> None:
    """Seed `random` now, and map every later `random.seed`."""
    random.seed = _mapped(random.seed, spec, "random.seed")
    random.seed(None)
    asked_for.clear()  # ours


def wrap_numpy(module: ModuleType, spec: RecorderSpec) -> None:
    """The same for `numpy.random`: the global state, and generators made by `default_rng`."""
    module.__dict__["seed"] = _mapped(module.__dict__["seed"], spec, "numpy.random.seed", _NUMPY_SEEDS)
    module.__dict__["default_rng"] = _mapped(module.__dict__["default_rng"], spec, "numpy.random.default_rng")
    module.__dict__["seed"](None)
    asked_for.pop()


def wrap_torch(torch: ModuleType, spec: RecorderSpec) -> None:
    """The same for torch. GPU generators follow `torch.manual_seed`; the GPU's own seeding functions are mapped too."""
    manual_seed = _mapped(torch.manual_seed, spec, "torch.manual_seed")
    for holder, name in ((torch, "manual_seed"), (torch.random, "manual_seed")):
        setattr(holder, name, manual_seed)
    for holder in (torch.cuda, torch.cuda.random):
        for name in ("manual_seed", "manual_seed_all"):
            setattr(holder, name, _mapped(getattr(holder, name), spec, f"torch.cuda.{name}"))
    manual_seed(_UNASKED)
    asked_for.pop()


def _mapped(
    original: Callable[..., Any], spec: RecorderSpec, called: str, modulus: int | None = None
) -> Callable[..., Any]:
    """`original` with its first argument, the seed, replaced by the run's effective seed.

    A seed that is neither missing nor a number (bytes, an array, a generator) is passed on as it is.
    """

    @functools.wraps(original)
    def seed(*args: Any, **kwargs: Any) -> Any:
        name, asked = ("", args[0]) if args else next(iter(kwargs.items()), ("", None))
        if not _inside and len(asked_for) < _MOST:
            asked_for.append([called, _told(asked)])
        if asked is None:
            effective: Any = spec.seed(_UNASKED)
        elif isinstance(asked, Integral):
            effective = spec.seed(int(asked))
        else:
            return original(*args, **kwargs)
        if modulus is not None:
            effective %= modulus
        _inside.append(True)
        try:
            if name:
                return original(**{**kwargs, name: effective})
            return original(effective, *args[1:], **kwargs)
        finally:
            _inside.pop()

    return seed


def _told(asked: Any) -> str:
    """A seed as any run would tell it: an object's address is of one run."""
    return repr(asked) if asked is None or isinstance(asked, (Integral, str, bytes)) else type(asked).__name__
