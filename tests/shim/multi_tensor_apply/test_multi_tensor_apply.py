"""`multi_tensor_applier` with the operators of `amp_C`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import pytest
import torch
from amp_shim.multi_tensor_apply import amp_c, multi_tensor_applier
from amp_shim.optimizers import FusedAdagrad, FusedAdam, FusedLAMB, FusedNovoGrad, FusedSGD
from amp_shim.optimizers.base import FusedOptimizer
from torch import Tensor

HALF, FLOAT = torch.float16, torch.float32
SHAPES = ((7, 5), (1,), (3, 2, 4), (0,))
INF, NAN = float("inf"), float("nan")


def tensors(dtype: torch.dtype, fill: float | None = None) -> list[Tensor]:
    return [torch.randn(shape).to(dtype) if fill is None else torch.full(shape, fill, dtype=dtype) for shape in SHAPES]


def new_flag() -> Tensor:
    return torch.zeros(1, dtype=torch.int32)


def poisoned(dtype: torch.dtype, value: float, which: int) -> list[Tensor]:
    found = tensors(dtype)
    found[which].view(-1)[-1] = value
    return found


@pytest.mark.parametrize(("given", "wanted"), list(product((HALF, FLOAT), repeat=2)))
def test_scale_multiplies_and_leaves_a_clean_flag(given: torch.dtype, wanted: torch.dtype) -> None:
    flag, inputs, outputs = new_flag(), tensors(given), tensors(wanted)
    multi_tensor_applier(amp_c.multi_tensor_scale, flag, [inputs, outputs], 0.25)
    for out, value in zip(outputs, inputs, strict=True):
        assert torch.equal(out, (value.float() * 0.25).to(wanted))
    assert flag.item() == 0


@pytest.mark.parametrize(("value", "which", "dtype"), list(product((INF, NAN), (0, 1, 2), (HALF, FLOAT))))
def test_scale_flags_an_inf_or_nan_anywhere(value: float, which: int, dtype: torch.dtype) -> None:
    flag = new_flag()
    multi_tensor_applier(amp_c.multi_tensor_scale, flag, [poisoned(dtype, value, which), tensors(FLOAT)], 0.0)
    assert flag.item() == 1


def test_flag_stays_set_by_clean_data() -> None:
    flag = torch.ones(1, dtype=torch.int32)
    multi_tensor_applier(amp_c.multi_tensor_scale, flag, [tensors(FLOAT), tensors(FLOAT)], 2.0)
    assert flag.item() == 1


def test_scale_works_in_place() -> None:
    values = tensors(FLOAT, 3.0)
    multi_tensor_applier(amp_c.multi_tensor_scale, new_flag(), [values, values], 2.0)
    assert all((value == 6.0).all() for value in values)


@pytest.mark.parametrize(("x", "y", "wanted"), list(product((HALF, FLOAT), repeat=3)))
def test_axpby_adds_in_float(x: torch.dtype, y: torch.dtype, wanted: torch.dtype) -> None:
    flag, xs, ys, outputs = new_flag(), tensors(x), tensors(y), tensors(wanted)
    multi_tensor_applier(amp_c.multi_tensor_axpby, flag, [xs, ys, outputs], 2.0, -0.5, -1)
    for a, b, out in zip(xs, ys, outputs, strict=True):
        torch.testing.assert_close(out, (2.0 * a.float() - 0.5 * b.float()).to(wanted))
    assert flag.item() == 0


@pytest.mark.parametrize(
    ("check", "in_x", "expected"), [(-1, 1, 1), (-1, 0, 1), (0, 1, 1), (0, 0, 0), (1, 1, 0), (1, 0, 1)]
)
def test_axpby_checks_the_arguments_it_is_told_to(check: int, in_x: int, expected: int) -> None:
    flag, bad, good = new_flag(), poisoned(FLOAT, NAN, 1), tensors(FLOAT)
    lists = [bad, good, tensors(FLOAT)] if in_x else [good, bad, tensors(FLOAT)]
    multi_tensor_applier(amp_c.multi_tensor_axpby, flag, lists, 1.0, 1.0, check)
    assert flag.item() == expected


@pytest.mark.parametrize("dtype", [HALF, FLOAT])
@pytest.mark.parametrize("per_tensor", [False, True])
def test_norms_are_those_of_float64(dtype: torch.dtype, per_tensor: bool) -> None:
    flag, values = new_flag(), [value * 100 for value in tensors(dtype)]
    expected = torch.cat([value.double().flatten() for value in values]).norm()
    norm, norms = multi_tensor_applier(amp_c.multi_tensor_l2norm, flag, [values], per_tensor)
    torch.testing.assert_close(norm, expected.float().reshape(1))
    each = torch.stack([value.double().norm().float() for value in values])
    torch.testing.assert_close(norms, each if per_tensor else torch.zeros(0))
    unscaled, _ = multi_tensor_applier(amp_c.multi_tensor_unscale_l2norm, flag, [values], torch.tensor([0.5]))
    torch.testing.assert_close(unscaled, norm / 2)
    outputs = tensors(FLOAT)
    scaled, _ = multi_tensor_applier(amp_c.multi_tensor_l2norm_scale, flag, [values, outputs], 4.0)
    torch.testing.assert_close(scaled, norm * 4)
    torch.testing.assert_close(outputs[0], values[0].float() * 4)
    assert flag.item() == 0


def test_norm_of_an_inf_sets_the_flag_and_of_nothing_is_zero() -> None:
    flag = new_flag()
    assert multi_tensor_applier(amp_c.multi_tensor_l2norm, flag, [[]])[0].item() == 0.0
    assert flag.item() == 0
    multi_tensor_applier(amp_c.multi_tensor_l2norm, flag, [poisoned(FLOAT, INF, 2)])
    assert flag.item() == 1


def test_empty_lists_do_nothing() -> None:
    flag = new_flag()
    multi_tensor_applier(amp_c.multi_tensor_scale, flag, [[], []], 2.0)
    multi_tensor_applier(amp_c.multi_tensor_axpby, flag, [[], [], []], 2.0, 1.0)
    assert flag.item() == 0
    assert multi_tensor_applier.available


def scale_after(overflows: str, scale: float = 8.0, hysteresis: int = 2) -> list[float]:
    """The loss scale after each step; `x` stands for a step that overflows."""
    current = torch.tensor([scale])
    growth, left = torch.zeros(1, dtype=torch.int32), torch.full((1,), hysteresis, dtype=torch.int32)
    found: list[float] = []
    for step in overflows:
        found_inf = torch.tensor([1.0 if step == "x" else 0.0])
        result = amp_c.update_scale_hysteresis(current, growth, left, found_inf, 2.0, 0.5, 3, hysteresis)
        assert result is current
        found.append(current.item())
    return found


@pytest.mark.parametrize(
    ("overflows", "scales"),
    [
        ("...", [8, 8, 16]),
        ("......", [8, 8, 16, 16, 16, 32]),
        ("x", [8]),
        ("xxx", [8, 4, 2]),
        ("x.x", [8, 8, 8]),
        ("..x...", [8, 8, 8, 8, 8, 16]),
    ],
)
def test_scale_backs_off_at_the_last_overflow_that_is_allowed(overflows: str, scales: list[float]) -> None:
    assert scale_after(overflows) == scales


def test_scale_never_grows_to_infinity() -> None:
    assert scale_after("...", scale=3e38) == [pytest.approx(3e38)] * 3


def lamb_by_hand(
    param: Tensor, grads: list[Tensor], decay: float, largest: float, lr: float, trusted: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """LAMB's rule in float64 for one parameter: the weights after its steps, and both moments."""
    weight, first, second = param.double(), torch.zeros(SHAPE).double(), torch.zeros(SHAPE).double()
    for step, grad in enumerate(grads, start=1):
        scaled = grad.double() / max(grad.double().norm().item() / largest, 1.0)
        first = 0.9 * first + 0.1 * scaled
        second = 0.99 * second + 0.01 * scaled**2
        update = first / (1 - 0.9**step) / ((second / (1 - 0.99**step)).sqrt() + 1e-6) + decay * weight
        weight = weight - lr * (weight.norm() / update.norm() if trusted else 1.0) * update
    return weight, first, second


