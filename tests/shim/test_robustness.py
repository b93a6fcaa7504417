"""Where mixed precision meets the rest of PyTorch: threads, compilation, copies, checkpointing, nesting, new starts."""

from __future__ import annotations

import copy
import io
import pickle
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from amp_shim import amp
from amp_shim.policy import NATIVE_CUDA, autocast
from torch import Tensor, nn
from torch.optim import SGD, Optimizer
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset

LEVELS = ("O0", "O1", "O2", "O3")
HALF, FLOAT = torch.float16, torch.float32
X = torch.linspace(-1, 1, 12).view(3, 4)


def training(level: str, **options: Any) -> tuple[nn.Sequential, Optimizer]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2))
    optimizer = SGD(model.parameters(), lr=0.125, momentum=0.5)
    amp.initialize(model, optimizer, opt_level=level, loss_scale=64.0, verbosity=0, **options)
    return model, optimizer


def step(forward: Callable[[Tensor], Tensor], optimizer: Optimizer) -> float:
    optimizer.zero_grad()
    loss = (forward(X).float() ** 2).mean()
    with amp.scale_loss(loss, optimizer) as scaled_loss:
        scaled_loss.backward()
    optimizer.step()
    return loss.item()


@pytest.mark.parametrize("level", LEVELS)
def test_compiled_training_follows_eager_training(level: str) -> None:
    model, optimizer = training(level)
    expected = [step(model, optimizer) for _ in range(3)]
    model, optimizer = training(level)
    compiled = torch.compile(model, backend="aot_eager")
    found = [step(compiled, optimizer) for _ in range(3)]
    assert found == pytest.approx(expected, rel=2e-3)
    assert found[-1] < found[0]


def test_compiled_region_follows_its_policy() -> None:
    compiled = torch.compile(lambda x: ((x @ x.t()), (x @ x.t()).softmax(-1)), backend="aot_eager", fullgraph=True)
    policy = NATIVE_CUDA.with_half("softmax")
    with autocast(policy, "cpu", dtype=HALF):
        product, probabilities = compiled(X)
    assert (product.dtype, probabilities.dtype) == (HALF, HALF)
    with autocast(NATIVE_CUDA, "cpu", dtype=HALF):
        assert compiled(X * 2)[1].dtype is HALF, "a compiled graph keeps the policy that it was compiled under"
        torch._dynamo.reset()
        assert compiled(X * 2)[1].dtype is FLOAT


@pytest.mark.parametrize("level", ["O1", "O2"])
@pytest.mark.parametrize("reentrant", [False, True])
def test_activation_checkpointing_gives_the_same_gradients(level: str, reentrant: bool) -> None:
    model, optimizer = training(level)
    expected = [step(model, optimizer) for _ in range(3)]
    model, optimizer = training(level)

    def forward(x: Tensor) -> Tensor:
        x = x.clone().requires_grad_()
        hidden: Tensor = checkpoint(model, x, use_reentrant=reentrant)
        return hidden

    assert [step(forward, optimizer) for _ in range(3)] == pytest.approx(expected, rel=1e-6)


def test_threads_that_open_the_same_policy_do_not_disturb_each_other() -> None:
    policy = NATIVE_CUDA.with_float("gelu")
    seen: set[tuple[torch.dtype, torch.dtype]] = set()

    def work() -> None:
        for _ in range(50):
            with autocast(policy, "cpu", dtype=HALF):
                seen.add(((X @ X.t()).dtype, torch.nn.functional.gelu(X.half()).dtype))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == {(HALF, FLOAT)}
    with torch.autocast("cpu", dtype=HALF):
        assert torch.nn.functional.gelu(X.half()).dtype is HALF


def test_casts_of_o1_stay_on_the_thread_that_asked_for_them() -> None:
    model, _ = training("O1")
    seen: list[torch.dtype] = []
    thread = threading.Thread(target=lambda: seen.append(model(X).dtype))
    thread.start()
    thread.join()
    assert seen == [FLOAT]
    assert model(X).dtype is HALF


