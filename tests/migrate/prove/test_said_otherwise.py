"""What results say otherwise than their originals and is one program; and what is nearly the same, and is another."""

from __future__ import annotations

import pytest

from .conftest import Check

HEAD = "import functools\n\nimport torch\nfrom torch import nn\nfrom utils import TORCH_VERSION, digit_version\n\n"
SCALER = (
    "class Scaler(torch.{module}.GradScaler):\n    def __init__(self, growth):\n        super().__init__({arguments})\n"
)
STEP = """
def train(model, optimizer, scaler, loader, args):
    for x, y in loader:
        scaler.scale(nn.functional.mse_loss(model(x), y)).backward()
{unscale}        if args.clip:
            nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        scaler.step(optimizer)
        scaler.update()
"""
MAYBE = """
from apex import amp

def go(model, {}):
    {}
        print("half")
    {}
        print("float32")
"""
CLICK = """
import click

@click.command()
@click.option("--lr", default=0.1){option}
def main(lr{parameter}):
    {region}print(lr)
"""
LOSSES = """
criterion = nn.BCELoss()
for x, x2, y in loader:
    {named}loss = criterion({one}, y) + criterion({other}, y)
"""


@pytest.mark.parametrize(
    ("before", "after", "other"),
    [
        pytest.param(
            "save(m) if m.best else drop(m)\n",
            "if m.best:\n    save(m)\nelse:\n    drop(m)\n",
            "if m.best:\n    drop(m)\nelse:\n    save(m)\n",
            id="a conditional expression that is a statement",
        ),
        pytest.param(
            'if TORCH_VERSION != "parrots" and digit_version(TORCH_VERSION) >= digit_version("2.4"):\n    f = 1\n'
            "else:\n    f = 2\n",
            "f = 1\n",
            "f = 2\n",
            id="a version that the project's own function reads",
        ),
        pytest.param(
            SCALER.format(module="cuda.amp", arguments="growth_interval=growth"),
            SCALER.format(module="amp", arguments='"cuda", growth_interval=growth'),
            SCALER.format(module="amp", arguments='"cuda", growth_interval=growth') + "        print(growth)\n",
            id="a class that inherits from a scaler",
        ),
        pytest.param(
            "make = functools.partial(torch.cuda.amp.GradScaler, 8.0)\nprint(make())\n",
            'make = functools.partial(torch.amp.GradScaler, "cuda", init_scale=8.0)\nprint(make())\n',
            'make = functools.partial(torch.zeros, "cuda", init_scale=8.0)\nprint(make())\n',
            id="what makes a scaler when it is called",
        ),
        pytest.param(
            "read = torch.get_autocast_gpu_dtype\n",
            'read = functools.partial(torch.get_autocast_dtype, "cuda")\n',
            'read = functools.partial(torch.get_autocast_dtype, "cpu")\n',
            id="a function of the state that is kept",
        ),
        pytest.param(
            STEP.format(unscale=""),
            STEP.format(unscale="        scaler.unscale_(optimizer)\n"),
            STEP.format(unscale="        optimizer.zero_grad()\n"),
            id="a scaler that somebody else passes",
        ),
        pytest.param(
            CLICK.format(option="", parameter="", region=""),
            CLICK.format(
                option='\n@click.option("--amp/--no-amp", default=True)',
                parameter=", amp",
                region='with torch.autocast("cuda", enabled=amp):\n        ',
            ),
            CLICK.format(
                option='\n@click.option("--amp/--no-amp", default=True)', parameter=", amp", region="print(amp)\n    "
            ),
            id="an option of click",
        ),
        pytest.param(
            LOSSES.format(named="", one="model(x)", other="model(x2)"),
            LOSSES.format(named="a = model(x)\n    b = model(x2)\n    ", one="a.float()", other="b.float()"),
            LOSSES.format(named="b = model(x2)\n    a = model(x)\n    ", one="a.float()", other="b.float()"),
            id="two forwards before the losses of both",
        ),
        pytest.param(
            "for i, (x, index) in enumerate(loader):\n    scores.scatter_(1, index, model(x))\n",
            "for i, (x, index) in enumerate(loader):\n    scores.scatter_(1, index, model(x).to(scores.dtype))\n",
            "for i, (x, index) in enumerate(loader):\n    scores.scatter_(1, index, model(x).to(x.dtype))\n",
            id="what is put into a buffer that takes its own type only",
        ),
        pytest.param(
            "scores = torch.masked_scatter(scores, mask, model(x))\n",
            "scores = torch.masked_scatter(scores, mask, model(x).to(scores.dtype))\n",
            "scores = torch.masked_scatter(scores, mask, model(x).to(mask.dtype))\n",
            id="what a function puts into what it gives",
        ),
        pytest.param(
            "MASK = -1e30\nscores = scores.masked_fill(mask, MASK)\n",
            "MASK = -1e30\nscores = scores.masked_fill(mask, max(MASK, torch.finfo(scores.dtype).min))\n",
            "MASK = -1e30\nscores = scores.masked_fill(mask, max(MASK, torch.finfo(scores.dtype).max))\n",
            id="the least that float16 can hold",
        ),
        pytest.param(
            'log(scaler.state_dict()["scale"])\n',
            'log(scaler.state_dict().get("scale", 1.0))\n',
            'log(scaler.state_dict().get("growth", 1.0))\n',
            id="an entry that the original has",
        ),
        pytest.param(
            'from apex import amp\nprint(amp.state_dict()["loss_scaler0"]["loss_scale"])\n',
            'scaler = torch.amp.GradScaler("cuda")\nprint(scaler.get_scale())\n',
            'scaler = torch.amp.GradScaler("cuda")\nprint(scaler.get_growth_factor())\n',
            id="the scale in the state of Apex",
        ),
        pytest.param(
            "from apex.parallel.distributed import flat_dist_call\n\nthing = flat_dist_call\n",
            "from amp_shim.parallel.distributed import flat_dist_call\n\nthing = flat_dist_call\n",
            "from amp_shim.parallel import DistributedDataParallel\n\nthing = DistributedDataParallel\n",
            id="a module of Apex that the shim has",
        ),
        pytest.param(
            'import ops\nfrom apex import amp\namp.register_float_function(ops, "f")\nprint(ops.f, ops.g)\n',
            'import ops\nops.f = torch.amp.custom_fwd(ops.f, device_type="cuda", cast_inputs=torch.float32)\n'
            "print(ops.f, ops.g)\n",
            'import ops\nops.f = torch.amp.custom_fwd(ops.g, device_type="cuda", cast_inputs=torch.float32)\n'
            "print(ops.f, ops.g)\n",
            id="a function of a module that casts what it is given",
        ),
        pytest.param(
            "from apex import amp\nself.model, self.optimizer = amp.initialize(model, optimizer)\nprint(self)\n",
            "self.model = model\nself.optimizer = optimizer\nprint(self)\n",
            "self.model = model\nself.optimizer = self.model\nprint(self)\n",
            id="two attributes that are assigned one by one",
        ),
        pytest.param(
            MAYBE.format("amp=amp", "if amp is not None:", "if not amp:")
            + "go(model, amp=amp if args.fp16 else None)\n",
            MAYBE.format("scaler", "if scaler.is_enabled():", "if not scaler.is_enabled():")
            + 'go(model, torch.amp.GradScaler("cuda", enabled=bool(args.fp16)))\n',
            MAYBE.format("scaler", "if scaler.is_enabled():", "if scaler.is_enabled():")
            + 'go(model, torch.amp.GradScaler("cuda", enabled=bool(args.fp16)))\n',
            id="amp or None",
        ),
        pytest.param(
            "if args.fp16:\n    model.half()\nprint(model)\n",
            "print(model)\n",
            "print(model.half())\n",
            id="weights that are made float16",
        ),
    ],
)
def test_one_program_and_another(wrong: Check, before: str, after: str, other: str) -> None:
    assert wrong(HEAD + before, HEAD + after) == ""
    assert wrong(HEAD + before, HEAD + other) != ""


