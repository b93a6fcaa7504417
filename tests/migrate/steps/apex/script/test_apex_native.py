"""Apex training as native AMP: what `initialize`, `scale_loss` and `master_params` become."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Check = Callable[..., Any]


def test_o1(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          model = nn.Linear(2, 2).cuda()
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        ~ INITIALIZE
          for x, y in loader:
              optimizer.zero_grad()
        ~     loss = nn.functional.mse_loss(model(x), y)
        ~     APEX_STEP
        """
    )


def test_o1_in_bfloat16(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          model = nn.Linear(2, 2).cuda()
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        - model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
          for x, y in loader:
              optimizer.zero_grad()
        ~     loss = nn.functional.mse_loss(model(x), y)
        -     with amp.scale_loss(loss, optimizer) as scaled_loss:
        -         scaled_loss.backward()
        +     loss.backward()
              optimizer.step()
        """,
        dtype="bf16",
    )


def test_attributes_of_self(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          class T:
              def __init__(self, model):
                  self.model = model
                  self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        -         self.model, self.optimizer = amp.initialize(self.model, self.optimizer, opt_level="O1")
        +         self.scaler = torch.amp.GradScaler("cuda")
              def step(self, x, y):
        ~         loss = nn.functional.mse_loss(self.model(x), y)
        -         with amp.scale_loss(loss, self.optimizer) as scaled_loss:
        -             scaled_loss.backward()
        -         self.optimizer.step()
        +         self.scaler.scale(loss).backward()
        +         self.scaler.step(self.optimizer)
        +         self.scaler.update()
        """
    )


def test_attributes_of_self_in_bfloat16(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          class T:
              def __init__(self, model):
                  self.model = model
                  self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        -         self.model, self.optimizer = amp.initialize(self.model, self.optimizer, opt_level="O1")
              def step(self, x, y):
        ~         loss = nn.functional.mse_loss(self.model(x), y)
        -         with amp.scale_loss(loss, self.optimizer) as scaled_loss:
        -             scaled_loss.backward()
        +         loss.backward()
                  self.optimizer.step()
        """,
        dtype="bf16",
    )


def test_new_names_for_model_and_optimizer_stay(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          net = nn.Linear(2, 2).cuda()
          sgd = torch.optim.SGD(net.parameters(), lr=0.1)
        - model, optimizer = amp.initialize(net, sgd, opt_level="O1")
        + model = net
        + optimizer = sgd
        + scaler = torch.amp.GradScaler("cuda")
          for x, y in loader:
        ~     loss = nn.functional.mse_loss(model(x), y)
        -     with amp.scale_loss(loss, optimizer) as s:
        -         s.backward()
        +     scaler.scale(loss).backward()
        ~     optimizer.step()
              optimizer.zero_grad()
        """
    )


def test_lists_of_models_and_optimizers_share_a_scaler(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          netD, netG = D(), G()
          optD = torch.optim.Adam(netD.parameters())
          optG = torch.optim.Adam(netG.parameters())
        - [netD, netG], [optD, optG] = amp.initialize([netD, netG], [optD, optG], opt_level="O1")
        + scaler = torch.amp.GradScaler("cuda")
          for x in loader:
              optD.zero_grad()
        ~     errD = netD(x).mean()
        -     with amp.scale_loss(errD, optD) as scaled:
        -         scaled.backward()
        +     scaler.scale(errD).backward()
        -     optD.step()
        +     scaler.step(optD)
              optG.zero_grad()
        ~     errG = netD(netG(x)).mean()
        -     with amp.scale_loss(errG, optG) as scaled:
        -         scaled.backward()
        +     scaler.scale(errG).backward()
        ~     optG.step()
        """
    )


def test_delayed_unscaling_is_what_the_scaler_does(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          model = nn.Linear(2, 2).cuda()
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        ~ INITIALIZE
          for i, (x, y) in enumerate(loader):
        ~     loss = nn.functional.mse_loss(model(x), y)
        -     with amp.scale_loss(loss, optimizer, delay_unscale=(i + 1) % 4 != 0) as scaled_loss:
        -         scaled_loss.backward()
        +     scaler.scale(loss).backward()
              if (i + 1) % 4 == 0:
        ~         optimizer.step()
                  optimizer.zero_grad()
        """
    )


def test_scaled_backward_on_one_line_keeps_its_arguments(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          model = nn.Linear(2, 2).cuda()
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        ~ INITIALIZE
          for x, y in loader:
        ~     loss = nn.functional.mse_loss(model(x), y)
        -     with amp.scale_loss(loss, optimizer) as s: s.backward(retain_graph=True)
        +     scaler.scale(loss).backward(retain_graph=True)
        ~     optimizer.step()
              optimizer.zero_grad()
        """
    )


def test_master_parameters_in_a_loop(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          model = nn.Linear(2, 2).cuda()
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        ~ INITIALIZE
          for x, y in loader:
        ~     loss = nn.functional.mse_loss(model(x), y)
        -     with amp.scale_loss(loss, [optimizer]) as s:
        -         s.backward()
        -     for p in amp.master_params(optimizer):
        +     scaler.scale(loss).backward()
        +     scaler.unscale_(optimizer)
        +     for p in model.parameters():
                  p.grad.mul_(0.5)
        ~     optimizer.step()
              optimizer.zero_grad()
        """
    )


