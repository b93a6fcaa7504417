"""One name for each thing: what old PyTorch, Apex and the shim call otherwise, and what is known of it."""

from __future__ import annotations

from amp_migrate.tables.apex_names import API, SHIM, SHIM_MODULES
from amp_migrate.tables.apex_names import WRAPPERS as _FP16_OPTIMIZERS
from amp_migrate.tables.apex_natives import NATIVES, public_name

AUTOCAST = "torch.amp.autocast"
GRAD_SCALER = "torch.amp.GradScaler"
# Scalers with the interface of GradScaler.
SCALERS = frozenset(
    {
        GRAD_SCALER,
        "torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler",
        "torch.distributed.fsdp.ShardedGradScaler",
        "fairscale.optim.grad_scaler.ShardedGradScaler",
        "fairscale.optim.grad_scaler.GradScaler",
    }
)
# What makes a context in which only the precision is another.
CONTEXTS = frozenset({AUTOCAST, "apex.amp.disable_casts"})
NO_CONTEXTS = frozenset({"contextlib.nullcontext", "contextlib.suppress", "torch.nullcontext"})
# What gives `as` what it is given first, scaled or not.
ENTERING = frozenset({"apex.amp.scale_loss", "contextlib.nullcontext"})
# Decorators, and functions of a function, that only have to do with its precision.
WRAPPERS = frozenset(
    {
        "torch.amp.custom_fwd",
        "torch.amp.custom_bwd",
        *(f"apex.amp.{kind}_function" for kind in ("half", "float", "promote", "bfloat16")),
    }
)
# Of the two packages called `amp`, what is in one, by the name that it would have in the other.
NOWHERE = frozenset(
    {
        *(f"apex.amp.{name}" for name in ("autocast", "GradScaler", "custom_fwd", "custom_bwd")),
        *(f"torch.amp.{name}" for name in (*API, "disable_casts", "float_function", "half_function")),
    }
)
REGISTRIES = frozenset(f"apex.amp.register_{kind}_function" for kind in ("half", "float", "promote", "bfloat16"))
# Functions that hand back the network whose weights they make float16.
HALVES = frozenset(f"apex.fp16_utils.{name}" for name in ("network_to_half", "FP16Model", "BN_convert_float"))
FP16_OPTIMIZERS = frozenset(_FP16_OPTIMIZERS)
OPTIMIZERS = ("torch.optim.", "apex.optimizers.", "apex.contrib.optimizers.")
# Words by which code says any of this.
WORDS = frozenset({"autocast", "GradScaler", "ShardedGradScaler", "amp", "apex", "amp_shim"})

_AMP_PACKAGES = ("torch.cuda.amp", "torch.cpu.amp")
_INNER = ("autocast_mode", "grad_scaler")
_BACK = {new: old for old, new in SHIM_MODULES.items()}
# The functions of autocast's state that had a device in their name, with the name and the argument that they have now.
STATE_FUNCTIONS = {
    f"torch.{verb}_autocast_{word}_{what}": (f"torch.{verb}_autocast_{what}", device)
    for verb, what in (("get", "dtype"), ("set", "dtype"), ("is", "enabled"), ("set", "enabled"))
    for word, device in {"gpu": "cuda", "cpu": "cpu", "xla": "xla", "ipu": "ipu"}.items()
    if (word, what) != ("gpu", "enabled")
}
_OF_VALUES = {native.old: native.new for native in NATIVES if native.is_value}


def public(full: str) -> str:
    """The name by which code is compared that says `full`: new names of PyTorch for old ones, Apex's for the shim's."""
    for package in _AMP_PACKAGES:
        if full == package or full.startswith(f"{package}."):
            full = "torch.amp" + full.removeprefix(package)
    if full.startswith("torch.amp."):
        module, _, name = full.rpartition(".")
        if module.rpartition(".")[2] in _INNER and not name.startswith("_"):
            full = f"torch.amp.{name}"
    if full == "torch.GradScaler":
        return GRAD_SCALER
    if full == "torch.autocast":
        return AUTOCAST
    if full == SHIM or full.startswith(f"{SHIM}."):
        for new, old in _BACK.items():
            if full == new or full.startswith(f"{new}."):
                return public_name(old + full.removeprefix(new))
        full = "apex" + full.removeprefix(SHIM)
    return public_name(full) if full.startswith("apex.") else full


def of_torch(full: str) -> str:
    """The class or function of torch that stands for one of Apex wherever it is named; any other name as it is."""
    return _OF_VALUES.get(full, full)
