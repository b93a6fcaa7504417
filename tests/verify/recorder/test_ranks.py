"""Scripts that train in several processes: every one is recorded, and the run is judged by all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from amp_migrate.verify.recorded.events import combined, read
from amp_migrate.verify.recorded.recording import Failure, Trace
from amp_migrate.verify.runs.process import RunResult

Make = Callable[..., Trace]


def test_losses_are_the_mean_over_ranks(make_trace: Make) -> None:
    trace = combined([make_trace([1.0, 2.0]), make_trace([3.0, 6.0])])
    assert trace.losses == (2.0, 4.0)
    assert trace.ranks == 2


def test_ranks_that_did_not_train_do_not_count(make_trace: Make) -> None:
    trace = combined([Trace(environment={"torch": "2.0"}), make_trace([3.0])])
    assert trace.losses == (3.0,)
    assert trace.ranks == 1


def test_ranks_that_part_leave_the_first_one_s_losses(make_trace: Make) -> None:
    assert combined([make_trace([1.0, 2.0]), make_trace([3.0])]).losses == (1.0, 2.0)


def test_what_goes_wrong_in_one_rank_goes_wrong_in_the_run(make_trace: Make) -> None:
    failure = Failure("ValueError", "bad", "train.py:3")
    sick = replace(make_trace([1.0]), failure=failure, memory={"peak_resident": 9})
    sick = replace(sick, nonfinite=("Net.norm.running_mean",))
    trace = combined([replace(make_trace([1.0], stopped=False), memory={"peak_resident": 5}), sick])
    assert trace.failure == failure
    assert trace.nonfinite == ("Net.norm.running_mean",)
    assert trace.memory == {"peak_resident": 9}
    assert trace.stopped


def test_a_run_that_recorded_nothing_is_empty() -> None:
    assert combined([]) == Trace()


@pytest.mark.slow
def test_processes_that_train_together_are_recorded_each_by_its_rank(record: Callable[..., RunResult]) -> None:
    result = record(
        """
        import os
        import torch
        import torch.distributed as dist
        import torch.multiprocessing as mp
        from apex.parallel import SyncBatchNorm, convert_syncbn_model

        def train(rank):
            torch.manual_seed(0)
            dist.init_process_group("nccl", init_method=f"file://{os.getcwd()}/store", rank=rank, world_size=2)
            torch.cuda.set_device(rank)
            layers = torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.SyncBatchNorm(4), SyncBatchNorm(4)
            model = torch.nn.Sequential(*layers, torch.nn.Linear(4, 1))
            model = convert_syncbn_model(torch.nn.SyncBatchNorm.convert_sync_batchnorm(model)).cuda(rank)
            model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank])
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for step in range(3):
                optimizer.zero_grad()
                model(torch.full((2, 4), rank + 1.0)).mean().backward()
                optimizer.step()
            dist.barrier(device_ids=[rank])
            dist.destroy_process_group()

        mp.start_processes(train, nprocs=2, start_method="fork")
        """,
        prelude="",
    )
    assert result.ended_well, result.log.read_text()
    assert sorted(path.name for path in result.folder.glob("*.jsonl")) == ["rank-0.jsonl", "rank-1.jsonl"]
    assert result.trace.ranks == 2
    assert len(result.trace.losses) == 3


@pytest.mark.slow
def test_processes_that_train_apart_are_recorded_as_well(record: Callable[..., RunResult]) -> None:
    result = record(
        """
        import time
        import torch.multiprocessing as mp

        def train(rank):
            time.sleep(0.3 * (1 - rank))  # the second one is first to train
            for step in range(3):
                (rank + loss_of() * 0).backward()
                optimizer.step()

        mp.start_processes(train, nprocs=2, start_method="fork")
        """
    )
    assert result.ended_well, result.log.read_text()
    assert result.trace.losses == (0.5, 0.5, 0.5)
    assert len(result.trace.steps) == 3
    assert [read(result.folder / f"rank-{rank}.jsonl").losses[0] for rank in (0, 1)] == [0.0, 1.0]
