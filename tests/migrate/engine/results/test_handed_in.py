"""What callers hand to a step is read in them: a model, a criterion, an object that computes the loss."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from amp_migrate.engine.migrate import migrate, migrate_text
from amp_migrate.engine.outcome import Outcome
from amp_migrate.engine.results.importing_scripts import further_scripts, handing_scripts
from amp_migrate.engine.workspace import Workspace
from amp_migrate.settings import Settings

TRAINER = """
class Trainer:
    def __init__(self, actor, optimizer, loader):
        self.actor = actor
        self.optimizer = optimizer
        self.loader = loader

    def train(self):
        self.actor.train(True)
        for data in self.loader:
            loss, stats = self.actor(data)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
"""
ACTORS = """
from torch import nn


class Actor:
    def __init__(self, net):
        self.net = net

    def train(self, mode):
        self.net.train(mode)

    def __call__(self, data):
        x, y = data
        p = self.net(x.cuda()).sigmoid()
        loss = {loss}
        return loss, loss.item()
"""
MAIN = """
import torch
from actors import Actor
from trainer import Trainer


net = torch.nn.Linear(4, 1).cuda()
loader = [(torch.randn(8, 4), torch.rand(8, 1))]
Trainer(Actor(net), torch.optim.AdamW(net.parameters()), loader).train()
"""
ISLAND = "nn.functional.binary_cross_entropy(p, y.cuda())"
NO_ISLAND = "sum(nn.functional.binary_cross_entropy(self.net(each.cuda()).sigmoid(), y.cuda()) for each in (x,))"


def migrated(folder: Path, loss: str, main: str = MAIN, trainer: str = TRAINER) -> Outcome:
    files = {"trainer": trainer, "actors": ACTORS.format(loss=loss), "main": main}
    for name, text in files.items():
        (folder / f"{name}.py").write_text(dedent(text))
    return migrate([folder], Settings())


def changed(outcome: Outcome) -> list[str]:
    return sorted(each.source.path.name for each in outcome.changed)


def test_a_refused_loss_is_kept_in_float32(tmp_path: Path) -> None:
    outcome = migrated(tmp_path, ISLAND)
    after = {each.source.path.name: each.after for each in outcome.changed}
    assert sorted(after) == ["actors.py", "trainer.py"]
    assert 'with torch.amp.autocast(device_type="cuda", enabled=False):' in after["actors.py"]
    assert any(each.message.endswith("autocast refuses it: binary_cross_entropy") for each in outcome.findings)


def test_so_is_that_of_a_step_which_a_package_hands_on(tmp_path: Path) -> None:
    folder = tmp_path / "trainers"
    folder.mkdir()
    (folder / "__init__.py").write_text("from .simple import Trainer\n")
    (folder / "simple.py").write_text(TRAINER)
    (tmp_path / "actors.py").write_text(ACTORS.format(loss=ISLAND))
    (tmp_path / "main.py").write_text(MAIN.replace("from trainer ", "from trainers "))
    assert changed(migrate([tmp_path], Settings())) == ["actors.py", "simple.py"]


def test_a_step_whose_loss_cannot_be_kept_so_is_left_with_all_that_serves_it(tmp_path: Path) -> None:
    outcome = migrated(tmp_path, NO_ISLAND)
    assert changed(outcome) == []
    assert any("autocast refuses it: binary_cross_entropy" in each.message for each in outcome.findings)


@pytest.mark.parametrize("main", [MAIN, MAIN.replace("Actor(net)", "net").replace("from actors import Actor\n", "")])
def test_what_computes_a_good_loss_says_nothing(tmp_path: Path, main: str) -> None:
    outcome = migrated(tmp_path, "nn.functional.mse_loss(p, y.cuda())", main)
    assert changed(outcome) == ["trainer.py"]
    assert [each.code for each in outcome.findings] == ["AMP501"]


def test_nor_does_one_that_is_handed_to_another_step(tmp_path: Path) -> None:
    other = TRAINER.replace("Trainer", "Other")
    (tmp_path / "other.py").write_text(other)
    (tmp_path / "good.py").write_text(ACTORS.format(loss="nn.functional.mse_loss(p, y.cuda())"))
    main = MAIN.replace("import Actor\n", "import Actor\nfrom good import Actor as Good\nfrom other import Other\n")
    main = main.replace(
        "\nTrainer(", "\nOther(Good(net), torch.optim.AdamW(net.parameters()), loader).train()\nTrainer("
    )
    assert changed(migrated(tmp_path, NO_ISLAND, main)) == ["other.py"]


CRITERIONS = """
import torch
from torch import nn


