"""Models that are registered with code which is not among the files are those that it makes, and are looked at."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from amp_migrate.engine.migrate import migrate
from amp_migrate.settings import Settings

OWN = "import maps\n\n\nclass Registry(maps.Registry):\n    {body}\n\n\nMODELS = Registry('models')\n"
NETS = """\
import torch
from torch import nn
from {registry} import {names}


class Small(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.layer = nn.Linear(size, 1)


{decorator}
class Grader(Small):
    def forward(self, x, y):
        return nn.functional.binary_cross_entropy(torch.sigmoid(self.layer(x)), y)


{behind}
"""
SCRIPT = """\
import torch
{imports}

cfg = load()
model = {made}
model = model.cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    loss = model(x.cuda(), y.cuda())
    loss.backward()
    optimizer.step()
"""
REFUSED = "kept in float32: autocast refuses it: binary_cross_entropy"
COMPUTED = "the loss is computed under autocast by code that could not be read: "


def told(folder: Path, files: dict[str, str]) -> set[str]:
    """What is said of risky numerics in the files of a project."""
    for name, text in files.items():
        (folder / name).write_text(text)
    outcome = migrate([folder], Settings())
    assert "AMP501" in {each.code for each in outcome.findings}
    found = (each.message for each in outcome.findings if each.code == "AMP504")
    return {each for each in found if "reads in float32" not in each}


def nets(registry: str = "registry", names: str = "MODELS", decorator: str = "", behind: str = "") -> str:
    return NETS.format(registry=registry, names=names, decorator=decorator, behind=behind)


BY_DECORATOR = "@MODELS.register_module()"
OF_MAPS = "from maps import Registry\n\nMODELS = Registry('models')\n"


@pytest.mark.parametrize(
    ("registry", "given", "made"),
    [
        (OF_MAPS, {"decorator": BY_DECORATOR}, "MODELS.build(cfg)"),
        (OF_MAPS, {"decorator": "@MODELS.register_module(name='grader')"}, "MODELS.get(cfg.name)(cfg.size)"),
        (OF_MAPS, {"decorator": "@MODELS.register"}, "MODELS[cfg.name](cfg.size)"),
        (OF_MAPS, {"behind": "MODELS.register_module(name='grader', module=Grader)"}, "MODELS.build(cfg)"),
        (OWN.format(body="pass"), {"decorator": BY_DECORATOR}, "MODELS.build(cfg)"),
        (OWN.format(body="def build(self, cfg):\n        return super().build(cfg)"), {"decorator": BY_DECORATOR},
         "MODELS.build(cfg)"),
        (OF_MAPS + "\n\ndef build(cfg):\n    return maps.build_from_cfg(cfg, MODELS)\n\n\nimport maps\n",
         {"decorator": BY_DECORATOR}, "registry.build(cfg)"),
        (OF_MAPS, {"behind": f"{BY_DECORATOR}\ndef grader(cfg):\n    return Grader(cfg.size)"}, "MODELS.build(cfg)"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("is_late", [False, True])
def test_a_model_in_a_registry_of_an_unread_class_is_looked_at(
    tmp_path: Path, registry: str, given: dict[str, str], made: str, is_late: bool
) -> None:
    script = SCRIPT.format(imports="import nets, registry\nfrom registry import MODELS", made=made)
    if is_late:  # in a function that nobody calls
        head, body = script.split("cfg = load()\n")
        script = head + "\ndef train(cfg, loader):\n" + "".join(f"    {line}\n" for line in body.splitlines())
    files = {"registry.py": registry, "nets.py": nets(**given), "train.py": script}
    assert told(tmp_path, files) == {REFUSED}


def test_so_is_a_loss_and_a_part_of_a_model(tmp_path: Path) -> None:
    registry = "from maps import Registry, build_from_cfg\n\nPARTS, LOSSES = Registry('parts'), Registry('losses')\n"
    parts = """\
        from registry import LOSSES, PARTS, build_from_cfg
        from torch import nn


        @LOSSES.register_module()
        class Judge(nn.Module):
            def forward(self, out, y):
                return nn.functional.binary_cross_entropy(out.sigmoid(), y)


        @PARTS.register_module()
        class Gram(nn.Module):
            def forward(self, x):
                return x @ x.transpose(0, 1)


        class Net(nn.Module):
            def __init__(self, cfg):
                super().__init__()
                self.layer, self.gram = nn.Linear(8, 8), PARTS.build(cfg)

            def forward(self, x):
                return self.gram(self.layer(x))
    """
    script = SCRIPT.format(imports="from nets import LOSSES, Net", made="Net(cfg.gram)")
    script = script.replace("loss = model(x.cuda(), y.cuda())", "loss = judge(model(x.cuda()), y.cuda())")
    script = script.replace("cfg = load()\n", "cfg = load()\njudge = LOSSES.build(cfg.loss)\n")
    files = {"registry.py": registry, "nets.py": dedent(parts), "train.py": script}
    products = "kept in float32: may overflow, or round, in half precision: products of a matrix with itself"
    assert told(tmp_path, files) == {REFUSED, products}


@pytest.mark.parametrize(
    ("package", "names", "decorator", "made", "others"),
    [
        ("timm.models.registry", "register_model", "", "timm.create_model(cfg.name)", set()),
        ("detectron2.modeling", "HEADS", "@HEADS.register()", "detectron2.modeling.build_model(cfg)", set()),
        ("maps", "HEADS", "@HEADS.register()", "maps.build(cfg)", {f"{COMPUTED}maps.build()"}),
    ],
)
def test_what_a_package_keeps_is_what_it_may_give_beside_its_own(
    tmp_path: Path, package: str, names: str, decorator: str, made: str, others: set[str]
) -> None:
    behind = "" if decorator else "@register_model\ndef grader(**kwargs):\n    return Grader(**kwargs)"
    script = SCRIPT.format(imports="import detectron2, maps, nets, timm", made=made)
    files = {"nets.py": nets(package, names, decorator, behind), "train.py": script}
    assert told(tmp_path, files) == {REFUSED} | others


@pytest.mark.parametrize(
    ("imports", "made"),
    [
        ("import nets, registry", "registry.OTHERS.build(cfg)"),  # nothing is registered in this one
        ("import registry", "registry.MODELS.build(cfg)"),  # whoever registers is not imported
    ],
)
def test_what_is_registered_elsewhere_is_not_given(tmp_path: Path, imports: str, made: str) -> None:
    registry = f"{OF_MAPS}OTHERS = Registry('others')\n"
    files = {"registry.py": registry, "nets.py": nets(decorator=BY_DECORATOR)}
    files["train.py"] = SCRIPT.format(imports=imports, made=made)
    assert told(tmp_path, files) == {f"{COMPUTED}maps.Registry.build()"}


def test_the_main_function_that_a_package_calls_makes_no_model_in_itself(tmp_path: Path) -> None:
    head, body = SCRIPT.format(imports="import hydra", made="hydra.utils.instantiate(cfg)").split("cfg = load()\n")
    main = "\n@hydra.main()\ndef main(cfg):\n" + "".join(f"    {line}\n" for line in body.splitlines())
    loss = "loss = model(x.cuda(), y.cuda())"
    script = f"{head}{main}\nmain()\n".replace(loss, "loss = torch.nn.functional.cross_entropy(model(x.cuda()), y)")
    assert told(tmp_path, {"train.py": script}) == {
        "what runs under autocast could not be read: hydra.utils.instantiate()"
    }
