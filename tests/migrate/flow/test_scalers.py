"""What is wrong in the order of a scaler's calls, over all ways through the code."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent
from typing import Any

import pytest
from amp_migrate.flow.questions import faults

from .moved_texts import migrated

Tell = Callable[..., Any]

SETUP = """
model = nn.Linear(4, 2)
opt = optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda")
data = [torch.randn(8, 4) for _ in range(6)]
for i, x in enumerate(data):
    opt.zero_grad()
    with torch.amp.autocast("cuda", dtype=torch.float16):
        loss = model(x).pow(2).mean()
"""


def wrong(told: Tell, text: str, *, moved: bool = False, **others: str) -> dict[int, list[str]]:
    """The faults of a text, by line; `moved`: once its steps have moved to a scaler."""
    text = dedent(text).removeprefix("\n")
    found: dict[int, list[str]] = {}
    answer = told(migrated(text) if moved else text, **others)
    for fault in faults(answer.analysis):
        found.setdefault(answer.line(fault.site), []).append(fault.what + ("" if fault.always else ", on some ways"))
    return found


def at(text: str, part: str) -> int:
    """The line of a text that has a part."""
    lines = dedent(text).removeprefix("\n").splitlines()
    (number,) = [index for index, line in enumerate(lines, 1) if part in line]
    return number


RIGHT = """
    scaler.scale(loss).backward()
    scaler.unscale_(opt)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(opt)
    scaler.update()
