"""A region of bfloat16 runs a model as `nn.DataParallel`, whose threads do not know the region's dtype."""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.catalog.rule import Rule, Safety
from amp_migrate.catalog.sources import EXAMPLES
from amp_migrate.flow.events import Act
from amp_migrate.hazards.seen.hazard import Hazard
from amp_migrate.hazards.seen.script import Script

RULE = Rule(
    code="AMP630",
    name="replicas-in-float16",
    summary="a region of bfloat16 runs an nn.DataParallel, whose replicas compute in float16",
    example="""
          import torch

        - model = torch.nn.DataParallel(torch.nn.Linear(3, 1))
        + model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 1))


          def predict(x):
              with torch.amp.autocast(device_type="cuda", dtype=torch.bfloat16):
                  return model(x)
        """,
    why=(
        "nn.DataParallel runs a replica on each GPU in a thread of its own, and opens autocast there if it is on, "
        "without a dtype: the thread has autocast's default, float16, and no scaler keeps its gradients. With one GPU "
        "it calls the model as it is, in the dtype of the region."
    ),
    sources=(f"{EXAMPLES}#dataparallel-in-a-single-process",),
    safety=Safety.MANUAL,
)
FLOAT16_ONLY = False
OF_MODELS = True


def detect(script: Script) -> Iterator[Hazard]:
    """Every such model that runs in a region there is, which is bfloat16 after this run."""
    if not script.computes_in_bfloat16:
        return
    flowing = script.flowing
    regions = {region.call for region in script.regions.values() if region.is_bfloat16}
    for event in flowing.questions.events(Act.REPLICAS) if regions else ():
        around = frozenset() if event.context is None else event.context.cuda.regions
        where = flowing.interpreted.place(event.site)
        if where is not None and not regions.isdisjoint(flowing.interpreted.node_at(script.file, e) for e in around):
            file, made = where
            yield Hazard(
                made,
                "on more than one GPU this computes in float16 in its threads, though the region is bfloat16",
                "use DistributedDataParallel, or compute in float16 with a scaler",
                file=file,
            )
