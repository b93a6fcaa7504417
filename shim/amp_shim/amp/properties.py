"""Opt levels, and the properties that each one sets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

ROWS = (
    "enabled",
    "opt_level",
    "cast_model_type",
    "patch_torch_functions",
    "keep_batchnorm_fp32",
    "master_weights",
    "loss_scale",
)


@dataclass(frozen=True)
class Properties:
    """The settled options of `amp.initialize`, under Apex's names.

    cast_model_type: dtype of the model's weights and inputs, None to leave them. patch_torch_functions: operators are
    cast one by one, to `patch_torch_functions_type`. keep_batchnorm_fp32: affine batch norms stay float32.
    master_weights: the optimizer steps float32 copies. loss_scale: "dynamic" or a constant.
    """

    enabled: bool = False
    opt_level: str | None = None
    cast_model_type: torch.dtype | bool | None = None
    patch_torch_functions: bool = False
    keep_batchnorm_fp32: bool | None = None
    master_weights: bool | None = None
    loss_scale: float | str = 1.0
    patch_torch_functions_type: torch.dtype = torch.float16

    @property
    def options(self) -> dict[str, Any]:
        """The seven properties that `initialize` prints, by name; scripts read them so too."""
        return {name: getattr(self, name) for name in ROWS}

    @property
    def casts_operators(self) -> bool:
        """Whether this is a level of O1's kind, whose weights stay float32."""
        return self.opt_level in ("O1", "O4")

    def table(self) -> str:
        """Seven lines, `name : value`, as `initialize` prints them."""
        return "\n".join(f"{name:22} : {value}" for name, value in self.options.items())


LEVELS: dict[str, tuple[str, Properties]] = {
    "O0": ("Pure FP32 training", Properties(True, "O0", torch.float32, False, None, False, 1.0)),
    "O1": ("Insert automatic casts around safe operators", Properties(True, "O1", None, True, None, None, "dynamic")),
    "O2": (
        "FP16 training with FP32 batchnorm and FP32 master weights",
        Properties(True, "O2", torch.float16, False, True, True, "dynamic"),
    ),
    "O3": ("Pure FP16 training", Properties(True, "O3", torch.float16, False, False, False, 1.0)),
    "O4": (
        "Insert automatic casts to BF16 around safe operators",
        Properties(True, "O4", None, True, None, None, 1.0, torch.bfloat16),
    ),
    "O5": (
        "BF16 training with FP32 batchnorm and FP32 master weights",
        Properties(True, "O5", torch.bfloat16, False, True, True, 1.0),
    ),
}
"""What each level does in one phrase, and its properties. O4 and O5 are those of ROCm's Apex."""


def level_properties(opt_level: str) -> tuple[str, Properties]:
    """The phrase and the properties of an opt level. Raises RuntimeError for an unknown one."""
    if opt_level not in LEVELS:
        raise RuntimeError(
            f"Unexpected optimization level {opt_level!r}. Options are {', '.join(repr(level) for level in LEVELS)}; "
            "the first character is the letter O, not zero."
        )
    return LEVELS[opt_level]
