"""A script that names no device but the CPU is for the CPU, whatever else it reads and prints."""

from __future__ import annotations

from pathlib import Path

import pytest
from amp_migrate.engine.migrate import migrate, migrate_text
from amp_migrate.settings import Settings

SWEEP = """\
from enum import Enum

import torch
from torch import nn


class Method(Enum):
    PLAIN = "plain"
    DEEP = "deep"


class Trainer:
    def __init__(self, method):
        self.method = method
        self.model = nn.Linear(8, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def train(self, x, y):
        self.optimizer.zero_grad()
        loss = nn.functional.mse_loss(self.model(x), y)
        loss.backward()
        self.optimizer.step()

    def run(self):
        try:
            print(f"method {METHOD}")
            self.train(torch.randn(4, 8), torch.randn(4, 1))
        except RuntimeError:
            pass


for each in Method:
    Trainer(each).run()
"""
DATA = """\
import json

import torch
import yaml
from torch import nn

with open("config") as file:
    config = READ

model = nn.Sequential(*(nn.Linear(each, each) for each in config["layers"]))
optimizer = getattr(torch.optim, config["name"])(model.parameters(), **config["optimizer"])
for _ in range(config["steps"]):
    x, y = torch.randn(16, 8), torch.randn(16, 8)
    out = model(x)
    loss = nn.functional.mse_loss(out, y) + config["alpha"] * out.abs().mean()
    for name, weight in config.get("more", {}).items():
        loss = loss + weight * out.mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
MOVED_THERE = """\
import torch
from torch import nn


class Trainer:
    def __init__(self, model, lr, where):
        self.device = torch.device("cpu")
        self.model = model.to(self.device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=lr)

    def epoch(self, loader):
        for x, y in loader:
            self.optimizer.zero_grad()
            loss = nn.functional.mse_loss(self.model(x.to(self.device)), y.to(self.device))
            loss.backward()
            self.optimizer.step()
"""


def is_left(text: str) -> bool:
    """Whether a step is left because it is on the CPU; else it is moved."""
    plan = migrate_text(text, Settings())
    is_told = ["everything is on the CPU" in each.message for each in plan.findings] == [True]
    assert is_told is (plan.after == text)
    return is_told


@pytest.mark.parametrize("method", ["self.method.value.upper()", "self.method.name.lower()", "type(self).__name__"])
def test_what_is_asked_of_a_member_ends_nothing(method: str) -> None:
    text = SWEEP.replace("METHOD", method)
    assert is_left(text)
    assert not is_left(text.replace("nn.Linear(8, 1)", "nn.Linear(8, 1).cuda()").replace("4, 8)", "4, 8).cuda()"))


@pytest.mark.parametrize(
    "read", ["json.load(file)", "json.loads(file.read())", "yaml.safe_load(file)", "yaml.load(file, yaml.FullLoader)"]
)
def test_what_a_file_of_data_says_is_on_no_device(read: str) -> None:
    assert is_left(DATA.replace("READ", read))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("READ", "json.load(file, object_hook=lib.read)"),
        ("READ", "yaml.load(file, lib.Loader)"),
        ("READ", "lib.read(file)"),
        ("x, y = torch.randn(16, 8), ", "x, y = torch.randn(16, 8).to(config['device']), "),
        ("for each in config['layers']))", "for each in config['layers'])).to(config['device'])"),
    ],
)
def test_what_it_names_may_be_a_device(old: str, new: str) -> None:
    text = "import lib\n" + DATA.replace('"', "'").replace(old, new).replace("READ", "json.load(file)")
    assert not is_left(text)


@pytest.mark.parametrize(
    ("where", "told"), [('torch.device("cpu")', True), ('"cpu"', True), ("where", False), ('"cuda"', False)]
)
def test_a_model_that_is_handed_in_is_where_it_is_moved_to(where: str, told: bool) -> None:
    assert is_left(MOVED_THERE.replace('torch.device("cpu")', where)) is told


@pytest.mark.parametrize(
    ("kind", "is_on_cpu"),
    [
        ("torch.cuda.FloatTensor", False),
        ('"torch.cuda.FloatTensor"', False),
        ("torch.cuda.FloatTensor if torch.cuda.is_available() else torch.FloatTensor", False),
        ("torch.FloatTensor", True),
        ("torch.float32", True),
    ],
)
def test_a_type_of_tensors_says_where_they_are(kind: str, is_on_cpu: bool) -> None:
    text = f"""\
