"""What Apex is called, and which of its packages NVIDIA has deleted: data for the Apex reader and the shim writer."""

from __future__ import annotations

AMP = "apex.amp"

# Packages that Apex no longer has, and those of them that the shim answers for.
DELETED = ("apex.amp", "apex.parallel", "apex.fp16_utils", "apex.RNN", "apex.reparameterization", "apex.pyprof")
SERVED = ("apex.amp", "apex.parallel")
# The first PyTorch that the shim runs on.
SHIM_SINCE = (2, 4)

# The parameters of `amp.initialize`, in order.
INITIALIZE = (
    "models optimizers enabled opt_level cast_model_type patch_torch_functions keep_batchnorm_fp32 master_weights "
    "loss_scale cast_model_outputs num_losses verbosity min_loss_scale max_loss_scale"
).split()

# The parameters of `amp.scale_loss`, in order.
SCALE_LOSS = "loss optimizers loss_id model delay_unscale delay_overflow_check".split()

# Arguments of `initialize` that native AMP has no counterpart for, whatever their value.
NOT_NATIVE = frozenset(
    "cast_model_type patch_torch_functions master_weights cast_model_outputs min_loss_scale max_loss_scale".split()
)
