"""AMP611 with --unsafe: the scaler is saved and loaded with its optimizer, where it is certain to be there."""

from __future__ import annotations

from pathlib import Path

import pytest
from amp_migrate.engine.migrate import migrate, migrate_text
from amp_migrate.engine.outcome import FilePlan
from amp_migrate.report.finding import Kind
from amp_migrate.settings import Settings

SCRIPT = """\
import torch

def main(model, loader, path, resume):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    if resume:
        checkpoint = torch.load(path)
        optimizer.load_state_dict(checkpoint["optimizer"])
    for x in loader:
        train(model, optimizer, scaler, x)
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)

def train(model, optimizer, scaler, x):
    with torch.autocast("cuda", dtype=torch.float16):
        loss = model(x).mean()
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""
SAVE = '        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)\n'
LOAD = '        optimizer.load_state_dict(checkpoint["optimizer"])\n'
GUARDED = LOAD + '        if checkpoint.get("scaler"):\n            scaler.load_state_dict(checkpoint["scaler"])\n'
MADE = '    scaler = torch.amp.GradScaler("cuda")\n'
HEAD = SCRIPT[SCRIPT.index("def main") : SCRIPT.index("    if resume")]

CHOSEN = """\
    first, last = make(resume, model[0].parameters()), make(resume, model[1].parameters())
    optimizers = [first]
    optimizers.append(last)
    optimizer = optimizers[len(resume)]
"""

RECORDS = """\
from collections import namedtuple
from dataclasses import dataclass

Saved = namedtuple("Saved", ["model", "optimizer"])

@dataclass
class Kept:
    optimizer: dict

"""


def repaired(text: str, *, unsafe: bool = True) -> FilePlan:
    return migrate_text(text, Settings(select=("AMP6",), unsafe=unsafe))


def changed(old: str, new: str) -> str:
    assert old in SCRIPT
    return SCRIPT.replace(old, new)


def test_it_is_saved_and_loaded_beside_the_optimizer() -> None:
    plan = repaired(SCRIPT)
    saved = SAVE.replace("optimizer.state_dict()", 'optimizer.state_dict(), "scaler": scaler.state_dict()')
    assert plan.after == SCRIPT.replace(SAVE, saved).replace(LOAD, GUARDED)
    assert [(each.code, each.kind) for each in plan.findings] == [("AMP611", Kind.MIGRATED)]
    assert repaired(plan.after).findings == ()


def test_two_checkpoints_get_it_and_one_load() -> None:
    plan = repaired(changed(SAVE, SAVE + SAVE.replace("path", "path + '.best'")))
    assert plan.after.count('"scaler": scaler.state_dict()') == 2
    assert plan.after.count("scaler.load_state_dict") == 1


def test_an_optimizer_that_code_makes_which_is_not_read() -> None:
    made = "torch.optim.SGD(model.parameters(), lr=0.1)"
    plan = repaired(changed(made, "model.configure_optimizers(0.1)"))
    assert plan.after.count("scaler.state_dict()") == 1


def test_an_optimizer_of_one_of_many_kinds_of_packages() -> None:
    kinds = "".join(
        f"    elif name == '{each}':\n        import {each}\n        optimizer = {each}.Own(parameters)\n"
        for each in ("lion", "prodigy", "adopt", "shampoo", "soap", "muon", "adan", "came")
    )
    made = f"def make(name, parameters):\n    if not name:\n        optimizer = torch.optim.SGD(parameters)\n{kinds}"
    text = changed("    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n", CHOSEN)
    text += f"\n{made}    return optimizer\n\n"
    text += "main(torch.nn.Sequential(torch.nn.Linear(1, 2), torch.nn.Linear(2, 1)), [], 'a', input())\n"
    told = migrate_text(text, Settings(select=("AMP6",))).findings
    assert [(each.code, each.kind) for each in told] == [("AMP611", Kind.HAZARD)]


def test_what_is_called_a_scaler_and_scales_no_gradients() -> None:
    standard = '"optimizer": optimizer.state_dict(), "standard_scaler": standard_scaler.state_dict()'
    plan = repaired(changed('"optimizer": optimizer.state_dict()', standard))
    assert [each.code for each in plan.findings] == ["AMP611"]


def test_an_entry_that_is_assigned_gets_one_too() -> None:
    lines = '        state = {}\n        state["optimizer"] = optimizer.state_dict()\n'
    plan = repaired(changed(SAVE, lines + "        torch.save(state, path)\n"))
    assert f'{lines}        state["scaler"] = scaler.state_dict()\n' in plan.after


def test_a_function_that_steps_and_saves_takes_the_scaler_as_an_argument() -> None:
    text = """\