import torch
from torch import nn

kind = {kind}
actor = nn.Linear(4, 2).type(kind)
optimizer = torch.optim.Adam(actor.parameters())
for epoch in range(10):
    states = torch.rand(32, 4)
    loss = actor(states.type(kind)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    assert is_left(text) is is_on_cpu


@pytest.mark.parametrize(
    ("made", "loss", "is_on_cpu"),
    [
        ("nn.Linear(8, 1)", "lib.emphasized(net(x), 0.95).pow(2).mean()", True),
        ("nn.Linear(8, 1)", "lib.losses.far(net(x), y=x)", True),
        ("nn.Linear(8, 1)", "net(lib.prepared(x)).pow(2).mean()", True),
        ("nn.Linear(8, 1)", "own.step(net(x))", True),
        ("nn.Linear(8, 1).cuda()", "lib.emphasized(net(x.cuda()), 0.95).pow(2).mean()", False),
    ],
)
def test_a_function_brings_no_model_to_a_gpu(made: str, loss: str, is_on_cpu: bool) -> None:
    text = f"""\
import lib
import torch
from torch import nn

net, own = {made}, lib.Model(16)
optimizer = torch.optim.Adam(net.parameters())
for step in range(10):
    x = torch.rand(32, 8)
    loss = {loss}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    assert is_left(text) is is_on_cpu


BATCHES = """\
import lib
import pandas
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

table = pandas.read_csv("table.csv")
users, ratings = torch.tensor(table["user"].values), torch.tensor(table["rating"].values, dtype=torch.float32)
loader = {loader}


def train(model):
    optimizer = torch.optim.Adam(model.parameters())
    for {batch} in loader:
        {taken}
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(user), rating)
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("loader", "batch", "taken"),
    [
        ("DataLoader(TensorDataset(users, ratings), batch_size=64, shuffle=True)", "user, rating", "pass"),
        ("DataLoader(TensorDataset(users, ratings), 64, pin_memory=True)", "batch", "user, rating = batch"),
        ("DataLoader(dataset=TensorDataset(users, ratings))", "batch", "user, rating = batch[0], batch[1]"),
    ],
)
def test_batches_of_tensors_that_are_made_of_arrays_are_on_it(loader: str, batch: str, taken: str) -> None:
    assert is_left(BATCHES.format(loader=loader, batch=batch, taken=taken))


@pytest.mark.parametrize(
    ("loader", "taken"),
    [
        ("DataLoader(TensorDataset(users, ratings), collate_fn=lib.collate)", "pass"),
        ("DataLoader(TensorDataset(users, ratings), batch_size=None)", "pass"),
        ("DataLoader(TensorDataset(*lib.tensors))", "pass"),
        ("DataLoader(TensorDataset(users, ratings), **lib.options)", "pass"),
        ("DataLoader(lib.data(users, ratings))", "pass"),
        ("lib.DataLoader(TensorDataset(users, ratings))", "pass"),
        ("DataLoader(TensorDataset(users, ratings))", "user, rating = lib.moved(user), lib.moved(rating)"),
        ("DataLoader(TensorDataset(users.cuda(), ratings.cuda()))", "model = model.cuda()"),
    ],
)
def test_other_batches_may_be_elsewhere(loader: str, taken: str) -> None:
    assert not is_left(BATCHES.format(loader=loader, batch="user, rating", taken=taken))


