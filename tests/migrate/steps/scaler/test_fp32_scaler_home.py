"""Where the scaler of a float32 script is made: beside the optimizer, in every kind of place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]


def test_scaler_is_made_after_the_optimizer_at_module_level(rewrites: Check) -> None:
    rewrites(
        """
          model = nn.Linear(2, 2).cuda()
          criterion = nn.CrossEntropyLoss()
        ~ optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
          for inputs, targets in loader:
              optimizer.zero_grad()
        ~     outputs = model(inputs)
        ~     loss = criterion(outputs, targets)
        ~     STEP
              print(loss.item())
        """
    )


def test_scaler_is_an_attribute_where_the_optimizer_is(rewrites: Check) -> None:
    rewrites(
        """
          class Trainer:
              def __init__(self, model):
                  self.model = model
                  self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        +         self.scaler = torch.amp.GradScaler("cuda")
                  self.criterion = nn.MSELoss()

              def step(self, x, y):
                  self.optimizer.zero_grad()
        ~         loss = self.criterion(self.model(x), y)
        -         loss.backward()
        -         self.optimizer.step()
        +         self.scaler.scale(loss).backward()
        +         self.scaler.step(self.optimizer)
        +         self.scaler.update()
                  return loss.item()
        """
    )


def test_scaler_is_made_in_the_class_that_is_given_the_optimizer(rewrites: Check) -> None:
    rewrites(
        """
          class Trainer:
              def __init__(self, model, optimizer):
                  self.model = model
                  self.optimizer = optimizer
        +         self.scaler = torch.amp.GradScaler("cuda")

              def fit(self, loader):
                  for x, y in loader:
        ~             loss = nn.functional.mse_loss(self.model(x), y)
        -             loss.backward()
        -             self.optimizer.step()
        +             self.scaler.scale(loss).backward()
        +             self.scaler.step(self.optimizer)
        +             self.scaler.update()
                      self.optimizer.zero_grad()

          MODEL
          Trainer(model, optimizer).fit(loader)
        """
    )


def test_closure_sees_the_scaler_of_the_function_around_it(rewrites: Check) -> None:
    rewrites(
        """
          def main():
        ~     MODEL

              def train_step(x, y):
                  optimizer.zero_grad()
        ~         loss = nn.functional.mse_loss(model(x), y)
        ~         STEP

              for x, y in loader:
                  train_step(x, y)
        """
    )


def test_function_sees_the_scaler_of_the_module(rewrites: Check) -> None:
    rewrites(
        """
        ~ MODEL

          def train(epoch):
              for x, y in loader:
                  optimizer.zero_grad()
        ~         loss = nn.functional.mse_loss(model(x), y)
        ~         STEP

          train(1)
        """
    )


def test_functions_of_one_name_train_what_is_bound_when_they_are_called(rewrites: Check) -> None:
    rewrites(
        """
          generator, discriminator = nn.Linear(4, 4), nn.Linear(4, 1)
          opt_g = torch.optim.Adam(generator.parameters())
          opt_d = torch.optim.Adam(discriminator.parameters())
        + scaler = torch.amp.GradScaler("cuda")
          def train():
              for x, y in loader:
                  opt_d.zero_grad()
        ~         d_loss = discriminator(x).mean()
        ~         d_loss.backward()
        -         opt_d.step()
        +         scaler.step(opt_d)
                  opt_g.zero_grad()
        ~         g_loss = discriminator(generator(x)).mean()
        ~         g_loss.backward()
        ~         opt_g.step()
          train()
          generator, discriminator = nn.Linear(5, 4), nn.Linear(5, 1)
          opt_g = torch.optim.Adam(generator.parameters())
          opt_d = torch.optim.Adam(discriminator.parameters())
          def train():
              for x, y in loader:
                  opt_d.zero_grad()
        ~         d_loss = discriminator(y).mean()
        ~         d_loss.backward()
        -         opt_d.step()
        +         scaler.step(opt_d)
                  opt_g.zero_grad()
        ~         g_loss = discriminator(torch.cat([generator(y), y], 1)).mean()
        ~         g_loss.backward()
        ~         opt_g.step()
          train()
        """
    )


def test_optimizer_may_come_from_a_function(rewrites: Check) -> None:
    rewrites(
        """
          def make(model):
              return torch.optim.SGD(model.parameters(), lr=0.1)

          def main():
              model = nn.Linear(2, 2)
        ~     optimizer = make(model)
        ~     EPOCH
        """
    )


def test_optimizer_may_be_unpacked(rewrites: Check) -> None:
    rewrites(
        """
          def main():
              model, optimizer = build()
        +     scaler = torch.amp.GradScaler("cuda")
        ~     EPOCH
        """
    )


def test_optimizer_made_in_branches_has_one_scaler_behind_them(rewrites: Check) -> None:
    rewrites(
        """
          model = nn.Linear(2, 2)
          if args.adam:
              optimizer = torch.optim.Adam(model.parameters())
          else:
              optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        + scaler = torch.amp.GradScaler("cuda")
          for x, y in loader:
        ~     loss = nn.functional.mse_loss(model(x), y)
              optimizer.zero_grad()
        ~     STEP
        """
    )


def test_taken_name_is_not_used_again(rewrites: Check) -> None:
    rewrites(
        """
          model = nn.Linear(2, 2)
          scaler = StandardScaler()
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        + grad_scaler = torch.amp.GradScaler("cuda")
          for x, y in loader:
        ~     loss = nn.functional.mse_loss(model(x), y)
        -     loss.backward()
        -     optimizer.step()
        +     grad_scaler.scale(loss).backward()
        +     grad_scaler.step(optimizer)
        +     grad_scaler.update()
              optimizer.zero_grad()
        """
    )


def test_scaler_stays_with_the_optimizer_that_a_method_gives_another_name(rewrites: Check) -> None:
    rewrites(
        """
          class Trainer:
              def __init__(self, model):
                  self.model = model
                  self.optimizers = [torch.optim.SGD(model.parameters(), lr=0.1)]
        +         self.scaler = torch.amp.GradScaler("cuda")

              def step(self, x, y):
                  optimizer = self.optimizers[0]
                  optimizer.zero_grad()
        ~         loss = nn.functional.mse_loss(self.model(x), y)
        -         loss.backward()
        -         optimizer.step()
        +         self.scaler.scale(loss).backward()
        +         self.scaler.step(optimizer)
        +         self.scaler.update()
        """
    )


def test_scaler_follows_a_chain_of_names(rewrites: Check) -> None:
    rewrites(
        """
          model = nn.Linear(2, 2).cuda()
          adam = torch.optim.Adam(model.parameters())
        + scaler = torch.amp.GradScaler("cuda")
          current = adam

          def train(loader):
              optimizer = current
              for x, y in loader:
                  optimizer.zero_grad()
        ~         loss = nn.functional.mse_loss(model(x), y)
        ~         STEP
        """
    )


@pytest.mark.parametrize(
    "chosen",
    [
        ["policy = self.other if test else self.net", "opt = self.other_optimizer if test else self.optimizer"],
        [
            "policy = test and self.other or self.net",
            "opt = (self.other_optimizer if test else None) or self.optimizer",
        ],
        [
            "if test:",
            "    policy, opt = self.other, self.other_optimizer",
            "else:",
            "    policy, opt = self.net, self.optimizer",
        ],
        [
            "policy = self.other",
            "opt = self.other_optimizer",
            "if not test:",
            "    policy = self.net",
            "    opt = self.optimizer",
        ],
    ],
)
@pytest.mark.parametrize("prepare", ["__init__", "prepare_test"])
def test_network_and_optimizer_are_chosen_by_a_flag(rewrites: Check, chosen: list[str], prepare: str) -> None:
    is_later = prepare != "__init__"
    rewrites(
        "\n".join(
            [
                "  class Agent:",
                "      def __init__(self, net):",
                *(['+         self.scaler = torch.amp.GradScaler("cuda")'] if is_later else []),
                "          self.net = nn.Linear(2, 2)",
                "          self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)",
                *([] if is_later else ['+         self.scaler = torch.amp.GradScaler("cuda")']),
                *(["", "      def prepare_test(self):"] if is_later else []),
                "          self.other = nn.Linear(2, 2)",
                "          self.other_optimizer = torch.optim.SGD(self.other.parameters(), lr=1.0)",
                "",
                "      def update(self, loader, test):",
                *(f"          {each}" for each in chosen),
                "          for x, y in loader:",
                "              opt.zero_grad()",
                "~             loss = nn.functional.cross_entropy(policy(x), y)",
                "-             loss.backward()",
                "-             opt.step()",
                "+             self.scaler.scale(loss).backward()",
                "+             self.scaler.step(opt)",
                "+             self.scaler.update()",
                "",
            ]
        )
    )


def test_scaler_is_handed_on_with_one_of_two_optimizers(rewrites: Check) -> None:
    rewrites(
        """
        - def train(model, optimizer, loader):
        + def train(model, optimizer, scaler, loader):
              for x, y in loader:
                  optimizer.zero_grad()
        ~         loss = nn.functional.mse_loss(model(x), y)
        ~         STEP


          def main(model, loader, slowly):
              fast = torch.optim.SGD(model.parameters(), lr=0.1)
              slow = torch.optim.SGD(model.parameters(), lr=0.01)
        +     scaler = torch.amp.GradScaler("cuda")
        -     train(model, slow if slowly else fast, loader)
        +     train(model, slow if slowly else fast, scaler, loader)
        """
    )


def test_scaler_is_made_beside_an_optimizer_that_is_made_for_training_only(rewrites: Check) -> None:
    rewrites(
        """
          model = nn.Linear(2, 2).cuda()
        ~ optimizer = torch.optim.SGD(model.parameters(), lr=0.1) if args.train else None
          for x, y in loader:
              optimizer.zero_grad()
        ~     loss = nn.functional.mse_loss(model(x), y)
        ~     STEP
        """
    )


def test_scaler_is_as_old_as_the_object_that_a_method_gives_its_optimizer(rewrites: Check) -> None:
    rewrites(
        """
          class AutoEncoder(nn.Module):
              def __init__(self):
                  super().__init__()
                  self.body = nn.Linear(8, 8)

              def forward(self, x):
                  return self.body(x)

              def set_optimizer(self):
                  self.optimizer = torch.optim.Adam(self.parameters(), lr=1e-3)

          net = AutoEncoder().cuda()
        + scaler = torch.amp.GradScaler("cuda")
          net.set_optimizer()
          for x in loader:
        ~     loss = nn.functional.mse_loss(net(x), x)
              net.optimizer.zero_grad()
        -     loss.backward()
        -     net.optimizer.step()
        +     scaler.scale(loss).backward()
        +     scaler.step(net.optimizer)
        +     scaler.update()
        """
    )


NETWORK = """
          class Network(nn.Module):
              def __init__(self):
                  super().__init__()
                  self.layer = nn.Linear(4, 2)
                  self.optimizer = torch.optim.Adam(self.parameters())

              def forward(self, x):
                  return self.layer(x)

