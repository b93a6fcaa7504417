"""Gradients that are read or clipped before the step are true ones: unscaled once, on every way to the step."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent, indent
from typing import Any

import pytest

Check = Callable[..., Any]


STEP = """
    ~ MODEL
    DELTA
    ~     optimizer.step()
          optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    "delta",
    [
        pytest.param(
            """
              for x, y in loader:
            ~     loss = nn.functional.mse_loss(model(x), y)
            ~     loss.backward()
            +     scaler.unscale_(optimizer)
                  torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            """,
            id="before clipping by norm",
        ),
        pytest.param(
            """
              for x, y in loader:
            ~     loss = nn.functional.mse_loss(model(x), y)
            ~     loss.backward()
            +     scaler.unscale_(optimizer)
                  nn.utils.clip_grad_value_(model.parameters(), 0.5)
            """,
            id="before clipping by value",
        ),
        pytest.param(
            """
              from otherwhere.training import rescale
              for x, y in loader:
            ~     loss = nn.functional.mse_loss(model(x), y)
            ~     loss.backward()
            +     scaler.unscale_(optimizer)
                  rescale(model, 1.0)
            """,
            id="before a library that gets the model",
        ),
        pytest.param(
            """
              from otherwhere import training
              for x, y in loader:
            ~     loss = nn.functional.mse_loss(model(x), y)
            ~     loss.backward()
            +     scaler.unscale_(optimizer)
                  training.rescale(model.parameters(), 1.0)
            """,
            id="before a library that gets parameters",
        ),
        pytest.param(
            """
              import copy
              from otherwhere import logs
              for x, y in loader:
            ~     loss = nn.functional.mse_loss(model(x), y)
            ~     loss.backward()
                  kept = copy.deepcopy(model), nn.utils.parameters_to_vector(model.parameters())
                  logs.write(loss.item())
            """,
            id="not before what is known, nor what gets none",
        ),
        pytest.param(
            """
              for x, y in loader:
            ~     loss = nn.functional.mse_loss(model(x), y)
            ~     loss.backward()
            +     scaler.unscale_(optimizer)
                  nn.utils.clip_grad_value_(model.parameters(), 0.5)
                  nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            """,
            id="once for two uses",
        ),
        pytest.param(
            """
              for x, y in loader:
            ~     loss = nn.functional.mse_loss(model(x), y)
            ~     loss.backward()
                  if args.clip > 0:
            +         scaler.unscale_(optimizer)
                      nn.utils.clip_grad_norm_(model.parameters(), args.clip)
            """,
            id="where they are clipped in a branch",
        ),
        pytest.param(
            """
              for x, y in loader:
            ~     loss = nn.functional.mse_loss(model(x), y)
            ~     loss.backward()
            +     scaler.unscale_(optimizer)
                  for p in model.parameters():
                      p.grad.data.clamp_(-1, 1)
            """,
            id="before a loop over parameters",
        ),
        pytest.param(
            """
              for x, y in loader:
            ~     loss = nn.functional.mse_loss(model(x), y)
            ~     loss.backward()
                  if i % 2:
            +         scaler.unscale_(optimizer)
                      for p in model.parameters():
                          if p.grad is not None:
                              p.grad.clamp_(-1, 1)
            """,
            id="before a loop in a branch",
        ),
        pytest.param(
            """
              for x, y in loader:
            ~     loss = nn.functional.mse_loss(model(x), y)
            ~     loss.backward()
            +     scaler.unscale_(optimizer)
                  for p in model.parameters():
                      if p.requires_grad:
                          p.grad.clamp_(-1, 1)
            """,
            id="before a loop that asks something else",
        ),
        pytest.param(
            """
              for x, y in loader:
            ~     a = model(x).mean()
            ~     a.backward()
            ~     b = model(y).mean()
            ~     b.backward()
            +     scaler.unscale_(optimizer)
                  nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            """,
            id="of two losses are unscaled after the second",
        ),
        pytest.param(
            """
              for batch in loader:
                  optimizer.zero_grad()
                  for micro in batch.chunk(4):
            ~         loss = model(micro).mean() / 4
            ~         loss.backward()
            +     scaler.unscale_(optimizer)
                  nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            """,
            id="of micro batches are unscaled after the last",
        ),
        pytest.param(
            """
              for x, y in loader:
            ~     loss = nn.functional.mse_loss(model(x), y)
                  for p in model.parameters():
                      p.grad = None
            ~     loss.backward()
            """,
            id="that are cleared by hand need no unscaling",
        ),
        pytest.param(
            """
              for i, x in enumerate(loader):
            ~     loss = model(x).mean()
            ~     loss.backward()
                  if i < args.warm_up:
                      for name, p in model.named_parameters():
                          if "head" in name:
                              p.grad = None
            """,
            id="of some are cleared by name, and the others stay",
        ),
        pytest.param(
            """
              for i, x in enumerate(loader):
            ~     loss = model(x).mean()
            ~     loss.backward()
                  for p in model.parameters():
                      if p.dim() > 1:
                          continue
                      p.grad = None
            """,
            id="of some are cleared where no test leaves the round",
        ),
        pytest.param(
            """
              for x, y in loader:
            ~     a = model(x).mean()
            ~     a.backward()
            -     nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            +     nn.utils.clip_grad_norm_(model.parameters(), 1.0 * scaler.get_scale())
            ~     b = model(y).mean()
            ~     b.backward()
            +     scaler.unscale_(optimizer)
                  nn.utils.clip_grad_norm_(model.parameters(), 2.0)
            """,
            id="clipping between two backwards goes by a scaled limit",
        ),
    ],
)
def test_gradients_are_unscaled_once_where_they_are_read(delta: str, rewrites: Check) -> None:
    rewrites(dedent(STEP).replace("DELTA\n", dedent(delta).removeprefix("\n")))


@pytest.mark.parametrize("test", ["p.grad is not None", "p.requires_grad"])
def test_a_step_without_any_gradients_stays(migrate: Check, test: str) -> None:
    plan = migrate(
        f"""
        model = nn.Linear(2, 2).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for i, x in enumerate(loader):
            optimizer.zero_grad()
            model(x).mean().backward()
            if i < warm_up:
                for name, p in model.named_parameters():
                    if {test}:
                        p.grad = None
            optimizer.step()
        """
    )
    assert "a scaler steps an optimizer without gradients" in plan.findings[0].message


