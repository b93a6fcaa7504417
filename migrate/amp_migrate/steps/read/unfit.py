"""Training that mixed precision by autocast is not for: found once a file, refused with the way that is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from sys import version_info

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.library import is_unit_test
from amp_migrate.analysis.values.horovod import distributed_optimizers
from amp_migrate.catalog.step_rules import OTHER_PRECISION
from amp_migrate.plan.move import Refusal
from amp_migrate.settings import Dtype
from amp_migrate.trees.nodes import find, is_constant, statements

_SHARDED = (
    "torch.distributed.fsdp",
    "torch.distributed._composable",
    "torch.distributed.tensor",
    "torch.distributed._tensor",
    "torch.distributed.pipelining",
    "torch.distributed.pipeline",
    "deepspeed",
    "fairscale",
)
# What measures, computes or talks beside DeepSpeed's engine, and trains nothing.
_BESIDE = ("deepspeed.accelerator", "deepspeed.comm", "deepspeed.ops", "deepspeed.profiling", "deepspeed.utils")
_TEST_CASE = "unittest.TestCase"
_TEST_FOLDER = re.compile(r"(^|/)tests?/")


def unfit(file: File, dtype: Dtype) -> Refusal | None:
    """Why no step of a file is to be moved; None where nothing speaks against it."""
    refusal = of_a_test(file) or next(_reasons(file), None) or unread(file)
    if refusal is None and dtype is not Dtype.BF16:
        refusal = _reduced_in_step(file) or _stepped_in_backward(file)
    return refusal or (_late_choice(file) if dtype is Dtype.AUTO else None)


def unread(file: File) -> Refusal | None:
    """Why nothing moves in a file that the running Python cannot parse, as LibCST may: nobody has looked at it."""
    if file.tree.is_of_this_python:
        return None
    reason = f"this Python ({version_info.major}.{version_info.minor}) cannot parse {file.name}"
    return Refusal(file, file.tree.module, reason, "run amp-migrate with the Python that runs the script")


def of_a_test(file: File) -> Refusal | None:
    """Why what a file of unit tests trains is left; None for any other file."""
    return _test(file) or _test_case(file)


def _test(file: File) -> Refusal | None:
    """A file of unit tests: what they assert was measured in float32, and on a CPU as often as not."""
    if not (is_unit_test(file.name) and file.name.endswith(".py")):
        return None
    is_among_tests = _TEST_FOLDER.search(file.name) or any(
        binding.imported.partition(".")[0] in ("pytest", "unittest")
        for bindings in file.scopes.module.bindings.values()
        for binding in bindings
    )
    for statement in statements(file.tree.module) if is_among_tests else ():
        functions = [statement] if isinstance(statement, cst.FunctionDef) else []
        if isinstance(statement, cst.ClassDef):
            functions = list(find(statement.body, cst.FunctionDef))
        is_class = isinstance(statement, cst.ClassDef) and statement.name.value.startswith("Test")
        if is_class or any(each.name.value.startswith("test_") for each in functions):
            return _of_a_test(file, statement)
    return None


def _test_case(file: File) -> Refusal | None:
    """A file, whatever its name, in which nothing but the methods of a `unittest.TestCase` goes backward."""
    owners = [
        file.tree.owner_class(call)
        for call in file.calls
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "backward"
    ]
    is_case = [each is not None and any(file.names.full(b.value) == _TEST_CASE for b in each.bases) for each in owners]
    return _of_a_test(file, owners[0]) if owners and owners[0] is not None and all(is_case) else None


def _of_a_test(file: File, node: cst.CSTNode) -> Refusal:
    return Refusal(
        file,
        node,
        "it is part of a unit test, which asserts what float32 gives",
        "keep the test as it is, and verify the script that trains",
    )


def _reduced_in_step(file: File) -> Refusal | None:
    """Horovod's optimizer adds up the gradients of all processes in `step()`, where a scaler has read them already."""
    for call in distributed_optimizers(file):
        return Refusal(
            file,
            call,
            "Horovod's optimizer adds up gradients after a loss scaler has read them",
            "call optimizer.synchronize() before scaler.unscale_(optimizer) and scaler.step(optimizer) under "
            "optimizer.skip_synchronize() by hand, or run with --dtype bf16, which needs no scaler",
        )
    return None


def _stepped_in_backward(file: File) -> Refusal | None:
    """ZeroRedundancyOptimizer can step in the hooks of DDP, before anybody has divided the gradients."""
    for call in file.calls:
        if file.names.callee(call) == "torch.distributed.optim.ZeroRedundancyOptimizer" and any(
            each.keyword is not None
            and each.keyword.value == "overlap_with_ddp"
            and not is_constant(each.value, "False")
            for each in call.args
        ):
            return Refusal(
                file,
                call,
                "overlap_with_ddp steps in the backward pass, on gradients that are multiplied by the loss scale",
                "leave it out, or run with --dtype bf16, which needs no scaler",
            )
    return None


def _late_choice(file: File) -> Refusal | None:
    """A script that picks its GPUs by environment variable must do so before CUDA is asked what it can do."""
    for node in file.tree.every(cst.SimpleString):
        if node.evaluated_value == "CUDA_VISIBLE_DEVICES":
            return Refusal(
                file,
                node,
                "CUDA_VISIBLE_DEVICES is set while the script runs, after a dtype would have been chosen",
                "run with --dtype fp16 or --dtype bf16",
            )
    return None


def _reasons(file: File) -> Iterator[Refusal]:
    for binding in file.scopes.bindings():
        if binding.imported.startswith(_SHARDED) and not binding.imported.startswith(_BESIDE):
            yield Refusal(
                file,
                binding.node,
                f"{binding.imported} brings its own mixed precision",
                "set its precision policy (FSDP: MixedPrecision or MixedPrecisionPolicy) instead of autocast",
                code=OTHER_PRECISION.code,
            )
    unbound = _unbound(file)
    if unbound is not None:
        yield Refusal(
            file,
            unbound,
            "torch is used here and nothing brings it: the file raises as it is",
            "import it, and run again",
        )


def _unbound(file: File) -> cst.Name | None:
    """Where a file uses `torch` by a name that it has from nowhere: what imported it for a step would mend the rest."""
    module = file.scopes.module
    if "torch" in module.bindings or any(scope.star_imports for scope in file.scopes.all()):
        return None
    for node in file.tree.every(cst.Name):
        around = file.tree.parents[node]
        is_word = isinstance(around, cst.Arg) and around.keyword is node
        if (
            node.value != "torch"
            or file.tree.is_attribute(node)
            or is_word
            or file.scopes.of(node).find("torch") is not None
        ):
            continue
        if not any(isinstance(each, (cst.Import, cst.ImportFrom)) for each in file.tree.ancestors(node)):
            return node
    return None