class Rows(Dataset[Tensor]):
    """Rows that a worker multiplies."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Tensor:
        return X[:2, :2] @ X[:2, :2]


@pytest.mark.parametrize(("level", "expected"), [("O1", HALF), ("O2", FLOAT)])
def test_forked_loader_workers_compute_as_the_script_does(level: str, expected: torch.dtype) -> None:
    training(level)
    loader = DataLoader(Rows(), batch_size=2, num_workers=1, multiprocessing_context="fork")
    assert {batch.dtype for batch in loader} == {expected}


@pytest.mark.parametrize("level", LEVELS)
def test_data_parallel_wraps_an_initialized_model(level: str) -> None:
    model, optimizer = training(level)
    expected = [step(model, optimizer) for _ in range(2)]
    model, optimizer = training(level)
    assert [step(nn.DataParallel(model), optimizer) for _ in range(2)] == expected


@pytest.mark.parametrize("level", LEVELS)
def test_copies_of_model_and_optimizer_are_their_own(level: str) -> None:
    model, optimizer = training(level)
    step(model, optimizer)
    twin, twin_optimizer = copy.deepcopy((model, optimizer))
    before = [param.detach().clone() for param in twin.parameters()]
    step(model, optimizer)
    assert all(map(torch.equal, twin.parameters(), before))
    amp._amp_state.allow_incoming_model_not_fp32 = True
    amp.initialize(twin.float(), twin_optimizer, opt_level="O1", verbosity=0)
    model_before = [param.detach().clone() for param in model.parameters()]
    for param in amp.master_params(twin_optimizer):
        param.grad = torch.ones_like(param)
    twin_optimizer.step()
    assert all(map(torch.equal, model.parameters(), model_before))


@pytest.mark.parametrize("level", LEVELS)
def test_optimizer_can_be_pickled(level: str) -> None:
    model, optimizer = training(level)
    step(model, optimizer)
    loaded = pickle.loads(pickle.dumps(optimizer))
    assert loaded.param_groups[0]["momentum"] == 0.5
    momenta = [state["momentum_buffer"] for state in loaded.state.values()]
    assert all(torch.equal(a, b["momentum_buffer"]) for a, b in zip(momenta, optimizer.state.values(), strict=True))


def test_state_dict_hooks_of_the_script_see_float_entries() -> None:
    model, _ = training("O2")
    seen: list[torch.dtype] = []
    hookable: Any = model
    hookable.register_state_dict_post_hook(
        lambda module, state_dict, prefix, metadata: seen.extend(value.dtype for value in state_dict.values())
    )
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    assert seen == [FLOAT] * 6
    file.seek(0)
    assert {value.dtype for value in torch.load(file, weights_only=True).values()} == {FLOAT}


@pytest.mark.parametrize("level", ["O1", "O2"])
def test_nested_blocks_of_two_optimizers_unscale_each_its_own(level: str) -> None:
    torch.manual_seed(0)
    models = [nn.Linear(4, 2), nn.Linear(4, 2)]
    references = copy.deepcopy(models)
    optimizers = [SGD(model.parameters(), lr=0.125) for model in models]
    amp.initialize(models, optimizers, opt_level=level, loss_scale=64.0, verbosity=0, num_losses=2)
    first, second = ((model(X).float() ** 2).mean() for model in models)
    with amp.scale_loss(first, optimizers[0], loss_id=0) as scaled_first:
        with amp.scale_loss(second, optimizers[1], loss_id=1) as scaled_second:
            scaled_second.backward()
        scaled_first.backward()
    with amp.disable_casts():
        for reference in references:
            (reference(X) ** 2).mean().backward()
    for optimizer, reference in zip(optimizers, references, strict=True):
        for param, expected in zip(amp.master_params(optimizer), reference.parameters(), strict=True):
            torch.testing.assert_close(param.grad, expected.grad, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("level", LEVELS)
def test_evaluation_without_gradients_does_not_change_training(level: str) -> None:
    model, optimizer = training(level)
    expected = [step(model, optimizer) for _ in range(4)]
    model, optimizer = training(level)
    found = []
    for _ in range(4):
        with torch.no_grad():
            before = model(X)
        with torch.inference_mode():
            assert torch.equal(model(X), before)
        found.append(step(model, optimizer))
    assert found == expected


@pytest.mark.parametrize("levels", [("O1", "O1"), ("O1", "O2"), ("O2", "O1"), ("O2", "O3")])
def test_second_training_starts_in_the_same_process(levels: tuple[str, str]) -> None:
    for level in levels:
        model, optimizer = training(level)
        losses = [step(model, optimizer) for _ in range(4)]
        assert losses[-1] < losses[0]


def test_o2_keeps_half_weights_and_one_float_copy_of_each() -> None:
    model = nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.Linear(64, 64))
    optimizer = SGD(model.parameters(), lr=0.125)
    amp.initialize(model, optimizer, opt_level="O2", verbosity=0)
    optimizer.zero_grad()
    weights = {param.data_ptr(): param for param in (*model.parameters(), *amp.master_params(optimizer))}
    halves, floats = 2 * (64 * 64 + 64), 2 * 64
    assert sum(param.numel() * param.element_size() for param in weights.values()) == 6 * halves + 4 * floats


def test_first_training_goes_on_after_a_second_was_initialized() -> None:
    model, optimizer = training("O2")
    expected = [step(model, optimizer) for _ in range(4)]
    model, optimizer = training("O2")
    losses = [step(model, optimizer)]
    other, other_optimizer = training("O1")
    for _ in range(3):
        losses.append(step(model, optimizer))
        step(other, other_optimizer)
    assert losses == pytest.approx(expected, rel=2e-2)