MIXED = """
  class Net(nn.Module):
      def __init__(self):
          super().__init__()
          self.body, self.head = nn.Linear(2, 4), nn.Linear(4, 2)
      def forward(self, x):
          found = []
          found.append(self.head(self.body(x)))
          return tuple(found)

  class Mixed(nn.CrossEntropyLoss):
      def forward(self, *given):
          found, target = tuple(given)
          return super().forward(*tuple(list(found) + [target]))

  net = Net().cuda()
  criterion = Mixed()
~ optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
  for epoch in range(3):
      for x, y in loader:
          optimizer.zero_grad()
~         loss = criterion(net(x), y)
~         loss.backward()
~         optimizer.step()
"""


def test_a_loss_that_goes_backward_is_computed_from_something(rewrites: Check) -> None:
    # Which of the two that the criterion gets is the prediction cannot be told; one of them is, or backward() raises.
    rewrites(MIXED)


def test_a_loss_may_be_computed_from_what_no_optimizer_has(leaves: Check) -> None:
    text = "\n".join(line[2:] for line in MIXED.splitlines()).replace("net(x), y)", "net(x), y) if x.any() else zero")
    zero = "zero = torch.zeros(1, device='cuda', requires_grad=True)\nfor epoch"
    leaves(text.replace("for epoch", zero), "a scaler steps an optimizer without gradients")


def test_gradients_are_unscaled_before_a_function_that_reads_them(rewrites: Check) -> None:
    rewrites(
        """
          def clip(model):
              for p in model.parameters():
                  p.grad.clamp_(-1, 1)
          def total_norm(parameters):
              return sum(p.grad.norm() for p in parameters)
        ~ MODEL
          for x, y in loader:
        ~     loss = nn.functional.mse_loss(model(x), y)
        ~     loss.backward()
        +     scaler.unscale_(optimizer)
              norm = total_norm(model.parameters())
              clip(model)
        ~     optimizer.step()
              optimizer.zero_grad()
        """
    )


@pytest.mark.parametrize("made", ["model = Net()", "model = make(Net)"])
def test_gradients_are_unscaled_before_a_method_of_the_model_that_reads_them(made: str, rewrites: Check) -> None:
    rewrites(
        f"""
          class Net(nn.Module):
              def __init__(self):
                  super().__init__()
                  self.fc = nn.Linear(2, 2)

              def forward(self, x):
                  return self.fc(x)

              def tame(self):
                  for parameter in self.parameters():
                      parameter.grad *= 0.01

          {made}
        ~ optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
          for x, y in loader:
        ~     loss = nn.functional.mse_loss(model(x), y)
        ~     loss.backward()
        +     scaler.unscale_(optimizer)
              model.tame()
        ~     optimizer.step()
              optimizer.zero_grad()
        """
    )


def test_steps_of_an_optimizer_of_the_project_need_no_unscaling(rewrites: Check) -> None:
    rewrites(
        """
          class Signs(torch.optim.Optimizer):
              def step(self, closure=None):
                  for group in self.param_groups:
                      for p in group["params"]:
                          p.data.sub_(p.grad.sign(), alpha=group["lr"])

          critic, net = nn.Linear(2, 2), nn.Linear(2, 2)
          opt_c = Signs(critic.parameters(), {"lr": 0.1})
          opt_n = Signs(net.parameters(), {"lr": 0.1})
        + scaler = torch.amp.GradScaler("cuda")
          for x, y in loader:
              opt_c.zero_grad()
        ~     loss = critic(x).mean()
        ~     loss.backward()
        -     opt_c.step()
        +     scaler.step(opt_c)
              opt_n.zero_grad()
        ~     loss = critic(net(x)).mean()
        ~     loss.backward()
        ~     opt_n.step()
        """
    )


def test_gradients_are_unscaled_before_they_are_logged(rewrites: Check) -> None:
    rewrites(
        """
        ~ MODEL
          for x, y in loader:
        ~     loss = nn.functional.mse_loss(model(x), y)
        ~     loss.backward()
        +     scaler.unscale_(optimizer)
              norm = model.weight.grad.norm()
        ~     optimizer.step()
              optimizer.zero_grad()
              print(model.weight.grad.norm())
        """
    )


def test_each_optimizer_is_unscaled_before_its_own_clipping(rewrites: Check) -> None:
    rewrites(
        """
          optD = torch.optim.Adam(netD.parameters())
          optG = torch.optim.Adam(netG.parameters())
        + scaler = torch.amp.GradScaler("cuda")
          for real, noise in loader:
        ~     lossD = netD(real).mean() - netD(netG(noise)).mean()
              optD.zero_grad()
        ~     lossD.backward()
        +     scaler.unscale_(optD)
              nn.utils.clip_grad_norm_(netD.parameters(), 1.0)
        -     optD.step()
        +     scaler.step(optD)
        ~     lossG = netD(netG(noise)).mean()
              optG.zero_grad()
        ~     lossG.backward()
        +     scaler.unscale_(optG)
              nn.utils.clip_grad_norm_(netG.parameters(), 1.0)
        ~     optG.step()
        """
    )


def test_a_clip_of_what_is_cleared_before_anybody_reads_it_keeps_no_step(rewrites: Check) -> None:
    rewrites(
        """
          optD = torch.optim.Adam(netD.parameters())
          optG = torch.optim.Adam(netG.parameters())
        + scaler = torch.amp.GradScaler("cuda")
          for real, noise in loader:
              netD.zero_grad()
        ~     lossD = netD(real).mean() - netD(netG(noise).detach()).mean()
        ~     lossD.backward()
        -     optD.step()
        +     scaler.step(optD)
              optG.zero_grad()
        ~     lossG = netD(netG(noise)).mean()
        ~     lossG.backward()
        ~     optG.step()
              nn.utils.clip_grad_norm_(netD.parameters(), 1.0)
        """
    )