"""


def test_scaler_is_made_by_the_object_that_steps_the_optimizers_of_its_networks(rewrites: Check) -> None:
    rewrites(
        NETWORK
        + """
          class Agent:
              def __init__(self):
                  self.actor = Network().cuda()
                  self.critic = Network().cuda()
        +         self.scaler = torch.amp.GradScaler("cuda")

              def learn(self, x, y):
                  self.actor.optimizer.zero_grad()
                  self.critic.optimizer.zero_grad()
        ~         loss = nn.functional.mse_loss(self.actor(x), y) + self.critic(x).mean()
        -         loss.backward()
        +         self.scaler.scale(loss).backward()
        +         self.scaler.unscale_(self.actor.optimizer)
        +         self.scaler.unscale_(self.critic.optimizer)
                  nn.utils.clip_grad_norm_(self.actor.parameters(), 1.0)
        -         self.actor.optimizer.step()
        -         self.critic.optimizer.step()
        +         self.scaler.step(self.actor.optimizer)
        +         self.scaler.step(self.critic.optimizer)
        +         self.scaler.update()
        """
    )


def test_scaler_is_made_by_the_base_class_that_is_given_a_network_with_its_optimizer(rewrites: Check) -> None:
    rewrites(
        NETWORK
        + """
          class Base:
              def __init__(self, net):
                  self.net = net
        +         self.scaler = torch.amp.GradScaler("cuda")

              def save(self, path):
        -         torch.save({"optimizer": self.net.optimizer.state_dict()}, path)
        +         torch.save({"optimizer": self.net.optimizer.state_dict(), "scaler": self.scaler.state_dict()}, path)

          class Agent(Base):
              def learn(self, x, y):
                  self.net.optimizer.zero_grad()
        ~         loss = nn.functional.mse_loss(self.net(x), y)
        -         loss.backward()
        -         self.net.optimizer.step()
        +         self.scaler.scale(loss).backward()
        +         self.scaler.step(self.net.optimizer)
        +         self.scaler.update()

          agent = Agent(Network().cuda())
          for x, y in loader:
              agent.learn(x, y)
        """
    )


_OF_A_PROPERTY = """
      class Trainer:
          def __init__(self, model, optimizer, momentum):
              self.model = model
              self._optimizer = optimizer
    HOME
          @property
          def optimizer(self):
              RETURN

          def train(self, loader):
              for epoch in range(3):
                  self.epoch(loader)

          def epoch(self, loader):
              for x, y in loader:
                  self.optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    "gives", ["return self._optimizer", "assert self._optimizer is not None; return self._optimizer"]
)
def test_scaler_is_made_beside_the_optimizer_that_a_property_gives(rewrites: Check, gives: str) -> None:
    rewrites(
        _OF_A_PROPERTY.replace("RETURN", gives).replace(
            "    HOME\n", '    +         self.scaler = torch.amp.GradScaler("cuda")\n\n'
        )
        + """\
    ~             loss = F.mse_loss(self.model(x), y)
    -             loss.backward()
    -             self.optimizer.step()
    +             self.scaler.scale(loss).backward()
    +             self.scaler.step(self.optimizer)
    +             self.scaler.update()
"""
    )


