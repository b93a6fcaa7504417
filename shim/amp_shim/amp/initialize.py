"""`model, optimizer = amp.initialize(model, optimizer, opt_level="O1")`"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import nn
from torch.optim import Optimizer

from amp_shim.amp.casts.device import device_type
from amp_shim.amp.casts.models import cast_model, cast_outputs
from amp_shim.amp.handle import activate_casts
from amp_shim.amp.optimizer import attach
from amp_shim.amp.overrides import override
from amp_shim.amp.properties import Properties, level_properties
from amp_shim.amp.scaling.scaler import LossScaler
from amp_shim.amp.state import _amp_state, maybe_print
from amp_shim.parallel.larc import LARC


def initialize(
    models: Any,
    optimizers: Any = None,
    enabled: bool = True,
    opt_level: str = "O1",
    cast_model_type: torch.dtype | bool | None = None,
    patch_torch_functions: bool | None = None,
    keep_batchnorm_fp32: bool | str | None = None,
    master_weights: bool | None = None,
    loss_scale: float | str | None = None,
    cast_model_outputs: torch.dtype | None = None,
    num_losses: int = 1,
    verbosity: int = 1,
    min_loss_scale: float | None = None,
    max_loss_scale: float = 2.0**24,
) -> Any:
    """Prepare models and optimizers for mixed precision, in place, and return the same objects.

    Args:
        models: a module, or a list of them.
        optimizers: an optimizer, a LARC around one, a list of them, or None for inference.
        enabled: False makes the whole API pass values through.
        opt_level: "O0" float32, "O1" casts around operators, "O2" half model with float32 masters, "O3" half model;
            "O4" and "O5" are O1 and O2 in bfloat16.
        cast_model_type, patch_torch_functions, keep_batchnorm_fp32, master_weights, loss_scale: override one property
            of the opt level; None leaves it.
        cast_model_outputs: the dtype that floating outputs of the models are cast to.
        num_losses: how many loss scalers to make, for `scale_loss(..., loss_id=...)`.
        verbosity: 0 prints nothing; 2 prints every cast of O1 and O4 too.
        min_loss_scale, max_loss_scale: bounds of a dynamic loss scale.

    Returns:
        `models` alone if `optimizers` is None, else `(models, optimizers)`.

    Raises:
        TypeError: `models` or `optimizers` is of another kind (a tuple, for instance).
        RuntimeError: unknown opt level, an override that contradicts it, a model that is in half or not on the GPU
            already or is wrapped for parallel training, an optimizer that was initialized before, an FP16_Optimizer.
        ValueError: a loss scale that is neither "dynamic" nor a number.
    """
    _amp_state.opt_properties = Properties()
    _amp_state.verbosity = verbosity
    if enabled:
        overrides = {
            "cast_model_type": cast_model_type,
            "patch_torch_functions": patch_torch_functions,
            "keep_batchnorm_fp32": keep_batchnorm_fp32,
            "master_weights": master_weights,
            "loss_scale": loss_scale,
        }
        level = _amp_state.forced_opt_level or opt_level
        properties = _settle(level, {name: value for name, value in overrides.items() if value is not None})
        _amp_state.min_loss_scale, _amp_state.max_loss_scale = min_loss_scale, max_loss_scale
        _apply(_models(models), _optimizers(optimizers), properties, cast_model_outputs)
        _amp_state.opt_properties = properties
        _amp_state.loss_scalers = [
            LossScaler(properties.loss_scale, min_loss_scale=min_loss_scale, max_loss_scale=max_loss_scale)
            for _ in range(num_losses)
        ]
    return models if optimizers is None else (models, optimizers)


def _settle(opt_level: str, overrides: dict[str, Any]) -> Properties:
    if not torch.backends.cudnn.enabled:
        raise RuntimeError("amp needs cuDNN, and torch.backends.cudnn.enabled is False; set it to True")
    phrase, properties = level_properties(opt_level)
    maybe_print(f"Selected optimization level {opt_level}:  {phrase}.\n", True)
    maybe_print(f"Defaults for this optimization level are:\n{properties.table()}", True)
    for name, value in overrides.items():
        properties = override(properties, name, value)
    maybe_print("Processing user overrides (additional kwargs that are not None)...", True)
    maybe_print(f"After processing overrides, optimization options are:\n{properties.table()}", True)
    return properties


def _apply(
    models: Sequence[nn.Module],
    optimizers: Sequence[Optimizer],
    properties: Properties,
    cast_model_outputs: torch.dtype | None,
) -> None:
    for model in models:
        _check_model(model)
    for model in models:
        if properties.cast_model_type:
            cast_model(model, properties, cast_model_outputs)
        elif cast_model_outputs is not None:
            cast_outputs(model, cast_model_outputs)
    for optimizer in optimizers:
        if properties.cast_model_type and optimizer.state:
            # Loading casts floating state to the dtype of its parameter, which has just changed.
            optimizer.load_state_dict(optimizer.state_dict())
        attach(optimizer, properties)
    if properties.patch_torch_functions:
        activate_casts(properties.patch_torch_functions_type, verbose=_amp_state.verbosity == 2)


def _models(models: Any) -> list[nn.Module]:
    if isinstance(models, nn.Module):
        return [models]
    if isinstance(models, list):
        return models
    raise TypeError(
        f"amp.initialize: models must be a torch.nn.Module or a list of them, found {type(models).__name__}"
    )


def _optimizers(optimizers: Any) -> list[Optimizer]:
    if optimizers is None:
        return []
    for optimizer in optimizers if isinstance(optimizers, list) else [optimizers]:
        if hasattr(optimizer, "fp32_from_fp16_groups"):
            raise RuntimeError(
                "amp.initialize: FP16_Optimizer keeps masters and scales the loss itself; pass the optimizer it wraps"
            )
    if isinstance(optimizers, (Optimizer, LARC)):
        return [cast(Optimizer, optimizers)]  # LARC has every method of an optimizer that amp uses
    if isinstance(optimizers, list):
        return optimizers
    found = type(optimizers).__name__
    raise TypeError(f"amp.initialize: optimizers must be a torch.optim.Optimizer or a list of them, found {found}")


def _check_model(model: nn.Module) -> None:
    if isinstance(model, (nn.parallel.DistributedDataParallel, nn.DataParallel)):
        raise RuntimeError(
            f"amp.initialize: a model is wrapped in {type(model).__name__}; initialize it first, then wrap it"
        )
    if _amp_state.allow_incoming_model_not_fp32:
        return
    for kind, named in (("parameter", model.named_parameters()), ("buffer", model.named_buffers())):
        for name, tensor in named:
            if tensor.dtype is torch.float16:
                raise RuntimeError(f"amp.initialize: {kind} {name} is in half already; pass a float32 model")
            if tensor.is_floating_point() and tensor.device.type != device_type():
                raise RuntimeError(
                    f"amp.initialize: {kind} {name} is on {tensor.device}; move the model to the GPU with .cuda() first"
                )
