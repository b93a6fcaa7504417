"""Calls of PyTorch's operators, and what PyTorch gives for each: to be held against the table of the flow analysis.

In scope: `a`, `b` (4, 4); `v` (4,); `s` a scalar; `i` indices (4,); `m` booleans (4, 4); `n` (2, 3, 8, 8); `k` a kernel
(3, 3, 3, 3); `q` (2, 4, 4); `p` in (0, 1). The floating ones have the precisions that are asked for: `a`, `n`, `q`, `v`
and `p` the first, `b`, `k` and `s` the second.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache

import torch
import torch.nn.functional as F
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

MADE = """
import torch
import torch.nn.functional as F
from torch import nn


def run():
    a = torch.rand(4, 4, device="cuda", dtype={0})
    b = torch.rand(4, 4, device="cuda", dtype={1})
    q = torch.rand(2, 4, 4, device="cuda", dtype={0})
    v = torch.rand(4, device="cuda", dtype={0})
    s = torch.rand((), device="cuda", dtype={1})
    i = torch.zeros(4, device="cuda", dtype=torch.int64)
    m = torch.zeros(4, 4, device="cuda", dtype=torch.bool)
    n = torch.rand(2, 3, 8, 8, device="cuda", dtype={0})
    k = torch.rand(3, 3, 3, 3, device="cuda", dtype={1})
    p = torch.rand(4, 4, device="cuda", dtype={0})