def test_a_model_is_made_half_in_a_statement_of_its_own(wrong: Check) -> None:
    before = """
    import torch
    from data import args, batches
    model = torch.nn.Linear(3, 3)
    if args.fp16:
        model = model.half()
    for x in batches:
        labels = torch.argmax(x)
        loss = model(x).sum() + labels
    """
    after = before.replace("    if args.fp16:\n        model = model.half()\n", "")
    assert wrong(before, after) == ""
    whole = before.replace("        loss", "        labels = labels.half()\n        loss")
    assert wrong(whole, before) != ""  # whole numbers are others in float16
    assert wrong(before, after.replace("Linear(3, 3)", "Linear(3, 4)")) != ""


def test_a_name_that_is_imported_may_become_another(wrong: Check) -> None:
    before = """
    import torch
    import torch.optim as optim
    from data import batches, model
    optim = torch.optim.Adam(model.parameters())
    for x in batches:
        loss = model(x).sum()
        loss.backward()
        optim.step()
    """
    after = before.replace("    for x", '    scaler = torch.amp.GradScaler("cuda")\n    for x')
    after = after.replace("loss.backward()", "scaler.scale(loss).backward()")
    after = after.replace("optim.step()", "scaler.step(optim)\n        scaler.update()")
    assert wrong(before, after) == ""
    assert wrong(before, after.replace("Adam(", "SGD(")) != ""


NAMED = """
import torch
from torch import nn

def train(model, optimizer, losses, loader, more):
    for x, y in loader:
{body}
        optimizer.step()
"""
FIRST = "        losses[0](model(x), y).backward()\n"
FIRST_NAMED = "        loss = losses[0](model(x), y)\n        loss.backward()\n"
INSIDE = "        {head}:\n            losses[1](model(x), y).backward()\n"
INSIDE_NAMED = "        {head}:\n            loss = losses[1](model(x), y)\n            loss.backward()\n"
HEADS = ["if more", "while more.pop()", "for losses[1] in more", "with more", "for losses[1] in more:\n          if y"]


@pytest.mark.parametrize("head", HEADS)
def test_losses_get_one_name_however_deep_the_next_one_stands(wrong: Check, head: str) -> None:
    inside, named = INSIDE.replace("{head}", head), INSIDE_NAMED.replace("{head}", head)
    for before, after in (
        (FIRST + inside, FIRST_NAMED + named),
        (inside + FIRST, named + FIRST_NAMED),
        (FIRST + inside + inside, FIRST_NAMED + named + named),
        (FIRST + inside + FIRST, FIRST_NAMED + named + FIRST_NAMED),
    ):
        assert wrong(NAMED.replace("{body}", before), NAMED.replace("{body}", after)) == ""


@pytest.mark.parametrize("head", HEADS)
def test_a_name_that_an_inner_block_gives_another_loss_is_not_the_outer_one(wrong: Check, head: str) -> None:
    named = INSIDE_NAMED.replace("{head}", head)
    after = FIRST_NAMED + named + "        loss.backward()\n"
    for before in (
        FIRST + INSIDE.replace("{head}", head) + FIRST,
        FIRST + INSIDE.replace("{head}", head) + FIRST.replace("[0]", "[1]"),
    ):
        assert wrong(NAMED.replace("{body}", before), NAMED.replace("{body}", after))
