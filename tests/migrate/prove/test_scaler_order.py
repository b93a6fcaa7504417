"""A scaler is used in an order in which it works."""

from __future__ import annotations

from textwrap import indent

import pytest

from .conftest import Check

BEFORE = """
import torch
from data import batches
model = torch.nn.Linear(3, 3)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for x in batches:
    optimizer.zero_grad()
    loss = model(x).sum()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
"""
AFTER = """
import torch
from data import batches
model = torch.nn.Linear(3, 3)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
scaler = torch.amp.GradScaler("cuda")
for x in batches:
    optimizer.zero_grad()
    with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        loss = model(x).sum()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
"""


def test_the_order_of_pytorch_s_examples_passes(wrong: Check) -> None:
    assert wrong(BEFORE, AFTER) == ""


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("    scaler.update()\n", "", "unscaled twice, or after the step"),
        ("    scaler.unscale_(optimizer)\n", "", "clipped before they are unscaled"),
        ("scaler.step(optimizer)", "optimizer.step()", "without a step|past its scaler"),
        ("scaler.scale(loss).backward()", "loss.backward()", "unscaled|before"),
        (
            "    scaler.unscale_(optimizer)\n",
            "    scaler.unscale_(optimizer)\n    scaler.unscale_(optimizer)\n",
            "unscaled twice",
        ),
        ("    scaler.scale(loss)", "        scaler.scale(loss)", "inside an autocast region"),
    ],
)
def test_an_order_that_does_not_work_is_refused(wrong: Check, old: str, new: str, what: str) -> None:
    message = wrong(BEFORE, AFTER.replace(old, new))
    assert any(each in message for each in what.split("|")), message


GOES_ON = "    depth = model(x)\n    loss.backward()\n    depth.backward(x.grad)\n"


@pytest.mark.parametrize("gradient", ["x.grad", "gradient=x.grad"])
def test_what_goes_on_from_a_gradient_behind_a_scaled_loss_passes(wrong: Check, gradient: str) -> None:
    goes_on = GOES_ON.replace("x.grad", gradient)
    before = BEFORE.replace("    loss.backward()\n", goes_on)
    after = AFTER.replace("    scaler.scale(loss).backward()\n", goes_on.replace("loss.b", "scaler.scale(loss).b"))
    assert wrong(before, after) == ""


def test_what_goes_on_behind_no_scaled_loss_is_refused(wrong: Check) -> None:
    before = BEFORE.replace("    loss.backward()\n", GOES_ON)
    message = wrong(before, AFTER.replace("    scaler.scale(loss).backward()\n", GOES_ON))
    assert "unscaled" in message or "before" in message


def test_a_context_that_does_nothing_is_no_region(wrong: Check) -> None:
    def inside(text: str) -> str:
        top, loop, body = text.partition("for x in batches:\n")
        return f"{top}import contextlib\n{loop}    with contextlib.nullcontext():\n{indent(body, '    ')}"

    assert wrong(inside(BEFORE), inside(AFTER)) == ""


def test_what_the_original_did_wrong_may_stay(wrong: Check) -> None:
    lacking = AFTER.replace("    scaler.update()\n", "")
    assert wrong(lacking, lacking.replace("optimizer.zero_grad()", "optimizer.zero_grad( )")) == ""


GAN = """
import torch
from data import batches
d, g = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)
opt_d = torch.optim.SGD(d.parameters(), 0.1)
opt_g = torch.optim.SGD(g.parameters(), 0.1)
for x in batches:
    opt_d.zero_grad()
    d(g(x)).sum().backward()
    opt_d.step()
    opt_g.zero_grad()
    g(x).sum().backward()
    opt_g.step()
"""


