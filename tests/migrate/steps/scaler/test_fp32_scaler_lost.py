"""No way for a scaler: the step stays as it was, and the finding says where the way ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]


def test_no_free_name(leaves: Check) -> None:
    leaves(
        """
        model = nn.Linear(2, 2)
        scaler = grad_scaler = amp_scaler = None
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        EPOCH
        """,
        "are all taken",
    )


def test_optimizer_of_an_object_of_unknown_class(leaves: Check) -> None:
    leaves(
        """
        def train(state, loader):
            for x in loader:
                loss = state.model(x).mean()
                loss.backward()
                state.optimizer.step()
        """,
        "where `state.optimizer` is made cannot be seen",
    )


def test_optimizers_of_a_caller_and_of_the_function_itself(leaves: Check) -> None:
    leaves(
        """
        def train(model, optimizer, loader):
            for x in loader:
                copied = nn.Linear(2, 2)
                own_optimizer = torch.optim.SGD(copied.parameters(), lr=optimizer.param_groups[0]["lr"])
                optimizer.zero_grad()
                loss = copied(model(x)).mean()
                loss.backward()
                own_optimizer.step()
                optimizer.step()
        MODEL
        for epoch in range(3):
            train(model, optimizer, loader)
        """,
        "`optimizer` comes from a caller, and `own_optimizer` is made here",
    )


def test_optimizer_of_a_caller_that_may_be_another_one(leaves: Check) -> None:
    leaves(
        """
        def train(model, optimizer, loader):
            optimizer = None or torch.optim.SGD(model.parameters(), lr=0.1)
            for x in loader:
                optimizer.zero_grad()
                loss = model(x).mean()
                loss.backward()
                optimizer.step()
        MODEL
        for epoch in range(3):
            train(model, optimizer, loader)
        """,
        "`optimizer` is a parameter that may be given another value",
    )


def test_function_that_nobody_calls(leaves: Check) -> None:
    leaves(
        """
        def train(model, optimizer, loader):
            EPOCH
        """,
        "no call of train() is among the files",
    )


def test_function_that_is_passed_as_a_value(leaves: Check) -> None:
    leaves(
        """
        def train(model, optimizer, loader):
            EPOCH
        MODEL
        run(train)
        train(model, optimizer, loader)
        """,
        "passed around as a value",
    )


def test_method_that_a_call_on_an_object_of_unknown_class_may_be_of(leaves: Check) -> None:
    leaves(
        """
        class Plain(nn.Module):
            def fit(self, optimizer, x):
                loss = self.forward(x).mean()
                STEP

        class Other:
            def fit(self, optimizer, x): ...

        def train(nets, optD, x):
            for net in nets:
                net.fit(optD, x)

        net = Plain()
        net.fit(torch.optim.SGD(net.parameters(), lr=0.1), x)
        """,
        "net.fit() may call fit(), on an object whose class cannot be seen",
    )


def test_function_that_calls_itself(leaves: Check) -> None:
    leaves(
        """
        def train(model, optimizer, depth):
            loss = model(x).mean()
            STEP
            train(model, optimizer, depth - 1)
        """,
        "train() calls itself, and nothing else here does",
    )


def test_functions_that_only_each_other_calls(leaves: Check) -> None:
    leaves(
        """
        def train(model, optimizer, depth):
            loss = model(x).mean()
            STEP
            again(model, optimizer, depth - 1)

        def again(model, optimizer, depth):
            train(model, optimizer, depth)
        """,
        "train() calls itself, and nothing else here does",
    )


def test_call_that_raises_as_it_is(leaves: Check) -> None:
    leaves(
        """
        def train(model, optimizer):
            EPOCH

        def learn(model, rank, optimizer):
            train(model, rank, optimizer)

        model = nn.Linear(8, 2)
        learn(model, 0, torch.optim.SGD(model.parameters(), lr=0.1))
        """,
        "`train(model, rank, optimizer)` does not fit the parameters of train(), as it is",
    )


def test_optimizer_that_is_fetched_for_every_step(leaves: Check) -> None:
    leaves(
        """
        class Trainer(Base):
            def step(self, x, y):
                optimizer = self.optimizers()
                optimizer.zero_grad()
                loss = nn.functional.mse_loss(self.model(x), y)
                STEP
        """,
        "`optimizer` is made or fetched anew for every step",
    )


def test_optimizer_that_is_a_default_argument(leaves: Check) -> None:
    leaves(
        """
        MODEL
        def train(x, y, optimizer=optimizer):
            loss = nn.functional.mse_loss(model(x), y)
            STEP
        for x, y in loader:
            train(x, y)
        """,
        "the optimizer is what train() has for a default",
    )


@pytest.mark.parametrize("decorator", ["experiment.capture", "limited", "limited()"])
def test_a_decorator_that_may_call_a_function_with_other_arguments(leaves: Check, decorator: str) -> None:
    leaves(
        f"""
        from tasks import experiment
        def limited(function):
            return lambda *args: function(*args[:3])
        @{decorator}
        def train(model, optimizer, x):
            optimizer.zero_grad()
            loss = model(x).mean()
            loss.backward()
            optimizer.step()
        MODEL
        for x in loader:
            train(model, optimizer, x)
        """,
        "a decorator may change what train() takes",
    )
