"""What PyTorch lets the calls take that migrated code makes, by version: data.

Read from the sources of PyTorch 1.12 to 2.15; what is older counts as 1.12.
"""

from __future__ import annotations

import ast
import re
from inspect import Parameter, Signature
from itertools import takewhile
from typing import TYPE_CHECKING, TypeAlias

from amp_migrate.frozen import frozen

if TYPE_CHECKING:
    from inspect import _ParameterKind

Version: TypeAlias = "tuple[int, int]"
# The oldest and the newest version that is asked for of a package, each None where nothing says so.
Versions: TypeAlias = "tuple[Version | None, Version | None]"


def written(version: Version) -> str:
    """A version as people write it: 2.6."""
    return ".".join(map(str, version))


@frozen
class Form:
    """One way to call a function.

    Attributes:
        since: the first PyTorch that has it.
        signature: what it takes.
    """

    since: Version
    signature: Signature


def _form(since: Version, parameters: str) -> Form:
    """A form from the names of its parameters: `name=` has a default, and `*` comes before those by keyword only."""
    positional, _, by_keyword = parameters.partition("*")
    listed = [_parameter(word, Parameter.POSITIONAL_OR_KEYWORD) for word in positional.split()]
    listed += [_parameter(word, Parameter.KEYWORD_ONLY) for word in by_keyword.split()]
    return Form(since, Signature(listed))


def _parameter(word: str, kind: _ParameterKind) -> Parameter:
    return Parameter(word.rstrip("="), kind, default=None if word.endswith("=") else Parameter.empty)


_AUTOCAST = "device_type dtype= enabled= cache_enabled="
_OLD_AUTOCAST = "enabled= dtype= cache_enabled="
_SCALER = "init_scale= growth_factor= backoff_factor= growth_interval= enabled="
# Each function in every form that it can be called in.
FORMS = {
    "torch.autocast": (_form((1, 12), _AUTOCAST),),
    "torch.amp.autocast": (_form((1, 12), _AUTOCAST),),
    "torch.amp.GradScaler": (_form((2, 3), f"device= {_SCALER}"),),
    "torch.amp.custom_fwd": (_form((2, 4), "fwd= * device_type cast_inputs="),),
    "torch.amp.custom_bwd": (_form((2, 4), "bwd= * device_type"),),
    "torch.amp.autocast_mode._cast": (_form((2, 4), "value device_type dtype"),),
    "torch.cuda.amp.autocast": (_form((1, 12), _OLD_AUTOCAST),),
    "torch.cuda.amp.GradScaler": (_form((1, 12), _SCALER),),
    "torch.cuda.amp.custom_fwd": (_form((1, 12), "fwd= * cast_inputs="),),
    "torch.cuda.amp.custom_bwd": (_form((1, 12), "bwd"),),
    "torch.cpu.amp.autocast": (_form((1, 12), _OLD_AUTOCAST),),
    "torch.cpu.amp.GradScaler": (_form((2, 3), _SCALER),),
    "torch.get_autocast_dtype": (_form((2, 4), "device_type"),),
    "torch.set_autocast_dtype": (_form((2, 4), "device_type dtype"),),
    "torch.is_autocast_enabled": (_form((1, 12), ""), _form((2, 4), "device_type")),
    "torch.set_autocast_enabled": (_form((1, 12), "enabled"), _form((2, 4), "device_type enabled")),
    "torch.cuda.is_bf16_supported": (_form((1, 12), ""), _form((2, 4), "including_emulation=")),
}
# The oldest PyTorch that this table knows of.
OLDEST: Version = min(form.since for known in FORMS.values() for form in known)
# What a name was called in PyTorch before it had that name.
OLDER = {"torch.amp.GradScaler": "torch.cuda.amp.GradScaler"}


def forms(full: str, torch: Version) -> tuple[Form, ...]:
    """The ways to call a function of this table in one version of PyTorch; none where it does not have it."""
    return tuple(form for form in FORMS[full] if form.since <= torch)


def parameters(full: str) -> tuple[str, ...]:
    """What a function of this table takes, in order, wherever it is imported from; nothing for any other."""
    public = re.sub(r"\.(autocast_mode|grad_scaler)(?=\.)", "", full)
    return tuple(FORMS[public][-1].signature.parameters) if public in FORMS else ()


def argument(call: ast.Call, full: str, name: str, place: int | None = None) -> ast.expr | None:
    """What a call of a function passes for a parameter: by name, or by place if this table has the function.

    None where it passes nothing, or nobody can tell.

    Args:
        place: that of the parameter, of a function which this table does not have.
    """
    by_name = (each.value for each in call.keywords if each.arg == name)
    placed = [*takewhile(lambda each: not isinstance(each, ast.Starred), call.args)]
    if place is not None:
        return next(by_name, None) or next(iter(placed[place:]), None)
    return next(by_name, None) or dict(zip(parameters(full), placed, strict=False)).get(name)


def spelled(full: str, torch: Version) -> str:
    """The name by which one version of PyTorch has what newer ones call `full`."""
    return full if forms(full, torch) else OLDER[full]
