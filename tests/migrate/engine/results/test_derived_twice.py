"""A gradient penalty through a norm: the forward that is derived twice is float32, and all others are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.engine.outcome import FilePlan
from amp_migrate.settings import Dtype, Settings

KEPT = "kept in float32: a norm is derived twice in float16, where 1/std**3 is infinite for a std below 0.025"
LEFT = "left as it was: a norm is derived twice in float16, where 1/std**3 is infinite for a std below 0.025"
LOW, OFF = 'device_type="cuda", dtype=torch.float16', 'device_type="cuda", enabled=False'
SCRIPT = """\
import torch
from torch import nn

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(8, 16), {norm}, nn.Linear(16, 1)
        nn.init.normal_(self.first.weight, 0.0, 0.004)

    def forward(self, x{label}):
        x = self.norm(self.first(x{shift}))
        return self.last(torch.relu(x))


critic = {critic}
generator = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 8)).to(device)
of_critic = torch.optim.Adam(critic.parameters(), lr=1e-4)
losses = []

{penalty}
for real, label in [(torch.randn(16, 8), torch.randn(16, 1))] * 3:
    real, label = real.to(device), label.to(device)
    fake = {fake}
{loss}
    losses.append(loss.item())
    of_critic.zero_grad()
    loss.backward()
    of_critic.step()
"""
GRADIENT = "torch.autograd.grad(scores, mixed, torch.ones_like(scores), create_graph=True)[0]"
BEFORE = "    mixed = (0.5 * real + 0.5 * fake).requires_grad_(True)\n"
FORWARD = "    scores = critic(mixed)\n"
BEHIND = f"""\
    gradient = {GRADIENT}
    loss = critic(fake).mean() - critic(real).mean() + 10 * ((gradient.norm(2, dim=1) - 1) ** 2).mean()\
"""
INLINE = f"{BEFORE}{FORWARD}{BEHIND}"
PENALTY = f"""
def penalty({{parameters}}):
    share = torch.rand(real.size(0), 1, device=real.device)
    mixed = (share * real + (1 - share) * fake).requires_grad_(True)
    scores = critic(mixed)
    gradient = {GRADIENT}
    return ((gradient.norm(2, dim=1) - 1) ** 2).mean(){{more}}

"""
OF_MODEL = PENALTY.format(parameters="critic, real, fake", more="")
CALLED = """\
    extra = penalty(critic, real, fake)
    loss = critic(fake).mean() - critic(real).mean() + 10 * extra\
"""
MADE = "generator(torch.randn(16, 4, device=device)).detach()"
IN_A_SUM = "    loss = critic(fake).mean() - critic(real).mean() + 10 * penalty(critic, real, fake)"
OF_SCORES = f"""
def penalty(scores, mixed):
    gradient = {GRADIENT}
    return gradient.pow(2).sum(1).mean()

"""
BY_CALLER = """\
    mixed = real.clone().requires_grad_(True)
    on_real = critic(mixed)
    extra = penalty(on_real, mixed)
    loss = critic(fake).mean() - on_real.mean() + 10 * extra\
