"""Code that has its own AMP, or does not train: it stays as it was, without a word."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]


@pytest.fixture(params=["fp16", "bf16", "auto"])
def dtype(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_float64_data_without_training(ignores: Check, dtype: str) -> None:
    ignores(
        """
        data = torch.zeros(3).double()
        target = data.to(torch.float64)
        """,
        dtype=dtype,
    )


@pytest.mark.parametrize("framework", ["paddle", "oneflow as flow"])
def test_another_framework_whose_loss_goes_backward(ignores: Check, framework: str, dtype: str) -> None:
    ignores(
        f"""
        import {framework}

        def train(model, optimizer, loader, criterion):
            for x, y in loader:
                loss = criterion(model(x), y)
                STEP
                optimizer.clear_grad()
        """,
        dtype=dtype,
        head="",
    )


def test_region_by_a_variable(ignores: Check) -> None:
    ignores(
        """
        from contextlib import nullcontext
        ctx = nullcontext() if device == "cpu" else torch.amp.autocast(device_type="cuda", dtype=torch.bfloat16)
        MODEL
        for x, y in loader:
            with ctx:
                loss = nn.functional.mse_loss(model(x), y)
            STEP
        """
    )


def test_region_by_an_attribute(ignores: Check) -> None:
    ignores(
        """
        class Trainer:
            def __init__(self, model):
                self.model = model
                self.cast = torch.autocast("cuda", dtype=torch.bfloat16)
                self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

            def step(self, x):
                with self.cast:
                    loss = self.model(x).mean()
                loss.backward()
                self.optimizer.step()
        """
    )


def test_region_by_an_argument(ignores: Check, dtype: str) -> None:
    ignores(
        """
        def train(model, optimizer, loader, amp_autocast):
            for x in loader:
                with amp_autocast():
                    loss = model(x).mean()
                STEP

        MODEL
        train(model, optimizer, loader, cast)
        """,
        dtype=dtype,
    )


def test_region_in_the_models_forward(ignores: Check) -> None:
    ignores(
        """
        class Net(nn.Module):
            def forward(self, x):
                with torch.autocast("cuda", dtype=torch.float16):
                    return self.fc(x)
        net = Net()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for x, y in loader:
            loss = nn.functional.mse_loss(net(x), y)
            STEP
        """
    )


def test_region_round_the_models_forward(ignores: Check) -> None:
    ignores(
        """
        class Net(nn.Module):
            @torch.autocast("cuda", dtype=torch.float16)
            def forward(self, x):
                return self.fc(x)
        net = Net()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for x, y in loader:
            loss = nn.functional.mse_loss(net(x), y)
            STEP
        """
    )


def test_scaler_of_its_own(ignores: Check, dtype: str) -> None:
    ignores(
        """
        def train(model, optimizer, scaler, loader):
            for x, y in loader:
                loss = nn.functional.mse_loss(model(x), y)
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
        """,
        dtype=dtype,
    )


def test_scaler_without_a_region(ignores: Check, dtype: str) -> None:
    ignores(
        """
        def train(model, optimizer, scaler, loader):
            for x in loader:
                loss = model(x).mean()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
        """,
        dtype=dtype,
    )


def test_scaler_that_may_be_none(ignores: Check) -> None:
    ignores(
        """
        def train(model, optimizer, loader, scaler=None):
            for x, y in loader:
                with torch.amp.autocast("cuda", enabled=scaler is not None):
                    loss = nn.functional.mse_loss(model(x), y)
                optimizer.zero_grad()
                if scaler is not None:
                    scaler.scale(loss).backward()
                    scaler.step(optimizer)
                    scaler.update()
                else:
                    STEP
        """,
    )


def test_manual_backward_of_lightning(ignores: Check, dtype: str) -> None:
    ignores(
        """
        class Trainer(nn.Module):
            def training_step(self, batch):
                loss = self.model(batch).mean()
                self.manual_backward(loss)
        """,
        dtype=dtype,
    )


def test_model_without_training(ignores: Check, dtype: str) -> None:
    ignores(
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(2, 2)
            def forward(self, x):
                return self.fc(x)
        """,
        dtype=dtype,
    )


def test_backward_of_an_autograd_function(ignores: Check, dtype: str) -> None:
    ignores(
        """
        class Double(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return 2 * x
            @staticmethod
            def backward(ctx, g):
                return 2 * g
        """,
        dtype=dtype,
    )


def test_step_and_backward_that_are_never_called(ignores: Check, dtype: str) -> None:
    ignores(
        """
        def smooth(x):
            y = x.step()
            return y.backward
        """,
        dtype=dtype,
    )


def test_training_in_a_docstring_or_comment(ignores: Check, dtype: str) -> None:
    ignores(
        '''
        def train():
            """Calls loss.backward() and optimizer.step()."""
        # loss.backward()
        ''',
        dtype=dtype,
    )


def test_scaler_of_data(ignores: Check, dtype: str) -> None:
    ignores(
        """
        from sklearn.preprocessing import StandardScaler

        scaler = StandardScaler()
        x = scaler.transform(x)
        """,
        dtype=dtype,
    )


def test_backward_of_a_network_without_torch(ignores: Check, dtype: str) -> None:
    ignores(
        """
        class Layer:
            def backward(self, grad):
                return grad
        layer = Layer()
        grad = layer.backward(1)
        net.backward(grad)
        """,
        head="",
        dtype=dtype,
    )


def test_gradients_of_another_framework(ignores: Check, dtype: str) -> None:
    ignores(
        """
        with tf.GradientTape() as tape:
            loss = model(x)
        tape.backward(loss)
        engine.backward(steps)
        """,
        head="",
        dtype=dtype,
    )


def test_backward_of_a_kernel_that_gives_gradients_back(ignores: Check) -> None:
    ignores(
        """
        class Activation(torch.autograd.Function):
            @staticmethod
            def backward(ctx, grad):
                dx, dweight = _backend.backward(ctx.x, grad, ctx.eps)
                return dx, dweight

        optimizer = torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=0.1)
        """
    )


@pytest.mark.parametrize("back", ["return self.pool.backward(x, dy)", "self.pool.backward(x, dy)"])
def test_the_backward_of_a_layer_in_an_autograd_function(ignores: Check, back: str, dtype: str) -> None:
    ignores(
        f"""
        class Pooled(torch.autograd.Function):
            def forward(self, x):
                self.save_for_backward(x)
                self.pool = nn.AvgPool2d(2)
                return self.pool.forward(x)
            def backward(self, dy):
                (x,) = self.saved_tensors
                {back}
        optimizer = torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=0.1)
        """,
        dtype=dtype,
    )


@pytest.mark.parametrize(
    "again", ["torch.autograd.backward(y, dy, retain_graph=True)", "y.backward(dy)", "y.backward(gradient=dy)"]
)
@pytest.mark.parametrize("base", ["nn.Module", "torch.autograd.Function"])
def test_a_backward_pass_that_a_module_goes_on_with(ignores: Check, again: str, base: str, dtype: str) -> None:
    ignores(
        f"""
        class Reversible({base}):
            def backward_pass(self, x, dy):
                with torch.enable_grad():
                    y = self.f(x)
                    {again}
                return x.grad
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        """,
        dtype=dtype,
    )
