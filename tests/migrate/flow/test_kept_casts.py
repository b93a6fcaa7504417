"""Casts that a region keeps of layers that a list holds: each of them is taken once, or some are taken twice."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import indent
from typing import Any

import pytest
from amp_migrate.flow.analysis import analysed
from amp_migrate.flow.events import Act

from .conftest import HEAD, Texts, Told
from .moved_texts import migrated

Tell = Callable[..., Any]
LAYERS = ("nn.Linear(8, 8) for _ in range(12)", "Block() for _ in range(12)", "nn.Linear(8, 8), Block(), Block()")
NET = """\
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 8)

    def forward(self, x):
        return self.a(x)


class Net(nn.Module):
    def __init__(self, frozen):
        super().__init__()
        self.frozen = frozen
        self.layers = {made}

    def forward(self, x):
{body}
        return x


model = Net(3).cuda()
out = model(torch.randn(4, 8).cuda())  # region
"""
ONE_LOOP = """
for i, layer in enumerate(self.layers):
    if i < self.frozen:
        with torch.no_grad():
            x = layer(x)
    else:
        x = layer(x)
"""
BY_INDEX = """
for i in range(len(self.layers)):
    if i < self.frozen:
        with torch.no_grad():
            x = self.layers[i](x)
        continue
    x = self.layers[i](x)
"""
TWO_LOOPS = """
with torch.no_grad():
    for layer in self.layers[:{}]:
        x = layer(x)
for layer in self.layers[{}:]:
    x = layer(x)
"""
TWO_RANGES = """
with torch.no_grad():
    for i in range(self.frozen):
        x = self.layers[i](x)
for i in range(self.frozen, 12):
    x = self.layers[i](x)
"""
FROM_A_NUMBER = """
start = 0
for i in range(start, self.frozen):
    with torch.no_grad():
        x = self.layers[i](x)
        start = self.frozen
for i in range(start, 12):
    x = self.layers[i](x)
"""
BY_SECTIONS = """
start = 0
for end in (4, 8):
    assert self.frozen <= end
    for i in range(start, self.frozen):
        with torch.no_grad():
            x = self.layers[i](x)
            start = self.frozen
    for i in range(start, end):
        x = self.layers[i](x)
    start = end
for i in range(start, 12):
    x = self.layers[i](x)
"""
OVER_ALL = """
for layer in self.layers:
    x = layer(x)
"""
FIRST_ONE_OF_ALL = """
for layer in self.layers:
    with torch.no_grad():
        y = layer(x)
    break
