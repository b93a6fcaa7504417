"""AMP606 to AMP608: backwards and steps that pass the scaler by, and accumulation that is done by halves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]


def test_a_plain_step_on_scaled_gradients_is_told(marked: Check) -> None:
    found = marked(
        """
        def train(model, optimizer, scaler, loader):
            for x, y in loader:
                scaler.scale(F.mse_loss(model(x), y)).backward()
                optimizer.step()  # AMP606
                optimizer.zero_grad()
        """
    )
    assert found[0].hint.startswith("write scaler.step(optimizer), and scaler.update()")


def test_a_plain_step_on_unscaled_gradients_is_told(marked: Check) -> None:
    found = marked(
        """
        def train(model, optimizer, scaler, loader):
            for x, y in loader:
                scaler.scale(F.mse_loss(model(x), y)).backward()
                scaler.unscale_(optimizer)
                optimizer.step()  # AMP606
                scaler.update()
        """
    )
    assert "never asked whether they are finite" in found[0].message


SECOND = """
    def train(model, optimizer, scaler, loader, use_amp):
        for x, y in loader:
            optimizer.zero_grad()
            with torch.amp.autocast("cuda", dtype=torch.float16):
                loss = F.mse_loss(model(x), y)
            {body}
"""
SCALED = "scaler.scale(loss).backward()\n            "


@pytest.mark.parametrize(
    "body",
    [
        "scaler.step(optimizer)\n            {step}\n            scaler.update()",
        "scaler.step(optimizer)\n            scaler.update()\n            {step}",
        "if use_amp:\n                scaler.step(optimizer)\n                scaler.update()\n                {step}",
    ],
)
def test_a_plain_step_behind_that_of_the_scaler_is_told(marked: Check, body: str) -> None:
    found = marked(SECOND.format(body=SCALED + body.format(step="optimizer.step()  # AMP606")))
    assert found[0].hint.startswith("delete it: scaler.step() has called it")


@pytest.mark.parametrize(
    "body",
    [
        SCALED + "scaler.step(optimizer)\n            scaler.update()\n            optimizer.zero_grad()\n"
        "            F.mse_loss(model(x), y).backward()\n            optimizer.step()",
        "if use_amp:\n                scaler.scale(loss).backward()\n                scaler.step(optimizer)\n"
        "                scaler.update()\n            else:\n                loss.backward()\n"
        "                optimizer.step()",
        "if use_amp:\n                scaler.scale(loss).backward()\n                scaler.step(optimizer)\n"
        "                scaler.update()\n                continue\n            loss.backward()\n"
        "            optimizer.step()",
    ],
)
def test_one_on_other_gradients_is_not(clean: Check, body: str) -> None:
    clean(SECOND.format(body=body))


TWO = """
    opt_g, opt_d = torch.optim.Adam(net.parameters()), torch.optim.Adam(disc.parameters())
    scaler_g, scaler_d = torch.amp.GradScaler("cuda"), torch.amp.GradScaler("cuda")
    for x in loader:
        opt_d.zero_grad()
        with torch.amp.autocast("cuda", dtype=torch.float16):
            loss_d = F.softplus(disc(net(x).detach())).mean()
        {scaled}.backward(){mark}
        {step}
        opt_g.zero_grad()
        with torch.amp.autocast("cuda", dtype=torch.float16):
            loss_g = F.softplus(-disc(net(x))).mean()
        scaler_g.scale(loss_g).backward()
        scaler_g.step(opt_g)
        scaler_g.update()
"""


def test_a_plain_step_beside_another_scaler_is_told(marked: Check, clean: Check) -> None:
    models = "\n    net, disc = nn.Linear(8, 8), nn.Linear(8, 1)"
    found = marked(models + TWO.format(scaled="scaler_d.scale(loss_d)", mark="", step="opt_d.step()  # AMP606"))
    assert found[0].hint.startswith("write scaler_d.step(opt_d)")
    clean(models + TWO.format(scaled="scaler_d.scale(loss_d)", mark="", step="scaler_d.step(opt_d); scaler_d.update()"))
    marked(models + TWO.format(scaled="loss_d.float()", mark="  # AMP629", step="opt_d.step(); scaler_d.get_scale()"))


PENALIZED = """
    net = nn.Linear(8, 2).cuda()
    optimizer = torch.optim.Adam(net.parameters())
    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        optimizer.zero_grad()
        with torch.amp.autocast("cuda", dtype=torch.float16):
            loss = F.cross_entropy(net(x), y)
        grads = torch.autograd.grad(scaler.scale(loss), net.parameters(), create_graph=True)
        inverse = 1.0 / scaler.get_scale()
        loss = loss + sum((g * inverse).square().sum() for g in grads)
        scaler.scale(loss).backward()
        {step}
        scaler.update()