"""


@pytest.mark.parametrize(
    "read",
    [
        'import json\nlosses = json.load(open("losses.json"))\n',
        "losses = []\nwhile input():\n    losses = losses + [torch.ones(2, requires_grad=True), losses]\n"
        "    losses.append(losses)\n",
        "losses = []\nothers = [losses]\nlosses.append(others)\n",
    ],
    ids=["a file of data", "a list made longer", "two lists"],
)
def test_a_list_that_holds_itself_is_scaled_with_what_else_it_holds(told: Tell, read: str) -> None:
    text = read + 'scaler = torch.amp.GradScaler("cuda")\nscaled = scaler.scale(losses)\nx = scaled[0]\n'
    assert told(text).value("x")


def test_a_right_loop_has_no_faults(told: Tell) -> None:
    assert wrong(told, SETUP + RIGHT.removeprefix("\n")) == {}


@pytest.mark.parametrize(
    ("body", "part", "what"),
    [
        (
            "    loss.backward()\n    scaler.step(opt)\n    scaler.update()\n",
            "scaler.step",
            "a scaler steps on gradients that are not scaled",
        ),
        ("    scaler.scale(loss).backward()\n    opt.step()\n", "opt.step", "an optimizer steps past its scaler"),
        (
            "    scaler.scale(loss).backward()\n    scaler.step(opt)\n",
            "scaler.step",
            "a scaler steps twice without an update",
        ),
        (
            "    scaler.scale(loss).backward()\n    scaler.unscale_(opt)\n    scaler.unscale_(opt)\n"
            "    scaler.step(opt)\n    scaler.update()\n",
            "",
            "gradients are unscaled twice",
        ),
        (
            "    scaler.scale(loss).backward()\n"
            "    nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n    scaler.step(opt)\n"
            "    scaler.update()\n",
            "clip_grad",
            "gradients are clipped while they are scaled",
        ),
        (
            "    scaler.scale(loss).backward()\n    scaler.step(opt)\n    scaler.update()\n    scaler.update()\n",
            "",
            "a scaler updates without having looked at gradients",
        ),
        (
            "    scaler.scale(loss).backward()\n    scaler.update()\n    scaler.step(opt)\n    scaler.update()\n",
            "",
            "gradients are of an older scale",
        ),
        (
            "    scaler.scale(loss).backward()\n    scaler.step(opt)\n    scaler.update()\n"
            "    model(x).sum().backward()\n    scaler.scale(model(x).sum()).backward()\n"
            "    scaler.step(opt)\n    scaler.update()\n",
            "",
            "true gradients are added to scaled ones",
        ),
    ],
)
def test_what_is_wrong_on_all_ways(told: Tell, body: str, part: str, what: str) -> None:
    found = wrong(told, SETUP + body)
    assert what in [each for line in found.values() for each in line]
    if part:
        assert what in found[at(SETUP + body, part)]


@pytest.mark.parametrize("jump", ["break", "continue"])
def test_a_jump_between_unscale_and_update(told: Tell, jump: str) -> None:
    body = (
        "    scaler.scale(loss).backward()\n    scaler.unscale_(opt)\n"
        f"    if i == 3:\n        {jump}\n    scaler.step(opt)\n    scaler.update()\n"
    )
    inner = "for epoch in range(3):\n" + "".join(
        f"    {line}\n" for line in (SETUP.split("data = ")[1].split("\n", 1)[1] + body).splitlines()
    )
    text = SETUP.split("for i,")[0] + inner
    assert wrong(told, text) == {at(text, "unscale_"): ["gradients are unscaled twice, on some ways"]}


def test_tests_that_go_together_are_seen_to(told: Tell) -> None:
    text = SETUP.replace("data =", "clip = bool(input())\ndata =") + (
        "    scaler.scale(loss).backward()\n"
        "    if clip:\n        scaler.unscale_(opt)\n"
        "    if clip:\n        nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
        "    scaler.step(opt)\n    scaler.update()\n"
    )
    assert wrong(told, text) == {}


def test_calls_are_followed_through_functions_methods_and_files(told: Tell) -> None:
    text = """
        from engine import Trainer, step


        class Own(Trainer):
            def clip(self):
                nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)


        model = nn.Linear(4, 2)
        opt = optim.SGD(model.parameters(), lr=0.1)
        trainer = Own(model, opt)
        for x in [torch.randn(8, 4)] * 3:
            trainer.run(x)
        step(trainer.scaler, opt)
    """
    engine = """
        import torch


        def step(scaler, optimizer):
            scaler.step(optimizer)
            scaler.update()


        class Trainer:
            def __init__(self, model, opt):
                self.model, self.opt = model, opt
                self.scaler = torch.amp.GradScaler("cuda")

            def run(self, x):
                self.opt.zero_grad()
                with torch.amp.autocast("cuda", dtype=torch.float16):
                    loss = self.model(x).mean()
                self.scaler.scale(loss).backward()
                self.clip()
                step(self.scaler, self.opt)
    """
    found = {
        (fault.site.file, fault.what, fault.always)
        for fault in faults(told(dedent(text).removeprefix("\n"), engine=engine).analysis)
    }
    assert ("train.py", "gradients are clipped while they are scaled", True) in found


def test_the_ways_of_a_fault_are_told_by_their_tests(told: Tell) -> None:
    text = SETUP.replace("data =", "late = bool(input())\ndata =") + (
        "    if late:\n        scaler.scale(loss).backward()\n    scaler.step(opt)\n    scaler.update()\n"
    )
    (fault,) = [each for each in faults(told(text).analysis) if "without gradients" in each.what]
    assert not fault.always
    assert fault.why == "late is false"


def test_what_is_stored_into_a_part_of_a_tensor_brings_its_gradients(told: Tell) -> None:
    text = """
        import torch

        model, critic = torch.nn.Linear(4, 4).cuda(), torch.nn.Linear(4, 1).cuda()
        opt = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cuda")
        for x in loader:
            opt.zero_grad()
            samples = torch.zeros(8, 4, device="cuda")
            with torch.amp.autocast("cuda", dtype=torch.float16):
                for i in range(8):
                    samples[i] = model(x[i])
                loss = critic(samples).mean()
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
    """
    assert wrong(told, text) == {}
    what = "a scaler steps an optimizer without gradients"
    assert what in str(wrong(told, text.replace("= model(x[i])", "= model(x[i]).detach()")))
    assert what in str(wrong(told, text.replace("    samples[i] = ", "    _ = ")))


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (
            "    loss = model(x).pow(2).mean()\n    if i % 3 != 2:\n        loss.backward()\n    opt.step()\n",
            "a scaler steps an optimizer without gradients, on some ways",
        ),
        (
            "    loss = model(x).pow(2).mean()\n    loss.backward()\n    opt.step()\n"
            "    loss2 = model(x).abs().mean()\n    loss2.backward()\n    opt.step()\n",
            "true gradients are added to scaled ones",
        ),
        (
            "    try:\n        loss = model(x).pow(2).mean()\n        loss.backward()\n"
            "    except RuntimeError:\n        print('out of memory')\n    opt.step()\n",
            "a scaler steps an optimizer without gradients, on some ways",
        ),
        (
            "    loss = (model(x) + bias).pow(2).mean()\n    loss.backward()\n    opt.step()\n"
            "    with torch.no_grad():\n        bias -= 0.1 * bias.grad\n    bias.grad = None\n",
            "a gradient is used while the loss scale is in it",
        ),
        (
            "    for _ in range(2):\n        loss = (model(x) + bias).pow(2).mean()\n        opt.zero_grad()\n"
            "        loss.backward()\n        opt.step()\n"
            "    with torch.no_grad():\n        bias -= 0.1 * bias.grad\n    bias.grad = None\n",
            "a gradient is used while the loss scale is in it",
        ),
        (
            "    x.requires_grad_(True)\n    loss = model(x).pow(2).mean()\n    loss.backward()\n"
            "    print(x.grad.abs().max())\n    opt.step()\n",
            "a gradient is used while the loss scale is in it",
        ),
        (
            "    loss = model(x).pow(2).mean()\n    loss.backward()\n    opt.step()\n    opt2.step()\n",
            "a parameter that two optimizers have is unscaled twice",
        ),
        (
            "    loss = model(x).pow(2).mean()\n    loss.backward()\n"
            "    total = sum(p.grad.norm() ** 2 for p in model.parameters()) ** 0.5\n"
            "    print(total.item())\n    opt.step()\n",
            "a gradient is used while the loss scale is in it",
        ),
    ],
    ids=[
        "a backward under a test",
        "a second step",
        "a backward that may raise",
        "an update by hand",
        "an update by hand of what adds up",
        "an input's gradient",
        "one parameter in two optimizers",
        "a norm by hand",
    ],
)
def test_what_a_scaler_would_break_in_a_float32_step(told: Tell, body: str, what: str) -> None:
    head = (
        "model = nn.Linear(4, 2)\nopt = optim.SGD(model.parameters(), lr=0.1)\nopt2 = optim.SGD([model.bias], lr=0.1)\n"
        "bias = torch.zeros(2, requires_grad=True)\ndata = [torch.randn(8, 4) for _ in range(6)]\n"
        "for i, x in enumerate(data):\n    opt.zero_grad()\n"
    )
    text = head if "opt2" in body else head.replace("opt2 = optim.SGD([model.bias], lr=0.1)\n", "")
    found = wrong(told, text + body, moved=True)
    assert what in [each for line in found.values() for each in line]


TOLD_ELSEWHERE = """
model, head = nn.Linear(4, 4), nn.Linear(4, 2)
opt, opt2 = optim.SGD(model.parameters(), lr=0.1), optim.SGD(head.parameters(), lr=0.1)