import torch

def train(model, optimizer, scaler, loader, path):
    checkpoint = torch.load(path)
    optimizer.load_state_dict(checkpoint["optimizer"])
    for x in loader:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(x).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    torch.save({"optimizer": optimizer.state_dict()}, path)
"""
    after = repaired(text).after
    assert '{"optimizer": optimizer.state_dict(), "scaler": scaler.state_dict()}' in after
    assert 'scaler.load_state_dict(checkpoint["scaler"])' in after


def test_without_unsafe_it_is_told_what_would_be_done() -> None:
    plan = repaired(SCRIPT, unsafe=False)
    assert plan.after == SCRIPT
    assert [each.hint for each in plan.findings] == [
        'add "scaler": scaler.state_dict(), and load it where the optimizer is loaded, or run with --unsafe, '
        "which does it"
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # the scaler is not there, or not on every way
        (MADE, ""),
        (MADE, "    if resume:\n        scaler = torch.amp.GradScaler('cuda')\n"),
        (MADE, "    scaler = None\n    scaler = torch.amp.GradScaler('cuda')\n"),
        (MADE + "    if resume:\n", "    if resume:\n"),
        (SAVE, "    scaler = torch.amp.GradScaler('cuda')\n" + SAVE[4:]),
        (LOAD, LOAD + "    def again(checkpoint):\n    " + LOAD),
        # what a function saves beside is called like the scaler of another one
        (HEAD, HEAD.replace("resume)", "resume, scaler)").replace(MADE, "")),
        # nobody knows where it is loaded
        (LOAD, ""),
        (LOAD, "        optimizer.load_state_dict(checkpoint)\n"),
        (LOAD, LOAD + "        optimizer.load_state_dict(torch.load(path)[1])\n"),
        # the name of the entry is taken
        (SAVE, SAVE.replace('"model"', '"scaler": mean, "model"')),
    ],
)
def test_where_the_edit_is_not_certain_it_is_told_only(old: str, new: str) -> None:
    text = changed(old, new)
    plan = repaired(text)
    assert plan.after == text
    assert [(each.code, each.kind) for each in plan.findings] == [("AMP611", Kind.HAZARD)]


def test_a_scaler_that_is_loaded_or_saved_already_is_left_alone() -> None:
    for line in ('        scaler.load_state_dict(checkpoint["amp"])\n', "        keep(scaler.state_dict())\n"):
        text = changed(LOAD, LOAD + line)
        assert (repaired(text).after, repaired(text).findings) == (text, ())


@pytest.mark.parametrize(
    "lines",
    [
        "        torch.save({'optimizer': smaller(optimizer.state_dict())}, path)\n",
        "        torch.save([each.state_dict() for each in [optimizer]], path)\n",
        "        state = {'all': []}\n        for each in [optimizer]:\n"
        "            state['all'].append(each.state_dict())\n        torch.save(state, path)\n",
        "        def keep(state, path):\n            torch.save({'optimizer': state}, path)\n"
        "        keep(optimizer.state_dict(), path)\n",
        "        def keep(state, path):\n            write({**state, 'epoch': 1}, path)\n"
        "        def write(kept, path):\n            torch.save(kept, path)\n"
        "        keep(optimizer.state_dict(), path)\n",
        "        torch.save([model, optimizer], path)\n",
        "        torch.save({'all': {'optimizer': optimizer}}, path)\n",
        "        state = Saved(1, optimizer.state_dict())\n        torch.save(state._asdict(), path)\n",
        "        state = Kept(optimizer=optimizer.state_dict())\n        torch.save(vars(state), path)\n",
    ],
)
def test_a_state_that_goes_into_a_checkpoint_by_another_name_or_call_is_told(lines: str) -> None:
    plan = repaired(f"{RECORDS}{changed(SAVE, lines)}")
    assert [(each.code, each.kind) for each in plan.findings] == [("AMP611", Kind.HAZARD)]


@pytest.mark.parametrize(
    ("lines", "held", "hint"),
    [
        ("torch.save(optimizer, path)", "optimizer", "save scaler.state_dict() with it, or to a file beside it"),
        ("torch.save([model, optimizer], path)", "optimizer", "add scaler.state_dict() as one more element"),
        ("torch.save({'all': {'o': optimizer}}, path)", "optimizer", 'add "scaler": scaler.state_dict()'),
        ("torch.save(optimizer.state_dict(), path)", "optimizer", "save scaler.state_dict() with it, or to a file"),
        ("kept = {'o': optimizer}; torch.save(kept, path)", "kept", "save scaler.state_dict() with it"),
    ],
)
def test_an_optimizer_that_is_saved_as_a_whole_is_named(lines: str, held: str, hint: str) -> None:
    (found,) = repaired(changed(SAVE, f"        {lines}\n")).findings
    assert found.message == f"the checkpoint holds {held} and not scaler"
    assert found.hint.startswith(hint)


@pytest.mark.parametrize(
    "lines",
    [
        "        other.load_state_dict(smaller(optimizer.state_dict()))\n        torch.save({}, path)\n",
        "        print(optimizer.state_dict())\n        torch.save({}, path)\n",
        "        bar.set_postfix(**{'lr': optimizer.state_dict()['param_groups'][0]['lr']})\n",
        "        rates.append(optimizer.state_dict()['param_groups'][0]['lr'])\n",
        "        shown = {'lr': optimizer.state_dict()['param_groups'][0]['lr']}\n        torch.save(shown, path)\n",
        "        def show(state):\n            print(state)\n"
        "        show(optimizer.state_dict())\n        torch.save({}, path)\n",
        "        torch.save([each.state_dict() for each in [others.optimizer]], path)\n",
        "        torch.save([model, optimizer, scaler], path)\n",
    ],
)
def test_a_state_that_goes_elsewhere_or_is_of_another_optimizer_is_no_matter(lines: str) -> None:
    assert repaired(changed(SAVE, lines)).findings == ()


OWN = "own = optimizer.state_dict()"


@pytest.mark.parametrize(
    "lines",
    [
        (OWN, "torch.save({'own': own}, path)"),
        (OWN, "state = {}", "state['own'] = own", "torch.save(state, path)"),
        (OWN, "state = Kept(optimizer=own)", "torch.save(state.__dict__, path)"),
        ("path.state = {'own': optimizer.state_dict()}",),
        ("def states(): return {'own': optimizer.state_dict()}", "torch.save(states(), path)"),
        ("def states(): return optimizer.state_dict()", "torch.save({'own': states()}, path)"),
        ("def states(): return {'own': optimizer.state_dict()}",),
        ("def on_save(checkpoint): checkpoint['own'] = optimizer.state_dict()",),
        (OWN, "everything = [own]", "pickle.dump(everything, path)"),
    ],
)
def test_a_state_is_followed_to_where_it_is_saved_or_out_of_sight(lines: tuple[str, ...]) -> None:
    text = changed(SAVE, "".join(f"        {each}\n" for each in lines))
    plan = repaired(f"{RECORDS}{text}", unsafe=False)
    assert [(each.code, each.kind) for each in plan.findings] == [("AMP611", Kind.HAZARD)]


@pytest.mark.parametrize(
    "lines",
    [
        (OWN, "torch.save({'lr': own['param_groups'][0]['lr']}, path)"),
        (OWN, "torch.save({'lr': [own[key][0]['lr'] for key in names]}, path)"),
        (OWN, "kept = {'own': own}", "optimizer.load_state_dict(kept['own'])"),
        (OWN, "print({'own': own})", "torch.save({}, path)"),
        (OWN, "kept = Kept(own)", "torch.save({}, path)"),
    ],
)
def test_a_state_that_is_only_shown_or_held_for_a_time_is_no_checkpoint(lines: tuple[str, ...]) -> None:
    text = changed(SAVE, "".join(f"        {each}\n" for each in lines))
    assert repaired(f"{RECORDS}{text}").findings == ()


def test_an_optimizer_of_a_class_that_was_not_read_is_saved_with_its_scaler_too() -> None:
    text = """\