"""


def test_a_plain_step_is_told_where_the_scale_is_asked_for_a_penalty(marked: Check, clean: Check) -> None:
    marked(PENALIZED.format(step="optimizer.step()  # AMP606"))
    for step in (
        "optimizer.step(grad_scale=scaler.get_scale())",
        "[p.grad.mul_(1 / scaler.get_scale()) for p in net.parameters()]; optimizer.step()",
        "scaler.step(optimizer)",
    ):
        clean(PENALIZED.format(step=step))


def test_a_plain_step_on_what_is_scaled_in_part_is_told(marked: Check) -> None:
    marked(
        """
        def train(model, optimizer, scaler, loader):
            for x, y in loader:
                loss, extra = F.mse_loss(model(x), y), model(x).abs().mean()
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                extra.backward()
                optimizer.step()  # AMP606
        """
    )


def test_a_plain_step_beside_a_scaler_may_be_right(clean: Check) -> None:
    clean(
        """
        def by_flag(model, optimizer, scaler, loader, use_amp):
            for x, y in loader:
                loss = F.mse_loss(model(x), y)
                if use_amp:
                    scaler.scale(loss).backward()
                    scaler.step(optimizer)
                    scaler.update()
                else:
                    loss.backward()
                    optimizer.step()

        def by_other_flag(model, optimizer, scaler, loader, use_amp):
            for x, y in loader:
                loss = F.mse_loss(model(x), y)
                scaler.scale(loss).backward() if scaler else loss.backward()
                if use_amp:
                    scaler.step(optimizer)
                    scaler.update()
                else:
                    optimizer.step()

        def checked_by_hand(model, optimizer, scaler, loader):
            for x, y in loader:
                scaler.scale(F.mse_loss(model(x), y)).backward()
                scaler.unscale_(optimizer)
                if all(torch.isfinite(p.grad).all() for p in model.parameters()):
                    optimizer.step()
                scaler.update()

        def checked_by_a_helper(model, optimizer, scaler, loader):
            for x, y in loader:
                scaler.scale(F.mse_loss(model(x), y)).backward()
                scaler.unscale_(optimizer)
                found_inf = overflows(model)
                if not found_inf:
                    optimizer.step()
                scaler.update()

        def other_loss(model, optimizer, optimizer_d, scaler, loader):
            for x, y in loader:
                scaler.scale(F.mse_loss(model(x), y)).backward()
                scaler.step(optimizer)
                scaler.update()
                F.mse_loss(model(y), x).backward()
                optimizer_d.step()

        def schedule(model, optimizer, scheduler, scaler, loader):
            for x, y in loader:
                scaler.scale(F.mse_loss(model(x), y)).backward()
                scaler.step(optimizer)
                scaler.update()
                scheduler.step()
        """
    )


def test_a_loss_that_is_not_scaled_before_the_scaler_steps_is_told(marked: Check) -> None:
    marked(
        """
        def train(model, optimizer, loader):
            scaler = torch.amp.GradScaler("cuda")
            for x, y in loader:
                loss = F.mse_loss(model(x), y)
                loss.backward()  # AMP607
                scaler.step(optimizer)
                scaler.update()
        """
    )


def test_a_loss_may_be_scaled_in_other_words(clean: Check) -> None:
    clean(
        """
        def named(model, optimizer, scaler, loader):
            for x, y in loader:
                scaled = scaler.scale(F.mse_loss(model(x), y))
                scaled.backward()
                scaler.step(optimizer)
                scaler.update()

        def rebound(model, optimizer, scaler, loader):
            for x, y in loader:
                loss = F.mse_loss(model(x), y)
                loss = scaler.scale(loss)
                loss.backward()
                scaler.step(optimizer)
                scaler.update()

        def helped(model, optimizer, scaler, loader, compute):
            for x, y in loader:
                loss = compute(model, x, y, scaler)
                loss.backward()
                scaler.step(optimizer)
                scaler.update()

        def framework(accelerator, optimizer, scaler, loader, model):
            for x, y in loader:
                accelerator.backward(F.mse_loss(model(x), y))
                scaler.step(optimizer)
                scaler.update()

        def switched(model, optimizer, scaler, loader, use_amp):
            for x, y in loader:
                loss = F.mse_loss(model(x), y)
                if use_amp:
                    scaler.scale(loss).backward()
                else:
                    loss.backward()
                scaler.step(optimizer)
                scaler.update()
        """
    )


TRAINER = """
class Trainer:
    def __init__(self, args, model, loader):
        self.args, self.model, self.loader = args, model, loader
        self.optimizer = torch.optim.Adam(model.parameters())
        self.scaler = torch.amp.GradScaler("cuda")

    def train(self):
        for i, (x, y) in enumerate(self.loader):
            self.optimizer.zero_grad()
            self.run(x, y)
            {divides}

    def run(self, x, y):
        {runs}

    def mixed(self, x, y):
        with torch.amp.autocast("cuda", dtype=torch.float16):
            loss = F.mse_loss(self.model(x), y)
        {scales}

    def plain(self, x, y):
        F.mse_loss(self.model(x), y).backward(){told}
