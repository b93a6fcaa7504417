"""`apex.optimizers`, multi-tensor and in float32 whatever the type of the parameters."""

from amp_shim.optimizers.fused_adagrad import FusedAdagrad
from amp_shim.optimizers.fused_adam import FusedAdam
from amp_shim.optimizers.fused_lamb import FusedLAMB
from amp_shim.optimizers.fused_mixed_precision_lamb import FusedMixedPrecisionLamb
from amp_shim.optimizers.fused_novograd import FusedNovoGrad
from amp_shim.optimizers.fused_sgd import FusedSGD

__all__ = ["FusedAdagrad", "FusedAdam", "FusedLAMB", "FusedMixedPrecisionLamb", "FusedNovoGrad", "FusedSGD"]
