"""Several optimizers in a container, or in one variable: each call is about those that it is made on."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent
from typing import Any

import pytest
from amp_migrate.flow.analysis import Analysis
from amp_migrate.flow.domain.atoms import tensors_in
from amp_migrate.flow.domain.tensor import UNKNOWN_LEAF
from amp_migrate.flow.events import Act
from amp_migrate.flow.questions import CLIPPED, ONE_WITHOUT_GRADIENTS, PAST, SEVERAL_SCALES, faults

from .conftest import Texts

Tell = Callable[..., Any]

NETS = """
g = nn.Linear(8, 8).cuda()
d = nn.Linear(8, 1).cuda()
scaler = torch.amp.GradScaler("cuda")
"""
DISPLAYED = 'opts = {"g": optim.Adam(g.parameters()), "d": optim.Adam(d.parameters())}\n'
FILLED = 'opts = {}\nopts["g"] = optim.Adam(g.parameters())\nopts["d"] = optim.Adam(d.parameters())\n'
CALLED = "opts = dict(g=optim.Adam(g.parameters()), d=optim.Adam(d.parameters()))\n"
VALUES = "[optim.Adam(g.parameters()), optim.Adam(d.parameters())]"

LOOP = """
for x in loader:
    {zero}
    with torch.amp.autocast("cuda", dtype=torch.float16):
        loss = d(g(x)).mean()
    scaler.scale(loss).backward()
    {step}
    scaler.update()
