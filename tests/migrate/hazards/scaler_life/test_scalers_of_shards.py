"""AMP640: a scaler that looks at the gradients of one rank, where each has its own."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
from torch.amp import GradScaler
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from torch.distributed.tensor import _dispatch

Check = Callable[..., Any]
TRAINED = """
{imports}
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, ShardingStrategy

def train(rank, loader, args):
    {made}
    optimizer = torch.optim.Adam({parameters})
    scaler = {scaler}
    for x, y in loader:
        optimizer.zero_grad()
        with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
            loss = F.mse_loss(model(x.to(rank)), y.to(rank))
        scaler.scale(loss).backward()
        scaler.step(optimizer){mark}
        scaler.update()
"""
SHARDED = "model = FSDP(nn.Linear(8, 1).to(rank))"


def text(
    made: str = SHARDED,
    parameters: str = "model.parameters()",
    scaler: str = 'torch.amp.GradScaler("cuda")',
    imports: str = "",
    *,
    is_told: bool = False,
) -> str:
    mark = "  # AMP640" if is_told else ""
    return TRAINED.format(made=made, parameters=parameters, scaler=scaler, imports=imports, mark=mark)


@pytest.mark.parametrize(
    ("made", "parameters"),
    [
        (SHARDED, "model.parameters()"),
        (SHARDED, '[{"params": [p for n, p in model.named_parameters() if "bias" in n]}]'),
        ("model = FSDP(nn.Linear(8, 1), sharding_strategy=ShardingStrategy.SHARD_GRAD_OP)", "model.parameters()"),
        ("model = nn.Linear(8, 1)\n    if args.shard:\n        model = FSDP(model)", "model.parameters()"),
    ],
)
def test_a_plain_scaler_is_told(marked: Check, made: str, parameters: str) -> None:
    marked(text(made, parameters, is_told=True))


@pytest.mark.parametrize(
    "made",
    [
        "model = FSDP(nn.Linear(8, 1), sharding_strategy=ShardingStrategy.NO_SHARD)",
        "model = FSDP(nn.Linear(8, 1), None, args.strategy)",  # whatever that is
        "model = nn.parallel.DistributedDataParallel(nn.Linear(8, 1))",
        "from torch.distributed.fsdp import fully_shard\n    model = nn.Linear(8, 1)\n    fully_shard(model)",
    ],
)
def test_models_that_are_not_sharded_or_in_distributed_tensors_are_right(clean: Check, made: str) -> None:
    clean(text(made))


@pytest.mark.parametrize("scaler", ["ShardedGradScaler()", "ShardedGradScaler() if args.shard else GradScaler()"])
def test_a_scaler_that_asks_all_ranks_is_right(clean: Check, scaler: str) -> None:
    imports = (
        "from torch.amp import GradScaler\nfrom torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler"
    )
    clean(text(scaler=scaler, imports=imports))


def test_another_model_beside_one_that_is_sharded_is_right(clean: Check) -> None:
    clean(text(f"{SHARDED}\n    other = FSDP(model)\n    model = nn.Linear(8, 1)"))


def test_torch_asks_all_ranks_where_this_says_so() -> None:
    assert "all_reduce" in inspect.getsource(ShardedGradScaler.unscale_)
    assert "all_reduce" not in inspect.getsource(GradScaler)
    reducing = inspect.getsource(_dispatch.found_inf_reduce_handler)
    assert "_amp_foreach_non_finite_check_and_unscale_" in inspect.getsource(_dispatch)
    assert 'Partial("max")' in reducing
    assert list(inspect.signature(FullyShardedDataParallel).parameters)[2] == "sharding_strategy"