def test_clipping_what_an_optimizer_that_has_stepped_got_scaled_again(leaves: Check) -> None:
    leaves(
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.body, self.shift = nn.Linear(8, 4), nn.Parameter(torch.zeros(4))

            def forward(self, x):
                return self.body(x) + self.shift

        net = Net().cuda()
        optimizer = torch.optim.SGD(net.body.parameters(), lr=0.1)
        dual_optimizer = torch.optim.SGD([net.shift], lr=0.1)
        for x, y in loader:
            outputs = net(x.cuda())
            dual_loss = outputs.mean()
            dual_optimizer.zero_grad()
            dual_loss.backward(retain_graph=True)
            dual_optimizer.step()
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(outputs, y.cuda())
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
        """,
        "gradients of several scales are clipped",
    )


@pytest.mark.parametrize(
    ("act", "adv"),
    [
        ("policy.act_parameters()", "policy.adv_parameters()"),
        ("list(policy.act_parameters())", "filter(lambda p: p.requires_grad, policy.adv_parameters())"),
        ("policy.act.parameters()", "[{'params': policy.adv_parameters(), 'lr': 0.1}]"),
        ("params_of(policy, 'act')", "params_of(policy, 'adv')"),
        ("policy.parameters_of('act')", "list(policy.parameters_of('adv'))"),
        ("utils.halves(policy.named_parameters())[0]", "utils.halves(policy.named_parameters())[1]"),
    ],
)
@pytest.mark.parametrize("forward", ["self.policy(x)", "self.policy.evaluate(x)", "evaluate(self.policy, x)"])
def test_clipping_a_model_that_nobody_has_read_whose_parts_two_optimizers_have(
    act: str, adv: str, forward: str, leaves: Check
) -> None:
    leaves(
        f"""
        class Agent:
            def __init__(self, policy):
                self.policy = policy
                self.opt_act = torch.optim.Adam({act})
                self.opt_adv = torch.optim.Adam({adv})
                self.mse = nn.MSELoss()

            def update(self, loader):
                for x, y in loader:
                    out, adv = {forward}
                    self.opt_act.zero_grad()
                    loss = self.mse(out, y) + self.mse(adv, out)
                    loss.backward()
                    nn.utils.clip_grad_norm_(self.policy.parameters(), 0.5)
                    self.opt_act.step()
                    out, adv = {forward}
                    self.opt_adv.zero_grad()
                    loss = -self.mse(adv, out)
                    loss.backward()
                    nn.utils.clip_grad_norm_(self.policy.parameters(), 0.5)
                    self.opt_adv.step()
        """,
        "gradients of several scales are clipped",
    )


def test_only_the_optimizer_whose_parameters_are_clipped_is_unscaled(rewrites: Check) -> None:
    rewrites(
        """
          netD, netG = A(), B()
          optD = torch.optim.Adam(netD.parameters())
          optG = torch.optim.Adam(netG.parameters())
        + scaler = torch.amp.GradScaler("cuda")
          for x in loader:
        ~     loss = netD(netG(x)).mean()
        ~     loss.backward()
        +     scaler.unscale_(optD)
              nn.utils.clip_grad_norm_(netD.parameters(), 1.0)
        ~     optD.step()
        ~     optG.step()
              optD.zero_grad()
              optG.zero_grad()
        """
    )


@pytest.mark.parametrize(
    "clips",
    [
        ("clip(optD, 1.0)", "clip(optG, 1.0)"),
        ("nn.utils.clip_grad_value_(optD.param_groups[0]['params'], 1.0)", "clip(optG.param_groups, 1.0)"),
    ],
)
def test_an_optimizer_that_is_clipped_by_its_name_in_a_branch_is_unscaled_there(
    clips: tuple[str, str], rewrites: Check
) -> None:
    rewrites(
        """
          def clip(optimizer, limit):
              for group in optimizer.param_groups:
                  for p in group["params"]:
                      p.grad.data.clamp_(-limit, limit)

          netD, netG = A(), B()
          optD = torch.optim.Adam(netD.parameters())
          optG = torch.optim.Adam(netG.parameters())
        + scaler = torch.amp.GradScaler("cuda")
          for x in loader:
        ~     loss = netD(netG(x)).mean()
        ~     loss.backward()
        +     scaler.unscale_(optD)
              FIRST
        -     optD.step()
        +     scaler.step(optD)
              optD.zero_grad()
              if args.both:
        +         scaler.unscale_(optG)
                  SECOND
        -         optG.step()
        +         scaler.step(optG)
                  optG.zero_grad()
        +     scaler.update()
        """.replace("FIRST", clips[0]).replace("SECOND", clips[1])
    )


def test_both_optimizers_are_unscaled_where_a_module_of_either_is_clipped_beside_one(rewrites: Check) -> None:
    rewrites(
        """
          netD, netG = A(), B()
          optD = torch.optim.Adam(netD.parameters())
          optG = torch.optim.Adam(netG.parameters())
        + scaler = torch.amp.GradScaler("cuda")
          for x in loader:
        ~     loss = netD(netG(x)).mean()
        ~     loss.backward()
        +     scaler.unscale_(optD)
        +     scaler.unscale_(optG)
              clip_gradients(optD, netG)
        ~     optD.step()
        ~     optG.step()
        """
    )


def test_both_optimizers_are_unscaled_where_both_are_clipped(rewrites: Check) -> None:
    rewrites(
        """
          netD, netG = A(), B()
          optD = torch.optim.Adam(netD.parameters())
          optG = torch.optim.Adam(netG.parameters())
        + scaler = torch.amp.GradScaler("cuda")
          for x in loader:
        ~     loss = netD(netG(x)).mean()
        ~     loss.backward()
        +     scaler.unscale_(optD)
        +     scaler.unscale_(optG)
              nn.utils.clip_grad_norm_(list(netD.parameters()) + list(netG.parameters()), 1.0)
        ~     optD.step()
        ~     optG.step()
              optD.zero_grad()
              optG.zero_grad()
        """
    )


def test_clipping_on_the_real_step_of_an_accumulation(rewrites: Check) -> None:
    rewrites(
        """
        ~ MODEL
          for step, (x, y) in enumerate(loader):
        ~     loss = nn.functional.mse_loss(model(x), y) / 4
        ~     loss.backward()
              if (step + 1) % 4 == 0:
        +         scaler.unscale_(optimizer)
                  nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        ~         optimizer.step()
                  optimizer.zero_grad()
        """
    )


def test_clipping_before_a_step_in_a_with(rewrites: Check) -> None:
    rewrites(
        """
          MODEL
        + scaler = torch.amp.GradScaler("cuda")
          for i, (x, y) in enumerate(loader):
        -     loss = nn.functional.mse_loss(model(x), y)
        -     loss.backward()
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +         loss = nn.functional.mse_loss(model(x), y)
        +     scaler.scale(loss).backward()
              if i % 4 == 3:
        +         scaler.unscale_(optimizer)
                  norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                  log.add_scalar("norm", norm)
                  with timer("step"), torch.no_grad():
        -             optimizer.step()
        +             scaler.step(optimizer)
        +             scaler.update()
                  optimizer.zero_grad()
        """
    )


@pytest.mark.parametrize("asked", ["p.grad is None", "p.grad is not None"])
def test_whether_there_is_a_gradient_may_be_asked_of_every_micro_batch(asked: str, migrate: Check) -> None:
    after = migrate(ASKED.replace("ASKED", asked)).after
    assert "scaler.step(optimizer)" in after
    assert "unscale_" not in after


@pytest.mark.parametrize("asked", ["p.grad is not None and p.grad.norm() > 1", "p.grad is zeros"])
def test_what_a_gradient_is_may_not_be_asked_of_every_micro_batch(asked: str, leaves: Check) -> None:
    leaves(ASKED.replace("ASKED", asked), "is not seen to grow")


ASKED = """
    MODEL
    for i, x in enumerate(loader):
        loss = model(x).mean()
        loss.backward()
        found = [n for n, p in model.named_parameters() if ASKED]
        if found:
            print(found)
        if i % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()
"""


def test_gradients_read_before_training_and_after_the_step_need_no_unscaling(rewrites: Check) -> None:
    rewrites(
        """
        ~ MODEL
          print(model.weight.grad)
        ~ EPOCH
              print(model.weight.grad.norm())
        """
    )


def test_clipping_on_every_micro_batch_goes_by_a_scaled_limit(rewrites: Check) -> None:
    rewrites(
        """
        ~ MODEL
          for step, (x, y) in enumerate(loader):
        ~     loss = nn.functional.mse_loss(model(x), y) / 4
        ~     loss.backward()
        -     nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        +     nn.utils.clip_grad_norm_(model.parameters(), 1.0 * scaler.get_scale())
              if (step + 1) % 4 == 0:
        ~         optimizer.step()
                  optimizer.zero_grad()
        """
    )


def test_a_scaled_limit_keeps_an_expression_together(rewrites: Check) -> None:
    rewrites(
        """
        ~ MODEL
          for step, (x, y) in enumerate(loader):
        ~     loss = nn.functional.mse_loss(model(x), y) / 4
        ~     loss.backward()
              if args.clip:
        -         nn.utils.clip_grad_value_(model.parameters(), clip_value=args.clip or 5.0)
        +         nn.utils.clip_grad_value_(model.parameters(), clip_value=(args.clip or 5.0) * scaler.get_scale())
              if (step + 1) % 4 == 0:
        ~         optimizer.step()
                  optimizer.zero_grad()
        """
    )


MICRO_BATCHES = """
    MODEL
    for step, (x, y) in enumerate(loader):
        loss = nn.functional.mse_loss(model(x), y) / 4
        loss.backward()
        {use}
        if (step + 1) % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    "use",
    [
        "norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0).item()",
        "nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)",
        "nn.utils.clip_grad_norm_(*args)",
        "clip_gradients(model)",
        "model.weight.grad.mul_(0.5)",
        "assert model.weight.grad.norm() < 9",
    ],
)
def test_gradients_used_otherwise_on_every_micro_batch(use: str, leaves: Check) -> None:
    leaves(MICRO_BATCHES.format(use=use), "where the optimizer does not always step")