class Trainer:
    def __init__(self, model, criterion, loader):
        self.model = model.cuda()
        self.criterion = criterion
        self.loader = loader
        self.optimizer = torch.optim.Adam(model.parameters())

    def train(self):
        for x, y in self.loader:
            self.optimizer.zero_grad()
            out = self.model(x.cuda())
            loss = self.criterion(out, y.cuda())
            loss.backward()
            self.optimizer.step()
"""
MAIN_OF_MODEL = """
import torch
from torch import nn
from trainer import Trainer


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 1)

    def forward(self, x):
        return torch.sigmoid(self.fc(x))


loader = [(torch.randn(8, 4), torch.rand(8, 1))]
Trainer(Net(), nn.BCELoss(), loader).train()
"""
LAYERS = MAIN_OF_MODEL.replace("Net()", "nn.Sequential(nn.Linear(4, 1), getattr(nn, 'Sigmoid')())")


def test_a_sigmoid_that_is_handed_in_sees_float32_if_its_loss_does(tmp_path: Path) -> None:
    outcome = migrated(tmp_path, ISLAND, MAIN_OF_MODEL, CRITERIONS)
    after = {each.source.path.name: each.after for each in outcome.changed}
    assert "torch.sigmoid(self.fc(x).float())" in after["main.py"]
    assert not [each for each in outcome.findings if each.code == "AMP502"]


@pytest.mark.parametrize(
    ("computed", "file"),
    [("self.criterion(out, y.cuda())", "trainer"), ("weigh(self.criterion, out, y.cuda())", "losses")],
)
def test_one_that_is_a_layer_is_told_where_its_loss_is_computed(tmp_path: Path, computed: str, file: str) -> None:
    (tmp_path / "losses.py").write_text("def weigh(criterion, out, target):\n    return criterion(out, target)\n")
    trainer = CRITERIONS.replace("self.criterion(out, y.cuda())", computed)
    trainer = trainer.replace("import nn\n", "import nn\nfrom losses import weigh\n")
    outcome = migrated(tmp_path, ISLAND, LAYERS, trainer)
    told = [each for each in outcome.findings if each.code == "AMP502"]
    assert [Path(each.path).name for each in told] == [f"{file}.py"]
    assert told[0].message == "criterion() takes probabilities that low precision has rounded"


@pytest.mark.parametrize("criterion", ["nn.BCEWithLogitsLoss()", "nn.MSELoss()"])
def test_a_loss_that_takes_no_logarithm_of_it_says_nothing(tmp_path: Path, criterion: str) -> None:
    outcome = migrated(tmp_path, ISLAND, LAYERS.replace("nn.BCELoss()", criterion), CRITERIONS)
    assert [each.code for each in outcome.findings] == ["AMP501"]


AGAIN = """
    def train_again(self):
        for x, y in self.loader:
            self.optimizer.zero_grad()
            loss = self.criterion(self.model(x.cuda()), y.cuda())
            loss.backward()
            self.optimizer.step()
