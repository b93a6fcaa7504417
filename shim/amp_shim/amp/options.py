"""Opt levels: the properties each one sets, and which of them a script may override."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch

from amp_shim.amp.state import warn_or_err

ROWS = (
    "enabled",
    "opt_level",
    "cast_model_type",
    "patch_torch_functions",
    "keep_batchnorm_fp32",
    "master_weights",
    "loss_scale",
)


@dataclass(frozen=True)
class Properties:
    """The settled options of `amp.initialize`, under Apex's names.

    cast_model_type: dtype of the model's weights and inputs, None to leave them. patch_torch_functions: operators are
    cast one by one, to `patch_torch_functions_type`. keep_batchnorm_fp32: affine batch norms stay float32.
    master_weights: the optimizer steps float32 copies. loss_scale: "dynamic" or a constant.
    """

    enabled: bool = False
    opt_level: str | None = None
    cast_model_type: torch.dtype | bool | None = None
    patch_torch_functions: bool = False
    keep_batchnorm_fp32: bool | None = None
    master_weights: bool | None = None
    loss_scale: float | str = 1.0
    patch_torch_functions_type: torch.dtype = torch.float16

    @property
    def options(self) -> dict[str, Any]:
        """The seven properties that `initialize` prints, by name; scripts read them so too."""
        return {name: getattr(self, name) for name in ROWS}

    @property
    def casts_operators(self) -> bool:
        """Whether this is a level of O1's kind, whose weights stay float32."""
        return self.opt_level in ("O1", "O4")

    def override(self, name: str, value: Any) -> Properties:
        """These properties with one changed by the script.

        Raises RuntimeError where the opt level forbids it, ValueError for a loss scale that is no number, and
        AssertionError for a `keep_batchnorm_fp32` that is neither true nor false.
        """
        return replace(self, **{name: _CHECKS[name](self, value)})

    def table(self) -> str:
        """Seven lines, `name : value`, as `initialize` prints them."""
        return "\n".join(f"{name:22} : {value}" for name, value in self.options.items())


LEVELS: dict[str, tuple[str, Properties]] = {
    "O0": ("Pure FP32 training", Properties(True, "O0", torch.float32, False, None, False, 1.0)),
    "O1": ("Insert automatic casts around safe operators", Properties(True, "O1", None, True, None, None, "dynamic")),
    "O2": (
        "FP16 training with FP32 batchnorm and FP32 master weights",
        Properties(True, "O2", torch.float16, False, True, True, "dynamic"),
    ),
    "O3": ("Pure FP16 training", Properties(True, "O3", torch.float16, False, False, False, 1.0)),
    "O4": (
        "Insert automatic casts to BF16 around safe operators",
        Properties(True, "O4", None, True, None, None, 1.0, torch.bfloat16),
    ),
    "O5": (
        "BF16 training with FP32 batchnorm and FP32 master weights",
        Properties(True, "O5", torch.bfloat16, False, True, True, 1.0),
    ),
}
"""What each level does in one phrase, and its properties. O4 and O5 are those of ROCm's Apex."""


def level_properties(opt_level: str) -> tuple[str, Properties]:
    """The phrase and the properties of an opt level. Raises RuntimeError for an unknown one."""
    if opt_level not in LEVELS:
        raise RuntimeError(
            f"Unexpected optimization level {opt_level!r}. Options are {', '.join(repr(level) for level in LEVELS)}; "
            "the first character is the letter O, not zero."
        )
    return LEVELS[opt_level]


def _cast_model_type(properties: Properties, value: Any) -> Any:
    if properties.casts_operators and value is not False and value is not torch.float32:
        warn_or_err(
            f"{properties.opt_level} casts operators, not the model: cast_model_type={value} contradicts it. "
            "Leave cast_model_type out, or use O2 or O3 to cast the model."
        )
    return value


def _patch_torch_functions(properties: Properties, value: Any) -> Any:
    if value and not properties.casts_operators:
        warn_or_err("patch_torch_functions=True belongs to O1. Use opt_level='O1' for casts around operators.")
    return value


def _keep_batchnorm_fp32(properties: Properties, value: Any) -> bool:
    if properties.casts_operators:
        warn_or_err(
            f"{properties.opt_level} keeps every weight in float32 and batch norms run at the type of their input: "
            "keep_batchnorm_fp32 has no meaning there. Leave it out."
        )
    named = {"True": True, "False": False}.get(value, value) if isinstance(value, str) else value
    assert isinstance(named, bool), f"keep_batchnorm_fp32 must be a boolean, 'True' or 'False', found {value!r}"
    return named


def _master_weights(properties: Properties, value: Any) -> Any:
    if properties.casts_operators:
        warn_or_err(
            f"{properties.opt_level} trains float32 weights, so master_weights has no meaning there. Leave it out."
        )
    return value


def _loss_scale(properties: Properties, value: Any) -> float | str:
    return "dynamic" if value == "dynamic" else float(value)


_CHECKS = {
    "cast_model_type": _cast_model_type,
    "patch_torch_functions": _patch_torch_functions,
    "keep_batchnorm_fp32": _keep_batchnorm_fp32,
    "master_weights": _master_weights,
    "loss_scale": _loss_scale,
}