def loss_of(k, x):
    out = model(x)
    if k >= 2:
        out = head(out)
    return out.pow(2).mean()


for i, x in enumerate([torch.randn(8, 4)] * 4):
    opt.zero_grad()
    opt2.zero_grad()
    {}
    loss.backward()
    opt.step()
    {}
for i in range(3):
    print(i)
"""


@pytest.mark.parametrize(
    ("loss", "step", "is_told"),
    [
        ("loss = loss_of(i, x)", "opt2.step()", True),
        ("loss = loss_of(i, x)", "if i >= 2:\n        opt2.step()", False),
        ("loss = loss_of(k=i, x=x)", "if not i >= 2:\n        continue\n    opt2.step()", False),
        ("loss = loss_of(i, x)\n    i = 3", "if i >= 2:\n        opt2.step()", False),
    ],
)
def test_a_test_in_a_function_tells_its_caller_of_what_it_gave(told: Tell, loss: str, step: str, is_told: bool) -> None:
    text = dedent(TOLD_ELSEWHERE.format(loss, step)).removeprefix("\n")
    found = [each for each in faults(told(migrated(text)).analysis) if "without gradients" in each.what]
    assert any(each.why == "i >= 2 is false" for each in found) is is_told


def test_a_gradients_direction_and_finiteness_do_not_depend_on_the_scale(told: Tell) -> None:
    text = (
        "model = nn.Linear(4, 2)\nopt = optim.SGD(model.parameters(), lr=0.1)\nfor x in [torch.randn(8, 4)] * 3:\n"
        "    x.requires_grad_(True)\n    opt.zero_grad()\n    model(x).pow(2).mean().backward()\n"
        "    x = x.detach() + 0.1 * x.grad.sign()\n    step = x.grad / x.grad.norm()\n    print(step.mean())\n"
        "    print(torch.isfinite(model.weight.grad).all())\n    opt.step()\n"
    )
    found = wrong(told, text, moved=True)
    assert "a gradient is used while the loss scale is in it" not in [each for line in found.values() for each in line]


def test_a_scaler_made_anew_every_epoch(told: Tell) -> None:
    text = """
        def epoch(model, opt, loader):
            scaler = torch.amp.GradScaler("cuda")
            for x in loader:
                with torch.amp.autocast("cuda", dtype=torch.float16):
                    loss = model(x).mean()
                opt.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(opt)
                scaler.update()


        def main(model, loader):
            opt = optim.SGD(model.parameters(), lr=0.1)
            for _ in range(100):
                epoch(model, opt, loader)
    """
    assert wrong(told, text) == {2: ["a scaler is made anew"]}


def test_what_two_callers_make_is_told_apart(told: Tell) -> None:
    text = """
        def epoch(model, opt, scaler, loader):
            for x in loader:
                opt.zero_grad()
                with torch.amp.autocast("cuda", dtype=torch.float16):
                    loss = model(x).mean()
                scaler.scale(loss).backward()
                WORK
                scaler.update()


        def train(loader):
            model = nn.Linear(4, 2).cuda()
            opt = optim.SGD(model.parameters(), lr=0.1)
            scaler = torch.amp.GradScaler("cuda")
            epoch(model, opt, scaler, loader)


        def first():
            train(load("a.csv"))


        def second():
            train(load("b.csv"))
    """
    assert wrong(told, text.replace("WORK", "scaler.step(opt)")) == {}
    assert wrong(told, text.replace("WORK", "opt.step()"))[7] == ["an optimizer steps past its scaler"]


FOLDS = """
    def train(data, folds):
        for _ in range(folds):
            model = nn.Linear(4, 2)
            MADE
            for x in data:
                with torch.amp.autocast("cuda", dtype=torch.float16):
                    loss = model(x).mean()
                opt.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(opt)
                scaler.update()