"""
PAIRS = [
    ("torch.float32", "torch.float32"),
    ("torch.float16", "torch.float16"),
    ("torch.float32", "torch.float16"),
    ("torch.float16", "torch.float32"),
]
NAME = {
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.float32: "float32",
    torch.float64: "float64",
    torch.bool: "bool",
}
# What fake tensors compute by parts, where the kernel calls a product.
BY_PARTS = (
    "F.affine_grid(a[None, :2, :3], [1, 3, 4, 4], align_corners=True)",
    "torch.cov(a)",
    "torch.corrcoef(a)",
    "torch.linalg.pinv(a.float())",
)
# What neither fake tensors nor the CPU show (seen on an H200): a sum that is cast, and a product.
ONLY_ON_A_GPU = ("a.trace()", "torch.pinverse(a.float())")

UNARY_METHODS = (
    "abs ceil floor round trunc sign neg exp log log2 log10 log1p expm1 sqrt rsqrt reciprocal sin cos tan sinh "
    "cosh tanh asin acos atan sigmoid erf erfc square "
    "exp2 relu clone detach contiguous isnan isfinite isinf sum mean "
    "std var norm prod flatten t amax amin argmax argmin sort nonzero all any tril triu diag trace positive frac asinh "
    "erfinv digamma lgamma logical_not nansum nanmean acosh atanh sinc logit i0 sgn msort median nan_to_num"
).split()
UNARY_FUNCTIONS = (
    "relu gelu silu elu selu celu mish hardswish hardsigmoid hardtanh leaky_relu logsigmoid softplus softsign "
    "tanhshrink softshrink hardshrink relu6 dropout normalize sigmoid tanh"
).split()
BINARY = (
    "add sub mul div pow maximum minimum fmod remainder atan2 hypot floor_divide true_divide multiply subtract".split()
)
COMPARISONS = "eq ne lt le gt ge".split()
LOSSES = "mse_loss l1_loss smooth_l1_loss huber_loss soft_margin_loss kl_div poisson_nll_loss".split()

_OTHERS = """
a + b; a - b; a * b; a / b; a ** b; a ** 2; 2 ** a; a @ b; -a; a + 1; a * 0.5; 1 - a; a / s; a * s; s * a; s + s;
(a @ b.t()) * s; torch.matmul(q, q) * s; (v @ v) * s; (a @ v) * s;
a.sum(1) * s; a[0] * s; v[0] * s; a.view(2, 8) * s; a.reshape(-1) * s; v.sum(0) * s; a[1:] * s; a[0, 1] * s;
torch.einsum('ij,j->i', a, v) * s; torch.einsum('i,i->', v, v) * s; F.normalize(a, dim=1) * s; F.linear(v, a) * s;
a.mean(1, keepdim=True) * s; a.flatten(1) * s; a.unsqueeze(0) * s; v.unsqueeze(0).squeeze() * s; v.expand(4, 4) * s;
a.sum() * b; a.mean() + b.mean(); a > b; a == b; a & m if False else m; m & m; ~m; a.softmax(-1);
F.softmax(a, dim=-1); torch.softmax(a, 1); F.log_softmax(a, 1); a.log_softmax(1);
F.softmax(a, dim=-1, dtype=torch.float32); F.softmin(a, dim=1); F.gumbel_softmax(a); a.sum(0);
a.sum(dim=0, keepdim=True); a.sum(dtype=torch.float64); a.mean(1); a.max(1); a.max(); a.min(0); torch.max(a, b);
torch.min(a, b); a.cumsum(0); a.cumprod(0); a.norm(dim=1); a.norm(p=1); torch.norm(a); torch.linalg.norm(a);
torch.linalg.vector_norm(a); torch.linalg.matrix_norm(a); a.logsumexp(1); a.topk(2); a.kthvalue(2); a.mode();
a.cummax(0); a.cummin(0); a.argsort(); a.var(1); a.std(dim=1); a.median(0); a.quantile(0.5); a.diff();
torch.cov(a); a.count_nonzero(); torch.logcumsumexp(a, 0); torch.mm(a, b); torch.matmul(a, b); torch.bmm(q, q);
torch.addmm(a, a, b); torch.mv(a, v); torch.dot(v, v); torch.baddbmm(q, q, q); torch.addbmm(a, q, q);
torch.addmv(v, a, v); torch.addr(a, v, v); torch.einsum('ij,jk->ik', a, b); torch.einsum('ij,jk', [a, b]);
torch.outer(v, v); torch.ger(v, v); torch.inner(a, b); torch.tensordot(a, b, 1); torch.kron(a, b);
torch.vdot(v, v); torch.chain_matmul(a, b); torch.linalg.multi_dot([a, b, a]); torch.linalg.matmul(a, b);
torch.linalg.vecdot(a, b); F.linear(a, b); F.linear(a, b, v); F.conv2d(n, k); F.conv1d(q, q[:, :4]);
F.conv_transpose2d(n, k); F.conv3d(n[None], k[None].transpose(0, 1)); F.conv_transpose1d(q, q);
F.bilinear(a, b, q); F.prelu(a, v); F.scaled_dot_product_attention(q, q, q); F.glu(a); F.rrelu(a);
F.threshold(a, 0.1, 0.0); F.layer_norm(a, (4,)); F.group_norm(n, 1); F.rms_norm(a, (4,)); F.instance_norm(n);
F.local_response_norm(n, 2); nn.CrossMapLRN2d(2)(n); torch.stft(v, 4, return_complex=False);
torch.stft(v, 4, window=torch.ones(4, device='cuda'), return_complex=False); v.stft(4, window=v);
a.sub(other=b); a.mul(other=b);
torch.istft(torch.stft(v, 4, return_complex=True), 4);
F.batch_norm(n, None, None, training=True); a.renorm(2, 0, 1.0);
F.cosine_similarity(a, b); F.pairwise_distance(a, b); torch.cdist(a, b); torch.dist(a, b); F.pdist(a);
F.cross_entropy(a, i); F.nll_loss(a, i); F.binary_cross_entropy_with_logits(a, b); F.binary_cross_entropy(p, p);
F.cosine_embedding_loss(a, b, v); F.hinge_embedding_loss(a, b); F.margin_ranking_loss(a, b, b);
F.multi_margin_loss(a, i); F.multilabel_margin_loss(a, m.long()); F.multilabel_soft_margin_loss(a, b);
F.triplet_margin_loss(a, b, b); F.triplet_margin_with_distance_loss(a, b, b); F.gaussian_nll_loss(a, b, p);
F.cross_entropy(a, i, reduction='none'); F.mse_loss(a, b, reduction='none'); F.interpolate(n, scale_factor=2);
F.interpolate(n, scale_factor=2, mode='bilinear'); F.upsample(n, scale_factor=2);
F.grid_sample(n, torch.zeros(2, 4, 4, 2, device='cuda', dtype=n.dtype)); F.pad(a, (1, 1)); F.unfold(n, 2);
F.affine_grid(a[None, :2, :3], [1, 3, 4, 4], align_corners=True);
F.fold(F.unfold(n, 2, stride=2), (8, 8), 2, stride=2); F.pixel_shuffle(n[:, :1].repeat(1, 4, 1, 1), 2);
F.pixel_unshuffle(n, 2); F.channel_shuffle(n, 3); F.avg_pool2d(n, 2); F.max_pool2d(n, 2);
F.adaptive_avg_pool2d(n, 1); F.adaptive_max_pool2d(n, 1); F.avg_pool1d(q, 2); F.max_pool1d(q, 2);
F.adaptive_avg_pool1d(q, 1); F.adaptive_max_pool1d(q, 1); F.avg_pool3d(n[None], 2); F.max_pool3d(n[None], 2);
F.adaptive_avg_pool3d(n[None], 1); F.lp_pool2d(n, 2, 2); F.adaptive_max_pool3d(n[None], 1); F.lp_pool1d(q, 2, 2);
F.dropout2d(n); F.dropout1d(q); F.dropout3d(n[None]); F.alpha_dropout(a); F.feature_alpha_dropout(a); a.view(-1);
a.reshape(2, 8); a.view_as(b); a.reshape_as(b); a.expand(2, 4, 4); a.expand_as(b); a.unflatten(0, (2, 2));
a.squeeze(); a.unsqueeze(0); a.transpose(0, 1); a.permute(1, 0); a.T; a.mT; a.movedim(0, 1); a.moveaxis(0, 1);
a.swapaxes(0, 1); a.swapdims(0, 1); a.adjoint(); a.flip(0); torch.fliplr(a); torch.flipud(a); a.roll(1);
torch.rot90(a); a.repeat(2, 1); a.tile(2); a.repeat_interleave(2); torch.broadcast_to(a, (2, 4, 4));
a.narrow(0, 0, 2); a.select(0, 1); a.index_select(0, i); a.gather(0, i[None]); torch.take(a, i);
a.take_along_dim(i[None], 0); a.masked_select(m); a.diagonal(); torch.diag_embed(v); a.unfold(0, 2, 1); a.ravel();
a[0]; a[:, 1]; a[m]; a[i]; a[0, 0]; a[None]; a[..., 0]; a.masked_fill(m, 0.0); a.masked_fill(m, -1e4);
a.index_fill(0, i, 0.0); a.masked_scatter(m, a); a.scatter(0, i[None], 0.5); a.index_add(0, i, a);
a.index_copy(0, i, a); a.scatter_add(0, i[None], a); a.clamp(0, 1); a.clip(0, 1); a.clamp_min(0); a.clamp_max(1);
torch.clamp(a, b, b); a.lerp(b, 0.5); torch.addcmul(a, a, b); torch.addcdiv(a, a, b); torch.where(m, a, b);
torch.where(m, a, 0.0); torch.cat([a, b]); torch.cat((a, a), dim=1); torch.stack([a, b]); torch.hstack([a, b]);
torch.vstack([a, b]); torch.dstack([a, b]); torch.concat([a, b]); torch.concatenate([a, b]);
torch.row_stack([a, b]); torch.column_stack([a, b]); torch.block_diag(a, b); torch.cartesian_prod(v, v);
a.split(2)[0]; a.chunk(2)[0]; a.unbind(0)[0]; torch.tensor_split(a, 2)[0]; a.hsplit(2)[0]; a.vsplit(2)[0];
torch.meshgrid(v, v, indexing='ij')[0]; torch.broadcast_tensors(a, b)[0]; a.split_with_sizes([2, 2])[0];
n.dsplit(2)[0]; torch.isclose(a, a); torch.isin(a, a); torch.signbit(a); torch.logical_and(m, m);
torch.logical_or(m, m); torch.logical_xor(m, m); torch.isposinf(a); torch.isneginf(a); torch.isreal(a);
torch.greater(a, b); torch.greater_equal(a, b); torch.less(a, b); torch.less_equal(a, b); torch.not_equal(a, b);
torch.bitwise_and(i, i); torch.bitwise_or(i, i); torch.bitwise_xor(i, i); i << 1; i >> 1; ~i; i + 1; i / 2;
i * 0.5; i.sqrt(); i.float(); i.sum(); i.float().mean(); i + a; a * i; m.sum(); m.float(); m * a; i.exp(); i ** 2;
i.sigmoid(); i.max(); F.one_hot(i); torch.bincount(i); torch.searchsorted(v, v); torch.bucketize(v, v);
torch.multinomial(p, 2); a.argwhere(); torch.randint(0, 4, (4,), device='cuda'); torch.randperm(4, device='cuda');
torch.arange(4, device='cuda'); torch.arange(0.0, 1.0, 0.1); torch.zeros(4, 4); torch.ones_like(a);
torch.zeros_like(a, dtype=torch.float32); torch.full((2,), 1.0); torch.full((2,), 1); torch.tensor(1.0);
torch.tensor([1, 2]); torch.tensor([1.0, 2]); torch.rand_like(a); torch.eye(4); a.new_zeros(2);
torch.linspace(0, 1, 4); torch.randn(4); torch.empty(2); torch.full_like(a, 0.0); a.new_full((2,), 1.0);
a.new_ones(2); torch.randn_like(a); a.new_empty(2); torch.empty_like(a); torch.tril_indices(3, 3);
torch.triu_indices(3, 3); a.float(); a.half(); a.double(); a.long(); a.bool(); a.bfloat16(); a.to(torch.float32);
a.to(b); a.to(b.dtype); a.type_as(b); a.to('cuda'); a.to(dtype=torch.float16); a.type(torch.float32); a.int();
a.requires_grad_(False); a.float().softmax(-1).half(); a.relu_(); a.add_(1); a.mul_(b); a.exp_(); a.sigmoid_();
a.clamp_(0, 1); a.zero_(); a.copy_(b); a.fill_(1.0); torch.logaddexp(a, a); torch.logaddexp2(a, a);
torch.xlogy(a, a); torch.copysign(a, b); torch.deg2rad(a); torch.rad2deg(a); torch.nextafter(a, a);
torch.polygamma(1, a); torch.special.expit(a); torch.float_power(a, 2); torch.rsub(a, b); torch.fmax(a, b);
torch.fmin(a, b); torch.bernoulli(p); torch.cross(n[..., :3], n[..., :3], dim=-1);
torch.linalg.cross(a[:, :3], a[:, :3]); torch.trapezoid(v); torch.trapz(v); torch.cumulative_trapezoid(v);
torch.corrcoef(a); torch.var_mean(a)[0]; torch.std_mean(a)[0]; torch.aminmax(a)[0]; torch.frexp(a)[0];
torch.arctan(a); torch.arcsin(a); torch.arccos(a); torch.arcsinh(a); torch.arctanh(a); torch.arctan2(a, b);
torch.divide(a, b); torch.negative(a); torch.absolute(a); torch.searchsorted(v, s); torch.nanmedian(a, 0);
torch.equal(a, a); torch.allclose(a, a); torch.matrix_power(a, 2); torch.linalg.matrix_power(a, 2);
torch.matrix_exp(a.float()); torch.linalg.matrix_exp(a.float()); torch.inverse(a.float());
torch.linalg.inv(a.float()); torch.linalg.pinv(a.float()); torch.pinverse(a.float()); torch.linalg.det(a.float());
torch.det(a.float()); torch.logdet(a.float()); torch.linalg.cholesky(a.float()); torch.cholesky_inverse(a.float());
torch.linalg.solve(a.float(), a.float()); torch.cholesky_solve(a.float(), a.float());
torch.linalg.solve_triangular(a.float(), a.float(), upper=True); torch.svd(a.float())[0];
torch.linalg.svd(a.float())[0]; torch.linalg.qr(a.float())[0]; torch.linalg.eigh(a.float())[0];
torch.linalg.slogdet(a.float())[0]; torch.slogdet(a.float())[0]; nn.Linear(4, 4).cuda()(a);
nn.Conv2d(3, 3, 1).cuda()(n); nn.LayerNorm(4).cuda()(a); nn.BatchNorm2d(3).cuda()(n); nn.ReLU()(a);
nn.Sigmoid()(a); nn.Embedding(4, 4).cuda()(i); nn.Softmax(-1)(a); nn.Dropout()(a); nn.GELU()(a);
nn.GroupNorm(1, 3).cuda()(n); nn.MSELoss()(a, b); nn.CrossEntropyLoss()(a, i); nn.BCEWithLogitsLoss()(a, b);
nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.LayerNorm(4)).cuda()(a); nn.PReLU().cuda()(a);
nn.Bilinear(4, 4, 4).cuda()(a, b); nn.Upsample(scale_factor=2)(n); nn.Flatten()(n); nn.Identity()(a); nn.Tanh()(a);
nn.MaxPool2d(2)(n); nn.L1Loss()(a, b); nn.NLLLoss()(a, i); nn.KLDivLoss()(a, b); nn.CosineSimilarity()(a, b);
F.conv_tbc(q, q, v); F.conv_transpose3d(n[None], k[None].transpose(0, 1)); torch.arccosh(a); a.cuda(); a.detach();
a.fix();
F.ctc_loss(torch.zeros(4, 2, 5, device='cuda', dtype=a.dtype), torch.ones(2, 3).long(), torch.tensor([4, 4]),
torch.tensor([3, 3]));
a.exponential_(); a.normal_(); a.uniform_(); a.random_();
torch.grid_sampler(n, torch.zeros(2, 4, 4, 2, device='cuda', dtype=n.dtype), 0, 0, False); a.imag; a.real;
torch.conj(a); torch.resolve_conj(a);
a.index_put((i,), a); a[0, 0].is_nonzero(); nn.LSTM(4, 4).cuda()(q)[0]; nn.GRU(4, 4).cuda()(q)[0];
nn.RNN(4, 4).cuda()(q)[0]; nn.LSTMCell(4, 4).cuda()(a)[0]; nn.GRUCell(4, 4).cuda()(a); nn.RNNCell(4, 4).cuda()(a);
nn.MultiheadAttention(4, 1).cuda()(q, q, q)[0];
F.feature_dropout(n) if hasattr(F, 'feature_dropout') else F.dropout2d(n); a.bernoulli();
torch.linalg.lstsq(a.float(), a.float())[0]; a.share_memory_() if False else a;
a.scatter_reduce(0, i[None], a, 'sum'); a.index_reduce(0, i, a, 'mean');
a.broadcast_to(2, 4, 4); torch.special.i0(a); torch.cholesky(a.float());
torch.qr(a.float())[0]; F.embedding_bag(i, a, i[:1]); F.upsample_nearest(n, scale_factor=2);
F.upsample_bilinear(n, scale_factor=2); nn.RNN(4, 4, nonlinearity='relu').cuda()(q)[0]; a.var().sqrt();
(a - a.mean()) / (a.std() + 1e-5); a.float() @ b.float(); (a @ b).softmax(-1) @ b; (a @ b) + b;
(a @ b).float() + b; torch.sigmoid(a @ b); 1 - torch.sigmoid(a @ b); (a @ b).exp(); (a @ b).pow(2).mean();
((a @ b) ** 2).sum(); (a @ b).norm()
"""
# What makes sparse tensors, computes with them, and makes them dense.
_OF_SPARSE = """
a.to_sparse(); a.to_sparse_coo(); a.to_sparse_csr(); a.to_sparse_csc(); a.to_sparse_bsr((2, 2));
a.to_sparse_bsc((2, 2)); a.to_sparse().coalesce(); a.sparse_mask(a.to_sparse().coalesce()); a.to_sparse().to_dense();
a.to_sparse_csr().to_dense(); torch.sparse_coo_tensor(torch.stack([i, i]), v, (4, 4));
torch.sparse_csr_tensor(torch.arange(5), i, v, (4, 4));
torch.sparse_csc_tensor(torch.arange(5), i, v, (4, 4));
torch.sparse_coo_tensor([[0], [1]], [1.0], dtype=torch.float16);
torch.sparse_compressed_tensor(torch.arange(5), i, v, (4, 4), layout=torch.sparse_csr);
torch.sparse_bsr_tensor(torch.tensor([0, 1]), i[:1], a[None]);
torch.sparse_bsc_tensor(torch.tensor([0, 1]), i[:1], a[None]);
torch.sparse.FloatTensor(torch.stack([i, i]), v.float(), (4, 4));
torch.cuda.sparse.FloatTensor(torch.stack([i, i]), v.float(), (4, 4));
torch.spmm(a.to_sparse(), b); torch.dsmm(a.to_sparse(), b); torch.sparse.mm(a.to_sparse(), b);
torch.sparse.mm(a.to_sparse(), a.to_sparse()); torch.sparse.addmm(a, a.to_sparse(), b); torch.smm(a.to_sparse(), b);
torch.hspmm(a.to_sparse(), b); torch.hsmm(a.to_sparse(), b); torch.sspaddmm(a.to_sparse(), a.to_sparse(), b);
torch.sparse.sampled_addmm(a.to_sparse_csr(), a, b); a.to_sparse() @ b; b @ a.to_sparse();
a.to_sparse() @ a.to_sparse(); a.to_sparse() @ v; a.to_sparse_csr() @ b; torch.mm(a.to_sparse(), b);
torch.addmm(a, a.to_sparse(), b); F.linear(a.to_sparse(), b); b + a.to_sparse(); a.to_sparse() + a.to_sparse();
a.to_sparse() * b; b * a.to_sparse(); a.to_sparse() * 2; a.to_sparse() / 2; a.to_sparse().t(); a.to_sparse().T;
a.to_sparse().transpose(0, 1); a.to_sparse().float(); a.to_sparse().sum(); a.to_sparse().abs(); a.to_sparse()[0];
torch.cat([a.to_sparse(), a.to_sparse()]); a.to_sparse().clone(); a.to_sparse().detach(); a.to_sparse().norm();
a.to_sparse().pow(2); a.to_sparse().sqrt(); a.to_sparse().to(torch.float64); a.to_sparse().cpu()
"""
OF_SPARSE = tuple(each.strip() for each in _OF_SPARSE.split(";"))
SAMPLES: tuple[str, ...] = (
    *(f"a.{name}()" for name in UNARY_METHODS),
    *(f"torch.{name}(a)" for name in ("abs", "exp", "sigmoid", "softmax0", "rsqrt") if name != "softmax0"),
    *(f"F.{name}(a)" for name in UNARY_FUNCTIONS),
    *(f"torch.{name}(a, b)" for name in BINARY),
    *(f"torch.{name}(a, b)" for name in COMPARISONS),
    *(f"F.{name}(a, b)" for name in LOSSES),
    *(each.strip() for each in _OTHERS.split(";")),
    *OF_SPARSE,
)


def name_of(result: object) -> str:
    """The dtype of a result, "int" for those of integers; of several results the first one's, "" of no tensor."""
    while isinstance(result, (tuple, list)):
        result = result[0]
    if isinstance(result, torch.Tensor):
        return NAME.get(result.dtype, "int" if not result.dtype.is_floating_point else str(result.dtype))
    return ""


