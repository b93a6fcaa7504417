"""What a function is handed is what its callers hand on, whatever it is called there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Check = Callable[..., Any]

SOLVED = """
- def train_one_epoch(net, solver):
+ def train_one_epoch(net, solver, scaler):
      for x, y in loader:
~         loss = nn.functional.mse_loss(net(x), y)
          net.zero_grad()
~         loss.backward()
-         solver.step()
+         scaler.step(solver)
+         scaler.update()

  def train():
      net = nn.Linear(2, 2).cuda()
      solver = torch.optim.SGD(net.parameters(), lr=0.1)
+     scaler = torch.amp.GradScaler("cuda")
      for epoch in range(10):
-         train_one_epoch(net, solver)
+         train_one_epoch(net, solver, scaler)

  train()
"""


def test_an_optimizer_that_every_call_hands_on_is_one_whatever_its_name(rewrites: Check) -> None:
    rewrites(SOLVED)


def test_what_one_call_hands_on_as_something_else_is_no_optimizer(leaves: Check) -> None:
    lines = [each[2:] for each in SOLVED.splitlines() if not each.startswith("+")]
    text = "\n".join([*lines, "train_one_epoch(nn.Linear(2, 2), Games())"])
    leaves(text, "no optimizer.step() belongs to this backward() in the same function")


def test_a_network_in_an_attribute_of_what_a_method_is_handed_is_a_forward(rewrites: Check) -> None:
    rewrites(
        """
          class Setting:
              def __init__(self):
                  self.encoder = nn.Linear(8, 4).cuda()
                  self.optimizer = torch.optim.Adam(self.encoder.parameters())

          class Compute:
              def forward(self, inputs, outputs, setting):
                  outputs["f"] = setting.encoder(inputs.cuda())
                  return outputs

              def loss(self, outputs):
                  outputs["loss"] = (outputs["f"] - 1).abs().mean()
                  return outputs

          class Trainer:
              def __init__(self):
                  self.setting = Setting()
        +         self.scaler = torch.amp.GradScaler("cuda")
                  self.compute = Compute()

              def train(self):
                  for inputs in loader:
        ~             outputs = self.process(inputs)
                      self.setting.optimizer.zero_grad()
        -             outputs["loss"].backward()
        -             self.setting.optimizer.step()
        +             self.scaler.scale(outputs["loss"]).backward()
        +             self.scaler.step(self.setting.optimizer)
        +             self.scaler.update()

              def process(self, inputs):
                  return self.compute.loss(self.compute.forward(inputs, {}, self.setting))

          Trainer().train()
        """
    )


def test_an_instance_that_takes_the_name_of_its_class_is_a_module(rewrites: Check) -> None:
    rewrites(
        """
          class forecast(nn.Module):
              def __init__(self):
                  super().__init__()
                  self.out = nn.Linear(2, 4)

              def forward(self, x):
                  return self.out(x)

          forecast = forecast().cuda()
        ~ optimizer = torch.optim.Adam(forecast.parameters())
          for x, y in loader:
        ~     loss = nn.functional.mse_loss(forecast(x.cuda()), y.cuda())
              optimizer.zero_grad()
        ~     loss.backward()
        ~     optimizer.step()
        """
    )


PAIR = """
  class Pair:
      def __init__(self):
          self.student = nn.Linear(8, 4).cuda()

      def run(self, x):
          return self.student(x)

- def train(pair, optimizer):
+ def train(pair, optimizer, scaler):
      for x, y in loader:
~         loss = nn.functional.mse_loss(pair.run(x), y)
          optimizer.zero_grad()
~         loss.backward()
-         optimizer.step()
+         scaler.step(optimizer)
+         scaler.update()

  def main():
      pair = Pair()
      optimizer = torch.optim.SGD(pair.student.parameters(), lr=0.1)
+     scaler = torch.amp.GradScaler("cuda")
-     train(pair, optimizer)
+     train(pair, optimizer, scaler)

  main()
"""


def test_a_method_of_a_plain_object_that_all_calls_hand_on_is_a_forward(rewrites: Check) -> None:
    rewrites(PAIR)


def test_a_method_of_an_object_that_one_call_has_from_out_of_sight_is_none(leaves: Check) -> None:
    text = "\n".join(each[2:] for each in PAIR.splitlines() if not each.startswith("+"))
    leaves(text + "\ntrain(unseen(), optimizer)", "nothing says what `pair.run` is")


def test_one_of_the_layers_that_a_method_chooses_from_is_a_forward(rewrites: Check) -> None:
    rewrites(
        """
          class Layers(nn.Module):
              def __init__(self):
                  super().__init__()
                  self.first = nn.Linear(4, 4)
                  self.second = nn.Linear(4, 4)

              def get(self, i):
                  return [self.first, self.second][i]

          def solve(target, chosen):
              x = nn.Parameter(torch.zeros(4, device="cuda"))
              optimizer = torch.optim.SGD([x], lr=0.1)
        +     scaler = torch.amp.GradScaler("cuda")
              for _ in range(100):
                  optimizer.zero_grad()
        ~         loss = (chosen(x) - target).pow(2).sum()
        ~         loss.backward()
        -         optimizer.step()
        +         scaler.step(optimizer)
        +         scaler.update()
              return x.detach()

          layers = Layers().cuda()
          found = []
          for i in range(2):
              found.append(solve(torch.rand(4).cuda(), layers.get(i)))
        """
    )


ROUNDS = """
def solve(target, chosen):
    x = nn.Parameter(torch.zeros(4, device="cuda"))
    optimizer = torch.optim.SGD([x], lr=0.1)
    for _ in range(100):
        optimizer.zero_grad()
        loss = (chosen(x) - target).pow(2).sum()
        loss.backward()
        optimizer.step()
    return x.detach()

model = nn.Linear(4, 4).cuda()
target = model(torch.rand(4).cuda())
solve(target, unseen(model))
"""


def test_no_forward_of_a_caller_is_in_each_round_of_a_loop(leaves: Check) -> None:
    leaves(ROUNDS, "the forward pass behind `loss` cannot be seen: nothing says what `chosen` is")
