"""Mixed-precision policies: op lists that a person can read, change, and put into force.

    from amp_shim.policy import NATIVE_CUDA, autocast

    with autocast(NATIVE_CUDA.with_float("gelu"), "cuda", dtype=torch.float16):
        loss = criterion(model(images), labels)

Usable without Apex.
"""

from amp_shim.policy.dispatch import autocast, enforce
from amp_shim.policy.islands import keep_fp32
from amp_shim.policy.policies import APEX_O1, NATIVE_CUDA, Policy, Treatment
from amp_shim.policy.recording import record

__all__ = ["APEX_O1", "NATIVE_CUDA", "Policy", "Treatment", "autocast", "enforce", "keep_fp32", "record"]
