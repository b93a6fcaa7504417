"""However the old name is imported, called and filled: the new call's arguments mean what the old ones meant.

The migrated text is run with the real signatures of today's PyTorch: what Python binds, not what the text looks like,
is compared.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.settings import Settings
from hypothesis import given, settings
from hypothesis import strategies as st

AUTOCAST = {"enabled": st.booleans(), "dtype": st.sampled_from(["float16", "bfloat16"]), "cache_enabled": st.booleans()}
GRAD_SCALER = {
    "init_scale": st.sampled_from([1.0, 1024.0, 65536.0]),
    "growth_factor": st.sampled_from([1.5, 2.0]),
    "backoff_factor": st.sampled_from([0.25, 0.5]),
    "growth_interval": st.integers(1, 4000),
    "enabled": st.booleans(),
}
OLD_DEFAULTS: dict[str, dict[str, Any]] = {
    "autocast": {"enabled": True, "dtype": {"cuda": torch.float16, "cpu": torch.bfloat16}, "cache_enabled": True},
    "GradScaler": {
        "init_scale": 2.0**16,
        "growth_factor": 2.0,
        "backoff_factor": 0.5,
        "growth_interval": 2000,
        "enabled": True,
    },
}


@dataclass(frozen=True)
class Call:
    """One call of a deprecated name.

    Attributes:
        imports: the statement that binds the name.
        name: how the name is written.
        device, kind: what it stands for.
        given: the arguments by name; the first `positional` of them are passed without it.
    """

    imports: str
    name: str
    device: str
    kind: str
    given: dict[str, Any]
    positional: int
    one_a_line: bool

    @property
    def text(self) -> str:
        written = {name: f"th.{value}" if name == "dtype" else repr(value) for name, value in self.given.items()}
        args = [
            value if place < self.positional else f"{name}={value}"
            for place, (name, value) in enumerate(written.items())
        ]
        inside = ", ".join(args)
        if self.one_a_line and args:
            inside = "\n" + "".join(f"    {arg},  # {place}\n" for place, arg in enumerate(args))
        return f"import torch as th\n{self.imports}\nresult = {self.name}({inside})\n"

    @property
    def meaning(self) -> dict[str, Any]:
        """What the old signature makes of the arguments."""
        defaults = dict(OLD_DEFAULTS[self.kind])
        if self.kind == "autocast":
            defaults["dtype"] = defaults["dtype"][self.device]
        given = {name: getattr(torch, value) if name == "dtype" else value for name, value in self.given.items()}
        return defaults | given


@st.composite
def calls(draw: st.DrawFn) -> Call:
    kind = draw(st.sampled_from(["autocast", "GradScaler"]))
    device = draw(st.sampled_from(["cuda", "cpu"]))
    alias = draw(st.sampled_from(["", "old"]))
    as_alias = f" as {alias}" if alias else ""
    imports, name = draw(
        st.sampled_from(
            [
                ("import torch", f"torch.{device}.amp.{kind}"),
                (f"import torch.{device}.amp", f"torch.{device}.amp.{kind}"),
                ("", f"th.{device}.amp.{kind}"),
                (f"from torch.{device}.amp import {kind}{as_alias}", alias or kind),
                (f"from torch.{device} import amp{as_alias}", f"{alias or 'amp'}.{kind}"),
                (f"import torch.{device}.amp as {alias or 'amp'}", f"{alias or 'amp'}.{kind}"),
                (f"from torch import {device}{as_alias}", f"{alias or device}.amp.{kind}"),
                (f"amp = th.{device}.amp", f"amp.{kind}"),
            ]
        )
    )
    parameters = AUTOCAST if kind == "autocast" else GRAD_SCALER
    count = draw(st.integers(0, len(parameters)))
    positional = draw(st.integers(0, count))
    names = [*list(parameters)[:positional]]
    rest = [name for name in parameters if name not in names]
    names += draw(st.permutations(rest))[: count - positional]
    given = {name: draw(parameters[name]) for name in names}
    return Call(imports, name, device, kind, given, positional, draw(st.booleans()))


class Recorder:
    """Takes the place of a class and keeps what a call binds to its parameters."""

    def __init__(self, signature: inspect.Signature) -> None:
        self.signature = signature

    def __call__(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        return dict(self.signature.bind(*args, **kwargs).arguments)


def bound(text: str, kind: str) -> dict[str, Any]:
    """Run a migrated text, with the class it calls replaced by a recorder of the same signature."""
    real: Callable[..., Any] = getattr(torch.amp, kind)
    recorder = Recorder(inspect.signature(real))
    space: dict[str, Any] = {}
    setattr(torch.amp, kind, recorder)
    try:
        exec(compile(text, "migrated.py", "exec"), space)
    finally:
        setattr(torch.amp, kind, real)
    result: dict[str, Any] = space["result"]
    return result


@given(calls())
@settings(max_examples=100, deadline=None)
def test_new_call_binds_what_the_old_one_meant(call: Call) -> None:
    plan = migrate_text(call.text, Settings())
    assert f"{call.device}.amp.{call.kind}(" not in plan.after
    with warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)
        arguments = bound(plan.after, call.kind)
    device = arguments.pop("device_type" if call.kind == "autocast" else "device")
    assert device == call.device
    # What is not passed has the same default before and after; the old default dtype has to be passed,
    # to a region that is not off for good.
    is_off = arguments.get("enabled") is False
    assert {**call.meaning, **arguments} == call.meaning
    assert set(call.given) <= set(arguments)
    assert call.kind == "GradScaler" or is_off or arguments["dtype"] == call.meaning["dtype"]


@given(calls())
@settings(max_examples=30, deadline=None)
def test_comments_in_a_call_survive(call: Call) -> None:
    after = migrate_text(call.text, Settings()).after
    assert after.count("#") == call.text.count("#")
    compile(after, "migrated.py", "exec")


def test_defaults_assumed_of_the_old_classes_are_theirs() -> None:
    for device in ("cuda", "cpu"):
        for kind, defaults in OLD_DEFAULTS.items():
            old = getattr(getattr(torch, device).amp, kind)
            expected = {name: value[device] if name == "dtype" else value for name, value in defaults.items()}
            parameters = inspect.signature(old.__init__).parameters
            assert {name: parameters[name].default for name in expected} == expected