SHAPE = (6, 5)


@pytest.mark.parametrize(
    ("decay", "use_nvlamb", "largest", "trusted"),
    [(0.01, False, 1.0, True), (0.0, False, 1.0, False), (0.0, True, 100.0, True)],
)
def test_the_stages_of_lamb_step_by_its_rule(decay: float, use_nvlamb: bool, largest: float, trusted: bool) -> None:
    torch.manual_seed(0)
    param, grads = torch.randn(SHAPE), [torch.randn(SHAPE) for _ in range(3)]
    weight, first, second = lamb_by_hand(param, grads, decay, largest, 0.1, trusted)
    moments, update, flag = (torch.zeros(SHAPE), torch.zeros(SHAPE)), torch.empty(SHAPE), new_flag()
    for step, grad in enumerate(grads):
        stage1 = [[grad], [param], [moments[0]], [moments[1]], [update]]
        norm = multi_tensor_applier(amp_c.multi_tensor_l2norm, flag, [[grad]])[0]
        decays = torch.tensor([decay])
        multi_tensor_applier(
            amp_c.multi_tensor_lamb_stage1_cuda, flag, stage1, decays, step, 0.9, 0.99, 1e-6, norm, largest
        )
        norms = [multi_tensor_applier(amp_c.multi_tensor_l2norm, flag, [[of]], True)[1] for of in (param, update)]
        multi_tensor_applier(
            amp_c.multi_tensor_lamb_stage2_cuda, flag, [[param], [update]], *norms, 0.1, decay, use_nvlamb
        )
    torch.testing.assert_close(param.double(), weight, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(moments[0].double(), first, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(moments[1].double(), second, rtol=1e-5, atol=1e-6)


def test_lamb_steps_half_weights_without_a_ratio_where_they_are_zero() -> None:
    param, update, zero = torch.zeros(3, dtype=HALF), torch.ones(3, dtype=HALF), torch.zeros(1)
    amp_c.multi_tensor_lamb_stage2_cuda(1, new_flag(), [[param], [update]], zero, torch.ones(1), 0.5, 0.01)
    assert torch.equal(param, torch.full((3,), -0.5, dtype=HALF))


@pytest.mark.parametrize(("mode", "reference"), [(1, torch.optim.AdamW), (0, torch.optim.Adam)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_a_subclass_of_fused_adam_steps_with_the_kernel(
    mode: int, reference: type[torch.optim.AdamW], dtype: torch.dtype
) -> None:
    class Own(FusedAdam):
        def step(self, closure: object = None) -> None:  # type: ignore[override]
            group = self.param_groups[0]
            group["step"] = group.get("step", 0) + 1
            params = group["params"]
            moments = [[self.state[p].setdefault(name, torch.zeros(4)) for p in params] for name in ("m", "v")]
            multi_tensor_applier(
                self.multi_tensor_adam, self._dummy_overflow_buf, [[p.grad for p in params], params, *moments],
                group["lr"], *group["betas"], group["eps"], group["step"], self.adam_w_mode, 1, group["weight_decay"],
            )  # fmt: skip

    ours, theirs = (torch.nn.Parameter(torch.linspace(-1, 1, 4)) for _ in range(2))
    ours.data = ours.data.to(dtype)
    own = Own([ours], lr=0.1, weight_decay=0.1, adam_w_mode=bool(mode))
    other = reference([theirs], lr=0.1, weight_decay=0.1)
    for step in range(3):
        gradient = torch.tensor([1.0, -2.0, 0.5, 4.0]) * (step + 1)
        ours.grad, theirs.grad = gradient.to(dtype), gradient
        own.step()
        other.step()
    torch.testing.assert_close(ours.data.float(), theirs.data, atol=1e-6 if dtype is torch.float32 else 2e-3, rtol=0)


def stepped_by(optimizer: Callable[..., FusedOptimizer], dtype: torch.dtype, **options: Any) -> list[Tensor]:
    """Weights after three steps of an optimizer of the shim, from the same start and gradients as `stepped_with`."""
    params = [torch.nn.Parameter(start.to(dtype, copy=True)) for start in STARTS]
    made = optimizer(params, lr=0.1, **options)
    for gradients in GRADIENTS:
        for param, gradient in zip(params, gradients, strict=True):
            param.grad = gradient.to(dtype)
        made.step()
    return [param.detach().float() for param in params]


def stepped_with(step: Callable[[int, list[Tensor], list[Tensor]], None], dtype: torch.dtype) -> list[Tensor]:
    params = [start.to(dtype, copy=True) for start in STARTS]
    for number, gradients in enumerate(GRADIENTS, start=1):
        step(number, [gradient.to(dtype, copy=True) for gradient in gradients], params)
    return [param.float() for param in params]


STARTS = (torch.linspace(-1, 1, 6), torch.linspace(2, 3, 4).view(2, 2))
GRADIENTS = [[torch.linspace(-1, 2, 6) * n, torch.linspace(1, -2, 4).view(2, 2) / n] for n in (1.0, 2.0, 3.0)]


@pytest.mark.parametrize("dtype", [FLOAT, HALF])
@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_kernels_step_as_the_optimizers_do(dtype: torch.dtype, mode: int, decay: float) -> None:
    first, second, sums = ([torch.zeros_like(start) for start in STARTS] for _ in range(3))
    flag = new_flag()

    def adagrad(number: int, grads: list[Tensor], params: list[Tensor]) -> None:
        multi_tensor_applier(amp_c.multi_tensor_adagrad, flag, [grads, params, sums], 0.1, 1e-10, mode, decay)

    def lamb(number: int, grads: list[Tensor], params: list[Tensor]) -> None:
        norm = multi_tensor_applier(amp_c.multi_tensor_l2norm_mp, flag, [grads])[0]
        lists = [grads, params, first, second]
        multi_tensor_applier(
            amp_c.multi_tensor_lamb, flag, lists, 0.1, 0.9, 0.999, 1e-6, number, 1, decay, 1, mode, norm, 1.0, False
        )

    close = partial(torch.testing.assert_close, atol=1e-6 if dtype is FLOAT else 4e-3, rtol=1e-5)
    expected = stepped_by(FusedAdagrad, dtype, adagrad_w_mode=bool(mode), weight_decay=decay)
    close(stepped_with(adagrad, dtype), expected)
    close(stepped_with(lamb, dtype), stepped_by(FusedLAMB, dtype, adam_w_mode=bool(mode), weight_decay=decay))


@pytest.mark.parametrize("norm_type", [0, 2])
@pytest.mark.parametrize("inside", [False, True])
def test_the_kernel_of_novograd_steps_as_the_optimizer_does(inside: bool, norm_type: int) -> None:
    first = [torch.zeros_like(start) for start in STARTS]
    kind = 2 if norm_type == 2 else INF
    norms = torch.stack([torch.linalg.vector_norm(each, kind) for each in GRADIENTS[0]])

    def novograd(number: int, grads: list[Tensor], params: list[Tensor]) -> None:
        multi_tensor_applier(
            amp_c.multi_tensor_novograd, new_flag(), [grads, params, first], norms,
            0.1, 0.9, 0.99, 1e-8, number, 1, 0.1, 1, 0 if inside else 1, norm_type,
        )  # fmt: skip

    options = {"betas": (0.9, 0.99), "weight_decay": 0.1, "reg_inside_moment": inside, "norm_type": norm_type}
    torch.testing.assert_close(stepped_with(novograd, FLOAT), stepped_by(FusedNovoGrad, FLOAT, **options))


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("nesterov", [False, True])
def test_the_kernel_of_sgd_steps_as_the_optimizer_does_and_writes_half_copies(nesterov: bool, after: bool) -> None:
    momenta, copies = [torch.zeros_like(start) for start in STARTS], [start.half() for start in STARTS]

    def sgd(number: int, grads: list[Tensor], params: list[Tensor]) -> None:
        scaled = [grad * 8.0 for grad in grads]
        multi_tensor_applier(
            amp_c.multi_tensor_sgd, new_flag(), [scaled, params, momenta, copies],
            0.1, 0.9, 0.0, 0.1, nesterov, number == 1, after, 1.0 / 8.0,
        )  # fmt: skip

    options = {"momentum": 0.9, "weight_decay": 0.1, "nesterov": nesterov, "wd_after_momentum": after}
    weights = stepped_with(sgd, FLOAT)
    torch.testing.assert_close(weights, stepped_by(FusedSGD, FLOAT, **options))
    assert all(map(torch.equal, copies, [weight.half() for weight in weights]))
    untouched = [weight.clone() for weight in weights]
    flag = new_flag().fill_(1)
    amp_c.multi_tensor_sgd(1, flag, [weights, weights, momenta], 0.0, 0.9, 0.0, 0.1, False, False, False, 1.0)
    assert all(map(torch.equal, weights, untouched))


def test_norm_of_many_numbers_keeps_its_digits() -> None:
    many = torch.rand(4_000_000)
    norm, each = multi_tensor_applier(amp_c.multi_tensor_l2norm, new_flag(), [[many]], True)
    expected = many.double().norm().item()
    assert (norm.item(), each.item()) == (pytest.approx(expected, rel=1e-6), pytest.approx(expected, rel=1e-6))