"""
STEPS = """
            {test}:
                self.scaler.step(self.optimizer)
                self.scaler.update()
            else:
                self.optimizer.step()
"""
SCALES = """
        if self.args.fp16 and self.args.native:
            self.scaler.scale(loss).backward()
        else:
            loss.backward()
"""
ALWAYS = "self.scaler.scale(loss).backward()"
EITHER = "self.plain(x, y) if self.args.poison else self.mixed(x, y)"


def trainer(divides: str, runs: str, scales: str, told: str = "") -> str:
    return TRAINER.format(divides=divides.strip(), runs=runs.strip(), scales=scales.strip(), told=told)


@pytest.mark.parametrize("runs", [EITHER, "self.plain(x, y)\n        self.mixed(x, y)"])
@pytest.mark.parametrize("test", ["if self.args.fp16 and self.args.native", "if self.args.native and self.args.fp16"])
def test_a_second_way_backward_that_is_never_scaled_is_told(marked: Check, test: str, runs: str) -> None:
    text = trainer(STEPS.format(test=test), runs, SCALES, "  # AMP607")
    found = marked(text)
    assert "self.scaler.step(self.optimizer) unscales" in found[0].message


def test_so_is_one_beside_a_scaler_that_is_always_asked(marked: Check) -> None:
    steps = "self.scaler.step(self.optimizer)\n            self.scaler.update()"
    marked(trainer(steps, EITHER, ALWAYS, "  # AMP607"))


@pytest.mark.parametrize(
    ("test", "runs", "scales"),
    [
        ("if self.args.fp16", "self.mixed(x, y) if self.args.fp16 else self.plain(x, y)", ALWAYS),
        # Whether it is the switch under another name cannot be seen.
        ("if self.args.fp16", "self.mixed(x, y) if self.args.native else self.plain(x, y)", ALWAYS),
        ("if self.args.fp16", "self.mixed(x, y)", SCALES.replace(" and self.args.native", "")),
        ("if self.args.native", "self.mixed(x, y)", SCALES),
    ],
)
def test_a_plain_way_beside_a_switch_may_be_right(clean: Check, test: str, runs: str, scales: str) -> None:
    clean(trainer(STEPS.format(test=test), runs, scales))


KINDS = """
        if self.kind == {plain}:
            loss.backward()
        elif self.kind == {mixed}:
            self.scaler.scale(loss).backward()
        else:
            loss.backward()
"""


@pytest.mark.parametrize(("plain", "mixed"), [("'plain'", "'mixed'"), ("Kind.PLAIN", "Kind.MIXED")])
def test_a_plain_way_that_another_value_chooses_is_right(clean: Check, plain: str, mixed: str) -> None:
    scales = KINDS.format(plain=plain, mixed=mixed)
    clean(trainer(STEPS.format(test=f"if self.kind == {mixed}"), "self.mixed(x, y)", scales))


def test_a_plain_training_before_the_mixed_one_is_right(clean: Check) -> None:
    clean(
        """
        model = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cuda")

        def warm_up(x):
            optimizer.zero_grad()
            model(x).mean().backward()
            optimizer.step()

        def train(x):
            optimizer.zero_grad()
            with torch.amp.autocast("cuda", dtype=torch.float16):
                loss = model(x).mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()

        for epoch in range(3):
            for x in loader:
                warm_up(x) if epoch == 0 else train(x)
        """
    )


LOOP = """
model = nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda")

