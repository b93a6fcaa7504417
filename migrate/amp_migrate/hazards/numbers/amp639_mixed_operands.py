"""What a region made half precision meets float32 weights where autocast does not cast."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.catalog.rule import Rule
from amp_migrate.catalog.sources import AMP
from amp_migrate.flow.domain.contexts import ON
from amp_migrate.flow.events import Act
from amp_migrate.hazards.seen.hazard import Hazard
from amp_migrate.hazards.seen.script import Script
from amp_migrate.tables.operators import AGREEING_IN_GRADIENT

RULE = Rule(
    code="AMP639",
    name="mixed-operands",
    summary="what a region made half precision meets float32 weights where autocast is off, and raises",
    example="""
          import torch

          model, head = torch.nn.Linear(8, 8).cuda(), torch.nn.Linear(8, 2).cuda()
          optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.1)
          scaler = torch.amp.GradScaler("cuda")

          for x, y in loader:
              optimizer.zero_grad()
              with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                  features = model(x.cuda())
        -     scores = head(features)
        +     scores = head(features.float())
              loss = torch.nn.functional.cross_entropy(scores, y.cuda())
              scaler.scale(loss).backward()
              scaler.step(optimizer)
              scaler.update()
        """,
    why=(
        "In a region autocast makes the operands of a product agree, and not those of `torch.lerp`. Behind it, or in "
        "one that is switched off within it, nothing does, and float16 times float32 raises. So does "
        "`binary_cross_entropy` of float16 probabilities and float32 targets, and so do the backward of `huber_loss` "
        "and that of `mse_loss` up to PyTorch 2.11. It is told where both are known for certain; what a loader gives "
        "is taken for none in half precision."
    ),
    sources=(f"{AMP}#autocasting",),
)
FLOAT16_ONLY = False


def detect(script: Script) -> Iterator[Hazard]:
    """Every such operator, of what a region of the script has made low on every way; none in a custom function.

    Those have a rule of their own (AMP625).
    """
    flowing, own = script.flowing, script.file.name
    for event in flowing.questions.events(Act.MISMATCH) if script.has_amp else ():
        low, context = event.tensor, event.context
        is_own = low is not None and any(each.file == own for each in low.regions)
        is_known = is_own and any(event.sure_in.values()) and context is not None and not context.in_gradient
        place = flowing.interpreted.place(event.site) if is_known and not flowing.is_given_up(event) else None
        mended = AGREEING_IN_GRADIENT.get(event.why)
        if place is None or (mended is not None and script.settings.target_torch >= mended):
            continue
        file, node = place
        casts = [flowing.interpreted.node_at(file, each.site) for each in flowing.casts.against(event)]
        editor = script.editor(RULE.code, file)
        why = "autocast leaves them as they are" if context is not None and context.cuda.on == ON else "autocast is off"
        raises = "it raises" if mended is None else "its backward raises"
        yield Hazard(
            node,
            f"{file.tree.quote(node)} has half precision and float32 as operands, and {why}: {raises}",
            "give it float32: value.float()",
            tuple(editor.as_float(each) for each in casts if isinstance(each, cst.BaseExpression)),
            file,
        )