@pytest.mark.parametrize("norm", ["norm =", "norms +="])
def test_norm_of_every_micro_batch_is_divided_by_the_scale(norm: str, migrate: Check) -> None:
    after = migrate(MICRO_BATCHES.format(use=f"{norm} nn.utils.clip_grad_norm_(model.parameters(), 1.0)")).after
    clip = "nn.utils.clip_grad_norm_(model.parameters(), 1.0 * scaler.get_scale())"
    assert f"    {norm} {clip} / scaler.get_scale()\n" in after


def test_limit_stays_where_the_gradients_of_one_optimizer_are_unscaled(rewrites: Check) -> None:
    rewrites(
        """
          model = nn.Linear(2, 2)
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
          head = nn.Linear(2, 2)
          other = torch.optim.SGD(head.parameters(), lr=0.1)
        + scaler = torch.amp.GradScaler("cuda")
          held = [*model.parameters()]
          for x, y in loader:
              model.zero_grad()
              head.zero_grad()
        ~     loss = nn.functional.mse_loss(head(model(x)), y)
        ~     loss.backward()
        +     scaler.unscale_(optimizer)
              nn.utils.clip_grad_norm_(held, 1.0)
        -     optimizer.step()
        +     scaler.step(optimizer)
              if args.other:
        -         other.step()
        +         scaler.step(other)
        +     scaler.update()
        """
    )


MEASURED = """
    import elsewhere

    def norm(parameters, order=2):
        parameters = list(filter(lambda p: p.grad is not None, parameters))
        order = float(order)
        total = 0
        for p in parameters:
            total += p.grad.data.norm(order).item() ** order
        return total ** (1. / order)

    def squares(parameters):
        return sum(p.grad.norm(2).item() ** 2 for p in parameters)

    def of_each(parameters):
        return [p.grad.norm() for p in parameters]
"""


@pytest.mark.parametrize(
    "value",
    [
        "norm(model.parameters())",
        "norm(model.parameters(), 1)",
        "squares(model.parameters()) ** 0.5",
        "model.weight.grad.norm(2).item()",
    ],
)
def test_what_is_proportional_to_gradients_of_a_micro_batch_is_divided_by_the_scale(value: str, migrate: Check) -> None:
    after = migrate(MEASURED + MICRO_BATCHES.format(use=f"size = {value}")).after
    quotient = f"({value}) / " if "**" in value else f"{value} / "
    assert f"    size = {quotient}scaler.get_scale()\n" in after


@pytest.mark.parametrize(
    ("use", "after"),
    [
        ("print(model.weight.grad.abs().max(), step)", "print(model.weight.grad.abs().max() / SCALE, step)"),
        ("kept.append(norm(model.parameters()))", "kept.append(norm(model.parameters()) / SCALE)"),
        ("log.add('g', model.weight.grad.clone())", "log.add('g', model.weight.grad.clone() / SCALE)"),
        (
            "log({'mean': model.weight.grad.mean(), 'of': [float(model.weight.grad.std()), loss]})",
            "log({'mean': model.weight.grad.mean() / SCALE, 'of': [float(model.weight.grad.std()) / SCALE, loss]})",
        ),
    ],
)
def test_what_is_logged_of_gradients_of_a_micro_batch_is_divided_by_the_scale(
    use: str, after: str, migrate: Check
) -> None:
    moved = migrate(MEASURED + MICRO_BATCHES.format(use=use)).after
    assert f"    {after.replace('SCALE', 'scaler.get_scale()')}\n" in moved


@pytest.mark.parametrize(
    "use",
    [
        "print(model.weight.grad)",  # which may be None
        "halve(model.weight.grad.view(-1))",  # which may be written into
        "log.add('g', (model.weight.grad ** 2).sum())",
        "log.add('g', torch.log(model.weight.grad.norm()))",
        "log.add('g', model.weight.grad.max() > 3)",
        "log.add('g', f'{model.weight.grad.norm()}')",
    ],
)
def test_what_is_logged_of_gradients_of_a_micro_batch_and_does_not_grow_with_them(use: str, leaves: Check) -> None:
    text = MEASURED + MICRO_BATCHES.format(use=use)
    leaves(text, "what is made of gradients here is not seen to grow as they do")


