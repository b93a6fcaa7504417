"""PyTorch's operators: what CUDA's autocast does to each, and what comes out in which precision.

A name stands for the function of `torch` and of `torch.nn.functional` and for the method of a tensor at once,
a trailing
underscore left out; `linalg.` and `fft.` are written. Composite functions (`cross_entropy`, `normalize`) are listed by
what comes out of them as a whole. A test asks PyTorch itself, operator by operator, under CUDA's autocast and without.
An operator that is not listed is unknown.
"""

from __future__ import annotations

from amp_migrate.tables import quantization

# What autocast does.
LOW, FLOAT, FLOAT_UNLESS_SAID, WIDEST, REFUSED = "low", "float32", "float32 unless a dtype is said", "widest", "refused"
# What comes out where autocast does nothing.
SAME = "that of the first tensor"
PROMOTED = "the promotion of all"
FLOATED = "the promotion of all, floating"
AGREEING = "that of all, which must agree"
COUNTED = "that of the first tensor, integers as int64"
EITHER = "that of one of the tensors"
INTEGER, BOOLEAN, DOUBLE = "int64", "bool", "float64"
# More than one tensor comes out.
WITH_INDICES = "that of the first tensor, with indices"
PIECES = "pieces of the first tensor"


def _each(kind: str, names: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), kind)


AUTOCAST: dict[str, str] = {
    **_each(
        LOW,
        """
        linear matmul mm mv bmm addmm addmv addr addbmm baddbmm einsum chain_matmul linalg.multi_dot linalg.vecdot
        conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d prelu
        scaled_dot_product_attention lstm gru rnn_tanh lstm_cell gru_cell rnn_tanh_cell
        linalg.matmul multi_head_attention_forward matrix_power linalg.matrix_power affine_grid
        cov corrcoef pinverse linalg.pinv spmm dsmm sparse.mm sparse.addmm
        """,
    ),
    **_each(
        FLOAT,
        """
        acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow float_power softplus
        arccos arcsin layer_norm rms_norm group_norm local_response_norm renorm logsumexp dist pdist cdist
        cosine_similarity pairwise_distance normalize
        nll_loss kl_div l1_loss mse_loss huber_loss smooth_l1_loss soft_margin_loss poisson_nll_loss
        cosine_embedding_loss hinge_embedding_loss margin_ranking_loss multi_margin_loss multilabel_margin_loss
        triplet_margin_loss triplet_margin_with_distance_loss binary_cross_entropy_with_logits
        cross_entropy interpolate upsample upsample_nearest upsample_bilinear gaussian_nll_loss softmin
        square multilabel_soft_margin_loss lp_pool1d lp_pool2d trapezoid trapz cumulative_trapezoid gumbel_softmax
        ctc_loss
        """,
    ),
    **_each(
        FLOAT_UNLESS_SAID,
        """
        sum prod cumsum cumprod trace softmax log_softmax norm linalg.vector_norm linalg.matrix_norm linalg.norm
        """,
    ),
    **_each(
        WIDEST,
        "addcdiv addcmul atan2 arctan2 bilinear cross linalg.cross dot vdot grid_sample grid_sampler index_put "
        "tensordot scatter_add",
    ),
    **_each(REFUSED, "binary_cross_entropy"),
}

# Those that autocast has in half precision, and Apex's O1 as they come: it patched what Python calls by other names.
AS_THEY_COME_IN_APEX = frozenset(
    "einsum chain_matmul linalg.multi_dot linalg.vecdot linalg.matmul scaled_dot_product_attention matrix_power "
    "linalg.matrix_power cov corrcoef pinverse linalg.pinv spmm dsmm sparse.mm sparse.addmm".split()
)

# Those that some of the supported versions list and others do not: 2.6 leaves `rms_norm` alone.
BY_VERSION = frozenset(("rms_norm",))

