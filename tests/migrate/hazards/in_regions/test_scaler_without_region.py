"""AMP634: a loss is scaled, and nothing is computed in half precision."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent
from typing import Any

import pytest

Check = Callable[..., Any]

HEAD = "import torch\nfrom torch import nn\n"

TEXT = """
    def train(loader, model):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cuda")
        for x, y in loader:
            optimizer.zero_grad()
            {loss}
            scaler.scale(loss).backward(){mark}
            scaler.step(optimizer)
            scaler.update()

    train(loader, {model})
"""
LOSS = "loss = (model(x) - y).square().mean()"


def test_a_scaler_without_a_region_is_told(marked: Check) -> None:
    marked(TEXT.format(loss=LOSS, mark="  # AMP634", model="nn.Linear(4, 1).cuda()"))


@pytest.mark.parametrize(
    ("package", "make", "mark"),
    [
        ("transformers", "AutoModel.from_pretrained('some')", "  # AMP634"),
        ("timm", "create_model('some').cuda()", "  # AMP634"),
        ("models", "create_model('some')", ""),  # it may open a region by itself
    ],
)
def test_a_pretrained_model_of_a_package_opens_no_region(marked: Check, package: str, make: str, mark: str) -> None:
    loss = "loss = (model(x)[0] - y).square().mean()"
    model = f"nn.Sequential({package}.{make}, nn.Linear(4, 1).cuda())"
    marked(f"    import {package}\n" + TEXT.format(loss=loss, mark=mark, model=model))


OFF = 'with torch.autocast("cuda", enabled={enabled}):\n                loss = (model(x) - y).square().mean()'


def test_a_region_that_is_switched_off_is_none(marked: Check) -> None:
    off = OFF.format(enabled=False)
    marked(TEXT.format(loss=off, mark="  # AMP634", model="nn.Linear(4, 1).cuda()"))
    for loss in (OFF.format(enabled="options.amp"), f"{off}\n            print(torch.is_autocast_enabled(), autocast)"):
        marked(TEXT.format(loss=loss, mark="", model="nn.Linear(4, 1).cuda()"))


def test_what_is_trained_is_seen_whatever_else_the_loss_comes_from(marked: Check) -> None:
    marked(
        """
        class Scaler:
            def __init__(self):
                self.scaler = torch.amp.GradScaler("cuda")

            def __call__(self, loss, optimizer):
                self.scaler.scale(loss).backward()  # AMP634
                self.scaler.step(optimizer)
                self.scaler.update()

        def train(loader, model, teacher, loss_scaler):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for x, y in loader:
                optimizer.zero_grad()
                # with torch.autocast("cuda"):
                loss = (model(x) - teacher(x)).square().mean()
                loss_scaler(loss, optimizer)

        train(loader, nn.Linear(4, 1).cuda(), make(), Scaler())
        """
    )


@pytest.mark.parametrize(
    ("loss", "model"),
    [
        (f"with torch.autocast('cuda'):\n                {LOSS}", "nn.Linear(4, 1).cuda()"),
        (LOSS, "make(4, 1).half()"),
        (LOSS, "make(4, 1)"),
    ],
)
def test_a_scaler_is_left_alone_where_something_may_be_half(clean: Check, loss: str, model: str) -> None:
    clean(TEXT.format(loss=loss, mark="", model=model))


def test_what_a_text_says_of_half_precision_computes_nothing(marked: Check) -> None:
    said = "# no autocast, and nothing in half precision\n    "
    marked("\n    " + said + TEXT.format(loss=LOSS, mark="  # AMP634", model="nn.Linear(4, 1).cuda()").lstrip())


def script(loss: str, mark: str = "") -> str:
    return HEAD + dedent(TEXT.format(loss=loss, mark=mark, model="nn.Linear(4, 1).cuda()"))


IN_REGION = f"with torch.autocast('cuda'):\n                {LOSS}"


def test_another_script_beside_it_may_have_regions(marked_files: Check) -> None:
    marked_files(first=script(LOSS, "  # AMP634"), second=script(IN_REGION))


def test_a_file_that_imports_it_may_not(marked_files: Check) -> None:
    marked_files(first=script(LOSS), second="from first import train\n" + script(IN_REGION).replace("train", "train_2"))


@pytest.mark.parametrize(
    ("forward", "model", "is_idle"),
    [
        ("pred = model(x)", "nn.Linear(4, 1).cuda()", True),
        ("pred = model(x)", "nn.Linear(4, 1).cuda().double()", True),
        ("pred = x", "nn.Linear(4, 1).cuda()", False),
        ("pred = model(x)", "build()", False),
    ],
)
def test_a_region_round_the_loss_alone_is_told(marked: Check, forward: str, model: str, is_idle: bool) -> None:
    computed = "pred" if "model" in forward else "model(pred)"
    mark = "  # AMP634" if is_idle else ""
    region = f"with torch.autocast('cuda', torch.float16):{mark}"
    loss = f"{forward}\n            {region}\n                loss = nn.functional.mse_loss({computed}, y)"
    marked(TEXT.format(loss=loss, mark="", model=model))


NET = """
class Net{number}(nn.Module):
    def __init__(self, width):
        super().__init__()
{layers}

    def forward(self, x):
{calls}
        return x

