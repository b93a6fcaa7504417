"""What is put into a tensor by indices or by a mask is not of its precision."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.catalog.rule import Rule
from amp_migrate.catalog.sources import AMP
from amp_migrate.flow.events import Act
from amp_migrate.hazards.seen.hazard import Hazard
from amp_migrate.hazards.seen.script import Script
from amp_migrate.plan.edit import Edit

RULE = Rule(
    code="AMP638",
    name="stored-dtype",
    summary="what is put into a tensor by indices or by a mask is not of its precision, and raises",
    example="""
          import torch

          model = torch.nn.Linear(8, 8).cuda()
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
          scaler = torch.amp.GradScaler("cuda")

          for x, index in loader:
              optimizer.zero_grad()
              with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                  scores = model(x.cuda())
                  routed = torch.zeros_like(scores)
        -         routed.scatter_(1, index.cuda(), torch.softmax(scores, dim=-1))
        +         routed.scatter_(1, index.cuda(), torch.softmax(scores, dim=-1).to(routed.dtype))
                  loss = (routed * scores).mean()
              scaler.scale(loss).backward()
              scaler.step(optimizer)
              scaler.update()
        """,
    why=(
        "In a region a softmax, a norm or a mean of a loss is float32, and what a linear layer gives is float16: "
        "`out = x.clone(); out[mask] = weights` then raises, as `scatter_`, `index_add_` and `index_put_` do. Each of "
        "them takes values of the tensor's own precision only, and autocast does not cast for them."
    ),
    sources=(f"{AMP}#autocast-op-reference",),
)
FLOAT16_ONLY = False


def detect(script: Script) -> Iterator[Hazard]:
    """Every such store that a region of the script makes one of two precisions, on every way that leads there."""
    flowing, own = script.flowing, script.file.name
    for event in flowing.questions.events(Act.INDEX_STORE) if script.has_amp else ():
        low = event.tensor
        is_own = low is not None and any(each.file == own for each in low.regions)
        place = flowing.interpreted.place(event.site) if is_own and any(event.sure_in.values()) else None
        if low is None or place is None or flowing.is_given_up(event):
            continue
        file, node = place
        edits: list[Edit] = []
        for cast in flowing.casts.against(event):
            value = flowing.interpreted.node_at(file, cast.site)
            if isinstance(value, cst.BaseExpression):
                edits.append(script.editor(RULE.code, file).cast(value, like=cast.like))
        yield Hazard(
            node,
            f"{file.tree.quote(node)} puts in what is of another precision: one of both is half precision, one float32",
            "give it the tensor's own: value.to(tensor.dtype)",
            tuple(edits),
            file,
        )
