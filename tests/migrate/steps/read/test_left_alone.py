"""Training that must not move: the file stays as it was, with the reason."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from amp_migrate.engine.migrate import migrate as migrate_paths
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.settings import Settings

Check = Callable[..., Any]


@pytest.fixture(params=["fp16", "bf16", "auto"])
def dtype(request: pytest.FixtureRequest) -> str:
    return str(request.param)


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


def test_closure_in_float16_whose_forward_ran_before(leaves: Check) -> None:
    leaves(
        """
        def calibrate(model, loader):
            with torch.no_grad():
                logits = torch.cat([model(x) for x, _ in loader])
            temperature = nn.Parameter(torch.ones(1))
            optimizer = torch.optim.LBFGS([temperature])
            def closure():
                optimizer.zero_grad()
                loss = nn.functional.mse_loss(logits / temperature, y)
                loss.backward()
                return loss
            optimizer.step(closure)
        """,
        "optimizer.step(closure) cannot be used with a loss scaler",
    )


GIVEN = """
model = nn.Linear(2, 2).cuda()
weights = [*model.parameters()]
optimizer = torch.optim.SGD(weights, lr=0.1)
for x, y in loader:
    loss = nn.functional.mse_loss(model(x), y)
    gradients = torch.autograd.grad(loss, weights)
    for p, gradient in zip(weights, gradients):
        {given}
    {stepped}