"""


def test_a_scaler_that_is_made_with_its_optimizer_is_as_old_as_that(told: Tell) -> None:
    made = 'opt = optim.SGD(model.parameters(), lr=0.1)\n            scaler = torch.amp.GradScaler("cuda")'
    assert wrong(told, FOLDS.replace("MADE", made)) == {}
    given = FOLDS.replace("data, folds", "data, folds, model, opt").replace("model = nn.Linear(4, 2)", "pass")
    assert wrong(told, given.replace("MADE", 'scaler = torch.amp.GradScaler("cuda")')) == {4: ["a scaler is made anew"]}


def test_a_scaler_that_is_made_before_its_optimizers_is_as_old_as_those(told: Tell) -> None:
    made = 'scaler = torch.amp.GradScaler("cuda")\n            opt = optim.SGD(model.parameters(), lr=0.1)'
    assert wrong(told, FOLDS.replace("MADE", made)) == {}
    between = f"{made}\n            other = optim.SGD(fixed.parameters(), lr=0.1)"
    stepped = f"{FOLDS.replace('scaler.step(opt)', 'scaler.step(other)').replace('opt.zero', 'other.zero')}"
    text = stepped.replace("MADE", between).replace("model(x)", "fixed(model(x))")
    assert wrong(told, text.replace("data, folds", "data, folds, fixed")) == {}
    kept = text.replace("            other = optim.SGD(fixed.parameters(), lr=0.1)\n", "")
    head = "fixed = nn.Linear(2, 2)\n    other = optim.SGD(fixed.parameters(), lr=0.1)\n    def"
    assert wrong(told, kept.replace("def", head, 1)) == {6: ["a scaler is made anew"]}


def test_a_scaler_that_is_made_with_an_optimizer_of_another_package_is_as_old_as_that(told: Tell) -> None:
    scaler = 'scaler = torch.amp.GradScaler("cuda")'
    made = f'opt = transformers.AdamW([{{"params": [p for p in model.parameters()]}}])\n            {scaler}'
    assert wrong(told, "import transformers\n" + dedent(FOLDS.replace("MADE", made))) == {}


def test_an_optimizer_has_the_weights_of_a_class_that_is_derived_from_a_layer(told: Tell) -> None:
    answer = told(
        """
        class Scaled(nn.Linear):
            def forward(self, x):
                return F.linear(x, self.weight * 2, self.bias)

        class Loss(nn.MSELoss):
            pass

        class Chain(nn.Sequential):
            pass

        net = Chain(Scaled(2, 2), nn.Linear(2, 2), Loss())
        opt = optim.SGD(net.parameters(), lr=0.1)
        """
    )
    (leaves,) = answer.analysis.pytorch.registry.optimizers.values()
    assert {repr(each) for each in leaves or ()} == {"<class Scaled of 14>.*", "<torch.nn.Linear of 14>.*"}


def test_an_optimizer_whose_parameters_nobody_sees_has_gradients_behind_a_backward(told: Tell) -> None:
    text = """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                first, self.body = self.load("folder")

            def forward(self, x):
                return self.body(x)


        model = Net()
        opt = optim.SGD(filter(lambda p: p.requires_grad, model.parameters()), lr=0.1)
        scaler = torch.amp.GradScaler("cuda")
        for x in data:
            opt.zero_grad()
            with torch.amp.autocast("cuda", dtype=torch.float16):
                loss = model(x).mean()
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
    """
    assert wrong(told, text) == {}
    skipped = text.replace("scaler.scale(loss).backward()", "scaler.scale(loss)")
    assert wrong(told, skipped) == {at(text, "scaler.step"): ["a scaler steps an optimizer without gradients"]}


HIERARCHY = """
    class Trainer:
        def __init__(self, flow, opt):
            self.flow, self.opt = flow, opt
            self.scaler = torch.amp.GradScaler("cuda")

        def train(self, data):
            for x in data:
                self.step(x)

        def step(self, x):
            self.opt.zero_grad()
            with torch.amp.autocast("cuda", dtype=torch.float16):
                loss = self.flow(x).mean()
            self.scaler.scale(loss).backward()
            UNSCALE
            nn.utils.clip_grad_norm_(self.flow.parameters(), 1)
            self.scaler.step(self.opt)
            self.scaler.update()


    class Aided(Trainer):
        def __init__(self, flow, opt, weight):
            super().__init__(flow, opt)
            self.weight = weight

        def step(self, x):
            self.opt.zero_grad()
            with torch.amp.autocast("cuda", dtype=torch.float16):
                loss = self.flow(x).mean() * self.weight
            self.scaler.scale(loss).backward()
            UNSCALE
            nn.utils.clip_grad_norm_(self.flow.parameters(), 1)
            self.scaler.step(self.opt)
            self.scaler.update()
