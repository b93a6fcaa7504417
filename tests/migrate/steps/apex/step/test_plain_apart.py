"""A plain step that no scaler can serve, in a function that scales another loss."""

from __future__ import annotations

from pathlib import Path

import pytest
from amp_migrate.engine.migrate import migrate
from amp_migrate.report.finding import Finding
from amp_migrate.settings import Dtype, Settings

_CRITIC = """
import torch
from apex import amp

def penalty(critic, x):
    x = x.clone().requires_grad_()
    scores = critic(x)
    slope = torch.autograd.grad(scores, x, grad_outputs=torch.ones_like(scores), create_graph=True)[0]
    return ((slope.norm(2, dim=1) - 1) ** 2).mean()

model, critic = torch.nn.Linear(8, 8).cuda(), torch.nn.Linear(8, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
critic_optimizer = torch.optim.Adam(critic.parameters())
model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
for x, y in loader:
    fake = model(x.cuda()).detach().float()
    critic_optimizer.zero_grad()
    cost = 10 * penalty(critic, fake) + critic(fake).mean() - critic(y.cuda()).mean()
    cost.backward()
    critic_optimizer.step()
    optimizer.zero_grad()
    loss = -critic(model(x.cuda())).mean()
    with amp.scale_loss(loss, optimizer) as scaled_loss:
        scaled_loss.backward()
    optimizer.step()
"""


def _migrated(path: Path, text: str, dtype: Dtype = Dtype.FP16) -> tuple[str, list[Finding]]:
    """A text as it becomes, which a second run leaves, and the findings about steps that stay."""
    (path / "train.py").write_text(text)
    outcome = migrate([path], Settings(dtype=dtype))
    (changed,) = outcome.changed
    (path / "train.py").write_text(changed.after)
    assert not migrate([path], Settings(dtype=dtype)).changed
    return changed.after, [each for each in outcome.findings if each.code == "AMP590"]


@pytest.mark.parametrize("between", ["", "torch.nn.utils.clip_grad_norm_(critic.parameters(), 1.0)\n    "])
def test_critic_whose_penalty_cannot_be_scaled_stays_as_it_is(tmp_path: Path, between: str) -> None:
    text = _CRITIC.replace("critic_optimizer.step()", f"{between}critic_optimizer.step()")
    after, left = _migrated(tmp_path, text)
    kept = text[: text.index("    optimizer.zero_grad()")].partition("for x, y")[2]
    assert kept in after
    assert "scaler.step(optimizer)" in after
    (found,) = left
    assert "the penalty in it cannot be scaled where it stands" in found.message


def test_what_a_step_that_stays_takes_from_the_other_is_cast(tmp_path: Path) -> None:
    text = _CRITIC.replace(
        "fake = model(x.cuda()).detach().float()", "made = model(x.cuda())\n    fake = made.detach()"
    )
    after, left = _migrated(tmp_path, text.replace("-critic(model(x.cuda()))", "-critic(made)"))
    assert (
        "    cost = 10 * penalty(critic, fake.float()) + critic(fake.float()).mean() - critic(y.cuda()).mean()\n"
        in after
    )
    assert len(left) == 1


def test_critic_whose_penalty_is_a_statement_of_its_own_is_scaled_with_the_others(tmp_path: Path) -> None:
    text = _CRITIC.replace("    cost =", "    more = penalty(critic, fake)\n    cost =")
    after, left = _migrated(tmp_path, text.replace("10 * penalty(critic, fake)", "10 * more"))
    assert "torch.autograd.grad(scaler.scale(scores), x, " in after
    assert "scaler.step(critic_optimizer)" in after
    assert not left


def test_critic_whose_penalty_has_no_name_for_its_gradients_stays_though_it_is_a_statement_of_its_own(
    tmp_path: Path,
) -> None:
    text = _CRITIC.replace("slope = torch.autograd.grad(", "slope = -torch.autograd.grad(")
    text = text.replace("    cost =", "    more = penalty(critic, fake)\n    cost =")
    after, left = _migrated(tmp_path, text.replace("10 * penalty(critic, fake)", "10 * more"))
    assert "    cost.backward()\n    critic_optimizer.step()\n" in after
    assert "scaler.step(optimizer)" in after
    (found,) = left
    assert "the penalty in it cannot be scaled where it stands" in found.message


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # True gradients would be added to those of the scaled loss.
        ("    critic_optimizer.zero_grad()\n", ""),
        # It is stepped by gradients of the scaled loss, too.
        ("    optimizer.step()\n", "    optimizer.step()\n    critic_optimizer.step()\n"),
        ("    critic_optimizer.step()\n", "    if y.sum() > 0:\n        critic_optimizer.step()\n"),
        # Apex knows it.
        ("model, optimizer = amp.initialize(model, optimizer,", "amp.initialize(model, [optimizer, critic_optimizer],"),
    ],
)
def test_critic_that_is_not_apart_keeps_the_script_on_the_shim(tmp_path: Path, old: str, new: str) -> None:
    assert old in _CRITIC
    after, _ = _migrated(tmp_path, _CRITIC.replace(old, new))
    assert "from amp_shim import amp" in after


def test_critic_with_a_penalty_moves_to_bfloat16_which_needs_no_scale(tmp_path: Path) -> None:
    after, left = _migrated(tmp_path, _CRITIC, Dtype.BF16)
    assert after.count("torch.amp.autocast") == 2
    assert not left
