"""Of the classes that a setting chooses among each is looked at, or it is said that not all of them are."""

from __future__ import annotations

from pathlib import Path

import pytest
from amp_migrate.engine.migrate import migrate
from amp_migrate.engine.outcome import Outcome
from amp_migrate.settings import Settings

PLAIN = """\
{decorator}class Model{n}(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, {n} + 2)

    def forward(self, x):
        return self.layer(x)


"""
# One that trains a layer of its own, wherever it is called.
FITTING = """\
{decorator}class Model{n}(nn.Module):
    def forward(self, x):
        layer = nn.Linear(8, 2).cuda()
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
        with torch.enable_grad():
            loss = layer(x).square().mean()
        loss.backward()
        optimizer.step()
        return layer(x)


"""
SCRIPT = """\
import argparse
import torch
from torch import nn
{imports}

parser = argparse.ArgumentParser()
parser.add_argument("--model")
name = parser.parse_args().model
model = {made}.cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, target in loader:
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy({out}, target.cuda())
    loss.backward()
    optimizer.step()
"""
REGISTRY = """\
class Registry:
    def __init__(self):
        self.table = {}

    def register(self, kind):
        self.table[kind.__name__] = kind
        return kind


MODELS = Registry()


def build(name):
    return MODELS.table[name]()
"""
DERIVED = """\
class Registry(dict):
    def register(self, kind):
        self[kind.__name__] = kind
        return kind


MODELS = Registry()


def build(name):
    return MODELS.get(name)()
"""
ALL = "one of more classes and functions of the project than were looked at runs in a region"
INSIDE = "left as it was: a loss goes backward inside a region (models/part2.py:"
TABLE = "table = {" + "{each}" + "}"


def written(folder: Path, many: int, fitting: bool, imports: str, made: str, out: str = "model(x.cuda())") -> Outcome:
    """What becomes of a script beside a package of many models, in files of eight."""
    decorator = "@MODELS.register\n" if "registry" in imports else ""
    files = [range(start, min(start + 8, many)) for start in range(0, many, 8)]
    (folder / "models").mkdir()
    for at, numbers in enumerate(files):
        bodies = [(FITTING if fitting and n == 17 else PLAIN).format(n=n, decorator=decorator) for n in numbers]
        head = "import torch\nfrom torch import nn\n" + ("from registry import MODELS\n" if decorator else "")
        (folder / "models" / f"part{at}.py").write_text(head + "\n\n" + "".join(bodies))
    names = [f"from .part{n // 8} import Model{n}" for n in range(many)]
    (folder / "models" / "__init__.py").write_text("\n".join(names) + "\n")
    (folder / "registry.py").write_text(REGISTRY)
    entries = ", ".join(f'"model{n}": models.Model{n}' for n in range(many))
    (folder / "train.py").write_text(
        SCRIPT.format(imports=imports.replace("{entries}", f"{{{entries}}}"), made=made, out=out)
    )
    return migrate([folder], Settings())


BY_TABLE = ("import models\n\ntable = {entries}", "table[name]()")
BY_NAME = ("import models", "getattr(models, name)()")
BY_GLOBALS = ("from models import *", "globals()[name]()")
BY_DECORATOR = ("import models\nfrom registry import build", "build(name)")
WAYS = pytest.mark.parametrize(("imports", "made"), [BY_TABLE, BY_NAME, BY_GLOBALS, BY_DECORATOR])


@WAYS
@pytest.mark.parametrize("many", [20, 40])
def test_one_of_many_that_trains_in_the_region_is_seen(tmp_path: Path, imports: str, made: str, many: int) -> None:
    outcome = written(tmp_path, many, True, imports, made)
    said = [each.message for each in outcome.findings if each.path.endswith("train.py")]
    assert [each.startswith(INSIDE) for each in said] == [True]


@WAYS
@pytest.mark.parametrize("many", [2, 40])
def test_nothing_is_said_where_all_of_them_are_harmless(tmp_path: Path, imports: str, made: str, many: int) -> None:
    outcome = written(tmp_path, many, False, imports, made)
    assert [each.code for each in outcome.findings] == ["AMP501"]


@WAYS
def test_where_there_are_more_than_are_looked_at_that_is_told(tmp_path: Path, imports: str, made: str) -> None:
    outcome = written(tmp_path, 200, False, imports, made)
    assert [each.message for each in outcome.findings if each.code == "AMP504"] == [ALL]
    assert "AMP501" in {each.code for each in outcome.findings}


@pytest.mark.parametrize(("many", "fitting", "told"), [(20, True, INSIDE), (200, False, ALL)])
def test_a_registry_that_is_a_dictionary_of_its_own_class(
    tmp_path: Path, many: int, fitting: bool, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{__name__}.REGISTRY", DERIVED)
    outcome = written(tmp_path, many, fitting, *BY_DECORATOR)
    assert any(each.message.startswith(told) for each in outcome.findings)


@pytest.mark.parametrize("imports", ["import models\n\ntable = {entries}", "import models\n\ntable = dict({entries})"])
def test_a_key_that_is_known_is_one_class_alone(tmp_path: Path, imports: str) -> None:
    outcome = written(tmp_path, 200, True, imports, 'table["model3"]()')
    assert [each.code for each in outcome.findings if each.path.endswith("train.py")] == ["AMP501"]


def test_what_a_table_gets_where_nobody_sees_it_is_told(tmp_path: Path) -> None:
    imports = "import importlib\nfrom registry import build\n\nimportlib.import_module(load())"
    outcome = written(tmp_path, 3, False, imports, "build(name)")
    assert ALL in {each.message for each in outcome.findings}


@pytest.mark.parametrize("out", ["nn.Linear(8, 2).cuda()(x.cuda())", "nn.Linear(8, 2).cuda()(model[0].cuda())"])
def test_what_runs_in_no_region_may_be_one_of_as_many_as_there_are(tmp_path: Path, out: str) -> None:
    outcome = written(tmp_path, 200, False, *BY_NAME, out)
    assert ALL not in {each.message for each in outcome.findings}


@pytest.mark.parametrize(
    ("listed", "told"),
    [
        ('__all__ = ["Plain", "Attention"]', []),
        ('__all__ = ("Plain", "Attention", "GATConv")', ["torch_geometric.nn.GATConv.loss"]),
        ('__all__ = ["Plain", "Attention"]\n__all__ += ["GATConv"]', ["torch_geometric.nn.GATConv.loss"]),
        ("", ["torch_geometric.nn.GATConv.loss"]),
    ],
)
def test_what_a_file_has_for_its_own_use_is_none_that_others_choose(
    tmp_path: Path, listed: str, told: list[str]
) -> None:
    loss = "    def loss(self, out, y):\n        return nn.functional.cross_entropy(out, y)\n\n\n"
    plain = PLAIN.format(n=0, decorator="").replace("Model0", "Plain")
    attention = plain.replace("Plain", "Attention").replace("nn.Linear(8, 0 + 2)", "GATConv(8, 2)")
    head = f"import torch\nfrom torch import nn\nfrom torch_geometric.nn import GATConv\n\n{listed}\n\n\n"
    (tmp_path / "models.py").write_text(head + plain.rstrip() + "\n\n" + loss + attention)
    script = SCRIPT.format(imports=BY_NAME[0], made=BY_NAME[1], out="model(x.cuda())")
    (tmp_path / "train.py").write_text(script.replace("nn.functional.cross_entropy", "model.loss"))
    outcome = migrate([tmp_path], Settings())
    said = [each.message for each in outcome.findings if "code that could not be read" in each.message]
    assert [each.rpartition(": ")[2] for each in said] == told
