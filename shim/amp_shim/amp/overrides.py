"""Which properties of an opt level a script may override, and by what."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from amp_shim.amp.properties import Properties
from amp_shim.amp.state import warn_or_err


def override(properties: Properties, name: str, value: Any) -> Properties:
    """The properties with one changed by the script.

    Raises RuntimeError where the opt level forbids it, ValueError for a loss scale that is no number, and
    AssertionError for a `keep_batchnorm_fp32` that is neither true nor false.
    """
    return replace(properties, **{name: _CHECKS[name](properties, value)})


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