"""
CONDITIONAL = INLINE.replace("(mixed)", "(mixed, label)").replace("(real)", "(real, label)")
CONDITIONAL = CONDITIONAL.replace("critic(fake)", "critic(fake, label)")
BRANCHES = f"    if label.mean() > 0:\n    {FORWARD}    else:\n        scores = critic(-mixed)\n"
VIEWED = f"{FORWARD}    scores = scores.view(-1)\n"
NAMED_AGAIN = "    scores = critic(real)\n    on_real = scores.mean()\n" + FORWARD
SHAPES: dict[str, tuple[dict[str, str], str]] = {
    "in the loop": ({}, f"        with torch.amp.autocast({OFF}):\n            scores = critic(mixed)\n"),
    "of two inputs": (
        {"loss": CONDITIONAL, "label": ", label", "shift": " + label"},
        f"        with torch.amp.autocast({OFF}):\n            scores = critic(mixed, label)\n",
    ),
    "on branches": (
        {"loss": INLINE.replace(FORWARD, BRANCHES)},
        f"            with torch.amp.autocast({OFF}):\n                scores = critic(-mixed)\n",
    ),
    "of a view": (
        {"loss": INLINE.replace(FORWARD, VIEWED)},
        f"        with torch.amp.autocast({OFF}):\n            scores = critic(mixed)\n"
        "        scores = scores.view(-1)\n",
    ),
    "of a name that had another value": (
        {"loss": INLINE.replace(FORWARD, NAMED_AGAIN)},
        "        scores = critic(real)\n        on_real = scores.mean()\n"
        f"        with torch.amp.autocast({OFF}):\n            scores = critic(mixed)\n",
    ),
    "of what is low": (
        {"loss": INLINE.replace("(0.5 * real + 0.5 * fake)", "fake.clone()")},
        f"        with torch.amp.autocast({OFF}):\n            scores = critic(mixed.float())\n",
    ),
    "in a function": (
        {"penalty": OF_MODEL, "loss": CALLED},
        "    mixed = (share * real + (1 - share) * fake).requires_grad_(True)\n    scores = critic(mixed)\n",
    ),
    "of replicas": (
        {"penalty": OF_MODEL, "loss": CALLED, "critic": "nn.DataParallel(Critic()).to(device)"},
        "    mixed = (share * real + (1 - share) * fake).requires_grad_(True)\n    scores = critic(mixed)\n",
    ),
    "in a sum": (
        {"penalty": OF_MODEL, "loss": IN_A_SUM},
        "        loss_part = critic(fake).mean() - critic(real).mean()\n"
        "    loss = loss_part + 10 * penalty(critic, real, fake)\n",
    ),
    "in a sum that its region begins with": (
        {"penalty": OF_MODEL, "loss": IN_A_SUM, "fake": "torch.randn_like(real)"},
        f"    with torch.amp.autocast({LOW}):\n"
        "        loss_part = critic(fake).mean() - critic(real).mean()\n"
        "    loss = loss_part + 10 * penalty(critic, real, fake)\n",
    ),
    "twice in a sum": (
        {"penalty": OF_MODEL, "loss": CALLED.replace("fake)\n", "fake) + penalty(critic, fake, real)\n", 1)},
        f"        with torch.amp.autocast({OFF}):\n"
        "            penalty_output = penalty(critic, real, fake.float())\n"
        f"        with torch.amp.autocast({OFF}):\n"
        "            penalty_output_2 = penalty(critic, fake.float(), real)\n"
        "        extra = penalty_output + penalty_output_2\n",
    ),
    "beside another": (
        {
            "penalty": PENALTY.format(parameters="critic, real, fake", more=", gradient.norm().item()"),
            "loss": CALLED.replace("extra = penalty", "extra, _ = (penalty if device else None)"),
        },
        f"        with torch.amp.autocast({OFF}):\n            extra, _ = ",
    ),
    "of a caller's scores": (
        {"penalty": OF_SCORES, "loss": BY_CALLER},
        f"        with torch.amp.autocast({OFF}):\n            on_real = critic(mixed)\n",
    ),
}
LEFT_AS_THEY_WERE = {
    "one by one": INLINE.replace(FORWARD, "    scores = torch.cat([critic(each) for each in mixed.split(8)])\n"),
    "of what a cast would not be": "    mixed = fake.clone()\n    scores = critic(mixed.requires_grad_(True))\n"
    + BEHIND,
    "of what is kept elsewhere": INLINE.replace("scores", "critic.scores"),
}


def script(**parts: str) -> str:
    usual = {"norm": "nn.BatchNorm1d(16)", "critic": "Critic().to(device)", "loss": INLINE, "fake": MADE}
    return SCRIPT.format(**{"label": "", "shift": "", "penalty": ""} | usual | parts)


def migrated(text: str, dtype: Dtype = Dtype.FP16) -> FilePlan:
    return migrate_text(text, Settings(dtype=dtype))


def run(text: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(text.replace('"cuda" if torch.cuda.is_available() else "cpu"', '"cpu"'), names)
    return names


def on_the_cpu(text: str) -> str:
    """With a scale at which the other forwards of these critics go backward, too: no step is skipped."""
    text = text.replace('GradScaler("cuda")', 'GradScaler("cuda", init_scale=1024.0)').replace('er("cuda"', 'er("cpu"')
    return text.replace('device_type="cuda"', 'device_type="cpu"')


def switched_off(text: str) -> str:
    return text.replace("dtype=torch.float16", "enabled=False").replace('GradScaler("cuda"', "GradScaler(enabled=False")


def gradients(names: dict[str, Any]) -> torch.Tensor:
    """Those of the last step; a scaler has divided them."""
    return torch.cat([each.grad.flatten() for each in names["critic"].parameters()])


@pytest.mark.parametrize("shape", SHAPES)
def test_the_forward_that_is_derived_twice_is_float32(shape: str) -> None:
    parts, expected = SHAPES[shape]
    plan = migrated(script(**parts))
    assert expected in plan.after
    assert f"    with torch.amp.autocast({LOW}):\n" in plan.after
    said = {each.message for each in plan.findings}
    assert KEPT in said
    assert not any(each.startswith("left") for each in said)
    assert migrated(plan.after).after == plan.after


@pytest.mark.parametrize("shape", SHAPES)
def test_with_amp_off_it_computes_the_same_bits(shape: str) -> None:
    text = script(**SHAPES[shape][0])
    before, after = run(text), run(switched_off(migrated(text).after))
    assert after["losses"] == before["losses"]
    assert torch.equal(gradients(after), gradients(before))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("norm", ["nn.BatchNorm1d(16)", "nn.InstanceNorm1d(16)"])
def test_its_gradients_are_those_of_float32(shape: str, norm: str) -> None:
    text = script(**SHAPES[shape][0] | {"norm": norm})
    before, after = gradients(run(text)), gradients(run(on_the_cpu(migrated(text).after)))
    assert (after - before).norm() < 0.05 * before.norm()


def test_in_half_precision_they_would_be_infinite() -> None:
    after = migrated(script()).after
    assert not gradients(run(on_the_cpu(after.replace(OFF, LOW)))).isfinite().all()


@pytest.mark.parametrize("shape", LEFT_AS_THEY_WERE)
def test_what_cannot_be_float32_is_left(shape: str) -> None:
    text = script(loss=LEFT_AS_THEY_WERE[shape])
    plan = migrated(text)
    assert plan.after == text
    assert plan.findings[0].message.startswith(LEFT)


@pytest.mark.parametrize(
    ("norm", "dtype"),
    [("nn.Identity()", Dtype.FP16), ("nn.LayerNorm(16)", Dtype.FP16), ("nn.BatchNorm1d(16)", Dtype.BF16)],
)
@pytest.mark.parametrize("shape", ["in the loop", "in a function"])
def test_without_such_a_norm_all_computes_in_half_precision(shape: str, norm: str, dtype: Dtype) -> None:
    plan = migrated(script(**SHAPES[shape][0] | {"norm": norm}), dtype)
    assert "    scores = critic(mixed)\n" in plan.after.replace(f"with torch.amp.autocast({OFF})", "")
    assert OFF not in plan.after
    assert KEPT not in {each.message for each in plan.findings}
    assert ("init_scale=1024.0" in plan.after) is (dtype is Dtype.FP16)


def test_the_loss_scale_is_that_of_any_other_step_where_nothing_that_the_gradient_comes_through_is_low() -> None:
    assert 'GradScaler("cuda")' in migrated(script()).after
    assert 'GradScaler("cuda", init_scale=1024.0)' in migrated(script(**SHAPES["of what is low"][0])).after


@pytest.mark.parametrize("shape", ["in the loop", "of a caller's scores"])
def test_a_norm_before_what_the_gradient_is_taken_by_is_not_derived_twice(shape: str) -> None:
    parts, expected = SHAPES[shape]
    text = script(**parts).replace(".requires_grad_(True)", "").replace(").detach()", ")")
    text = text.replace("mixed = real.clone()", "mixed = 0.5 * real + 0.5 * fake")
    after = migrated(text).after
    assert expected in after
    assert "        fake = generator(torch.randn(16, 4, device=device))\n" in after
    assert after.count(OFF) == 1


def test_a_call_that_is_in_no_region_stays_as_it_is() -> None:
    text = script(penalty=OF_MODEL, loss=IN_A_SUM)
    behind = """\