def test_several_losses_share_one_scaler(rewrites: Check) -> None:
    plan = rewrites(
        """
        - from apex import amp
          d, g = nn.Linear(2, 2), nn.Linear(2, 2)
          opt_d = torch.optim.SGD(d.parameters(), lr=0.1)
          opt_g = torch.optim.SGD(g.parameters(), lr=0.1)
        - [d, g], [opt_d, opt_g] = amp.initialize([d, g], [opt_d, opt_g], opt_level="O1", num_losses=2)
        + scaler = torch.amp.GradScaler("cuda")
          for x in loader:
              opt_d.zero_grad()
        ~     loss_d = d(x).mean()
        -     with amp.scale_loss(loss_d, opt_d, loss_id=0) as scaled_loss:
        -         scaled_loss.backward()
        +     scaler.scale(loss_d).backward()
        -     opt_d.step()
        +     scaler.step(opt_d)
              opt_g.zero_grad()
        ~     loss_g = d(g(x)).mean()
        -     with amp.scale_loss(loss_g, opt_g, loss_id=1) as scaled_loss:
        -         scaled_loss.backward()
        +     scaler.scale(loss_g).backward()
        ~     opt_g.step()
        """
    )
    assert any("one scaler serves all losses" in finding.message for finding in plan.findings)


def test_a_layer_of_apex_is_known_for_a_model(rewrites: Check) -> None:
    rewrites(
        """
        - from apex.normalization import FusedLayerNorm
        -
        - layer = FusedLayerNorm(2).cuda()
        + layer = nn.LayerNorm(2).cuda()
          optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
          for x, y in loader:
        ~     out = layer(x) @ x.t()
              out.backward(y)
              optimizer.step()
              optimizer.zero_grad()
        """,
        dtype="bf16",
    )


def test_evaluation_that_goes_backward_is_told_to_stay_in_float32(rewrites: Check) -> None:
    plan = rewrites(
        """
        ~ APEX
          MODEL
        ~ INITIALIZE
        ~ APEX_EPOCH

          def evaluate(model, loader):
              total = 0.0
              for x, y in loader:
                  loss = nn.functional.mse_loss(model(x), y)
                  loss.backward()
                  model.zero_grad()
                  total += loss.item()
              return total

          def backward(loss):
              loss.backward()
        """
    )
    (told,) = (each for each in plan.findings if each.code == "AMP211")
    assert told.message == "evaluation stays in float32: it goes backward by itself"
    assert plan.source.text.splitlines()[told.line - 1].strip() == "loss = nn.functional.mse_loss(model(x), y)"


def test_plain_step_beside_apex_is_told_and_stays_in_float32(rewrites: Check) -> None:
    plan = rewrites(
        """
        ~ APEX
          MODEL
        ~ INITIALIZE
        ~ APEX_EPOCH

          def attack(model, x):
              x.requires_grad_()
              model(x).sum().backward()
              return x.grad.sign()

          def warm(model, loader):
              optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
              for x, y in loader:
                  optimizer.zero_grad()
                  loss = nn.functional.mse_loss(model(x), y)
        +         # amp-migrate: ignore[AMP501] (float32: Apex did not scale it)
                  loss.backward()
                  optimizer.step()
        """
    )
    told = [each for each in plan.findings if each.code == "AMP590"]
    assert [each.message for each in told] == ["step left in float32: Apex does not scale its loss"]


def test_a_method_that_keeps_what_it_prepares_for_itself_has_a_scaler_of_its_own(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          class Learner:
              def __init__(self, data):
                  self.data, self.model = data, nn.Linear(2, 2).cuda()
                  self.optimizer = None
              def fit(self):
                  optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        -         self.model, optimizer = amp.initialize(self.model, optimizer)
        +         scaler = torch.amp.GradScaler("cuda")
                  for x in self.data:
        ~             loss = self.model(x).mean()
        ~             SCALE_LOSS
        ~             optimizer.step()
                      optimizer.zero_grad()
              def search(self):
                  self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        -         self.model, self.optimizer = amp.initialize(self.model, self.optimizer)
        +         self.scaler = torch.amp.GradScaler("cuda")
                  for x in self.data:
                      self.train(x)
              def train(self, x):
                  self.optimizer.zero_grad()
        ~         loss = self.model(x).mean()
        -         with amp.scale_loss(loss, self.optimizer) as scaled_loss:
        -             scaled_loss.backward()
        -         self.optimizer.step()
        +         self.scaler.scale(loss).backward()
        +         self.scaler.step(self.optimizer)
        +         self.scaler.update()
        """
    )
