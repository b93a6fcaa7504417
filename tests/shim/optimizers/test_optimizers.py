"""`amp_shim.optimizers` against the formulas in float64, written out for one parameter at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from typing import Any

import pytest
import torch
from amp_shim.optimizers import (
    FusedAdagrad,
    FusedAdam,
    FusedLAMB,
    FusedMixedPrecisionLamb,
    FusedNovoGrad,
    FusedSGD,
)
from amp_shim.optimizers.base import FusedOptimizer
from torch import Tensor, nn

# (weight, gradient, options with the parameter's memory) -> what is subtracted from the weight.
Rule = Callable[[Tensor, Tensor, dict[str, Any]], Any]

STEPS = 6


@dataclass
class Reference:
    """An optimizer in float64: `rule` gives the update of one parameter, from its own memory."""

    rule: Rule
    options: dict[str, Any]
    memories: list[dict[str, Any]]
    clip: float = 0.0

    def step(self, weights: list[Tensor], grads: list[Tensor]) -> None:
        norm = sqrt(sum(float((grad**2).sum()) for grad in grads))
        factor = min(1.0, self.clip / norm) if self.clip else 1.0
        for weight, grad, memory in zip(weights, grads, self.memories, strict=True):
            memory["step"] = memory.get("step", 0) + 1
            weight.sub_(self.rule(weight, grad * factor, {**self.options, "memory": memory}))


def moments(grad: Tensor, o: dict[str, Any], average: bool = True) -> tuple[Tensor, Tensor]:
    """Bias-corrected first and second moment of Adam."""
    memory, (beta1, beta2) = o["memory"], o["betas"]
    memory["m"] = beta1 * memory.get("m", 0.0) + (1 - beta1 if average else 1.0) * grad
    memory["v"] = beta2 * memory.get("v", 0.0) + (1 - beta2) * grad**2
    if not o["bias_correction"]:
        return memory["m"], memory["v"]
    return memory["m"] / (1 - beta1 ** memory["step"]), memory["v"] / (1 - beta2 ** memory["step"])


def adam_rule(weight: Tensor, grad: Tensor, o: dict[str, Any]) -> Any:
    beside = o["adam_w_mode"]
    first, second = moments(grad if beside else grad + o["weight_decay"] * weight, o)
    update = first / (second.sqrt() + o["eps"])
    return o["lr"] * (update + o["weight_decay"] * weight if beside else update)


def sgd_rule(weight: Tensor, grad: Tensor, o: dict[str, Any]) -> Any:
    memory, decay = o["memory"], o["weight_decay"] * weight
    grad = grad if o["wd_after_momentum"] else grad + decay
    old = memory.get("momentum")
    memory["momentum"] = grad if old is None else o["momentum"] * old + (1 - o["dampening"]) * grad
    update = grad + o["momentum"] * memory["momentum"] if o["nesterov"] else memory["momentum"]
    return o["lr"] * (update + decay if o["wd_after_momentum"] else update)


def adagrad_rule(weight: Tensor, grad: Tensor, o: dict[str, Any]) -> Any:
    memory, decay = o["memory"], o["weight_decay"] * weight
    grad = grad if o["adagrad_w_mode"] else grad + decay
    memory["sum"] = memory.get("sum", 0.0) + grad**2
    update = grad / (memory["sum"].sqrt() + o["eps"])
    return o["lr"] * (update + decay if o["adagrad_w_mode"] else update)


def lamb_rule(weight: Tensor, grad: Tensor, o: dict[str, Any]) -> Any:
    beside, decay = o["adam_w_mode"], o["weight_decay"] * weight
    first, second = moments(grad if beside else grad + decay, o, o["grad_averaging"])
    update = first / (second.sqrt() + o["eps"])
    update = update + decay if beside else update
    trusted = (o["weight_decay"] != 0 or o["use_nvlamb"]) and bool(weight.norm() > 0) and bool(update.norm() > 0)
    return o["lr"] * (weight.norm() / update.norm() if trusted else 1.0) * update


def novograd_rule(weight: Tensor, grad: Tensor, o: dict[str, Any]) -> Any:
    memory, (beta1, beta2) = o["memory"], o["betas"]
    norm = grad.abs().max() if o["norm_type"] == 0 else grad.norm()
    old = memory.get("norm", 0.0 * norm if o["init_zero"] else norm)
    if o["norm_type"] == 0:
        memory["norm"] = beta2 * old + (1 - beta2) * norm
    else:
        memory["norm"] = (beta2 * old**2 + (1 - beta2) * norm**2).sqrt()
    correction1 = 1 - beta1 ** memory["step"] if o["bias_correction"] else 1.0
    correction2 = sqrt(1 - beta2 ** memory["step"]) if o["bias_correction"] else 1.0
    scale, decay = memory["norm"] / correction2 + o["eps"], o["weight_decay"] * weight
    inside = grad / scale + decay if o["reg_inside_moment"] else grad
    memory["m"] = beta1 * memory.get("m", 0.0) + (1 - beta1 if o["grad_averaging"] else 1.0) * inside
    first = memory["m"] / correction1
    return o["lr"] * (first if o["reg_inside_moment"] else first / scale + decay)


ADAM: dict[str, Any] = {
    "lr": 0.1, "bias_correction": True, "betas": (0.8, 0.9), "eps": 1e-3, "weight_decay": 0.1, "adam_w_mode": True
}  # fmt: skip
SGD: dict[str, Any] = {
    "lr": 0.1, "momentum": 0.9, "dampening": 0.0, "weight_decay": 0.1, "nesterov": False, "wd_after_momentum": False
}  # fmt: skip
ADAGRAD: dict[str, Any] = {"lr": 0.1, "eps": 1e-3, "weight_decay": 0.1, "adagrad_w_mode": False}
LAMB: dict[str, Any] = {**ADAM, "grad_averaging": True, "max_grad_norm": 1.0, "use_nvlamb": False}
NOVOGRAD: dict[str, Any] = {
    "lr": 0.1, "bias_correction": True, "betas": (0.8, 0.9), "eps": 1e-3, "weight_decay": 0.1, "norm_type": 2,
    "reg_inside_moment": False, "grad_averaging": True, "init_zero": False,
}  # fmt: skip

CASES: list[tuple[type[FusedOptimizer], Rule, dict[str, Any]]] = [
    (FusedAdam, adam_rule, ADAM),
    (FusedAdam, adam_rule, {**ADAM, "bias_correction": False}),
    (FusedAdam, adam_rule, {**ADAM, "adam_w_mode": False}),
    (FusedAdam, adam_rule, {**ADAM, "adam_w_mode": False, "bias_correction": False}),
    (FusedSGD, sgd_rule, SGD),
    (FusedSGD, sgd_rule, {**SGD, "nesterov": True}),
    (FusedSGD, sgd_rule, {**SGD, "dampening": 0.5}),
    (FusedSGD, sgd_rule, {**SGD, "wd_after_momentum": True}),
    (FusedSGD, sgd_rule, {**SGD, "momentum": 0.0, "dampening": 0.0}),
    (FusedAdagrad, adagrad_rule, ADAGRAD),
    (FusedAdagrad, adagrad_rule, {**ADAGRAD, "adagrad_w_mode": True}),
    (FusedLAMB, lamb_rule, LAMB),
    (FusedLAMB, lamb_rule, {**LAMB, "adam_w_mode": False}),
    (FusedLAMB, lamb_rule, {**LAMB, "grad_averaging": False, "bias_correction": False}),
    (FusedLAMB, lamb_rule, {**LAMB, "weight_decay": 0.0}),
    (FusedLAMB, lamb_rule, {**LAMB, "weight_decay": 0.0, "use_nvlamb": True}),
    (FusedLAMB, lamb_rule, {**LAMB, "max_grad_norm": 0.0}),
    (FusedLAMB, lamb_rule, {**LAMB, "max_grad_norm": 1e6}),
    (FusedMixedPrecisionLamb, lamb_rule, LAMB),
    (FusedNovoGrad, novograd_rule, NOVOGRAD),
    (FusedNovoGrad, novograd_rule, {**NOVOGRAD, "norm_type": 0}),
    (FusedNovoGrad, novograd_rule, {**NOVOGRAD, "norm_type": 0, "init_zero": True}),
    (FusedNovoGrad, novograd_rule, {**NOVOGRAD, "reg_inside_moment": True}),
    (FusedNovoGrad, novograd_rule, {**NOVOGRAD, "init_zero": True, "grad_averaging": False}),
    (FusedNovoGrad, novograd_rule, {**NOVOGRAD, "bias_correction": False}),
]
IDS = [f"{case[0].__name__}-{index}" for index, case in enumerate(CASES)]


def gradients(params: list[nn.Parameter], scale: float = 1.0) -> list[Tensor]:
    """Fresh gradients in the parameters, and the same in float64."""
    for param in params:
        param.grad = (torch.randn(param.shape) * scale).to(param.dtype)
    return [param.grad.double() for param in params if param.grad is not None]


def parameters(dtype: torch.dtype = torch.float32) -> list[nn.Parameter]:
    return [nn.Parameter(torch.randn(shape).to(dtype)) for shape in ((3, 4), (5,), ())]


@pytest.mark.parametrize(("kind", "rule", "options"), CASES, ids=IDS)
def test_float_parameters_follow_the_formula(kind: type[FusedOptimizer], rule: Rule, options: dict[str, Any]) -> None:
    params = parameters()
    weights = [param.detach().double() for param in params]
    optimizer = kind(params, **options)
    reference = Reference(rule, options, [{} for _ in params], options.get("max_grad_norm", 0.0))
    for _ in range(STEPS):
        grads = gradients(params)
        before = [param.grad.clone() for param in params if param.grad is not None]
        optimizer.step()
        reference.step(weights, grads)
        assert all(
            torch.equal(param.grad, grad) for param, grad in zip(params, before, strict=True) if param.grad is not None
        )
    for param, weight in zip(params, weights, strict=True):
        torch.testing.assert_close(param.double(), weight, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("kind", "rule", "options"), CASES, ids=IDS)
def test_half_parameters_are_rounded_once_a_step_and_nothing_else_is(
    kind: type[FusedOptimizer], rule: Rule, options: dict[str, Any], dtype: torch.dtype
) -> None:
    params = parameters(dtype)
    optimizer = kind(params, **options)
    reference = Reference(rule, options, [{} for _ in params], options.get("max_grad_norm", 0.0))
    for _ in range(STEPS):
        weights = [param.detach().double() for param in params]
        reference.step(weights, gradients(params))
        optimizer.step()
        for param, weight in zip(params, weights, strict=True):
            # Half a unit in the last place, and what a value on the edge between two may fall to.
            torch.testing.assert_close(param.double(), weight, rtol=0.51 * torch.finfo(dtype).eps, atol=1e-6)


def test_groups_have_their_own_options_and_one_norm_to_clip() -> None:
    params = parameters()
    weights = [param.detach().double() for param in params]
    optimizer = FusedLAMB([{"params": params[:2]}, {"params": params[2:], "weight_decay": 0.0, "lr": 0.5}], **LAMB)
    grads = gradients(params)
    optimizer.step()
    factor = min(1.0, 1.0 / sqrt(sum(float((grad**2).sum()) for grad in grads)))
    for index, (weight, grad) in enumerate(zip(weights, grads, strict=True)):
        own = {"weight_decay": 0.0, "lr": 0.5} if index == 2 else {}
        weight.sub_(lamb_rule(weight, grad * factor, {**LAMB, **own, "memory": {"step": 1}}))
        torch.testing.assert_close(params[index].double(), weight, rtol=1e-5, atol=1e-6)


def test_weight_or_gradient_of_norm_zero_is_not_scaled() -> None:
    zero, still = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.ones(2))
    zero.grad, still.grad = torch.full((2,), 0.5), torch.zeros(2)
    FusedLAMB([zero, still], lr=0.25, weight_decay=0.0, use_nvlamb=True).step()
    torch.testing.assert_close(zero.detach(), torch.full((2,), -0.25))
    assert torch.equal(still, torch.ones(2))
