"""A region of bfloat16 runs a model as `nn.DataParallel`, whose threads do not know the region's dtype."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.catalog.rule import Rule, Safety, example
from amp_migrate.catalog.sources import EXAMPLES
from amp_migrate.hazards.seen.hazard import Hazard
from amp_migrate.hazards.seen.script import Script
from amp_migrate.tables.torch_names import DATA_PARALLEL_CALLS

RULE = Rule(
    code="AMP630",
    name="replicas-in-float16",
    summary="a region of bfloat16 runs an nn.DataParallel, whose replicas compute in float16",
    before=example(
        """
        import torch

        model = torch.nn.DataParallel(torch.nn.Linear(3, 1))


        def predict(x):
            with torch.amp.autocast(device_type="cuda", dtype=torch.bfloat16):
                return model(x)
        """
    ),
    after=example(
        """
        import torch

        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 1))


        def predict(x):
            with torch.amp.autocast(device_type="cuda", dtype=torch.bfloat16):
                return model(x)
        """
    ),
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
    """Every such model that runs in a region which is bfloat16 after this run."""
    if not script.computes_in_bfloat16:
        return
    told: set[cst.Call] = set()
    for call in script.file.calls:
        region = script.region_around(call)
        is_bfloat16 = script.goes_to_bfloat16 if region is None else region.is_bfloat16
        if not is_bfloat16:
            continue
        found = (script.file, call) if script.file.names.callee(call) in DATA_PARALLEL_CALLS else None
        if found is None and script.roles.calls_module(script.file, call):
            found = script.roles.replicas.of(script.file, call.func)
        if found is not None and found[1] not in told:
            told.add(found[1])
            file, made = found
            yield Hazard(
                made,
                "on more than one GPU this computes in float16 in its threads, though the region is bfloat16",
                "use DistributedDataParallel, or compute in float16 with a scaler",
                file=file,
            )
