"""Models of classes whose base is of a package that is not read: what has a `forward` is a module, whoever makes it."""

from __future__ import annotations

import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.settings import Settings

SCRIPT = """\
import torch
from torch import nn
from transformers import BertModel, BertPreTrainedModel


class Tagger(BertPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.bert = BertModel(config)
        self.out = nn.Linear(config.hidden_size, 1)
        self.loss = nn.BCELoss()

    def forward(self, x, y):
        p = torch.sigmoid(self.out(self.bert(x)[0]))
        return self.loss(p, y)


model = {made}
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
for x, y in loader:
    loss = model(x.cuda(), y.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    "made",
    [
        "Tagger(load()).cuda()",
        'Tagger.from_pretrained("bert-base-cased").to("cuda")',
        'Tagger.from_pretrained("bert-base-cased", num_labels=2).cuda().train()',
    ],
)
def test_a_loss_that_autocast_refuses_is_seen_in_it(made: str) -> None:
    plan = migrate_text(SCRIPT.replace("{made}", made), Settings())
    assert "return self.loss(p, y)" in plan.after
    assert "enabled=False" in plan.after
    assert [each.code for each in plan.findings] == ["AMP504", "AMP501"]


def test_a_class_without_a_forward_is_none() -> None:
    text = SCRIPT.replace("{made}", "Tagger(load()).cuda()").replace("def forward", "def compute")
    assert "enabled=False" not in migrate_text(text, Settings()).after
