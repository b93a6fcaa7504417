"""Loss scales in checkpoints, in Apex's format."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from amp_shim.amp.state import _amp_state, maybe_print


def state_dict(destination: OrderedDict[str, Any] | None = None) -> OrderedDict[str, Any]:
    """`{"loss_scaler0": {"loss_scale": 65536.0, "unskipped": 12}, ...}`; empty before an enabled `initialize`."""
    destination = OrderedDict() if destination is None else destination
    for index, scaler in enumerate(_amp_state.loss_scalers):
        destination[f"loss_scaler{index}"] = {"loss_scale": scaler.loss_scale(), "unskipped": scaler._unskipped}
    return destination


def load_state_dict(state_dict: Mapping[str, Any]) -> None:
    """Restore loss scales, in the order of the entries; from `GradScaler.state_dict()` too, as the first scale.

    Surplus entries are left out with a printed line. Raises RuntimeError, and changes nothing, if a key is not a loss
    scaler's.
    """
    if "scale" in state_dict and "_growth_tracker" in state_dict:
        native = {"loss_scale": state_dict["scale"], "unskipped": state_dict["_growth_tracker"]}
        state_dict = {"loss_scaler0": native}
    strangers = [key for key in state_dict if "loss_scaler" not in key]
    if strangers:
        raise RuntimeError(f"amp.load_state_dict: unexpected key {strangers[0]!r}; pass what amp.state_dict() returned")
    scalers = _amp_state.loss_scalers
    if len(state_dict) != len(scalers):
        maybe_print(f"Warning: the state dict holds {len(state_dict)} loss scalers, amp has {len(scalers)}", True)
    for key in list(state_dict)[len(scalers) :]:
        maybe_print(f"Skipping {key}: amp has no loss scaler for it", True)
    for entry, scaler in zip(state_dict.values(), scalers, strict=False):
        scaler._loss_scale = float(entry["loss_scale"])
        scaler._unskipped = int(entry["unskipped"])