import torch
from library.optimization import Lamb

class Trainer:
    def __init__(self, model):
        self.model = model.cuda()
        self.optimizer = Lamb(self.model.parameters())
        self.scaler = torch.amp.GradScaler("cuda")

    def train(self, loader):
        for x in loader:
            with torch.amp.autocast("cuda", dtype=torch.float16):
                loss = self.model(x).mean()
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
            self.optimizer.zero_grad()

    def save(self, path):
        torch.save(self.optimizer.state_dict(), path)
"""
    found = repaired(text, unsafe=False).findings
    assert [(each.line, each.code) for each in found] == [(20, "AMP611")]


SAVED = SAVE.replace("optimizer.state_dict()", 'optimizer.state_dict(), "scaler": scaler.state_dict()')
BY_NAME = """\
        for name, each in {"optimizer": optimizer, "scaler": scaler}.items():
            each.load_state_dict(checkpoint[name])
"""


@pytest.mark.parametrize(
    ("load", "is_told"),
    [
        (LOAD, True),
        (GUARDED, False),
        (LOAD + "        restore(scaler, checkpoint)\n", False),
        (BY_NAME, False),
        ("        model.load_state_dict(checkpoint['model'])\n", False),
    ],
)
def test_a_scaler_that_is_saved_and_never_loaded(load: str, is_told: bool) -> None:
    plan = repaired(SCRIPT.replace(SAVE, SAVED).replace(LOAD, load))
    assert not plan.changed
    told = [(each.code, each.kind, each.line) for each in plan.findings]
    assert told == [("AMP611", Kind.HAZARD, 8)] * is_told


WRAPPED = """\
import torch


