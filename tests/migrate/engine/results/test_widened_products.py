"""What an author cast to float32 stays that where Apex left it so, and autocast would cast it back."""

from __future__ import annotations

import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.flow.events import OF_CASTS, OF_WIDENED
from amp_migrate.settings import Settings

TEXT = """\
import torch
from torch import nn
from torch.nn import functional as F
from apex import amp


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k = nn.Linear(64, 64), nn.Linear(64, 64)

    def forward(self, x):
        q, k = self.q(x), self.k(x)
        scores = {scores}
        return scores.mean()


model = Attention().cuda()
optimizer = torch.optim.Adam(model.parameters())
model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
for x in torch.load("batches.pt"):
    loss = model(x.cuda())
    optimizer.zero_grad()
    with amp.scale_loss(loss, optimizer) as scaled:
        scaled.backward()
    optimizer.step()
"""
ISLAND = '        with torch.amp.autocast(device_type="cuda", enabled=False):\n            scores = {scores}\n'
SCORES = 'torch.einsum("ind,jnd->ijn", q.float(), k.float())'


@pytest.mark.parametrize(
    "scores",
    [
        SCORES,
        'torch.einsum("ind,jnd->ijn", q.to(torch.float32), k.float()) / 8',
        'torch.einsum("ind,jnd->ijn", q.float() * 2, k.float().relu())',
        "torch.linalg.multi_dot([q.float(), k.float().t()])",
        "F.scaled_dot_product_attention(q.float(), k.float(), k.float())",
    ],
)
def test_a_product_that_apex_has_not_patched(scores: str) -> None:
    plan = migrate_text(TEXT.format(scores=scores), Settings())
    assert ISLAND.format(scores=scores) in plan.after
    assert "scaler.step(optimizer)" in plan.after
    assert any(OF_WIDENED in each.message for each in plan.findings)


@pytest.mark.parametrize(
    "scores",
    [
        'torch.einsum("ind,jnd->ijn", q, k)',
        "q.float() @ k.float().transpose(1, 2)",
        "torch.bmm(q.float(), k.float().transpose(1, 2))",
        'torch.einsum("ind,jnd->ijn", q.float().half(), k)',
    ],
)
def test_a_product_that_apex_had_in_half_precision(scores: str) -> None:
    plan = migrate_text(TEXT.format(scores=scores), Settings())
    assert "scaler.step(optimizer)" in plan.after
    assert "enabled=False" not in plan.after
    assert not any(why in each.message for each in plan.findings for why in (OF_CASTS, OF_WIDENED))


FP16_OPTIMIZER = (
    TEXT.replace("from apex import amp", "from apex.fp16_utils import FP16_Optimizer")
    .replace(
        'model, optimizer = amp.initialize(model, optimizer, opt_level="O1")',
        "model.half()\noptimizer = FP16_Optimizer(optimizer, dynamic_loss_scale=True)",
    )
    .replace(
        "    with amp.scale_loss(loss, optimizer) as scaled:\n        scaled.backward()\n",
        "    optimizer.backward(loss)\n",
    )
    .replace("x.cuda()", "x.cuda().half()")
)
CASTING_MODELS = {
    "O2": TEXT.replace('"O1"', '"O2"'),
    "O3": TEXT.replace('"O1"', '"O3"'),
    "asked for": TEXT.replace('"O1"', "args.opt_level"),
    "FP16_Optimizer": FP16_OPTIMIZER,
}
PRODUCTS_OF_CASTS = [
    "q.float() @ k.float().transpose(1, 2)",
    "torch.bmm(q.float(), k.transpose(1, 2).float()) / math.sqrt(q.size(-1))",
    "torch.matmul(q.float() / 8, k.to(torch.float32).transpose(1, 2))",
    "torch.matmul(q.float().softmax(-1), k.float().transpose(1, 2))",
]


@pytest.mark.parametrize("text", CASTING_MODELS.values(), ids=CASTING_MODELS)
@pytest.mark.parametrize("scores", PRODUCTS_OF_CASTS)
def test_a_product_of_casts_where_apex_cast_models_alone(text: str, scores: str) -> None:
    plan = migrate_text(f"import math\n{text.format(scores=scores)}", Settings())
    assert ISLAND.format(scores=scores) in plan.after
    assert "scaler.step(optimizer)" in plan.after
    assert any(OF_CASTS in each.message for each in plan.findings)


@pytest.mark.parametrize(
    "scores", ["q @ k.transpose(1, 2)", "self.k(q.float())", "F.linear(q.float(), self.k.weight)", "F.relu(q.float())"]
)
def test_what_takes_weights_or_nothing_that_was_cast_where_apex_cast_models(scores: str) -> None:
    plan = migrate_text(CASTING_MODELS["O2"].format(scores=scores), Settings())
    assert "scaler.step(optimizer)" in plan.after
    assert "enabled=False" not in plan.after
    assert not any(OF_CASTS in each.message for each in plan.findings)


def test_a_cast_in_a_program_that_was_float32_all_over() -> None:
    text = TEXT.format(scores=SCORES).replace("from apex import amp\n", "")
    text = text.replace('model, optimizer = amp.initialize(model, optimizer, opt_level="O1")\n', "")
    text = text.replace(
        "    with amp.scale_loss(loss, optimizer) as scaled:\n        scaled.backward()\n", "    loss.backward()\n"
    )
    plan = migrate_text(text, Settings())
    assert "scaler.step(optimizer)" in plan.after
    assert "enabled=False" not in plan.after
    assert not any(why in each.message for each in plan.findings for why in (OF_CASTS, OF_WIDENED))
