"""A loss, or a model, of code that is not among the files is told where a step moves, once."""

from __future__ import annotations

from pathlib import Path

import pytest
from amp_migrate.engine.migrate import migrate, migrate_text
from amp_migrate.settings import Settings

HEAD = """\
import maps, timm, torch, torchvision, transformers
from maps import losses
from torch import nn


class Own(maps.Planner):
    def log(self, value):
        print(value)


class Judge(nn.Module):
    def forward(self, out, target):
        return (out - target).square().mean()


head, judge = nn.Linear(9, 3).cuda(), Judge()
"""
EPOCH = """\
optimizer = torch.optim.Adam(model.parameters())
for x, target in loader:
    {forward}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
COMPUTED = "the loss is computed under autocast by code that could not be read: "
MODEL = "what runs under autocast could not be read: "
GIVEN = "code that could not be read gets a half-precision value: "


def told(made: str, forward: str) -> list[tuple[str, str]]:
    """The line that each finding about risky numerics is of, and what it says."""
    text = f"{HEAD}model = {made}\n{EPOCH.format(forward=forward)}"
    plan = migrate_text(text, Settings())
    assert "autocast(" in plan.after
    lines = text.splitlines()
    return [(lines[each.line - 1].strip(), each.message) for each in plan.findings if each.code == "AMP504"]


@pytest.mark.parametrize(
    ("made", "forward", "name"),
    [
        ("maps.Planner(16).cuda()", "loss = model.train_step(x, target)", "maps.Planner.train_step"),
        ("maps.Planner(16).cuda()", "loss, log = model(x, target)", "maps.Planner"),
        ("maps.build('small').to('cuda')", "loss = model(x, target)", "maps.build()"),
        ("maps.build('small').to('cuda')", "loss = model(x, target).loss / 4", "maps.build()"),
        ("maps.zoo.Planner().cuda()", "loss = sum(model(x, target).values())", "maps.zoo.Planner"),
        ("nn.DataParallel(maps.Planner().cuda())", "loss = model(x, target).mean()", "maps.Planner"),
        ("Own(16).cuda()", "loss = 0.5 * model.train_step(x, target)", "maps.Planner.train_step"),
        ("maps.Planner(16).cuda()", "loss = losses.focal(model(x), target)", "maps.losses.focal"),
        (
            "maps.Planner(16).cuda()",
            "loss = nn.functional.l1_loss(head(model(x)), target) + model.penalty()",
            "maps.Planner.penalty",
        ),
    ],
)
def test_a_loss_that_nobody_has_read_is_told_where_it_is_computed(made: str, forward: str, name: str) -> None:
    model = [(forward, f"{MODEL}maps.Planner")] if name == "maps.losses.focal" else []
    assert sorted(told(made, forward)) == [(forward, COMPUTED + name), *model]


@pytest.mark.parametrize(
    ("made", "forward"),
    [
        ("maps.Planner(16).cuda()", "loss = nn.functional.cross_entropy(model(x), target)"),
        ("maps.Planner(16).cuda()", "loss = judge(model(x), target)"),
        ("maps.Planner(16).cuda()", "loss = judge(head(model.features(x)), target)"),
        ("maps.Planner(16).cuda()", "loss = -(model(x).log_softmax(1) * target).sum()"),
    ],
)
def test_a_model_that_nobody_has_read_is_told_where_its_loss_is_in_sight(made: str, forward: str) -> None:
    assert told(made, forward) == [(forward, f"{MODEL}maps.Planner")]


CONVERTED = """\
nn.Sequential(nn.Linear(9, 9), nn.ReLU()).cuda()
spiking = {made}"""


@pytest.mark.parametrize(
    ("made", "forward", "name"),
    [
        ("maps.from_model(model, steps=4)", "spiking.spiking_model(x)", "maps.from_model()"),
        ("maps.faster(maps.from_model(model)).to('cuda')", "model(spiking.first(x))", "maps.faster()"),
        ("maps.faster(model).parts", "model(spiking.first(x))", "maps.faster().parts"),
        # What computes nothing of tensors, and what no loss is computed by.
        ("maps.from_model(model)", "model(x) + spiking.rate()", ""),
        ("maps.counted(model)", "model(x) + (spiking.count(x) > 3)", ""),
    ],
)
def test_what_a_package_has_made_of_a_model_is_told(made: str, forward: str, name: str) -> None:
    loss = f"loss = nn.functional.mse_loss({forward}, target)"
    assert told(CONVERTED.format(made=made), loss) == [(loss, f"{MODEL}{name}")] * bool(name)


@pytest.mark.parametrize("part", ["first", "first.features"])
def test_making_something_of_a_model_is_no_forward(part: str) -> None:
    step = EPOCH.format(forward=f"loss = nn.functional.mse_loss(spiking.{part}(x), target)")
    plan = migrate_text(f"{HEAD}model = {CONVERTED.format(made='maps.from_model(model)')}\n{step}", Settings())
    assert "autocast(" not in plan.after
    assert [each.message.rpartition(": ")[2] for each in plan.findings] == [f"nothing says what `spiking.{part}` is"]


KEPT = """\
class Whole(nn.Module):
    def __init__(self):
        super().__init__()
        self.prepare()
        self.head, self.words = nn.Linear(9, 3), nn.Embedding(9, 3)

    def prepare(self):
        from {package} import Part
        self.body = Part(16)

    def forward(self, x):
        return self.head({forward})


