"""A flag beside the import of Apex is no part of the script's switch: native AMP is always there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest
from amp_migrate.engine.migrate import migrate as migrate_paths
from amp_migrate.settings import Settings

Check = Callable[..., Any]

FLAG = """\
try:
    from apex import amp
    AVAILABLE = True
except ImportError:
    AVAILABLE = False
"""
PREPARE = """
import torch

{flag}
def prepare(model, fp16=None):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{asked}
    return model, optimizer
"""
TRAINER = """
from apex import amp

class Trainer:
    def __init__(self, model, optimizer, fp16=None):
        self.model = model
        self.optimizer = optimizer
        self.fp16 = fp16
    def train(self, loader):
        for x in loader:
            self.optimizer.zero_grad()
            loss = self.model(x).mean()
            if self.fp16:
                with amp.scale_loss(loss, self.optimizer) as scaled_loss:
                    scaled_loss.backward()
            else:
                loss.backward()
            self.optimizer.step()
"""
MAIN = """
import torch
from prepare import prepare
from trainer import Trainer

fp16 = True
model, optimizer = prepare(torch.nn.Linear(2, 2), fp16=fp16)
Trainer(model, optimizer, fp16=fp16).train(loader)
"""
INITIALIZE = 'model, optimizer = amp.initialize(model, optimizer, opt_level="O1")'
NESTED = f"if fp16:\n    if AVAILABLE:\n        {INITIALIZE}\n    else:\n        print('float32')"


def _migrated(folder: Path, flag: str, asked: str, more: str = "") -> dict[str, str]:
    prepare = PREPARE.format(flag=flag, asked=indent(asked, "    ")) + more
    texts = {"prepare": prepare, "trainer": TRAINER, "main": MAIN}
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text)
    return {each.source.path.stem: each.after for each in migrate_paths([folder], Settings()).changed}


@pytest.mark.parametrize(
    "flag", [FLAG, "AVAILABLE = False\n" + FLAG.replace("    AVAILABLE = False", "    pass")], ids=["except", "above"]
)
@pytest.mark.parametrize(
    "asked",
    [
        NESTED,
        f"if fp16 and AVAILABLE:\n    {INITIALIZE}",
        f"if AVAILABLE and fp16:\n    {INITIALIZE}",
        f"if fp16:\n    assert AVAILABLE\n    {INITIALIZE}",
        f"assert not fp16 or (fp16 and AVAILABLE), 'Apex is missing'\nif fp16:\n    {INITIALIZE}",
        f"if fp16 and not AVAILABLE:\n    raise RuntimeError('Apex is missing')\nif fp16:\n    {INITIALIZE}",
    ],
)
def test_flag_beside_the_switch_in_another_file_than_the_step(tmp_path: Path, flag: str, asked: str) -> None:
    after = _migrated(tmp_path, flag, asked)
    assert 'self.scaler = torch.amp.GradScaler("cuda", enabled=bool(fp16))' in after["trainer"]
    assert "apex" not in after["prepare"]
    assert ("AVAILABLE" in after["prepare"]) is (asked is NESTED)


@pytest.mark.parametrize(
    "more",
    [
        "print(AVAILABLE)",
        "__all__ = ['AVAILABLE', 'prepare']",
        "assert AVAILABLE or log('missing')",
        "assert AVAILABLE == 1",
        "if not AVAILABLE:\n    prepare = None",
        "class Options:\n    apex = AVAILABLE",
    ],
)
def test_flag_that_something_else_asks_for_stays(tmp_path: Path, more: str) -> None:
    after = _migrated(tmp_path, FLAG, f"if fp16 and AVAILABLE:\n    {INITIALIZE}", more)
    assert "AVAILABLE = True" in after["prepare"]
    assert more in after["prepare"]


def test_flag_of_a_package_is_for_others(tmp_path: Path) -> None:
    asked = indent(f"if fp16 and AVAILABLE:\n    {INITIALIZE}", "    ")
    (tmp_path / "prepare").mkdir()
    (tmp_path / "prepare" / "__init__.py").write_text(PREPARE.format(flag=FLAG, asked=asked))
    for name, text in (("trainer", TRAINER), ("main", MAIN)):
        (tmp_path / f"{name}.py").write_text(text)
    after = {each.source.path.stem: each.after for each in migrate_paths([tmp_path], Settings()).changed}
    assert "AVAILABLE = True" in after["__init__"]
    assert "apex" not in after["__init__"]


def test_flag_that_another_file_takes_stays(tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text("from prepare import AVAILABLE\nprint(AVAILABLE)\n")
    after = _migrated(tmp_path, FLAG, f"if fp16 and AVAILABLE:\n    {INITIALIZE}")
    assert "AVAILABLE = True" in after["prepare"]


@pytest.mark.parametrize(
    "flag",
    [
        FLAG + "AVAILABLE = AVAILABLE and torch.cuda.is_available()\n",
        FLAG.replace("AVAILABLE = False", "AVAILABLE = torch.cuda.is_available()"),
        FLAG.replace(
            "    from apex import amp\n    AVAILABLE = True", "    AVAILABLE = True\n    from apex import amp"
        ),
        "from apex import amp\n" + FLAG.replace("from apex import amp", "import other"),
    ],
    ids=["asks more", "otherwise", "before", "of another"],
)
def test_flag_that_says_something_else_is_a_part_of_the_switch(tmp_path: Path, flag: str) -> None:
    assert "from amp_shim import amp" in _migrated(tmp_path, flag, NESTED)["trainer"]


def test_flag_in_the_file_of_the_step(rewrites: Check) -> None:
    rewrites(
        """
        - try:
        -     from apex import amp
        -     AVAILABLE = True
        - except ImportError:
        -     AVAILABLE = False
        + AVAILABLE = True

          def main(args, loader):
              MODEL
        +     scaler = torch.amp.GradScaler("cuda", enabled=bool(args.fp16))
              if args.fp16:
                  if AVAILABLE:
        -             model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
        +             pass
                  else:
                      print("float32")
              for x in loader:
        -         loss = model(x).mean()
        -         if args.fp16:
        -             with amp.scale_loss(loss, optimizer) as scaled_loss:
        -                 scaled_loss.backward()
        -         else:
        -             loss.backward()
        -         optimizer.step()
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=bool(args.fp16)):
        +             loss = model(x).mean()
        +         scaler.scale(loss).backward()
        +         scaler.step(optimizer)
        +         scaler.update()
                  optimizer.zero_grad()
        """
    )


KEEPS = """
try:
    from apex import amp
    import apex.optimizers as fused
    AVAILABLE = True
