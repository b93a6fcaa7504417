"""A fixed part of the random programs, and what judges them: each kind of fault is seen, and no other."""

from __future__ import annotations

from collections.abc import Mapping

import fuzz_programs
import pytest
from amp_migrate.settings import Dtype, Settings
from random_programs import judge as judging
from random_programs.generate import generate
from random_programs.judge import judge
from random_programs.reduce import kind, reduced

PROGRAM = """
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).to("cuda" if torch.cuda.is_available() else "cpu")
opt = torch.optim.SGD(model.parameters(), lr=0.05)
spare = 1
for i in range(3):
    x = torch.randn(8, 4)
    opt.zero_grad()
    loss = model(x).pow(2).mean()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    print("loss", loss.item())
"""
RIGHT = (
    PROGRAM.replace("spare = 1", 'scaler = torch.amp.GradScaler("cuda")')
    .replace("    loss = model", '    with torch.amp.autocast("cuda", dtype=torch.float16):\n        loss = model')
    .replace("loss.backward()", "scaler.scale(loss).backward()\n    scaler.unscale_(opt)")
    .replace("opt.step()", "scaler.step(opt)\n    scaler.update()")
)


@pytest.mark.slow
def test_no_program_of_a_fixed_part_comes_out_wrong_but_those_that_are_known() -> None:
    told = fuzz_programs.all_told(range(24), Settings(Dtype.FP16), workers=1)
    said = {each.number: each.judged for each in told if each is not None}
    wrong = {number: kind(judged) for number, judged in said.items() if judged.wrong or judged.errors}
    assert not wrong
    fit = [judged for judged in said.values() if not judged.unfit]
    assert len(fit) >= 15
    assert sum(bool(judged.after) for judged in fit) >= 6  # the codemod does something with a third of them


def test_a_number_is_always_the_same_program_and_others_are_others() -> None:
    made = [generate(number) for number in range(40)]
    assert made == [generate(number) for number in range(40)]
    texts = [str(each.files) for each in made if each is not None]
    assert len(texts) > 30
    assert len(set(texts)) == len(texts)


def judged_as(monkeypatch: pytest.MonkeyPatch, after: str) -> str:
    """What is said of a migration of PROGRAM to another text."""

    def written(
        files: Mapping[str, str], settings: Settings
    ) -> tuple[Mapping[str, str], tuple[str, ...], tuple[str, ...]]:
        return {"train.py": after}, (), ()

    monkeypatch.setattr(judging, "migrated", written)
    judged = judge({"train.py": PROGRAM}, Settings())
    assert not judged.unfit
    return kind(judged)


def test_a_right_migration_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    assert judged_as(monkeypatch, RIGHT) == ""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        pytest.param("scaler.unscale_(opt)", "pass", "on gradient", id="clipped while scaled"),
        pytest.param("scaler.step(opt)", "opt.step()\n    opt.step()", "off printed", id="a step too many"),
        pytest.param("scaler.scale(loss)", "loss", "on error AssertionError", id="unscaled without having been scaled"),
        pytest.param("    scaler.update()\n", "", "on error RuntimeError: unscale_() is being called", id="no update"),
        pytest.param("lr=0.05", "lr=0.051", "off printed", id="another learning rate"),
        pytest.param("scaler.update()", "scaler.update()\n    spare + 1", "off error", id="a name that is gone"),
        pytest.param("spare", "spare", "", id="nothing"),
    ],
)
def test_a_planted_fault_is_seen(monkeypatch: pytest.MonkeyPatch, old: str, new: str, said: str) -> None:
    assert old in RIGHT or not said
    assert judged_as(monkeypatch, RIGHT.replace(old, new)).startswith(said)


def test_weights_count_where_nothing_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    last = "\nwith torch.no_grad():\n    model[0].weight[0, 0] += 1e-6\n"
    assert judged_as(monkeypatch, RIGHT + last) == "off weights at the end"


def test_a_program_that_fails_or_hangs_on_its_last_digit_says_nothing() -> None:
    assert judge({"train.py": "raise ValueError('mine')\n"}, Settings()).unfit == "ValueError: mine"
    chaotic = PROGRAM.replace("loss = model(x).pow(2).mean()", "loss = (model(x) * 3e3).sin().mean()")
    assert judge({"train.py": chaotic}, Settings()).unfit == "rounding alone changes its course"


def test_a_program_is_reduced_to_what_goes_wrong() -> None:
    def judged(files: Mapping[str, str]) -> judging.Judged:
        return judging.Judged(errors=("here",) if "opt.step()" in files["train.py"] else ())

    assert reduced({"train.py": PROGRAM}, judged) == {"train.py": "opt.step()\n"}
