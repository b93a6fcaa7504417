"""What torch has for the rest of Apex, beside `apex.amp`: names, and arguments that keep the meaning. Data.

Read from Apex as of May 2025, its last month with all its packages, and from PyTorch 1.12 to 2.15.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from amp_migrate.frozen import frozen
from amp_migrate.tables.signatures import Version

_ALWAYS = (0, 0)  # a target that every PyTorch is newer than


@frozen
class Said:
    """An argument that the new call has to write, because torch's default means something else.

    Attributes:
        since, before: the targets for which it is written.
        unless: packages, and `A_HIDING`, beside which it is not written.
    """

    keyword: str
    value: str
    since: Version = _ALWAYS
    before: Version | None = None
    unless: tuple[str, ...] = ()


@frozen
class TorchForm:
    """A name of Apex and torch's own for it.

    Attributes:
        code: the rule that it belongs to.
        old, new: the full names.
        parameters: those of the old call in order, with their defaults; `*` stands before those by keyword only.
        leading: how many parameters have the same place in the new call.
        goes: the other parameters that go on, with their new names. All that is neither here, nor among the leading,
            nor in `requires`, changes how fast Apex computed and not what, and is dropped.
        requires: the values of old parameters without which there is no native form.
        says: what the new call has to say unless an old argument has said it.
        is_value: whether the name alone means the same too: in an annotation, as a base class, in a variable.
        since: the first PyTorch that has the new name.
        note: what is different for scripts that load a checkpoint; empty where nothing is.
    """

    code: str
    old: str
    new: str
    parameters: str
    leading: int
    goes: Mapping[str, str] = field(default_factory=dict)
    requires: Mapping[str, object] = field(default_factory=dict)
    says: tuple[Said, ...] = ()
    is_value: bool = False
    since: Version = _ALWAYS
    note: str = ""

    @property
    def names(self) -> list[str]:
        """The names of the old parameters, in order."""
        return [word.partition("=")[0] for word in self.parameters.split() if word != "*"]


# From 2.4 on also for parameters that are on the CPU. Lightning does not clip gradients for an optimizer that unscales
# them by itself (MixedPrecision.clip_gradients).
_FUSED = Said("fused", "True", since=(2, 4), unless=("lightning", "pytorch_lightning", "lightning_fabric"))
# Apex made its buckets of what had gradients in the first iteration: parameters that never get one are in none.
# What may hide parameters from the search for unused ones, which takes them for such, and raises.
A_HIDING = "what hides parameters"
_UNUSED = Said("find_unused_parameters", "True", unless=(A_HIDING,))
_ADAM = (
    "params lr=1e-3 bias_correction=True betas=(0.9,0.999) eps=1e-8 adam_w_mode=True weight_decay=0. amsgrad=False "
    "set_grad_none=True capturable=False master_weights=False"
)
_ADAM_GOES = {name: name for name in ("betas", "eps", "weight_decay", "capturable")}
_ADAM_REQUIRES = {"bias_correction": True, "amsgrad": False, "master_weights": False}
_ADAM_STATE = "a checkpoint with the state of a FusedAdam has no step of each parameter, and cannot be loaded"
_NORM = "normalized_shape eps=1e-5 elementwise_affine=True memory_efficient=False"
_MIXED_NORM = "normalized_shape eps=1e-5 * memory_efficient=False"
_RMS_SINCE = (2, 4)
_SAME_EPS = Said("eps", "1e-5")  # torch's own default is that of the dtype

NATIVES = (
    TorchForm(
        code="AMP310",
        old="apex.parallel.DistributedDataParallel",
        new="torch.nn.parallel.DistributedDataParallel",
        parameters=(
            "module message_size=10000000 delay_allreduce=False shared_param=None allreduce_trigger_params=None "
            "retain_allreduce_buffers=False allreduce_always_fp32=False num_allreduce_streams=1 "
            "allreduce_communicators=None gradient_average=True gradient_predivide_factor=1.0 "
            "gradient_average_split_factor=None prof=False"
        ),
        leading=1,
        goes={"retain_allreduce_buffers": "gradient_as_bucket_view"},
        requires={"shared_param": None, "gradient_average": True, "gradient_predivide_factor": 1.0},
        says=(
            _UNUSED,
            Said("broadcast_buffers", "False", before=(2, 15)),
            Said("forward_sync_buffers", "False", since=(2, 15)),
        ),
        is_value=True,
    ),
    TorchForm(
        code="AMP310",
        old="apex.parallel.convert_syncbn_model",
        new="torch.nn.SyncBatchNorm.convert_sync_batchnorm",
        parameters="module process_group=None channel_last=False",
        leading=2,
        requires={"channel_last": False},
    ),
    TorchForm(
        code="AMP310",
        old="apex.parallel.SyncBatchNorm",
        new="torch.nn.SyncBatchNorm",
        parameters=(
            "num_features eps=1e-5 momentum=0.1 affine=True track_running_stats=True process_group=None "
            "channel_last=False fuse_relu=False"
        ),
        leading=6,
        requires={"channel_last": False, "fuse_relu": False},
        is_value=True,
    ),
    TorchForm(
        code="AMP320",
        old="apex.optimizers.FusedAdam",
        new="torch.optim.AdamW",
        parameters=_ADAM,
        leading=2,
        goes=_ADAM_GOES,
        requires={**_ADAM_REQUIRES, "adam_w_mode": True},
        says=(Said("weight_decay", "0.0"), _FUSED),
        note=_ADAM_STATE,
    ),
    TorchForm(
        code="AMP320",
        old="apex.optimizers.FusedAdam",
        new="torch.optim.Adam",
        parameters=_ADAM,
        leading=2,
        goes=_ADAM_GOES,
        requires={**_ADAM_REQUIRES, "adam_w_mode": False},
        says=(_FUSED,),
        note=_ADAM_STATE,
    ),
    TorchForm(
        code="AMP320",
        old="apex.optimizers.FusedSGD",
        new="torch.optim.SGD",
        parameters=(
            "params lr momentum=0 dampening=0 weight_decay=0 nesterov=False wd_after_momentum=False "
            "materialize_master_grads=True set_grad_none=False"
        ),
        leading=6,
        # Not fused: where a scaler has its first step skipped, torch's fused form leaves momentum that nobody wrote
        # (AMP637).
        requires={"wd_after_momentum": False},
    ),
    TorchForm(
        code="AMP320",
        old="apex.optimizers.FusedAdagrad",
        new="torch.optim.Adagrad",
        parameters="params lr=1e-2 eps=1e-10 weight_decay=0. set_grad_none=True adagrad_w_mode=False",
        leading=2,
        goes={"eps": "eps", "weight_decay": "weight_decay"},
        requires={"adagrad_w_mode": False},
    ),
    TorchForm("AMP330", "apex.normalization.FusedLayerNorm", "torch.nn.LayerNorm", _NORM, leading=3, is_value=True),
    TorchForm("AMP330", "apex.normalization.MixedFusedLayerNorm", "torch.nn.LayerNorm", _MIXED_NORM, leading=2),
    TorchForm(
        code="AMP330",
        old="apex.normalization.FusedRMSNorm",
        new="torch.nn.RMSNorm",
        parameters=_NORM,
        leading=3,
        says=(_SAME_EPS,),
        since=_RMS_SINCE,
    ),
    TorchForm(
        code="AMP330",
        old="apex.normalization.MixedFusedRMSNorm",
        new="torch.nn.RMSNorm",
        parameters=_MIXED_NORM,
        leading=2,
        says=(_SAME_EPS,),
        since=_RMS_SINCE,
    ),
    TorchForm(
        code="AMP340",
        old="apex.contrib.clip_grad.clip_grad_norm_",
        new="torch.nn.utils.clip_grad_norm_",
        parameters="parameters max_norm norm_type=2.0 error_if_nonfinite=False",
        leading=4,
        is_value=True,
    ),
    TorchForm(
        code="AMP340",
        old="apex.contrib.layer_norm.FastLayerNorm",
        new="torch.nn.LayerNorm",
        parameters="hidden_size eps=1e-5",
        leading=2,
        is_value=True,
    ),
    TorchForm(
        code="AMP340",
        old="apex.contrib.group_norm.GroupNorm",
        new="torch.nn.GroupNorm",
        parameters="num_groups num_channels eps=1e-5 affine=True device=None dtype=None act=",
        leading=6,
        requires={"act": ""},
    ),
)

# Modules that hold what their package also has under its own name.
INNER_MODULES = {
    "apex.contrib.clip_grad.clip_grad": "apex.contrib.clip_grad",
    "apex.contrib.group_norm.group_norm": "apex.contrib.group_norm",
    "apex.contrib.layer_norm.layer_norm": "apex.contrib.layer_norm",
    "apex.fused_dense.fused_dense": "apex.fused_dense",
    "apex.mlp.mlp": "apex.mlp",
    "apex.contrib.optimizers.fp16_optimizer": "apex.contrib.optimizers",
    "apex.contrib.optimizers.fused_adam": "apex.contrib.optimizers",
    "apex.fp16_utils.fp16_optimizer": "apex.fp16_utils",
    "apex.normalization.fused_layer_norm": "apex.normalization",
    "apex.optimizers.fp16_optimizer": "apex.optimizers",
    "apex.optimizers.fused_adagrad": "apex.optimizers",
    "apex.optimizers.fused_adam": "apex.optimizers",
    "apex.optimizers.fused_lamb": "apex.optimizers",
    "apex.optimizers.fused_novograd": "apex.optimizers",
    "apex.optimizers.fused_sgd": "apex.optimizers",
    "apex.parallel.distributed": "apex.parallel",
    "apex.parallel.optimized_sync_batchnorm": "apex.parallel",
    "apex.parallel.sync_batchnorm": "apex.parallel",
}

# Methods of an object that only Apex's class has, by the name of the class: who calls them needs Apex's.
OWN_METHODS = {
    "apex.parallel.DistributedDataParallel": ("disable_allreduce", "enable_allreduce"),
}


def public_name(full: str) -> str:
    """A full name of Apex as its package says it: without the module inside the package that it is defined in."""
    module, _, name = full.rpartition(".")
    return f"{INNER_MODULES[module]}.{name}" if module in INNER_MODULES else full
