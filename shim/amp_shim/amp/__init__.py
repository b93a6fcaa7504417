"""`apex.amp`: mixed precision by opt level, on native autocast.

model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
with amp.scale_loss(loss, optimizer) as scaled_loss:
    scaled_loss.backward()
optimizer.step()
"""

# Loaded before its attribute is bound to the state, so that no later import binds it to the module.
import amp_shim.amp._amp_state  # noqa: F401
from amp_shim.amp.checkpoint import load_state_dict, state_dict
from amp_shim.amp.functions import (
    bfloat16_function,
    disable_casts,
    float_function,
    half_function,
    promote_function,
    register_bfloat16_function,
    register_float_function,
    register_half_function,
    register_promote_function,
)
from amp_shim.amp.handle import init
from amp_shim.amp.initialize import initialize
from amp_shim.amp.scale_loss import scale_loss
from amp_shim.amp.state import _amp_state, master_params, reset

__all__ = [
    "_amp_state",
    "bfloat16_function",
    "disable_casts",
    "float_function",
    "half_function",
    "init",
    "initialize",
    "load_state_dict",
    "master_params",
    "promote_function",
    "register_bfloat16_function",
    "register_float_function",
    "register_half_function",
    "register_promote_function",
    "reset",
    "scale_loss",
    "state_dict",
]
