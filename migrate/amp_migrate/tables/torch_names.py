"""Names of torch that tell what an object is: data for `amp_migrate.analysis.roles`."""

from __future__ import annotations

from functools import lru_cache

from amp_migrate.tables import quantization

# Native AMP by all the names that it goes by.
AUTOCAST = frozenset(
    (
        "torch.autocast torch.amp.autocast torch.amp.autocast_mode.autocast torch.cuda.amp.autocast "
        "torch.cpu.amp.autocast torch.cuda.amp.autocast_mode.autocast torch.cpu.amp.autocast_mode.autocast"
    ).split()
)
GRAD_SCALER = frozenset(
    (
        "torch.GradScaler torch.amp.GradScaler torch.amp.grad_scaler.GradScaler torch.cuda.amp.GradScaler "
        "torch.cpu.amp.GradScaler torch.cuda.amp.grad_scaler.GradScaler"
    ).split()
)

# Modules of `torch.nn` whose call computes a loss, and the functions behind them.
LOSS_CLASS_SUFFIX = "Loss"
LOSS_FUNCTIONS = frozenset(
    f"torch.nn.functional.{name}"
    for name in (
        "binary_cross_entropy",
        "binary_cross_entropy_with_logits",
        "cosine_embedding_loss",
        "cross_entropy",
        "ctc_loss",
        "gaussian_nll_loss",
        "hinge_embedding_loss",
        "huber_loss",
        "kl_div",
        "l1_loss",
        "linear_cross_entropy",
        "margin_ranking_loss",
        "mse_loss",
        "multi_margin_loss",
        "multilabel_margin_loss",
        "multilabel_soft_margin_loss",
        "nll_loss",
        "poisson_nll_loss",
        "smooth_l1_loss",
        "soft_margin_loss",
        "triplet_margin_loss",
        "triplet_margin_with_distance_loss",
    )
)

# Losses that CUDA autocast refuses to run: they must stand outside the region, on float32 input.
BANNED_LOSS_CLASS = "torch.nn.BCELoss"
BANNED_LOSS_FUNCTION = "torch.nn.functional.binary_cross_entropy"

# What turns logits into probabilities.
SIGMOID_FUNCTIONS = frozenset({"torch.sigmoid", "torch.nn.functional.sigmoid", "torch.special.expit"})
SIGMOID_CLASS = "torch.nn.Sigmoid"

# What limits each gradient by itself, whatever the others are.
CLIPS_BY_VALUE = "clip_grad_value_"
# Calls that read or change `p.grad` of the parameters they are given.
GRADIENT_FUNCTIONS = frozenset(
    f"torch.nn.utils.{name}"
    for name in ("clip_grad_norm_", CLIPS_BY_VALUE, "clip_grad_norm", "get_total_norm", "clip_grads_with_norm_")
) | {"apex.amp.master_params"}

MEASURING = frozenset(("torch.nn.utils.get_total_norm", "apex.amp.master_params"))  # those that change none

# What gives every process the gradients of all, with the scale that is in them: it is linear
# (https://docs.pytorch.org/docs/stable/distributed.html, https://horovod.readthedocs.io/en/stable/api.html).
HOROVOD_COLLECTIVES = frozenset(
    f"horovod.torch.{name}"
    for name in (
        "allreduce allreduce_ allreduce_async allreduce_async_ grouped_allreduce grouped_allreduce_ "
        "grouped_allreduce_async grouped_allreduce_async_ allgather allgather_async broadcast broadcast_ "
        "broadcast_async broadcast_async_ reducescatter reducescatter_async"
    ).split()
)
GRADIENT_COLLECTIVES = HOROVOD_COLLECTIVES | {
    f"torch.distributed.{name}"
    for name in (
        "all_gather all_gather_into_tensor all_reduce all_reduce_coalesced broadcast reduce reduce_scatter "
        "reduce_scatter_tensor"
    ).split()
}

# Those that clip to a limit, with their parameters: the second is the limit.
_CLIP_NORM = ("parameters", "max_norm", "norm_type", "error_if_nonfinite", "foreach")
CLIPPING = {
    "torch.nn.utils.clip_grad_norm_": _CLIP_NORM,
    "torch.nn.utils.clip_grad_norm": _CLIP_NORM,
    "torch.nn.utils.clip_grad_value_": ("parameters", "clip_value", "foreach"),
}

