"""The output of a bfloat16 region goes to NumPy, which has no bfloat16."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.catalog.rule import Rule
from amp_migrate.catalog.sources import TORCH
from amp_migrate.flow.domain.tensor import BF16
from amp_migrate.flow.events import Act
from amp_migrate.hazards.seen.autocast_regions import AutocastRegion
from amp_migrate.hazards.seen.hazard import Hazard
from amp_migrate.hazards.seen.script import Script

RULE = Rule(
    code="AMP623",
    name="numpy-of-bfloat16",
    summary="the output of a bfloat16 region goes to NumPy, which has no bfloat16",
    example="""
          import torch

          model = torch.nn.Linear(3, 1)


          def predict(x):
              with torch.no_grad():
                  with torch.amp.autocast(device_type="cuda", dtype=torch.bfloat16):
                      out = model(x)
        -     return out.cpu().numpy()
        +     return out.float().cpu().numpy()
        """,
    why=(
        "`.numpy()` of a bfloat16 tensor raises TypeError. `.float()` before it changes no value, and nothing at all "
        "where the output is float32 already."
    ),
    sources=(f"{TORCH}/generated/torch.Tensor.numpy.html",),
)
FLOAT16_ONLY = False


def detect(script: Script) -> Iterator[Hazard]:
    """Outputs that go from a bfloat16 region to NumPy: there, in a caller, or in a function that is handed it."""
    low = [region for region in script.regions.values() if region.is_bfloat16 or _is_given_bfloat16(script, region)]
    if not low:
        return
    regions = {region.call for region in low}
    turned = {region.call for region in low if region.becomes is not None}
    flowing = script.flowing
    for event in flowing.questions.events(Act.TO_NUMPY):
        if event.tensor is None:
            continue
        # Of code that nobody has read, nobody knows whether autocast computes its end in float32: where it ran in
        # bfloat16 before, and gave NumPy what it computed, it did; where this run makes float16 bfloat16, it may not.
        about = regions if event.tensor.is_known else turned
        if about.isdisjoint(flowing.interpreted.node_at(script.file, each) for each in event.tensor.regions):
            continue
        for cast in flowing.casts.against(event):
            file = flowing.file(cast.site.file)
            node = None if file is None else flowing.interpreted.node_at(file, cast.site)
            if file is not None and isinstance(node, cst.BaseExpression):
                quoted = file.tree.quote(node)
                yield Hazard(
                    node,
                    f"{quoted} comes from a bfloat16 region, and .numpy() of it raises",
                    f"write {quoted}.float()",
                    (script.editor(RULE.code, file).cast(node, is_floating=cast.is_floating),),
                    file,
                )


def _is_given_bfloat16(script: Script, region: AutocastRegion) -> bool:
    """Whether a region's dtype is bfloat16 whatever way is taken to it, as a parameter is that all callers give so."""
    given = script.file.names.argument(region.call, "dtype") if region.becomes is None else None
    return given is not None and script.flowing.precision_of(script.file, given) == BF16