@pytest.mark.parametrize(
    "value",
    [
        "squares(model.parameters())",
        "norm(model.parameters()) ** 3",
        "of_each(model.parameters())",
        "(norm(model.parameters()), 2)",
        "elsewhere.norm([p.grad for p in model.parameters()])",
    ],
)
def test_what_is_not_proportional_to_gradients_of_a_micro_batch(value: str, leaves: Check) -> None:
    text = MEASURED + MICRO_BATCHES.format(use=f"size = {value}")
    leaves(text, "what is made of gradients here is not seen to grow as they do")


IN_METHOD = """
  class Trainer:
      def __init__(self, model, log):
          self.model, self.log = model.cuda(), log
          self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
+         self.scaler = torch.amp.GradScaler("cuda")
      def tell(self, step):
          if step % 100 == 0:
              for name, p in self.model.named_parameters():
-                 self.log.add(name, p.grad.norm(), step)
+                 self.log.add(name, p.grad.norm() / self.scaler.get_scale(), step)
      def train(self, loader):
          for step, (x, y) in enumerate(loader):
~             loss = nn.functional.mse_loss(self.model(x.cuda()), y.cuda()) / 4
-             loss.backward()
+             self.scaler.scale(loss).backward()
              self.tell(step)
              if (step + 1) % 4 == 0:
-                 self.optimizer.step()
+                 self.scaler.step(self.optimizer)
+                 self.scaler.update()
                  self.optimizer.zero_grad()
"""


def test_what_a_method_logs_of_gradients_of_a_micro_batch_is_divided_by_the_scale(rewrites: Check) -> None:
    rewrites(IN_METHOD)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("class Trainer:", "def end(trainer):\n    trainer.tell(0)\n\nclass Trainer:"),
        ("step)\n    def train", "step)\n                p.grad.mul_(0.5)\n    def train"),
        ("self.tell(step)\n", "if self.tell(step): pass\n"),
    ],
    ids=["called elsewhere", "changed", "asked"],
)
def test_what_a_method_reads_of_gradients_of_a_micro_batch_otherwise(old: str, new: str, leaves: Check) -> None:
    text = dedent("\n".join(f" {each[1:]}" for each in IN_METHOD.splitlines() if not each.startswith("+")))
    assert old in text
    leaves(text.replace(old, new), "gradients are read where the optimizer does not always step")


BY_HAND = """
if __name__ == "__main__":
    args = parser.parse_args()
    if args.use_optimizer:
        optimizer = torch.optim.AdamW(model.parameters())
    for step, (x, y) in enumerate(loader):
        model.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        if {first}:
            {one}
        else:
            {other}
"""


@pytest.mark.parametrize("by_hand_first", [True, False])
def test_gradients_that_one_branch_applies_by_hand(by_hand_first: bool, leaves: Check) -> None:
    branches = ("[p.data.add_(p.grad, alpha=-0.1) for p in model.parameters()]", "optimizer.step()")
    first = "not args.use_optimizer" if by_hand_first else "args.use_optimizer"
    one, other = branches if by_hand_first else branches[::-1]
    leaves(BY_HAND.format(first=first, one=one, other=other), "where the optimizer does not always step")


BETWEEN = """
    import helpers, wandb
    MODEL
    kept = {{}}
    for x, y in loader:
        optimizer.zero_grad()
        a = model(x).mean()
        a.backward()
        {early}
        b = model(y).mean()
        b.backward()
        {late}
        optimizer.step()
    """


@pytest.mark.parametrize(
    ("early", "late", "why"),
    [
        ("print(model.weight.grad.norm())", "pass", "printed"),
        ('wandb.log({"norm": model.weight.grad.norm().item()})', "pass", "given to wandb.log"),
        ("helpers.look([p.grad for p in model.parameters()])", "pass", "given to helpers.look"),
        ('torch.save(model.weight.grad, "gradient.pt")', "pass", "saved"),
        ("first = model.weight.grad.clone()", "print(first)", "printed"),
        ("first = model.weight.grad.clone()", "model.weight.grad += 0.5 * first", "added to something"),
        ("first = model.weight.grad.clone()", "model.weight.grad.copy_(first)", "kept as a gradient"),
        ("first = model.weight.grad.clone()", "model.weight.grad = first", "kept as a gradient"),
        ("kept[0] = model.weight.grad.clone()", "model.weight.grad.data = kept[0]", "kept as a gradient"),
        ("model.weight.grad = model.weight.grad.norm() * model.weight.grad", "pass", "kept as a gradient"),
    ],
)
def test_gradients_read_between_two_backwards_of_one_step(early: str, late: str, why: str, leaves: Check) -> None:
    leaves(BETWEEN.format(early=early, late=late), f"a gradient is used while the loss scale is in it: {why}")


@pytest.mark.parametrize(
    ("early", "late"),
    [
        ("first = model.weight.grad.clone()", "pass"),
        ("first = model.weight.grad.norm() > 0", "pass"),
        ("kept[0] = model.weight.grad.clone()", "pass"),
        ("kept[0] = model.weight.grad.clone(); model.weight.grad = kept[0]", "pass"),
        ("kept[0] = model.weight.grad.clone(); model.weight.grad.copy_(kept[0])", "pass"),
    ],
)
def test_gradients_that_are_only_put_aside_between_two_backwards_keep_no_step(
    early: str, late: str, migrate: Check
) -> None:
    assert "scaler.scale(b).backward()" in migrate(BETWEEN.format(early=early, late=late)).after


def test_clipping_that_nobody_follows_between_two_backwards_keeps_a_step(leaves: Check) -> None:
    leaves(BETWEEN.format(early="helpers.clip_gradient(optimizer, 1.0)", late="pass"), "gradients are clipped between")


CLIPPED_BELOW = """
    def fourth(parameters):
        for p in parameters:
            p.grad.data.clamp_(-1, 1)

    def third(net):
        fourth(net.parameters())

    def second(net, again):
        third(net)
        if again:
            first(net, again - 1)

    def first(net, again):
        second(net, again)

    MODEL
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        first(model, 2)
        optimizer.step()
    """


def test_gradients_are_unscaled_however_deep_in_calls_they_are_clipped(migrate: Check) -> None:
    after = migrate(CLIPPED_BELOW).after
    assert "    scaler.unscale_(optimizer)\n    first(model, 2)\n    scaler.step(optimizer)\n" in after


HOOKED = """
    MODEL
    norms = []
    for parameter in model.parameters():
        parameter.register_hook({hook})
    EPOCH
    """