RESULT: dict[str, str] = {
    **_each(
        SAME,
        """
        abs absolute relu relu6 elu selu celu gelu silu mish hardtanh hardswish hardsigmoid hardshrink softshrink
        tanhshrink threshold leaky_relu rrelu logsigmoid softsign glu neg negative positive sign sgn ceil floor round
        trunc fix frac clone contiguous view reshape view_as reshape_as expand expand_as flatten unflatten
        squeeze unsqueeze transpose swapaxes swapdims movedim moveaxis permute t adjoint flip fliplr flipud roll rot90
        repeat tile repeat_interleave broadcast_to narrow select index_select gather take take_along_dim masked_select
        diag diagonal diag_embed tril triu unfold fold pad pixel_shuffle pixel_unshuffle channel_shuffle
        istft cross_map_lrn2d dropout dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout feature_dropout
        avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d
        max_pool1d max_pool2d max_pool3d adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d lp_pool1d lp_pool2d
        batch_norm instance_norm masked_fill masked_scatter index_fill index_copy index_add scatter scatter_reduce
        index_reduce scatter_add index_put clamp_min clamp_max amax amin mean nanmean std var quantile
        zero fill copy nan_to_num real imag conj resolve_conj bernoulli normal uniform exponential random
        cumulative_trapezoid diff trace renorm linalg.inv inverse pinverse linalg.pinv cholesky
        linalg.cholesky cholesky_inverse matrix_exp
        linalg.matrix_exp matrix_power linalg.matrix_power linalg.det det logdet logcumsumexp
        prelu normalize rms_norm layer_norm group_norm local_response_norm pdist gumbel_softmax softmin
        softmax log_softmax softplus renorm logsumexp embedding_bag interpolate upsample
        upsample_nearest upsample_bilinear grid_sample
        grid_sampler affine_grid glu corrcoef cov trapz trapezoid linalg.norm linalg.vector_norm
        linalg.matrix_norm norm ravel index msort erfinv
        to_dense coalesce to_sparse to_sparse_coo to_sparse_csr to_sparse_csc to_sparse_bsr to_sparse_bsc sparse_mask
        sparse_coo_tensor sparse_csr_tensor sparse_csc_tensor sparse_bsr_tensor sparse_bsc_tensor
        sparse_compressed_tensor sparse.FloatTensor cuda.sparse.FloatTensor
        """,
    ),
    **_each(
        PROMOTED,
        """
        add sub subtract mul multiply rsub where maximum minimum fmax fmin fmod remainder floor_divide lerp clamp
        clip cat concat concatenate hstack vstack dstack row_stack column_stack stack
        outer ger kron cross linalg.cross addcmul addcdiv bitwise_and bitwise_or bitwise_xor
        bitwise_left_shift bitwise_right_shift block_diag cartesian_prod dist cosine_similarity pairwise_distance
        cosine_embedding_loss hinge_embedding_loss margin_ranking_loss triplet_margin_loss mse_loss l1_loss
        smooth_l1_loss huber_loss soft_margin_loss triplet_margin_with_distance_loss poisson_nll_loss kl_div
        stft
        """,
    ),
    **_each(
        FLOATED,
        """
        div divide true_divide sqrt rsqrt exp exp2 expm1 log log1p log2 log10 sin cos tan asin acos atan sinh cosh tanh
        asinh acosh atanh arcsin arccos arctan arctanh arcsinh arccosh sigmoid erf erfc lgamma digamma polygamma
        reciprocal sinc atan2 arctan2 logaddexp logaddexp2 xlogy logit i0 deg2rad rad2deg expit
        float_power hypot copysign nextafter         """,
    ),
    **_each(
        AGREEING,
        """
        matmul mm mv bmm addmm addmv addbmm baddbmm addr dot vdot einsum linear chain_matmul linalg.multi_dot
        linalg.matmul conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d bilinear
        scaled_dot_product_attention tensordot inner cdist linalg.solve cholesky_solve
        linalg.solve_triangular linalg.vecdot lstm gru rnn_tanh lstm_cell gru_cell rnn_tanh_cell
        multi_head_attention_forward
        spmm dsmm smm hspmm hsmm sspaddmm sparse.mm sparse.addmm sparse.sampled_addmm
        """,
    ),
    **_each(COUNTED, "sum nansum prod cumsum cumprod"),
    **_each(
        INTEGER,
        """
        argmax argmin argsort nonzero argwhere bincount count_nonzero searchsorted bucketize one_hot
        multinomial         """,
    ),
    **_each(
        BOOLEAN,
        """
        eq ne lt le gt ge equal isfinite isnan isinf isposinf isneginf isreal logical_and logical_or logical_not
        logical_xor all any isclose greater greater_equal less less_equal not_equal isin signbit is_nonzero allclose
        """,
    ),
    **_each(WITH_INDICES, "sort topk kthvalue mode cummax cummin"),
    **_each(PIECES, "split split_with_sizes chunk unbind tensor_split hsplit vsplit dsplit meshgrid broadcast_tensors"),
    # A loss of class scores keeps their precision, whatever its targets are.
    **_each(
        SAME,
        """
        cross_entropy nll_loss binary_cross_entropy binary_cross_entropy_with_logits multi_margin_loss
        multilabel_margin_loss multilabel_soft_margin_loss gaussian_nll_loss ctc_loss
        """,
    ),
    # Powers: a number as exponent leaves the precision; a tensor promotes.
    "pow": PROMOTED,
    "float_power": DOUBLE,
    **_each(
        EITHER,
        "binary_cross_entropy_with_logits hinge_embedding_loss inner huber_loss soft_margin_loss "
        "multilabel_soft_margin_loss gaussian_nll_loss",
    ),
    **_each(
        SAME,
        "svd linalg.svd qr linalg.qr linalg.eigh slogdet linalg.slogdet var_mean std_mean aminmax linalg.lstsq frexp",
    ),
    "square": SAME,
    "bitwise_not": SAME,
    "max": WITH_INDICES,
    "min": WITH_INDICES,
    "median": WITH_INDICES,
    "nanmedian": WITH_INDICES,
}

