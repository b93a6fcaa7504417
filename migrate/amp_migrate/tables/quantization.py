"""What `torch.ao.quantization` makes of a model: which calls put a quantizer behind every layer, and which."""

from __future__ import annotations

from typing import NamedTuple

FUSED = "fused_moving_avg_obs_fake_quant"
"""Observes and fake-quantizes at once; on a CPU as on a GPU it takes float32 alone (pytorch issue 94371)."""
OTHERS = "fake_quantize_per_tensor_affine"
"""Has half precision; and so has what only observes."""


class Preparation(NamedTuple):
    """A call that prepares a model.

    Attributes:
        inplace: where it is told to prepare the model itself, and no copy of it; None where it shares its parameters.
        quantizer: what it puts behind every layer that has no known configuration; empty where it puts none.
    """

    inplace: int | None
    quantizer: str


PACKAGES = ("torch.quantization.", "torch.ao.quantization.")
PREPARATIONS = {
    f"{package}{name}": preparation
    for package in PACKAGES
    for name, preparation in (
        ("prepare", Preparation(1, OTHERS)),
        ("prepare_qat", Preparation(2, FUSED)),
        ("fuse_modules", Preparation(2, "")),
        ("quantize_fx.prepare_fx", Preparation(None, OTHERS)),
        ("quantize_fx.prepare_qat_fx", Preparation(None, FUSED)),
    )
} | {"torch.ao.quantization.fuse_modules_qat": Preparation(2, "")}  # the older package never had it
# The quantizer of a configuration, by its name or that of what gives it.
CONFIGURATIONS = {
    **dict.fromkeys(
        (
            "get_default_qat_qconfig get_default_qat_qconfig_dict get_default_qat_qconfig_mapping "
            "default_qat_qconfig_v2 default_symmetric_qnnpack_qat_qconfig "
            "default_per_channel_symmetric_qnnpack_qat_qconfig"
        ).split(),
        FUSED,
    ),
    **dict.fromkeys("default_qat_qconfig default_dynamic_qat_qconfig".split(), OTHERS),
}
# Modules of its own, by the operator that their call runs: stubs do nothing until a model is converted.
MODULES = {"FusedMovingAvgObsFakeQuantize": FUSED, "QuantStub": "contiguous", "DeQuantStub": "contiguous"}
MODULE_NAMES = tuple(f"{package}{name}" for package in PACKAGES for name in MODULES)
