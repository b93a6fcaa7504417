"""What a loss is made of is followed through loops and methods, and no further than gradients go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]


def test_loss_that_is_summed_over_a_loop_through_the_outputs(rewrites: Check) -> None:
    rewrites(
        """
          vgg = nn.Sequential(nn.Linear(2, 2))
          target = torch.randn(1, 2, device="cuda", requires_grad=True)
        ~ optimizer = torch.optim.Adam([target])
          for step in range(10):
        ~     features = vgg(target)
        ~     wanted = vgg(content)
        ~     style = 0
        ~     for one, other in zip(features, wanted):
        ~         style += torch.mean((one - other) ** 2)
        ~     loss = 2 * style
              optimizer.zero_grad()
        ~     STEP
        """
    )


def test_forward_in_a_method_that_leaves_its_result_in_self(rewrites: Check) -> None:
    rewrites(
        """
          class Trainer:
              def __init__(self):
                  self.net = nn.Linear(2, 2)
                  self.criterion = nn.MSELoss()
                  self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
        +         self.scaler = torch.amp.GradScaler("cuda")

              def forward(self):
                  self.output = self.net(self.input)

              def compute_loss(self):
                  return self.criterion(self.output, self.target)

              def optimize(self, x, y):
                  self.input, self.target = x, y
        ~         self.forward()
        ~         self.loss = self.compute_loss()
                  self.optimizer.zero_grad()
        -         self.loss.backward()
        -         self.optimizer.step()
        +         self.scaler.scale(self.loss).backward()
        +         self.scaler.step(self.optimizer)
        +         self.scaler.update()
        """
    )


def test_forward_in_a_method_in_bfloat16(rewrites: Check) -> None:
    rewrites(
        """
          class Trainer:
              def __init__(self):
                  self.net = nn.Linear(2, 2)
                  self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

              def forward(self, x):
                  self.output = self.net(x)

              def optimize(self, x, y):
                  self.optimizer.zero_grad()
        -         self.forward(x)
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.bfloat16):
        +             self.forward(x)
        -         nn.functional.mse_loss(self.output, y).backward()
        +             loss = nn.functional.mse_loss(self.output, y)
        +         loss.backward()
                  self.optimizer.step()
        """,
        "bf16",
    )


def test_forward_of_another_attribute_stays_outside(rewrites: Check) -> None:
    rewrites(
        """
          class Trainer:
              def __init__(self):
                  self.net = nn.Linear(2, 2)
                  self.teacher = nn.Linear(2, 2)
                  self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
        +         self.scaler = torch.amp.GradScaler("cuda")

              def show(self):
                  self.shown = self.teacher(self.input)

              def optimize(self, x, y):
                  self.show()
        ~         loss = nn.functional.mse_loss(self.net(x), y)
        -         loss.backward()
        -         self.optimizer.step()
        +         self.scaler.scale(loss).backward()
        +         self.scaler.step(self.optimizer)
        +         self.scaler.update()
        """
    )


AGENT = """
  class Agent(nn.Module):
      def __init__(self):
          super().__init__()
          self.actor = nn.Linear(4, 2)
          self.names = []

      def get_action(self, x):
          return self.actor(x).softmax(-1)

      def get_names(self):
          return self.names

"""


def test_method_that_gets_something_by_running_the_model_is_a_forward(rewrites: Check) -> None:
    rewrites(
        AGENT
        + """\
  agent = Agent()
~ optimizer = torch.optim.Adam(agent.parameters())
  for x, reward in loader:
~     loss = (-agent.get_action(x).log() * reward).mean()
~     STEP
"""
    )


def test_method_that_gets_something_without_running_the_model_is_none(leaves: Check) -> None:
    leaves(
        "\n".join(line[2:] for line in AGENT.splitlines())
        + """
agent = Agent()
optimizer = torch.optim.Adam(agent.parameters())
for x in loader:
    loss = measure(agent.get_names(), x)
    STEP
""",
        "the forward pass behind `loss` cannot be seen: nothing says what `measure` is",
    )


def test_acting_on_a_replay_memory_is_no_part_of_the_loss(rewrites: Check) -> None:
    rewrites(
        """
          q_network = nn.Linear(4, 2)
        ~ optimizer = torch.optim.Adam(q_network.parameters())
          memory = []
          for step in range(10):
              if step < 5:
                  action = draw()
              else:
                  values = q_network(torch.tensor(state))
                  action = values.argmax(1).cpu().numpy()
              state, reward = env.step(action)
              memory.append((state, action, reward))
              x, y = sample(memory)
        ~     loss = nn.functional.mse_loss(q_network(x), y)
        ~     STEP
        """
    )


def test_value_that_is_overwritten_after_it_was_read_still_counts(rewrites: Check) -> None:
    rewrites(
        """
        ~ MODEL
          for x, y in loader:
        ~     if deep:
        ~         out = model(x)
        ~         first = out.mean()
        ~         out = first.detach() * x
        ~     else:
        ~         first, out = model(x).sum(), x
        ~     loss = first + nn.functional.mse_loss(out, y)
        ~     STEP
        """
    )


@pytest.mark.parametrize("drawn", ["draw(policy(state)).item()", "int(draw(policy(state)))"])
def test_function_that_gives_plain_numbers_is_no_part_of_the_loss(rewrites: Check, drawn: str) -> None:
    rewrites(
        """
          policy = nn.Linear(4, 2).cuda()
        ~ optimizer = torch.optim.Adam(policy.parameters())

          def act(state):
              return DRAWN

          def update():
              states, actions = [], []
              while len(states) < 100:
                  action = act(states[-1])
                  states.append(env.step(action))
                  actions.append(action)
        ~     loss = nn.functional.cross_entropy(policy(torch.tensor(states)), torch.tensor(actions))
        ~     STEP
        """.replace("DRAWN", drawn)
    )