"""


def test_a_method_that_nobody_calls_has_what_its_object_was_handed(tmp_path: Path) -> None:
    outcome = migrated(tmp_path, ISLAND, LAYERS, CRITERIONS + AGAIN)
    (trainer,) = outcome.changed
    assert trainer.after.endswith(AGAIN)
    (left,) = (each for each in outcome.findings if each.code == "AMP590")
    line = (CRITERIONS + AGAIN).splitlines().index(
        "            loss = self.criterion(self.model(x.cuda()), y.cuda())"
    ) + 1
    assert left.message == f"left as it was: autocast refuses it: binary_cross_entropy (line {line})"


def test_so_has_one_that_its_class_inherits(tmp_path: Path) -> None:
    main = LAYERS.replace("loader = [", "class Mine(Trainer):\n    pass\n\n\nloader = [")
    main = main.replace("Trainer(nn.Seq", "Mine(nn.Seq").replace(".train()", "")
    (trainer,) = migrated(tmp_path, ISLAND, main, CRITERIONS).changed
    assert "loss = self.criterion(out.float(), y.cuda())" in trainer.after


def test_each_of_two_methods_is_left_for_what_it_does_itself(tmp_path: Path) -> None:
    apart = "            loss = self.criterion(self.model(x.cuda()), y.cuda())"
    trainer = CRITERIONS + AGAIN
    trainer = trainer.replace("            out = self.model(x.cuda())\n", "").replace(
        "self.criterion(out,", "self.criterion(self.model(x.cuda()),"
    )
    outcome = migrated(tmp_path, ISLAND, LAYERS, trainer)
    assert changed(outcome) == []
    left = [each for each in outcome.findings if each.code == "AMP590"]
    lines = [number for number, line in enumerate(trainer.splitlines(), 1) if line == apart]
    assert [each.message[-9:] for each in left] == [f"(line {line})" for line in lines]


ENGINES = """
from ignite.engine import Engine


def make_trainer(actor, optimizer):
    def update(engine, data):
        actor.train(True)
        loss, stats = actor(data)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return stats

    return Engine(update)
"""
MAIN_OF_ENGINE = """
import torch
from actors import Actor
from trainer import make_trainer


net = torch.nn.Linear(4, 1).cuda()
loader = [(torch.randn(8, 4), torch.rand(8, 1))]
optimizer = torch.optim.AdamW(net.parameters())
trainer = make_trainer(Actor(net), optimizer)
trainer.run(loader)
"""


def test_a_step_of_a_function_that_goes_out_of_sight_is_read_with_what_its_maker_was_handed(tmp_path: Path) -> None:
    files = {"trainer": ENGINES, "actors": ACTORS.format(loss=ISLAND), "main": MAIN_OF_ENGINE}
    for name, text in files.items():
        (tmp_path / f"{name}.py").write_text(text)
    outcome = migrate([tmp_path], Settings())
    assert changed(outcome) == ["actors.py", "main.py", "trainer.py"]
    assert any(each.message.endswith("autocast refuses it: binary_cross_entropy") for each in outcome.findings)


GOOD = LAYERS.replace("nn.BCELoss()", "nn.BCEWithLogitsLoss()")


@pytest.mark.parametrize("number", [1, 2, 5])
def test_one_of_many_that_hand_in_a_refused_loss_is_read_however_many_there_are(tmp_path: Path, number: int) -> None:
    for each in range(number):
        (tmp_path / f"good_{each}.py").write_text(GOOD)
    outcome = migrated(tmp_path, ISLAND, LAYERS, CRITERIONS)
    (trainer,) = outcome.changed
    assert "loss = self.criterion(out.float(), y.cuda())" in trainer.after


def test_so_is_one_whose_criterion_is_of_another_file(tmp_path: Path) -> None:
    for each in range(3):
        (tmp_path / f"good_{each}.py").write_text(GOOD)
    (tmp_path / "losses.py").write_text("from torch import nn\n\n\ndef loss():\n    return nn.BCELoss()\n")
    main = LAYERS.replace("nn.BCELoss()", "losses.loss()").replace("import torch\n", "import losses\nimport torch\n", 1)
    (trainer,) = migrated(tmp_path, ISLAND, main, CRITERIONS).changed
    assert "loss = self.criterion(out.float(), y.cuda())" in trainer.after


def test_those_that_bring_nothing_new_are_not_read(tmp_path: Path) -> None:
    for each in range(5):
        (tmp_path / f"good_{each}.py").write_text(GOOD)
    (tmp_path / "trainer.py").write_text(CRITERIONS)
    (tmp_path / "more.py").write_text(LAYERS)
    workspace = Workspace.open([tmp_path])
    names = handing_scripts(workspace, (tmp_path / "trainer.py").as_posix())
    assert [Path(each).name for each in names] == ["good_0.py", "good_1.py", "more.py"]


NETWORKS = """
import kernels
import torch
from torch import nn