@cache
def seen(
    on: bool,
    pair: tuple[str, str],
    *,
    samples: tuple[str, ...] = SAMPLES,
    device: str = "fake",
    what: Callable[[object], str] = name_of,
) -> tuple[str, ...]:
    """The dtype that each sample gives, the first of several tensors', "" where it gives none or raises.

    Args:
        on: within CUDA's autocast, in float16.
        pair: the precisions of the operands.
        samples: the calls.
        device: "cuda", or "fake": in a region on fake tensors that say they are on a GPU, else on the CPU's own.
        what: what is asked of it in place of its dtype.
    """
    scope: dict[str, object] = {"torch": torch, "F": F, "nn": nn}
    found: list[str] = []
    fresh = MADE.format(*pair).split("def run():")[1].replace("\n    ", "\n")
    calls = list(samples)
    if device == "fake" and not on:
        fresh = fresh.replace('"cuda"', '"cpu"')
        calls = [each.replace("'cuda'", "'cpu'").replace(".cuda()", "") for each in calls]
    fakes: AbstractContextManager[object] = FakeTensorMode() if device == "fake" and on else nullcontext()
    logging.disable(logging.CRITICAL)
    try:
        with fakes, torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(fresh, scope)
            for sample in calls:
                try:
                    with _autocast(on):
                        found.append(what(eval(sample, scope)))
                except Exception:
                    found.append("")
                if "_(" in sample:  # it may have changed them
                    exec(fresh, scope)
            return tuple(found)
    finally:
        logging.disable(logging.NOTSET)


@contextmanager
def _autocast(on: bool) -> Iterator[None]:
    # `torch.autocast("cuda")` switches itself off where there is no GPU; the switches below it do not.
    torch.set_autocast_enabled("cuda", on)
    torch.set_autocast_dtype("cuda", torch.float16)
    try:
        yield
    finally:
        torch.set_autocast_enabled("cuda", False)
        torch.clear_autocast_cache()
