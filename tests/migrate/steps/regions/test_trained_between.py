"""What trains by itself between a forward and the loss is in no region of theirs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]


def test_derived_class_that_trains_a_critic_between_forward_and_loss(rewrites: Check) -> None:
    rewrites(
        """
          class Trainer:
              def __init__(self, net):
                  self.net = net
                  self.optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        +         self.scaler = torch.amp.GradScaler("cuda")

              def epoch(self, loader):
                  for x, y in loader:
                      self.optimizer.zero_grad()
        ~             loss = nn.functional.mse_loss(self.net(x), y)
        -             loss.backward()
        -             self.optimizer.step()
        +             self.scaler.scale(loss).backward()
        +             self.scaler.step(self.optimizer)
        +             self.scaler.update()


          class GANTrainer(Trainer):
              def __init__(self, net, critic):
                  super().__init__(net)
                  self.critic = critic
                  self.critic_optimizer = torch.optim.SGD(critic.parameters(), lr=0.1)
        +         self.scaler = torch.amp.GradScaler("cuda")

              def epoch(self, loader):
                  for x, y in loader:
                      self.optimizer.zero_grad()
        -             out = self.net(x)
        +             with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +                 out = self.net(x)
                      for each in (y, out.detach()):
                          self.learn(each)
        ~             loss = nn.functional.mse_loss(out, y) - self.critic(out).mean()
        -             loss.backward()
        -             self.optimizer.step()
        +             self.scaler.scale(loss).backward()
        +             self.scaler.step(self.optimizer)
        +             self.scaler.update()

              def learn(self, x):
                  self.critic_optimizer.zero_grad()
        ~         loss = self.critic(x).mean()
        -         loss.backward()
        -         self.critic_optimizer.step()
        +         self.scaler.scale(loss).backward()
        +         self.scaler.step(self.critic_optimizer)
        +         self.scaler.update()


          Trainer(nn.Linear(2, 2)).epoch(loader)
          GANTrainer(nn.Linear(2, 2), nn.Linear(2, 1)).epoch(loader)
        """
    )


@pytest.mark.parametrize(
    "call", ["learn(out.detach())", "logged = learn(out.detach())", "logs += [learn(out.detach())]"]
)
def test_function_that_trains_a_critic_between_forward_and_loss(rewrites: Check, call: str) -> None:
    rewrites(
        f"""
          net = nn.Linear(2, 2)
          critic = nn.Linear(2, 1)
          optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        + scaler = torch.amp.GradScaler("cuda")
          critic_optimizer = torch.optim.SGD(critic.parameters(), lr=0.1)
          logs = []


          def learn(x):
              critic_optimizer.zero_grad()
        ~     loss = critic(x).mean()
        -     loss.backward()
        -     critic_optimizer.step()
        +     scaler.scale(loss).backward()
        +     scaler.step(critic_optimizer)
        +     scaler.update()
              return loss.item()


          for x, y in loader:
              optimizer.zero_grad()
        -     out = net(x)
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +         out = net(x)
              {call}
        ~     loss = nn.functional.mse_loss(out, y) - critic(out).mean()
        ~     STEP
        """
    )


def test_function_that_only_evaluates_stays_in_the_region(rewrites: Check) -> None:
    rewrites(
        """
          model = nn.Linear(2, 2)
        ~ optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


          def shown(x):
              return x.mean().item()


          for x, y in loader:
              optimizer.zero_grad()
        ~     out = model(x)
        ~     print(shown(out.detach()))
        ~     loss = nn.functional.mse_loss(out, y)
        ~     STEP
        """
    )


def test_function_that_trains_a_critic_and_gives_the_loss(rewrites: Check) -> None:
    rewrites(
        """
        - def compute(net, critic, critic_optimizer, x):
        + def compute(net, critic, critic_optimizer, scaler, x):
        -     out = net(x)
        -     critic_loss = critic(out.detach()).mean()
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +         out = net(x)
        +         critic_loss = critic(out.detach()).mean()
              critic_optimizer.zero_grad()
        -     critic_loss.backward()
        -     critic_optimizer.step()
        -     return -critic(out).mean()
        +     scaler.scale(critic_loss).backward()
        +     scaler.step(critic_optimizer)
        +     scaler.update()
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +         return -critic(out).mean()


          net = nn.Linear(2, 2)
          critic = nn.Linear(2, 1)
          optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        + scaler = torch.amp.GradScaler("cuda")
          critic_optimizer = torch.optim.SGD(critic.parameters(), lr=0.1)
          for x in loader:
              optimizer.zero_grad()
        -     loss = compute(net, critic, critic_optimizer, x)
        +     loss = compute(net, critic, critic_optimizer, scaler, x)
        ~     STEP
        """
    )
