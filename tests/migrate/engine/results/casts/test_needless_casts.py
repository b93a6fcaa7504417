"""What the rest of a plan makes float32 for certain is not cast to it as well."""

from __future__ import annotations

from pathlib import Path

import pytest
from amp_migrate.engine.migrate import migrate, migrate_text
from amp_migrate.engine.outcome import Outcome
from amp_migrate.settings import Settings

IMPORTS = "import torch\nfrom torch import nn\n\n"
NET = "nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1), nn.Sigmoid()).cuda()"
STEP = """\
criterion = nn.BCELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    out = model(x.cuda())
    loss = criterion(out, y.cuda())
    loss.backward()
    optimizer.step()
"""
# The same, for a model that is handed in.
TRAIN = IMPORTS + "\ndef train(model, loader):\n    " + STEP.replace("\n", "\n    ").rstrip() + "\n"
CALLED = "import torch\nfrom train import train\nfrom torch import nn\n\n"


def migrated(folder: Path, **files: str) -> Outcome:
    """What becomes of some files; a second run over the results changes nothing."""
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    outcome = migrate([folder], Settings())
    for each in outcome.changed:
        each.source.path.write_text(each.after)
    assert not migrate([folder], Settings()).changed
    return outcome


def after(outcome: Outcome, name: str) -> str:
    return next(each.after for each in outcome.changed if each.source.path.name == f"{name}.py")


def test_a_loss_reads_a_sigmoid_that_computes_in_float32_as_it_is() -> None:
    text = migrate_text(f"{IMPORTS}model = {NET}\n{STEP}", Settings()).after
    assert "nn.Linear(8, 1), Fp32Sigmoid())" in text
    assert "    loss = criterion(out, y.cuda())\n" in text
    assert migrate_text(text, Settings()).after == text


def test_so_it_does_of_another_file(tmp_path: Path) -> None:
    nets = f"from torch import nn\n\n\ndef make():\n    return {NET}\n"
    outcome = migrated(tmp_path, nets=nets, train=f"{IMPORTS}from nets import make\n\nmodel = make()\n{STEP}")
    assert "Fp32Sigmoid()" in after(outcome, "nets")
    assert "    loss = criterion(out, y.cuda())\n" in after(outcome, "train")


def test_a_name_for_what_is_computed_before_stays() -> None:
    text = STEP.replace("    out = model(x.cuda())\n", "").replace("out", "model(x.cuda())")
    text = migrate_text(f"{IMPORTS}model = {NET}\n{text}", Settings()).after
    assert "        model_output = model(x.cuda())\n    loss = criterion(model_output, y.cuda())\n" in text


@pytest.mark.parametrize(
    ("net", "read"),
    [
        (NET.replace(", nn.Sigmoid()", ""), "out.sigmoid()"),
        (NET, "out + model[0](x.cuda()).mean()"),
        (NET, "out if x.sum() > 0 else model[:3](x.cuda())"),
        (f"{NET} if make is None else make()", "out"),
    ],
)
def test_what_is_low_on_a_way_is_cast(net: str, read: str) -> None:
    text = STEP.replace("    loss = criterion(out,", f"    out = {read}\n    loss = criterion(out,")
    text = migrate_text(f"{IMPORTS}model = {net}\n{text}", Settings()).after
    assert "scaler.scale(loss)" in text
    assert ".float()" in text.split("for x, y in loader:")[1]


def test_all_who_hand_in_a_model_have_to_bring_what_is_float32(tmp_path: Path) -> None:
    own = f"{CALLED}train({NET}, [])\n"
    outcome = migrated(tmp_path, train=TRAIN, one=own)
    assert "criterion(out.float(), y.cuda())" in after(outcome, "train")  # another may bring what is low


@pytest.mark.parametrize(
    "other", ["", "from timm import create_model\n\n\ndef other():\n    train(create_model('x'), [])\n"]
)
def test_so_has_each_script_that_imports_what_calls_itself(other: str, tmp_path: Path) -> None:
    train = f"{TRAIN}\n\nif __name__ == '__main__':\n    train({NET}, [])\n"
    files = {"other": CALLED.replace("from torch import nn\n", "") + other} if other else {}
    outcome = migrated(tmp_path, train=train, **files)
    assert ("criterion(out.float(), y.cuda())" in after(outcome, "train")) is bool(other)


def test_a_product_that_is_kept_in_float32_makes_the_casts_behind_it_needless() -> None:
    text = migrate_text(
        f"{IMPORTS}\ndef gram(a):\n    b = a @ a.t()\n    c = b / 2\n    return c @ c.t()\n\n\n"
        "model = nn.Linear(8, 64).cuda()\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "for x in loader:\n    optimizer.zero_grad()\n    loss = gram(model(x.cuda())).mean()\n    loss.backward()\n"
        "    optimizer.step()\n",
        Settings(),
    ).after
    assert "        b = a.float() @ a.float().t()\n" in text
    assert "        return c @ c.t()\n" in text


def test_a_cast_of_the_user_stays() -> None:
    text = STEP.replace("criterion(out,", "criterion(out.float(),")
    assert "criterion(out.float(), y.cuda())" in migrate_text(f"{IMPORTS}model = {NET}\n{text}", Settings()).after