"""


def net(number: int) -> str:
    layers = "\n".join(f"        self.layer{each} = nn.Linear(width, width)" for each in range(150))
    calls = "\n".join(f"        x = self.layer{each}(x).relu()" for each in range(150))
    return NET.format(number=number, layers=layers, calls=calls)


def test_one_of_several_large_models_is_seen(marked_files: Check) -> None:
    names = ", ".join(f"{each}: nets.Net{each}" for each in range(8))
    text = dedent(TEXT).format(loss=LOSS, mark="  # AMP634", model=f"{{{names}}}[int(input())](4).cuda()")
    marked_files(nets="from torch import nn\n" + "".join(map(net, range(8))), train=f"{HEAD}import nets\n{text}")


HELD = """
    class Trainer:
        def __init__(self, dtype):
            self.model = nn.Linear(4, 1).cuda()
            self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
            self.scaler = torch.amp.GradScaler("cuda")
            {made}

        def opened(self, dtype):
            return torch.autocast("cuda", dtype=dtype){mark}

        def step(self, x):
            self.optimizer.zero_grad()
            y = {forward}
            with {region}:
                loss = {loss}
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()

    trainer = Trainer(torch.float16)
    for x in loader:
        trainer.step(x.cuda())
"""


@pytest.mark.parametrize(
    ("made", "region"),
    [
        ('self.context = torch.autocast("cuda", dtype=dtype)', "self.context"),
        ("self.context = self.opened(dtype)", "self.context"),
        ("pass", "self.opened(torch.float16)"),
    ],
)
def test_a_region_that_is_made_elsewhere_works_where_it_is_entered(
    marked: Check, clean: Check, made: str, region: str
) -> None:
    clean(HELD.format(made=made, region=region, mark="", forward="x", loss="self.model(y).square().mean()"))
    idle = {"forward": "self.model(x)", "loss": "y.square().mean()"}
    if "opened" in made + region:
        marked(HELD.format(made=made, region=region, mark="  # AMP634", **idle))


ON_CPU = """
    device = torch.device("{device}")
    model = nn.Linear(8, 4).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    for x, y in torch.load("batches.pt"):
        optimizer.zero_grad()
        with torch.amp.autocast({region}, dtype=torch.{dtype}):{mark}
            loss = nn.functional.mse_loss(model(x.to(device)), y.to(device))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        print(scaler.state_dict())
"""


NOT_MOVED = """
    from torch.utils.data import DataLoader, TensorDataset

    model = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    for x, y in DataLoader(TensorDataset(torch.randn(8, 8), torch.randn(8, 1)), batch_size=4):
        optimizer.zero_grad()
        with torch.amp.autocast("cuda", dtype=torch.float16):{mark}
            loss = nn.functional.mse_loss(model(x{moved}), y{moved})
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        print(scaler.state_dict())
"""


def test_a_region_for_a_gpu_round_data_of_the_cpu(marked: Check, clean: Check) -> None:
    (found,) = marked(NOT_MOVED.format(moved="", mark="  # AMP634"))
    assert "weights meet what is on the CPU" in found.message
    for moved in (".cuda()", ".to(device)"):
        clean(NOT_MOVED.format(moved=moved, mark=""))
    for wrapper in ("nn.DataParallel({}, [0])", "nn.parallel.DistributedDataParallel({}, device_ids=[0])"):  # moves it
        clean(NOT_MOVED.format(moved="", mark="").replace("nn.Linear(8, 1)", wrapper.format("nn.Linear(8, 1).cuda()")))


def test_a_region_for_a_gpu_round_what_is_on_the_cpu(marked: Check, clean: Check) -> None:
    (found,) = marked(ON_CPU.format(device="cpu", region='"cuda"', dtype="float16", mark="  # AMP634"))
    assert "everything is on the CPU" in found.message
    clean(ON_CPU.format(device="cuda:1", region='"cuda"', dtype="float16", mark=""))
    clean(ON_CPU.format(device="cpu", region='"cpu"', dtype="bfloat16", mark=""))


AGENT = """
import torch
from torch import nn


class Agent:
    def __init__(self, size, device="cpu"):
        self.device = torch.device(device)
        self.net = nn.Linear(size, 1).to(self.device)
        self.optimizer = torch.optim.Adam(self.net.parameters())
        self.scaler = torch.amp.GradScaler("cuda")

    def update(self, batch):
        x, y = (torch.as_tensor(each, dtype=torch.float32, device=self.device) for each in batch)
        with torch.amp.autocast(device_type="cuda", dtype=torch.float16):MARK
            loss = nn.functional.mse_loss(self.net(x), y)
        self.optimizer.zero_grad()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
"""
PLAYED = """
import sys
import numpy as np
from agent import Agent

agent = Agent(4{device})
agent.update(np.zeros((2, 2, 4)))
"""


def test_a_unit_test_does_not_say_where_a_script_trains(marked_files: Check) -> None:
    in_script, in_test = PLAYED.format(device=", sys.argv[1]"), PLAYED.format(device="")
    marked_files(agent=AGENT.replace("MARK", ""), train=in_script, test_agent=in_test)
    marked_files(agent=AGENT.replace("MARK", "  # AMP634"), train=in_script, play=in_test)
