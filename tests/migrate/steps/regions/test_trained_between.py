"""What trains by itself between a forward and the loss is in no region of theirs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

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
          critic_optimizer = torch.optim.SGD(critic.parameters(), lr=0.1)
        + scaler = torch.amp.GradScaler("cuda")
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
          critic_optimizer = torch.optim.SGD(critic.parameters(), lr=0.1)
        + scaler = torch.amp.GradScaler("cuda")
          for x in loader:
              optimizer.zero_grad()
        -     loss = compute(net, critic, critic_optimizer, x)
        +     loss = compute(net, critic, critic_optimizer, scaler, x)
        ~     STEP
        """
    )


FITTING = """
  import torch
  import zoo
  from torch import nn


  class Adapting(zoo.Learner):
      def __init__(self):
          super().__init__()
          self.body = nn.Linear(4, 4)

      def forward(self, x):
          return super().forward(x)

      def adapt(self, x, y):
          with torch.no_grad():
-             codes = self.body(x)
-         return self.fit(codes, y)
+             with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
+                 codes = self.body(x)
+         return self.fit(codes.float(), y)

      def fit(self, codes, y):
          head = nn.Linear(4, 2).cuda()
          optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
+         scaler = torch.amp.GradScaler("cuda")
          for _ in range(20):
              optimizer.zero_grad()
-             loss = nn.functional.cross_entropy(head(codes), y)
-             loss.backward()
-             optimizer.step()
+             with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
+                 loss = nn.functional.cross_entropy(head(codes), y)
+             scaler.scale(loss).backward()
+             scaler.step(optimizer)
+             scaler.update()
          return head(codes)
"""
LEARNING = """
  import torch
  import learners


  def train(loader):
      learner = learners.Adapting().cuda()
      optimizer = torch.optim.SGD(learner.parameters(), lr=0.1)
+     scaler = torch.amp.GradScaler("cuda")
      for x, y in loader:
          optimizer.zero_grad()
-         loss = learner(x.cuda())
-         loss.backward()
-         optimizer.step()
+         with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
+             loss = learner(x.cuda())
+         scaler.scale(loss).backward()
+         scaler.step(optimizer)
+         scaler.update()
      return evaluate(learner, loader)


  def evaluate(learner, loader):
      learner.eval()
      return [learner(x.cuda()).argmax(1) for x, y in loader]
"""


def test_what_may_train_by_itself_is_evaluated_in_no_region(rewrites_files: Check) -> None:
    """What its base calls, nobody has read: `adapt()`, as likely as not."""
    rewrites_files({"learners.py": FITTING, "train.py": LEARNING})


def test_a_head_is_not_trained_in_the_region_of_its_features(rewrites_files: Check) -> None:
    evaluated = """
-     return [learner(x.cuda()).argmax(1) for x, y in loader]
+     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
+         return [learner(x.cuda()).argmax(1) for x, y in loader]
"""
    plain = "\n".join(line for line in FITTING.splitlines() if "backward" not in line and "step(" not in line)
    plain = plain[: plain.index("\n      def adapt")]
    *head, _ = LEARNING.splitlines()
    rewrites_files({"learners.py": plain, "train.py": "\n".join(head) + evaluated})


def test_a_cast_is_kept_while_a_region_round_all_steps_is_open() -> None:
    """Steps in such a region go on from the first weights."""
    weight = nn.Parameter(torch.ones(2, 2))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        before = nn.functional.linear(torch.ones(2), weight)
        with torch.no_grad():
            weight.add_(1)
        assert torch.equal(nn.functional.linear(torch.ones(2), weight), before)


AGENT = """
  import torch
  from torch import nn


  class Policy:
      def __init__(self):
          self.net = nn.Linear(2, 1).cuda()
          self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
+         self.scaler = torch.amp.GradScaler("cuda")

      def {method}(self, x):
~         loss = self.net(x).mean()
          self.optimizer.zero_grad()
-         loss.backward()
-         self.optimizer.step()
+         self.scaler.scale(loss).backward()
+         self.scaler.step(self.optimizer)
+         self.scaler.update()
"""
RAISING = """
  import torch
- from apex import amp
  from torch import nn
  from agent import Policy


- def train(loader, model, optimizer, policy, args):
+ def train(loader, model, optimizer, scaler, policy, args):
      for x, y in loader:
-         out = model(x.cuda())
+         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=bool(args.fp16)):
+             out = model(x.cuda())
          {call}
-         loss = nn.functional.mse_loss(out, y.cuda())
+         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=bool(args.fp16)):
+             loss = nn.functional.mse_loss(out, y.cuda())
          optimizer.zero_grad()
-         if args.fp16:
-             with amp.scale_loss(loss, optimizer) as scaled_loss:
-                 scaled_loss.backward()
-         else:
-             loss.backward()
-         optimizer.step()
+         scaler.scale(loss).backward()
+         scaler.step(optimizer)
+         scaler.update()


  def main(args, loader):
      model = nn.Linear(2, 2).cuda()
      optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
-     if args.fp16:
-         model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
-     train(loader, model, optimizer, {policy}, args)
+     scaler = torch.amp.GradScaler("cuda", enabled=bool(args.fp16))
+     train(loader, model, optimizer, scaler, {policy}, args)
"""


@pytest.mark.parametrize(
    ("method", "policy"),
    [("learn", "Policy()"), ("update", "Policy()"), ("learn", "args.policies['plain']()")],
    ids=["of an argument", "of a common name", "of an unknown object"],
)
def test_policy_of_another_file_that_learns_between_forward_and_loss(
    rewrites_files: Check, method: str, policy: str
) -> None:
    training = RAISING.format(call=f"policy.{method}(out.detach())", policy=policy)
    rewrites_files({"agent.py": AGENT.format(method=method), "train.py": training})


def test_what_no_region_can_be_kept_from_leaves_its_step(rewrites_files: Check) -> None:
    """Who learns here is a value that only the flow of values tells; and whether its region is on, a run's switch."""
    kept = RAISING.format(call="(policy.learn or print)(out.detach())", policy="Policy()")
    lines = (line for line in kept.splitlines() if not line.startswith("+"))
    training = "\n".join(line.replace("-", " ", 1) if line.startswith("-") else line for line in lines)
    training = training.replace("  from apex import amp", "- from apex import amp\n+ from amp_shim import amp")
    found = rewrites_files({"agent.py": AGENT.format(method="learn"), "train.py": training})
    assert any("a loss goes backward inside a region (agent.py:" in each.message for each in found)