"""
CLIPPED_SCALED = "gradients are clipped while they are scaled"


def test_of_optimizers_that_nobody_tells_apart_the_one_that_is_unscaled_may_be_clipped(told: Tell) -> None:
    found = wrong(told, HIERARCHY.replace("UNSCALE", "self.scaler.unscale_(self.opt)"))
    assert CLIPPED_SCALED not in [each for line in found.values() for each in line]
    found = wrong(told, HIERARCHY.replace("UNSCALE", "pass"))
    assert [each for line in found.values() for each in line].count(CLIPPED_SCALED) == 2


def test_two_scalers_crossed(told: Tell) -> None:
    text = SETUP.replace(
        'scaler = torch.amp.GradScaler("cuda")',
        'scaler, other = torch.amp.GradScaler("cuda"), torch.amp.GradScaler("cuda")',
    ) + ("    scaler.scale(loss).backward()\n    other.step(opt)\n    other.update()\n")
    assert "gradients of another scaler are stepped on" in wrong(told, text)[at(text, "other.step")]


def test_a_region_that_another_function_opens(told: Tell) -> None:
    text = """
        def back(model, x, scaler):
            loss = model(x).mean()
            scaler.scale(loss).backward()


        def train(model, loader):
            opt = optim.SGD(model.parameters(), lr=0.1)
            scaler = torch.amp.GradScaler("cuda")
            for x in loader:
                opt.zero_grad()
                with torch.amp.autocast("cuda"):
                    back(model, x, scaler)
                scaler.step(opt)
                scaler.update()
    """
    assert wrong(told, text) == {3: ["a loss goes backward inside a region"]}


def test_a_scaler_without_a_region(told: Tell) -> None:
    text = SETUP.replace('    with torch.amp.autocast("cuda", dtype=torch.float16):\n    ', "") + RIGHT.removeprefix(
        "\n"
    )
    found = wrong(told, text)
    assert [each for line in found.values() for each in line] == [
        "a loss is scaled, and nothing is computed in half precision"
    ]


def test_a_loss_that_a_parameter_brings_may_be_of_a_region_elsewhere(told: Tell) -> None:
    text = """
        import torch

        def back(loss, optimizer, scaler):
            scaler.scale({}).backward()
            scaler.step(optimizer)
            scaler.update()
    """
    vain = "a loss is scaled, and nothing is computed in half precision"
    assert not wrong(told, text.format("loss"))
    assert wrong(told, text.format("loss(3)")) == {4: [vain]}


FOREIGN_PARTS = """
from torchvision.models import resnet18
from transformers import AdamW
from models import make

scaler = torch.amp.GradScaler("cuda")


