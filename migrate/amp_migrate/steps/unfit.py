"""Training that mixed precision by autocast is not for: found once a file, refused with the way that is."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.scopes import BindingKind, dotted
from amp_migrate.steps.model import Refusal

_SHARDED = (
    "torch.distributed.fsdp",
    "torch.distributed._composable",
    "torch.distributed.tensor",
    "torch.distributed._tensor",
    "torch.distributed.pipelining",
    "torch.distributed.pipeline",
    "deepspeed",
)


def unfit(file: File) -> Refusal | None:
    """Why no step of a file is to be moved; None where nothing speaks against it."""
    return next(_reasons(file), None)


def _reasons(file: File) -> Iterator[Refusal]:
    for scope in file.scopes.all():
        for bindings in scope.bindings.values():
            for binding in bindings:
                if binding.kind is BindingKind.IMPORT and binding.imported.startswith(_SHARDED):
                    yield Refusal(
                        file,
                        binding.node,
                        f"{binding.imported} brings its own mixed precision",
                        "set its precision policy (FSDP: MixedPrecision or MixedPrecisionPolicy) instead of autocast",
                        code="AMP591",
                    )
    for call in file.calls:
        method = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
        if method in ("to_sparse", "to_sparse_csr", "to_sparse_coo"):
            yield Refusal(
                file,
                call,
                "sparse tensors have few half-precision kernels",
                "try a region round the dense part by hand, and verify it",
            )
        if file.names.callee(call) in ("torch.set_default_dtype", "torch.set_default_tensor_type"):
            argument = call.args[0].value if call.args else None
            if "double" in file.tree.code(call).lower() or "float64" in file.tree.code(call):
                yield _double(file, argument or call)
        if method == "double" and not call.args and _is_model_name(file, call):
            yield _double(file, call)


def _double(file: File, node: cst.CSTNode) -> Refusal:
    return Refusal(
        file,
        node,
        "the model computes in float64, which autocast would take away",
        "decide by hand which precision the model needs",
    )


def _is_model_name(file: File, call: cst.Call) -> bool:
    assert isinstance(call.func, cst.Attribute)
    path = dotted(call.func.value)
    return path is not None and bool(file.methods_called.get(path, set()) & {"parameters", "train", "eval"})
