"""A training function that is handed on as a value: the scaler comes by the calls of what it is handed on as."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from amp_migrate.engine.migrate import migrate
from amp_migrate.engine.outcome import Outcome
from amp_migrate.settings import Settings

FIT = """
import torch


def fit(make, step, loader):
    model = make().cuda()
    optim = torch.optim.Adam(model.parameters())
    for _ in range(3):
        step(model=model, optim=optim, loader=loader)
        step(model=model, optim=None, loader=loader)
"""
TRAIN = """
import torch
from torch import nn
from base import fit


def one_epoch(model, optim, loader):
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())
        if optim is not None:
            optim.zero_grad()
            loss.backward()
            optim.step()


def make():
    return nn.Linear(8, 1)


def main():
    loader = [(torch.randn(4, 8), torch.randn(4, 1))]
    {call}


if __name__ == "__main__":
    main()
"""
CALL = "fit(make=make, step=one_epoch, loader=loader)"


def migrated(folder: Path, call: str = CALL, fit: str = FIT, **more: str) -> Outcome:
    texts = {"base": fit, "train": TRAIN.format(call=call)} | more
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(dedent(text))
    return migrate([folder], Settings())


def after(outcome: Outcome) -> dict[str, str]:
    return {each.source.path.stem: each.after for each in outcome.changed}


def test_the_scaler_is_made_where_the_optimizer_is_and_handed_beside_it(tmp_path: Path) -> None:
    texts = after(migrated(tmp_path))
    assert "    optim = torch.optim.Adam(model.parameters())\n    scaler = torch.amp.GradScaler" in texts["base"]
    assert "step(model=model, optim=optim, scaler=scaler, loader=loader)" in texts["base"]
    assert "step(model=model, optim=None, scaler=None, loader=loader)" in texts["base"]
    assert "def one_epoch(model, optim, scaler, loader):" in texts["train"]
    assert "scaler.step(optim)" in texts["train"]


def test_all_functions_that_are_handed_there_take_it(tmp_path: Path) -> None:
    other = TRAIN.format(call=CALL).replace("x.cuda()", "2 * x.cuda()")
    texts = after(migrated(tmp_path, other=other))
    assert all("def one_epoch(model, optim, scaler, loader):" in texts[each] for each in ("train", "other"))


@pytest.mark.parametrize(
    ("call", "fit"),
    [
        ("from framework import run\n    run(one_epoch)\n    fit(make, one_epoch, loader)", FIT),
        (CALL, f"from framework import run\n{FIT}    run(step)\n"),
        (CALL, f"from framework import wrap\n{FIT.replace('step(model', 'wrap(step)(model')}"),
        (
            CALL,
            FIT.replace(
                "step(model=model, optim=optim, loader=loader)", "step(**dict(zip(NAMES, [model, optim, loader])))"
            ),
        ),
    ],
)
def test_one_that_others_may_call_stays(tmp_path: Path, call: str, fit: str) -> None:
    outcome = migrated(tmp_path, call, fit)
    assert not outcome.changed
    assert any("no way for a loss scaler to this step" in each.message for each in outcome.findings)


CHOSEN = """
import sys
{more}
import torch
from torch import nn
from epochs import one_epoch


def fit(step):
    model = nn.Linear(8, 1).cuda()
    optim = torch.optim.Adam(model.parameters())
    loader = [(torch.randn(4, 8), torch.randn(4, 1))]
    for _ in range(3):
        step(model, optim, loader)


def main():
    if sys.argv[1] == "measure":
        step = measure_epoch
    else:
        step = one_epoch
    fit(step)


if __name__ == "__main__":
    main()
"""
EPOCHS = TRAIN[: TRAIN.index("def make")].replace("from base import fit", "")


def chosen(folder: Path, more: str = "", name: str = "script.py", **others: str) -> Outcome:
    (folder / name).write_text(CHOSEN.format(more=more))
    for stem, text in ({"epochs": EPOCHS} | others).items():
        (folder / f"{stem}.py").write_text(text)
    return migrate([folder], Settings())


def test_a_name_that_nothing_binds_is_no_other_function(tmp_path: Path) -> None:
    texts = after(chosen(tmp_path))
    assert "step(model, optim, scaler, loader)" in texts["script"]
    assert "def one_epoch(model, optim, scaler, loader):" in texts["epochs"]


@pytest.mark.parametrize(
    ("more", "name", "others"),
    [
        ("from framework import *", "script.py", {}),
        ("from framework import measure_epoch", "script.py", {}),
        ("from framework import bring\nbring(globals())", "script.py", {}),
        ("import framework\nexec(framework.TEXT)", "script.py", {}),
        ("import builtins, framework\nbuiltins.measure_epoch = framework.measure", "script.py", {}),
        (
            "import framework\ndef bring():\n    global measure_epoch\n    measure_epoch = framework.measure\nbring()",
            "script.py",
            {},
        ),
        ("", "__init__.py", {}),
        (
            "",
            "script.py",
            {"other": "import script, framework\nscript.measure_epoch = framework.measure\nscript.main()\n"},
        ),
        (
            "",
            "script.py",
            {
                "other": "import script, framework\nfor name in input():\n"
                "    setattr(script, name, framework.measure)\nscript.main()\n"
            },
        ),
    ],
)
def test_a_name_that_may_be_bound_out_of_sight_is_in_doubt(
    tmp_path: Path, more: str, name: str, others: dict[str, str]
) -> None:
    outcome = chosen(tmp_path, more, name, **others)
    assert "epochs" not in after(outcome)
    assert any("passed around as a value" in each.message for each in outcome.findings)
