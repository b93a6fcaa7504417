"""Gradient penalties under a scaler: gradients of a scaled loss, divided by the scale, outside every region."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.settings import Settings

Check = Callable[..., Any]


def test_penalty_in_the_loop(rewrites: Check) -> None:
    rewrites(
        """
          D = nn.Linear(2, 1)
          optimizer = torch.optim.Adam(D.parameters())
        + scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
          for x in loader:
        ~     out = D(x)
        -     g = torch.autograd.grad(out.sum(), x, create_graph=True)[0]
        +     g = torch.autograd.grad(scaler.scale(out.float().sum()), x, create_graph=True)[0]
        +     g = g / scaler.get_scale()
        ~     loss = out.mean() + 10 * ((g.norm(2, dim=1) - 1) ** 2).mean()
        ~     STEP
        """
    )


def test_penalty_on_all_gradients_of_the_model(rewrites: Check) -> None:
    rewrites(
        """
          model = nn.Linear(2, 1)
        ~ optimizer = torch.optim.Adam(model.parameters())
          for x, y in loader:
        ~     loss = nn.functional.mse_loss(model(x), y)
        -     grads = torch.autograd.grad(outputs=loss, inputs=model.parameters(), create_graph=True)
        +     grads = torch.autograd.grad(outputs=scaler.scale(loss), inputs=model.parameters(), create_graph=True)
        +     grads = tuple(grad / scaler.get_scale() for grad in grads)
        ~     loss = loss + sum(g.pow(2).sum() for g in grads).sqrt()
        ~     STEP
        """
    )


def test_gradients_that_are_gone_through_beside_the_parameters(rewrites: Check) -> None:
    rewrites(
        """
          model = nn.Linear(2, 1)
        ~ optimizer = torch.optim.Adam(model.parameters())
          for x, y in loader:
        ~     loss = nn.functional.mse_loss(model(x), y)
        -     grads = torch.autograd.grad(loss, model.parameters(), create_graph=True)
        +     grads = torch.autograd.grad(scaler.scale(loss), model.parameters(), create_graph=True)
        +     grads = tuple(grad / scaler.get_scale() for grad in grads)
        ~     adapted = [p - 0.1 * g for p, g in zip(model.parameters(), grads)]
        ~     loss = nn.functional.mse_loss(nn.functional.linear(x, *adapted), y)
        ~     STEP
        """
    )


def test_gradients_that_go_to_code_which_nobody_has_read(rewrites: Check) -> None:
    rewrites(
        """
          import maml
          model = nn.Linear(2, 1)
        ~ optimizer = torch.optim.Adam(model.parameters())
          for x, y in loader:
        ~     loss = nn.functional.mse_loss(model(x), y)
        -     grads = torch.autograd.grad(loss, model.parameters(), create_graph=True)
        +     grads = torch.autograd.grad(scaler.scale(loss), model.parameters(), create_graph=True)
        +     grads = tuple(grad / scaler.get_scale() for grad in grads)
        ~     adapted = maml.update(model, 0.1, grads)
        ~     loss = nn.functional.mse_loss(adapted(x), y)
        ~     STEP
        """
    )


def test_penalty_of_a_function_beside_the_loop(rewrites: Check) -> None:
    rewrites(
        """
          def penalty(D, x):
        ~     out = D(x)
              g = torch.autograd.grad(
        -         outputs=out,
        +         outputs=scaler.scale(out),
                  inputs=x,
                  create_graph=True,
              )[0]
        +     g = g / scaler.get_scale()
        ~     g = g.view(g.size(0), -1)
        ~     return ((g.norm(2, dim=1) - 1) ** 2).mean()

          D = nn.Linear(2, 1)
        ~ optimizer = torch.optim.Adam(D.parameters())
          for x in loader:
        ~     out = D(x)
              gp = penalty(D, x)
              loss = out.mean() + 10 * gp
        ~     STEP
        """
    )


def test_penalty_of_a_function_that_is_given_the_output(rewrites: Check) -> None:
    rewrites(
        """
        - def r1(out, x):
        -     g, = torch.autograd.grad(outputs=out.sum(), inputs=x, create_graph=True)
        + def r1(out, x, scaler):
        +     g, = torch.autograd.grad(outputs=scaler.scale(out.sum()), inputs=x, create_graph=True)
        +     g = g / scaler.get_scale()
        ~     penalty = g.pow(2).sum(1).mean()
              return penalty

          def train(D, loader):
              optimizer = torch.optim.Adam(D.parameters())
        +     scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
              for x in loader:
        ~         out = D(x)
        -         loss = r1(out, x)
        +         loss = r1(out.float(), x, scaler)
        ~         STEP
        """
    )


def test_penalty_of_a_method_of_the_trainer(rewrites: Check) -> None:
    rewrites(
        """
          class Trainer:
              def __init__(self):
                  self.D = nn.Linear(2, 1)
                  self.optimizer = torch.optim.Adam(self.D.parameters())
        +         self.scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)

              def penalty(self, x):
        ~         out = self.D(x)
        -         g = torch.autograd.grad(out, x, torch.ones_like(out), create_graph=True)[0]
        +         g = torch.autograd.grad(self.scaler.scale(out), x, torch.ones_like(out), create_graph=True)[0]
        +         g = g / self.scaler.get_scale()
        ~         return (g.norm(2, dim=1) - 1).pow(2).mean()

              def train(self, loader):
                  for x in loader:
                      gp = self.penalty(x)
                      self.optimizer.zero_grad()
        -             gp.backward()
        -             self.optimizer.step()
        +             self.scaler.scale(gp).backward()
        +             self.scaler.step(self.optimizer)
        +             self.scaler.update()
        """
    )


def test_penalty_of_a_method_that_another_calls_for_the_loss(rewrites: Check) -> None:
    rewrites(
        """
          class Gan(nn.Module):
              def __init__(self):
                  super().__init__()
                  self.d = nn.Linear(2, 1)

        -     def loss(self, x, weight=10):
        +     def loss(self, x, weight=10, scaler=None):
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        -         out = self.d(x).mean()
        +             out = self.d(x).mean()
        -         gp = self.penalty(x)
        +         gp = self.penalty(x, scaler)
                  return out + weight * gp

        -     def penalty(self, x):
        +     def penalty(self, x, scaler):
        ~         out = self.d(x)
        -         g = torch.autograd.grad(out, x, torch.ones_like(out), create_graph=True)[0]
        +         g = torch.autograd.grad(scaler.scale(out), x, torch.ones_like(out), create_graph=True)[0]
        +         g = g / scaler.get_scale()
        ~         return (g.norm(2, dim=1) - 1).pow(2).mean()


        - def train(model, optimizer, loader):
        + def train(model, optimizer, scaler, loader):
              for x in loader:
        -         loss = model.loss(x)
        +         loss = model.loss(x, scaler=scaler)
        ~         STEP


          model = Gan()
          optimizer = torch.optim.Adam(model.parameters())
        + scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
        - train(model, optimizer, loader)
        + train(model, optimizer, scaler, loader)
        """
    )


def test_penalty_of_a_function_that_is_also_called_for_its_value_beside_the_step(rewrites: Check) -> None:
    rewrites(
        """
        - def r1(D, x):
        -     out = D(x)
        -     g, = torch.autograd.grad(outputs=out.sum(), inputs=x, create_graph=True)
        -     return g.pow(2).sum(1).mean() + out.mean()
        + def r1(D, x, scaler):
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +         out = D(x)
        +     g, = torch.autograd.grad(outputs=scaler.scale(out.sum()), inputs=x, create_graph=True)
        +     g = g / scaler.get_scale()
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +         return g.pow(2).sum(1).mean() + out.mean()

          def train(D, mean, loader):
              optimizer = torch.optim.Adam(D.parameters())
        +     scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
              for x in loader:
        -         loss = r1(D, x)
        +         loss = r1(D, x, scaler)
        ~         STEP
        -         print(r1(mean, x).item())
        +         print(r1(mean, x, scaler).item())
        """
    )


def test_penalty_of_a_function_that_has_another_name_where_it_is_called(rewrites_files: Check) -> None:
    rewrites_files(
        {
            "losses.py": """
                  import torch

                - def slope(out, x):
                -     g, = torch.autograd.grad(outputs=out.sum(), inputs=x, create_graph=True)
                + def slope(out, x, scaler):
                +     g, = torch.autograd.grad(outputs=scaler.scale(out.sum()), inputs=x, create_graph=True)
                +     g = g / scaler.get_scale()
                      return g

                - def r1(out, x):
                -     g = slope(out, x)
                + def r1(out, x, scaler):
                +     g = slope(out, x, scaler)
                ~     return g.pow(2).sum(1).mean()
            """,
            "train.py": """
                  import torch
                  from losses import r1
                  from torch import nn

                  penalty = r1

                  def train(D, loader):
                      optimizer = torch.optim.Adam(D.parameters())
                +     scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
                      for x in loader:
                ~         out = D(x)
                -         loss = penalty(out, x)
                +         loss = penalty(out.float(), x, scaler)
                ~         STEP
            """,
        },
    )


@pytest.mark.parametrize("call", ["total(D, x)", "compute(D, x)"])
def test_penalty_of_a_function_that_is_called_for_the_loss_elsewhere(leaves: Check, call: str) -> None:
    leaves(
        f"""
        def r1(out, x):
            g, = torch.autograd.grad(out.sum(), x, create_graph=True)
            return g.pow(2).sum(1).mean()

        def total(D, x):
            out = D(x)
            gp = r1(out, x)
            return out.mean() + gp

        def compute(D, x):
            loss = total(D, x)
            return loss

        def measure(D, x):
            return {call}

        def train(D, loader):
            optimizer = torch.optim.Adam(D.parameters())
            for x in loader:
                loss = compute(D, x)
                STEP
        """,
        "() has a part in the step, and is not seen to be called only in steps that can be moved",
    )


def test_penalty_that_the_trainer_keeps_in_itself(rewrites: Check) -> None:
    rewrites(
        """
          class Trainer:
              def penalize(self, x):
        -         grads = torch.autograd.grad(self.critic(x).sum(), x, create_graph=True)[0]
        +         grads = torch.autograd.grad(self.scaler.scale(self.critic(x).sum()), x, create_graph=True)[0]
        +         grads = grads / self.scaler.get_scale()
                  self.penalty = grads.norm()

              def train(self, loader):
                  self.critic = nn.Linear(2, 2)
                  self.optimizer = torch.optim.Adam(self.critic.parameters())
        +         self.scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
                  for x in loader:
                      self.penalize(x)
        ~             loss = self.critic(x).mean() + self.penalty
        -             loss.backward()
        -             self.optimizer.step()
        +             self.scaler.scale(loss).backward()
        +             self.scaler.step(self.optimizer)
        +             self.scaler.update()
                      self.optimizer.zero_grad()
        """
    )


def test_penalty_in_bfloat16_needs_no_scale(rewrites: Check) -> None:
    rewrites(
        """
          def penalty(D, x):
              out = D(x)
              g = torch.autograd.grad(out.sum(), x, create_graph=True)[0]
              return ((g.norm(2, dim=1) - 1) ** 2).mean()

          D = nn.Linear(2, 1)
          optimizer = torch.optim.Adam(D.parameters())
          for x in loader:
        -     loss = D(x).mean() + 10 * penalty(D, x)
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.bfloat16):
        +         loss = D(x).mean() + 10 * penalty(D, x)
              STEP
        """,
        "bf16",
    )


def test_gradients_that_no_penalty_is_built_on(leaves: Check) -> None:
    leaves(
        """
        model = nn.Linear(2, 2)
        optimizer = torch.optim.Adam(model.parameters())
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            g = torch.autograd.grad(loss, x, retain_graph=True)[0]
            loss = loss + nn.functional.mse_loss(model(x + g.sign()), y)
            STEP
        """,
        "torch.autograd.grad()",
    )


def test_gradients_that_may_be_none(leaves: Check) -> None:
    leaves(
        """
        model = nn.Linear(2, 2)
        optimizer = torch.optim.Adam(model.parameters())
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            grads = torch.autograd.grad(loss, model.parameters(), create_graph=True, allow_unused=True)
            loss = loss + sum(g.pow(2).sum() for g in grads if g is not None)
            STEP
        """,
        "torch.autograd.grad()",
    )


def test_penalty_that_keeps_a_running_mean(leaves: Check) -> None:
    # The first steps of a scaler overflow; the mean would stay infinite.
    leaves(
        """
        def path(image, latents, mean):
            g, = torch.autograd.grad(image.sum(), latents, create_graph=True)
            length = g.pow(2).sum().sqrt()
            mean = mean + 0.01 * (length.detach() - mean)
            return (length - mean).pow(2), mean

        G = nn.Linear(2, 2)
        optimizer = torch.optim.Adam(G.parameters())
        mean = 0
        for z in loader:
            image = G(z)
            loss, mean = path(image, z, mean)
            STEP
        """,
        "torch.autograd.grad()",
    )


def test_penalty_that_is_also_computed_where_nothing_trains(leaves: Check) -> None:
    leaves(
        """
        def r1(out, x):
            g, = torch.autograd.grad(out.sum(), x, create_graph=True)
            return g.pow(2).sum(1).mean()

        def measure(D, x):
            return r1(D(x), x)

        def train(D, loader):
            optimizer = torch.optim.Adam(D.parameters())
            for x in loader:
                out = D(x)
                loss = r1(out, x)
                STEP
        """,
        "r1() has a part in the step, and is not seen to be called only in steps that can be moved",
    )


def test_a_scale_that_begins_low_is_told(migrate: Check) -> None:
    plan = migrate(
        """
        D = nn.Linear(2, 1)
        optimizer = torch.optim.Adam(D.parameters())
        for x in loader:
            x.requires_grad_()
            out = D(x)
            g, = torch.autograd.grad(out.sum(), x, create_graph=True)
            loss = g.pow(2).mean()
            STEP
        """
    )
    assert "init_scale=1024.0" in plan.after
    assert [each.code for each in plan.findings if "begins at 1024" in each.message] == ["AMP501"]


@pytest.mark.parametrize(
    ("outputs", "is_low"),
    [
        ("torch.sum(out * v)", True),
        ("(out * v).sum() / 2", True),
        ("total", True),
        ("out.mean()", False),
        ("torch.mean(out.sum(1))", False),
    ],
)
def test_gradients_of_a_sum_begin_with_the_whole_scale(migrate: Check, outputs: str, is_low: bool) -> None:
    plan = migrate(
        f"""
        D = nn.Linear(2, 1)
        optimizer = torch.optim.Adam(D.parameters())
        for x in loader:
            x.requires_grad_()
            v = torch.randn_like(x)
            out = D(x)
            total = torch.sum(out * v)
            g = torch.autograd.grad({outputs}, x, create_graph=True)[0]
            loss = g.pow(2).mean()
            STEP
        """
    )
    assert ("init_scale=1024.0" in plan.after) is is_low
    assert "scaler.step(optimizer)" in plan.after


CONTROLLER = """\
import torch
from torch import nn


