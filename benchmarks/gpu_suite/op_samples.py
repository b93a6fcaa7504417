"""How to call each operator of CUDA's autocast, and what came of it: the dtype of the result, or the error."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from amp_shim.policy.operators import family_of, registered_operators
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

Make = Callable[..., Tensor]
CONV = ([1, 1], [0, 0], [1, 1], False, [0, 0], 1)
MEAN = 1


def labels(t: Make, *shape: int) -> Tensor:
    return torch.zeros(shape, dtype=torch.int64, device=t(1).device)


# Arguments by operator, for those that do not take a single matrix. `t` makes a floating tensor of a shape.
SAMPLES: dict[str, Callable[[Make], tuple[Any, ...]]] = {
    **dict.fromkeys(["_convolution"], lambda t: (t(1, 2, 4, 4), t(2, 2, 3, 3), None, *CONV, False, False, True, True)),
    "_convolution.deprecated": lambda t: (t(1, 2, 4, 4), t(2, 2, 3, 3), None, *CONV, False, False, True),
    "convolution": lambda t: (t(1, 2, 4, 4), t(2, 2, 3, 3), None, *CONV),
    **dict.fromkeys(["conv1d", "conv_transpose1d"], lambda t: (t(1, 2, 4), t(2, 2, 3))),
    **dict.fromkeys(["conv2d", "conv_transpose2d.input"], lambda t: (t(1, 2, 4, 4), t(2, 2, 3, 3))),
    **dict.fromkeys(["conv3d", "conv_transpose3d.input"], lambda t: (t(1, 2, 4, 4, 4), t(2, 2, 3, 3, 3))),
    "conv_tbc": lambda t: (t(4, 1, 2), t(3, 2, 2), t(2)),
    **dict.fromkeys(["linear", "matmul", "mm", "cdist", "dist", "pow.Tensor_Tensor"], lambda t: (t(4, 4), t(4, 4))),
    **dict.fromkeys(["atan2", "linalg_vecdot"], lambda t: (t(4, 4), t(4, 4))),
    "mv": lambda t: (t(4, 4), t(4)),
    "bmm": lambda t: (t(2, 4, 4), t(2, 4, 4)),
    "addmm": lambda t: (t(4, 4), t(4, 4), t(4, 4)),
    "addmv": lambda t: (t(4), t(4, 4), t(4)),
    "addr": lambda t: (t(4, 4), t(4), t(4)),
    "addbmm": lambda t: (t(4, 4), t(2, 4, 4), t(2, 4, 4)),
    "baddbmm": lambda t: (t(2, 4, 4), t(2, 4, 4), t(2, 4, 4)),
    "einsum": lambda t: ("ij,jk->ik", [t(4, 4), t(4, 4)]),
    **dict.fromkeys(["chain_matmul", "linalg_multi_dot"], lambda t: ([t(4, 4), t(4, 4), t(4, 4)],)),
    "prelu": lambda t: (t(4, 4), t(4)),
    **dict.fromkeys(["rnn_tanh_cell", "rnn_relu_cell"], lambda t: (t(2, 4), t(2, 4), t(4, 4), t(4, 4))),
    # With biases: without them the fused kernels have no shapes on fake tensors of PyTorch 2.14.
    "gru_cell": lambda t: (t(2, 4), t(2, 4), t(12, 4), t(12, 4), t(12), t(12)),
    "lstm_cell": lambda t: (t(2, 4), [t(2, 4), t(2, 4)], t(16, 4), t(16, 4), t(16), t(16)),
    "scaled_dot_product_attention": lambda t: (t(1, 2, 4, 8), t(1, 2, 4, 8), t(1, 2, 4, 8)),
    "pow.Scalar": lambda t: (2, t(4, 4)),
    "pow.Tensor_Scalar": lambda t: (t(4, 4), 2),
    **dict.fromkeys(["layer_norm", "rms_norm"], lambda t: (t(4, 4), [4])),
    "native_layer_norm": lambda t: (t(4, 4), [4], None, None, 1e-5),
    "group_norm": lambda t: (t(2, 4, 4), 2),
    "cosine_similarity": lambda t: (t(4, 4), t(4, 4)),
    "frobenius_norm.dim": lambda t: (t(4, 4), [0]),
    "nuclear_norm.dim": lambda t: (t(4, 4), [0, 1]),
    "norm.ScalarOpt_dim": lambda t: (t(4, 4), 2, [0]),
    "linalg_matrix_norm": lambda t: (t(4, 4), 1),
    "renorm": lambda t: (t(4, 4), 2, 0, 1.0),
    **dict.fromkeys(["logsumexp", "sum.dim_IntList"], lambda t: (t(4, 4), [0])),
    **dict.fromkeys(["prod.dim_int", "cumsum", "cumprod", "softmax.int", "log_softmax.int"], lambda t: (t(4, 4), 0)),
    **dict.fromkeys(["nll_loss", "multi_margin_loss"], lambda t: (t(4, 4), labels(t, 4))),
    "nll_loss2d": lambda t: (t(1, 4, 2, 2), labels(t, 1, 2, 2)),
    "multilabel_margin_loss": lambda t: (t(4, 4), labels(t, 4, 4)),
    **dict.fromkeys(["kl_div", "l1_loss", "mse_loss", "huber_loss", "smooth_l1_loss"], lambda t: (t(4, 4), t(4, 4))),
    **dict.fromkeys(["soft_margin_loss", "hinge_embedding_loss"], lambda t: (t(4, 4), t(4, 4))),
    **dict.fromkeys(["binary_cross_entropy", "binary_cross_entropy_with_logits"], lambda t: (t(4, 4), t(4, 4))),
    "poisson_nll_loss": lambda t: (t(4, 4), t(4, 4), True, False, 1e-8, MEAN),
    "cosine_embedding_loss": lambda t: (t(4, 4), t(4, 4), t(4)),
    "margin_ranking_loss": lambda t: (t(4), t(4), t(4)),
    "triplet_margin_loss": lambda t: (t(4, 4), t(4, 4), t(4, 4)),
    **dict.fromkeys(["upsample_nearest1d", "_upsample_nearest_exact1d"], lambda t: (t(1, 2, 4), [8])),
    **dict.fromkeys(["upsample_nearest2d", "_upsample_nearest_exact2d"], lambda t: (t(1, 2, 4, 4), [8, 8])),
    **dict.fromkeys(["upsample_nearest3d", "_upsample_nearest_exact3d"], lambda t: (t(1, 2, 4, 4, 4), [8, 8, 8])),
    "upsample_linear1d": lambda t: (t(1, 2, 4), [8], False),
    **dict.fromkeys(["upsample_bilinear2d", "upsample_bicubic2d"], lambda t: (t(1, 2, 4, 4), [8, 8], False)),
    **dict.fromkeys(["_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"], lambda t: (t(1, 2, 4, 4), [8, 8], False)),
    "upsample_trilinear3d": lambda t: (t(1, 2, 4, 4, 4), [8, 8, 8], False),
    **dict.fromkeys(["addcdiv", "addcmul"], lambda t: (t(4, 4), t(4, 4), t(4, 4))),
    "bilinear": lambda t: (t(2, 4), t(2, 4), t(3, 4, 4)),
    "cross": lambda t: (t(4, 3), t(4, 3)),
    **dict.fromkeys(["dot", "vdot"], lambda t: (t(4), t(4))),
    "grid_sampler": lambda t: (t(1, 2, 4, 4), t(1, 3, 3, 2), 0, 0, False),
    "index_put": lambda t: (t(4), [labels(t, 2)], t(2)),
    "tensordot": lambda t: (t(4, 4), t(4, 4), [1], [0]),
    "scatter_add": lambda t: (t(4), 0, labels(t, 4), t(4)),
}
# Inner steps of operators that are called here, which take workspaces or exist on a GPU only.
INNER = {
    "_cudnn_rnn",
    "cudnn_convolution",
    "cudnn_convolution_transpose",
    "_thnn_fused_lstm_cell",
    "_thnn_fused_gru_cell",
    "_scaled_dot_product_flash_attention",
}
# Overloads for named tensors, which older PyTorch has, take names of dimensions.
OPERATORS = sorted(
    name.removeprefix("aten::")
    for name in registered_operators("AutocastCUDA")
    if family_of(name) not in INNER and not re.search("dimname|names_", name, re.I)
)
HALVES = (torch.float16, torch.bfloat16)


def arguments(name: str, dtype: torch.dtype, device: str) -> tuple[Any, ...]:
    """What the operator is called with; every floating tensor is of this type, on this device."""

    def make(*shape: int) -> Tensor:
        return torch.full(shape, 0.5, dtype=dtype, device=device)

    return SAMPLES[name](make) if name in SAMPLES else (make(4, 4),)


def overload(name: str) -> Any:
    """The operator by its name, `"softmax.int"`."""
    packet, _, overload_name = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload_name or "default")


def call(name: str, args: tuple[Any, ...]) -> Tensor:
    """The operator's result, the first of several."""
    result = overload(name)(*args)
    return result if isinstance(result, Tensor) else result[0]


