"""A scaler for an optimizer that is made for one batch is as old as what the batches are given to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]


@pytest.mark.parametrize("made", ["torch.optim.SGD(self.net.parameters(), lr=0.1)", "self.make_optimizer()"])
def test_object_that_adapts_its_network_to_each_batch(rewrites: Check, made: str) -> None:
    rewrites(
        f"""
          class Adapter:
              def __init__(self, net):
                  self.net = net
        +         self.scaler = torch.amp.GradScaler("cuda")

              def make_optimizer(self):
                  return torch.optim.SGD(self.net.parameters(), lr=0.1)

              def adapt(self, x, steps):
                  optimizer = {made}
                  for step in range(steps):
                      optimizer.zero_grad()
        ~             loss = self.net(x).square().mean()
        -             loss.backward()
        -             optimizer.step()
        +             self.scaler.scale(loss).backward()
        +             self.scaler.step(optimizer)
        +             self.scaler.update()

              def run(self, x):
                  self.adapt(x, 3)

              def evaluate(self, loader):
                  for x in loader:
                      self.run(x)
        """
    )


def test_loop_that_adapts_a_network_to_each_batch(rewrites: Check) -> None:
    rewrites(
        """
          net = nn.Linear(2, 2)
        + scaler = torch.amp.GradScaler("cuda")
          for x in loader:
              optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
              for step in range(3):
                  optimizer.zero_grad()
        ~         loss = net(x).square().mean()
        -         loss.backward()
        -         optimizer.step()
        +         scaler.scale(loss).backward()
        +         scaler.step(optimizer)
        +         scaler.update()
        """
    )


ADAPT = """
        - def adapt(net, x):
        + def adapt(net, x, scaler):
              parameters = [each for each in net.parameters() if each.ndim > 1]
              optimizer = torch.optim.SGD(parameters, lr=0.1)
              for step in range(3):
                  optimizer.zero_grad()
        ~         loss = net(x).square().mean()
        -         loss.backward()
        -         optimizer.step()
        +         scaler.scale(loss).backward()
        +         scaler.step(optimizer)
        +         scaler.update()
"""


def test_function_that_adapts_a_network_to_each_batch(rewrites: Check) -> None:
    rewrites(
        ADAPT
        + """

          def evaluate(loader):
              net = nn.Linear(2, 2)
        +     scaler = torch.amp.GradScaler("cuda")
              for x in loader:
        -         adapt(net, x)
        +         adapt(net, x, scaler)


          evaluate(loader)
        """
    )


def test_function_that_nothing_more_can_be_given_to(leaves: Check) -> None:
    leaves(
        """
        def adapt(net, *batch):
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            for step in range(3):
                optimizer.zero_grad()
                loss = net(*batch).square().mean()
                loss.backward()
                optimizer.step()


        def evaluate(net, loader):
            for batch in loader:
                adapt(net, *batch)


        evaluate(nn.Linear(2, 2), loader)
        """,
        "`optimizer` is made anew in every call",
    )


@pytest.mark.parametrize("copied", ["copy.deepcopy(self.net)", "copy.deepcopy(self.net).cuda().train()"])
def test_object_that_adapts_copies_of_its_network(rewrites: Check, copied: str) -> None:
    rewrites(
        f"""
          import copy


          class Adapter:
              def __init__(self, net):
                  self.net = net
        +         self.scaler = torch.amp.GradScaler("cuda")

              def adapt(self, x, steps=5):
                  net = {copied}
                  optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
                  for _ in range(steps):
        ~             loss = net(x).square().mean()
                      optimizer.zero_grad()
        -             loss.backward()
        -             optimizer.step()
        +             self.scaler.scale(loss).backward()
        +             self.scaler.step(optimizer)
        +             self.scaler.update()
                  return net


          def use(adapter, data):
              adapter.adapt(data)
        """
    )


@pytest.mark.parametrize(
    ("net", "loop", "x"),
    [
        pytest.param("copy.deepcopy(self.net)", "for x in data", "x", id="it takes batches"),
        pytest.param("copy.deepcopy(self.net)", "for _ in range(1000)", "data", id="many steps"),
        pytest.param("self.make()", "for _ in range(5)", "data", id="no copy"),
        pytest.param("copy.deepcopy(data.net)", "for _ in range(5)", "data", id="of what it is given"),
    ],
)
def test_method_that_trains_has_a_scaler_beside_its_optimizer(migrate: Check, net: str, loop: str, x: str) -> None:
    plan = migrate(
        f"""
        import copy


        class Trainer:
            def __init__(self, net):
                self.net = net

            def fit(self, data):
                net = {net}
                optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
                {loop}:
                    optimizer.zero_grad()
                    loss = net({x}).square().mean()
                    loss.backward()
                    optimizer.step()
        """
    )
    assert 'lr=0.1)\n        scaler = torch.amp.GradScaler("cuda")\n' in plan.after


@pytest.mark.parametrize(
    ("model", "loop", "x", "call"),
    [
        pytest.param("net", "for x in data", "x", "for data in tasks", id="it takes batches"),
        pytest.param("net", "for i in range(9)", "data[i]", "for data in tasks", id="it takes parts"),
        pytest.param("net", "for i in range(5000)", "data", "for data in tasks", id="many steps"),
        pytest.param("net", "for i in range(9)", "data", "for _ in range(9)", id="the same batch"),
        pytest.param("nn.Linear(2, 2).cuda()", "for _ in range(9)", "data", "for data in tasks", id="a new network"),
    ],
)
def test_optimizer_that_trains_has_a_scaler_beside_it(migrate: Check, model: str, loop: str, x: str, call: str) -> None:
    plan = migrate(
        f"""
        def fit(net, data):
            model = {model}
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            {loop}:
                optimizer.zero_grad()
                loss = model({x}).square().mean()
                loss.backward()
                optimizer.step()


        {call}:
            fit(net, data)
        """
    )
    assert 'lr=0.1)\n    scaler = torch.amp.GradScaler("cuda")\n' in plan.after
