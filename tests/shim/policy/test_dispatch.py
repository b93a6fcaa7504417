"""What `enforce` does to a region: rounding, weight cache, islands, and undoing it."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F
from amp_shim.policy import NATIVE_CUDA
from amp_shim.policy.dispatch import enforce
from amp_shim.policy.operators import registered_operators
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.data import DataLoader, Dataset


@pytest.fixture
def native() -> Iterator[None]:
    with enforce(NATIVE_CUDA, "cpu"):
        yield


def half_region() -> torch.autocast:
    return torch.autocast("cpu", dtype=torch.float16)


@pytest.mark.usefixtures("native")
def test_product_rounds_its_arguments_and_its_result_and_nothing_between() -> None:
    torch.manual_seed(0)
    a, b = torch.randn(8, 300), torch.randn(300, 8)
    with half_region():
        result = a @ b
    assert torch.equal(result, (a.half().float() @ b.half().float()).half())


@pytest.mark.usefixtures("native")
def test_backward_rounds_gradients_to_half_where_a_gpu_does() -> None:
    torch.manual_seed(0)
    x, w = torch.randn(8, 5, requires_grad=True), torch.randn(3, 5, requires_grad=True)
    with half_region():
        y = F.linear(x, w)
    g = torch.randn(8, 3).half()
    y.backward(g)
    assert w.grad is not None
    assert x.grad is not None
    assert torch.equal(w.grad, (g.float().t() @ x.detach().half().float()).half().float())
    assert torch.equal(x.grad, (g.float() @ w.detach().half().float()).half().float())


@pytest.mark.usefixtures("native")
def test_result_beyond_the_range_of_half_becomes_infinite() -> None:
    with half_region():
        assert torch.isinf(torch.full((1, 2), 300.0) @ torch.full((2, 1), 300.0)).all()


@pytest.mark.usefixtures("native")
def test_float64_is_left_alone() -> None:
    x = torch.ones(2, 2, dtype=torch.float64)
    with half_region():
        assert (x @ x).dtype is torch.float64
        assert x.softmax(-1).dtype is torch.float64


@pytest.mark.usefixtures("native")
def test_promotion_refuses_a_type_that_the_region_does_not_know() -> None:
    with half_region(), pytest.raises(RuntimeError, match=r"cannot promote torch\.bfloat16"):
        torch.dot(torch.ones(2).bfloat16(), torch.ones(2))


@pytest.mark.usefixtures("native")
@pytest.mark.parametrize("cell", [nn.RNN, nn.GRU, nn.LSTM])
def test_recurrent_layers_run_in_half_as_on_cudnn(cell: type[nn.LSTM]) -> None:
    layer = cell(4, 5, num_layers=2, bidirectional=True)
    with half_region():
        output, state = layer(torch.randn(3, 2, 4))
    states = state if isinstance(state, tuple) else (state,)
    assert {output.dtype, *(s.dtype for s in states)} == {torch.float16}
    output.float().sum().backward()
    assert all(p.grad is not None and p.grad.dtype is torch.float32 for p in layer.parameters())


@pytest.mark.usefixtures("native")
def test_half_activations_go_through_an_operator_that_has_no_half_kernel_on_the_cpu() -> None:
    x = torch.randn(1, 2, 4, 4, 4).half()
    with half_region():
        assert torch.equal(F.avg_pool3d(x, 2), F.avg_pool3d(x.float(), 2).half())


@pytest.mark.usefixtures("native")
def test_banned_operator_raises_only_where_autocast_is_enabled() -> None:
    p, y = torch.full((2,), 0.3), torch.ones(2)
    F.binary_cross_entropy(p, y)
    with half_region():
        with pytest.raises(RuntimeError, match="binary_cross_entropy is unsafe to autocast"):
            F.binary_cross_entropy(p, y)
        with torch.autocast("cpu", enabled=False):
            F.binary_cross_entropy(p, y)


@pytest.mark.usefixtures("native")
def test_operators_that_only_the_cpu_casts_run_naturally() -> None:
    x = torch.ones(2, 2).half()
    with half_region():
        assert torch.stack([x, x.float()]).dtype is torch.float32
        assert F.pad(x[None], (1, 1), mode="reflect").dtype is torch.float16


@pytest.mark.usefixtures("native")
@pytest.mark.parametrize("operator", [F.linear, torch.matmul])
def test_weights_stay_stale_until_the_outermost_region_ends(operator: object) -> None:
    assert callable(operator)
    w, x = torch.ones(2, 2, requires_grad=True), torch.ones(1, 2)
    with half_region():
        before = operator(x, w)
        with torch.no_grad():
            w.mul_(2)
        with half_region():
            assert torch.equal(operator(x, w), before)
    with half_region():
        assert torch.equal(operator(x, w), before * 2)


def test_stale_weights_are_what_plain_autocast_gives() -> None:
    w, x = torch.ones(2, 2, requires_grad=True), torch.ones(1, 2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        before = F.linear(x, w)
        with torch.no_grad():
            w.mul_(2)
        assert torch.equal(F.linear(x, w), before)


@pytest.mark.usefixtures("native")
def test_copy_made_without_grad_does_not_cut_the_weight_off() -> None:
    w, x = torch.ones(2, 2, requires_grad=True), torch.ones(1, 2)
    with half_region():
        with torch.no_grad():
            F.linear(x, w)
        y = F.linear(x, w)
    y.sum().backward()
    assert w.grad is not None


@pytest.mark.usefixtures("native")
def test_cache_can_be_switched_off() -> None:
    w, x = torch.ones(2, 2, requires_grad=True), torch.ones(1, 2)
    with torch.autocast("cpu", dtype=torch.float16, cache_enabled=False):
        before = F.linear(x, w)
        with torch.no_grad():
            w.mul_(2)
        assert torch.equal(F.linear(x, w), before * 2)


def test_close_puts_the_native_lists_and_the_native_cache_back() -> None:
    clear = torch.clear_autocast_cache
    x = torch.ones(2, 2).half()
    with half_region():
        native = x.softmax(-1).dtype, torch.equal(torch.cat([x, x]), torch.cat([x, x]))
    handle = enforce(NATIVE_CUDA, "cpu")
    with half_region():
        assert x.softmax(-1).dtype is torch.float32
    handle.close()
    handle.close()
    with half_region():
        assert (x.softmax(-1).dtype, torch.equal(torch.cat([x, x]), torch.cat([x, x]))) == native
    assert native[0] is torch.float16
    assert torch.clear_autocast_cache is clear


def test_newest_policy_holds_and_the_older_one_comes_back() -> None:
    x = torch.ones(2, 2).half()
    outer = enforce(NATIVE_CUDA, "cpu")
    inner = enforce(NATIVE_CUDA.with_float("gelu"), "cpu")
    with half_region():
        assert F.gelu(x).dtype is torch.float32
        inner.close()
        assert F.gelu(x).dtype is torch.float16
        assert x.exp().dtype is torch.float32
    outer.close()


def test_closing_the_older_policy_first_leaves_the_newest_in_force() -> None:
    x = torch.ones(2, 2).half()
    outer, inner = enforce(NATIVE_CUDA, "cpu"), enforce(NATIVE_CUDA.with_float("gelu"), "cpu")
    outer.close()
    with half_region():
        assert F.gelu(x).dtype is torch.float32
    inner.close()
    with half_region():
        assert F.gelu(x).dtype is torch.float16


@pytest.mark.usefixtures("native")
def test_another_thread_has_its_own_region() -> None:
    seen: list[torch.dtype] = []

    def work() -> None:
        seen.append((torch.ones(2, 2) @ torch.ones(2, 2)).dtype)
        with half_region():
            seen.append((torch.ones(2, 2) @ torch.ones(2, 2)).dtype)

    with half_region():
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert seen == [torch.float32, torch.float16]


class Products(Dataset[Tensor]):
    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> Tensor:
        with half_region():
            return (torch.ones(2, 2) @ torch.ones(2, 2)).softmax(-1)


@pytest.mark.usefixtures("native")
def test_forked_loader_workers_follow_the_policy() -> None:
    loader = DataLoader(Products(), num_workers=1, multiprocessing_context="fork")
    assert {batch.dtype for batch in loader} == {torch.float32}


def test_unknown_device_and_unknown_operator_are_refused() -> None:
    with pytest.raises(ValueError, match="device type 'tpu'"):
        enforce(NATIVE_CUDA, "tpu")
    with pytest.raises(ValueError, match="no operator softmaxx"):
        enforce(NATIVE_CUDA.with_float("softmaxx"))


def test_family_in_two_lists_is_refused() -> None:
    with pytest.raises(ValueError, match="'gelu' is in both"):
        type(NATIVE_CUDA)(frozenset({"gelu"}), frozenset({"gelu"}), frozenset(), frozenset(), frozenset())


def test_on_cuda_only_what_differs_is_touched() -> None:
    native = registered_operators("AutocastCUDA")
    with enforce(NATIVE_CUDA, "cuda"):
        assert registered_operators("AutocastCUDA") == native
    policy = NATIVE_CUDA.with_float("gelu").with_natural("exp").with_half("tanh")
    with FakeTensorMode():
        x = torch.ones(2, 2, dtype=torch.float16, device="cuda")
        torch.set_autocast_enabled("cuda", True)
        try:
            with enforce(policy, "cuda"):
                changed = [F.gelu(x).dtype, x.exp().dtype, x.float().tanh().dtype]
            restored = [F.gelu(x).dtype, x.exp().dtype, x.float().tanh().dtype]
        finally:
            torch.set_autocast_enabled("cuda", False)
    assert changed == [torch.float32, torch.float16, torch.float16]
    assert restored == [torch.float16, torch.float32, torch.float32]


def test_on_cuda_casts_of_every_list_are_announced_on_request() -> None:
    said: list[str] = []
    with FakeTensorMode():
        x = torch.ones(2, 2, device="cuda")
        torch.set_autocast_enabled("cuda", True)
        try:
            with enforce(NATIVE_CUDA, "cuda", announce=said.append):
                y = x @ x
                dtypes = [y.dtype, y.exp().dtype, y.sum().dtype, y.relu().dtype]
        finally:
            torch.set_autocast_enabled("cuda", False)
    assert dtypes == [torch.float16, torch.float32, torch.float32, torch.float16]
    assert said == ["Float->Half (matmul)", "Float->Half (matmul)", "Half->Float (exp)", "Half->Float (sum)"]


@pytest.mark.usefixtures("native")
def test_announcements_begin_and_end_with_the_enforcement_that_asks_for_them() -> None:
    said: list[str] = []
    x = torch.ones(2, 2)
    with half_region():
        with enforce(NATIVE_CUDA, "cpu", said.append):
            F.linear(x, x)
        assert said == ["Float->Half (linear)"] * 2
        F.linear(x, x)
    assert len(said) == 2


@pytest.mark.usefixtures("native")
def test_weight_that_is_kept_in_one_half_type_is_cast_anew_to_the_other() -> None:
    weight = nn.Parameter(torch.tensor([[1.0 + 2**-9]]))  # float16 has it, bfloat16 has not
    with half_region():
        assert F.linear(torch.ones(1, 1), weight).item() == 1.0 + 2**-9
        with torch.autocast("cpu", dtype=torch.bfloat16):
            result = F.linear(torch.ones(1, 1), weight)
            assert (result.dtype, result.item()) == (torch.bfloat16, 1.0)