def train(loader, config):
    for i, x in enumerate(loader):
        {begins}
        if config["amp"]:
            with torch.amp.autocast("cuda", dtype=torch.float16):
                loss = model(x).mean()
            scaler.scale(loss).backward()
            if i % config["every"] == 0:
                scaler.step(optimizer){told}
                scaler.update()
                {ends}
        else:
            model(x).mean().backward()
            optimizer.step()
            optimizer.zero_grad()

def clear(net):
    for p in net.parameters():
        p.grad = None

train(load(), {{"amp": True, "every": 2}})
"""


@pytest.mark.parametrize("begins", ["pass", "print(i)", "if not config['amp']: optimizer.zero_grad()"])
def test_gradients_that_only_the_other_branch_clears_are_told(marked: Check, begins: str) -> None:
    found = marked(LOOP.format(begins=begins, ends="pass", told="  # AMP607"))
    assert found[0].message.startswith("nothing clears the gradients of scaler.step(optimizer)")


@pytest.mark.parametrize(
    ("begins", "ends"),
    [
        ("optimizer.zero_grad()", "pass"),
        ("pass", "optimizer.zero_grad()"),
        ("pass", "clear(model)"),
        ("pass", "clean_up(optimizer)"),  # nobody sees what that does
        ("if i % config['every'] == 1: optimizer.zero_grad()", "pass"),  # in another round
        ("if config['fresh']: model.zero_grad()", "pass"),
    ],
)
def test_gradients_that_something_may_clear_are_right(clean: Check, begins: str, ends: str) -> None:
    clean(LOOP.format(begins=begins, ends=ends, told=""))


def test_unscaling_in_every_micro_batch_is_told(marked: Check) -> None:
    found = marked(
        """
        def train(model, optimizer, scaler, loader):
            for i, (x, y) in enumerate(loader):
                scaler.scale(F.mse_loss(model(x), y) / 4).backward()
                scaler.unscale_(optimizer)  # AMP608
                if (i + 1) % 4 == 0:
                    scaler.step(optimizer)
                    scaler.update()
        """
    )
    assert found[0].hint == "move it to where scaler.step(optimizer) is"


def test_updating_in_every_micro_batch_is_told(marked: Check) -> None:
    marked(
        """
        def train(model, optimizer, scaler, loader):
            for i, (x, y) in enumerate(loader):
                scaler.scale(F.mse_loss(model(x), y) / 4).backward()
                if (i + 1) % 4 == 0:
                    scaler.step(optimizer)
                scaler.update()  # AMP608
        """
    )


def test_stepping_in_every_micro_batch_and_updating_in_some_is_told(marked: Check) -> None:
    marked(
        """
        def train(model, optimizer, scaler, loader):
            for i, (x, y) in enumerate(loader):
                scaler.scale(F.mse_loss(model(x), y) / 4).backward()
                scaler.step(optimizer)  # AMP608
                if i % 4 == 3:
                    scaler.update()
        """
    )


def test_what_runs_in_some_iterations_may_be_right(clean: Check) -> None:
    clean(
        """
        def critic(optimizer_d, optimizer_g, scaler, loader, loss_d, loss_g):
            for i, x in enumerate(loader):
                scaler.scale(loss_d(x)).backward()
                scaler.step(optimizer_d)
                if i % 5 == 0:
                    scaler.scale(loss_g(x)).backward()
                    scaler.step(optimizer_g)
                scaler.update()

        def twice(optimizer_d, optimizer_g, scaler, loader, loss_d, loss_g):
            for i, x in enumerate(loader):
                scaler.scale(loss_d(x)).backward()
                scaler.step(optimizer_d)
                scaler.update()
                if i % 5 == 0:
                    scaler.scale(loss_g(x)).backward()
                    scaler.step(optimizer_g)
                    scaler.update()

        def logged(model, optimizer, scaler, loader):
            for i, (x, y) in enumerate(loader):
                scaler.scale(F.mse_loss(model(x), y)).backward()
                scaler.unscale_(optimizer)
                if i % 100 == 0:
                    print(model.weight.grad.norm())
                scaler.step(optimizer)
                scaler.update()

        def accumulated(model, optimizer, scaler, loader, clip):
            for i, (x, y) in enumerate(loader):
                scaler.scale(F.mse_loss(model(x), y)).backward()
                if (i + 1) % 4 == 0 or i + 1 == len(loader):
                    if clip:
                        scaler.unscale_(optimizer)
                        nn.utils.clip_grad_norm_(model.parameters(), clip)
                    scaler.step(optimizer)
                    scaler.update()
        """
    )


def test_a_backward_in_a_function_that_is_handed_over_is_not_guessed_at(migrate: Check) -> None:
    plan = migrate(
        """
        model = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cuda")

        def step(go, optimizer):
            go()
            scaler.step(optimizer)
            scaler.update()

        for x in loader:
            def go():
                optimizer.zero_grad()
                model(x).mean().backward()
            step(go, optimizer)
        """
    )
    assert {finding.code for finding in plan.findings} <= {"AMP590", "AMP607"}


NEVER = """
def train(loader):
    model = {model}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        with torch.amp.autocast("cuda", dtype=torch.float16):
            loss = F.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer){told}
        scaler.update()
        {behind}