# Losses whose gradients are computed from both operands as they come, which is refused where these differ, up to a
# PyTorch that promotes there (run on 2.6 and 2.14; https://github.com/pytorch/pytorch/pull/175743 is of March 2026).
AGREEING_IN_GRADIENT = {"mse_loss": (2, 12), "huber_loss": (99, 0)}
# Operands of several precisions are refused; binary_cross_entropy gives a scalar, and other losses promote.
MUST_AGREE = frozenset(name for name, kind in RESULT.items() if kind == AGREEING) | {"binary_cross_entropy"}
# So must the operands of these, which autocast leaves as they are: it has no rule for them.
AGREE_UNDER_AUTOCAST = frozenset("lerp heaviside isclose allclose meshgrid cartesian_prod".split())
# With a `dim`, these give indices as well; without one, a scalar.
REDUCED_OR_INDEXED = frozenset("max min median nanmedian".split())
# Without a `dim` these give a scalar.
REDUCING = frozenset(
    (
        "sum nansum prod mean nanmean std var norm linalg.norm linalg.vector_norm linalg.matrix_norm amax amin "
        "max min median nanmedian "
        "argmax argmin logsumexp all any count_nonzero quantile dist trace"
    ).split()
)
ALWAYS_SCALAR = frozenset("dot vdot trace dist equal allclose is_nonzero logdet det linalg.det".split())
# A loss gives a scalar unless it is told not to.
LOSSES = frozenset(name for name in RESULT if name.endswith("_loss")) | frozenset(
    "cross_entropy kl_div binary_cross_entropy binary_cross_entropy_with_logits".split()
)