"""


def net(body: str, layers: str, made: str = "nn.ModuleList([{}])") -> str:
    return migrated(NET.format(made=made.format(layers), body=indent(body.strip("\n"), " " * 8)))


@pytest.mark.parametrize("layers", LAYERS)
@pytest.mark.parametrize(
    "body",
    [
        ONE_LOOP,
        BY_INDEX,
        TWO_LOOPS.format("self.frozen", "self.frozen"),
        TWO_LOOPS.format("3", "3"),
        TWO_LOOPS.format("2", "4"),
        TWO_RANGES,
        FROM_A_NUMBER,
        FROM_A_NUMBER.replace("range(start, 12):\n    x = self.layers[i](x)", "self.layers[start:]:\n    x = i(x)"),
        BY_SECTIONS,
        BY_SECTIONS.replace("self.frozen <= end", "end >= self.frozen"),
        f"k = self.frozen{TWO_LOOPS.format('k', 'k')}",
        ONE_LOOP.replace("enumerate(self.layers)", "enumerate(self.layers, 1)"),
        ONE_LOOP.replace("i, layer in enumerate(self.layers)", "i, layer in self.layers.named_children()"),
        ONE_LOOP.replace("(i, layer)", "(i, (layer, y))").replace(
            "enumerate(self.layers)", "zip(range(9), self.layers)"
        ),
    ],
)
def test_of_layers_that_are_taken_once_none_is_used_with_a_cast_that_was_kept(
    told: Tell, layers: str, body: str
) -> None:
    assert told(net(body, layers)).lines(Act.WEIGHT_CAST) == []


@pytest.mark.parametrize("layers", LAYERS)
@pytest.mark.parametrize(
    "body",
    [
        "with torch.no_grad():\n    for layer in self.layers:\n        y = layer(x)" + OVER_ALL,
        "for layer in self.layers:\n    with torch.no_grad():\n        y = layer(x)\n    x = layer(x)",
        "for step in range(3):" + indent(ONE_LOOP.replace("self.frozen", "step"), "    "),
        TWO_LOOPS.format("self.frozen", ""),
        TWO_LOOPS.format("4", "2"),
        TWO_LOOPS.replace("\nfor", "\nself.frozen -= 1\nfor").format("self.frozen", "self.frozen"),
        "for k in range(3):" + indent(TWO_LOOPS.format("k", "k"), "    "),
        BY_INDEX.replace("    x = self.layers[i]", "    x = self.layers[i - 1]"),
        TWO_RANGES.replace("range(self.frozen, 12)", "range(self.frozen - 1, 12)"),
        FIRST_ONE_OF_ALL + OVER_ALL,
        FROM_A_NUMBER.replace("        start = self.frozen\n", ""),
        FROM_A_NUMBER.replace("start = self.frozen\n", "start = self.frozen - 1\n"),
        FROM_A_NUMBER.replace("self.frozen\nfor", "self.frozen\nstart = 0\nfor"),
        FROM_A_NUMBER.replace("self.frozen\nfor", "self.frozen\n    x = self.layers[i](x)\nfor"),
        BY_SECTIONS.replace("    assert self.frozen <= end\n", ""),
        BY_SECTIONS.replace("start = end", "start = end - 1"),
    ],
)
def test_of_layers_that_are_taken_twice_some_are(told: Tell, layers: str, body: str) -> None:
    assert told(net(body, layers)).lines(Act.WEIGHT_CAST)


def test_one_layer_that_a_list_holds_twice_is(told: Tell) -> None:
    text = net(ONE_LOOP, "shared, nn.Linear(8, 8), shared").replace("self.frozen = frozen", "shared = nn.Linear(8, 8)")
    assert told(text.replace("i < self.frozen", "i < 1")).lines(Act.WEIGHT_CAST)


def test_parts_of_a_chain_are_told_apart(told: Tell) -> None:
    halves = "with torch.no_grad():\n    x = self.layers[:self.frozen](x)\nx = self.layers[{}:](x)"
    first, second = (net(halves.format(each), LAYERS[1], "nn.Sequential(*[{}])") for each in ("self.frozen", ""))
    assert told(first).lines(Act.WEIGHT_CAST) == []
    assert told(second).lines(Act.WEIGHT_CAST)


BY_ONE_HELPER = """
{made}

class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.teacher = make()
        self.student = {student}

    def forward(self, x):
        with torch.no_grad():
            wanted = self.teacher(x)
        return F.mse_loss(self.student(x), wanted)