# Methods of a module that compute nothing worth a region, although their result may reach the loss.
MODULE_BOOKKEEPING = frozenset(
    (
        "_get_name add_module apply bfloat16 buffers children clone compile copy cpu cuda double eval extra_repr "
        "float get_buffer get_extra_state get_parameter get_submodule half init_hidden ipu load_state_dict modules "
        "mtia named_buffers named_children named_modules named_parameters no_sync parameters register_backward_hook "
        "register_buffer register_forward_hook register_forward_pre_hook register_full_backward_hook "
        "register_full_backward_pre_hook register_load_state_dict_post_hook register_load_state_dict_pre_hook "
        "register_module register_parameter register_state_dict_post_hook register_state_dict_pre_hook requires_grad_ "
        "set_extra_state set_submodule share_memory state_dict to to_empty train type xpu zero_grad"
    ).split()
)

# Methods of a module that hand back the module itself.
HANDS_BACK = frozenset("to cuda cpu float train eval requires_grad_ apply".split())

# Functions that give a copy of what they are given.
COPIES = frozenset(("copy.copy", "copy.deepcopy"))

# How the names of bookkeeping methods begin in user code: `parse_batch`, `init_hidden`, `get_parameters`.
BOOKKEEPING_PREFIXES = tuple(
    (
        "build configure create freeze get init load log make parse prepare register reset resize restore save set "
        "update"
    ).split()
)

# ... or end: `arch_parameters`.
BOOKKEEPING_SUFFIXES = tuple("buffers modules parameters params".split())

# ... and those of functions that are given a module: `print_network(net)`, `evaluate_model(model)`.
MODULE_VERBS = tuple(
    (
        "clone compile copy count define draw dump eval evaluate export fit fuse plot print prune quantize run show "
        "summarize sync test train validate visualize wrap"
    ).split()
)

# Calling one of these on an object shows that it is a module.
MODULE_EVIDENCE = frozenset(
    "children eval modules named_children named_modules named_parameters no_sync parameters train".split()
)

# What a source of data has, too, for the part of it that is for training.
PARTS_OF_DATA = frozenset("eval train".split())

# Calling one of these on an object shows that it is a text: `args.model.lower()`.
TEXT_METHODS = frozenset(
    (
        "capitalize casefold encode endswith find index isdigit join lower lstrip partition removeprefix removesuffix "
        "replace rfind rpartition rsplit rstrip split splitlines startswith strip title upper zfill"
    ).split()
)
# Those that no module has, whatever a name says of it.
ONLY_OF_TEXTS = TEXT_METHODS - frozenset("encode find index join replace split".split())

# Packages with models and processors of their own, none of which is a module of PyTorch.
WITHOUT_MODULES = frozenset("catboost fasttext gensim keras lightgbm sentencepiece sklearn tensorflow xgboost".split())

# What `torch.cuda` has that does nothing where there is no GPU, and what sets a default that is none of places.
SAYING_NO_PLACE = frozenset(
    "is_available device_count is_initialized is_bf16_supported empty_cache manual_seed manual_seed_all seed seed_all "
    "memory_allocated max_memory_allocated memory_reserved max_memory_reserved memory_cached max_memory_cached "
    "memory_stats set_default_dtype".split()
)

# What runs replicas of a module in threads.
DATA_PARALLEL = frozenset(("torch.nn.DataParallel", "torch.nn.parallel.DataParallel"))
DATA_PARALLEL_CALLS = frozenset(("torch.nn.parallel.data_parallel", "torch.nn.parallel.data_parallel.data_parallel"))

# Calls that hand back the module they are given.
MODULE_WRAPPERS = frozenset(
    (
        "torch.nn.parallel.DistributedDataParallel "
        "torch.nn.parallel.distributed.DistributedDataParallel torch.compile torch.jit.script "
        "torch.nn.SyncBatchNorm.convert_sync_batchnorm apex.parallel.DistributedDataParallel "
        "apex.parallel.convert_syncbn_model torch.nn.utils.weight_norm torch.nn.utils.spectral_norm "
        "torch.nn.utils.parametrizations.weight_norm torch.nn.utils.parametrizations.spectral_norm"
    ).split()
).union(DATA_PARALLEL, quantization.PREPARATIONS)

# Modules that hold others by number or key.
MODULE_COLLECTIONS = frozenset(("torch.nn.ModuleDict", "torch.nn.ModuleList"))
MODULE_BASES = frozenset(("torch.nn.Module", "torch.nn.modules.Module", "torch.nn.modules.module.Module"))
_MODULE_FACTORIES = (
    "torch.nn.",
    "torchvision.models.",
    "timm.create_model",
    "timm.models.",
    "torch.hub.load",
    "apex.normalization.",
    "apex.mlp.",
    "apex.fused_dense.",
    "apex.contrib.layer_norm.",
    "apex.contrib.group_norm.",
    *quantization.MODULE_NAMES,
)
# Where what a function gives is no module, and where no class is one.
_OF_LAYERS = ("torch.nn.", "timm.models.layers.", "timm.models.helpers.", "timm.models.registry.")
_OF_TENSORS = ("torch.nn.utils.", "torch.nn.functional.", "torch.nn.init.", "torch.nn.parameter")
_OPTIMIZER_FACTORIES = (
    "torch.optim.",
    "torch.distributed.optim.ZeroRedundancyOptimizer",
    "apex.optimizers.",
    "apex.contrib.optimizers.",
)
DISTRIBUTIONS = "torch.distributions."
SCHEDULER_FACTORIES = ("torch.optim.lr_scheduler.", "torch.optim.swa_utils.")