"""


def test_step_on_gradients_that_are_given_by_hand(leaves: Check, dtype: str) -> None:
    text = GIVEN.format(given="p.grad = gradient", stepped="optimizer.step()")
    finding = leaves(text, "its gradients are taken by torch.autograd.grad(), and given to parameters by hand", dtype)
    assert finding.line == 9


@pytest.mark.parametrize(
    ("given", "stepped"),
    [
        ("p.data -= 0.1 * gradient", "optimizer.state.clear()"),
        ("p.grad = None", "optimizer.step()"),
        ("p.grad = gradient", "print(weights)"),
    ],
)
def test_what_is_given_no_gradients_for_a_step_is_none(ignores: Check, given: str, stepped: str) -> None:
    ignores(GIVEN.format(given=given, stepped=stepped))


def test_step_with_arguments_of_its_own(leaves: Check) -> None:
    finding = leaves(
        """
        class Weighted(torch.optim.SGD):
            def step(self, weights, n, closure=None):
                for group in self.param_groups:
                    for p in group["params"]:
                        weights[p] = p.grad.abs() * n

        updater = Weighted(model.parameters(), lr=0.1)
        for x, y in loader:
            updater.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            updater.step(model.weights, len(x))
        """,
        "updater.step(model.weights, len(x)) takes arguments of its own",
    )
    assert "scaler.step(updater, ...)" in finding.hint
    assert "closure" not in finding.hint


def test_accelerate(leaves: Check, dtype: str) -> None:
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
        dtype=dtype,
    )


def test_an_accelerator_whatever_it_is_called(leaves: Check, dtype: str) -> None:
    leaves(
        """
        from accelerate import Accelerator
        def main():
            helper = Accelerator(mixed_precision="fp16")
            for x, y in loader:
                loss = nn.functional.mse_loss(model(x), y)
                helper.backward(loss)
                optimizer.step()
        """,
        "a framework's own backward",
        dtype=dtype,
    )


def test_lightning_fabric(leaves: Check, dtype: str) -> None:
    leaves(
        """
        def train(fabric, model, optimizer, loader):
            for x, y in loader:
                loss = nn.functional.mse_loss(model(x), y)
                fabric.backward(loss)
                optimizer.step()
        """,
        "a framework's own backward",
        dtype=dtype,
    )


def test_fabric_as_attribute(leaves: Check, dtype: str) -> None:
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
        dtype=dtype,
    )


def test_fabric_in_a_callback_that_imports_nothing(leaves: Check, dtype: str) -> None:
    leaves(
        """
        class BackwardCallback:
            def on_batch_end(self, runner):
                loss = runner.metrics["loss"]
                runner.engine.backward(loss)
        """,
        "a framework's own backward",
        head="",
        dtype=dtype,
    )


def test_deepspeeds_profiler_trains_nothing(migrate: Check) -> None:
    text = """
        from deepspeed.profiling.flops_profiler import get_model_profile
        MODEL
        EPOCH
        """
    assert "scaler.step(optimizer)" in migrate(text).after


def test_deepspeed_engine(leaves: Check, dtype: str) -> None:
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
        dtype=dtype,
    )


def test_a_wrapper_that_goes_backward_and_steps_whatever_its_name(leaves: Check, dtype: str) -> None:
    leaves(
        """
        net = nn.Linear(2, 2)
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        wrapped, opt = backend.distribute(net, opt)
        for x, y in loader:
            loss = wrapped(x, y)
            if backend.steps_by_itself:
                wrapped.backward(loss)
                wrapped.step()
            else:
                opt.zero_grad()
                loss.backward()
                opt.step()
        """,
        "wrapped.backward(loss) is the backward of a wrapper that scales the loss by itself",
        dtype=dtype,
    )


def test_what_only_prepares_a_model_is_taken_for_no_forward(leaves: Check, dtype: str) -> None:
    leaves(
        """
        net = nn.Linear(2, 2)
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        wrapped, opt = backend.distribute(net, opt)
        for x, y in loader:
            loss = wrapped(x, y)
            opt.zero_grad()
            loss.backward()
            opt.step()
        """,
        "the forward pass behind `loss` cannot be seen: nothing says what `wrapped` is",
        dtype=dtype,
    )


def test_the_size_of_a_batch_is_no_forward_that_nobody_sees(leaves: Check, dtype: str) -> None:
    leaves(
        """
        class Trainer:
            def __init__(self, core, opt):
                self.core = core
                self.opt = opt

            def step(self, batch):
                size = batch.size()[0]
                self.opt.zero_grad()
                loss = -self.core(torch.randn(size, 3).cuda()).mean()
                loss.backward()
                self.opt.step()
        """,
        "the forward pass behind `loss` cannot be seen: nothing says what `self.core` is",
        dtype=dtype,
    )


def test_forward_of_an_object_that_is_out_of_sight_is_named(leaves: Check, dtype: str) -> None:
    leaves(
        """
        from engine.base import Base

        class Engine(Base):
            def train(self):
                for x, y in self.data:
                    for opt in self.opts:
                        opt.zero_grad()
                    out = self.core(x)
                    self.total, parts = self.manager.loss_of(out, y)
                    self.total.backward()
                    self.end()
        """,
        "the forward pass behind `self.total` cannot be seen: nothing says what `self.core` is",
        dtype=dtype,
    )


def test_what_a_function_is_given_is_named_where_that_computes(leaves: Check, dtype: str) -> None:
    leaves(
        """
        import learn2learn
        import torch
        from torch import nn

        def adapted(x, y, learner):
            learner.adapt(nn.functional.mse_loss(learner(x), y))
            return nn.functional.mse_loss(learner(x), y)

        model = learn2learn.algorithms.MAML(nn.Linear(4, 1), lr=0.1)
        optimizer = torch.optim.Adam(model.parameters())
        for x, y in loader:
            optimizer.zero_grad()
            learner = model.clone()
            error = adapted(x, y, learner)
            error.backward()
            optimizer.step()
        """,
        "the forward pass behind `error` cannot be seen: nothing says what adapted() is given as `learner`",
        dtype=dtype,
    )


def test_what_a_class_inherits_its_call_from_is_named(leaves: Check, dtype: str) -> None:
    leaves(
        """
        import pytorch_lightning as pl

        class Own(pl.LightningModule):
            def forward(self, x):
                return self.head(x)

        class Module(Own):
            def training_step(self, batch):
                x, y = batch
                loss = nn.functional.mse_loss(self(x), y)
                loss.backward()
                return loss
        """,
        "the forward pass behind `loss` cannot be seen: nothing says what `pl.LightningModule` does with a call",
        dtype=dtype,
    )


def test_drawing_data_and_a_lone_loss_are_no_forward(leaves: Check, dtype: str) -> None:
    leaves(
        """
        import higher
        import torch
        from torch import nn

        from somewhere import Tasks

        model = nn.Linear(8, 4).cuda()
        optimizer = torch.optim.Adam(model.parameters())
        inner = torch.optim.SGD(model.parameters(), lr=0.1)
        tasks = Tasks()
        for step in range(100):
            tasks.train()
            x, y = tasks.draw(k=8)
            optimizer.zero_grad()
            with higher.innerloop_ctx(model, inner) as (functional, _):
                out = functional.forward(x.cuda())
                y = y.cuda()
                loss = nn.functional.cross_entropy(out, y)
                loss.backward()
            optimizer.step()
        """,
        "the forward pass behind `loss` cannot be seen: nothing says what `functional.forward` is",
        dtype=dtype,
    )


def test_optimizer_that_scales_by_itself(leaves: Check, dtype: str) -> None:
    leaves(
        """
        model = nn.Linear(2, 2)
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.backward(loss)
            optimizer.step()
        """,
        "a wrapper that scales the loss by itself",
        dtype=dtype,
    )


def test_method_that_only_goes_backward_scales_nothing(leaves: Check, dtype: str) -> None:
    text = """
        class Base(nn.Module):
            def backward(self, losses):
                total = sum(losses.values())
                total.backward()

        class Net(Base):
            def __init__(self):
                super().__init__()
                self.lin = nn.Linear(4, 4)
            def forward(self, x, y):
                return {"nll": nn.functional.cross_entropy(self.lin(x), y)}

        def main(loader):
            model = Net()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for x, y in loader:
                optimizer.zero_grad()
                model.backward(model(x, y))
                optimizer.step()
        """
    leaves(text, "the forward pass behind `total` is not in this function", dtype=dtype)


@pytest.mark.parametrize(
    ("params", "why"),
    [
        ("[mean]", "no module with weights computes `loss`: `mean` is what the optimizer steps"),
        ("(mean, other)", "no module with weights computes `loss`: `mean` is what the optimizer steps"),
        ("[other]", "no module with weights computes `loss`: `mean` gets a gradient by itself"),
        ("params", "no module with weights computes `loss`: `mean` gets a gradient by itself"),
    ],
)
def test_a_fit_of_tensors_is_not_said_to_have_a_forward_elsewhere(leaves: Check, params: str, why: str) -> None:
    text = f"""
        def fit(target, other, params):
            mean = torch.zeros_like(target).requires_grad_(True)
            optimizer = torch.optim.Adam({params}, lr=0.1)
            for _ in range(100):
                optimizer.zero_grad()
                loss = distance(mean.exp(), target)
                loss.backward()
                optimizer.step()

        def distance(a, b):
            return (a - b).square().sum()
        """
    leaves(text, why)


@pytest.mark.parametrize(
    ("made", "why"),
    [
        ("torch.tensor(0.5, requires_grad=True)", "no module with weights computes `loss`: `logit` gets a gradient"),
        (
            "torch.zeros(1).requires_grad_()",
            "no module with weights computes `loss`: `logit` gets a gradient by itself",
        ),
        ("torch.tensor(0.5, requires_grad=False)", "the forward pass behind `loss` is not in this function"),
        ("given", "the forward pass behind `loss` is not in this function"),
    ],
)
def test_layers_without_weights_are_no_forward(leaves: Check, made: str, why: str) -> None:
    text = f"""
        criterion = nn.BCELoss()

        def fit(given, target):
            logit = {made}
            loss = criterion(nn.Sigmoid()(logit), target)
            loss.backward()
            logit.data -= 0.1 * logit.grad.data
        """
    leaves(text, why)


@pytest.mark.parametrize("scaled", ["(total * self.loss_scale).backward()", "self.wrapped.backward(total)"])
def test_method_that_goes_backward_with_a_scale(leaves: Check, scaled: str) -> None:
    text = """
        class Net(nn.Module):
            def backward(self, total):
                SCALED

        def main(loader):
            model = Net()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for x, y in loader:
                loss = model(x, y)
                model.backward(loss)
                optimizer.step()
        """
    leaves(text.replace("SCALED", scaled), "a wrapper that scales the loss by itself")


def test_optimizer_that_scales_by_itself_in_one_branch_of_a_file_without_torch(leaves: Check, dtype: str) -> None:
    leaves(
        """
        def do_train(model, loader, criterion, optimizer, fp16=False):
            model.train()
            for x, y in loader:
                loss = criterion(model(x), y)
                optimizer.zero_grad()
                if fp16:
                    optimizer.backward(loss)
                else:
                    loss.backward()
                optimizer.step()
        """,
        "a wrapper that scales the loss by itself",
        head="import time\n",
        dtype=dtype,
    )


def test_float64_model_in_a_statement(leaves: Check, dtype: str) -> None:
    leaves(
        """
        model = nn.Linear(2, 2)
        model.double()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        EPOCH
        """,
        "float64",
        dtype=dtype,
    )


def test_float64_model_from_the_start(leaves: Check, dtype: str) -> None:
    leaves(
        """
        model = nn.Linear(2, 2).double()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        EPOCH
        """,
        "float64",
        dtype=dtype,
    )


def test_float64_model_by_to(leaves: Check, dtype: str) -> None:
    leaves(
        """
        model = nn.Linear(2, 2).to(torch.float64)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        EPOCH
        """,
        "float64",
        dtype=dtype,
    )


def test_float64_by_default(leaves: Check, dtype: str) -> None:
    leaves(
        """
        torch.set_default_dtype(torch.float64)
        MODEL
        EPOCH
        """,
        "float64",
        dtype=dtype,
    )


def test_float16_weights(leaves: Check, dtype: str) -> None:
    leaves(
        """
        model = nn.Linear(2, 2).half()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        EPOCH
        """,
        "half precision",
        dtype=dtype,
    )


def test_fully_sharded(leaves: Check, dtype: str) -> None:
    leaves(
        """
        from torch.distributed.fsdp import FullyShardedDataParallel as FSDP

        model = FSDP(nn.Linear(2, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        EPOCH
        """,
        "brings its own mixed precision",
        dtype=dtype,
    )


def test_fully_sharded_by_function(leaves: Check, dtype: str) -> None:
    leaves(
        """
        from torch.distributed._composable.fsdp import fully_shard

        model = nn.Linear(2, 2)
        fully_shard(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        EPOCH
        """,
        "brings its own mixed precision",
        dtype=dtype,
    )


def test_torch_that_its_own_module_has_imported_is_torch(migrate: Check) -> None:
    plan = migrate(
        """\
        model = nn.Linear(4, 2).cuda()
        graph = torch.sparse.torch.eye(4).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x in loader:
            loss = model(graph).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        """
    )
    assert "scaler.step(optimizer)" in plan.after


def test_region_of_its_own(ignores: Check) -> None:
    ignores(
        """
        MODEL
        for x, y in loader:
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = nn.functional.mse_loss(model(x), y)
            STEP
        """
    )


def test_gradient_penalty_in_a_method_of_the_model(leaves: Check) -> None:
    leaves(
        """
        class Critic(nn.Module):
            def penalty(self, x):
                return torch.autograd.grad(self(x).sum(), x, create_graph=True)[0].norm()

        def train(critic, loader):
            optimizer = torch.optim.SGD(critic.parameters(), lr=0.1)
            for x in loader:
                loss = critic(x).mean() + critic.penalty(x)
                STEP
        """,
        "takes gradients of an unscaled loss",
    )


def test_reason_is_one_line_however_long_the_code(leaves: Check) -> None:
    finding = leaves(
        """
        out = kernel(
            x
        )
        print(out.backward(
            one,
            two,
        ))
        """,
        "is part of a longer expression",
    )
    assert "\n" not in finding.message


HOROVOD = """
import horovod.torch as hvd
model = nn.Linear(2, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
for x, y in loader:
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
"""


IMPORTED = "import horovod.torch as hvd\n"
LOADED = "def load():\n    import horovod.torch as hvd\n    return hvd\nhvd = load()\n"


@pytest.mark.parametrize("imported", [IMPORTED, LOADED, "from launch import load\nhvd = load()\n"])
@pytest.mark.parametrize("dtype", ["fp16", "auto"])
def test_an_optimizer_that_adds_up_gradients_when_it_steps(leaves: Check, dtype: str, imported: str) -> None:
    leaves(HOROVOD.replace(IMPORTED, imported), "Horovod's optimizer adds up gradients", dtype)


def test_no_scaler_reads_them_in_bfloat16(migrate: Check) -> None:
    assert "dtype=torch.bfloat16):\n        loss = nn" in migrate(HOROVOD, "bf16").after


def test_gradients_that_no_optimizer_sees_stay_in_float32(leaves: Check) -> None:
    leaves(
        """
        def saliency(model, image, target):
            image.requires_grad_()
            loss = nn.functional.cross_entropy(model(image), target)
            loss.backward()
            return image.grad.abs()
        """,
        "no optimizer is in sight of it",
        dtype="bf16",
    )


UNIT_TEST = """\
import torch
from torch import nn
{imports}

def test_training() -> None:
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = model(torch.ones(1, 2, device="cuda")).sum()
    loss.backward()
    optimizer.step()
    assert loss.item() == 3.0
"""


@pytest.mark.parametrize(
    ("name", "imports", "is_test"),
    [
        ("test_model.py", "import pytest", True),
        ("model_test.py", "from unittest import mock", True),
        ("tests/test_model.py", "", True),
        ("test_model.py", "", False),
        ("tests/train.py", "import pytest", False),
    ],
)
def test_steps_of_unit_tests_stay_in_float32(tmp_path: Path, name: str, imports: str, is_test: bool) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(UNIT_TEST.format(imports=imports))
    outcome = migrate_paths([tmp_path], Settings())
    assert [each.code for each in outcome.findings] == ["AMP590" if is_test else "AMP501"]


@pytest.mark.parametrize(("base", "is_test"), [("unittest.TestCase", True), ("object", False)])
def test_steps_of_a_test_case_stay_in_float32_whatever_its_file_is_called(base: str, is_test: bool) -> None:
    test = "".join(f"    {line}\n" for line in UNIT_TEST.format(imports="").splitlines() if "import" not in line)
    made = test.replace("test_training()", "test_training(self)")
    plan = migrate_text(
        f"import unittest\nimport torch\nfrom torch import nn\n\nclass Steps({base}):\n{made}", Settings()
    )
    assert [each.code for each in plan.findings] == ["AMP590" if is_test else "AMP501"]
    assert ("unit test" in plan.findings[0].message) is is_test


def test_steps_of_a_mixin_with_tests_stay_in_float32(tmp_path: Path) -> None:
    path = tmp_path / "tests" / "test_model.py"
    path.parent.mkdir()
    test = "".join(f"    {line}\n" for line in UNIT_TEST.format(imports="").splitlines() if "import" not in line)
    path.write_text(f"import torch\nfrom torch import nn\nclass ModelTesterMixin:\n{test}")
    outcome = migrate_paths([tmp_path], Settings())
    assert ["it is part of a unit test" in each.message for each in outcome.findings] == [True]


def test_gradients_that_hooks_look_at_stay_in_float32(leaves: Check) -> None:
    leaves(
        """
        def saliency(model, x):
            model.zero_grad()
            score = model(x).sum()
            score.backward()
            return model.seen_by_hooks
        """,
        "no optimizer is in sight of it",
        dtype="bf16",
    )


def test_optimizer_that_is_a_module_in_float16(leaves: Check) -> None:
    leaves(
        """
        class Learned(nn.Module):
            def step(self):
                for p in self.parameters():
                    p.update = -p.grad
            def zero_grad(self):
                pass

        model = nn.Linear(2, 2)
        learned = Learned()
        optimizer = torch.optim.Adam(learned.parameters())
        for x in loader:
            learned.zero_grad()
            loss = model(x).mean()
            STEP
            learned.step()
        """,
        "learned is a module, and has no param_groups",
    )


@pytest.mark.parametrize(
    "backward", ["(loss * self.loss_scale).backward()", "scaled = lossScale * loss\n        scaled.backward()"]
)
def test_loss_that_is_scaled_by_hand(leaves: Check, dtype: str, backward: str) -> None:
    text = f"""
class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
    def step(self, x):
        loss = self.model(x).mean()
        {backward}
        self.optimizer.step()
"""
    leaves(text, "multiplied by a loss scale of the script's own", dtype=dtype)


def test_loss_that_is_only_weighted_moves(migrate: Check) -> None:
    text = """
MODEL
loss = model(x).mean()
(loss * kl_loss_scale).backward()
optimizer.step()
"""
    assert "scaler.scale(loss * kl_loss_scale).backward()" in migrate(text).after


def test_gradients_given_beside_a_step_are_no_part_of_another_backward(leaves: Check, dtype: str) -> None:
    leaves(
        """
        class Trainer(nn.Module):
            def train_step(self, x, gradients):
                y = self.model(x)
                torch.autograd.backward(y, gradients)
                self.optimizer.step()
        """,
        "is not the backward of one loss",
        dtype=dtype,
    )


def test_each_step_that_stays_is_told_where_it_stands(migrate: Check) -> None:
    plan = migrate(
        """
        class Data:
            def run(self, loader):
                for x, y in loader:
                    loss = nn.functional.cross_entropy(model(x), y)
                    loss.backward()
                    optimizer.step(lambda: 0)
                for x, y in loader:
                    loss = nn.functional.cross_entropy(model(x), y)
                    STEP
        """
    )
    told = [(each.line, each.message.rpartition(" (")[2]) for each in plan.findings]
    assert told == [(8, "line 9)"), (12, "line 9)")]


SELF_TEST = """
class Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x.softmax(1))
        return x.softmax(1)

    @staticmethod
    def backward(ctx, grad):
        (out,) = ctx.saved_tensors
        with torch.amp.autocast({autocast}):
            part = grad.float() * out.float()
            return part - out * part.sum(1, keepdim=True)

def check():
    a = torch.randn(2, 3, requires_grad=True)
    Softmax.apply(a)[:, 0].sum().backward()

check()
"""


@pytest.mark.parametrize(
    ("autocast", "why"),
    [
        ('"cuda", enabled=False', "autocast is switched off already in what may be part of it (line "),
        ('"cuda"', "mixed precision is in use here already (line "),
    ],
)
def test_what_only_switches_autocast_off_is_said_to_do_that(leaves: Check, autocast: str, why: str) -> None:
    leaves(SELF_TEST.format(autocast=autocast), why)


SWITCHED_OFF = """
    model = nn.Linear(2, 2).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in loader:
        with torch.autocast("cuda", {enabled}):
            loss = model(x).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


def test_a_step_whose_forward_has_autocast_switched_off_is_told(migrate: Check, leaves: Check) -> None:
    for enabled in ("enabled=False", "torch.float16, False", "torch.float16, False, True"):
        why = "autocast is switched off already in what may be part of it (line "
        leaves(SWITCHED_OFF.format(enabled=enabled), why)
    for enabled in ("enabled=True", "enabled=args.amp", "torch.float16, True, False", "*args, enabled=args.amp"):
        plan = migrate(SWITCHED_OFF.format(enabled=enabled))
        assert plan.after == plan.source.text
        assert not [each for each in plan.findings if "switched off" in each.message]


def test_each_step_of_a_function_with_autocast_switched_off_is_told(migrate: Check) -> None:
    loop = SWITCHED_OFF[SWITCHED_OFF.index("    for x") :].format(enabled="enabled=False")
    plan = migrate(SWITCHED_OFF.format(enabled="enabled=False") + loop)
    assert ["switched off" in each.message for each in plan.findings] == [True, True]
    assert len({each.line for each in plan.findings}) == 2


def test_a_step_whose_scaler_is_switched_off_is_told_so(leaves: Check) -> None:
    text = SWITCHED_OFF.replace(
        '    for x in loader:\n        with torch.autocast("cuda", {enabled}):\n    ', "{enabled}"
    )
    text = text.format(enabled='    scaler = torch.amp.GradScaler("cuda", enabled=False)\n    for x in loader:\n')
    text = text.replace("loss.backward()", "scaler.scale(loss).backward()")
    text = text.replace("optimizer.step()", "scaler.step(optimizer)\n        scaler.update()")
    leaves(text, "a GradScaler is made beside it that is switched off already (line ")


FORGOTTEN = """
    model = nn.Linear(2, 2).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    for x in loader:
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
"""


def test_a_step_beside_a_scaler_that_nothing_uses_is_told(migrate: Check, leaves: Check) -> None:
    leaves(FORGOTTEN, "a GradScaler is made beside it that nothing uses")
    for use in (
        "    save(scaler.state_dict())\n",
        "    run(loader, scaler)\n",
        "    cast = torch.amp.autocast('cuda')\n",
    ):
        plan = migrate(FORGOTTEN + use)
        assert plan.after == plan.source.text
        assert not [each for each in plan.findings if "nothing uses" in each.message]


def test_a_backward_that_handles_an_exception_is_said_to(leaves: Check) -> None:
    leaves(
        """
        try:
            x = next(batches)
        except StopIteration:
            model(last).mean().backward()
        optimizer.step()
        """,
        "stands where an exception is handled",
    )


def test_a_step_that_stays_is_named_at_each_of_its_losses_and_has_no_scaler(migrate: Check) -> None:
    plan = migrate(
        """
        a, b = nn.Linear(2, 2).cuda(), nn.Linear(2, 2).cuda()
        a_optimizer = torch.optim.SGD(a.parameters(), lr=0.1)
        b_optimizer = torch.optim.SGD(b.parameters(), lr=0.1)
        def learn(x, i):
            with torch.autograd.set_detect_anomaly(True):
                a_optimizer.zero_grad()
                a(x).mean().backward()
                if i % 3:
                    a_optimizer.step()
            if i % 2:
                return
            b_optimizer.zero_grad()
            b(x).mean().backward()
            b_optimizer.step()
        """
    )
    assert not plan.changed
    assert [(each.code, each.line) for each in plan.findings] == [("AMP590", 10), ("AMP590", 16)]


@pytest.mark.parametrize("called", ["cube", "Cube.apply"])
def test_autograd_function_alone_is_no_forward_that_nobody_sees(leaves: Check, called: str, dtype: str) -> None:
    leaves(
        f"""
        class Cube(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x ** 3

            @staticmethod
            def backward(ctx, gradient):
                (x,) = ctx.saved_tensors
                return gradient * 3 * x ** 2

        weight = torch.ones(3, requires_grad=True)
        for x in loader:
            cube = Cube.apply
            loss = {called}(weight * x).sum()
            loss.backward()
            with torch.no_grad():
                weight -= 0.1 * weight.grad
                weight.grad = None
        """,
        f"`loss` is computed by `{called}`, an autograd function, and by no module",
        dtype=dtype,
    )


FRAGMENT = """\
{}for x in loader:
    opt.zero_grad()
    loss = -torch.mean(net(x))
    loss.backward()
    opt.step()
"""


@pytest.mark.parametrize(
    ("brings", "is_left"),
    [("", True), ("import numpy as np\n", True), ("from torch import nn\n", True), ("from lib import *\n", False)],
)
def test_a_step_that_uses_torch_and_has_it_from_nowhere_is_left(brings: str, is_left: bool) -> None:
    text = FRAGMENT.format(brings)
    plan = migrate_text(text, Settings())
    line = text[: text.index("    loss")].count("\n") + 1
    assert [each.message for each in plan.findings if "nothing brings it" in each.message] == [
        f"step left as it was: torch is used here and nothing brings it: the file raises as it is (line {line})"
    ] * is_left
    assert not any(each.code == "AMP002" for each in plan.findings)
    assert plan.after == text or not is_left


@pytest.mark.parametrize("brings", ["import torch as th\n", "from torch import nn\n", "import torch.nn as nn\n"])
def test_an_import_of_something_of_torch_is_no_use_of_the_name(brings: str) -> None:
    text = brings + FRAGMENT.format("").replace("-torch.mean(net(x))", "net(x).mean()")
    assert not any("nothing brings it" in each.message for each in migrate_text(text, Settings()).findings)


def test_a_backward_of_an_unseen_object_that_a_class_of_the_project_may_have(leaves: Check, dtype: str) -> None:
    leaves(
        """
        class Base(nn.Module):
            def backward(self, losses, count):
                total = 0.0
                for value in losses.values():
                    total += value
                total.backward()

        def train(model, loader):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for count, (x, y) in enumerate(loader):
                optimizer.zero_grad()
                losses = model(x, y)
                model.backward(losses, count)
                optimizer.step()
        """,
        "model.backward(losses, count) may be of Base, which scales nothing, and whose it is cannot be seen",
        dtype=dtype,
    )
