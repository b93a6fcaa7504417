"""The operator families that CUDA autocast casts, as plain data.

A family is an aten operator name without its overload: `softmax` stands for `aten::softmax.int` and every other
functional overload. Each list is the union over the PyTorch versions that the shim supports; `amp_shim.policy` keeps
what the installed version registers. Source: `ATen/autocast_mode.h` and the operators that PyTorch registers at the
AutocastCUDA dispatch key.
"""

from __future__ import annotations


def _families(names: str) -> frozenset[str]:
    return frozenset(names.split())


# Run in the autocast dtype: the matrix products and convolutions that tensor cores speed up.
HALF = _families("""
    _convolution convolution conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d
    cudnn_convolution cudnn_convolution_transpose
    linear matmul mm mv bmm addmm addmv addr addbmm baddbmm einsum chain_matmul linalg_multi_dot linalg_vecdot
    prelu
    _cudnn_rnn _thnn_fused_lstm_cell _thnn_fused_gru_cell lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell
    scaled_dot_product_attention _scaled_dot_product_flash_attention
""")

# Run in float32: pointwise functions that lose range or precision in half, normalisations, losses, interpolation.
FLOAT = _families("""
    acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow softplus
    layer_norm native_layer_norm rms_norm group_norm frobenius_norm nuclear_norm renorm logsumexp
    dist pdist cdist cosine_similarity linalg_matrix_sqrth
    nll_loss nll_loss2d kl_div l1_loss mse_loss huber_loss smooth_l1_loss soft_margin_loss poisson_nll_loss
    cosine_embedding_loss hinge_embedding_loss margin_ranking_loss multi_margin_loss multilabel_margin_loss
    triplet_margin_loss binary_cross_entropy_with_logits
    upsample_nearest1d upsample_nearest2d upsample_nearest3d
    _upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d
    upsample_linear1d upsample_bilinear2d upsample_trilinear3d upsample_bicubic2d
    _upsample_bilinear2d_aa _upsample_bicubic2d_aa
""")

# Run in float32 unless the caller names an output dtype: reductions and softmax.
FLOAT_KEEP_DTYPE = _families("sum prod cumsum cumprod softmax log_softmax norm linalg_vector_norm linalg_matrix_norm")

# Run in the widest floating type among the arguments: kernels that take one type only.
PROMOTE = _families("addcdiv addcmul atan2 bilinear cross dot vdot grid_sampler index_put tensordot scatter_add")

# Raise: the loss whose gradient overflows half precision.
BANNED = _families("binary_cross_entropy")
