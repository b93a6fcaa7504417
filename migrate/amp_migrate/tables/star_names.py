"""What a star import of a package of AMP brings, which has no file in sight to tell: the one place that says so."""

from __future__ import annotations

from amp_migrate.tables.apex_names import FP16_UTILS

# What `from torch.cuda.amp import *` brings of AMP.
OF_TORCH_AMP = ("autocast", "GradScaler", "custom_fwd", "custom_bwd")
TORCH_AMP_PACKAGES = ("torch.cuda.amp", "torch.cpu.amp", "torch.amp")
# What `from apex.fp16_utils import *` brings: all that its package names, its modules among it, and nothing else.
OF_FP16_UTILS = tuple(
    (
        "BN_convert_float DynamicLossScaler FP16Model FP16_Optimizer LossScaler clip_grad_norm convert_module "
        "convert_network fp16_optimizer fp16util loss_scaler master_params_to_model_params "
        "model_grads_to_master_grads network_to_half prep_param_lists to_python_float tofp16"
    ).split()
)
BY_STAR = {**dict.fromkeys(TORCH_AMP_PACKAGES, OF_TORCH_AMP), FP16_UTILS: OF_FP16_UTILS}


def brings(package: str, name: str) -> bool | None:
    """Whether a star import of a package brings a name; None where nobody knows."""
    if name in BY_STAR.get(package, ()):
        return True
    return False if package == FP16_UTILS else None