def test_each_loss_and_each_optimizer_of_a_gan_goes_through_the_scaler(wrong: Check) -> None:
    after = GAN.replace("for x", 'scaler = torch.amp.GradScaler("cuda")\nfor x')
    after = after.replace("d(g(x)).sum().backward()", "scaler.scale(d(g(x)).sum()).backward()")
    after = after.replace("    g(x).sum().backward()", "    scaler.scale(g(x).sum()).backward()")
    after = after.replace("opt_d.step()", "scaler.step(opt_d)").replace("opt_g.step()", "scaler.step(opt_g)")
    after += "    scaler.update()\n"
    assert wrong(GAN, after) == ""
    assert wrong(GAN, after.replace("scaler.scale(g(x).sum())", "g(x).sum()")) != ""
    assert wrong(GAN, after.replace("scaler.step(opt_g)", "opt_g.step()")) != ""
    early = after.replace(
        "    scaler.step(opt_g)\n    scaler.update()\n", "    scaler.update()\n    scaler.step(opt_g)\n"
    )
    assert "steps behind the update" in wrong(GAN, early)


def test_a_method_that_another_object_may_have_is_entered_too(wrong: Check) -> None:
    before = """
    import torch
    class Trainer:
        def __init__(self, model):
            self.optimizer = torch.optim.SGD(model.parameters(), 0.1)
        def train(self, model, batches):
            model.train()
            for x in batches:
                model(x).sum().backward()
                self.optimizer.step()
    """
    after = before.replace("0.1)\n", '0.1)\n            self.scaler = torch.amp.GradScaler("cuda")\n')
    after = after.replace("model(x).sum().backward()", "self.scaler.scale(model(x).sum()).backward()")
    lacking = after.replace("self.optimizer.step()", "self.scaler.step(self.optimizer)")
    after = lacking.replace("step(self.optimizer)", "step(self.optimizer)\n                self.scaler.update()")
    assert wrong(before, after) == ""
    assert "steps twice without an update" in wrong(before, lacking)


def test_an_optimizer_of_a_project_s_own_may_step_through_a_scaler_that_it_is_given(wrong: Check) -> None:
    before = """
    import torch
    from data import batches, model
    class Scheduled:
        def __init__(self, params):
            self.inner = torch.optim.SGD(params, 0.1)
        def zero_grad(self):
            self.inner.zero_grad()
        def step(self):
            self.inner.step()
    optimizer = Scheduled(model.parameters())
    for x in batches:
        optimizer.zero_grad()
        loss = model(x).sum()
        loss.backward()
        optimizer.step()
    """
    after = before.replace("def step(self):", "def step(self, scaler):").replace(
        "self.inner.step()", "scaler.step(self.inner)"
    )
    after = after.replace("    for x in", '    scaler = torch.amp.GradScaler("cuda")\n    for x in')
    after = after.replace("loss.backward()", "scaler.scale(loss).backward()")
    after = after.replace("optimizer.step()", "optimizer.step(scaler)\n        scaler.update()")
    assert wrong(before, after) == ""
    assert wrong(before, after.replace("scaler.step(self.inner)", "self.inner.step()")) != ""


APEX = """
import torch
from apex import amp
from data import batches
model = torch.nn.Linear(3, 3)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
model, optimizer = amp.initialize(model, optimizer)
for x in batches:
    optimizer.zero_grad()
    loss = model(x).sum()
    with amp.scale_loss(loss, optimizer) as scaled_loss:
        scaled_loss.backward()
{indent}torch.nn.utils.clip_grad_norm_(amp.master_params(optimizer), 1.0)
    optimizer.step()
"""


def test_gradients_that_apex_clipped_scaled_may_stay_so(wrong: Check) -> None:
    after = AFTER.replace("    scaler.unscale_(optimizer)\n", "")
    assert wrong(APEX.format(indent=" " * 8), after) == ""
    assert "clipped before they are unscaled" in wrong(APEX.format(indent=" " * 4), after)


def test_an_error_of_what_is_computed_may_be_handled_and_one_of_a_step_is_the_end(wrong: Check) -> None:
    def handled(text: str, first: str, last: str) -> str:
        lines = text.splitlines(keepends=True)
        begin = next(i for i, line in enumerate(lines) if first in line)
        end = next(i for i, line in enumerate(lines) if last in line)
        body = [f"    {line}" for line in lines[begin : end + 1]]
        return "".join([*lines[:begin], "    try:\n", *body, "    except RuntimeError:\n        continue\n"])

    before = BEFORE.replace("    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n", "")
    after = AFTER.replace("    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n", "")
    after = after.replace("    scaler.unscale_(optimizer)\n", "")
    assert wrong(handled(before, "loss =", "step()"), handled(after, "with torch", "update()")) == ""
    other = after.replace("    scaler.update()\n", "    torch.cuda.synchronize()\n    scaler.update()\n")
    before = before.replace("optimizer.step()\n", "optimizer.step()\n    torch.cuda.synchronize()\n")
    assert "twice" in wrong(handled(before, "loss =", "synchronize"), handled(other, "with torch", "update()"))


