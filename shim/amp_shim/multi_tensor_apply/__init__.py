"""`apex.multi_tensor_apply`: `multi_tensor_applier(amp_C.multi_tensor_scale, flag, [inputs, outputs], factor)`."""

from amp_shim.multi_tensor_apply.multi_tensor_apply import MultiTensorApply

multi_tensor_applier = MultiTensorApply(2048 * 32)

__all__ = ["MultiTensorApply", "multi_tensor_applier"]