BESIDE_A_GPU = """\
import torch
from torch import nn

features = nn.Linear(4, 4).cuda()
device = "cpu"
policy = nn.Linear(4, 2){to}
optimizer = torch.optim.Adam(policy.parameters())
for episode in range(4):
    loss = policy(torch.rand(8, 4){given}).pow(2).mean(){loss}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(features(torch.rand(8, 4).cuda()))
{behind}
"""


@pytest.mark.parametrize(
    ("to", "given", "loss", "behind", "is_on_cpu"),
    [
        (".to(device)", ".to(device)", "", "", True),
        (".to(device)", ".to(device)", "", "policy.cuda()", False),  # which may be where it has been, too
        ("", "", "", "", False),
        (".cuda()", ".cuda()", ".cpu()", "", False),
        (".cuda()", ".cuda()", ".cpu()", "policy.cpu()", False),
    ],
)
def test_a_model_may_be_on_the_cpu_beside_another_on_a_gpu(
    to: str, given: str, loss: str, behind: str, is_on_cpu: bool
) -> None:
    assert is_left(BESIDE_A_GPU.format(to=to, given=given, loss=loss, behind=behind)) is is_on_cpu


SAMPLED = """\
import torch
from torch import nn


class Flow(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(2, 2)

    def forward(self, x):
        return self.net(x)

    def sample(self, count, device=None):
        if device is None:
            device = WHERE
        return self.net(MADE)


model = Flow()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(10):
    optimizer.zero_grad()
    loss = (model(torch.randn(16, 2)) ** 2).mean()
    loss.backward()
    optimizer.step()
with torch.no_grad():
    print(model.sample(10))
"""


@pytest.mark.parametrize(
    "made",
    ["torch.randn(count, 2, device=device)", "torch.randn(count, 2).to(device)", "torch.ones(2).to(self.net.weight)"],
)
@pytest.mark.parametrize("where", ["next(self.parameters()).device", "torch.device(self.net.weight.device)"])
def test_where_the_weights_are_is_no_other_device(made: str, where: str) -> None:
    text = SAMPLED.replace("WHERE", where).replace("MADE", made)
    assert is_left(text)
    assert not is_left(text.replace("nn.Linear(2, 2)", "nn.Linear(2, 2).cuda()"))
    assert not is_left(text.replace("model = Flow()", "model = Flow().to(input())"))


def test_a_device_that_is_given_beside_that_of_the_weights_is_one() -> None:
    text = SAMPLED.replace("WHERE", "next(self.parameters()).device").replace(
        "MADE", "torch.randn(count, 2, device=device)"
    )
    assert not is_left(text.replace("sample(10)", 'sample(10, "cuda")'))
    assert not is_left(text.replace("sample(10)", "sample(10, input())"))


BESIDE_A_DEVICE = """\
import torch
from torch import nn
from torch_geometric.data import Data


def zero_index(pos):
    return torch.tensor([0], device=pos.device)


device = torch.device("cpu")
data_set = [Data(x=torch.zeros(4, 6), pos=torch.zeros(4, 3))] * 8
model = nn.Linear(6, 3){to}
optimizer = torch.optim.Adam(model.parameters())
criterion = nn.MSELoss()
for data in data_set:
    optimizer.zero_grad()
    data = data.to(device)
    loss = criterion(model(data.x){loss}, data.pos)
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("to", "loss", "is_on_cpu"),
    [
        (".to(device)", "", True),
        (".to(device).to(input())", "", False),
        (".cuda()", ".cpu()", False),
        (".to(device)", ".cuda()", False),
    ],
)
def test_where_something_else_is_names_no_device_for_what_is_moved_to_the_cpu(
    to: str, loss: str, is_on_cpu: bool
) -> None:
    assert is_left(BESIDE_A_DEVICE.format(to=to, loss=loss)) is is_on_cpu


_STEPS = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
from data import Data{more}


class Training:
    def __init__(self):
        self.model = nn.Conv2d(1, 1, 3, padding=1)
        self.optimizer = torch.optim.Adam(self.model.parameters())

    def epoch(self):
        for x, y in DataLoader(Data({given}), batch_size=4):
            self.optimizer.zero_grad()
            loss = nn.functional.mse_loss(self.model(x), y)
            loss.backward()
            self.optimizer.step()
"""
_DATA = """\
import numpy as np
import torch
from torch.utils.data import Dataset{more}


class Data(Dataset):
    def __init__(self, change=None):
        self.change = change

    def __len__(self):
        return 8

    def __getitem__(self, i):
        a = np.ones((1, 8, 8))
        return torch.tensor(a, dtype=torch.float32), {gives}
"""
_GIVES = "torch.from_numpy(a).to(torch.float32)"