# The elements stay what they are, looked at in another shape or place.
VIEWS = frozenset(
    (
        "view reshape view_as reshape_as expand expand_as flatten unflatten squeeze unsqueeze transpose "
        "swapaxes swapdims "
        "movedim moveaxis permute t adjoint contiguous clone detach broadcast_to narrow select cuda cpu "
        "requires_grad ravel "
        "repeat tile flip index_select gather chunk split unbind unfold roll diagonal masked_select "
        "to_dense coalesce to_sparse to_sparse_coo to_sparse_csr to_sparse_csc to_sparse_bsr to_sparse_bsc sparse_mask"
    ).split()
)
# Nothing is rounded: elements are moved, chosen, compared, or change their sign.
EXACT = (
    VIEWS
    | frozenset(name for name, kind in RESULT.items() if kind in (INTEGER, BOOLEAN, WITH_INDICES, PIECES))
    | frozenset(
        (
            "cat concat concatenate stack hstack vstack dstack row_stack column_stack block_diag where index take "
            "take_along_dim index_put index_copy index_fill masked_fill masked_scatter scatter pad abs absolute "
            "neg negative positive sign sgn relu relu6 hardtanh threshold clamp clip clamp_min clamp_max maximum "
            "minimum fmax fmin amax amin nan_to_num ceil floor round trunc tril triu diag diag_embed msort "
            "max_pool1d max_pool2d max_pool3d zero fill copy repeat_interleave flip fliplr flipud rot90 "
            "adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d pixel_shuffle pixel_unshuffle "
            "channel_shuffle real imag"
        ).split()
    )
)
# The first of them rounds its result to one, or to zero, where it is far from it: in float16 from a logit of 8 on.
PROBABILITIES = frozenset("sigmoid softmax hardsigmoid softmin gumbel_softmax expit".split())
BOUNDED = PROBABILITIES | frozenset("tanh sin cos normalize cosine_similarity sign hardtanh softsign erf".split())
# The distributions that take logarithms of the probabilities they are given, and where those stand.
OF_PROBABILITIES = {
    "Bernoulli": 0, "Binomial": 1, "Categorical": 0, "ContinuousBernoulli": 0, "Geometric": 0, "Multinomial": 1,
    "NegativeBinomial": 1, "OneHotCategorical": 0, "RelaxedBernoulli": 1, "RelaxedOneHotCategorical": 1,
}  # fmt: skip
# What comes near to its limits without reaching them: in half precision it does, and what differs there no longer does.
SATURATING = frozenset("sigmoid expit tanh".split())
PRODUCTS = frozenset(name for name, kind in AUTOCAST.items() if kind == LOW) - {"prelu"} | frozenset(
    ("tensordot", "inner")
)
QUOTIENTS = frozenset("div divide true_divide".split())
SQUARES = frozenset("square pow float_power".split())
EXPONENTIALS = frozenset("exp exp2 expm1 sinh cosh".split())
SUMS = frozenset(
    "sum nansum prod cumsum cumprod norm linalg.norm linalg.vector_norm linalg.matrix_norm std var logsumexp "
    "dist cdist trace".split()
)
# Where they are infinite, and whether only their derivatives are.
SINGULAR: dict[str, tuple[tuple[float, ...], bool]] = {
    **dict.fromkeys((*QUOTIENTS, "reciprocal", "rsqrt", "log", "log2", "log10"), ((0.0,), False)),
    **dict.fromkeys("acos arccos asin arcsin".split(), ((-1.0, 1.0), True)),
    **dict.fromkeys(("atanh", "arctanh"), ((-1.0, 1.0), False)),
    "acosh": ((1.0,), True), "sqrt": ((0.0,), True), "log1p": ((-1.0,), False), "logit": ((0.0, 1.0), False),
}  # fmt: skip
# What a tensor is asked for that is no tensor: no gradient comes through it, and no cast is to change it.
NO_TENSORS = frozenset("shape size dim ndim numel stride device dtype is_cuda requires_grad".split())
# What asks whether a number has overflowed.
OVERFLOW_TESTS = frozenset("isfinite isnan isinf".split())
LOGARITHMS = frozenset("log log2 log10 log1p xlogy logit".split())
# What comes out is proportional to what goes in: a loss scale stays what it is.
PROPORTIONAL = VIEWS | frozenset(
    (
        "abs absolute neg negative positive sum nansum mean nanmean norm linalg.norm linalg.vector_norm "
        "linalg.matrix_norm max min amax "
        "amin median std maximum minimum cat concat stack hstack vstack add sub subtract relu leaky_relu dropout "
        "cumsum sort topk trace masked_fill where pad index_put scatter masked_scatter lerp dist quantile flatten to"
    ).split()
)
# What is computed of one tensor: a number beside it says how, and is no term.
OF_ONE = VIEWS | REDUCING | frozenset("cumsum sort topk cat concat stack hstack vstack".split())
# A loss comes out where losses go in: parts of it, and sums and multiples.
LINEAR = VIEWS | frozenset(
    (
        "sum nansum mean nanmean add sub subtract mul multiply div divide true_divide neg negative positive stack cat "
        "concat where float to index getitem"
    ).split()
)
# The size of what goes in does not matter.
SIZELESS = frozenset(name for name, kind in RESULT.items() if kind in (INTEGER, BOOLEAN)) | frozenset(
    "sign sgn normalize cosine_similarity zeros_like ones_like empty_like rand_like randn_like full_like".split()
)
# What a positive factor in the operands becomes: a power of itself, or nothing.
MIXING = frozenset("maximum minimum lerp dist".split())
HOMOGENEOUS = (
    (PROPORTIONAL - MIXING)
    | OVERFLOW_TESTS
    | frozenset(
        (
            "mul multiply matmul mm bmm linear dot einsum mv div divide true_divide square pow sqrt rsqrt reciprocal "
            "sign sgn signbit normalize cosine_similarity argmax argmin argsort any all nonzero count_nonzero "
            "zeros_like ones_like empty_like rand_like randn_like full_like zero fill copy"
        ).split()
    )
)
# What a positive factor goes into otherwise, of what keeps the precision of its operands.
INHOMOGENEOUS = frozenset(
    (
        "softmax log_softmax softmin gumbel_softmax logsumexp logcumsumexp logsigmoid round floor ceil trunc fix frac "
        "gelu silu mish elu selu celu softplus softsign hardsigmoid hardswish hardtanh relu6 glu tanhshrink hardshrink "
        "softshrink threshold det logdet slogdet inverse pinverse cholesky matrix_exp matrix_power prod cumprod erfinv "
        "bernoulli batch_norm group_norm instance_norm layer_norm rms_norm local_response_norm var cov corrcoef "
        "cross_entropy binary_cross_entropy mse_loss smooth_l1_loss kl_div linalg.det linalg.inv linalg.slogdet "
        "linalg.pinv linalg.cholesky linalg.matrix_exp linalg.matrix_power"
    ).split()
)
# Where a number is given that goes into the tensor as it is: what the precision of the tensor cannot hold is refused.
FILLED: dict[str, tuple[tuple[int, str], ...]] = {
    "masked_fill": ((2, "value"),), "fill": ((1, "value"),), "index_fill": ((3, "value"),), "scatter": ((3, "value"),),
    "where": ((1, "input"), (2, "other")), "clamp": ((1, "min"), (2, "max")), "clip": ((1, "min"), (2, "max")),
    "clamp_min": ((1, "min"),), "clamp_max": ((1, "max"),), "pad": ((3, "value"),), "threshold": ((2, "value"),),
    "full_like": ((1, "fill_value"),), "new_full": ((2, "fill_value"),),
}  # fmt: skip
# What is put into a tensor, by its place behind that and by name, where it must be of the precision of the tensor.
STORES: dict[str, tuple[int, str]] = {
    **dict.fromkeys(("scatter", "scatter_add", "scatter_reduce"), (3, "src")),
    **dict.fromkeys(("index_add", "index_copy", "index_reduce"), (3, "source")),
    "index_put": (2, "values"), "masked_scatter": (2, "source"),
}  # fmt: skip
# What adds elements of a tensor to one of another, as many as a run has, each sum rounded to the precision of that.
ADDING = frozenset("index_add scatter_add scatter_reduce index_reduce index_put".split())
# What gives complex numbers, whatever it is given: what is imaginary a cast to float32 would drop.
OF_PARTS = frozenset("complex polar view_as_complex".split())  # of those in half precision, some that few kernels take
_FORWARD = frozenset("fft.fft fft.fft2 fft.fftn fft.rfft fft.rfft2 fft.rfftn fft.ihfft fft.ihfft2 fft.ihfftn".split())
_BACK = frozenset("fft.ifft fft.ifft2 fft.ifftn".split())
BACK_TO_REAL = frozenset("fft.irfft fft.irfft2 fft.irfftn fft.hfft fft.hfft2 fft.hfftn".split())
MAKING_COMPLEX = OF_PARTS | _FORWARD | _BACK
# What gives real numbers of complex ones.
MAKING_REAL = BACK_TO_REAL | frozenset("view_as_real abs absolute angle real imag".split())
# What is meant for complex numbers: those of which nobody knows what they are as well.
TAKING_COMPLEX = _BACK | BACK_TO_REAL
# CUDA's autocast has no rule for them; cuFFT takes float16 for sizes that are powers of two only, and bfloat16 never.
TRANSFORMS = _FORWARD | _BACK | BACK_TO_REAL | {"stft"}
# No kernel takes these in half precision, or they raise.
NO_HALF_KERNEL = frozenset(
    (
        "inverse linalg.inv pinverse linalg.pinv linalg.solve cholesky linalg.cholesky svd linalg.svd linalg.svdvals "
        "linalg.eigh linalg.eigvalsh linalg.eig linalg.eigvals qr linalg.qr lu linalg.lu det linalg.det logdet slogdet "
        "linalg.slogdet cholesky_solve cholesky_inverse linalg.solve_triangular triangular_solve linalg.lstsq lstsq "
        "symeig geqrf ormqr linalg.householder_product histc lu_solve linalg.cholesky_ex linalg.cond "
        "linalg.inv_ex linalg.ldl_factor linalg.lu_factor linalg.lu_factor_ex linalg.matrix_rank linalg.solve_ex "
        "linalg.tensorinv linalg.tensorsolve"
    ).split()
) | {quantization.FUSED, *TRANSFORMS}
# What is to get float32: it takes no half precision, or makes of it what few kernels take.
IN_FLOAT32 = NO_HALF_KERNEL | OF_PARTS
# The methods that take nothing but their tensor: what is given more is of something else, `manifold.exp(x, v)`.
TAKING_NOTHING = frozenset(
    (
        "inverse det logdet slogdet exp exp2 expm1 log log2 log10 log1p sqrt rsqrt square abs neg sign reciprocal relu "
        "sigmoid sin cos tan sinh cosh tanh ceil floor trunc frac erf erfc erfinv lgamma digamma t adjoint"
    ).split()
)
# The functions that no tensor has as a method: what has one of them, as a layer, say, that it makes, is none.
NO_METHODS = frozenset(
    (
        "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d "
        "adaptive_max_pool3d affine_grid alpha_dropout avg_pool1d avg_pool2d avg_pool3d batch_norm bilinear "
        "binary_cross_entropy binary_cross_entropy_with_logits block_diag broadcast_tensors bucketize cartesian_prod "
        "cat cdist celu chain_matmul channel_shuffle column_stack concat concatenate conv1d conv2d conv3d conv_tbc "
        "conv_transpose1d conv_transpose2d conv_transpose3d cosine_embedding_loss cosine_similarity cross_entropy "
        "cross_map_lrn2d ctc_loss cumulative_trapezoid dropout dropout1d dropout2d dropout3d dsmm dstack einsum elu "
        "embedding_bag feature_alpha_dropout feature_dropout fold gaussian_nll_loss gelu glu grid_sample grid_sampler "
        "group_norm gru gru_cell gumbel_softmax hardsigmoid hardswish hardtanh hinge_embedding_loss hsmm hspmm hstack "
        "huber_loss instance_norm interpolate isin kl_div l1_loss layer_norm leaky_relu linear local_response_norm "
        "logsigmoid lp_pool1d lp_pool2d lstm lstm_cell margin_ranking_loss max_pool1d max_pool2d max_pool3d meshgrid "
        "mish mse_loss multi_head_attention_forward multi_margin_loss multilabel_margin_loss "
        "multilabel_soft_margin_loss nll_loss normalize one_hot pad pairwise_distance pdist pixel_shuffle "
        "pixel_unshuffle poisson_nll_loss relu6 rms_norm rnn_tanh rnn_tanh_cell row_stack rrelu rsub "
        "scaled_dot_product_attention searchsorted selu silu smooth_l1_loss soft_margin_loss softmin softplus "
        "softshrink softsign spmm stack std_mean tanhshrink tensordot threshold trapezoid trapz triplet_margin_loss "
        "triplet_margin_with_distance_loss upsample upsample_bilinear upsample_nearest var_mean vstack"
    ).split()
)
METHODS = RESULT.keys() - NO_METHODS
# What magnifies the rounding of what it is given, and is not to be rounded itself.
INVERSES = frozenset("inverse linalg.inv pinverse linalg.pinv".split())
# What takes places of an image, and what makes them: its second operand.
SAMPLING = frozenset("grid_sample grid_sampler".split())
# Autocast casts a sparse matrix for its product, and CUDA has few of those in half precision: pytorch issue 41069.
SPARSE_PRODUCTS = frozenset("spmm dsmm smm hspmm hsmm sspaddmm sparse.mm sparse.addmm sparse.sampled_addmm".split())
# What is made of indices and of values, and where these stand.
OF_VALUES = {
    **dict.fromkeys(("sparse_coo_tensor", "sparse.FloatTensor", "cuda.sparse.FloatTensor"), 1),
    **dict.fromkeys((f"sparse_{layout}_tensor" for layout in "csr csc bsr bsc compressed".split()), 2),
}
# What is sparse whatever it is made of, and what never is. The rest is of what is; sums and products, of that alone.
MAKING_SPARSE = frozenset(OF_VALUES) | frozenset(
    (
        "to_sparse to_sparse_coo to_sparse_csr to_sparse_csc to_sparse_bsr to_sparse_bsc sparse_mask "
        "smm hspmm hsmm sspaddmm sparse.sampled_addmm"
    ).split()
)
MAKING_DENSE = frozenset("to_dense values indices crow_indices col_indices ccol_indices row_indices".split())
SEVERAL = {
    "svd": 3, "linalg.svd": 3, "qr": 2, "linalg.qr": 2, "linalg.eigh": 2, "linalg.eig": 2, "slogdet": 2,
    "linalg.slogdet": 2, "var_mean": 2, "std_mean": 2, "aminmax": 2, "linalg.lstsq": 4, "frexp": 2, "lu": 2,
}  # fmt: skip