@pytest.mark.parametrize(
    ("hook", "use"),
    [
        ("lambda grad: grad.clamp(-1, 1)", "limited by a number"),
        ("lambda grad: grad / (grad.norm() + 1e-6)", "kept as a gradient"),
        ("lambda grad: grad / grad.abs().max()", "kept as a gradient"),
        ("lambda grad: grad.sign()", "kept as a gradient"),
    ],
)
def test_hook_to_which_the_scale_of_gradients_matters_keeps_a_step(hook: str, use: str, leaves: Check) -> None:
    leaves(HOOKED.format(hook=hook), f"a gradient is used while the loss scale is in it: {use}")


@pytest.mark.parametrize(
    "hook",
    [
        "lambda grad: grad / world_size",
        "lambda grad: grad * (grad > 0)",
        "lambda grad: torch.where(grad > 0, grad, torch.zeros_like(grad))",
        "lambda grad: norms.append(grad.norm().item())",
    ],
)
def test_hook_that_does_the_same_to_scaled_gradients_keeps_none(hook: str, migrate: Check) -> None:
    assert "scaler.step(optimizer)" in migrate(HOOKED.format(hook=hook)).after


def test_bfloat16_has_true_gradients_in_every_hook(migrate: Check) -> None:
    assert "autocast" in migrate(HOOKED.format(hook="lambda grad: grad.clamp(-1, 1)"), "bf16").after


CURVED = """
    class Kfac(torch.optim.SGD):
        def __init__(self, model):
            super().__init__(model.parameters(), lr=0.1)
            self.covariance, self.known = {{}}, list(model.modules())
            for module in self.known:
                module.register_full_backward_hook(self.save)

        def save(self, module, given, of):
            self.covariance[module] = of[0].t() @ of[0]

        def step(self, closure=None):
            for module in self.known:
                size, basis = torch.linalg.eigh(self.covariance[module])
                direction = basis @ (basis.t() @ module.weight.grad / (size + 0.01))
                {use}
            super().step(closure)

    model = nn.Linear(2, 2)
    optimizer = Kfac(model)
    EPOCH
    """


@pytest.mark.parametrize("use", ["module.weight.grad.copy_(direction)", "module.weight.data.sub_(direction)"])
def test_optimizer_that_builds_its_step_on_what_hooks_are_given_keeps_a_step(use: str, leaves: Check) -> None:
    leaves(CURVED.format(use=use), "a gradient is used while the loss scale is in it: ")


REDUCED = """
  import horovod.torch as hvd
  import torch.distributed as dist
  from torch._utils import _flatten_dense_tensors
  def average(model):
      if dist.is_initialized():
          for p in model.parameters():
              dist.all_reduce(p.grad.data)
  def average_flat(model):
      grads = []
      for p in model.parameters():
          grads.append(p.grad.data)
      flat = _flatten_dense_tensors(grads)
      flat /= dist.get_world_size()
      dist.all_reduce(flat)
  def add_up(tensors):
      for each in tensors:
          dist.all_reduce(each)
          each.div_(dist.get_world_size())
  def average_and_clip(model):
      average(model)
      nn.utils.clip_grad_norm_(model.parameters(), 1.0)
~ MODEL
  for x, y in loader:
      optimizer.zero_grad()
~     loss = nn.functional.mse_loss(model(x), y)
~     loss.backward()
DELTA
~     optimizer.step()
"""


@pytest.mark.parametrize(
    "delta",
    [
        "      average(model)",
        "      average_flat(model)",
        "      for p in model.parameters():\n          dist.all_reduce(p.grad)",
        "      for p in model.parameters():\n          hvd.allreduce_(p.grad.data)",
        "      average(model)\n+     scaler.unscale_(optimizer)\n"
        "      nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
        "-     nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
        "+     nn.utils.clip_grad_norm_(model.parameters(), 1.0 * scaler.get_scale())\n      average(model)",
        "+     scaler.unscale_(optimizer)\n      print([p.grad.norm() for p in model.parameters()])\n"
        "      dist.all_reduce(loss)",
        "      grads = [p.grad.data for p in model.parameters()]\n      for g in grads:\n          dist.all_reduce(g)\n"
        "          g /= dist.get_world_size()",
        "      grads = []\n      for p in model.parameters():\n          grads.append(p.grad)\n"
        "      for g in grads:\n          dist.all_reduce(g)\n+     scaler.unscale_(optimizer)\n"
        "      nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
        "      grads = [p.grad.clone() for p in model.parameters()]\n"
        "      for p, g in zip(model.parameters(), grads):\n          dist.all_reduce(g)\n          p.grad.copy_(g)",
        "      grads = [p.grad for p in model.parameters()]\n      add_up(grads)",
    ],
)
def test_gradients_are_added_up_over_processes_while_they_are_scaled(delta: str, rewrites: Check) -> None:
    rewrites(REDUCED.replace("DELTA", delta))


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (
            "for p in model.parameters():\n        p.grad.clamp_(-1, 1)\n    average(model)",
            "gradients are read before they are added up over all processes",
        ),
        (
            "for p in model.parameters():\n        dist.all_reduce(p.grad)\n        p.grad.clamp_(-1, 1)",
            "gradients are read before they are added up over all processes",
        ),
        (
            "grads = [p.grad for p in model.parameters()]\n    norm = sum(g.norm() for g in grads)\n"
            "    for g in grads:\n        g /= norm\n        dist.all_reduce(g)",
            "gradients are read before they are added up over all processes",
        ),
        (  # that the list has them divided behind `unscale_()` nobody sees
            "grads = [p.grad for p in model.parameters()]\n    for g in grads:\n        dist.all_reduce(g)\n"
            "    norm = sum(g.norm() for g in grads)\n"
            "    if norm > 1:\n        for g in grads:\n            g.mul_(1 / norm)",
            "a gradient is used while the loss scale is in it: compared",
        ),
        ("average_and_clip(model)", "one function adds up gradients over all processes and clips them"),
    ],
)
def test_gradients_that_are_read_before_they_are_added_up(lines: str, why: str, leaves: Check) -> None:
    before = "\n".join(line[2:] for line in REDUCED.splitlines() if not line.startswith("+"))
    leaves(before.replace("LTA", f"    {lines}"), why)


BEHIND = """
      model = nn.Linear(2, 2)
    ~ optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
      for i, (x, y) in enumerate(loader):
    ~     loss = nn.functional.mse_loss(model(x), y)
          if i % every != 0:
    ~         loss.backward()
          else:
    ~         loss.backward()
    ~         optimizer.step()
          if {read}:
              print(model.weight.grad.norm())
          if i % every == 0:
              optimizer.zero_grad()
"""


@pytest.mark.parametrize("read", ["i % every == 0", "i % (often * every) == 0", "first and i % (every * 2 * 5) == 0"])
def test_gradients_read_behind_the_step_where_it_has_stepped(read: str, rewrites: Check) -> None:
    plan = rewrites(BEHIND.format(read=read))
    assert [each.code for each in plan.findings if each.code != "AMP501"] == []


