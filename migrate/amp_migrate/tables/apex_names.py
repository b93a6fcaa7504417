"""What Apex is called, and which of its packages NVIDIA has deleted: data for the Apex reader and the shim writer."""

from __future__ import annotations

AMP = "apex.amp"

# Packages that Apex no longer has, and all those that the shim answers for.
DELETED = ("apex.amp", "apex.parallel", "apex.fp16_utils", "apex.RNN", "apex.reparameterization", "apex.pyprof")
SERVED = (
    "amp_C",
    "apex.amp",
    "apex.fp16_utils",
    "apex.fused_dense",
    "apex.mlp",
    "apex.multi_tensor_apply",
    "apex.normalization",
    "apex.optimizers",
    "apex.parallel",
    "apex.pyprof",
    "apex_C",
)
# What was taken out of packages that are still there, and that the shim does not have either.
WITHDRAWN = ("apex.optimizers.FP16_Optimizer",)
SHIM = "amp_shim"
# What follows for a script that has no native form.
USE_SHIM = "it runs on amp_shim, which keeps Apex's meaning"
# What follows for one that the shim cannot serve as a whole.
AN_OLD_APEX = "it needs an Apex that still has this FP16_Optimizer"
# What follows for one whose own native AMP runs wherever Apex is not installed.
NATIVE_TODAY = "where Apex is not installed it trains with native AMP of its own, as it does today"
# Modules of Apex that the shim has under another name.
SHIM_MODULES = {
    "amp_C": "amp_shim.multi_tensor_apply.amp_c",
    "apex.parallel.LARC": "amp_shim.parallel.larc",
    "apex.parallel.distributed": "amp_shim.parallel.distributed",
    "apex_C": "amp_shim.parallel.flat",
}
# What does the work of what Apex still has, by package or name.
COUNTERPARTS = {
    "apex.RNN": "torch.nn.LSTM, GRU or RNN",
    "apex.contrib.cudnn_gbn": "torch.nn.SyncBatchNorm",
    "apex.contrib.fmha": "torch.nn.functional.scaled_dot_product_attention",
    "apex.contrib.groupbn": "torch.nn.BatchNorm2d with memory_format=torch.channels_last",
    "apex.contrib.multihead_attn": "torch.nn.MultiheadAttention",
    "apex.contrib.optimizers": "torch.distributed.optim.ZeroRedundancyOptimizer, or FSDP",
    "apex.contrib.optimizers.FusedAdam": "torch.optim.AdamW(..., fused=True)",
    "apex.contrib.optimizers.FusedSGD": "torch.optim.SGD",
    "apex.contrib.sparsity": "torch.sparse.to_sparse_semi_structured",
    "apex.contrib.transducer": "torchaudio.functional.rnnt_loss",
    "apex.contrib.xentropy": "torch.nn.functional.cross_entropy(..., reduction='none', ignore_index=padding_idx)",
}
# The first PyTorch that the shim runs on.
SHIM_SINCE = (2, 4)

# What a training step asks of `apex.amp`.
API = frozenset({"initialize", "scale_loss", "master_params", "state_dict", "load_state_dict"})
# Where Apex keeps what it knows of an optimizer that it prepared, in the optimizer.
STASH = "_amp_stash"
# Functions of transformers and timm, and of what was copied from them, that say whether Apex is there.
PROBES = ("is_apex_available", "has_apex")
# The parameters of `amp.initialize`, in order.
INITIALIZE = (
    "models optimizers enabled opt_level cast_model_type patch_torch_functions keep_batchnorm_fp32 master_weights "
    "loss_scale cast_model_outputs num_losses verbosity min_loss_scale max_loss_scale"
).split()

# Those of `amp.init`, which was there before.
INIT = "enabled loss_scale enable_caching verbose allow_banned".split()

# The parameters of `amp.scale_loss`, in order.
SCALE_LOSS = "loss optimizers loss_id model delay_unscale delay_overflow_check".split()

# `FP16_Optimizer`, whose later forms serve an optimizer of Apex alone; its parameters, in order; its first package, and
# what there makes the weights of a network float16.
FP16_UTILS = "apex.fp16_utils"
EITHER_FP16_UTILS = (FP16_UTILS, f"{SHIM}.fp16_utils")
WRAPPERS = tuple(f"{package}.FP16_Optimizer" for package in (FP16_UTILS, "apex.optimizers", "apex.contrib.optimizers"))
FP16_OPTIMIZER = "init_optimizer static_loss_scale dynamic_loss_scale dynamic_loss_args verbose".split()
# What scales losses there by itself: `scaler.backward(loss)`.
LOSS_SCALERS = frozenset(
    f"{package}.{name}" for package in EITHER_FP16_UTILS for name in ("DynamicLossScaler", "LossScaler")
)
# The optimizer of 2019 whose step clipped gradients, where a wrapper told it their norms; it moved to `contrib` later.
CLIPS_IN_STEP = frozenset(("apex.optimizers.FusedAdam", "apex.contrib.optimizers.FusedAdam"))
HALF_NETWORKS = frozenset(f"{FP16_UTILS}.{name}" for name in ("network_to_half", "FP16Model", "BN_convert_float"))
# What some of these put before each key of a network's state.
KEY_PREFIXES = {f"{FP16_UTILS}.network_to_half": "1.", f"{FP16_UTILS}.FP16Model": "network."}

# Arguments of `initialize` that native AMP has no counterpart for, whatever their value.
NOT_NATIVE = frozenset("cast_model_type patch_torch_functions master_weights cast_model_outputs".split())
# The scale that Apex began with where it was dynamic, as GradScaler does.
DYNAMIC_SCALE = "65536.0"

# Functions of torch that autocast already treats as they are registered with Apex, by the way to register them.
AS_REGISTERED = {
    "register_half_function": frozenset(
        (
            "addbmm addmm addmv addr baddbmm bmm chain_matmul conv1d conv2d conv3d conv_tbc conv_transpose1d "
            "conv_transpose2d conv_transpose3d einsum linear matmul mm mv prelu scaled_dot_product_attention"
        ).split()
    ),
    "register_float_function": frozenset(
        (
            "acos asin binary_cross_entropy_with_logits cdist cosh cosine_embedding_loss cosine_similarity "
            "cross_entropy cumprod cumsum dist erfinv exp expm1 group_norm hinge_embedding_loss huber_loss kl_div "
            "l1_loss layer_norm log log10 log1p log2 log_softmax logsumexp margin_ranking_loss mse_loss "
            "multi_margin_loss "
            "multilabel_margin_loss nll_loss norm pdist poisson_nll_loss pow prod reciprocal renorm rsqrt sinh "
            "smooth_l1_loss soft_margin_loss softmax softplus sum tan triplet_margin_loss"
        ).split()
    ),
    "register_promote_function": frozenset(
        "add addcdiv addcmul atan2 bilinear cat cross div dot eq ge gt le lt mul ne stack sub".split()
    ),
}
