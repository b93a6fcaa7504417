"""Policies as regions, in words, compared with each other, and for operators of other libraries."""

from __future__ import annotations

import doctest
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import amp_shim.policy.differences
import amp_shim.policy.policies
import pytest
import torch
import torch.nn.functional as F
from amp_shim.policy import APEX_O1, NATIVE_CUDA, Treatment, autocast
from amp_shim.policy.differences import Difference, differences, table
from amp_shim.policy.dispatch import enforce
from torch import Tensor

HALF, FLOAT = torch.float16, torch.float32


def product(x: Tensor, y: Tensor) -> Tensor:
    return x * y


def keep_inputs(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def product_backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
    x, y = ctx.saved_tensors
    return grad * y, grad * x


@pytest.fixture(scope="module")
def library() -> None:
    """An operator of a library, with a gradient: `amp_shim_test::product`."""
    operator = torch.library.custom_op("amp_shim_test::product", product, mutates_args=())
    operator.register_autograd(product_backward, setup_context=keep_inputs)


def test_region_follows_its_policy_and_leaves_nothing_behind() -> None:
    x = torch.ones(2, 2)
    with autocast(NATIVE_CUDA.with_float("matmul"), "cpu", dtype=HALF):
        assert (x @ x).dtype is FLOAT
        assert F.linear(x, x).dtype is HALF
        with autocast(NATIVE_CUDA, "cpu", dtype=HALF):
            assert (x @ x).dtype is HALF
        assert (x @ x).dtype is FLOAT
    assert not torch.is_autocast_enabled("cpu")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (x @ x).dtype is torch.bfloat16
        assert x.bfloat16().exp().dtype is torch.bfloat16, "the CPU's own lists do not cast exp"


def test_promoted_operator_runs_in_its_widest_argument_type() -> None:
    half, wide = torch.ones(2, 2, dtype=HALF), torch.ones(2, 2)
    with autocast(NATIVE_CUDA.with_promote("matmul", "exp"), "cpu", dtype=HALF):
        assert (half @ half).dtype is HALF
        assert (half @ wide).dtype is FLOAT, "native autocast multiplies in half"
        assert half.exp().dtype is HALF, "native autocast computes exp in float32"


def test_operator_that_is_moved_is_in_no_other_list() -> None:
    policy = NATIVE_CUDA.with_promote("matmul", "exp")
    assert {"matmul", "exp"} <= policy.promote
    assert not {"matmul", "exp"} & (policy.half | policy.float)
    assert policy.with_natural("matmul").treatment("matmul") is Treatment.NATURAL


def test_region_can_decorate_and_survives_an_exception() -> None:
    @autocast(NATIVE_CUDA, "cpu", dtype=HALF)
    def square(x: Tensor) -> Tensor:
        return x @ x

    assert square(torch.ones(2, 2)).dtype is HALF
    assert square(torch.ones(2, 2)).dtype is HALF
    with pytest.raises(ZeroDivisionError), autocast(NATIVE_CUDA, "cpu", dtype=HALF):
        raise ZeroDivisionError
    assert not torch.is_autocast_enabled("cpu")


def test_opening_a_region_costs_what_its_changes_cost() -> None:
    policy = NATIVE_CUDA.with_float("gelu")

    def seconds() -> float:
        start = time.perf_counter()
        enforce(policy, "cuda").close()
        return time.perf_counter() - start

    seconds()
    # Looking through every operator takes milliseconds; it must not happen at each region.
    assert min(seconds() for _ in range(20)) < 1e-3


def test_banned_operator_raises_in_the_region() -> None:
    with autocast(NATIVE_CUDA.with_banned("softmax"), "cpu", dtype=HALF):
        with pytest.raises(RuntimeError, match="the policy in force bans softmax"):
            torch.ones(2).softmax(-1)
        with torch.autocast("cpu", enabled=False):
            assert torch.ones(2).softmax(-1).sum() == 1.0


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize(("given", "wanted"), [(FLOAT, HALF), (HALF, FLOAT)])
def test_operator_of_a_library_is_cast(given: torch.dtype, wanted: torch.dtype) -> None:
    operator = torch.ops.amp_shim_test.product
    policy = NATIVE_CUDA.with_half("amp_shim_test::product")
    if wanted is FLOAT:
        policy = NATIVE_CUDA.with_float("amp_shim_test::product")
    x = torch.rand(2, 3).to(given).requires_grad_()
    y = torch.rand(2, 3).to(given)
    with autocast(policy, "cpu", dtype=HALF):
        result = operator(x, y)
    assert result.dtype is wanted
    result.sum().backward()
    assert x.grad is not None
    assert x.grad.dtype is given
    torch.testing.assert_close(x.grad.float(), y.float(), rtol=2e-3, atol=2e-3)
    with torch.autocast("cpu", dtype=HALF):
        assert operator(x.detach(), y).dtype is given


@pytest.mark.usefixtures("library")
def test_operator_of_a_library_is_explained_like_any_other() -> None:
    text = NATIVE_CUDA.with_half("amp_shim_test::product").explain("amp_shim_test::product")
    assert text == (
        "amp_shim_test::product runs in the region's dtype\n"
        "entry points: amp_shim_test::product\n"
        "native CUDA autocast: runs in the types it is given"
    )


def test_explanation_names_treatment_entry_points_and_what_is_native() -> None:
    assert NATIVE_CUDA.explain("softmax") == (
        "softmax runs in float32, unless the caller names a dtype\n"
        "entry points: aten::softmax.int\n"
        "native CUDA autocast: the same"
    )
    assert "native CUDA autocast: runs in the types it is given" in APEX_O1.explain("gelu")


def test_unknown_operator_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ValueError, match="no operator 'softmx'; did you mean 'softmax'"):
        NATIVE_CUDA.explain("softmx")
    with pytest.raises(ValueError, match="has no operator nowhere::scan"):
        enforce(NATIVE_CUDA.with_half("nowhere::scan"), "cpu")


def test_differences_are_those_that_were_made() -> None:
    changed = NATIVE_CUDA.with_float("gelu").with_natural("softmax").with_half("mm")
    assert differences(NATIVE_CUDA, changed) == (
        Difference("gelu", Treatment.NATURAL, Treatment.FLOAT),
        Difference("softmax", Treatment.FLOAT_KEEP_DTYPE, Treatment.NATURAL),
    )
    assert differences(changed, changed) == ()


def test_table_lines_up() -> None:
    assert table(NATIVE_CUDA, NATIVE_CUDA.with_float("gelu"), "native", "mine").splitlines() == [
        "operator  native                         mine",
        "gelu      runs in the types it is given  runs in float32",
    ]


def test_page_shows_the_differences_of_today() -> None:
    page = (Path(__file__).parents[3] / "docs" / "policies.md").read_text()
    shown = page.partition("<!-- differences -->\n```\n")[2].partition("\n```")[0]
    assert shown == table(NATIVE_CUDA, APEX_O1, "native", "Apex O1")


@pytest.mark.parametrize("module", [amp_shim.policy.differences, amp_shim.policy.policies])
def test_examples_in_the_documentation_hold(module: ModuleType) -> None:
    failed, tried = doctest.testmod(module)
    assert (failed, tried > 0) == (0, True)