"""


def test_gradients_that_nothing_clears_in_a_program_that_is_seen_are_told(marked: Check) -> None:
    marked(NEVER.format(model="nn.Linear(4, 1).cuda()", told="  # AMP607", behind="pass"))


@pytest.mark.parametrize(
    "behind", ["clean_up(optimizer)", "model.zero_grad()", "for p in model.parameters(): p.grad = None"]
)
def test_gradients_that_somebody_may_clear_are_none_to_tell_of(clean: Check, behind: str) -> None:
    clean(NEVER.format(model="nn.Linear(4, 1).cuda()", told="", behind=behind))


SOMETIMES = """
        def train(model, loader, every, wanted):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            scaler = torch.amp.GradScaler("cuda")
            for i, (x, y) in enumerate(loader):
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = F.mse_loss(model(x), y) / every
                scaler.scale(loss).backward()
                is_last = (i + 1) % every == 0 or i + 1 == len(loader)
{rest}
"""


@pytest.mark.parametrize(
    "rest",
    [
        ("if is_last:", "    scaler.step(optimizer)", "    optimizer.zero_grad()", "scaler.update()  # AMP608"),
        ("scaler.step(optimizer)  # AMP608", "optimizer.zero_grad()", "if is_last:", "    scaler.update()"),
        (
            "scaler.unscale_(optimizer)  # AMP608",
            "if is_last:",
            "    scaler.step(optimizer)",
            "    scaler.update()",
            "    optimizer.zero_grad()",
        ),
    ],
)
def test_what_runs_in_every_micro_batch_beside_what_a_name_decides_about_is_told(
    marked: Check, rest: tuple[str, ...]
) -> None:
    marked(SOMETIMES.format(rest="\n".join(f"                {each}" for each in rest)))


@pytest.mark.parametrize(
    "rest",
    [
        ("if is_last:", "    scaler.step(optimizer)", "    scaler.update()", "    optimizer.zero_grad()"),
        ("if wanted:", "    scaler.step(optimizer)", "    optimizer.zero_grad()", "scaler.update()"),
        (
            "scaler.unscale_(optimizer)",
            "if is_last:",
            "    scaler.step(optimizer)",
            "scaler.update()",
            "optimizer.zero_grad()",
        ),
    ],
)
def test_what_never_raises_in_a_micro_batch_is_right(clean: Check, rest: tuple[str, ...]) -> None:
    clean(SOMETIMES.format(rest="\n".join(f"                {each}" for each in rest)))


def test_what_raises_in_the_next_call_of_a_method_is_told(marked: Check) -> None:
    marked(
        """
        class Trainer:
            def __init__(self, model, every):
                self.model, self.every, self.steps = model, every, 0
                self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                self.scaler = torch.amp.GradScaler("cuda")

            def step(self, x, y):
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = F.mse_loss(self.model(x), y) / self.every
                self.scaler.scale(loss).backward()
                self.scaler.unscale_(self.optimizer)  # AMP608
                nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                self.steps += 1
                if self.steps % self.every == 0:
                    self.scaler.step(self.optimizer)
                    self.scaler.update()
                    self.optimizer.zero_grad()

            def fit(self, loader):
                for x, y in loader:
                    self.step(x, y)
        """
    )


def test_another_scaler_than_the_one_that_scales_is_told_where_nobody_calls_the_step(marked: Check) -> None:
    marked(
        """
        class Gan:
            def __init__(self, g, d):
                self.g, self.d = g, d
                self.opt_g, self.opt_d = torch.optim.Adam(g.parameters()), torch.optim.Adam(d.parameters())
                self.scaler_g, self.scaler_d = torch.amp.GradScaler("cuda"), torch.amp.GradScaler("cuda")

            def step(self, z):
                self.opt_g.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = -self.d(self.g(z)).mean()
                self.scaler_d.scale(loss).backward()
                self.scaler_g.step(self.opt_g)  # AMP607
                self.scaler_g.update()
        """
    )


UNREAD = """
from measures import Distance

