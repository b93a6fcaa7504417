"""Training that must not move: the file stays as it was, with the reason, or without a word."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Check = Callable[..., Any]


def test_closure_in_float16(leaves: Check) -> None:
    leaves(
        """
        model = nn.Linear(2, 2)
        optimizer = torch.optim.LBFGS(model.parameters())
        def closure():
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            return loss
        for _ in range(10):
            optimizer.step(closure)
        """,
        "optimizer.step(closure) cannot be used with a loss scaler",
    )


def test_step_elsewhere_in_float16(leaves: Check) -> None:
    leaves(
        """
        def accumulate(model, x, y):
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()

        def main():
            model = nn.Linear(2, 2)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for x, y in loader:
                accumulate(model, x, y)
                optimizer.step()
        """,
        "no optimizer.step() belongs to this backward()",
    )


def test_gradient_penalty_in_float16(leaves: Check) -> None:
    leaves(
        """
        D = Disc()
        optimizer = torch.optim.Adam(D.parameters())
        for x, y in loader:
            out = D(x)
            g = torch.autograd.grad(out.sum(), x, create_graph=True)[0]
            loss = out.mean() + 10 * ((g.norm(2, dim=1) - 1) ** 2).mean()
            loss.backward()
            optimizer.step()
        """,
        "torch.autograd.grad()",
    )


def test_gradient_penalty_of_a_helper_in_float16(leaves: Check) -> None:
    leaves(
        """
        def penalty(D, x):
            out = D(x)
            g = torch.autograd.grad(out.sum(), x, create_graph=True)[0]
            return ((g.norm(2, dim=1) - 1) ** 2).mean()
        D = Disc()
        optimizer = torch.optim.Adam(D.parameters())
        for x, y in loader:
            out = D(x)
            loss = out.mean() + 10 * penalty(D, x)
            loss.backward()
            optimizer.step()
        """,
        "torch.autograd.grad()",
    )


def test_accelerate(leaves: Check) -> None:
    leaves(
        """
        def main():
            model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
            for x, y in loader:
                loss = nn.functional.mse_loss(model(x), y)
                accelerator.backward(loss)
                optimizer.step()
        """,
        "a framework's own backward",
    )


def test_lightning_fabric(leaves: Check) -> None:
    leaves(
        """
        def train(fabric, model, optimizer, loader):
            for x, y in loader:
                loss = nn.functional.mse_loss(model(x), y)
                fabric.backward(loss)
                optimizer.step()
        """,
        "a framework's own backward",
    )


def test_fabric_as_attribute(leaves: Check) -> None:
    leaves(
        """
        class T:
            def train(self, loader):
                for x, y in loader:
                    loss = nn.functional.mse_loss(self.model(x), y)
                    self.fabric.backward(loss)
                    self.optimizer.step()
        """,
        "a framework's own backward",
    )


def test_deepspeed_engine(leaves: Check) -> None:
    leaves(
        """
        import deepspeed
        import torch
        engine, _, _, _ = deepspeed.initialize(args=args, model=model)
        for x, y in loader:
            loss = engine(x, y)
            engine.backward(loss)
            engine.step()
        """,
        "a framework's own backward",
        head="",
    )


def test_optimizer_that_scales_by_itself(leaves: Check) -> None:
    leaves(
        """
        model = nn.Linear(2, 2)
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.backward(loss)
            optimizer.step()
        """,
        "a wrapper that scales the loss by itself",
    )


def test_float64_model_in_a_statement(leaves: Check) -> None:
    leaves(
        """
        model = nn.Linear(2, 2)
        model.double()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x in loader:
            loss = model(x).mean()
            loss.backward()
            optimizer.step()
        """,
        "float64",
    )


def test_float64_model_from_the_start(leaves: Check) -> None:
    leaves(
        """
        model = nn.Linear(2, 2).double()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x in loader:
            loss = model(x).mean()
            loss.backward()
            optimizer.step()
        """,
        "float64",
    )


def test_float64_model_by_to(leaves: Check) -> None:
    leaves(
        """
        model = nn.Linear(2, 2).to(torch.float64)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x in loader:
            loss = model(x).mean()
            loss.backward()
            optimizer.step()
        """,
        "float64",
    )


def test_float64_by_default(leaves: Check) -> None:
    leaves(
        """
        torch.set_default_dtype(torch.float64)
        model = nn.Linear(2, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x in loader:
            loss = model(x).mean()
            loss.backward()
            optimizer.step()
        """,
        "float64",
    )


def test_float64_in_bfloat16(leaves: Check) -> None:
    leaves(
        """
        model = nn.Linear(2, 2)
        model.double()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x in loader:
            loss = model(x).mean()
            loss.backward()
            optimizer.step()
        """,
        "float64",
        dtype="bf16",
    )


def test_float16_weights(leaves: Check) -> None:
    leaves(
        """
        model = nn.Linear(2, 2).half()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x in loader:
            loss = model(x).mean()
            loss.backward()
            optimizer.step()
        """,
        "half precision",
    )


def test_fully_sharded(leaves: Check) -> None:
    leaves(
        """
        from torch.distributed.fsdp import FullyShardedDataParallel as FSDP

        model = FSDP(nn.Linear(2, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x in loader:
            loss = model(x).mean()
            loss.backward()
            optimizer.step()
        """,
        "brings its own mixed precision",
    )


def test_fully_sharded_by_function(leaves: Check) -> None:
    leaves(
        """
        from torch.distributed._composable.fsdp import fully_shard

        model = nn.Linear(2, 2)
        fully_shard(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x in loader:
            loss = model(x).mean()
            loss.backward()
            optimizer.step()
        """,
        "brings its own mixed precision",
    )


def test_sparse_tensors(leaves: Check) -> None:
    leaves(
        """
        model = nn.Linear(2, 2)
        graph = features.to_sparse()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x in loader:
            loss = model(graph).mean()
            loss.backward()
            optimizer.step()
        """,
        "sparse tensors",
    )


def test_sparse_tensors_made_from_indices(leaves: Check) -> None:
    leaves(
        """
        model = nn.Linear(2, 2)
        graph = torch.sparse_coo_tensor(indices, values, size)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x in loader:
            loss = model(graph).mean()
            loss.backward()
            optimizer.step()
        """,
        "sparse tensors",
    )


def test_float64_data_without_training(ignores: Check) -> None:
    ignores(
        """
        data = torch.zeros(3).double()
        target = data.to(torch.float64)
        """
    )


def test_region_of_its_own(ignores: Check) -> None:
    ignores(
        """
        model = nn.Linear(2, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in loader:
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
        """
    )


def test_region_of_its_own_in_bfloat16(ignores: Check) -> None:
    ignores(
        """
        model = nn.Linear(2, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in loader:
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
        """,
        dtype="bf16",
    )


def test_region_by_a_variable(ignores: Check) -> None:
    ignores(
        """
        from contextlib import nullcontext
        ctx = nullcontext() if device == "cpu" else torch.amp.autocast(device_type="cuda", dtype=torch.bfloat16)
        model = nn.Linear(2, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in loader:
            with ctx:
                loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
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


def test_region_by_an_argument(ignores: Check) -> None:
    ignores(
        """
        def train(model, optimizer, loader, amp_autocast):
            for x in loader:
                with amp_autocast():
                    loss = model(x).mean()
                loss.backward()
                optimizer.step()

        model = nn.Linear(2, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        train(model, optimizer, loader, cast)
        """
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
            loss.backward()
            optimizer.step()
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
            loss.backward()
            optimizer.step()
        """
    )


def test_scaler_of_its_own(ignores: Check) -> None:
    ignores(
        """
        def train(model, optimizer, scaler, loader):
            for x, y in loader:
                loss = nn.functional.mse_loss(model(x), y)
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
        """
    )


def test_scaler_without_a_region(ignores: Check) -> None:
    ignores(
        """
        def train(model, optimizer, scaler, loader):
            for x in loader:
                loss = model(x).mean()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
        """
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
                    loss.backward()
                    optimizer.step()
        """
    )


def test_manual_backward_of_lightning(ignores: Check) -> None:
    ignores(
        """
        class Trainer(nn.Module):
            def training_step(self, batch):
                loss = self.model(batch).mean()
                self.manual_backward(loss)
        """
    )


def test_model_without_training(ignores: Check) -> None:
    ignores(
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(2, 2)
            def forward(self, x):
                return self.fc(x)
        """
    )


def test_backward_of_an_autograd_function(ignores: Check) -> None:
    ignores(
        """
        class Double(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return 2 * x
            @staticmethod
            def backward(ctx, g):
                return 2 * g
        """
    )


def test_step_and_backward_that_are_never_called(ignores: Check) -> None:
    ignores(
        """
        def smooth(x):
            y = x.step()
            return y.backward
        """
    )


def test_training_in_a_docstring_or_comment(ignores: Check) -> None:
    ignores(
        '''
        def train():
            """Calls loss.backward() and optimizer.step()."""
        # loss.backward()
        '''
    )


def test_scaler_of_data(ignores: Check) -> None:
    ignores(
        """
        from sklearn.preprocessing import StandardScaler

        scaler = StandardScaler()
        x = scaler.transform(x)
        """
    )


def test_backward_of_a_network_without_torch(ignores: Check) -> None:
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
    )


def test_gradients_of_another_framework(ignores: Check) -> None:
    ignores(
        """
        with tf.GradientTape() as tape:
            loss = model(x)
        tape.backward(loss)
        """,
        head="",
    )