@pytest.mark.parametrize("read", ["i % often == 0", "i % (often + every) == 0", "i % (often * every) != 0"])
def test_gradients_read_behind_the_step_where_it_may_not_have_stepped(read: str, leaves: Check) -> None:
    leaves(
        dedent(BEHIND.format(read=read).replace("~", " ")),
        "gradients are read where the optimizer does not always step",
    )


@pytest.mark.parametrize(
    "lines",
    [
        "    if i % 2 == 0:\n        optimizer.step()\n    print(model.weight.grad.norm())",
        "    if i % 2 == 0:\n        optimizer.step()\n    with torch.no_grad():\n        bias -= 0.1 * bias.grad",
        "    try:\n        optimizer.step()\n    except RuntimeError:\n        print(model.weight.grad.norm())",
    ],
)
def test_gradients_read_where_the_optimizer_may_not_have_stepped(lines: str, leaves: Check) -> None:
    leaves(
        "model = nn.Linear(2, 2)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "bias = torch.zeros(2, requires_grad=True)\nfor i, (x, y) in enumerate(loader):\n"
        f"    loss = nn.functional.mse_loss(model(x) + bias, y)\n    loss.backward()\n{lines}\n",
        "gradients are read where the optimizer does not always step",
    )


def test_gradients_read_when_all_optimizers_have_stepped(rewrites: Check) -> None:
    rewrites(
        """
          model = nn.Linear(2, 2)
          optimizers = [torch.optim.SGD(model.parameters(), lr=0.1)]
        + scaler = torch.amp.GradScaler("cuda")
          for x, y in loader:
        ~     loss = nn.functional.mse_loss(model(x), y)
        ~     loss.backward()
              for optimizer in optimizers:
        -         optimizer.step()
        +         scaler.step(optimizer)
                  optimizer.zero_grad()
        +     scaler.update()
              print(model.weight.grad.norm())
        """
    )


def test_gradients_read_behind_the_step_of_their_optimizer_are_divided(rewrites: Check) -> None:
    rewrites(
        """
          real, fake = nn.Linear(4, 1), nn.Linear(2, 4)
          optimizer_d = torch.optim.Adam(real.parameters())
          optimizer_g = torch.optim.Adam(fake.parameters())
        + scaler = torch.amp.GradScaler("cuda")
          for x, z in loader:
              real.zero_grad()
        ~     loss = real(fake(z).detach()).mean() - real(x).mean()
        ~     loss.backward()
        -     optimizer_d.step()
        +     scaler.step(optimizer_d)
              for p in real.parameters():
                  print(p.grad.norm().item())
              fake.zero_grad()
        ~     loss = -real(fake(z)).mean()
        ~     loss.backward()
        -     optimizer_g.step()
        +     scaler.step(optimizer_g)
        +     scaler.update()
        """
    )


def test_gradients_of_another_optimizer_are_still_scaled_there(leaves: Check) -> None:
    leaves(
        """
        real, fake = nn.Linear(4, 1), nn.Linear(2, 4)
        optimizer_d = torch.optim.Adam(real.parameters())
        optimizer_g = torch.optim.Adam(fake.parameters())
        for z in loader:
            optimizer_d.zero_grad()
            optimizer_g.zero_grad()
            real(fake(z)).mean().backward()
            optimizer_d.step()
            for p in fake.parameters():
                print(p.grad.norm().item())
            fake(z).mean().backward()
            optimizer_g.step()
        """,
        "a gradient is used while the loss scale is in it: printed",
    )


def test_a_step_of_another_branch_reads_other_gradients(rewrites: Check) -> None:
    rewrites(
        """
        - def train(model, optimizer, loader):
        + def train(model, optimizer, scaler, loader):
              for i, (x, y) in enumerate(loader):
        ~         loss = nn.functional.mse_loss(model(x), y)
        -         loss.backward()
        +         scaler.scale(loss).backward()
                  if i % 2:
        +             scaler.unscale_(optimizer)
                      nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        -             optimizer.step()
        +             scaler.step(optimizer)
        +             scaler.update()
                      optimizer.zero_grad()

          def main(one, loader):
        ~     MODEL
              if one:
                  for i, (x, y) in enumerate(loader):
        ~             loss = nn.functional.mse_loss(model(x), y)
        -             loss.backward()
        +             scaler.scale(loss).backward()
                      if i % 2:
        -                 optimizer.step()
        +                 scaler.step(optimizer)
        +                 scaler.update()
                          optimizer.zero_grad()
              else:
        -         train(model, optimizer, loader)
        +         train(model, optimizer, scaler, loader)
        """
    )


def test_object_that_clips_when_it_is_called(rewrites: Check) -> None:
    rewrites(
        """
          class Clipper:
              def __init__(self, limit):
                  self.limit = limit
              def __call__(self, model):
                  return nn.utils.clip_grad_norm_(model.parameters(), self.limit)
          MODEL
        + scaler = torch.amp.GradScaler("cuda")
          clip = Clipper(1.0)
          for x, y in loader:
              optimizer.zero_grad()
        ~     loss = nn.functional.mse_loss(model(x), y)
        -     loss.backward()
        +     scaler.scale(loss).backward()
        +     scaler.unscale_(optimizer)
              clip(model)
        ~     optimizer.step()
        """
    )


TRAINER = """
class Trainer:
    def __init__(self, callbacks, log):
        self.model = nn.Linear(2, 2)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.callbacks, self.log, self.every = callbacks, log, 2
    def fire(self, event):
        for callback in self.callbacks:
            callback.handle(event, self)
    def train(self, loader, hook):
        for i, (x, y) in enumerate(loader):
            loss = nn.functional.mse_loss(self.model(x), y)
            loss.backward()
"""


def _steps(migrate: Check, lines: str, told: bool = False) -> list[str]:
    text = TRAINER + indent(dedent(lines).strip("\n"), " " * 12) + "\n"
    plan = migrate(text)
    assert any("gradients are scaled where" in each.message for each in plan.findings) is told
    return [line.strip() for line in plan.after.splitlines()[-8:]]


@pytest.mark.parametrize(
    "told",
    [
        'self.fire("backward")',
        "self.callbacks[0](self)",
        "self.callbacks.handle(trainer=self)",
        "hook(self)",
        'getattr(hook, "on_backward")(self)',
        "getattr(self.callbacks[0], self.log, print)(1, self)",
    ],
)
def test_gradients_are_unscaled_before_whoever_is_given_the_trainer(told: str, migrate: Check) -> None:
    lines = _steps(migrate, f"{told}\nself.optimizer.step()\nself.optimizer.zero_grad()")
    at = lines.index(told)
    assert lines[at - 1 : at + 3] == [
        "self.scaler.unscale_(self.optimizer)",
        told,
        "self.scaler.step(self.optimizer)",
        "self.scaler.update()",
    ]