for real, fake in [(torch.randn(16, 8), torch.randn(16, 8))]:
    print(1 + penalty(critic, real.to(device), fake.to(device)).item())
"""
    after = migrated(text + behind).after
    assert "    loss = loss_part + 10 * penalty(critic, real, fake)\n" in after
    assert after.endswith(behind)


def test_what_is_float32_alone_is_left() -> None:
    loss = INLINE.replace("critic(fake).mean() - critic(real)", "scores").replace("0.5 * fake", "0.5 * label")
    text = script(loss=loss)
    text = text.replace("    fake = generator(torch.randn(16, 4, device=device)).detach()\n", "")
    plan = migrated(text)
    assert plan.after == text
    reason = KEPT.removeprefix("kept in float32: ")
    idle = f"nothing that is trained computes in half precision beside what is to be float32: {reason}"
    assert idle in plan.findings[0].message


def test_a_penalty_in_another_file_goes_with_its_step(rewrites_files: Callable[..., Any]) -> None:
    rewrites_files(
        {
            "models.py": """
                  import torch
                  from torch import nn


                  class Critic(nn.Module):
                      def __init__(self):
                          super().__init__()
                          self.net = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 1))

                      def forward(self, x):
                          return self.net(x)

                -     def penalty(self, real, fake):
                +     def penalty(self, real, fake, scaler):
                          share = torch.rand(real.size(0), 1, device=real.device)
                          mixed = (share * real + (1 - share) * fake).requires_grad_(True)
                          scores = self(mixed)
                -         gradient = torch.autograd.grad(scores.sum(), mixed, create_graph=True)[0]
                -         return ((gradient.norm(2, dim=1) - 1) ** 2).mean()
                +         gradient = torch.autograd.grad(scaler.scale(scores.sum()), mixed, create_graph=True)[0]
                +         gradient = gradient / scaler.get_scale()
                +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                +             return ((gradient.norm(2, dim=1) - 1) ** 2).mean()
            """,
            "train.py": """
                  import torch
                  from models import Critic
                  from torch import nn

                  critic, generator = Critic().cuda(), nn.Linear(4, 8).cuda()
                  optimizer = torch.optim.Adam(critic.parameters())
                + scaler = torch.amp.GradScaler("cuda")
                  for real in loader:
                      real = real.cuda()
                -     fake = generator(torch.randn(16, 4).cuda()).detach()
                -     cost = critic(fake).mean() - critic(real).mean()
                -     extra = critic.penalty(real, fake)
                +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                +         fake = generator(torch.randn(16, 4).cuda()).detach()
                +         cost = critic(fake).mean() - critic(real).mean()
                +     extra = critic.penalty(real, fake, scaler)
                      loss = cost + 10 * extra
                      optimizer.zero_grad()
                -     loss.backward()
                -     optimizer.step()
                +     scaler.scale(loss).backward()
                +     scaler.step(optimizer)
                +     scaler.update()
            """,
        }
    )


APEX = """\
import torch
from apex import amp
from torch import nn

critic = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 1)).cuda()
optimizer = torch.optim.Adam(critic.parameters(), lr=1e-4)
critic, optimizer = amp.initialize(critic, optimizer, opt_level="O1")
for real, fake in loader:
    real, fake = real.cuda(), fake.cuda()
    mixed = (0.5 * real + 0.5 * fake).requires_grad_(True)
    scores = critic(mixed)
    gradient = torch.autograd.grad(scores, mixed, torch.ones_like(scores), create_graph=True)[0]
    loss = critic(fake).mean() - critic(real).mean() + ((gradient.norm(2, dim=1) - 1) ** 2).mean()
    optimizer.zero_grad()
    with amp.scale_loss(loss, optimizer) as scaled_loss:
        scaled_loss.backward()
    optimizer.step()
"""


def test_an_apex_step_with_such_a_penalty_is_native() -> None:
    plan = migrated(APEX)
    assert "amp_shim" not in plan.after
    assert KEPT in {each.message for each in plan.findings}
