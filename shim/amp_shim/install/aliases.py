"""Apex's modules, what the shim has in their places, and which of them Apex itself still has."""

from __future__ import annotations

ALIASES = {
    "amp_C": "amp_shim.multi_tensor_apply.amp_c",
    "apex": "amp_shim.install.apex",
    "apex.amp": "amp_shim.amp",
    "apex.amp._amp_state": "amp_shim.amp._amp_state",
    "apex.amp.amp": "amp_shim.amp",
    "apex.amp.frontend": "amp_shim.amp",
    "apex.amp.handle": "amp_shim.amp.handle",
    "apex.amp.opt": "amp_shim.amp.handle",
    "apex.amp.scaler": "amp_shim.amp.scaling.scaler",
    "apex.contrib": "amp_shim.install.contrib",
    "apex.fp16_utils": "amp_shim.fp16_utils",
    "apex.fp16_utils.fp16_optimizer": "amp_shim.fp16_utils.fp16_optimizer",
    "apex.fp16_utils.fp16util": "amp_shim.fp16_utils.fp16util",
    "apex.fp16_utils.loss_scaler": "amp_shim.fp16_utils.loss_scaler",
    "apex.fused_dense": "amp_shim.fused_dense",
    "apex.fused_dense.fused_dense": "amp_shim.fused_dense",
    "apex.mlp": "amp_shim.mlp",
    "apex.mlp.mlp": "amp_shim.mlp",
    "apex.multi_tensor_apply": "amp_shim.multi_tensor_apply",
    "apex.multi_tensor_apply.multi_tensor_apply": "amp_shim.multi_tensor_apply.multi_tensor_apply",
    "apex.normalization": "amp_shim.normalization",
    "apex.normalization.fused_layer_norm": "amp_shim.normalization",
    "apex.optimizers": "amp_shim.optimizers",
    "apex.optimizers.fused_adagrad": "amp_shim.optimizers.fused_adagrad",
    "apex.optimizers.fused_adam": "amp_shim.optimizers.fused_adam",
    "apex.optimizers.fused_lamb": "amp_shim.optimizers.fused_lamb",
    "apex.optimizers.fused_mixed_precision_lamb": "amp_shim.optimizers.fused_mixed_precision_lamb",
    "apex.optimizers.fused_novograd": "amp_shim.optimizers.fused_novograd",
    "apex.optimizers.fused_sgd": "amp_shim.optimizers.fused_sgd",
    "apex.parallel": "amp_shim.parallel",
    "apex.parallel.distributed": "amp_shim.parallel.distributed",
    "apex.parallel.multiproc": "amp_shim.parallel.multiproc",
    "apex.parallel.optimized_sync_batchnorm": "amp_shim.parallel.sync_batchnorm",
    "apex.parallel.sync_batchnorm": "amp_shim.parallel.sync_batchnorm",
    "apex.parallel.LARC": "amp_shim.parallel.larc",
    "apex.pyprof": "amp_shim.pyprof",
    "apex.pyprof.nvtx": "amp_shim.pyprof.nvtx",
    "apex_C": "amp_shim.parallel.flat",
}
"""Apex's modules, and the shim's that stand for them."""

EXTENSIONS = {
    "amp_C": "amp_C",
    "apex.fused_dense": "fused_dense_cuda",
    "apex.mlp": "mlp_cuda",
    "apex.multi_tensor_apply": "amp_C",
    "apex.normalization": "fused_layer_norm_cuda",
    "apex.optimizers": "amp_C",
    "apex_C": "apex_C",
}
"""What Apex has not deleted, and the compiled extension without which it cannot work."""