model = Whole().cuda()"""


@pytest.mark.parametrize(
    ("package", "forward", "is_told"),
    [
        ("zoo.blocks", "self.body(x)", True),
        ("zoo.blocks", "self.body.features(x)[..., None]", True),
        ("zoo.blocks", "self.words(torch.tensor(self.body(x)).cuda())", False),  # no loss is computed by a tokenizer
        ("timm.layers", "self.body(x)", False),
    ],
)
def test_a_part_of_a_model_that_nobody_has_read_is_told(package: str, forward: str, is_told: bool) -> None:
    made = f"None\n{KEPT.format(package=package, forward=forward)}"
    found = told(made, "loss = nn.functional.mse_loss(model(x), target)")
    assert [message for _, message in found] == [f"{MODEL}zoo.blocks.Part"] * is_told


SOLVED = """\
class Field(nn.Module):
    def __init__(self):
        super().__init__()
        self.rate = nn.Linear(9, 9)

    def forward(self, t, y):
        return self.rate(y**3)


def first(t, y):
    return y[0]


class Solved(nn.Module):
    def __init__(self):
        super().__init__()
        self.field, self.head = Field(), nn.Linear(9, 3)
        {made}

    def slope(self, t, y):
        return self.field(t, -y)

    def forward(self, x, t=0):
        return self.head({forward})


