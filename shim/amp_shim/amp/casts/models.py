"""O0, O2, O3: cast the model, its inputs and its outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from amp_shim.amp.properties import Properties
from amp_shim.support.casting import LOW_PRECISION, cast_floating, convert_network


def cast_model(model: nn.Module, properties: Properties, outputs: torch.dtype | None) -> None:
    """Cast a model in place to `properties.cast_model_type`.

    Parameters keep their identity. The model's `forward` casts floating inputs to the model's type and floating
    outputs to `outputs`, by default float32. `state_dict()` shows half weights as float32 copies.
    """
    dtype = properties.cast_model_type
    assert isinstance(dtype, torch.dtype)
    if properties.keep_batchnorm_fp32:
        convert_network(model, dtype)
    else:
        model.to(dtype)
    _set_forward(model, CastForward(model, dtype, outputs or torch.float32))
    for module in model.modules():
        hookable: Any = module
        hookable._register_state_dict_hook(_float_entries)


def cast_outputs(model: nn.Module, outputs: torch.dtype) -> None:
    """Cast the floating outputs of a model whose weights and inputs stay as they are."""
    _set_forward(model, CastForward(model, None, outputs))


class CastForward:
    """A model's `forward` between two casts.

    An object that names its model instead of closing over a bound method, so that a deep copy of the model runs the
    copy's weights and a pickled model can be loaded.
    """

    def __init__(self, model: nn.Module, inputs: torch.dtype | None, outputs: torch.dtype) -> None:
        self._model = model
        self._inner: Callable[..., Any] | None = vars(model).get("forward")
        self._inputs = inputs
        self._outputs = outputs

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._inputs is not None:
            args, kwargs = cast_floating(args, self._inputs), cast_floating(kwargs, self._inputs)
        if self._inner is not None:
            result = self._inner(*args, **kwargs)
        else:
            result = type(self._model).forward(self._model, *args, **kwargs)
        return cast_floating(result, self._outputs)


def _set_forward(model: nn.Module, forward: CastForward) -> None:
    model.forward = forward


def _float_entries(module: nn.Module, state_dict: dict[str, Any], prefix: str, local_metadata: Any) -> None:
    own = (*module._parameters, *module._buffers)
    for key in (prefix + name for name in own):
        entry = state_dict.get(key)
        if isinstance(entry, Tensor) and entry.dtype in LOW_PRECISION:
            state_dict[key] = entry.float()