def test_an_optimizer_that_steps_past_its_scaler_steps_on_infinite_gradients_too(wrong: Check) -> None:
    past = AFTER.replace("scaler.step(optimizer)", "optimizer.step()")
    assert "steps past its scaler, on gradients that may be infinite" in wrong(BEFORE, past)
    assert wrong(past, past.replace("optimizer.zero_grad()", "optimizer.zero_grad( )")) == ""


def test_a_step_on_gradients_that_are_cleared_is_past_no_scaler(wrong: Check) -> None:
    def again(text: str, step: str, between: str) -> str:
        return text.replace(f"    {step}\n", f"    {step}\n    {between}\n    optimizer.step()\n")

    for between, is_past in (("optimizer.zero_grad()", False), ("print(loss)", True)):
        found = wrong(again(BEFORE, "optimizer.step()", between), again(AFTER, "scaler.step(optimizer)", between))
        assert ("steps past its scaler" in found) is is_past


def test_what_pytorch_makes_is_an_optimizer_whoever_clears_its_gradients(wrong: Check) -> None:
    before, after = (text.replace("optimizer.zero_grad()", "model.zero_grad()") for text in (BEFORE, AFTER))
    after = after.replace("    scaler.unscale_(optimizer)\n", "")
    before, after = (
        t.replace("    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n", "") for t in (before, after)
    )
    assert wrong(before, after) == ""
    assert "steps past its scaler" in wrong(before, after.replace("scaler.step(optimizer)", "optimizer.step()"))
    before, after = (
        text.replace("for x", "schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)\nfor x")
        for text in (before, after)
    )
    before, after = (text.replace("    model.zero", "    schedule.step()\n    model.zero") for text in (before, after))
    assert wrong(before, after) == ""


def test_a_single_step_updates_the_scale_too(wrong: Check) -> None:
    before, after = (text.replace("for x in batches:", "if batches:\n    x = batches[0]") for text in (BEFORE, AFTER))
    assert wrong(before, after) == ""
    assert wrong(before, after.replace("    scaler.update()\n", "")) == (
        "on some way, the scale is not updated behind a step"
    )


@pytest.mark.parametrize(("caught", "is_known"), [("KeyboardInterrupt", True), ("(ValueError, SystemExit)", False)])
def test_who_breaks_a_training_off_need_not_update_the_scale(wrong: Check, caught: str, is_known: bool) -> None:
    head, _, loop = AFTER.replace("    scaler.update()", "    print(model(x))\n    scaler.update()").partition(
        "for x in batches:"
    )
    old_head, _, old = f"{BEFORE}    print(model(x))\n".partition("for x in batches:")
    tried = "def train():\n    try:\n        for x in batches:{}\n    except {}:\n        return\n".format
    before, after = (tried(each.rstrip().replace("\n", "\n        "), caught) for each in (old, loop))
    assert wrong(old_head + before, head + after) == (
        "" if is_known else "on some way, the scale is not updated behind a step"
    )


def test_a_step_that_nobody_in_the_files_calls_updates_the_scale(wrong: Check) -> None:
    before = """
    import torch
    class Model:
        def __init__(self):
            self.net = torch.nn.Linear(3, 3)
            self.optimizer = torch.optim.SGD(self.net.parameters(), 0.1)
        def optimize(self, x):
            self.optimizer.zero_grad()
            self.net(x).sum().backward()
            self.optimizer.step()
    """
    after = before.replace("0.1)\n", '0.1)\n            self.scaler = torch.amp.GradScaler("cuda")\n')
    after = after.replace("self.net(x).sum().backward()", "self.scaler.scale(self.net(x).sum()).backward()")
    lacking = after.replace("self.optimizer.step()", "self.scaler.step(self.optimizer)")
    assert "not updated behind a step" in wrong(before, lacking)
    assert wrong(before, lacking.rstrip() + "\n            self.scaler.update()\n") == ""


