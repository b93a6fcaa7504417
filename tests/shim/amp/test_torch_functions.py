"""O1: which operator runs in which type, everywhere in the process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from amp_shim import amp
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

HALF, FLOAT = torch.float16, torch.float32
DTYPES = (HALF, FLOAT)


@pytest.fixture(autouse=True)
def o1(fresh_amp: None) -> None:
    amp.initialize(nn.Linear(1, 1), opt_level="O1", verbosity=0)


def always(dtype: torch.dtype) -> Callable[[torch.dtype], torch.dtype]:
    return lambda given: dtype


def same(given: torch.dtype) -> torch.dtype:
    return given


CASES: list[tuple[Callable[[Tensor], Tensor], Callable[[torch.dtype], torch.dtype]]] = [
    (nn.Linear(4, 3), always(HALF)),
    (lambda x: F.linear(x, torch.ones(3, 4)), always(HALF)),
    (lambda x: nn.Conv2d(2, 3, 1)(x.reshape(1, 2, 2, 4)), always(HALF)),
    (lambda x: x.matmul(torch.ones(4, 4)), always(HALF)),
    (lambda x: torch.ones(4, 4) @ x, always(HALF)),
    (lambda x: F.prelu(x, torch.tensor([0.2])), always(HALF)),
    (lambda x: torch.bmm(x[None], x[None]), always(HALF)),
    (nn.Softmax(-1), always(FLOAT)),
    (lambda x: F.log_softmax(x, -1), always(FLOAT)),
    (nn.GroupNorm(2, 4), always(FLOAT)),
    (nn.LayerNorm(4), always(FLOAT)),
    (lambda x: nn.MSELoss()(x, torch.ones_like(x)), always(FLOAT)),
    (lambda x: F.cross_entropy(x, torch.zeros(4, dtype=torch.int64)), always(FLOAT)),
    (lambda x: x.pow(2.0), always(FLOAT)),
    (lambda x: x**2.0, always(FLOAT)),
    (lambda x: x.sum(), always(FLOAT)),
    (lambda x: x.std(), always(FLOAT)),
    (lambda x: x.var(0), always(FLOAT)),
    (F.gelu, always(FLOAT)),
    (F.relu, same),
    (nn.BatchNorm1d(4), same),
    (nn.BatchNorm1d(4).eval(), same),
    (lambda x: x.mean(), same),
    (torch.sigmoid, same),
]


@pytest.mark.parametrize("given", DTYPES)
@pytest.mark.parametrize("case", range(len(CASES)))
def test_operator_runs_in_its_type_and_the_gradient_keeps_the_leafs(case: int, given: torch.dtype) -> None:
    function, expected = CASES[case]
    x = torch.rand(4, 4).to(given).requires_grad_()
    y = function(x)
    assert y.dtype is expected(given)
    y.float().sum().backward()
    assert x.grad is not None
    assert x.grad.dtype is given


@pytest.mark.parametrize("left", DTYPES)
@pytest.mark.parametrize("right", DTYPES)
@pytest.mark.parametrize("function", [torch.atan2, Tensor.atan2, torch.mul, Tensor.mul, torch.add])
def test_two_arguments_promote_to_the_widest(
    function: Callable[[Tensor, Tensor], Tensor], left: torch.dtype, right: torch.dtype
) -> None:
    x, y = torch.rand(3).to(left).requires_grad_(), torch.rand(3).to(right).requires_grad_()
    out = function(x, y)
    assert out.dtype is (HALF if left is right is HALF else FLOAT)
    out.float().sum().backward()
    assert x.grad is not None
    assert y.grad is not None
    assert (x.grad.dtype, y.grad.dtype) == (left, right)


def test_cat_promotes_and_keeps_half_among_halves() -> None:
    half = torch.ones(2).half()
    assert torch.cat([half, half]).dtype is HALF
    assert torch.cat([half, half, torch.ones(2)]).dtype is FLOAT


@pytest.mark.parametrize("left", DTYPES)
@pytest.mark.parametrize("right", DTYPES)
def test_in_place_keeps_the_type_of_its_target(left: torch.dtype, right: torch.dtype) -> None:
    assert torch.ones(2).to(left).add_(torch.ones(2).to(right)).dtype is left


def test_cross_entropy_on_probabilities_refuses_half_and_takes_float() -> None:
    p, target = torch.full((3,), 0.5), torch.ones(3)
    with pytest.raises(NotImplementedError, match="binary_cross_entropy_with_logits"):
        nn.BCELoss()(p.half(), target)
    assert nn.BCELoss()(p, target).dtype is FLOAT


@pytest.mark.parametrize("given", DTYPES)
@pytest.mark.parametrize("cell", [nn.RNNCell, nn.GRUCell, nn.LSTMCell])
def test_recurrent_cell_runs_in_half_over_many_steps(cell: Callable[..., nn.Module], given: torch.dtype) -> None:
    module = cell(3, 4)
    xs = [torch.rand(2, 3).to(given).requires_grad_() for _ in range(10)]
    state: Any = None
    for x in xs:
        state = module(x, state)
    hidden = state[0] if isinstance(state, tuple) else state
    assert hidden.dtype is HALF
    hidden.float().sum().backward()
    assert all(x.grad is not None and x.grad.dtype is given for x in xs)


@pytest.mark.parametrize("given", DTYPES)
@pytest.mark.parametrize(("layers", "bidirectional"), [(1, False), (2, False), (2, True)])
@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM])
def test_recurrent_layer_runs_in_half(
    kind: Callable[..., nn.Module], layers: int, bidirectional: bool, given: torch.dtype
) -> None:
    x = torch.rand(5, 2, 3).to(given).requires_grad_()
    output, _ = kind(3, 4, num_layers=layers, bidirectional=bidirectional)(x)
    assert output.dtype is HALF
    output.float().sum().backward()
    assert x.grad is not None
    assert x.grad.dtype is given


def test_packed_sequence_runs_in_half() -> None:
    x = torch.rand(5, 2, 3, requires_grad=True)
    output, _ = nn.GRU(3, 4)(pack_padded_sequence(x, torch.tensor([5, 3])))
    assert output.data.dtype is HALF
    output.data.float().sum().backward()
    assert x.grad is not None
    assert x.grad.dtype is FLOAT


@pytest.mark.parametrize("weight_dtype", DTYPES)
@pytest.mark.parametrize("operator", [torch.mv, torch.dot, lambda w, x: (w * x).exp()])
def test_weight_used_twice_gets_right_gradients_before_and_after_evaluation(
    operator: Callable[[Tensor, Tensor], Tensor], weight_dtype: torch.dtype
) -> None:
    shape = (4, 4) if operator is torch.mv else (4,)
    weight = nn.Parameter(torch.rand(shape).to(weight_dtype))
    x = torch.rand(4)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    amp._amp_state.allow_incoming_model_not_fp32 = True
    amp.initialize(nn.Linear(1, 1), optimizer, opt_level="O1", verbosity=0)
    amp._amp_state.loss_scalers[0]._loss_scale = 4.0
    reference = weight.detach().double().requires_grad_()
    if operator is torch.mv:
        twice = (reference @ x.double()).sum() * 2
    else:
        twice = ((reference * x.double()).exp() if operator is not torch.dot else reference * x.double()).sum() * 2
    (expected,) = torch.autograd.grad(twice, reference)

    def loss() -> Tensor:
        return operator(weight, x.to(weight_dtype)).sum() + operator(weight, x.to(weight_dtype)).sum()

    for _ in range(2):
        optimizer.zero_grad()
        with amp.scale_loss(loss(), optimizer) as scaled_loss:
            scaled_loss.backward()
        assert weight.grad is not None
        assert weight.grad.dtype is weight_dtype
        torch.testing.assert_close(weight.grad.double(), expected, rtol=2e-3, atol=2e-3)
        with torch.no_grad():
            loss()


def test_weight_changed_behind_the_optimizer_is_seen() -> None:
    layer = nn.Linear(2, 2, bias=False)
    x = torch.ones(1, 2)
    before = layer(x)
    layer.weight.data.mul_(2)
    assert torch.equal(layer(x), before * 2)


def test_half_reaches_numpy_as_float() -> None:
    assert torch.ones(2).half().cpu().dtype is FLOAT
    assert torch.ones(2).bfloat16().cpu().numpy().tolist() == [1.0, 1.0]
    assert torch.ones(2, dtype=torch.int64).cpu().dtype is torch.int64


def test_autograd_formulas_run_at_the_types_of_the_forward_pass() -> None:
    a, b = torch.rand(3, 300, requires_grad=True), torch.rand(300, 3, requires_grad=True)
    with amp.disable_casts():
        y = a @ b
    g = torch.rand(3, 3)
    y.backward(g)
    with amp.disable_casts():
        assert a.grad is not None
        assert torch.equal(a.grad, g @ b.detach().t())


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return x @ weight

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        return grads[0] @ weight.t(), x.t() @ grads[0]


def test_backward_written_in_python_is_cast_too() -> None:
    weight = torch.rand(3, 2, requires_grad=True)
    y = Product.apply(torch.rand(4, 3, requires_grad=True), weight)
    assert y.dtype is HALF
    y.float().sum().backward()
    assert weight.grad is not None
    assert weight.grad.dtype is FLOAT


def test_disable_casts_nests_and_survives_an_exception() -> None:
    x = torch.ones(2, 2)
    with amp.disable_casts():
        with pytest.raises(ZeroDivisionError), amp.disable_casts():
            raise ZeroDivisionError
        assert (x @ x).dtype is FLOAT
    assert (x @ x).dtype is HALF


def test_deactivation_leaves_the_process_as_it_was() -> None:
    handle = amp._amp_state.handle
    assert handle is not None
    handle._deactivate()
    assert not handle.is_active()
    assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype is FLOAT
    assert torch.ones(1).half().cpu().dtype is HALF
    assert torch.is_autocast_cache_enabled()
    assert not torch.is_autocast_enabled("cpu")
    assert torch.autograd._engine_run_backward is torch.autograd.graph._engine_run_backward  # type: ignore[attr-defined]


def test_casts_are_off_during_the_optimizer_step() -> None:
    class Recording(torch.optim.SGD):
        seen: torch.dtype | None = None

        def step(self, closure: Any = None) -> Any:
            self.seen = (torch.ones(2, 2) @ torch.ones(2, 2)).dtype
            return super().step(closure)

    model = nn.Linear(2, 2)
    optimizer = Recording(model.parameters(), lr=0.1)
    amp.initialize(model, optimizer, opt_level="O1", verbosity=0)
    optimizer.step()
    assert optimizer.seen is FLOAT


def test_o4_casts_to_bfloat16() -> None:
    amp.initialize(nn.Linear(1, 1), opt_level="O4", verbosity=0)
    assert nn.Linear(2, 2)(torch.ones(1, 2)).dtype is torch.bfloat16