model = Solved().cuda()"""


@pytest.mark.parametrize(
    ("made", "forward", "name"),
    [
        ("pass", "maps.solve(self.field, x, t)", "maps.solve"),
        ("pass", "maps.solve(func=self.field, y=x)", "maps.solve"),
        ("pass", "maps.solve(nn.DataParallel(self.field), x, t)", "maps.solve"),
        ("pass", "maps.solve(self.field.forward, x, t)", "maps.solve"),
        ("pass", "maps.solve(self.slope, x, t)", "maps.solve"),
        ("pass", "maps.solve(lambda t, y: self.field(t, y), x, t)", "maps.solve"),
        ("pass", "maps.solve(functools.partial(self.slope, t), x)", "maps.solve"),
        ("self.solver = maps.Solver(self.field)", "self.solver(x, t)", "maps.Solver"),
        ("self.solver = maps.Solver(rate=self.field)", "self.solver.solve(x, t)", "maps.Solver"),
        # What is known to do nothing with results but hand them on, or runs nothing that has weights.
        ("pass", "torch.utils.checkpoint.checkpoint(self.field, t, x, use_reentrant=False)", ""),
        ("self.slopes = functools.partial(self.field, t)", "self.slopes(x)", ""),
        ("pass", "list(map(lambda each: self.field(t, each), [x]))[0]", ""),
        ("pass", "self.field(t, maps.padded(x, nn.ReLU()))", ""),
        ("pass", "self.field(t, maps.placed(first, x))", ""),
        ("self.average = maps.Average(self.field)", "self.field(t, x)", ""),
        ("pass", "timm.utils.solve(self.field, x, t)", ""),
    ],
)
def test_code_that_runs_a_model_and_nobody_has_read_is_told(made: str, forward: str, name: str) -> None:
    text = f"None\nimport functools\n\n\n{SOLVED.format(made=made, forward=forward)}"
    found = told(text, "loss = nn.functional.mse_loss(model(x), target)")
    assert [message for _, message in found] == ([f"{MODEL}{name}"] if name else [])


def test_a_loss_that_is_made_of_the_model_runs_it() -> None:
    made = "nn.Linear(9, 3).cuda()\ncount = losses.Count(model)"
    assert told(made, "nll_loss = losses.FlowLoss(model)\n    loss = nll_loss(x, target)") == [
        ("loss = nll_loss(x, target)", f"{COMPUTED}maps.losses.FlowLoss")
    ]
    for forward in ("nll_loss = losses.FlowLoss(head)\n    loss = nll_loss(x, target)", "loss = count(x, target)"):
        plan = migrate_text(f"{HEAD}model = {made}\n{EPOCH.format(forward=forward)}", Settings())
        assert [each.code for each in plan.findings] == ["AMP590"]


def test_several_models_are_told_together() -> None:
    forward = "loss = judge(model(x), critic(x)) + nn.functional.mse_loss(model(x), target)"
    made = "maps.Planner(16).cuda()\ncritic = maps.load('critic').eval()"
    assert told(made, forward) == [(forward, f"{MODEL}maps.Planner, maps.load()")]


@pytest.mark.parametrize(
    ("made", "forward"),
    [
        ("torchvision.models.detection.ssd300_vgg16().cuda()", "loss = sum(model(x, target).values())"),
        ("transformers.AutoModel.from_pretrained('a').cuda()", "loss = model(x, labels=target).loss"),
        ("timm.create_model('a').cuda()", "loss = nn.functional.cross_entropy(model(x), target)"),
        ("timm.layers.DropPath(0.1)", "loss = nn.functional.cross_entropy(model(head(x)), target)"),
    ],
)
def test_a_model_of_a_known_package_is_not_told(made: str, forward: str) -> None:
    assert told(made, forward) == []


@pytest.mark.parametrize(
    ("brought", "name"),
    [
        ("importlib.import_module('nets.' + kind).Judge()", "importlib.import_module().Judge()"),
        ("getattr(importlib.import_module('nets'), kind)(3)", "importlib.import_module()"),
        ("pickle.load(open('judge.pkl', 'rb'))", "pickle.load()"),
        ("torch.load('judge.pt')", "torch.load()"),
        ("torch.jit.load('judge.pt')", "torch.jit.load()"),
    ],
)
def test_what_a_known_package_brings_by_a_name_is_not_known(brought: str, name: str) -> None:
    forward = "loss = brought(model(x), target)"
    (line, message), *others = told(f"nn.Linear(9, 3).cuda()\nimport importlib, pickle\nbrought = {brought}", forward)
    assert (line, others) == (forward, [])
    assert name in message
    assert "[]" not in message
    assert message.startswith((COMPUTED, GIVEN))


def test_a_loss_is_told_once_that_gets_half_precision_for_certain() -> None:
    forward = "loss = losses.focal(model(x), target)"
    assert told("nn.Linear(9, 3).cuda()", forward) == [(forward, f"{GIVEN}maps.losses.focal")]


EVALUATED = """\
with torch.no_grad():
    for x, target in loader:
        right = (judged(x).argmax(1) == target).sum()