def fit(batches, parts):
    body, head = nn.Linear(6, 4).cuda(), nn.Linear(4, 2).cuda()
    {made}
    measure = Distance()
    scaler = torch.amp.GradScaler("cuda")
    for x, target in batches:
        with torch.amp.autocast("cuda"):
            loss = measure(head(body(x.cuda())), target.cuda())
        scaler.scale(loss).backward()
        {steps}
        scaler.update()
"""


def test_a_loss_that_nobody_has_read_clears_no_gradients(marked: Check, clean: Check) -> None:
    made = "optimizer = torch.optim.Adam([*body.parameters(), *head.parameters()])"
    marked(UNREAD.format(made=made, steps="scaler.step(optimizer)  # AMP607"))
    clean(UNREAD.format(made=made, steps="scaler.step(optimizer)").replace("Distance()", "Distance(optimizer)"))


def test_which_of_many_ways_has_stepped_does_not_matter(marked: Check) -> None:
    names = [f"part_{each}" for each in range(8)]
    made = "\n    ".join(f"{each} = torch.optim.SGD(parts.{each}.parameters(), 0.1)" for each in names)
    steps = "\n        ".join(f"if parts.{each}.on:\n            scaler.step({each})  # AMP607" for each in names)
    text = UNREAD.format(made=made, steps=steps).replace(
        "measure(head(body(x.cuda())), target.cuda())",
        " + ".join(f"parts.{each}(x.cuda()).mean()" for each in names),
    )
    marked(text)


def test_a_function_that_is_too_much_to_look_at_clears_no_gradients_by_its_text(
    monkeypatch: pytest.MonkeyPatch, marked_files: Check
) -> None:
    monkeypatch.setattr("amp_migrate.flow.analysis._STATEMENTS", 20)
    library = "".join(f"def named_{n}(model):\n    return [named_{n + 1}(model)]\n\n\n" for n in range(300))
    library += "def named_300(model):\n    return []\n"
    head = "import torch\nfrom torch import nn\nfrom library import named_0\n"
    text = head + UNREAD.format(
        made="optimizer = torch.optim.Adam([*body.parameters(), *head.parameters()])\n    named_0(body)",
        steps="scaler.step(optimizer)  # AMP607",
    )
    marked_files(train=text, library=library)
    clearing = f"{library}\n\ndef clear(model):\n    model.zero_grad()\n"
    marked_files(train=text.replace("  # AMP607", ""), library=clearing)


def test_a_method_that_is_too_much_to_look_at_may_replace_what_was_none(
    monkeypatch: pytest.MonkeyPatch, marked_files: Check
) -> None:
    monkeypatch.setattr("amp_migrate.flow.analysis._STATEMENTS", 20)
    library = "".join(f"def named_{n}(model):\n    return [named_{n + 1}(model)]\n\n\n" for n in range(300))
    library += """
def named_300(model):
    return []

class Prefetcher:
    def __init__(self, loader):
        self.batch, self.loader = None, loader

    def preload(self):
        self.batch = next(self.loader, None)

    def next(self):
        self.preload()
        return self.batch
"""
    text = """
import torch
from torch import nn
from library import Prefetcher, named_0

