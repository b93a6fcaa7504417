"""`amp_shim.parallel`: data-parallel training, synchronised batch norm, LARC."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import amp_shim
import pytest
import torch
import torch.distributed as dist
from amp_shim import amp
from amp_shim.parallel import (
    LARC,
    DistributedDataParallel,
    Reducer,
    SyncBatchNorm,
    convert_syncbn_model,
    create_syncbn_process_group,
)
from amp_shim.parallel.distributed import flat_dist_call
from torch import nn
from torch.optim import SGD

SHIM = Path(amp_shim.__file__).parents[1]


LEVELS = ("O0", "O1", "O2", "O3")


@pytest.fixture
def one_process(tmp_path: Path) -> Iterator[None]:
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each of two processes saw, by the name of the function that looked."""
    folder = tmp_path_factory.mktemp("ranks")
    # Processes of their own, not forks: autograd's threads, which another test may have started, do not survive one.
    paths = os.pathsep.join(filter(None, [str(SHIM), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, str(folder)]
    started = [subprocess.Popen([*command, str(rank)], env=environment, cwd=folder) for rank in range(2)]
    assert [process.wait(timeout=120) for process in started] == [0, 0]
    return [torch.load(folder / f"{rank}.pt") for rank in range(2)]


def _look(rank: int, folder: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    seen = {
        **{f"trained at {level}": trained(rank, level) for level in LEVELS},
        "averaged": gradients(rank),
        "summed, predivided": gradients(rank, gradient_average=False, gradient_predivide_factor=4.0),
        "averaged, predivided": gradients(rank, gradient_predivide_factor=4.0, allreduce_always_fp32=True),
        "switched": switched(rank),
        "reduced by hand": reduced_by_hand(rank),
        "flat": sent_flat(rank),
        "overflow": overflow(rank),
    }
    torch.save(seen, f"{folder}/{rank}.pt")
    dist.barrier()  # a rank that goes first takes Gloo away from the other, which aborts in one run of four
    dist.destroy_process_group()


def gradients(rank: int, **options: Any) -> list[list[float]]:
    """Weight and gradient; rank r feeds r + 1."""
    torch.manual_seed(rank)
    model = DistributedDataParallel(nn.Linear(1, 1, bias=False), **options)
    model(torch.full((1, 1), float(rank + 1))).sum().backward()
    (param,) = model.parameters()
    assert param.grad is not None
    return [param.flatten().tolist(), param.grad.flatten().tolist()]


def switched(rank: int) -> list[float]:
    model = DistributedDataParallel(nn.Linear(1, 1, bias=False))
    (param,) = model.parameters()
    seen: list[float] = []
    for switch in (model.disable_allreduce, model.enable_allreduce):
        switch()
        param.grad = None
        model(torch.full((1, 1), float(rank))).sum().backward()
        assert param.grad is not None
        seen.append(param.grad.item())
    return seen


def reduced_by_hand(rank: int) -> list[float]:
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, float(rank))
    reducer = Reducer(model)
    model(torch.full((1, 1), float(rank))).sum().backward()
    reducer.reduce()
    tensor = torch.tensor([float(rank)])
    Reducer([tensor]).reduce()
    assert model.weight.grad is not None
    return [model.weight.item(), model.weight.grad.item(), tensor.item()]


def sent_flat(rank: int) -> list[list[float]]:
    """Tensors of two types after an average and after a broadcast from rank 1."""
    dtypes = (torch.float32, torch.float16, torch.float32)
    averaged, sent = ([torch.full((n + 1,), rank + n, dtype=dtypes[n]) for n in range(3)] for _ in range(2))
    flat_dist_call(averaged, dist.all_reduce)
    flat_dist_call(sent, dist.broadcast, (1,))
    return [tensor.tolist() for tensor in (*averaged, *sent)]


def overflow(rank: int) -> list[Any]:
    """An O1 step of which rank 1's loss is infinite."""
    torch.manual_seed(0)
    model = nn.Linear(2, 1)
    before = model.weight.flatten().tolist()
    optimizer = SGD(model.parameters(), lr=0.1)
    amp.initialize(model, optimizer, opt_level="O1", verbosity=0)
    parallel = DistributedDataParallel(model)
    loss = parallel(torch.ones(1, 2)).sum().float() * (float("inf") if rank == 1 else 1.0)
    with amp.scale_loss(loss, optimizer) as scaled_loss:
        scaled_loss.backward()
    optimizer.step()
    return [model.weight.flatten().tolist() == before, amp.state_dict()["loss_scaler0"]["loss_scale"]]


def trained(rank: int, level: str) -> list[Any]:
    """Weights and masters after three steps; the ranks see halves of one batch."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 4), nn.Linear(4, 1))
    optimizer = SGD(model.parameters(), lr=0.125, momentum=0.5)
    amp.initialize(model, optimizer, opt_level=level, loss_scale=64.0, verbosity=0)
    parallel = DistributedDataParallel(model)
    batch = torch.linspace(-1, 1, 8).view(4, 2)
    for _ in range(3):
        optimizer.zero_grad()
        loss = (parallel(batch[2 * rank : 2 * rank + 2]).float() ** 2).mean()
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
        optimizer.step()
    amp.reset()
    return [
        [param.flatten().tolist() for param in group] for group in (model.parameters(), amp.master_params(optimizer))
    ]


def test_larc_keeps_the_state_and_the_groups_of_its_optimizer() -> None:
    first, second = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(3))
    larc = LARC(SGD([first], lr=0.5, momentum=0.9))
    first.grad = torch.ones(2)
    larc.step()
    restored = LARC(SGD([nn.Parameter(torch.ones(2))], lr=0.1, momentum=0.9))
    restored.load_state_dict(larc.state_dict())
    (state,) = restored.state.values()
    assert torch.equal(state["momentum_buffer"], larc.state[first]["momentum_buffer"])
    assert restored.param_groups[0]["lr"] == 0.5
    larc.add_param_group({"params": [second], "lr": 0.25})
    assert [group["lr"] for group in larc.optim.param_groups] == [0.5, 0.25]


@pytest.mark.parametrize("level", LEVELS)
def test_ranks_train_the_same_weights_as_one_process_would(level: str, ranks: list[dict[str, Any]]) -> None:
    weights, masters = ranks[0][f"trained at {level}"]
    assert ranks[1][f"trained at {level}"] == [weights, masters]
    torch.manual_seed(0)
    reference = nn.Sequential(nn.Linear(2, 4), nn.Linear(4, 1))
    optimizer = SGD(reference.parameters(), lr=0.125, momentum=0.5)
    for _ in range(3):
        optimizer.zero_grad()
        (reference(torch.linspace(-1, 1, 8).view(4, 2)) ** 2).mean().backward()
        optimizer.step()
    for found, param in zip(masters, reference.parameters(), strict=True):
        torch.testing.assert_close(torch.tensor(found), param.detach().flatten(), rtol=2e-2, atol=2e-3)


@pytest.mark.parametrize(
    ("how", "expected"), [("averaged", 1.5), ("summed, predivided", 0.75), ("averaged, predivided", 1.5)]
)
def test_gradients_are_reduced_and_weights_start_equal(how: str, expected: float, ranks: list[dict[str, Any]]) -> None:
    (weight0, grad0), (weight1, grad1) = (rank[how] for rank in ranks)
    assert weight0 == weight1
    assert grad0 == grad1 == [expected]


def test_reduction_can_be_switched_off_and_on(ranks: list[dict[str, Any]]) -> None:
    assert [rank["switched"] for rank in ranks] == [[0.0, 0.5], [1.0, 0.5]]


def test_reducer_averages_when_told_to(ranks: list[dict[str, Any]]) -> None:
    assert [rank["reduced by hand"] for rank in ranks] == [[0.0, 0.5, 0.5]] * 2


def test_tensors_of_several_types_are_sent_flat(ranks: list[dict[str, Any]]) -> None:
    expected = [[0.5], [1.5, 1.5], [2.5, 2.5, 2.5], [1.0], [2.0, 2.0], [3.0, 3.0, 3.0]]
    assert [rank["flat"] for rank in ranks] == [expected, expected]


def test_overflow_on_one_rank_skips_the_step_on_all(ranks: list[dict[str, Any]]) -> None:
    assert [rank["overflow"] for rank in ranks] == [[True, 32768.0]] * 2


@pytest.mark.usefixtures("one_process")
def test_contradictory_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="shared_param"):
        DistributedDataParallel(nn.Linear(1, 1), shared_param=True)
    with pytest.raises(ValueError, match="delay_allreduce=False"):
        DistributedDataParallel(nn.Linear(1, 1), delay_allreduce=True, num_allreduce_streams=2)


@pytest.mark.usefixtures("one_process")
def test_a_bucket_has_room_for_a_message_of_float32() -> None:
    model: Any = DistributedDataParallel(nn.Linear(1, 1), message_size=2**20)
    assert model.bucket_bytes_cap == 2**22


@pytest.mark.usefixtures("one_process")
@pytest.mark.parametrize("delayed", [False, True])
def test_parameter_without_gradient_is_fine(*, delayed: bool) -> None:
    class HalfUsed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.unused = nn.Linear(1, 1), nn.Linear(1, 1)

        def forward(self, x: Any) -> Any:
            return self.used(x)

    module = HalfUsed()
    model = DistributedDataParallel(module, delay_allreduce=delayed)
    for _ in range(2):
        model(torch.ones(1, 1)).sum().backward()
    assert module.used.weight.grad is not None


def test_converted_batch_norms_share_weights_statistics_and_mode() -> None:
    model = nn.Sequential(nn.BatchNorm2d(2), nn.BatchNorm1d(3, affine=False), nn.InstanceNorm2d(2))
    model[1].eval()
    weight, mean = model[0].weight, model[0].running_mean
    converted = convert_syncbn_model(model)
    assert converted is model
    assert isinstance(model[0], SyncBatchNorm)
    assert model[0].weight is weight
    assert model[0].running_mean is mean
    assert model[0].training
    assert isinstance(model[1], SyncBatchNorm)
    assert not model[1].training
    assert isinstance(model[2], nn.InstanceNorm2d)


def test_sync_batch_norm_takes_channels_last_a_residual_and_a_relu() -> None:
    x, z = torch.rand(2, 5, 4, 3), torch.rand(2, 5, 4, 3)
    plain = nn.BatchNorm2d(3).eval()
    sync = SyncBatchNorm(3, channel_last=True, fuse_relu=True).eval()
    expected = (plain(x.movedim(-1, 1)).movedim(1, -1) + z - 1).relu()
    torch.testing.assert_close(sync(x, z - 1), expected)


@pytest.mark.usefixtures("one_process")
def test_process_group_of_zero_means_everyone_and_sizes_must_divide() -> None:
    assert create_syncbn_process_group(0) is None
    assert create_syncbn_process_group(1) is not None
    with pytest.raises(ValueError, match="groups of 2"):
        create_syncbn_process_group(2)


@pytest.mark.parametrize("clip", [True, False])
def test_larc_step_is_sgd_with_a_local_rate(clip: bool) -> None:
    param = nn.Parameter(torch.tensor([3.0, 4.0]))
    zero = nn.Parameter(torch.zeros(2))
    optimizer = LARC(SGD([param, zero], lr=0.5, weight_decay=0.1), trust_coefficient=0.02, clip=clip)
    param.grad, zero.grad = torch.tensor([0.6, 0.8]), torch.ones(2)
    optimizer.step()
    rate = 0.02 * 5 / (1 + 0.1 * 5 + 1e-8)
    rate = min(rate / 0.5, 1.0) if clip else rate
    expected = torch.tensor([3.0, 4.0]) - 0.5 * rate * (torch.tensor([0.6, 0.8]) + 0.1 * torch.tensor([3.0, 4.0]))
    torch.testing.assert_close(param.detach(), expected)
    torch.testing.assert_close(zero.detach(), torch.full((2,), -0.5))
    assert optimizer.param_groups[0]["weight_decay"] == 0.1


@pytest.mark.parametrize("level", ["O0", "O1", "O2", "O3"])
def test_amp_takes_larc_as_an_optimizer(level: str) -> None:
    model = nn.Linear(4, 1)
    before = model.weight.detach().clone()
    optimizer = LARC(SGD(model.parameters(), lr=1.0))
    amp.initialize(model, optimizer, opt_level=level, loss_scale=128.0, verbosity=0)
    optimizer.zero_grad()
    with amp.scale_loss(model(torch.ones(2, 4)).mean(), optimizer) as scaled_loss:  # type: ignore[arg-type]
        scaled_loss.backward()
    optimizer.step()
    assert not torch.equal(model.weight.float(), before)


if __name__ == "__main__":
    _look(int(sys.argv[2]), sys.argv[1])


def test_larc_leaves_a_parameter_without_a_gradient_alone() -> None:
    used, unused = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
    used.grad = torch.ones(2)
    LARC(SGD([unused, used], lr=0.5)).step()
    assert unused.tolist() == [1.0, 1.0]
    assert unused.grad is None
    assert used.tolist() != [1.0, 1.0]


def test_synchronised_batch_norm_is_not_converted_again() -> None:
    model = convert_syncbn_model(nn.Sequential(nn.BatchNorm1d(2)))
    assert isinstance(model, nn.Sequential)
    norm = model[0]
    assert convert_syncbn_model(model) is model
    assert model[0] is norm