loss = Pair().cuda()(torch.randn(4, 8).cuda())  # region
"""
OF_ANOTHER_FILE = "from parts import built\ndef make():\n    return built(8)\n"
A_LAYER = "def layer():\n    return nn.Linear(8, 8)\n"
NESTED = "".join(
    f"class {name}(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.inner = {inner}()\n"
    "    def forward(self, x):\n        return self.inner(x)\n"
    for name, inner in (("A", "layer"), ("B", "A"), ("C", "B"), ("D", "C"))
)
HELPERS = [
    OF_ANOTHER_FILE,
    "import torchvision\ndef make():\n    return torchvision.models.resnet18()\n",
    f"{A_LAYER}{NESTED}\ndef make():\n    return D()\n",
    f"{A_LAYER}class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.f = layer()\n"
    "    def forward(self, x):\n        return self.f(x)\n    @classmethod\n    def built(cls):\n        return cls()\n"
    "def make():\n    return Net.built()\n",
    "class Factory:\n    def __call__(self):\n        return nn.Linear(8, 8)\nfactory = Factory()\ndef make():\n"
    "    return factory()\n",
    "import argparse, maps\ndef made(kind):\n    net = kind(argparse.ArgumentParser().parse_args())\n    net.show()\n"
    "    return net\ndef make():\n    return made(maps.find('net'))\n",
    "import maps\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.f = maps.find('net')\n    def forward(self, x):\n        return self.f(x)\n"
    "def make():\n    return Net()\n",
    "from transformers import BertConfig, BertModel\nclass Net(BertModel):\n    def __init__(self, config):\n"
    "        super().__init__(config)\n        self.f = nn.Linear(8, 8)\n    def forward(self, x):\n"
    "        return self.f(x)\n    @classmethod\n    def built(cls, **options):\n"
    "        return cls.from_pretrained('bert', config=BertConfig.from_pretrained('bert'), **options)\n"
    "def make(**options):\n    return Net.built(**options)\n",
]


@pytest.mark.parametrize("made", HELPERS)
def test_two_models_that_one_helper_makes_have_weights_of_their_own(made: str) -> None:
    parts = {"parts.py": "from torch import nn\ndef built(size):\n    return nn.Sequential(nn.Linear(size, size))\n"}
    for student, is_told in (("make()", False), ("self.teacher", True)):
        texts = parts | {"train.py": HEAD + migrated(BY_ONE_HELPER.format(made=made, student=student))}
        answer = Told(analysed(Texts(texts), ["train.py"]), "train.py")
        assert any(each.seen_by for each in answer.events(Act.WEIGHT_CAST)) is is_told, student


BY_A_NAME = """
from transformers import BertModel, BertPreTrainedModel


class Net(BertPreTrainedModel):
    def __init__(self, config, word="bert", kind=BertModel):
        super().__init__(config)
        self.word = word
        setattr(self, word, kind(config))

    def forward(self, x):
        return getattr(self, self.word)(x)[0]


def evaluate(model):
    for x in range(3):
        {called}
        with torch.no_grad():
            found = model(torch.ones(4, 8).cuda())
    return found


found = evaluate(Net.from_pretrained("bert"))  # region
"""


@pytest.mark.parametrize(("called", "is_told"), [("model.eval()", False), ("model(torch.ones(4, 8).cuda())", True)])
def test_a_part_whose_name_nobody_knows_is_in_the_place_of_no_method_of_every_module(
    told: Tell, called: str, is_told: bool
) -> None:
    found = told(migrated(BY_A_NAME.format(called=called))).events(Act.WEIGHT_CAST)
    assert any(each.seen_by for each in found) is is_told


MODES = """
class Net(nn.Module):
    def __init__(self, frozen):
        super().__init__()
        self.f = nn.Linear(8, 8)
        self.frozen = frozen

    def toggle(self):
        self.frozen = not self.frozen

    def forward(self, x, frozen):
        if {first}:
            with torch.no_grad():
                x = self.f(x)
        {between}
        if {second}:
            x = self.f(x)
        return x


model = Net(len("x") > 4).cuda()
out = model(torch.randn(4, 8).cuda(), len("x") > 4)  # region
"""


@pytest.mark.parametrize(
    ("first", "between", "second", "is_told"),
    [
        ("frozen", "x = x + 1", "not frozen", False),
        ("self.frozen", "x = x + 1", "not self.frozen", False),
        ("self.frozen and frozen", "x = x + 1", "not frozen", False),
        ("not self.frozen", "y = self.frozen", "self.frozen", False),
        ("frozen", "x = x + 1", "frozen", True),
        ("frozen", "frozen = not frozen", "not frozen", True),
        ("self.frozen", "self.toggle()", "not self.frozen", True),
        ("self.frozen", "x = x + 1", "not frozen", True),
    ],
)
def test_ways_on_which_tests_exclude_each_other_share_no_cast(
    told: Tell, first: str, between: str, second: str, is_told: bool
) -> None:
    text = migrated(MODES.format(first=first, between=between, second=second))
    assert bool(told(text).lines(Act.WEIGHT_CAST)) is is_told