class Controller(nn.Module):
    def __init__(self):
        super().__init__()
        self.weights = nn.Parameter(torch.ones(4))
        self.optimizer = torch.optim.Adam([self.weights], lr=1e-3)

    def update_weights(self, losses):
        self.optimizer.zero_grad()
        weighted = losses * torch.softmax(self.weights, dim=-1).sum()
        self.weights.grad = torch.autograd.grad(weighted.sum(), {inputs}, retain_graph=True)[0]
        self.optimizer.step()


def train(loader):
    model = nn.Linear(4, 4).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    controller = Controller().cuda()
    for x, y in loader:
        losses = nn.functional.mse_loss(model(x.cuda()), y.cuda(), reduction="none").flatten()
        loss = losses.mean()
        optimizer.zero_grad()
        loss.backward(retain_graph=True)
        controller.update_weights(losses)
        optimizer.step()
"""


@pytest.mark.parametrize("given", ["x", "augment(x)"])
def test_gradients_of_what_is_in_no_region_need_no_scale_beside_a_step(given: str) -> None:
    """Nor where the batch comes from code that was not read, which may have parameters in the region."""
    text = "from elsewhere import Augment\naugment = Augment()\n" if given != "x" else ""
    text += CONTROLLER.format(inputs="self.weights").replace("x.cuda()", f"{given}.cuda()")
    plan = migrate_text(text, Settings())
    assert "scaler.scale(loss).backward(retain_graph=True)" in plan.after
    assert "scaler.step(optimizer)" in plan.after
    assert "        self.optimizer.step()\n" in plan.after


def test_gradients_of_what_a_region_computes_with_need_one() -> None:
    text = (
        CONTROLLER.format(inputs="self.weights")
        .replace("update_weights(self, losses)", "update_weights(self, losses, model)")
        .replace("(losses)\n        opt", "(losses, model)\n        opt")
        .replace(" self.weights, retain", " list(model.parameters()), retain")
    )
    plan = migrate_text(text, Settings())
    assert plan.after == text
    assert any("gradients of an unscaled loss" in each.message for each in plan.findings)


META = """\
import torch
from torch import nn