except ImportError:
    AVAILABLE = False

def main(args, loader, state):
    MODEL
    if AVAILABLE and args.lamb:
        optimizer = fused.FusedLAMB(model.parameters(), lr=0.1)
    if AVAILABLE:
        model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
    {restored}
    for x in loader:
        loss = model(x).mean()
        if AVAILABLE:
            with amp.scale_loss(loss, optimizer) as scaled_loss:
                scaled_loss.backward()
        else:
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    {saved}
"""
SAVED = 'state["scaler"] = scaler.state_dict()'
RESTORED = 'if state.get("scaler"):\n{0}    scaler.load_state_dict(state["scaler"])\n'


@pytest.mark.parametrize(
    ("saved", "after"),
    [
        ('if AVAILABLE:\n        state["amp"] = amp.state_dict()', f"    {SAVED}\n"),
        ('if AVAILABLE and args.all:\n        state["amp"] = amp.state_dict()', f"    if args.all:\n        {SAVED}\n"),
        ('state["amp"] = amp.state_dict() if AVAILABLE else None', f"    {SAVED}\n"),
        (
            'if args.all:\n        if AVAILABLE:\n            state["amp"] = amp.state_dict()',
            f"    if args.all:\n        {SAVED}\n",
        ),
    ],
)
def test_a_scaler_is_saved_without_asking_for_what_else_is_taken_from_apex(
    saved: str, after: str, migrate: Check
) -> None:
    restored = saved.replace('state["amp"] = amp.state_dict()', 'amp.load_state_dict(state["amp"])')
    text = migrate(KEEPS.format(saved=saved, restored=restored if "else" not in saved else "pass")).after
    assert after in text
    assert text.count("AVAILABLE") == 3
    if "else" not in saved:
        space = 8 if "args.all" in saved else 4
        assert "\n" + " " * space + RESTORED.format(" " * space) in text


@pytest.mark.parametrize(
    "saved",
    [
        'if AVAILABLE:\n        state["amp"] = amp.state_dict()\n        state["lamb"] = fused.FusedLAMB',
        'if AVAILABLE:\n        state["amp"] = amp.state_dict()\n    else:\n        print("float32")',
        'if not AVAILABLE:\n        print("float32")\n    state["amp"] = amp.state_dict()',
    ],
)
def test_a_flag_that_decides_about_more_than_the_scale_is_asked(saved: str, migrate: Check) -> None:
    text = migrate(KEEPS.format(saved=saved, restored="pass")).after
    assert saved.replace('state["amp"] = amp.state_dict()', SAVED) in text


@pytest.mark.parametrize("is_joined", [True, False])
def test_halves_of_a_library_that_its_users_put_together(tmp_path: Path, is_joined: bool) -> None:
    main = MAIN.replace("from prepare", "from lib.models.prepare").replace("from trainer", "from lib.trainer")
    prepare = PREPARE.format(flag=FLAG, asked=indent(NESTED, "    "))
    texts = {"lib/models/prepare": prepare, "lib/trainer": TRAINER, "lib/__init__": "", "lib/models/__init__": ""}
    if is_joined:
        texts["examples/main"] = main
    for name, text in texts.items():
        path = tmp_path / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    outcome = migrate_paths([tmp_path], Settings())
    after = {each.source.path.stem: each.after for each in outcome.changed}
    assert ("self.scaler.scale(loss).backward()" in after["trainer"]) is is_joined
    told = [each.message for each in outcome.findings if each.code == "AMP290"]
    assert any("amp.initialize is not among the files" in each for each in told) is not is_joined