class NativeScaler:
    def __init__(self):
        self._scaler = torch.amp.GradScaler("cuda")

    def __call__(self, loss, optimizer):
        self._scaler.scale(loss).backward()
        self._scaler.step(optimizer)
        self._scaler.update()

    def state_dict(self):
        return self._scaler.state_dict()


def main(loader, path):
    net = torch.nn.Linear(8, 1).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    loss_scaler = NativeScaler()
    for x, y in loader:
        optimizer.zero_grad()
        with torch.amp.autocast("cuda", dtype=torch.float16):
            loss = (net(x) - y).square().mean()
        loss_scaler(loss, optimizer)
    torch.save({"optimizer": optimizer.state_dict(), "model": net.state_dict()}, path)
"""


@pytest.mark.parametrize(
    ("old", "new", "is_told"),
    [
        ("", "", True),  # a method that nobody calls asks for no state
        ('"model":', '"scaler": loss_scaler.state_dict(), "model":', False),
        ("    loss_scaler = NativeScaler()\n", "    loss_scaler = NativeScaler()\n    keep(loss_scaler)\n", False),
        ("    torch.save(", "    state = {'scaler': loss_scaler}\n    torch.save(", False),
    ],
)
def test_a_scaler_behind_a_wrapper_that_is_called_is_saved_with_the_optimizer(
    old: str, new: str, is_told: bool
) -> None:
    plan = migrate_text(WRAPPED.replace(old, new, 1), Settings(select=("AMP611",)))
    assert [each.message for each in plan.findings] == ["the checkpoint holds optimizer and not self._scaler"] * is_told


@pytest.mark.parametrize(
    ("saving", "told"),
    [
        (
            "torch.save((model.state_dict(), optimizer.state_dict()), path)",
            "add scaler.state_dict() as one more element",
        ),
        ("torch.save([0, [each.state_dict() for each in [optimizer]]], path)", "as one more element"),
        ("state = optimizer.state_dict(); torch.save([state], path)", "as one more element"),
        (
            "parts = []; parts.append(optimizer.state_dict()); torch.save(parts, path)",
            "append scaler.state_dict(), too",
        ),
        ("torch.save(dict(own=optimizer.state_dict()), path)", "add scaler=scaler.state_dict()"),
        ("keeper.save(own=optimizer.state_dict())", "with it, or to a file beside it"),
        (
            "kept = {}; kept['own'] = optimizer.state_dict(); torch.save(kept, path)",
            'kept["scaler"] = scaler.state_dict()',
        ),
        ("torch.save(optimizer.state_dict(), path)", "with it, or to a file beside it"),
        (
            "torch.save({i: e.state_dict() for i, e in enumerate([optimizer])}, path)",
            "save scaler.state_dict() with it",
        ),
    ],
)
def test_what_is_told_says_how_a_checkpoint_of_that_kind_gets_it(saving: str, told: str) -> None:
    (finding,) = repaired(changed(SAVE, f"        {saving}\n").replace(LOAD, "        print(checkpoint)\n")).findings
    assert finding.hint is not None
    assert told in finding.hint
    assert finding.hint.endswith(", and load it where the optimizer is loaded")


TWO = """\
import torch
from torch import nn