"""


def told_of(told: Tell, text: str) -> list[str]:
    return [each.what for each in faults(told(dedent(text)).analysis) if each.always or each.is_seen]


@pytest.mark.parametrize("made", [DISPLAYED, FILLED, CALLED])
@pytest.mark.parametrize(
    ("zero", "step"),
    [
        ("for o in opts.values(): o.zero_grad()", "[scaler.step(o) for o in opts.values()]"),
        ("[o.zero_grad() for o in opts.values()]", "for o in opts.values(): scaler.step(o)"),
        ("for name, o in opts.items(): o.zero_grad()", "for name in opts: scaler.step(opts[name])"),
        ("for name in ('g', 'd'): opts[name].zero_grad()", "[scaler.step(opts[k]) for k in opts.keys()]"),
        ("list(map(lambda o: o.zero_grad(), opts.values()))", "list(map(scaler.step, opts.values()))"),
    ],
)
def test_each_optimizer_of_a_dictionary_has_its_turn(told: Tell, made: str, zero: str, step: str) -> None:
    assert not told_of(told, NETS + made + LOOP.format(zero=zero, step=step))


def test_each_optimizer_is_unscaled_and_stepped_once(told: Tell) -> None:
    zero = "[o.zero_grad() for o in opts]"
    step = "[scaler.unscale_(o) for o in opts]; [scaler.step(o) for o in opts]"
    assert not told_of(told, f"{NETS}opts = {VALUES}\n{LOOP.format(zero=zero, step=step)}")


@pytest.mark.parametrize(
    ("zero", "step", "what"),
    [
        ("opts['g'].zero_grad()", "[scaler.step(o) for o in opts.values()]", "true gradients are added to scaled ones"),
        (
            "[o.zero_grad() for o in opts.values()]",
            "[scaler.step(o) for o in opts.values()]; [scaler.step(o) for o in opts.values()]",
            "a scaler steps twice without an update",
        ),
        (
            "[o.zero_grad() for o in opts.values()]",
            "scaler.unscale_(opts['g']); [scaler.unscale_(o) for o in opts.values()]; scaler.step(opts['g'])",
            "gradients are unscaled twice",
        ),
    ],
)
def test_what_is_wrong_for_one_of_them_is_seen(told: Tell, zero: str, step: str, what: str) -> None:
    assert what in told_of(told, NETS + DISPLAYED + LOOP.format(zero=zero, step=step))


@pytest.mark.parametrize(
    "made",
    [
        "self.opts = dict(); self.opts['g'] = optim.Adam(self.g.parameters()); self.opts['d'] = optim.Adam(D)",
        "self.opts = []; self.opts.append(optim.Adam(self.g.parameters())); self.opts.append(optim.Adam(D))",
    ],
)
def test_each_optimizer_that_another_method_has_put_in_has_its_turn(told: Tell, made: str) -> None:
    values = "self.opts.values()" if "dict" in made else "self.opts"
    assert not told_of(
        told,
        f"""
        class Trainer:
            def __init__(self):
                self.g, self.d = nn.Linear(8, 8).cuda(), nn.Linear(8, 1).cuda()
                {made.replace("D)", "self.d.parameters())")}
                self.scaler = torch.amp.GradScaler("cuda")

            def clear(self):
                for each in {values}:
                    each.zero_grad()

            def step(self):
                [self.scaler.step(each) for each in {values}]
                self.scaler.update()

            def train(self):
                for x in loader:
                    self.clear()
                    with torch.amp.autocast("cuda", dtype=torch.float16):
                        loss = self.d(self.g(x)).mean()
                    self.scaler.scale(loss).backward()
                    self.step()

        Trainer().train()
        """,
    )


WHOLE = "policy.parameters()"
UNSCALED_AND_CLIPPED = """
        optimizer.zero_grad()
        with torch.amp.autocast("cuda", dtype=torch.float16):
            loss = LOSS
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(CLIPPED, 1.0)
        scaler.step(optimizer)"""


def told_of_clips(
    told: Tell, act: str, adv: str, clips: tuple[str, str], loss: str = "policy(x).mean()", made: str = ""
) -> list[str]:
    """What is told of two optimizers that take turns, before each of which something is clipped."""
    steps = "".join(
        UNSCALED_AND_CLIPPED.replace("optimizer", each).replace("LOSS", loss).replace("CLIPPED", clipped)
        for each, clipped in zip(("act", "adv"), clips, strict=True)
    )
    return told_of(
        told,
        f"import utils\nfrom zoo import groups\n{made}act, adv = optim.Adam({act}), optim.Adam({adv})\n"
        f"scaler = torch.amp.GradScaler('cuda')\nfor x in loader:{steps}\n        scaler.update()\n",
    )


@pytest.mark.parametrize(
    ("act", "adv"),
    [
        ("policy.act_parameters()", "policy.adv_parameters()"),
        ("utils.groups(policy, 0.1)", "utils.groups(policy, 0.2)"),
        ("groups(0.1, model=policy)", "list(groups(0.2, model=policy))"),
        ("list(policy.groups('act'))", "policy.groups('adv')"),
        ("utils.halves(policy.named_parameters(), 0)", "utils.halves(policy.named_parameters(), 1)"),
    ],
)
@pytest.mark.parametrize("loss", ["policy(x).mean()", "policy.loss(x)", "loss_of(policy, x)"])
def test_parts_of_a_model_that_nobody_has_read_are_apart_from_each_other_and_within_it(
    told: Tell, act: str, adv: str, loss: str
) -> None:
    assert not told_of_clips(told, act, adv, (act, adv), loss)
    for clips in ((WHOLE, WHOLE), (act, WHOLE)):
        assert "gradients of several scales are clipped" in told_of_clips(told, act, adv, clips, loss)


@pytest.mark.parametrize(
    ("act", "adv"),
    [
        ("policy.act.parameters()", "policy.adv.parameters()"),
        ("policy.groups('act')", "utils.groups(policy, 'adv')"),
        ("policy.head.parameters()", "policy.act.parameters()"),
    ],
)
def test_what_a_class_inherits_that_nobody_has_read_is_of_its_objects(told: Tell, act: str, adv: str) -> None:
    own = """
        class Own(zoo.Policy):
            def __init__(self):
                super().__init__()
                self.head = nn.Linear(8, 8)

            def forward(self, x):
                return self.head(self.act(x) + self.adv(x))
    """
    made = f"import zoo\n{dedent(own)}\npolicy = Own()\n"
    assert not told_of_clips(told, act, adv, (act, adv), made=made)
    assert "gradients of several scales are clipped" in told_of_clips(told, act, adv, (WHOLE, WHOLE), made=made)


CLIPPED_BEHIND_ANOTHER_STEP = """
import tools
opt_d, opt_g = optim.Adam(d.parameters()), optim.Adam(g.parameters())
for x in loader:
    BEGIN
    with torch.amp.autocast("cuda", dtype=torch.float16):
        loss = d(x).mean()
    scaler.scale(loss).backward()
    scaler.step(opt_d)
    opt_g.zero_grad()
    with torch.amp.autocast("cuda", dtype=torch.float16):
        loss = d(g(x)).mean()
    scaler.scale(loss).backward()
    scaler.step(opt_g)
    scaler.update()
    CLIP