@pytest.mark.parametrize("gives", ["return chosen(self)", "return self._optimizer if self.model else chosen(self)"])
def test_what_else_a_property_gives_is_not_assigned_anywhere(leaves: Check, gives: str) -> None:
    leaves(
        _OF_A_PROPERTY.replace("RETURN", gives).replace("    HOME\n", "\n")
        + """\
                  loss = F.mse_loss(self.model(x), y)
                  loss.backward()
                  self.optimizer.step()
""",
        "`self.optimizer` is not assigned in this class",
    )


@pytest.mark.parametrize(
    "chosen",
    [
        'optimizer = torch.optim.SGD(net.parameters()) if name == "sgd" else torch.optim.Adam(net.parameters())',
        'if name == "sgd":\n        optimizer = torch.optim.SGD(net.parameters())\n    else:\n'
        "        optimizer = torch.optim.Adam(net.parameters())",
    ],
)
def test_an_optimizer_of_one_of_two_kinds_for_each_setting_has_its_scaler_beside_it(
    chosen: str, migrate: Check
) -> None:
    plan = migrate(
        f"""
for name in ("sgd", "adam"):
    net = nn.Linear(2, 2).cuda()
    {chosen}
    for x in loader:
        loss = net(x.cuda()).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
    )
    assert '    scaler = torch.amp.GradScaler("cuda")\n    for x in loader:' in plan.after


def test_a_function_that_makes_one_of_two_kinds_in_every_call_makes_the_scaler_as_well(migrate: Check) -> None:
    plan = migrate(
        """
def train(name):
    net = nn.Linear(2, 2).cuda()
    if name == "sgd":
        optimizer = torch.optim.SGD(net.parameters())
    else:
        optimizer = torch.optim.Adam(net.parameters())
    for x in loader:
        loss = net(x.cuda()).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

train(input())
for _ in range(3):
    train(input())
"""
    )
    assert '    scaler = torch.amp.GradScaler("cuda")\n    for x in loader:' in plan.after
