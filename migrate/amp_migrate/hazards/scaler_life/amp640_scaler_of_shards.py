"""A GradScaler steps the optimizer of a model whose gradients are sharded, and looks at those of its own rank alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.catalog.rule import Rule, Safety
from amp_migrate.flow.domain.atoms import NEVER, NONE_VALUE, External, Obj
from amp_migrate.flow.events import Act, Event
from amp_migrate.hazards.seen.hazard import Hazard
from amp_migrate.hazards.seen.script import Script
from amp_migrate.tables.torch_names import GRAD_SCALER

RULE = Rule(
    code="AMP640",
    name="scaler-of-shards",
    summary="a GradScaler steps the optimizer of a FullyShardedDataParallel, whose ranks have gradients of their own",
    example="""
          import torch
          from torch.distributed.fsdp import FullyShardedDataParallel
        + from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler


          def train(rank, loader):
              model = FullyShardedDataParallel(torch.nn.Linear(3, 1).to(rank))
              optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        -     scaler = torch.amp.GradScaler("cuda")
        +     scaler = ShardedGradScaler()
              for x, y in loader:
                  optimizer.zero_grad()
                  with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                      loss = (model(x.to(rank)) - y.to(rank)).square().mean()
                  scaler.scale(loss).backward()
                  scaler.step(optimizer)
                  scaler.update()
        """,
    why=(
        "Each rank has a shard of the gradients. A GradScaler looks for infinities in its own: one rank skips the step "
        "and halves its scale, where the others step, and go on with another scale. ShardedGradScaler asks all ranks. "
        "`fully_shard` needs none: its gradients are distributed tensors, of which a GradScaler asks all ranks, too."
    ),
    sources=("https://docs.pytorch.org/docs/stable/fsdp.html",),
    safety=Safety.MANUAL,
)
FLOAT16_ONLY = True
_PARAMETERS = ("parameters", "named_parameters")
_MODELS = frozenset(
    (
        "torch.distributed.fsdp.FullyShardedDataParallel "
        "torch.distributed.fsdp.fully_sharded_data_parallel.FullyShardedDataParallel"
    ).split()
)
# `NO_SHARD` is none of them: there all ranks have all gradients.
_SHARDING = ("FULL_SHARD", "SHARD_GRAD_OP", "HYBRID_SHARD", "_HYBRID_SHARD_ZERO2")


def detect(script: Script) -> Iterator[Hazard]:
    """Every step of a scaler that is sure to be a plain one, of an optimizer whose model may be sharded."""
    questions = script.flowing.questions
    made = questions.events(Act.OPTIMIZER_MADE) if script.courses else []
    sharded = [each for each in made if _is_of_shards(script, each)]
    for event in questions.events(Act.SCALER_STEP) if sharded else ():
        node = script.flowing.interpreted.node_at(script.file, event.site)
        is_plain = all(isinstance(each, Obj) and each.external in GRAD_SCALER for each in event.scaler)
        if node is not None and is_plain and any(each.optimizer & event.optimizer for each in sharded):
            yield Hazard(
                node,
                f"{script.file.tree.quote(node)} skips by the gradients of its own rank alone: ranks go different ways",
                "make a torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler in place of the GradScaler",
            )


def _is_of_shards(script: Script, made: Event) -> bool:
    """Whether an optimizer is made of the parameters of a model that may be sharded."""
    values = script.flowing.questions.analysis.values
    asked = (each for each in ast.walk(made.node) if isinstance(each, ast.Attribute) and each.attr in _PARAMETERS)
    owners = (owner for each in asked for owner in values.get(each.value, NEVER))
    return any(isinstance(each, Obj) and each.external in _MODELS and _is_sharded(script, each) for each in owners)


def _is_sharded(script: Script, model: Obj) -> bool:
    heap = script.flowing.questions.analysis.heap
    given = heap.read(model, "<sharding_strategy>", None) | heap.read(model, "<2>", None)
    return all(isinstance(each, External) and each.name.endswith(_SHARDING) for each in given - NONE_VALUE)