"""
CLIP = "nn.utils.clip_grad_norm_(d.parameters(), 1.0)"


@pytest.mark.parametrize(
    ("begin", "clip", "is_read"),
    [
        ("d.zero_grad()", CLIP, False),
        ("opt_d.zero_grad(); d.weight.grad", CLIP, False),
        ("opt_g.zero_grad()", CLIP, True),
        ("d.weight.grad = None", CLIP, True),
        ("if x.sum() > 0: d.zero_grad()", CLIP, True),
        ("d.zero_grad()", f"norm = {CLIP}", True),
        ("d.zero_grad()", f"{CLIP}; opt_d.step()", True),
        ("d.zero_grad()", f"{CLIP}; d.bias.grad", True),
        ("d.zero_grad()", f"{CLIP}; tools.log(d.parameters())", True),
    ],
)
def test_a_clip_matters_to_who_reads_the_gradients_before_they_are_cleared(
    told: Tell, begin: str, clip: str, is_read: bool
) -> None:
    text = NETS + CLIPPED_BEHIND_ANOTHER_STEP.replace("BEGIN", begin).replace("CLIP", clip)
    assert (SEVERAL_SCALES in told_of(told, text)) is is_read


@pytest.mark.parametrize("other", ["utils.groups(d, 0.1)", "d.parameters()"])
def test_parts_of_two_models_are_apart_by_their_models(told: Tell, other: str) -> None:
    given = ("utils.groups(g, 0.1)", other)
    loss = "d(g(x)).mean()"
    assert not told_of_clips(told, *given, ("g.parameters()", "d.parameters()"), loss, made=NETS)
    found = told_of_clips(told, *given, ("d.parameters()", "d.parameters()"), loss, made=NETS)
    assert "gradients are clipped while they are scaled" in found


STEP = """
    with torch.amp.autocast("cuda", dtype=torch.float16):
        loss = g(x).mean()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(g.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
"""


@pytest.mark.parametrize(
    "before",
    [
        "if optimizer is None: optimizer = optim.SGD(g.parameters(), lr=0.1)",
        "if i > 100 and optimizer is None: optimizer = optim.SGD(g.parameters(), lr=0.1)\n    if i < 100: continue",
    ],
)
def test_an_optimizer_that_takes_over_the_parameters_of_another_clears_its_gradients(told: Tell, before: str) -> None:
    text = (
        "first = optim.Adam(g.parameters())\noptimizer = None\nfor i, x in enumerate(loader):\n    first.zero_grad()"
        + STEP.replace("optimizer", "first")
        + f"    {before}\n    optimizer.zero_grad()"
        + STEP
    )
    assert not told_of(told, NETS + text)


@pytest.mark.parametrize(
    ("given", "before", "is_told"),
    [
        ("filter(lambda p: p.requires_grad, g.parameters())", "", False),
        ("[p for p in g.parameters() if p.requires_grad]", "", False),
        ("[p for p in g.parameters() if p.requires_grad == True]", "", False),
        ("[p for p in g.parameters() if True == p.requires_grad == x]", "", True),
        ("list(g.parameters())", "", False),
        ("[p for p in both.parameters() if p.requires_grad]", "", False),
        (
            "filter(lambda p: p.requires_grad, g.parameters())",
            "for p in d.parameters(): p.requires_grad = False",
            False,
        ),
        ("filter(lambda p: p.requires_grad, g.parameters())", "for p in g.parameters(): p.requires_grad = x", True),
        ("[p for p in g.parameters() if p.requires_grad]", "g.requires_grad_(False)", True),
        ("[p for p in g.parameters() if p.dim() > 1]", "", True),
    ],
)
def test_an_optimizer_that_is_made_anew_of_all_that_gets_gradients_clears_those_of_the_one_before(
    told: Tell, given: str, before: str, is_told: bool
) -> None:
    text = (
        f"def train(optimizer, x):\n    optimizer.zero_grad(){STEP}\n"
        f"both = nn.Sequential(g, unread)\n"
        f"optimizer = optim.Adam({given})\nfor i, x in enumerate(loader):\n    train(optimizer, x)\n"
        f"    if i > 5:\n        {before or 'pass'}\n        optimizer = optim.Adam({given})\n"
    )
    assert bool(told_of(told, NETS + text)) is is_told


ADAPTED = """
class Adapter:
    def __init__(self, model):
        self.model = model

    def adapt(self, x):
        optimizer = optim.Adam([p for p in self.model.parameters() if p.requires_grad])
        scaler = torch.amp.GradScaler("cuda")
        for _ in range(3):
            optimizer.zero_grad()
            with torch.amp.autocast("cuda", dtype=torch.float16):
                loss = {loss}.mean()
            scaler.scale(loss).backward()
            scaler.unscale_({unscaled})
            nn.utils.clip_grad_norm_([p for p in {clipped}.parameters() if p.requires_grad], 1.0)
            scaler.step(optimizer)
            scaler.update()


class Online(Adapter):
    def run(self, loader):
        for x in loader:
            self.adapt(x)


other = optim.Adam(d.parameters())
Adapter(g).adapt(x)
Online(g).run(loader)
"""
CLIPPED_SCALED = "gradients are clipped while they are scaled"


@pytest.mark.parametrize(
    ("clipped", "loss", "unscaled", "wrong"),
    [
        ("self.model", "self.model(x)", "optimizer", []),
        ("d", "d(self.model(x))", "optimizer", [CLIPPED_SCALED]),
        ("self.model", "d(self.model(x))", "other", [CLIPPED_SCALED]),
    ],
)
def test_an_optimizer_that_each_call_makes_answers_for_those_of_the_others(
    told: Tell, clipped: str, loss: str, unscaled: str, wrong: list[str]
) -> None:
    found = told_of(told, NETS + ADAPTED.format(clipped=clipped, loss=loss, unscaled=unscaled))
    assert [each for each in dict.fromkeys(found) if each == CLIPPED_SCALED] == wrong


def test_one_of_two_optimizers_with_the_same_parameters_is_stepped_in_each_call(told: Tell) -> None:
    body = STEP.replace("\n", "\n    ")
    text = (
        "def train(optimizer=None):\n    if optimizer is None:\n        optimizer = optim.SGD(g.parameters(), lr=0.1)\n"
        f"    for x in loader:\n        optimizer.zero_grad()\n{body}\n\n"
        "train(optim.Adam(g.parameters()))\ntrain()\n"
    )
    assert not told_of(told, NETS + text)


@pytest.mark.parametrize("clear", ["optimizer.zero_grad()", "g.zero_grad()"])
def test_an_optimizer_of_another_package_is_one_thing(told: Tell, clear: str) -> None:
    text = f"from transformers import AdamW\noptimizer = AdamW(g.parameters())\nfor x in loader:\n    {clear}{STEP}"
    assert not told_of(told, NETS + text)
    assert told_of(told, NETS + text.replace(clear, "pass"))


OF_TWO_BRANCHES = """
import numpy

model = nn.Linear(8, 8).cuda()
groups = [{{"params": [value], "lr": 0.1}} for name, value in model.named_parameters()]
if kind == "adam":
    optimizer = optim.Adam(groups)
{otherwise}:
    optimizer = optim.SGD(groups)
scaler = torch.amp.GradScaler("cuda")


def clip(model, most):
    total = numpy.sqrt(sum(each.grad.norm() ** 2 for each in model.parameters()))
    for each in model.parameters():
        each.grad.mul_(most / max(total, most))


for x in loader:
    with torch.amp.autocast("cuda", dtype=torch.float16):
        loss = model(x).mean()
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    {before}
    clip(model, 10.0)
    {behind}
    scaler.step(optimizer)
    scaler.update()
"""


@pytest.mark.parametrize("otherwise", ["else", 'elif kind == "sgd"'])
@pytest.mark.parametrize(
    ("before", "behind", "is_used_scaled"),
    [
        ("scaler.unscale_(optimizer)", "pass", False),
        ("pass", "scaler.unscale_(optimizer)", True),
        ("pass", "pass", True),
        ("scaler.unscale_(optimizer) if often else None", "pass", True),
        ("scaler.unscale_(optimizer); scaler.scale(model(x).mean()).backward()", "pass", True),
    ],
)
def test_gradients_are_those_of_the_one_optimizer_that_a_branch_has_made(
    told: Tell, otherwise: str, before: str, behind: str, is_used_scaled: bool
) -> None:
    text = OF_TWO_BRANCHES.format(otherwise=otherwise, before=before, behind=behind)
    found = [each.what for each in faults(told(text).analysis)]
    assert any("scale is in it" in each for each in found) is is_used_scaled
    assert is_used_scaled or not found


@pytest.mark.parametrize(
    ("unscaled", "groups", "is_used_scaled"),
    [
        ("scaler.unscale_(optimizer)", "model.parameters()", False),
        ("scaler.unscale_(optimizer)", '[{"params": decay}, {"params": plain, "weight_decay": 0.0}]', False),
        ("pass", '[{"params": decay}, {"params": plain, "weight_decay": 0.0}]', True),
        ("scaler.unscale_(optimizer) if often else None", "model.parameters()", True),
    ],
)
def test_gradients_that_another_file_measures_are_those_of_the_one_optimizer_that_was_made(
    unscaled: str, groups: str, is_used_scaled: bool
) -> None:
    optimizers = f"""
        from torch import optim

        def build(kind, model):
            groups = of(model)
            optimizer = None
            if kind == "sgd":
                optimizer = optim.SGD(groups)
            elif kind == "adamw":
                optimizer = optim.AdamW(groups)
            return optimizer

        def of(model):
            decay, plain = [], []
            for name, parameter in model.named_parameters():
                (plain if name.endswith("bias") else decay).append(parameter)
            return {groups}
        """
    norms = """
        def norm(parameters):
            parameters = list(filter(lambda each: each.grad is not None, parameters))
            return sum(each.grad.norm().item() ** 2 for each in parameters) ** 0.5
        """
    train = f"""
        import torch
        from torch import nn
        from norms import norm
        from optimizers import build
        from timm.utils import AverageMeter

        def main(kind, often, loader):
            model = nn.Linear(8, 8).cuda()
            optimizer = build(kind, model)
            scaler = torch.amp.GradScaler("cuda")
            meter = AverageMeter()
            for x in loader:
                with torch.amp.autocast("cuda", dtype=torch.float16):
                    loss = model(x).mean()
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                {unscaled}
                total = norm(model.parameters())
                scaler.step(optimizer)
                scaler.update()
                meter.update(total)
        """
    texts = {"train.py": train, "norms.py": norms, "optimizers.py": optimizers}
    analysis = Analysis(Texts({name: dedent(text) for name, text in texts.items()}), ["train.py"]).run()
    assert any("scale is in it" in each.what for each in faults(analysis)) is is_used_scaled


def test_an_optimizer_that_was_made_before_is_there_beside_one_that_a_branch_makes(told: Tell) -> None:
    text = """
        class Trainer:
            def __init__(self):
                self.net = nn.Linear(8, 8).cuda()
                self.opt = optim.Adam(self.net.parameters())

            def tune(self, again):
                opt = self.opt
                if again:
                    opt = optim.SGD(self.net.parameters())
                for x in loader:
                    opt.zero_grad()
                    self.net(x).mean().backward()
                    opt.step()

        trainer = Trainer()
        """
    events = told(dedent(text)).events(Act.STEP)
    assert {atom.external for each in events for atom in each.optimizer} == {"torch.optim.Adam", "torch.optim.SGD"}


OF_A_NAME = """
    from lion_pytorch import Lion

    KINDS = {{"adam": optim.Adam, "adamw": optim.AdamW, "rms": optim.RMSprop, "lion": Lion}}

    def save(net, opt):
        torch.save({{"net": net.state_dict(), "opt": opt.state_dict()}}, "last.pt")

    def train(net, opt, scaler, best=0.0):
        for epoch in range(9):
            for x in loader:
                {zero}
                with torch.amp.autocast("cuda", dtype=torch.float16):
                    loss = net(x).mean()
                scaler.scale(loss).backward()
                scaler.step(opt)
                scaler.update()
            if epoch % 2 == 0:
                save(net, opt)

    net = nn.Linear(8, 1).cuda()
    opt = KINDS[kind](net.parameters(), lr=0.1)
    if again:
        opt.load_state_dict(torch.load("last.pt")["opt"])
    train(net, opt, torch.amp.GradScaler("cuda"))
    """


@pytest.mark.parametrize(
    ("zero", "found"), [("opt.zero_grad()", []), ("pass", ["true gradients are added to scaled ones"])]
)
def test_an_optimizer_whose_class_a_name_picks_is_one_on_each_way(told: Tell, zero: str, found: list[str]) -> None:
    assert told_of(told, OF_A_NAME.format(zero=zero)) == found


def test_what_another_method_stores_without_gradients_takes_none_from_a_loss(told: Tell) -> None:
    text = """
        class Model:
            def __init__(self):
                self.g, self.d = nn.Linear(8, 8).cuda(), nn.Linear(8, 1).cuda()
                self.opt_g, self.opt_d = optim.Adam(self.g.parameters()), optim.Adam(self.d.parameters())
                self.scaler = torch.amp.GradScaler("cuda")

            def forward(self):
                self.fake = self.g(self.real)

            def backward_g(self):
                self.loss = self.d(self.fake).mean() + (self.fake - self.real).abs().mean()
                self.scaler.scale(self.loss).backward()

            def train(self, x):
                self.real = x
                with torch.amp.autocast("cuda", dtype=torch.float16):
                    self.forward()
                self.opt_g.zero_grad()
                self.backward_g()
                self.scaler.step(self.opt_g)
                self.scaler.update()

            def test(self):
                with torch.no_grad():
                    self.forward()

        model = Model()
        for x in loader:
            model.train(x)
        model.test()
        """
    assert "a scaler steps an optimizer without gradients" not in told_of(told, text)


def test_a_function_that_makes_its_scaler_steps_with_no_other_calls(told: Tell) -> None:
    text = """
        def epoch(net, opt, scaler):
            for x in loader:
                opt.zero_grad()
                with torch.amp.autocast("cuda", dtype=torch.float16):
                    loss = net(x).mean()
                scaler.scale(loss).backward()
                scaler.unscale_(opt)
                nn.utils.clip_grad_norm_(net.parameters(), 1.0)
                scaler.step(opt)
                scaler.update()

        def train():
            net = nn.Linear(8, 1).cuda()
            opt = optim.Adam(net.parameters())
            scaler = torch.amp.GradScaler("cuda")
            epoch(net, opt, scaler)
            return net

        reference = train()
        for method in methods:
            net = train()
        """
    assert not told_of(told, text)


MANY = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(8, 8, 3, padding=1)

    def forward(self, x):
        return self.conv(x).relu()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        {blocks}

    def forward(self, x):
        return {through}


def make(frozen):
    net = Net().cuda()
    return net.eval() if frozen else net


a, b = make(False), make(True)
opt_a, opt_b = optim.SGD(a.parameters(), lr=0.1), optim.SGD(b.parameters(), lr=0.1)
for x in loader:
    {loss}.backward()
    {other}.backward()
"""


@pytest.mark.parametrize("count", [2, 13, 30])
def test_networks_of_many_layers_of_one_class_are_told_apart(told: Tell, count: int) -> None:
    blocks = "; ".join(f"self.b{each} = Block()" for each in range(count))
    through = "".join(f"self.b{each}(" for each in range(count)) + "x" + ")" * count
    text = MANY.format(blocks=blocks, through=through, loss="a(x.cuda()).mean()", other="b(x.cuda()).mean()")
    of_a, of_b = (set(each.leaves) for each in told(text).events(Act.OPTIMIZER_MADE))
    reached_a, reached_b = (
        {leaf for loss in tensors_in(each.subject) for leaf in loss.reach} for each in told(text).events(Act.BACKWARD)
    )
    assert of_a <= reached_a - {UNKNOWN_LEAF}
    assert of_b <= reached_b - {UNKNOWN_LEAF}
    assert reached_a.isdisjoint(reached_b)


@pytest.mark.parametrize(
    ("made", "is_one"),
    [
        ("transforms.Normalize([0.5], [0.5])", True),
        ("transforms.Compose([transforms.Resize(size), lambda x: x * 2, transforms.RandomApply([flip])])", True),
        ("transforms.Compose([lambda x: net_b(x)])", False),
        ("transforms.Compose(found)", False),
    ],
)
def test_a_transform_has_no_parameters_but_those_of_what_it_calls(told: Tell, made: str, is_one: bool) -> None:
    text = f"""
from torchvision import transforms
net_a, net_b = nn.Conv2d(1, 1, 1).cuda(), nn.Conv2d(1, 1, 1).cuda()
opt_a, opt_b = optim.SGD(net_a.parameters(), lr=0.1), optim.SGD(net_b.parameters(), lr=0.1)
def flip(x):
    return x.flip(-1)
transform = {made}
for x in [torch.ones(2, 1, 8, 8)]:
    net_a(transform(x.cuda())).mean().backward()
"""
    (loss,) = told(text).events(Act.BACKWARD)
    assert (len(loss.optimizer) == 1) is is_one


@pytest.mark.parametrize(
    ("made", "use", "answers"),
    [
        ("[nn.Linear(2, 1) for _ in range(3)]", "nets[0](x) - nets[2](x)", [True]),
        ("[nn.Linear(2, 1) for _ in range(3)]", "nets[0](x) - nets[1](x)", [True]),
        ("[nn.Linear(2, 1) for _ in range(n)]", "nets[0](x) - nets[1](x)", []),
        ("[nn.Linear(2, 1) for _ in range(2)]", "nets[0](x) - nets[1](x)", []),
        ("[kept[i] for i in range(3)]", "nets[0](x) - nets[2](x)", [False]),
        ("[make(), make(), make()]", "nets[0](x) - nets[2](x)", [True]),
        ("[make(), make(), make()]", "nets[0](x) - nets[2](x) + kept[1](x)", [True]),
        ("[make(), make(), make()]", "nets[0](x) - nets[n](x)", []),
        ("[make(), make(), make()]", "nets[0](x) - first(nets)(x)", []),
        ("[make(), make(), make()]", "nets[0](x) - run(nets[:2], x)", []),
        ("nn.ModuleList([nn.Linear(2, 1) for _ in range(3)]).cuda()", "nets[0](x) - nets[2](x)", [True]),
        ("nn.ModuleList(nn.Linear(2, 1) for _ in range(3))", "nets[0](x) - nets[1](x)", [True]),
        ("nn.ModuleList([make() for _ in range(2)])", "nets[0](x) - nets[1](x)", []),
        ("nn.ModuleList([make(), make(), make()])", "nets[0](x) - nets[2](x)", [True]),
        ("nn.ModuleList([make(), make(), make()])", "nets[0](x) - nets[n](x)", []),
        ("nn.ModuleList([make(), make(), make()])", "nets[0](x) - run(nets, x)", []),
    ],
)
def test_a_module_that_is_never_run_beside_others_leaves_its_optimizer_without_gradients(
    told: Tell, made: str, use: str, answers: list[bool]
) -> None:
    text = f"""
    def make():
        return nn.Linear(2, 1)

    kept = {{i: make() for i in range(3)}}
    nets = {made}
    opts = []
    for net in nets:
        opts.append(optim.Adam(net.parameters()))
    scaler = torch.amp.GradScaler("cuda")
    for x in loader:
        for net in nets:
            net.zero_grad()
        with torch.amp.autocast("cuda", dtype=torch.float16):
            loss = ({use}).mean()
        scaler.scale(loss).backward()
        for each in opts:
            scaler.step(each)
        scaler.update()
    """
    found = faults(told(text).analysis)
    assert [each.always for each in found if each.what == ONE_WITHOUT_GRADIENTS] == answers


@pytest.mark.parametrize(
    ("result", "is_told"),
    [("self.nets[0](x) - self.nets[2](x)", True), ("sum(net(x) for net in self.nets)", False)],
)
def test_modules_that_a_model_holds_and_runs_but_for_one_leave_the_optimizer_of_that_without_gradients(
    told: Tell, result: str, is_told: bool
) -> None:
    text = f"""
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.nets = nn.ModuleList()
            for _ in range(3):
                self.nets.append(nn.Linear(2, 1))

        def forward(self, x):
            return {result}

    model = Model().cuda()
    opts = [optim.Adam(net.parameters()) for net in model.nets]
    scaler = torch.amp.GradScaler("cuda")
    for x in loader:
        model.zero_grad()
        with torch.amp.autocast("cuda", dtype=torch.float16):
            loss = model(x).mean()
        scaler.scale(loss).backward()
        for each in opts:
            scaler.step(each)
        scaler.update()
    """
    for made in (text, text.replace("ModuleList()", "ModuleList([nn.Linear(2, 1) for _ in range(3)])")):
        assert any(each.what == ONE_WITHOUT_GRADIENTS for each in faults(told(made).analysis)) is is_told


@pytest.mark.parametrize(
    "layers", ["[nn.Linear(8, 8), nn.ReLU()]", "[f() for f in (nn.ReLU, nn.Tanh, Own) for _ in names]"]
)
def test_layers_that_take_turns_give_gradients_though_some_have_no_parameters(told: Tell, layers: str) -> None:
    text = f"""
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(8, 8)

        def forward(self, x):
            return self.inner(x)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList({layers})

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x

    g, d = Net().cuda(), nn.Linear(8, 1).cuda()
    optimizer = optim.Adam(g.parameters())
    scaler = torch.amp.GradScaler("cuda")
    for x in loader:
        optimizer.zero_grad()
        with torch.amp.autocast("cuda", dtype=torch.float16):
            loss = d(g(x)).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    """
    what = "a scaler steps an optimizer without gradients"
    assert what not in told_of(told, text)
    assert what in told_of(told, text.replace("d(g(x))", "d(x if x.sum() > 0 else g(x))"))


@pytest.mark.parametrize("averages", ["swa_utils.AveragedModel(g)", "swa_utils.AveragedModel(model=g.cpu())"])
def test_a_model_that_averages_weights_is_no_optimizer_of_them(told: Tell, averages: str) -> None:
    made = f"import zoo\nfrom torch.optim import swa_utils\n{NETS}g = zoo.make().cuda()\naveraged = {averages}\n"
    groups = "[{'params': [p for n, p in g.named_parameters() if n in zoo.names]}]"
    rounds = f"optimizer = optim.Adam({groups})\nfor x in loader:\n    optimizer.zero_grad(){STEP}"
    assert "gradients are clipped while they are scaled" not in told_of(told, made + rounds)
    late = rounds.replace("    scaler.unscale_(optimizer)\n", "")
    assert "gradients are clipped while they are scaled" in told_of(told, made + late)


_OF_ONE_LIST = """
import torch
from torch import nn
from transformers.optimization import AdamW

model = nn.Linear(8, 1).cuda()
{params}
optimizer = {kind}(params, lr=1e-5)
{between}
other = torch.optim.Adam(params, lr=1e-5)
scaler = torch.amp.GradScaler("cuda")
for x in loader:
    with torch.amp.autocast("cuda", dtype=torch.float16):
        loss = model(x).mean()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    model.zero_grad()
other.step()
"""
_GROUPS = """params = [
    {"params": [p for n, p in model.named_parameters() if "bias" in n]},
    {"params": [p for n, p in model.named_parameters() if "bias" not in n], "lr": 1e-4},
]"""


@pytest.mark.parametrize("kind", ["torch.optim.AdamW", "AdamW"])
@pytest.mark.parametrize("params", ["params = list(model.parameters())", _GROUPS])
def test_what_one_of_two_optimizers_of_one_list_unscales_is_that_of_the_other(
    told: Tell, params: str, kind: str
) -> None:
    assert CLIPPED not in told_of(told, _OF_ONE_LIST.format(params=params, kind=kind, between=""))


@pytest.mark.parametrize(
    "between",
    [
        "params.append(more.weight)",
        "params = [*params, more.weight]",
        "params += rest",
        "def grow(given):\n    given.append(more.weight)\ngrow(params)",
    ],
)
def test_one_of_a_list_that_has_grown_may_have_others(told: Tell, between: str) -> None:
    text = _OF_ONE_LIST.format(params="params = [model.weight]", kind="torch.optim.AdamW", between=between)
    assert CLIPPED in told_of(told, text)


_IN_EACH_ROUND = """
import torch
from torch import nn


class Trainer:
    def train(self, model, early):
        params = list(model.parameters())
        <made>
        scaler = torch.amp.GradScaler("cuda")
        for x in loader:
            with torch.amp.autocast("cuda", dtype=torch.float16):
                loss = model(x).mean()
            scaler.scale(loss).backward()
            scaler.unscale_(self.optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(self.optimizer)
            scaler.update()
            model.zero_grad()
        self.other.step()


trainer = Trainer()
for early in range(8):
    trainer.train(nn.Linear(8, 1).cuda(), early)
"""


@pytest.mark.parametrize(
    ("between", "other", "is_told"),
    [
        ("print(early)", "self.other = torch.optim.SGD(params)", False),
        ("print(early)", "if early < 2:\n            self.other = torch.optim.SGD(params)", True),
        ("print(early)", "self.other = torch.optim.SGD(params) if early < 2 else self.other", True),
        ("if early > 3:\n            return", "self.other = torch.optim.SGD(params)", True),
    ],
)
def test_so_it_is_of_two_that_a_function_makes_each_time(told: Tell, between: str, other: str, is_told: bool) -> None:
    made = f"self.optimizer = torch.optim.SGD(params)\n        {between}\n        {other}"
    assert (CLIPPED in told_of(told, _IN_EACH_ROUND.replace("<made>", made))) is is_told


_ON_MANY_WAYS = """
import sys

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x):
        return x + self.inner(x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        layers = [nn.Linear(2, 4)]
        for _ in range(7):
            layers.append(Block())
        self.layers = nn.Sequential(*layers)

    def forward(self, x):
        return self.layers(x)


def train(limit):
    model = Net().cuda()
    optimizer = torch.optim.Adam(model.parameters())
    scaler = torch.amp.GradScaler("cuda")
    for x in loader:
        optimizer.zero_grad()
        with torch.amp.autocast("cuda", dtype=torch.float16):
            loss = model(x).mean()
        scaler.scale(loss).backward()
        if limit > 0:
            <unscaled>
            nn.utils.clip_grad_norm_(model.parameters(), limit)
        scaler.step(optimizer)
        scaler.update()


def once():
    train(1.0)


def everything():
    once()


def main(mode):
    if mode == "once":
        once()
    else:
        everything()


main(sys.argv[1])
"""


@pytest.mark.parametrize(("unscaled", "is_told"), [("scaler.unscale_(optimizer)", False), ("pass", True)])
def test_an_optimizer_that_another_call_makes_of_its_own_network_is_not_there(
    told: Tell, unscaled: str, is_told: bool
) -> None:
    assert (CLIPPED in told_of(told, _ON_MANY_WAYS.replace("<unscaled>", unscaled))) is is_told


def test_one_that_a_call_before_has_made_is_there(told: Tell) -> None:
    of_both = "nn.utils.clip_grad_norm_([*model.parameters(), *before.parameters()], limit)"
    text = (
        _ON_MANY_WAYS.replace("<unscaled>", "scaler.unscale_(optimizer)")
        .replace("def train(limit):", "def train(limit, before=None, other=None):")
        .replace("model(x).mean()", "(before(model(x)) if before else model(x)).mean()")
        .replace("nn.utils.clip_grad_norm_(model.parameters(), limit)", of_both)
        .replace("        scaler.update()\n", "        scaler.update()\n    return model, optimizer\n")
        .replace("    train(1.0)\n", "    first, one = train(0)\n    train(1.0, first, one)\n")
    )
    assert "gradients of several scales are clipped" in told_of(told, text)


def test_what_many_calls_compute_without_gradients_leaves_those_of_others_sure(told: Tell) -> None:
    calls = "".join(f"    found.append(times(g, x, {each}))\n" for each in range(30))
    text = f"{NETS}\ndef times(net, x, k):\n    return net(x) * k\n\nwith torch.no_grad():\n{calls}"
    (loss,) = tensors_in(told(f"{text}loss = times(g, x, 30).mean()\n").value("loss"))
    assert loss.reach
    assert loss.reach <= loss.surely


COPIES = """
import copy
from models import Net

model = Net().cuda()
outer, scaler = optim.SGD(model.parameters(), 0.1), torch.amp.GradScaler("cuda")
for batch in loader:
    outer.zero_grad()
    for x in batch:
        learner = {copied}
        inner = optim.Adam(learner.parameters())
        with torch.amp.autocast("cuda", dtype=torch.float16):
            loss = learner(x).mean()
        scaler.scale(loss).backward()
        scaler.step(inner)
        scaler.update()
        for p, q in zip(model.parameters(), learner.parameters()):
            p.grad = p.data - q.data
    outer.step()
"""


@pytest.mark.parametrize(("copied", "is_told"), [("copy.deepcopy(model)", False), ("model", True)])
def test_a_copy_of_a_model_that_nobody_has_read_has_weights_of_its_own(told: Tell, copied: str, is_told: bool) -> None:
    assert (PAST in told_of(told, COPIES.format(copied=copied))) is is_told


@pytest.mark.parametrize(
    ("kind", "state", "given"),
    [
        ("GRU", "torch.zeros(1, 4, 8)", "state"),
        ("LSTM", "(torch.zeros(1, 4, 8), torch.zeros(1, 4, 8))", "state"),
        ("LSTM", "(torch.zeros(1, 4, 8), torch.zeros(1, 4, 8))", "(state[0], state[1])"),
        ("LSTM", "None", "tuple(each for each in state)"),
    ],
)
def test_a_loss_is_computed_from_what_has_made_the_state_of_a_recurrent_layer(
    told: Tell, kind: str, state: str, given: str
) -> None:
    answer = told(f"""
one, other = nn.{kind}(8, 8), nn.{kind}(8, 8)
for x in torch.randn(2, 5, 4, 8):
    _, state = one(x, {state})
    y, _ = other(x, {given})
    y.mean().backward()
""")
    (loss,) = (each.subject for each in answer.events(Act.BACKWARD))
    assert len({leaf for each in tensors_in(loss) for leaf in each.reach}) == 2


def test_what_wraps_an_optimizer_may_be_stepped_beside_one_of_a_checkpoint(told: Tell) -> None:
    text = """
    class Wrapper:
        def set_parameters(self, params):
            self.inner = torch.optim.Adam([*params])

        def step(self):
            self.inner.step()

    net = nn.Linear(8, 8).cuda()
    scaler = torch.amp.GradScaler("cuda")
    optimizer = torch.load(path)["optimizer"] if path else Wrapper()
    optimizer.set_parameters([*net.parameters()])
    for x in loader:
        net.zero_grad()
        with torch.amp.autocast("cuda", dtype=torch.float16):
            loss = net(x).mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
    """
    assert Act.NO_OPTIMIZER in {each.act for each in told(dedent(text)).analysis.events.values()}