class NotOnFakeTensorsError(Exception):
    """This PyTorch runs an operator on a GPU, and has no shapes for it without one (2.14 for fused cells)."""


def outcome(name: str, dtype: torch.dtype, device: str) -> object:
    """The dtype that comes out, or the type of the error.

    Raises:
        NotOnFakeTensorsError: it takes a GPU to see.
    """
    args = arguments(name, dtype, device)
    try:
        return call(name, args).dtype
    except RuntimeError as error:
        if "NVIDIA driver" in str(error):
            raise NotOnFakeTensorsError(name) from error
        return type(error)


def mixed_outcome(name: str, half: torch.dtype, device: str) -> object:
    """The dtype that comes out where the first argument is half and the others are float32."""
    first, *_ = arguments(name, half, device)
    _, *others = arguments(name, torch.float32, device)
    return call(name, (first, *others)).dtype


@contextmanager
def fake_cuda_autocast(dtype: torch.dtype) -> Iterator[None]:
    """CUDA's autocast on tensors that are on no device, for a machine without a GPU."""
    # torch.autocast("cuda") disables itself without a GPU; the switches below it do not.
    with FakeTensorMode():
        torch.set_autocast_dtype("cuda", dtype)
        torch.set_autocast_enabled("cuda", True)
        try:
            yield
        finally:
            torch.set_autocast_enabled("cuda", False)
            torch.set_autocast_dtype("cuda", torch.float16)
            torch.clear_autocast_cache()