def _with_data(folder: Path, gives: str = _GIVES, given: str = "", more: str = "", of_data: str = "") -> list[str]:
    (folder / "train.py").write_text(_STEPS.format(given=given, more=more))
    (folder / "data.py").write_text(_DATA.format(gives=gives, more=of_data))
    (folder / "where.py").write_text("def there(x):\n    return x.cuda()\n\n\nPLACE = 0\n")
    return [each.source.path.name for each in migrate([folder], Settings()).changed]


def test_a_data_set_of_another_file_without_a_word_for_a_device_is_on_the_cpu(tmp_path: Path) -> None:
    assert _with_data(tmp_path) == []


@pytest.mark.parametrize(
    "words",
    [
        {"gives": "self.change(torch.from_numpy(a))", "given": "lambda x: x.cuda()"},
        {"gives": "self.change(torch.from_numpy(a))", "given": "there", "more": "\nfrom where import there"},
        {"gives": "there(torch.from_numpy(a))", "of_data": "\nfrom where import there"},
        {"gives": "torch.from_numpy(a).to(PLACE)", "of_data": "\n\nPLACE = 0"},
        {"gives": 'getattr(torch.from_numpy(a), "cuda")()'},
    ],
)
def test_one_that_may_bring_something_to_a_device_shows_nothing(words: dict[str, str], tmp_path: Path) -> None:
    assert _with_data(tmp_path, **words) == ["train.py"]


_LOADED = """\
import torch


def load(n, device{default}):
    return Points(n, device=device)


class Points(torch.utils.data.Dataset):
    def __init__(self, n, device="cpu"):
        self.x = torch.zeros(n, 1, 8, 8, device={device})

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.x[i]
"""


@pytest.mark.parametrize(
    ("data", "default", "device", "changed"),
    [
        ("load(32)", "='cpu'", "device", []),
        ("load(32, 'cpu')", "", "device", []),
        ("load(32, torch.device('cpu'))", "=None", "device", []),
        ("Points(32)", "", "device", []),
        ("load(32, 'cuda')", "='cpu'", "device", ["train.py"]),
        ("load(32)", "=open('device').read()", "device", ["train.py"]),
        ("load(32)", "='cpu'", "'cuda'", ["train.py"]),
        ("load(32)", "='cpu'", "open(device).read()", ["train.py"]),
    ],
)
def test_a_data_set_that_is_told_the_cpu_makes_its_data_there(
    data: str, default: str, device: str, changed: list[str], tmp_path: Path
) -> None:
    steps = _STEPS.format(given="", more="").replace("Data()", data).replace("import Data\n", "import Points, load\n")
    (tmp_path / "train.py").write_text(steps)
    (tmp_path / "data.py").write_text(_LOADED.format(default=default, device=device))
    assert [each.source.path.name for each in migrate([tmp_path], Settings()).changed] == changed


_MOVED = """\
import torch
from torch import nn
from data import load


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.scale = nn.Parameter(torch.FloatTensor(3))

    def forward(self, x):
        return self.layer(x) * self.scale


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
device = {device}
model = Scaled(){to}
optimizer = torch.optim.Adam(model.parameters())
for x, y in load():
    x, y = x.to(device), y.to(device)
    optimizer.zero_grad()
    loss = (model(x) - y).square().mean()
    loss.backward()
    optimizer.step()
"""
_POINTS = """\
import torch
from torch.utils.data import DataLoader, Dataset


class Points(Dataset):
    def __len__(self):
        return 3

    def __getitem__(self, i):
        return torch.zeros(3){to}, torch.zeros(3)


def load():
    return DataLoader(Points())
"""