def net():
    return nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 2, 1))


student, teacher = net().cuda(), net().cuda()
optimizer = torch.optim.SGD(teacher.parameters(), lr=0.1)
for image, label in loader:
    target = torch.softmax(student(image.cuda()){detach}, dim=1)
    agree = nn.functional.kl_div(torch.log_softmax(teacher(image.cuda()), dim=1), target)
    loss = nn.functional.cross_entropy(teacher(image.cuda()), label.cuda()) + agree
    optimizer.zero_grad()
    loss.backward(retain_graph=True)
    for given in torch.autograd.grad(agree, list(student.parameters()), create_graph=True, allow_unused=True):
        if given is not None:
            print(torch.autograd.grad(given.sum(), student[0].weight, allow_unused=True))
    optimizer.step()
"""


def test_gradients_of_what_a_loss_does_not_depend_on_are_none() -> None:
    assert (
        "scaler.scale(loss).backward(retain_graph=True)"
        in migrate_text(META.format(detach=".detach()"), Settings()).after
    )
    text = META.format(detach="")
    assert migrate_text(text, Settings()).after == text


ADAPTS = """\
import clones
import torch
from torch import nn


class Agent:
    def __init__(self):
        self.actor, self.critic = nn.Linear(4, 2).cuda(), nn.Linear(4, 1).cuda()
        self.optimizer = torch.optim.Adam(self.actor.parameters())
        self.optimizer_critic = torch.optim.Adam(self.critic.parameters())

    def update_critic(self, states, returns):
        loss_critic = (self.critic(states) - returns).pow(2).mean()
        self.optimizer_critic.zero_grad()
        loss_critic.backward()
        self.optimizer_critic.step()

    def adapt(self, clone, states, first_order=False):
        loss = clone(states).pow(2).mean()
        gradients = torch.autograd.grad(loss, clone.parameters(), create_graph=not first_order)
        return clones.update(clone, 0.1, gradients)

    def update_actor(self, states):
        clone = self.adapt(clones.clone(self.actor), states)
        loss = clone(states).pow(2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


agent = Agent()
for step in range(10):
    agent.update_critic(torch.rand(8, 4).cuda(), torch.rand(8, 1).cuda())
    agent.update_actor(torch.rand(8, 4).cuda())
"""


def test_gradients_that_a_function_takes_of_a_loss_which_nothing_scales_are_taken_outside_the_region() -> None:
    plan = migrate_text(ADAPTS, Settings())
    adapted = "        clone = self.adapt(clones.clone(self.actor), states)\n        with torch.amp.autocast("
    assert adapted in plan.after
    assert plan.after.count("self.scaler.scale(") == 2
    assert [each.code for each in plan.findings] == ["AMP501", "AMP504", "AMP501"]
