"""A step in which nothing computes in half precision is left, whatever chooses its model, and lies around it."""

from __future__ import annotations

from pathlib import Path

import pytest
from amp_migrate.engine.migrate import migrate
from amp_migrate.settings import Settings

MODELS = """\
import torch
from torch import nn


class Products(nn.Module):
    def __init__(self, entities, relations, size):
        super().__init__()
        self.entities, self.relations = nn.Embedding(entities, size), nn.Embedding(relations, size)

    def forward(self, head, relation, tail):
        return (self.entities(head) * self.relations(relation) * self.entities(tail)).sum(-1)


class Distances(Products):
    def forward(self, head, relation, tail):
        return -(self.entities(head) + self.relations(relation) - self.entities(tail)).norm(p=1, dim=-1)


def chosen(name):
    return globals()[name]
"""
LINEAR = """

class Layers(nn.Module):
    def __init__(self, entities, relations, size):
        super().__init__()
        self.entities, self.last = nn.Embedding(entities, size), nn.Linear(size, 1)

    def forward(self, head, relation, tail):
        return self.last(self.entities(head) * self.entities(tail))
"""
READING = """\
from torch.utils.data import Dataset


class Triples(Dataset):
    def __init__(self, path):
        self.rows = [tuple(map(int, line.split())) for line in open(path)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]
"""
SCRIPT = """\
import argparse
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader
import models
from models import *
from reading import Triples

args = argparse.ArgumentParser().parse_args()
data = Triples(args.path)
print(len(data), data[0])
loader = DataLoader(data, batch_size=10, shuffle=True)
{chosen}
model = kind(100, 10, 32).cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for head, relation, tail, wrong in loader:
    optimizer.zero_grad()
    right = model(head.cuda(), relation.cuda(), tail.cuda())
    loss = F.relu(1 - right + model(head.cuda(), relation.cuda(), wrong.cuda())).mean()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("chosen", "is_left_with_layers"),
    [
        ("kind = {'products': Products, 'distances': Distances}[args.model]", True),
        ("kind = Products if args.model == 'products' else Distances", True),
        ("kind = getattr(models, args.model)", False),
        ("kind = vars(models)[args.model]", False),
        ("kind = models.chosen(args.model)", False),
        ("kind = eval('models.{}'.format(args.model))", False),
    ],
)
@pytest.mark.parametrize("has_layers", [False, True])
def test_embeddings_and_their_products_are_left_whatever_chooses_them(
    tmp_path: Path, chosen: str, is_left_with_layers: bool, has_layers: bool
) -> None:
    (tmp_path / "models.py").write_text(MODELS + LINEAR if has_layers else MODELS)
    (tmp_path / "reading.py").write_text(READING)
    (tmp_path / "train.py").write_text(SCRIPT.format(chosen=chosen))
    found = migrate([tmp_path], Settings()).findings
    (said,) = [each for each in found if each.code in ("AMP501", "AMP590")]
    left = "left as it was: nothing that is trained computes in half precision"
    assert said.message.startswith(left) is (is_left_with_layers or not has_layers)


TRAINER = """\
import torch


class Trainer:
    def __init__(self, model, loader, lr=0.001):
        self.model, self.loader = model.to("cuda"), loader
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=lr)

    def train(self):
        for x, y in self.loader:
            self.optimizer.zero_grad()
            loss = self.model(x.to("cuda"), y.to("cuda"))
            loss.backward()
            self.optimizer.step()
"""
FLOW = """\
import torch
from torch import nn
from trainer import Trainer


class Flow(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 64), nn.SiLU(), nn.Linear(64, 4))

    def forward(self, x, y):
        target = torch.einsum("ij,kj->ki", torch.eye(4, device=x.device) * 500, y - x)
        with torch.amp.autocast("cuda", enabled=False):
            return (self.net(x) - target.float()).square().mean()


Trainer(Flow(), [(torch.randn(8, 4), torch.randn(8, 4)) for _ in range(4)]).train()
"""


@pytest.mark.parametrize("others", [[], ["other.py"]])
def test_a_network_that_switches_autocast_off_is_seen_from_the_script_that_makes_it(
    tmp_path: Path, others: list[str]
) -> None:
    """Of data alone, low precision only rounds. Where another script has another network, the step moves."""
    (tmp_path / "trainer.py").write_text(TRAINER)
    (tmp_path / "flow.py").write_text(FLOW)
    for name in others:
        (tmp_path / name).write_text(FLOW.replace("enabled=False", "dtype=torch.float16"))
    found = migrate([tmp_path], Settings()).findings
    (said,) = [each for each in found if each.path.endswith("trainer.py") and each.code in ("AMP501", "AMP590")]
    assert said.message.startswith("left as it was: nothing that is trained") is (not others)


OPTIMIZING = """\
import torch
import torch.nn.functional as F
from gsplat import rasterization


def get_points(view):
    from depths import create_model

    model = create_model(device="cuda")
    model.eval()
    found = model.infer(view)
    depth = found["depth"].cpu().numpy()
    return depth.reshape(-1, 3)