def fit(model, batches):
    prefetcher = Prefetcher(iter(batches))
    named_0(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    batch = prefetcher.next()
    while batch is not None:
        optimizer.zero_grad()
        with torch.amp.autocast("cuda", dtype=torch.float16):
            loss = model(batch).mean()
        scaler.scale(loss).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # AMP601
        scaler.step(optimizer)
        scaler.update()
        batch = prefetcher.next()

fit(nn.Linear(4, 1).cuda(), batches)
"""
    marked_files(train=text, library=library)


SHARPNESS = """
class SAM(torch.optim.Optimizer):
    def __init__(self, params, base, rho=0.05, **kwargs):
        super().__init__(params, dict(rho=rho, **kwargs))
        self.base_optimizer = base(self.param_groups, **kwargs)
        self.param_groups = self.base_optimizer.param_groups

    @torch.no_grad()
    def first_step(self):
        norm = torch.stack([p.grad.norm() for group in self.param_groups for p in group["params"]]).norm()
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["e_w"] = p.grad * group["rho"] / (norm + 1e-12)
                p.add_(self.state[p]["e_w"])
        self.zero_grad()

    @torch.no_grad()
    def second_step(self):
        for group in self.param_groups:
            for p in group["params"]:
                p.sub_(self.state[p]["e_w"])
        self.base_optimizer.step(){mark}
        self.zero_grad()

    def step(self):
        raise NotImplementedError


net = nn.Linear(8, 4).cuda()
optimizer = SAM(net.parameters(), torch.optim.SGD, lr=0.1)
scaler = torch.amp.GradScaler("cuda")
for x, y in torch.load("batches.pt"):
    for step in (optimizer.first_step, optimizer.second_step):
        with torch.amp.autocast("cuda", dtype=torch.float16):
            loss = F.cross_entropy(net(x.cuda()), y.cuda())
        {backward}
        step()
    {update}
"""


def test_a_step_of_the_optimizer_that_another_makes_of_its_groups(marked: Check, clean: Check) -> None:
    scaled = {"backward": "scaler.scale(loss).backward()", "update": "scaler.update()"}
    found = marked(SHARPNESS.format(mark="  # AMP606", **scaled))
    assert "on gradients that are multiplied by the loss scale" in found[0].message
    clean(SHARPNESS.format(mark="", backward="loss.backward()", update="pass").replace("float16", "bfloat16"))


OPTIONAL = """
    MODE = "mixed"

    def train_batch(model, pose, x, y, optimizer, use_amp=False, scaler=None):
        optimizer.zero_grad()
        x = pose(x)
        if scaler is not None:
            with torch.amp.autocast("cuda", dtype=torch.float16):
                loss = F.mse_loss(model(x), y)
        else:
            loss = F.mse_loss(model(x), y)
        if CALLED:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward()
            optimizer.step()

    def make():
        return torch.amp.GradScaler("cuda")

    def main(args, loader):
        model, pose = nn.Linear(2, 2).cuda(), nn.Linear(2, 2).cuda()
        optimizer = torch.optim.Adam(model.parameters())
        pose_optimizer = torch.optim.Adam(pose.parameters())
        moves = args.pose
        is_mixed = args.amp
        MADE
        for epoch in range(9):
            for x, y in loader:
                pose_optimizer.zero_grad()
                train_batch(model, pose, x.cuda(), y.cuda(), optimizer, use_amp=args.amp, scaler=scaler)
                STEP

    main(options(), torch.load("data.pt"))
"""
MADE_UNDER_TEST = """scaler = None
        if args.amp:
            scaler = torch.amp.GradScaler("cuda")"""
MADE_IN_TRY = """scaler = None
        if args.amp:
            try:
                scaler = torch.amp.GradScaler("cuda")
            except AttributeError:
                scaler = torch.cuda.amp.grad_scaler.GradScaler()"""
MADE_OR_NONE = 'scaler = torch.amp.GradScaler("cuda") if args.amp else None'
PLAIN_STEP = "pose_optimizer.step()"
_ROUND = "\n                "


def _optional(called: str, made: str, step: str) -> str:
    return OPTIONAL.replace("CALLED", called).replace("MADE", made).replace("STEP", step)


@pytest.mark.parametrize("called", ["scaler is not None", "use_amp", "use_amp and scaler"])
@pytest.mark.parametrize("made", [MADE_UNDER_TEST, MADE_IN_TRY, MADE_OR_NONE])
@pytest.mark.parametrize(
    "step",
    [
        f"{PLAIN_STEP}  # AMP606",
        f"if args.pose and epoch > 3:{_ROUND}    {PLAIN_STEP}  # AMP606",
        f"if epoch < 3:{_ROUND}    continue{_ROUND}if moves:{_ROUND}    {PLAIN_STEP}  # AMP606",
    ],
)
def test_a_plain_step_behind_a_call_that_scales_where_there_is_a_scaler_is_told(
    marked: Check, called: str, made: str, step: str
) -> None:
    found = marked(_optional(called, made, step))
    assert found[0].message.endswith("multiplied by the loss scale, where a scaler is made")


@pytest.mark.parametrize(
    ("called", "made", "step"),
    [
        # Tests that ask whether there is one.
        ("use_amp", MADE_UNDER_TEST, f"if scaler is None:{_ROUND}    {PLAIN_STEP}"),
        ("use_amp", MADE_UNDER_TEST, f"if not args.amp:{_ROUND}    {PLAIN_STEP}"),
        ("use_amp", MADE_OR_NONE, f"if not is_mixed:{_ROUND}    {PLAIN_STEP}"),
        (
            "scaler is not None",
            MADE_OR_NONE,
            f"if scaler:{_ROUND}    scaler.step(pose_optimizer){_ROUND}    continue{_ROUND}{PLAIN_STEP}",
        ),
        # What decides is not what the function is given.
        ("MODE == 'mixed'", MADE_OR_NONE, PLAIN_STEP),
        # The scaler is made elsewhere, where another test may decide.
        ("scaler is not None", "scaler = make() if args.amp else None", PLAIN_STEP),
        # It may be off.
        ("scaler is not None", MADE_OR_NONE.replace('"cuda"', '"cuda", enabled=args.scale'), PLAIN_STEP),
    ],
)
def test_a_plain_step_that_may_be_of_those_without_a_scaler_is_right(
    clean: Check, called: str, made: str, step: str
) -> None:
    clean(_optional(called, made, step))


BY_HAND = """
scaler = torch.amp.GradScaler("cuda")
model = nn.Linear(4, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for x, y in loader:
    optimizer.zero_grad()
    with torch.amp.autocast("cuda", dtype=torch.float16):
        loss = F.mse_loss(model(x.cuda()), y.cuda())
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()

model = nn.Linear(4, 1).cuda()
for x, y in loader:
    with torch.amp.autocast("cuda", dtype=torch.float16):
        loss = F.mse_loss(model(x.cuda()), y.cuda())
    model.zero_grad()
    {loss}.backward()
    with torch.no_grad():
        for p in model.parameters():
            {update}
"""


@pytest.mark.parametrize(
    "update",
    ["p -= 0.1 * p.grad", "p.sub_(0.1 * p.grad)", "p.data = p.data - 0.1 * p.grad"],
    ids=["in place", "sub_", "data"],
)
def test_a_parameter_of_no_optimizer_is_not_moved_by_its_scaled_gradient(marked: Check, update: str) -> None:
    (found,) = marked(BY_HAND.format(loss="scaler.scale(loss)", update=f"{update}  # AMP601"))
    assert found.hint.startswith("no optimizer has them")


@pytest.mark.parametrize(
    ("loss", "update"),
    [("loss", "p -= 0.1 * p.grad"), ("scaler.scale(loss)", "p -= 0.1 * p.grad / scaler.get_scale()")],
)
def test_a_parameter_of_no_optimizer_may_be_moved_by_its_true_gradient(clean: Check, loss: str, update: str) -> None:
    clean(BY_HAND.format(loss=loss, update=update))


def test_a_step_with_a_closure_that_scales_is_told_once_and_not_to_go_through_the_scaler(marked: Check) -> None:
    (found,) = marked(
        """
        model = nn.Linear(8, 2).cuda()
        optimizer = torch.optim.LBFGS(model.parameters())
        scaler = torch.amp.GradScaler("cuda")
        for x, y in loader:
            def closure():
                optimizer.zero_grad()
                with torch.amp.autocast("cuda", dtype=torch.float16):
                    loss = F.mse_loss(model(x), y)
                scaler.scale(loss).backward()
                return loss

            optimizer.step(closure)  # AMP606
            scaler.update()
        """
    )
    assert found.hint == "no scaler takes the closure: compute in bfloat16 without a scaler"