def test_what_the_original_has_of_its_kinds_is_known_in_whatever_order_its_ways_come(wrong: Check) -> None:
    step = (
        "    if x.flag:\n        scaler.step(optimizer)\n        scaler.update()\n    else:\n        optimizer.step()\n"
    )
    old = AFTER.replace("    scaler.step(optimizer)\n    scaler.update()\n", step)
    assert old != AFTER
    old = old.replace("    scaler.unscale_(optimizer)\n", "    if x.clips:\n        scaler.unscale_(optimizer)\n")
    assert wrong(old.replace('torch.amp.GradScaler("cuda")', "torch.cuda.amp.GradScaler()"), old) == ""


def test_a_model_is_not_taken_for_the_trainer_whose_method_is_called_like_its_own(wrong: Check) -> None:
    before = """
    import torch
    class Trainer:
        def train(self, batches, model, optimizer):
            for x in batches:
                self.one_step(model, x, optimizer)
                if x.last:
                    optimizer.step()
                    model.zero_grad()
        def one_step(self, model, x, optimizer):
            model.train()
            loss = model(x).sum()
            loss.backward()
    """
    made = "optimizer):\n            scaler = torch.amp.GradScaler('cuda')\n            for"
    after = before.replace("optimizer):\n            for", made).replace("x, optimizer)", "x, optimizer, scaler)")
    after = after.replace("loss.backward()", "scaler.scale(loss).backward()")
    after = after.replace("optimizer.step()", "scaler.step(optimizer)\n                    scaler.update()")
    assert (
        wrong(
            before.replace("batches, model", "batches=(), model=None").replace(
                "None, optimizer", "None, optimizer=None"
            ),
            after.replace("batches, model", "batches=(), model=None").replace(
                "None, optimizer", "None, optimizer=None"
            ),
        )
        == ""
    )
    assert "before a step through" in wrong(before, after.replace("scaler.scale(loss).backward()", "loss.backward()"))


@pytest.mark.parametrize(("test", "is_known"), [("True", True), ("1", True), ("False", False), ("x.last", False)])
def test_a_test_that_is_a_constant_has_one_way(wrong: Check, test: str, is_known: bool) -> None:
    def under(text: str, line: str) -> str:
        return text.replace(f"    {line}\n", f"    if {test}:\n        {line}\n")

    found = wrong(under(BEFORE, "loss.backward()"), under(AFTER, "scaler.scale(loss).backward()"))
    assert (found == "") is is_known


REST = """
import torch
from data import batches
class Trainer:
    def __init__(self, model, every):
        self.optimizer = torch.optim.SGD(model.parameters(), 0.1)
        self.every = every
        self.count = 0
    def tick(self):
        self.count += 1
    def step(self):
        self.optimizer.step()
    def epoch(self, model):
        i = 0
        for i, x in enumerate(batches):
            model(x).sum().backward()
            if FULL:
                self.step()
        if LEFT:
            self.step()
"""


def with_scaler(text: str) -> str:
    """The program as it becomes."""
    text = text.replace("0.1)\n", '0.1)\n        self.scaler = torch.amp.GradScaler("cuda")\n')
    text = text.replace("model(x).sum().backward()", "self.scaler.scale(model(x).sum()).backward()")
    return text.replace("self.optimizer.step()", "self.scaler.step(self.optimizer)\n        self.scaler.update()")


@pytest.mark.parametrize(
    ("full", "left", "is_known"),
    [
        ("i % self.every == 0", "i % self.every != 0", True),
        ("i % self.every == 0", "i % self.every", True),
        ("i % self.every == 0", "i % 2 != 0", False),
        (
            "self.count % self.every == 0",
            "self.count % self.every != 0",
            False,
        ),  # `tick` changes it, whoever calls that
        ("i % self.every == 0", "(i := i + 1) and i % self.every != 0", False),
    ],
)
def test_a_test_that_is_made_twice_comes_out_alike(full: str, left: str, is_known: bool, wrong: Check) -> None:
    before = REST.replace("FULL", full).replace("LEFT", left)
    found = wrong(before, with_scaler(before))
    assert ("steps behind the update" in found) is not is_known