def test_gradients_are_unscaled_once_for_a_callback_and_a_clip(migrate: Check) -> None:
    lines = _steps(
        migrate,
        """
        self.fire("backward")
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        """,
    )
    assert lines[lines.index('self.fire("backward")') - 1] == "self.scaler.unscale_(self.optimizer)"
    assert sum("unscale_" in line for line in lines) == 1


@pytest.mark.parametrize(
    "told",
    ["print(self)", "self.log.write(loss)", "self.log(self.every)", "str(self.optimizer)", "self.train"],
)
def test_whoever_is_not_given_the_trainer_reads_no_gradients(told: str, migrate: Check) -> None:
    lines = _steps(migrate, f"{told}\nself.optimizer.step()\nself.optimizer.zero_grad()")
    assert "self.scaler.step(self.optimizer)" in lines
    assert not any("unscale_" in line for line in lines)


def test_a_callback_of_every_micro_batch_may_read_scaled_gradients(migrate: Check) -> None:
    lines = _steps(
        migrate,
        """
        self.fire("backward")
        if i % self.every == 0:
            self.optimizer.step()
            self.optimizer.zero_grad()
        """,
        told=True,
    )
    assert "self.scaler.step(self.optimizer)" in lines
    assert not any("unscale_" in line for line in lines)


CALLBACKS = """
  class Callback:
      def on_{0}(self, model):
          pass
  class Keep(Callback):
      def __init__(self):
          self.norms = []
      def on_{0}(self, model):
          self.norms.append(sum(p.{1}.norm().item() ** 2 for p in model.parameters()) ** 0.5)
  keep = Keep()
  callbacks = [Callback(), keep]
  hooks = [each.on_{0} for each in callbacks]
  def fire(event, *args):
      for each in callbacks:
          getattr(each, f"on_{{event}}")(*args)
"""
FIRED = [
    "for each in callbacks: each.on_backward(model)",
    "for each in callbacks: getattr(each, 'on_backward')(model)",
    "for hook in hooks: hook(model)",
    "fire('backward', model)",
]


@pytest.mark.parametrize("fired", FIRED)
def test_gradients_are_unscaled_before_callbacks_of_which_one_reads_them(fired: str, rewrites: Check) -> None:
    rewrites(
        CALLBACKS.format("backward", "grad")
        + f"""
        ~ MODEL
          for x, y in loader:
              optimizer.zero_grad()
        ~     loss = nn.functional.mse_loss(model(x), y)
        -     loss.backward()
        +     scaler.scale(loss).backward()
        +     scaler.unscale_(optimizer)
              {fired}
        ~     optimizer.step()
          print(keep.norms)
        """.replace("\n        ", "\n")
    )


def test_gradients_are_unscaled_before_an_object_that_is_called_for_its_callbacks(rewrites: Check) -> None:
    rewrites(
        """
          class Callback:
              def __call__(self, event):
                  action = getattr(self, event, None)
                  if action is not None:
                      action()
          class Clip(Callback):
              def after_backward(self):
                  nn.utils.clip_grad_norm_(self.runner.model.parameters(), 1.0)
          class Runner:
              def __init__(self, callbacks):
                  self.callbacks = callbacks
                  for each in callbacks:
                      each.runner = self
              def __call__(self, event):
                  for each in self.callbacks:
                      each(event)
              def fit(self, model, loader):
                  self.model = model.cuda()
                  self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        +         self.scaler = torch.amp.GradScaler("cuda")
                  for x, y in loader:
                      self.optimizer.zero_grad()
        ~             loss = nn.functional.mse_loss(self.model(x.cuda()), y.cuda())
        -             loss.backward()
        +             self.scaler.scale(loss).backward()
        +             self.scaler.unscale_(self.optimizer)
                      self("after_backward")
        -             self.optimizer.step()
        +             self.scaler.step(self.optimizer)
        +             self.scaler.update()
                      self("after_step")
          Runner([Clip(), Callback()]).fit(nn.Linear(2, 2), loader)
        """
    )


@pytest.mark.parametrize("fired", FIRED)
def test_callbacks_that_read_weights_leave_gradients_scaled(fired: str, rewrites: Check) -> None:
    rewrites(
        CALLBACKS.format("backward", "data")
        + f"""
        ~ MODEL
          for x, y in loader:
              optimizer.zero_grad()
        ~     loss = nn.functional.mse_loss(model(x), y)
        ~     loss.backward()
              {fired}
        ~     optimizer.step()
          print(keep.norms)
        """.replace("\n        ", "\n")
    )


@pytest.mark.parametrize("cleared", ["p.grad[mask] = 0", "p.grad.data[:2] = 0.0", "p.grad[0][mask] = 0"])
def test_elements_that_are_set_to_zero_are_of_any_scale(cleared: str, rewrites: Check) -> None:
    rewrites(
        f"""
        ~ MODEL
          for x, y in loader:
        ~     loss = nn.functional.mse_loss(model(x), y)
        ~     loss.backward()
              for p in model.parameters():
                  {cleared}
        ~     optimizer.step()
              optimizer.zero_grad()
        """
    )


@pytest.mark.parametrize("given", ["p.grad[mask] = 1", "p.grad[p.grad < 0.1] = 0", "p.grad = 0 * p.grad"])
def test_other_elements_are_not(given: str, rewrites: Check) -> None:
    rewrites(
        f"""
        ~ MODEL
          for x, y in loader:
        ~     loss = nn.functional.mse_loss(model(x), y)
        ~     loss.backward()
        +     scaler.unscale_(optimizer)
              for p in model.parameters():
                  {given}
        ~     optimizer.step()
              optimizer.zero_grad()
        """
    )


def test_a_step_stays_where_an_optimizer_of_its_caller_steps_on_what_it_scales(leaves: Check) -> None:
    leaves(
        """
        def train(model, optimizer, x, y, pose):
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x @ pose), y).backward()
            optimizer.step()

        def main(args):
            MODEL
            if args.do_pose:
                poses = nn.Embedding(100, 4, sparse=True)
                others = torch.optim.SparseAdam(list(poses.parameters()), lr=0.01)
            else:
                poses = nn.Embedding(100, 4)
            for x, y, index in loader:
                if args.do_pose:
                    others.zero_grad()
                train(model, optimizer, x, y, poses(index).view(2, 2))
                if args.do_pose:
                    others.step()

        main(parse())
        """,
        "an optimizer steps past its scaler",
    )