class Body(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = MODULES

    def forward(self, x):
        return self.features(x).flatten(1)


body, head = MADE
opt_b = OPTIMIZER(body.parameters(), lr=0.1)
opt_h = optim.SGD(head.parameters(), lr=0.1)
for x in data():
    opt_b.zero_grad()
    opt_h.zero_grad()
    with torch.amp.autocast("cuda", dtype=torch.float16):
        loss = head(body(x)).pow(2).mean()
    scaler.scale(loss).backward()
    scaler.step(opt_b)
    scaler.step(opt_h)
    scaler.update()
"""


def surely_wrong(told: Tell, text: str) -> list[str]:
    """What is wrong on all ways."""
    return [what for said in wrong(told, text).values() for what in said if not what.endswith(", on some ways")]


@pytest.mark.parametrize("optimizer", ["optim.SGD", "AdamW"])
@pytest.mark.parametrize("made", ["Body(), nn.Linear(512, 3)", "nn.DataParallel(make().cuda()), make().to('cuda')"])
@pytest.mark.parametrize("parts", ["nn.Sequential(*list(resnet18().children())[:-1])", "make()", "resnet18()"])
def test_parts_of_other_packages_get_gradients_like_ones_own(told: Tell, optimizer: str, made: str, parts: str) -> None:
    text = FOREIGN_PARTS.replace("MODULES", parts).replace("MADE", made).replace("OPTIMIZER", optimizer)
    assert surely_wrong(told, text) == []
    unscaled = text.replace("scaler.scale(loss).backward()", "loss.backward()")
    assert "a scaler steps on gradients that are not scaled" in surely_wrong(told, unscaled)


def test_a_scale_that_is_said_needs_no_gradients_to_go_by(told: Tell) -> None:
    text = f"{SETUP}    scaler.scale(loss).backward()\n    scaler.step(opt)\n    scaler.update()\n"
    assert not wrong(told, f"{text}    if scaler.get_scale() > 512.0:\n        scaler.update(512.0)\n")
    assert wrong(told, f"{text}    if scaler.get_scale() > 512.0:\n        scaler.update(None)\n")


LAYERS = """
class Net(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.n, self.blocks = n, nn.ModuleList()
        for i in range(n):
            self.blocks.append(nn.Linear(8, 8))

    def forward(self, x):
        for BLOCK
        return x


net = NET.cuda()
opt = optim.SGD(net.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda")
for x in loader:
    loss = torch.zeros(1).cuda()
    with torch.amp.autocast("cuda", dtype=torch.float16):
        LOSS
    opt.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
"""
EACH = "block in self.blocks: x = block(x)"
CHAIN = "nn.Sequential(*[f(8) for _ in range(n) for f in (nn.BatchNorm1d, lambda k: nn.Linear(k, k), nn.Dropout)])"


@pytest.mark.parametrize(
    ("block", "net", "loss"),
    [
        (EACH, "Net(4)", "loss = net(x).mean()"),
        ("i in range(self.n): x = torch.relu(self.blocks[i](x))", "Net(args.n)", "loss = net(x).mean()"),
        (EACH, CHAIN, "loss = net(x).mean()"),
        (EACH, "nn.Linear(8, 8)", "for part in x: loss = loss + net(part).mean()"),
    ],
)
def test_a_loss_depends_on_all_that_it_goes_through(told: Tell, block: str, net: str, loss: str) -> None:
    text = LAYERS.replace("BLOCK", block).replace("NET", net).replace("LOSS", loss)
    assert not [each for each in faults(told(text).analysis) if each.always or each.is_seen]
    some = text.replace("    scaler.scale(loss).backward()", "    if loss > 0:\n        scaler.scale(loss).backward()")
    seen = {each.what for each in faults(told(some).analysis) if each.is_seen}
    assert "a scaler steps an optimizer without gradients" in seen


HEADS = """
import torchvision
net = torchvision.models.resnet18()
for p in net.parameters():
    p.requires_grad = False
HEAD_OF_IT = nn.Linear(8, 2)
opt = optim.SGD(HEAD_OF_IT.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda")
for x in [torch.randn(8, 3, 8, 8)]:
    opt.zero_grad()
    with torch.amp.autocast("cuda", dtype=torch.float16):
        loss = LOSS
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
"""


@pytest.mark.parametrize(("head", "net"), [("net.fc", "net"), ("net.head[1]", "net"), ("net.fc", "nn.Sequential(net)")])
def test_a_new_head_of_another_packages_model_gets_gradients(told: Tell, head: str, net: str) -> None:
    text = HEADS.replace("HEAD_OF_IT", head).replace("LOSS", f"{net}(x).mean()")
    assert not faults(told(text).analysis)


def test_a_layer_that_the_loss_does_not_go_through_gets_none(told: Tell) -> None:
    text = HEADS.replace("HEAD_OF_IT", "net.fc").replace("LOSS", "nn.Linear(3, 2)(x).mean()")
    what = "a scaler steps an optimizer without gradients"
    assert [each.what for each in faults(told(text).analysis) if each.always] == [what]


PAIRS = """
class Pairs(nn.Module):
    def forward(self, z):
        terms = FIRST
        for row in z:
            terms.append(row.logsumexp(0))
        return torch.stack(terms).mean()


def train(net, criterion, data):
    opt = optim.SGD(net.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    for x in data:
        opt.zero_grad()
        with torch.amp.autocast("cuda", dtype=torch.float16):
            loss = criterion(net(x))
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()


def evaluate(net, criterion, data):
    with torch.no_grad():
        return [criterion(net(x)).item() for x in data]


criterion, net = Pairs(), nn.Linear(4, 4)
train(net, criterion, [torch.rand(4, 4)])
evaluate(net, criterion, [torch.rand(4, 4)])
"""


@pytest.mark.parametrize("first", ["[]", "[z.mean()]", "list()"])
def test_a_list_that_a_call_fills_under_no_grad_is_another_than_that_of_a_training_step(told: Tell, first: str) -> None:
    assert not faults(told(PAIRS.replace("FIRST", first)).analysis)


def test_a_function_that_only_a_file_out_of_sight_calls_runs_before_those_that_it_calls(told: Tell) -> None:
    text = """
        from transformers import AdamW

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(3, 2)

            def forward(self, x):
                return self.fc(x)

        def train_step(batches, model, optimizer, scaler):
            for x in batches:
                optimizer.zero_grad()
                with torch.amp.autocast("cuda", dtype=torch.float16):
                    loss = model(x).mean()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()

        def train(batches):
            model = Net()
            optimizer = AdamW(model.parameters())
            scaler = torch.amp.GradScaler("cuda")
            for epoch in range(3):
                model.train()
                train_step(batches, model, optimizer, scaler)
    """
    assert wrong(told, text) == {}
    late = text.replace("                model.train()\n", "                scaler = torch.amp.GradScaler('cuda')\n")
    assert wrong(told, late) == {at(late, "scaler = torch.amp.GradScaler('cuda')"): ["a scaler is made anew"]}


@pytest.mark.parametrize("around", ["torch.no_grad()", "torch.inference_mode()"])
def test_a_dictionary_of_outputs_is_not_the_one_of_an_evaluation(told: Tell, around: str) -> None:
    text = f"""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Linear(8, 8)

        def forward(self, x):
            return {{"map": self.body(x)}}

    net = Net().cuda()
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        optimizer.zero_grad()
        with torch.amp.autocast("cuda", dtype=torch.float16):
            out = net(x)
            loss = F.mse_loss(out["map"], y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    for x, y in loader:
        with {around}:
            out = net(x)
    """
    assert not faults(told(dedent(text)).analysis)


@pytest.mark.parametrize(
    ("name", "hook", "is_told"),
    [
        ("register_full_backward_hook", "lambda module, given, of: print(of[0].norm())", True),
        ("register_full_backward_hook", "look", True),
        ("register_full_backward_pre_hook", "lambda module, of: print(of[0].norm())", True),
        ("register_full_backward_hook", "lambda module, given, of: (given[0] * 0.5,)", False),
        ("register_full_backward_hook", "lambda module, given, of: print(module)", False),
    ],
)
def test_a_hook_of_a_module_gets_scaled_gradients(told: Tell, name: str, hook: str, is_told: bool) -> None:
    text = (
        f"from elsewhere import look\nmodel = nn.Linear(4, 2)\nmodel.{name}({hook})\n"
        + SETUP.partition("\n")[2]
        + RIGHT
    )
    assert bool(wrong(told, text)) is is_told


@pytest.mark.parametrize(
    "norm",
    [
        "total = model.weight.grad.norm(2)",
        "total = torch.cat([p.grad.flatten() for p in model.parameters()], 0).norm(2, 0)",
        "total = 0\n    for p in model.parameters():\n        total += p.grad.norm().item() ** 2\n    total **= 1 / 2",
    ],
)
def test_norm_of_gradients_that_is_divided_by_the_scale_is_a_true_one(norm: str, told: Tell) -> None:
    text = SETUP + f"    scaler.scale(loss).backward()\n    {norm}\n    print(total{{}})\n    opt.step()\n"
    why = "a gradient is used while the loss scale is in it"
    line = text[: text.index("print")].count("\n")
    assert why in wrong(told, text.format(""))[line]
    assert line not in wrong(told, text.format(" / scaler.get_scale()"))


@pytest.mark.parametrize(("unscaled", "lines"), [("scaler.unscale_(opt)", []), ("pass", [27])])
def test_a_function_measures_gradients_as_they_are_where_it_is_called(
    unscaled: str, lines: list[int], told: Tell
) -> None:
    text = f"""
from log import Meter

def norm_of(parameters):
    total = 0
    for p in parameters:
        if p.grad is not None:
            total += p.grad.norm().item() ** 2
    return total ** 0.5
{SETUP}    if args.steps:
        scaler.scale(loss).backward()
        norm = norm_of(model.parameters()) / scaler.get_scale()
    else:
        scaler.scale(loss).backward()
        {unscaled}
        norm = norm_of(model.parameters())
    scaler.step(opt)
    scaler.update()
    Meter().update(norm)
    opt.zero_grad()
"""
    found = wrong(told, text)
    assert [line for line, why in found.items() if "a gradient is used while" in str(why)] == lines


SWITCHED = """
    import sys
    args = sys.argv
    {made}
    for x in data:
        opt.zero_grad()
        with torch.amp.autocast("cuda", dtype=torch.float16, enabled=args.fp16):
            loss = model(x).pow(2).mean()
        scaler.scale(loss).backward()
        if {test}:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(opt)
        scaler.update()
"""
MADE = 'scaler = torch.amp.GradScaler("cuda", enabled=args.fp16)'


@pytest.mark.parametrize(
    ("made", "test", "is_wrong"),
    [
        (MADE, "args.fp16", True),
        (MADE, "not args.fp16", False),
        (MADE.replace("enabled=", "2.0, 2.0, 0.5, 100, "), "not args.fp16", False),
        (MADE.replace("enabled=", "2.0, 2.0, 0.5, 100, ").replace("torch.", "torch.cuda."), "not args.fp16", True),
        (f"on = args.cuda and args.fp16\n    {MADE.replace('args.fp16', 'on')}", "not args.fp16", False),
        (f"on = args.cuda or args.fp16\n    {MADE.replace('args.fp16', 'on')}", "not args.fp16", True),
        (f"{MADE}\n    args.fp16 = input()", "not args.fp16", True),
        (f"on = args.fp16\n    on = input()\n    {MADE.replace('args.fp16', 'on')}", "not args.fp16", True),
        (f"def make(args):\n        return {MADE[9:]}\n    scaler = make(input())", "not args.fp16", True),
    ],
)
def test_scaler_that_is_off_where_a_test_says_so(made: str, test: str, is_wrong: bool, told: Tell) -> None:
    head = "\n".join(SETUP.splitlines()[:3]) + "\ndata = [torch.randn(8, 4)]\n"
    text = head + dedent(SWITCHED).format(made=dedent(made.replace("\n    ", "\n")), test=test)
    found = {what for each in wrong(told, text).values() for what in each}
    assert any(each.startswith("gradients are clipped while they are scaled") for each in found) is is_wrong


@pytest.mark.parametrize("name", ["amp_shim.parallel.LARC", "horovod.torch.DistributedOptimizer"])
def test_optimizer_in_one_of_a_library_that_steps_it_is_the_same(name: str, told: Tell) -> None:
    package, _, last = name.rpartition(".")
    held = f"from {package} import {last}\n{SETUP.replace('scaler =', f'opt = {last}(opt)' + chr(10) + 'scaler =')}"
    text = (
        f"{held}    scaler.scale(loss).backward()\n{{}}    nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
        "    scaler.step(opt)\n    scaler.update()\n"
    )
    assert wrong(told, text.format("    scaler.unscale_(opt)\n")) == {}
    assert wrong(told, text.format(""))


GOES_ON = """
first, second = nn.Linear(4, 4), nn.Linear(4, 2)
opt = optim.SGD([*first.parameters(), *second.parameters()], lr=0.1)
scaler = torch.amp.GradScaler("cuda")
for x in [torch.randn(8, 4) for _ in range(6)]:
    opt.zero_grad()
    with torch.amp.autocast("cuda", dtype=torch.float16):
        mid = first(x)
        cut = mid.detach().requires_grad_()
        loss = second(cut).mean()
    scaler.scale(loss).backward()
    BACKWARD
    scaler.step(opt)
    scaler.update()
"""


@pytest.mark.parametrize(
    ("backward", "what"),
    [
        ("mid.backward(cut.grad)", []),
        ("mid.backward(gradient=2 * cut.grad)", []),
        ("torch.autograd.backward([mid], [cut.grad])", []),
        ("torch.autograd.backward(mid, torch.ones_like(mid))", ["true gradients are added to scaled ones"]),
        ("mid.backward(None)", ["true gradients are added to scaled ones"]),
        ("mid.backward(torch.ones_like(mid))", ["true gradients are added to scaled ones"]),
        ("scaler.scale(mid).backward(torch.ones_like(mid))", []),
        (
            "scaler.scale(mid).backward(cut.grad)",
            [
                "a loss is scaled that goes backward from a gradient in which the loss scale may be already",
                "true gradients are added to scaled ones",
            ],
        ),
    ],
)
def test_what_goes_backward_from_a_gradient_has_the_scale_of_both(told: Tell, backward: str, what: list[str]) -> None:
    found = wrong(told, GOES_ON.replace("BACKWARD", backward))
    assert [each for line in sorted(found) for each in found[line]] == what


def test_gradients_that_come_behind_unscale_are_not_true(told: Tell) -> None:
    early = "    scaler.unscale_(opt)\n" + RIGHT.removeprefix("\n").replace("    scaler.unscale_(opt)\n", "")
    found = wrong(told, SETUP + early)
    assert "gradients are stepped on that have come behind unscale_()" in found[at(SETUP + early, "scaler.step")]


@pytest.mark.parametrize("division", ["scaler.step(opt)", "scaler.unscale_(opt)"])
@pytest.mark.parametrize("enabled", ["True", "args.amp"])
def test_gradients_of_two_scales_are_told_where_they_are_divided(told: Tell, division: str, enabled: str) -> None:
    head = f"""
        a, b = nn.Linear(2, 2).cuda(), nn.Linear(2, 2).cuda()
        opt, other = optim.SGD(a.parameters()), optim.SGD(b.parameters())
        scaler = torch.amp.GradScaler("cuda", enabled={enabled})
        """
    round_ = """
        scaler.scale(a(x).mean()).backward()
        scaler.scale(b(x).mean()).backward()
        scaler.step(other)
        scaler.update()
        """
    found = {each.what for each in faults(told(head + round_ + division).analysis) if each.always or each.is_seen}
    assert "gradients are of an older scale" in found
    again = round_ + "scaler.scale(a(x).mean()).backward()\n        " + division
    found = {each.what for each in faults(told(head + again).analysis) if each.always or each.is_seen}
    assert "gradients of an older scale and of a newer one are added up" in found
    assert "true gradients are added to scaled ones" not in found


@pytest.mark.parametrize(
    ("base", "body", "is_wrong"),
    [
        ("", "pass", True),
        ("(nn.Module)", "pass", True),
        ("", "def __iter__(self):\n        return iter([self.total])", False),
        ("(torch.Tensor)", "pass", False),
        ("(list)", "pass", False),
        ("(losses.Base)", "pass", False),
    ],
)
def test_a_scaler_scales_tensors_and_what_gives_some(told: Tell, base: str, body: str, is_wrong: bool) -> None:
    losses = f"import losses\n\nclass Losses{base}:\n    {body}\n" + dedent(SETUP)
    text = f"{losses}    total = Losses()\n    total.total = loss\n    scaler.scale(total)\n{RIGHT}"
    found = [each for each in wrong(told, text).values() if "a scaler scales tensors alone" in each]
    assert len(found) == is_wrong