@pytest.mark.parametrize(
    ("device", "to", "of_data", "changed"),
    [
        ('"cpu"', ".to(device)", "", []),
        ('torch.device("cpu")', ".to(device)", ".float()", []),
        ('"cpu"', "", "", ["train.py"]),
        ('open("device").read()', ".to(device)", "", ["train.py"]),
        ("device", ".to(device)", "", ["train.py"]),
    ],
)
def test_a_model_that_is_moved_to_the_cpu_is_there_whoever_gives_its_batches(
    device: str, to: str, of_data: str, changed: list[str], tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(_MOVED.format(device=device, to=to))
    (tmp_path / "data.py").write_text(_POINTS.format(to=of_data))
    assert [each.source.path.name for each in migrate([tmp_path], Settings()).changed] == changed


def test_a_parameter_that_comes_to_it_later_may_be_elsewhere(tmp_path: Path) -> None:
    later = '.to("cpu")\nmodel.shift = nn.Parameter(torch.zeros(3, device="cuda"))'
    text = _MOVED.format(device='"cpu"', to=later).replace("* self.scale", "* self.scale + self.shift.to(x.device)")
    (tmp_path / "train.py").write_text(text)
    (tmp_path / "data.py").write_text(_POINTS.format(to=""))
    assert [each.source.path.name for each in migrate([tmp_path], Settings()).changed] == ["train.py"]


@pytest.mark.parametrize(("moved", "told"), [('.to("cpu")', True), (".cpu()", True), ("", False), (".cuda()", False)])
def test_a_part_that_nobody_has_read_is_where_its_model_is_moved_to(moved: str, told: bool) -> None:
    text = f"""\
import lib
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.more = nn.Linear(8, 1), lib.Layer(8)

    def forward(self, x):
        return self.first(x)


net = Net(){moved}
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
print(torch.zeros(2, device=lib.device()))
for x, y in [(torch.zeros(2, 8), torch.zeros(2, 1))]:
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(net(x), y)
    loss.backward()
    optimizer.step()
"""
    assert is_left(text) is told


MADE_HERE = """\
import lib
import torch
{imported}
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.layer = nn.Embedding(8, 4), {layer}
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x):
        return self.layer(self.first(x)) * self.scale

    def sample(self, x):
        return self(x.to(next(self.parameters()).device))


class Derived(lib.Model):
    pass


def fit(loader, options):
    model = {model}
    optimizer = torch.optim.Adam(model.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
    return model
"""
MODELS = [
    ("nn.Linear(4, 1)", "Net()"),
    ("lib.Linear(4, 1)", "Net()"),
    ("nn.Linear(4, 1)", "lib.Model.from_pretrained('small')"),
    ("nn.Linear(4, 1)", "lib.Model(4, device='cpu', use_cuda=False)"),
    ("nn.Linear(4, 1)", "Derived(4)"),
]


def made_here(layer: str, model: str, imported: str = "") -> str:
    """A program that makes its own model, and gets its batches."""
    return MADE_HERE.format(layer=layer, model=model, imported=imported)


@pytest.mark.parametrize(("layer", "model"), MODELS)
def test_what_is_made_is_on_the_cpu_where_nothing_names_another_place(layer: str, model: str) -> None:
    assert is_left(made_here(layer, model))


@pytest.mark.parametrize(("layer", "model"), MODELS)
@pytest.mark.parametrize(
    "more",
    [
        "",
        "model.to(options.device)",
        "model.cuda()",
        "model.to(lib.device)",
        "model.to(device=lib.device())",
        "model.to(*options)",
        "model.to(**options.where)",
        "for each in [model]:\n        each.to(options)",
        "model = nn.DataParallel(model)",
        "model = nn.Sequential(model, nn.Linear(1, 1, device=options.device))",
        "torch.set_default_device(options.device)",
        "lib.place(model, device=options.where)",
        "lib.place(model, 'cuda')",
        "lib.place(model)",
        "loader = lib.moved(loader, use_cuda=options.cuda)",
    ],
)
def test_it_may_be_elsewhere_where_one_is_named(layer: str, model: str, more: str) -> None:
    text = made_here(layer, model)
    assert is_left(text.replace("    optimizer =", f"    {more}\n    optimizer =", 1)) is (not more)


@pytest.mark.parametrize(
    "imported",
    [
        "from accelerate import Accelerator",
        "import lightning.pytorch as pl",
        "from transformers import BertModel, Trainer",
        "import ignite.engine",
    ],
)
def test_it_may_be_elsewhere_where_a_package_looks_for_a_place(imported: str) -> None:
    assert not is_left(made_here("nn.Linear(4, 1)", "Net()", imported))
    assert not is_left(made_here("nn.Linear(4, 1)", "lib.Model(4)", imported))
    assert is_left(made_here("nn.Linear(4, 1)", "Net()", "from transformers import BertModel"))


@pytest.mark.parametrize(
    "model",
    [
        "torch.load('model.pt')",  # where it was saved
        "lib.Model(4, device=options)",
        "lib.Model.from_pretrained('small', device_map='auto')",
        "lib.Model(**options)",
        "lib.Model(4).to(lib.device())",
        "hydra.utils.instantiate(options.model)",
        "lib.placed(Net())",
        "options.model",
    ],
)
def test_a_model_may_be_made_elsewhere(model: str) -> None:
    assert not is_left(made_here("nn.Linear(4, 1)", model, "import hydra"))


_OF_ITS_OWN = """\
import torch
from torch import nn


class Net({base}):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)
        self.optimizer = torch.optim.Adam(self.layer.parameters())

    def fit(self, loader):
        for x, y in loader:
            self.optimizer.zero_grad()
            loss = nn.functional.mse_loss(self.layer(x), y)
            loss.backward()
            self.optimizer.step()
"""
_FITTING = """\
import torch
from net import Net

loader = [(torch.zeros(8, 4){given}, torch.zeros(8, 1){given})] * 4
net = Net()
{moved}
net.fit(loader)
"""


@pytest.mark.parametrize(("base", "moved"), [("nn.Module", "net.cuda()"), ("object", "net.layer.to('cuda')")])
def test_what_makes_an_object_of_another_file_may_move_it(base: str, moved: str, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(_OF_ITS_OWN.format(base=base))
    assert [each.source.path.name for each in migrate([tmp_path], Settings()).changed] == ["net.py"]
    (tmp_path / "main.py").write_text(_FITTING.format(given=".cuda()", moved=moved))
    assert [each.source.path.name for each in migrate([tmp_path], Settings()).changed] == ["net.py"]
    (tmp_path / "main.py").write_text(_FITTING.format(given="", moved=""))
    assert not migrate([tmp_path], Settings()).changed


EVALUATED = """\
import torch
from sklearn.metrics import roc_auc_score
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = GCNConv(8, 8)

    def encode(self, x, edges):
        return self.layer(x, edges)

    def decode(self, z, edges):
        return (z[edges[0]] * z[edges[1]]).sum(-1)


def train(model, data, optimizer):
    optimizer.zero_grad()
    out = model.decode(model.encode(data.x, data.edge_index), data.edge_index)
    loss = nn.functional.binary_cross_entropy_with_logits(out, torch.ones(20))
    loss.backward()
    optimizer.step()


@torch.no_grad()
def evaluate(model, data):
    z = model.encode(data.x, data.edge_index)
    found = model.decode(z, data.edge_index).sigmoid()
    return roc_auc_score(torch.ones_like(found).cpu().numpy(), found.cpu().numpy())


if __name__ == "__main__":
    data = Data(x=torch.eye(8), edge_index=torch.randint(0, 8, (2, 20)))
    model = Net()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(4):
        train(model, data, optimizer)
        print(evaluate(model, data))
"""


def test_a_step_there_is_left_though_its_casts_show_what_is_to_be_evaluated_in_float32() -> None:
    assert is_left(EVALUATED)


ELSEWHERE = """\
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Args:
    device: str = "cpu"


args = Args()
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
x, y = torch.randn(32, 4).to(PLACE), torch.randn(32, 1).to(PLACE)
model = nn.Linear(4, 1).to(device)
optimizer = torch.optim.Adam(model.parameters())
for epoch in range(3):
    optimizer.zero_grad()
    loss = (model(x) - y).square().mean()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(("place", "is_told"), [("args.device", True), ("device", False)])
def test_data_on_the_cpu_beside_a_model_that_may_be_elsewhere_are_told_of(place: str, is_told: bool) -> None:
    text = ELSEWHERE.replace("PLACE", place)
    plan = migrate_text(text, Settings())
    assert "scaler.step(optimizer)" in plan.after
    line = text.splitlines().index("    loss = (model(x) - y).square().mean()") + 1
    told = [(each.line, "meet here what is on the CPU" in each.message) for each in plan.findings]
    assert ((line, True) in told) is is_told
    again = migrate_text(plan.after, Settings())
    assert ("AMP634" in {each.code for each in again.findings}) is is_told


def test_a_model_that_is_chosen_from_many_is_where_all_of_them_are() -> None:
    names = range(10)
    classes = "\n".join(
        f"class Net{each}(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        f"        self.layers = nn.ModuleList([Conv({each}, 1), Conv(1, 2), Conv(2, 3)])\n"
        "    def forward(self, x):\n        for each in self.layers:\n            x = each(x)\n        return x\n"
        for each in names
    )
    entries = ", ".join(f"'{each}': Net{each}" for each in names)
    text = (
        f"import sys\n\nimport torch\nfrom graphs import Conv\nfrom torch import nn\n\n{classes}\n"
        f"kinds = {{{entries}}}\nnet = kinds[sys.argv[1]]()\n"
        "optimizer = torch.optim.Adam(net.parameters())\nfor x in torch.load('batches.pt'):\n"
        "    loss = net(x).mean()\n    optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()\n"
    )
    assert is_left(text)
    assert not is_left(text.replace("kinds[sys.argv[1]]()", "kinds[sys.argv[1]]().cuda()"))


SWITCHED = """\
import argparse
import os
import torch
from torch import nn

args = argparse.ArgumentParser().parse_args()
SWITCH
net = nn.Linear(4, 1)
if TEST:
    net = net.cuda()
optimizer = torch.optim.Adam(net.parameters())
for _ in range(10):
    x = torch.randn(16, 4)
    x = x.cuda() if TEST else x
    loss = net(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("switch", "test", "told"),
    [
        ("on_gpu = False", "on_gpu", True),
        ("gpu = -1", "gpu >= 0", True),
        ("on_gpu = not True", "on_gpu and torch.cuda.is_available()", True),
        ("on_gpu = True", "on_gpu", False),
        ("on_gpu = args.gpu", "on_gpu", False),
        ("on_gpu = False\nif args.gpu:\n    on_gpu = True", "on_gpu", False),
        ("on_gpu = torch.cuda.is_available()", "on_gpu", False),
        ("on_gpu = False\nmore = torch.zeros(3).cuda()", "on_gpu", False),
        ("on_gpu = False\nmore = nn.Linear(4, 1).to(os.environ['DEVICE'])", "on_gpu", False),
    ],
)
def test_a_switch_that_is_off_as_it_is_written_brings_nothing_to_a_gpu(switch: str, test: str, told: bool) -> None:
    assert is_left(SWITCHED.replace("SWITCH", switch).replace("TEST", test)) is told