# New tensors: those of the default type unless a dtype is said, and those like another tensor.
NEW = frozenset("rand randn zeros ones empty eye linspace logspace empty_strided hann_window hamming_window".split())
_GIVEN = "full tensor as_tensor scalar_tensor from_numpy arange range randint randperm normal tril_indices triu_indices"
CREATED = NEW.union(_GIVEN.split())
LIKE = frozenset(
    "zeros_like ones_like empty_like rand_like randn_like full_like new_zeros new_ones new_empty new_full".split()
)
ZEROS, ONES = (frozenset((each, f"{each}_like", f"new_{each}")) for each in ("zeros", "ones"))
# What draws random numbers: in another order it gives others.
RANDOM = frozenset(
    (
        "dropout dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout feature_dropout rrelu "
        "gumbel_softmax bernoulli normal uniform exponential random rand_like randn_like"
    ).split()
)

# The layers of `torch.nn`, by the operator that their call runs.
LAYERS: dict[str, str] = {
    "Linear": "linear", "Conv1d": "conv1d", "Conv2d": "conv2d", "Conv3d": "conv3d",
    "ConvTranspose1d": "conv_transpose1d", "ConvTranspose2d": "conv_transpose2d", "ConvTranspose3d": "conv_transpose3d",
    "LazyLinear": "linear", "LazyConv2d": "conv2d", "Bilinear": "bilinear", "PReLU": "prelu",
    "LayerNorm": "layer_norm", "GroupNorm": "group_norm", "RMSNorm": "rms_norm",
    "BatchNorm1d": "batch_norm", "BatchNorm2d": "batch_norm", "BatchNorm3d": "batch_norm",
    "SyncBatchNorm": "batch_norm",
    "InstanceNorm1d": "instance_norm", "InstanceNorm2d": "instance_norm", "InstanceNorm3d": "instance_norm",
    "LocalResponseNorm": "local_response_norm", "CrossMapLRN2d": "cross_map_lrn2d",
    "ReLU": "relu", "ReLU6": "relu6", "LeakyReLU": "leaky_relu",
    "ELU": "elu", "SELU": "selu", "CELU": "celu", "GELU": "gelu", "SiLU": "silu", "Mish": "mish",
    "Hardswish": "hardswish", "Hardsigmoid": "hardsigmoid", "Hardtanh": "hardtanh", "Sigmoid": "sigmoid",
    "Tanh": "tanh", "Softmax": "softmax", "LogSoftmax": "log_softmax", "Softmax2d": "softmax", "Softplus": "softplus",
    "Softsign": "softsign", "LogSigmoid": "logsigmoid", "Threshold": "threshold", "GLU": "glu", "Softmin": "softmin",
    "Dropout": "dropout", "Dropout1d": "dropout", "Dropout2d": "dropout", "Dropout3d": "dropout",
    "AlphaDropout": "dropout", "Identity": "contiguous", "Flatten": "flatten", "Unflatten": "unflatten",
    "Upsample": "interpolate", "UpsamplingNearest2d": "interpolate", "UpsamplingBilinear2d": "interpolate",
    "AvgPool1d": "avg_pool1d", "AvgPool2d": "avg_pool2d", "AvgPool3d": "avg_pool3d", "MaxPool1d": "max_pool1d",
    "MaxPool2d": "max_pool2d", "MaxPool3d": "max_pool3d", "AdaptiveAvgPool1d": "adaptive_avg_pool1d",
    "AdaptiveAvgPool2d": "adaptive_avg_pool2d", "AdaptiveAvgPool3d": "adaptive_avg_pool3d",
    "AdaptiveMaxPool1d": "adaptive_max_pool1d", "AdaptiveMaxPool2d": "adaptive_max_pool2d",
    "AdaptiveMaxPool3d": "adaptive_max_pool3d", "PixelShuffle": "pixel_shuffle", "PixelUnshuffle": "pixel_unshuffle",
    "ZeroPad2d": "pad", "ReflectionPad2d": "pad", "ReplicationPad2d": "pad", "ConstantPad2d": "pad",
    "ReflectionPad1d": "pad", "ConstantPad1d": "pad", "Unfold": "unfold", "Fold": "fold",
    "CosineSimilarity": "cosine_similarity", "PairwiseDistance": "pairwise_distance", "LSTMCell": "lstm_cell",
    "GRUCell": "gru_cell", "RNNCell": "rnn_tanh_cell", "LSTM": "lstm", "GRU": "gru", "RNN": "rnn_tanh",
    "MultiheadAttention": "multi_head_attention_forward", "ChannelShuffle": "channel_shuffle",
    "CrossEntropyLoss": "cross_entropy", "NLLLoss": "nll_loss", "MSELoss": "mse_loss", "L1Loss": "l1_loss",
    "SmoothL1Loss": "smooth_l1_loss", "HuberLoss": "huber_loss", "KLDivLoss": "kl_div",
    "BCELoss": "binary_cross_entropy", "BCEWithLogitsLoss": "binary_cross_entropy_with_logits",
    "CosineEmbeddingLoss": "cosine_embedding_loss", "HingeEmbeddingLoss": "hinge_embedding_loss",
    "MarginRankingLoss": "margin_ranking_loss", "MultiMarginLoss": "multi_margin_loss",
    "MultiLabelMarginLoss": "multilabel_margin_loss", "MultiLabelSoftMarginLoss": "multilabel_soft_margin_loss",
    "PoissonNLLLoss": "poisson_nll_loss", "SoftMarginLoss": "soft_margin_loss", "GaussianNLLLoss": "gaussian_nll_loss",
    "TripletMarginLoss": "triplet_margin_loss", "TripletMarginWithDistanceLoss": "triplet_margin_with_distance_loss",
    "CTCLoss": "ctc_loss", "NLLLoss2d": "nll_loss", **quantization.MODULES,
}  # fmt: skip
# Those with weights of their own, which their operator gets as well.
WEIGHTED = frozenset(
    "linear conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d bilinear prelu layer_norm "
    "group_norm "
    "rms_norm batch_norm instance_norm lstm_cell gru_cell rnn_tanh_cell lstm gru rnn_tanh "
    "multi_head_attention_forward".split()
)
# Layers without weights: those that compare two tensors or more, and the others, which take one.
COMPARING = frozenset(name for name in LAYERS if name.endswith(("Loss", "Loss2d"))) | {
    "CosineSimilarity",
    "PairwiseDistance",
}
OF_ONE_TENSOR = frozenset(name for name, operator in LAYERS.items() if operator not in WEIGHTED) - COMPARING
# Whose result has a shape, whatever goes in.
SHAPED_RESULTS = frozenset(
    "linear conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d mm bmm addmm baddbmm "
    "addbmm mv addmv addr layer_norm group_norm batch_norm embedding scaled_dot_product_attention cat concat "
    "stack one_hot "
    "lstm gru rnn_tanh prelu avg_pool2d max_pool2d adaptive_avg_pool2d interpolate flatten".split()
)
# Whose result has two dimensions or more.
MATRIX_RESULTS = frozenset(
    "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d mm bmm addmm baddbmm addbmm addr "
    "group_norm batch_norm scaled_dot_product_attention avg_pool2d max_pool2d adaptive_avg_pool2d interpolate".split()
)
DTYPE_METHODS = {
    "float": "torch.float32", "half": "torch.float16", "double": "torch.float64", "bfloat16": "torch.bfloat16",
    "int": "torch.int32", "long": "torch.int64", "short": "torch.int16", "bool": "torch.bool", "byte": "torch.uint8",
    "char": "torch.int8", "cfloat": "torch.complex64", "cdouble": "torch.complex128",
}  # fmt: skip
