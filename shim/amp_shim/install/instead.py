"""What to use in place of the parts of Apex that the shim does not have."""

from __future__ import annotations

INSTEAD = {
    "apex.RNN": "torch.nn.LSTM, GRU or RNN",
    "apex.contrib": "the torch function of the same purpose",
    "apex.contrib.bottleneck": "torchvision.models.resnet.Bottleneck",
    "apex.contrib.clip_grad": "torch.nn.utils.clip_grad_norm_",
    "apex.contrib.conv_bias_relu": "torch.nn.Conv2d followed by torch.nn.ReLU",
    "apex.contrib.cudnn_gbn": "torch.nn.SyncBatchNorm with a process group",
    "apex.contrib.fmha": "torch.nn.functional.scaled_dot_product_attention",
    "apex.contrib.focal_loss": "torchvision.ops.sigmoid_focal_loss",
    "apex.contrib.gpu_direct_storage": "torch.cuda.gds",
    "apex.contrib.group_norm": "torch.nn.GroupNorm",
    "apex.contrib.groupbn": "torch.nn.BatchNorm2d in torch.channels_last, or torch.nn.SyncBatchNorm for groups",
    "apex.contrib.index_mul_2d": "input1[indices] * input2",
    "apex.contrib.layer_norm": "torch.nn.LayerNorm",
    "apex.contrib.multihead_attn": "torch.nn.MultiheadAttention",
    "apex.contrib.nccl_allocator": "torch.cuda.MemPool",
    "apex.contrib.optimizers": "amp_shim.optimizers, or torch.distributed.optim.ZeroRedundancyOptimizer",
    "apex.contrib.sparsity": "torch.sparse.to_sparse_semi_structured",
    "apex.contrib.transducer": "torchaudio.functional.rnnt_loss",
    "apex.contrib.xentropy": (
        "torch.nn.functional.cross_entropy(logits.float(), labels, reduction='none', label_smoothing=smoothing, "
        "ignore_index=padding_idx)"
    ),
    "apex.parallel": "torch.nn.parallel or torchrun",
    "apex.pyprof": "torch.profiler",
    "apex.reparameterization": "torch.nn.utils.parametrizations.weight_norm",
    "apex.transformer": "torch.distributed.tensor.parallel",
}
"""Apex's modules by name; a module that is not listed goes by its nearest parent."""


def advice(fullname: str) -> str:
    """One line about a module of Apex that the shim lacks: what to use instead."""
    name = fullname
    while name not in INSTEAD and "." in name:
        name = name.rpartition(".")[0]
    return f"amp_shim has no {fullname}; use {INSTEAD.get(name, 'its counterpart in torch')} instead"