def optimize(positions, targets, views):
    means = torch.tensor(positions, device="cuda", requires_grad=True)
    colors = torch.zeros(3, device="cuda", requires_grad=True)
    optimizer = torch.optim.Adam([{"params": [means]}, {"params": [colors], "lr": 0.1}])
    for target, view in zip(targets, views):
        images, _ = rasterization(means=means, colors=torch.exp(colors), views=view)
        image = images[0]
        loss = LOSS
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def main(view, targets, views):
    positions = get_points(view)
    optimize(positions, targets, views)
"""


@pytest.mark.parametrize(
    ("loss", "is_left"),
    [
        ("F.l1_loss(image, target)", True),
        ("F.l1_loss(image, target) + 0.1 * (1 - means.exp()).mean()", True),
        ("F.l1_loss(F.conv2d(image, kernel), target)", False),
        ("F.l1_loss(means @ colors, target)", False),
    ],
)
def test_what_gives_a_start_is_no_part_of_what_is_trained(tmp_path: Path, loss: str, is_left: bool) -> None:
    (tmp_path / "train.py").write_text(OPTIMIZING.replace("LOSS", loss))
    told = [each.message for each in migrate([tmp_path], Settings()).findings]
    assert any("nothing that is trained computes in half precision" in each for each in told) is is_left


INHERITING = """\
import torch
import torch.nn.functional as F
import zoo


class Net(zoo.Classifier):
    BODY


def train(loader):
    model = Net().cuda()
    optimizer = torch.optim.Adam(model.parameters())
    for x, y in loader:
        loss = F.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("body", "is_left"),
    [
        ("pass", False),
        ("def __init__(self):\n        super().__init__(3)", False),
        ("def accuracy(self, x, y):\n        return (self(x).argmax(1) == y).sum()", False),
        ("def forward(self, x):\n        return super().forward(x)", False),
        ("def forward(self, x):\n        return x * torch.nn.Parameter(torch.ones(3))", True),
    ],
)
def test_what_a_class_inherits_that_nobody_has_read_may_compute_in_half_precision(
    tmp_path: Path, body: str, is_left: bool
) -> None:
    (tmp_path / "train.py").write_text(INHERITING.replace("BODY", body))
    told = [each.message for each in migrate([tmp_path], Settings()).findings]
    assert any("nothing that is trained computes in half precision" in each for each in told) is is_left


SEEKERS = """\
import torch
from torch import nn


class Seeker:
    places = {}

    def seek(self, x):
        raise NotImplementedError

    def place(self, name):
        return self.places[name]


class Near(Seeker):
    def __init__(self, net):
        self.net = net

    def seek(self, x):
        self.places = {"goal": self.net(x)}


class Far(Near):
    def seek(self, x):
        self.places = {"goal": self.net(self.net(x))}


class Table(nn.Module):
    def __init__(self):
        super().__init__()
        self.rows = nn.Embedding(100, 8)

    def look(self, at):
        return self.rows(at.to("cuda"))


def pretrain(net, loader):
    optimizer = torch.optim.Adam(net.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        loss = (net(x.cuda()) - y.cuda()).abs().mean()
        loss.backward()
        optimizer.step()
    return net
"""
SEEKING = """\
import sys
import torch
from torch import nn
from seekers import Far, Near, Table, pretrain


def train(loader, table, seeker, optimizer):
    for x, at in loader:
        seeker.seek(x.cuda()){inner}
        goal = seeker.place("goal")
        near = table.look(at)
        loss = 1 - torch.exp(torch.cosine_similarity(near, goal, dim=-1)){layers}.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8)).cuda()
loader = torch.load("data.pt")
{before}
kind = {{"near": Near, "far": Far}}[sys.argv[1]]
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
train(loader, Table().cuda(), kind(net), optimizer)
"""
MOVED = ["AMP501", "AMP501"]
JUDGED = """pretrain(net, loader)


def test(loader):
    hits = 0
    for x, at in loader:
        out = net(x.cuda())
        hits += (out.argmax(1) == at.cuda()).sum().item()
    print(hits)


test(loader)
"""


@pytest.mark.parametrize(
    ("blanks", "codes"),
    [
        ({"before": "pretrain(net, loader)"}, ["AMP501", "AMP590"]),
        ({"before": JUDGED}, ["AMP501", "AMP590"]),  # which records gradients that nobody gets
        # What computes in half precision may be for this step's loss.
        ({"inner": "\n        pretrain(seeker.net, [(x, x)])"}, MOVED),
        # And what nobody has read may compute.
        ({"before": "pretrain(net, loader)", "layers": " * loader.weigh(near)"}, MOVED),
        ({"before": "pretrain(net, loader)", "layers": " + near @ near.T"}, MOVED),
    ],
)
def test_a_step_is_left_whose_forward_is_out_of_its_region_though_another_step_has_its_own(
    tmp_path: Path, blanks: dict[str, str], codes: list[str]
) -> None:
    blanks = {"before": "", "inner": "", "layers": "", **blanks}
    (tmp_path / "seekers.py").write_text(SEEKERS)
    (tmp_path / "train.py").write_text(SEEKING.format(**blanks))
    found = migrate([tmp_path], Settings()).findings
    assert sorted(each.code for each in found if each.code in ("AMP501", "AMP590")) == codes
    for each in found:
        if each.code == "AMP590":
            assert "nothing that this step has under autocast computes in half precision" in each.message
            assert each.path.endswith("train.py")