class Fire(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return kernels.fire(x)

    @staticmethod
    def backward(ctx, gradient):
        return gradient


"""
NETWORK = """
class {name}(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, {size})

    def forward(self, x):
        return {fired}


"""
FIRED = "Fire.apply(self.fc(x))"
MAIN_OF_NETWORK = """
import torch
from torch import nn
from networks import {name}
from trainer import Trainer

loader = [(torch.randn(8, 4), torch.rand(8, 1))]
Trainer({made}, nn.MSELoss(), loader).train()
"""


def _with_networks(folder: Path, *fired: str) -> Outcome:
    names = [f"Net{index}" for index in range(len(fired))]
    networks = (NETWORK.format(name=each, size=1, fired=one) for each, one in zip(names, fired, strict=True))
    (folder / "networks.py").write_text(NETWORKS + "".join(networks))
    (folder / "trainer.py").write_text(CRITERIONS)
    for each in names:
        (folder / f"train_{each}.py").write_text(MAIN_OF_NETWORK.format(name=each, made=f"{each}()"))
    return migrate([folder], Settings())


@pytest.mark.parametrize("number", [1, 2, 3, 5])
def test_each_of_several_networks_is_mended_as_the_first_is(tmp_path: Path, number: int) -> None:
    outcome = _with_networks(tmp_path, *[FIRED] * number)
    (networks,) = (each.after for each in outcome.changed if each.source.path.name == "networks.py")
    assert networks.count("Fire.apply(self.fc(x).float())") == number


def test_one_that_is_not_mended_is_told_of_beside_those_that_are(tmp_path: Path) -> None:
    outcome = _with_networks(tmp_path, FIRED, FIRED, f"{FIRED}  # amp-migrate: ignore")
    (networks,) = (each.after for each in outcome.changed if each.source.path.name == "networks.py")
    assert networks.count("Fire.apply(self.fc(x).float())") == 2
    assert [each for each in outcome.findings if "gets a half-precision value" in each.message]


def test_others_are_read_that_name_a_network_of_their_own_or_a_function_that_makes_it(tmp_path: Path) -> None:
    (tmp_path / "trainer.py").write_text(CRITERIONS)
    (tmp_path / "networks.py").write_text("class A:\n    pass\n\n\ndef small():\n    return A()\n")
    own = "\n\ndef main():\n    pass\n\n\nclass B:\n    pass\n"
    for name, made, more in [("a", "A", ""), ("b", "A", own), ("c", "A", own), ("d", "A", ""), ("e", "small", "")]:
        (tmp_path / f"{name}.py").write_text(MAIN_OF_NETWORK.format(name=made, made=f"{made}()") + more)
    workspace = Workspace.open([tmp_path])
    known = [(tmp_path / f"{each}.py").as_posix() for each in "ab"]
    names = further_scripts(workspace, (tmp_path / "trainer.py").as_posix(), known)
    assert [Path(each).stem for each in names] == ["c", "e"]


EVALUATES = """
import torch
from torch import nn
from ignite.engine import Engine
from ignite.metrics import Loss
from transformers import GPT2Config, GPT2DoubleHeadsModel


def main(data):
    model = GPT2DoubleHeadsModel(GPT2Config()).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss()
    for ids, labels in data:
        loss = criterion(model(ids.cuda())[1], labels.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    def inference(engine, batch):
        ids, labels = batch
        with torch.no_grad():
            outputs = model(ids.cuda())
            flat = outputs[0][:, :-1].contiguous()
            return (flat, outputs[1]), ids.cuda()

    evaluator = Engine(inference)
    Loss(criterion, output_transform=lambda x: (x[0][1], x[1])).attach(evaluator, "nll")
    evaluator.run(data)


main(torch.load("batches.pt"))
"""


def test_what_an_unread_model_gives_is_float32_for_unread_code_that_runs_a_function() -> None:
    after = migrate_text(EVALUATES, Settings()).after
    assert "return (flat.float(), outputs[1].float()), ids.cuda()" in after