"""


@pytest.mark.parametrize("judged", ["torch.load('best.pt')", "maps.load('critic')", "model"])
def test_a_model_that_nobody_has_read_and_trains_is_evaluated_in_float32(judged: str) -> None:
    step = EPOCH.format(forward="loss = nn.functional.cross_entropy(model(x), target)")
    text = f"{HEAD}model = nn.Linear(9, 3).cuda()\n{step}judged = {judged}\n{EVALUATED}"
    plan = migrate_text(text, Settings())
    assert plan.after.count("autocast(") == (2 if judged == "model" else 1)
    assert [each.code for each in plan.findings] == ["AMP501"]


def test_a_model_that_nobody_has_read_is_evaluated_as_it_is_trained() -> None:
    step = EPOCH.format(forward="loss = nn.functional.cross_entropy(model(x), target)")
    plan = migrate_text(f"{HEAD}model = maps.Planner(16).cuda()\n{step}judged = model\n{EVALUATED}", Settings())
    assert plan.after.count("autocast(") == 2
    assert [each.message for each in plan.findings if each.code == "AMP504"] == [f"{MODEL}maps.Planner"]


def test_of_a_model_of_unknown_callers_nothing_is_told() -> None:
    text = f"{HEAD}\n\ndef train(model):\n" + "".join(
        f"    {line}\n" for line in EPOCH.format(forward="loss = model(x, target)").splitlines()
    )
    plan = migrate_text(text, Settings())
    assert "autocast(" in plan.after
    assert "AMP504" not in {each.code for each in plan.findings}


@pytest.mark.parametrize("is_given", [False, True])
def test_a_file_that_is_not_given_is_told_like_a_package(tmp_path: Path, is_given: bool) -> None:
    step = EPOCH.format(forward="loss = model.train_step(x, target)")
    script = f"import torch\nfrom models.planner import Planner\n\nmodel = Planner(16).cuda()\n{step}"
    (tmp_path / "train.py").write_text(script)
    if is_given:
        (tmp_path / "models").mkdir()
        (tmp_path / "models" / "planner.py").write_text(
            "from torch import nn\n\n\nclass Planner(nn.Module):\n"
            "    def __init__(self, size):\n        super().__init__()\n        self.head = nn.Linear(size, 3)\n\n"
            "    def train_step(self, x, target):\n        return nn.functional.cross_entropy(self.head(x), target)\n"
        )
    summary = migrate([tmp_path], Settings())
    told = [each.message for plan in summary.plans for each in plan.findings if each.code == "AMP504"]
    assert told == ([] if is_given else [f"{COMPUTED}models.planner.Planner.train_step"])


def test_what_apex_ran_in_mixed_precision_is_not_told() -> None:
    text = (
        "import maps, torch\nfrom apex import amp\n\nmodel = maps.Planner().cuda()\n"
        "optimizer = torch.optim.Adam(model.parameters())\n"
        "model, optimizer = amp.initialize(model, optimizer, opt_level='O1')\n"
        "for x in loader:\n    loss = model(x)\n    optimizer.zero_grad()\n"
        "    with amp.scale_loss(loss, optimizer) as scaled:\n        scaled.backward()\n    optimizer.step()\n"
    )
    plan = migrate_text(text, Settings())
    assert "autocast(" in plan.after
    assert "AMP504" not in {each.code for each in plan.findings}


NAMED = """\
import torch
from {package} import outputs


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.head = torch.nn.Linear(9, 3)

    def forward(self, x):
        return outputs.Output(logits=self.head(x))