def test_a_test_is_another_where_something_has_changed(wrong: Check) -> None:
    before = REST.replace("FULL", "i % self.every == 0").replace("LEFT", "i % self.every != 0")
    for change in ("        i = 3\n", "        self.every = 3\n", "        for i in range(2):\n            pass\n"):
        other = before.replace("        if i % self.every != 0", f"{change}        if i % self.every != 0")
        assert "steps behind the update" in wrong(other, with_scaler(other))


PARTS = """
import torch
from data import batches
def train(model, every, part, start):
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cuda")
    for i, x in enumerate(batches):
        {begins}
        while {test}:
            scaler.scale(model(x[start:]).sum()).backward()
            start += part
        if (i + 1) % every == 0:
            scaler.step(optimizer)
            scaler.update()
"""


@pytest.mark.parametrize(
    ("begins", "test", "is_known"),
    [
        ("start = 0", "start < len(x)", True),
        ("start = 0", "start < 8", True),
        ("start = 0", "start < 0", False),
        ("start = every", "start < len(x)", False),
        ("start = 0", "start < len(x) and every", False),
        ("start = 0", "x.is_left()", False),
        ("if every:\n            start = 0", "start < len(x)", False),
        ("global start\n        start = 0", "start < len(x)", False),
    ],
)
def test_a_loop_from_a_number_up_to_a_bound_has_rounds_as_one_over_a_range(
    begins: str, test: str, is_known: bool, wrong: Check
) -> None:
    after = PARTS.format(begins=begins, test=test)
    after = after.replace(", start)", ")") if "global" in begins else after
    before = after.replace('    scaler = torch.amp.GradScaler("cuda")\n', "")
    before = before.replace("            scaler.update()\n", "")
    before = before.replace("scaler.scale(model(x[start:]).sum())", "model(x[start:]).sum()")
    before = before.replace("scaler.step(optimizer)", "optimizer.step()")
    assert (wrong(before, after) == "") is is_known


CHOSEN = """
import functools
import torch
from data import batches

def by_amp(loss, scaler):
    scaler.scale(loss).backward()

def plainly(loss, scaler):
    scaler.scale(loss).backward()

class Loop:
    def __init__(self, back, model):
        self.back, self.model = back, model
        self.optimizer = torch.optim.SGD(model.parameters(), 0.1)
        self.scaler = torch.amp.GradScaler("cuda")

    def run(self):
        for x in batches:
            self.optimizer.zero_grad()
            with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                loss = self.model(x).sum()
            self.back(loss, self.scaler)
            self.scaler.step(self.optimizer)
            self.scaler.update()

def main(chosen):
    Loop(by_amp if chosen else plainly, torch.nn.Linear(3, 3)).run()
"""


def without_amp(text: str) -> str:
    """The program as it was before it had a scaler."""
    for old, new in (
        (', scaler', ""), (', self.scaler', ""), ("scaler.scale(loss)", "loss"), ("scaler, ", ""),
        ('        self.scaler = torch.amp.GradScaler("cuda")\n', ""), ("            self.scaler.update()\n", ""),
        ("self.scaler.step(self.optimizer)", "self.optimizer.step()"),
        ('            with torch.amp.autocast(device_type="cuda", dtype=torch.float16):\n    ', ""),
    ):  # fmt: skip
        text = text.replace(old, new)
    return text


def test_functions_that_are_called_through_a_value_are_followed(wrong: Check) -> None:
    assert wrong(without_amp(CHOSEN), CHOSEN) == ""


def test_one_of_them_that_does_not_scale_its_loss_is_seen(wrong: Check) -> None:
    head, mark, tail = CHOSEN.partition("def plainly")
    after = head + mark + tail.replace("scaler.scale(loss)", "loss", 1)
    assert "unscaled before a step through the scaler" in wrong(without_amp(CHOSEN), after)


@pytest.mark.parametrize("dropped", [", self.scaler", ", scaler"])
def test_what_one_of_them_does_not_take_is_refused(wrong: Check, dropped: str) -> None:
    assert wrong(without_amp(CHOSEN), CHOSEN.replace(dropped, "", 1)) != ""