def save(model, optimizer, path):
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)

def step(net, optimizer, scaler, x):
    optimizer.zero_grad()
    with torch.amp.autocast("cuda", dtype=torch.float16):
        loss = net(x).square().mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()

gen, disc = nn.Linear(4, 4).cuda(), nn.Linear(4, 1).cuda()
optimizer, optimizer_d = torch.optim.Adam(gen.parameters()), torch.optim.Adam(disc.parameters())
scaler, scaler_d = torch.amp.GradScaler("cuda"), torch.amp.GradScaler("cuda")
optimizer.load_state_dict(torch.load("gen.pt")["optimizer"])
optimizer_d.load_state_dict(torch.load("disc.pt")["optimizer"])
for x in loader:
    step(gen, optimizer, scaler, x)
    step(disc, optimizer_d, scaler_d, x)
save(gen, optimizer, "gen.pt")
save(disc, optimizer_d, "disc.pt")
"""


def test_of_two_scalers_of_which_one_function_saves_neither_both_are_named() -> None:
    (found,) = repaired(TWO, unsafe=False).findings
    assert found.message == "the checkpoint holds optimizer and not scaler or scaler_d, which steps it"


ITS_FILE = """\
import torch

class Scaler:
    def __init__(self):
        self._scaler = torch.amp.GradScaler("cuda")

    def __call__(self, loss, optimizer):
        self._scaler.scale(loss).backward()
        self._scaler.step(optimizer)
        self._scaler.update()

    def state_dict(self):
        return self._scaler.state_dict()
"""
IN_ANOTHER_FILE = """\
import torch
from wrapper import Scaler

model = torch.nn.Linear(8, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
loss_scaler = Scaler()
for x in loader:
    with torch.amp.autocast("cuda", dtype=torch.float16):
        loss = model(x).square().mean()
    optimizer.zero_grad()
    loss_scaler(loss, optimizer)
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "last.pt")
optimizer.load_state_dict(torch.load("last.pt")["optimizer"])
"""


def test_a_wrapper_that_gives_the_state_of_its_scaler_is_called_as_it_is_there(tmp_path: Path) -> None:
    (tmp_path / "wrapper.py").write_text(ITS_FILE)
    (tmp_path / "train.py").write_text(IN_ANOTHER_FILE)
    (found,) = migrate([tmp_path], Settings(select=("AMP6",))).findings
    assert found.message == "the checkpoint holds optimizer and not loss_scaler"
    assert found.hint.startswith('add "loss_scaler": loss_scaler.state_dict()')