model = Net().cuda()
"""


@pytest.mark.parametrize(("package", "names"), [("transformers", []), ("maps", ["maps.outputs.Output"])])
def test_a_package_that_is_trained_under_autocast_takes_half_precision(package: str, names: list[str]) -> None:
    step = EPOCH.format(forward="loss = torch.nn.functional.cross_entropy(model(x).logits, target)")
    plan = migrate_text(NAMED.format(package=package) + step, Settings())
    assert "scaler.step(optimizer)" in plan.after
    kept = [f"kept in float32: its code could not be read: {name}" for name in names]
    assert [each.message for each in plan.findings if each.code == "AMP504"] == kept


CHOSEN = """\
import torch
import judges

model, judge = torch.nn.Linear(9, 3).cuda(), getattr(judges, kind)()
"""


@pytest.mark.parametrize(
    ("imported", "names"),
    [
        ("from maps import Focal", ["maps.Focal"]),
        ("from maps import weights", []),  # which is a module, or a function that makes no criterion
        ("from maps.weights import balanced", []),
    ],
)
def test_of_what_a_word_chooses_beside_classes_only_classes_are_told(
    tmp_path: Path, imported: str, names: list[str]
) -> None:
    judge = "class Judge(nn.Module):\n    def forward(self, out, target):\n        return (out - target).abs().mean()\n"
    (tmp_path / "judges.py").write_text(f"from torch import nn\n{imported}\n\n\n{judge}")
    (tmp_path / "train.py").write_text(CHOSEN + EPOCH.format(forward="loss = judge(model(x), target)"))
    outcome = migrate([tmp_path], Settings())
    assert [each.source.path.name for each in outcome.changed] == ["train.py"]
    found = [each.message for each in outcome.findings if each.code == "AMP504"]
    assert found == [f"{GIVEN}{name}" for name in names]


LAYER = """\
import {0}
from torch import nn


class {1}(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = {0}.{1}(9)
        self.last = nn.Linear(9, 3)

    def forward(self, x):
        return self.last(self.layer(x))
"""
CHOOSING = """\
import sys, torch
from first import Ring
from second import Star

model = {"ring": Ring, "star": Star}[sys.argv[1]]().cuda()
"""


def test_what_nobody_has_read_is_told_in_each_file_that_has_some(tmp_path: Path) -> None:
    (tmp_path / "first.py").write_text(LAYER.format("maps", "Ring"))
    (tmp_path / "second.py").write_text(LAYER.format("maps", "Star"))
    (tmp_path / "train.py").write_text(CHOOSING + EPOCH.format(forward="loss = (model(x) - target).square().mean()"))
    found = [each for each in migrate([tmp_path], Settings()).findings if each.code == "AMP504"]
    assert [(Path(each.path).name, each.line, each.message) for each in found] == [
        ("first.py", 12, f"{MODEL}maps.Ring"),
        ("second.py", 12, f"{MODEL}maps.Star"),
    ]


AGENT = """\
import sys
import torch
from torch import nn


class Agent:
    def __init__(self, path):
        if path is not None:
            self.net = torch.load(path)["net"]
        else:
            self.net = {made}
        self.net.cuda()
        self.optimizer = torch.optim.Adam(self.net.parameters())

    def step(self, x, y):
        loss = (self.net(x) - y).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


agent = Agent(sys.argv[1] if len(sys.argv) > 1 else None)
for x, y in torch.load("batches.pt"):
    agent.step(x.cuda(), y.cuda())
"""
NET = """\
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(9, 3)

    def forward(self, x):
        return self.layer(x)


"""


@pytest.mark.parametrize(("made", "names"), [("Net()", []), ('torch.load("first.pt")', ["torch.load()"])])
def test_what_a_file_gives_in_the_place_of_a_module_is_one_of_its_class(made: str, names: list[str]) -> None:
    plan = migrate_text(NET + AGENT.format(made=made), Settings())
    found = [each.message.rpartition(": ")[2] for each in plan.findings if each.code == "AMP504"]
    assert found == names