# Packages whose own recipes train under autocast with a scaler: the losses in their models are made for it.
TRAINED_WITH_AMP = frozenset(
    (
        "accelerate detectron2 dgl diffusers einops espnet2 fairseq mmaction mmcls mmcv mmdet mmdet3d mmengine mmocr "
        "mmpose mmpretrain mmrotate mmseg mmyolo monai nnunet nnunetv2 open_clip sentence_transformers spconv "
        "speechbrain timm torch torchaudio torchsparse torchvision transformers ultralytics"
    ).split()
)

# How the names begin of what makes models whose code opens no region: they compute as their callers say.
OPENING_NO_REGIONS = ("timm.create_model", "timm.models.", "torchvision.models.", "transformers.")

# Packages of those above whose kernels take half precision from some version on, and how the names begin of what uses
# these.
HALF_SINCE = {"dgl": (0, 9)}
COMPUTING_BY_KERNELS = ("dgl.function.", "dgl.nn.", "dgl.ops.")

# How the names begin of what takes its steps by how much the numbers of a function differ that it is given.
STEPPING_BY_ERRORS = ("scipy.integrate.", "scipy.optimize.", "torchdiffeq.", "torchsde.")

# How the names begin of what gives code of others: of a name that a run tells, or out of a file.
OUT_OF_FILES = ("pickle.load", "torch.load(")
BRINGING_CODE = (
    *("importlib.import_module(", "importlib.util.module_from_spec(", "runpy.run_", "pkgutil.resolve_name("),
    *(*OUT_OF_FILES, "torch.jit.load("),
    *("hydra.utils.call(", "hydra.utils.get_class(", "hydra.utils.instantiate("),
)

# What brings models, and what they get, to a device that it finds by itself, or is for a GPU: how its names begin.
PLACING_BY_ITSELF = (
    *(
        "accelerate",
        "amp_shim",
        "apex",
        "catalyst",
        "clip",
        "colossalai",
        "composer",
        "deepspeed",
        "detectron2",
        "espnet2",
        "fairseq",
    ),
    *("fastai", "flair", "ignite", "lightning", "lightning_fabric", "mmcv", "mmengine", "nemo", "poutyne"),
    *("pytorch_lightning", "ray", "sentence_transformers", "skorch", "speechbrain", "stable_baselines3", "tianshou"),
    *("torch_xla", "transformers.Seq2SeqTrainer", "transformers.Trainer", "transformers.pipeline", "trl"),
    *("ultralytics", "unsloth", "whisper"),
)

# What else has losses that go backward and optimizers that step: code that imports one of these, and not torch.
OTHER_FRAMEWORKS = frozenset(
    "chainer jittor keras megengine mindspore mxnet oneflow paddle paddlenlp ppdet ppcls tensorflow".split()
)

# Those of which their names tell what they do with models and gradients, without anybody reading them.
KNOWN_BY_NAME = frozenset("apex deepspeed horovod numpy wandb".split()).union(
    TRAINED_WITH_AMP, WITHOUT_MODULES, OTHER_FRAMEWORKS
)


def is_optimizer_name(name: str) -> bool:
    """Whether a class or factory of PyTorch or Apex makes optimizers, and not schedulers of them."""
    return name.startswith(_OPTIMIZER_FACTORIES) and not name.startswith(SCHEDULER_FACTORIES)


@lru_cache(maxsize=10_000)
def is_module_name(name: str) -> bool:
    """Whether a class or factory of PyTorch or another package makes modules."""
    if name.startswith(_OF_TENSORS) or name == "torch.nn.Parameter":
        return False
    is_class = name.rpartition(".")[2][:1].isupper()
    return name.startswith(_MODULE_FACTORIES) and (is_class or not name.startswith(_OF_LAYERS))


def takes_gradients(method: str) -> bool:
    """Whether what is registered by a method of a tensor or module is called with gradients."""
    return method == "register_hook" or (method.endswith("_hook") and ("backward" in method or "grad" in method))