@pytest.mark.parametrize(
    ("value", "extra"), [("functools.partial(by_amp, 1)", "count, "), ("By()", "self, ")], ids=["partial", "object"]
)
def test_partials_and_objects_are_followed_too(wrong: Check, value: str, extra: str) -> None:
    head, _, tail = CHOSEN.partition("def plainly")
    text = head + tail[tail.index("class Loop") :].replace("by_amp if chosen else plainly", value)
    if extra == "self, ":
        text = text.replace("def by_amp(", "class By:\n  def __call__(")
    text = text.replace("(loss, scaler)", f"({extra}loss, scaler)", 1)
    assert wrong(without_amp(text), text) == ""


def test_method_of_another_object_of_that_name_is_not_meant(wrong: Check) -> None:
    """`loss.backward()` where an object keeps a function as its `backward`."""
    text = CHOSEN.replace("self.back", "self.backward")
    assert wrong(without_amp(text), text) == ""


TOLD = """
import torch
def run(model, x, scaler, train=True, *, only=False):
    with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        loss = model(x).sum()
    if not train:
        return loss
    scaler.scale(loss).backward()
    return loss
def main(model, optimizer, loader, flag):
    scaler = torch.amp.GradScaler("cuda")
    for x in loader:
        run(model, x, scaler)
        scaler.step(optimizer)
        scaler.update()
"""


@pytest.mark.parametrize("given", ["", ", True", ", train=True"])
def test_a_function_does_what_it_is_told(given: str, wrong: Check) -> None:
    text = TOLD.replace("x, scaler)", f"x, scaler{given})")
    assert wrong(told_plainly(text), text) == ""


@pytest.mark.parametrize("given", [", False", ", flag", ", train=flag", ", *flag", ", **flag"])
def test_what_it_may_be_told_otherwise(given: str, wrong: Check) -> None:
    text = TOLD.replace("x, scaler)", f"x, scaler{given})")
    assert "steps" in wrong(told_plainly(text), text)


def test_what_it_is_told_may_change(wrong: Check) -> None:
    text = TOLD.replace("    if not train", "    train = loss > 1\n    if not train")
    assert "steps behind the update" in wrong(told_plainly(text), text)


def told_plainly(text: str) -> str:
    for old, new in (
        ('    scaler = torch.amp.GradScaler("cuda")\n', ""),
        ("        scaler.update()\n", ""),
        ("scaler.step(optimizer)", "optimizer.step()"),
        ("scaler.scale(loss)", "loss"),
        ('    with torch.amp.autocast(device_type="cuda", dtype=torch.float16):\n    ', ""),
        (", scaler", ""),
    ):
        text = text.replace(old, new)
    return text


OF_NETWORKS = """
import torch
from data import batches
class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)
        self.optimizer = torch.optim.SGD(self.parameters(), 0.1)
    def forward(self, x):
        return self.layer(x)
    def unscale(self, scaler):
        scaler.unscale_(self.optimizer)
class Agent:
    def __init__(self):
        self.actor, self.critic = Network(), Network()
        self.scaler = torch.amp.GradScaler("cuda")
    def learn(self, x):
        with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
            loss = (self.actor(x) * self.critic(x)).sum()
        self.scaler.scale(loss).backward()
        self.actor.unscale(self.scaler)
        self.critic.unscale(self.scaler)
        self.scaler.step(self.actor.optimizer)
        self.scaler.step(self.critic.optimizer)
        self.scaler.update()
        self.actor.optimizer.zero_grad()
        self.critic.optimizer.zero_grad()
agent = Agent()
for x in batches:
    agent.learn(x)
"""


def test_optimizers_of_two_networks_are_two(wrong: Check) -> None:
    assert wrong(OF_NETWORKS, OF_NETWORKS) == ""


def test_the_optimizer_of_a_network_is_the_one_that_a_method_of_it_has_unscaled(wrong: Check) -> None:
    twice = OF_NETWORKS.replace(
        "        self.critic.unscale(self.scaler)\n",
        "        self.critic.unscale(self.scaler)\n        self.scaler.unscale_(self.critic.optimizer)\n",
    )
    assert "unscaled twice" in wrong(OF_NETWORKS, twice)
