"""Parts of a script's models that stay in float32, in a script that does not say so."""

from __future__ import annotations

from torch import nn

from ..measure.models import Found
from ..shim import load_shim
from ..spec import RecorderSpec


def keeper(spec: RecorderSpec) -> Found:
    """What keeps the parts of a model in float32 that the orders name; an empty name is the whole model."""
    load_shim(spec.shim)
    from amp_shim.policy.islands import Islands, keep_fp32

    def keep(ordinal: int, model: nn.Module) -> None:
        names = [name for number, name in spec.islands if number == ordinal]
        if "" in names:
            Islands({"": model})
        elif names:
            keep_fp32(model, *names)

    return keep
