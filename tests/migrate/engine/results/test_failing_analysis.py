"""An analysis of values that fails has shown nothing: its file stays, is told of, and holds up no other."""

from __future__ import annotations

from pathlib import Path

import pytest
from amp_migrate.engine.migrate import migrate
from amp_migrate.prove import precision
from amp_migrate.prove.precision import Found, Harm, Original
from amp_migrate.settings import Settings

SCRIPT = """
import torch

model = torch.nn.Linear(8, 8).cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for x, y in [(torch.randn(4, 8), torch.randn(4, 8))] * 8:
    loss = torch.nn.functional.mse_loss(model(x.cuda()), y.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
SAVING = """
import torch
import good

torch.save({"optimizer": good.optimizer.state_dict()}, "last.pt")
"""


@pytest.mark.parametrize(
    ("error", "said"), [(KeyError("no"), "internal error: KeyError"), (RecursionError(), "nested")]
)
@pytest.mark.parametrize("failing", [SCRIPT, SAVING])
def test_what_fails_is_told_and_the_others_move(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str, error: Exception, said: str
) -> None:
    def harms(before: Original, after: Found) -> list[Harm]:
        if any(each.endswith("bad.py") for each in after.read):
            raise error
        return precision.harms(before, after)

    monkeypatch.setattr("amp_migrate.engine.results.examined.harms", harms)
    (tmp_path / "good.py").write_text(SCRIPT)
    (tmp_path / "bad.py").write_text(failing)
    outcome = migrate([tmp_path], Settings())
    assert [each.source.path.name for each in outcome.changed] == ["good.py"]
    (told,) = (each for each in outcome.findings if each.code == "AMP002")
    assert told.path.endswith("bad.py")
    assert told.message.startswith(said)
