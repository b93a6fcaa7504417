"""Scripts that train by native AMP wherever Apex cannot be imported: that is what runs today, and goes on."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from amp_migrate.engine.migrate import migrate as migrate_paths
from amp_migrate.report.finding import Kind
from amp_migrate.settings import Apex, Settings

Check = Callable[..., Any]
_BODY = """
def main(args, model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if ASKED:
        model, optimizer = amp.initialize(model, optimizer, opt_level="O0")
    else:
        scaler = MAKER("cuda")
    for x in loader:
        optimizer.zero_grad()
        if ASKED:
            loss = model(x).mean()
            with amp.scale_loss(loss, optimizer) as scaled_loss:
                scaled_loss.backward()
            optimizer.step()
        else:
            with REGION(device_type="cuda", dtype=torch.float16):
                loss = model(x).mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
"""
_NATIVE = """
def main(args, model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = MAKER("cuda")
    for x in loader:
        optimizer.zero_grad()
        with REGION(device_type="cuda", dtype=torch.float16):
            loss = model(x).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""
_BROUGHT = "from torch.amp import autocast, GradScaler\n"


def _named(text: str, asked: str = "", maker: str = "GradScaler", region: str = "autocast") -> str:
    return text.replace("ASKED", asked).replace("MAKER", maker).replace("REGION", region)


@pytest.mark.parametrize(
    ("head", "asked", "left"),
    [
        (
            f"{_BROUGHT}try:\n    from apex import amp\nexcept ImportError:\n    amp = None\n",
            "amp is not None",
            _BROUGHT,
        ),
        (f"{_BROUGHT}amp = None\ntry:\n    from apex import amp\nexcept ImportError:\n    pass\n", "amp", _BROUGHT),
        (
            "try:\n    from apex import amp\n    has_apex = True\nexcept Exception as error:\n"
            f"    print('no Apex', error)\n    {_BROUGHT}    has_apex = False\n",
            "has_apex",
            f"{_BROUGHT}has_apex = False\n",
        ),
        (
            f"try:\n    from apex import amp\nexcept ImportError:\n    {_BROUGHT}    kind = 'torch'\n"
            "else:\n    kind = 'apex'\n",
            "kind == 'apex'",
            f"{_BROUGHT}kind = 'torch'\n",
        ),
        (
            "try:\n    from apex import amp\n    kind = 'apex'\nexcept ImportError:\n"
            f"    try:\n        {_BROUGHT}        kind = 'torch'\n    except ImportError:\n        kind = None\n",
            "kind == 'apex'",
            f"try:\n    {_BROUGHT}    kind = 'torch'\nexcept ImportError:\n    kind = None\n",
        ),
        (
            f"try:\n    import apex.amp as amp\n    flag = 1\nexcept ImportError:\n    {_BROUGHT}    flag = 0\n",
            "flag",
            f"{_BROUGHT}flag = 0\n",
        ),
    ],
)
def test_what_runs_without_apex_is_what_is_left(head: str, asked: str, left: str, migrate: Check) -> None:
    plan = migrate(head + _named(_BODY, asked), head="import torch\n")
    assert plan.after == "import torch\n" + left + _named(_NATIVE)


def test_the_other_way_round(migrate: Check) -> None:
    head = f"{_BROUGHT}try:\n    from apex import amp\nexcept ImportError:\n    amp = None\n"
    turned = """
def main(args, model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if amp is None:
        scaler = GradScaler("cuda")
    else:
        model, optimizer = amp.initialize(model, optimizer, opt_level="O0")
    for x in loader:
        optimizer.zero_grad()
        if amp is None:
            with autocast(device_type="cuda", dtype=torch.float16):
                loss = model(x).mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            loss = model(x).mean()
            with amp.scale_loss(loss, optimizer) as scaled_loss:
                scaled_loss.backward()
            optimizer.step()
"""
    assert migrate(head + turned, head="import torch\n").after == "import torch\n" + _BROUGHT + _named(_NATIVE)


def test_one_name_for_both(migrate: Check) -> None:
    head = """native = True
try:
    from apex import amp
    from apex.parallel import DistributedDataParallel as DDP
    native = False
except ImportError:
    from torch import amp
    from torch.nn.parallel import DistributedDataParallel as DDP
"""
    names = {"maker": "amp.GradScaler", "region": "amp.autocast"}
    wrapped = "    for x in loader:", "    model = DDP(model)\n    for x in loader:"
    plan = migrate(head + _named(_BODY, "not native", **names).replace(*wrapped), head="import torch\n")
    left = "native = True\nfrom torch import amp\nfrom torch.nn.parallel import DistributedDataParallel as DDP\n"
    assert plan.after == "import torch\n" + left + _named(_NATIVE, **names).replace(*wrapped)


def test_two_flags_of_the_command_line(rewrites: Check) -> None:
    rewrites(
        """
        - try:
        -     from apex import amp
        -     has_apex = True
        - except ImportError:
        -     has_apex = False
        + has_apex = True
          def main(args, loader):
              MODEL
              use_apex = args.apex and has_apex
        -     scaler = torch.amp.GradScaler("cuda", enabled=args.amp and not use_apex)
        -     if use_apex:
        -         model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
        +     scaler = torch.amp.GradScaler("cuda", enabled=(args.amp or use_apex))
              for x in loader:
        -         with torch.autocast("cuda", dtype=torch.float16, enabled=args.amp and not use_apex):
        +         with torch.autocast("cuda", dtype=torch.float16, enabled=(args.amp or use_apex)):
                      loss = model(x).sum()
        -         if use_apex:
        -             with amp.scale_loss(loss, optimizer) as scaled_loss:
        -                 scaled_loss.backward()
        -             optimizer.step()
        -         else:
        -             scaler.scale(loss).backward()
        -             scaler.step(optimizer)
        -             scaler.update()
        +         scaler.scale(loss).backward()
        +         scaler.step(optimizer)
        +         scaler.update()
        """
    )


_FLAG = "try:\n    from apex import amp\n    has_apex = True\nexcept ImportError:\n    has_apex = False\n"
_TODAY = "where Apex is not installed it trains with native AMP of its own, as it does today"
_CHOSEN = (
    _FLAG
    + """
def by_apex(model, optimizer, scaler, x):
    loss = model(x).mean()
    with amp.scale_loss(loss, optimizer) as scaled_loss:
        scaled_loss.backward()
    optimizer.step()

def by_torch(model, optimizer, scaler, x):
    with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        loss = model(x).mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()

def main(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = None
    if has_apex:
        model, optimizer = amp.initialize(model, optimizer, cast_model_type=dtype)
    else:
        scaler = torch.amp.GradScaler("cuda")
    step = by_apex if has_apex else by_torch
    for x in loader:
        step(model, optimizer, scaler, x)
"""
)
_MORE = _FLAG.replace("amp\n", "amp\n    import horovod\n").replace("Error:\n", f"Error:\n    {_BROUGHT}")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (_CHOSEN, "apex.amp is used where native AMP is not chosen instead"),
        (
            _MORE + _named(_BODY, "has_apex"),
            "native AMP is imported only where this fails, which does more than import Apex",
        ),
        (
            _FLAG + _BROUGHT + _named(_BODY, "has_apex") + "    tell(has_apex)\n",
            "what has_apex decides beside Apex is not understood",
        ),
    ],
)
def test_what_cannot_be_folded_goes_on_as_it_does_today(text: str, reason: str, leaves: Check) -> None:
    finding = leaves(text, reason, head="import torch\n")
    assert finding.message.startswith("left as it was: ")
    assert finding.hint == _TODAY


def test_the_shim_takes_it_where_that_is_asked_for(migrate: Check) -> None:
    assert "from amp_shim import amp" in migrate(_CHOSEN, head="import torch\n", apex=Apex.SHIM).after


@pytest.mark.parametrize(
    "text",
    [
        # Where Apex is missing, these train in float32.
        _CHOSEN.replace("        scaler = torch.amp.GradScaler", "        scaler = make_scaler"),
        _CHOSEN.replace("if has_apex:\n        model", "if args.apex:\n        model"),
        # That is not what the import of Apex has decided.
        _CHOSEN.replace(_FLAG, "from apex import amp\nhas_apex = True\n"),
        _CHOSEN.replace("    from apex import amp\n", "    import lmdb\n").replace(
            "try:", "from apex import amp\ntry:"
        ),
    ],
)
def test_what_is_not_native_without_apex_is_served_by_the_shim(text: str, migrate: Check) -> None:
    assert "from amp_shim import amp" in migrate(text, head="import torch\n").after


_TRIED = """
try:
    import apex.amp as amp
except ImportError:
    pass

def train(model, optimizer, x, use_amp=False, scaler=None):
    if scaler is not None:
        with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
            loss = model(x).mean()
    else:
        loss = model(x).mean()
    if use_amp:
        if scaler is not None:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            with amp.scale_loss(loss, optimizer) as scaled_loss:
                scaled_loss.backward()
            optimizer.step()
    else:
        loss.backward()
        optimizer.step()

def main(args, model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = None
    if args.amp:
        try:
            model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
        except:
            scaler = torch.amp.GradScaler("cuda")
    for x in loader:
        train(model, optimizer, x, use_amp=args.amp, scaler=scaler)
"""
_TRIED_TWICE = """
amp = None
try:
    from apex import amp
except Exception:
    print("no Apex")

model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
try:
    model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
    is_native = False
except Exception:
    scaler, is_native = torch.amp.GradScaler("cuda"), True
for x in loader:
    optimizer.zero_grad()
    with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=is_native):
        loss = model(x).mean()
    try:
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
    except Exception:
        scaler.scale(loss).backward()
    if is_native:
        scaler.step(optimizer)
        scaler.update()
    else:
        optimizer.step()
"""
_GUARD = "try:\n    import apex.amp as amp\nexcept ImportError:\n    pass\n"
_IMPORTED = """        try:
            from apex import amp
            model"""
_TRIES = _TRIED[_TRIED.index("        try:") : _TRIED.index("    for x in loader")]
_CHOOSES = _TRIED[
    _TRIED.index("        if scaler is not None:\n            scaler") : _TRIED.index("    else:\n        loss.b")
]
_HAS_SCALER, _HAS_NONE = _CHOOSES.split("        else:\n")
_MIXED = f"{_HAS_SCALER}        elif args.apex:\n{_HAS_NONE}        else:\n            loss.backward()\n"
_NESTED = (
    f"{_HAS_SCALER}        else:\n            if args.apex:\n{re.sub('^', '    ', _HAS_NONE, flags=re.M).rstrip(' ')}"
    "            else:\n                loss.backward()\n                optimizer.step()\n"
)
_HAS_SCALER = _HAS_SCALER.partition("\n")[2]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        ("except:", "except Exception as error:"),
        ("except:", "except ImportError:"),
        (_GUARD, "import apex.amp as amp\n"),
        ("        try:\n            model", _IMPORTED),
        (_CHOOSES, f"        if scaler is None:\n{_HAS_NONE}        else:\n{_HAS_SCALER}"),
    ],
)
def test_native_amp_where_initialize_raises_is_what_is_left(old: str, new: str, migrate: Check) -> None:
    plan = migrate(_TRIED.replace(old, new), head="import torch\n")
    text = _TRIED[_TRIED.index("\ndef train") :].replace(_TRIES, '        scaler = torch.amp.GradScaler("cuda")\n')
    assert plan.after == "import torch\n" + text.replace(_CHOOSES, re.sub("^    ", "", _HAS_SCALER, flags=re.M))


_MADE = '            scaler = torch.amp.GradScaler("cuda")\n'
_BY_VERSION = """            try:
                scaler = torch.amp.GradScaler("cuda")
            except AttributeError:
                scaler = torch.cuda.amp.GradScaler()
"""


def test_a_scaler_by_which_pytorch_there_is_serves_where_initialize_raises(migrate: Check) -> None:
    plan = migrate(_TRIED.replace(_MADE, _BY_VERSION), head="import torch\n")
    assert "apex" not in plan.after
    assert re.sub("^    ", "", _BY_VERSION, flags=re.M) in plan.after


@pytest.mark.parametrize(
    "text",
    [
        # A way without a scaler, or with another one.
        _TRIED.replace(_MADE, _BY_VERSION.replace("scaler = torch.cuda.amp.GradScaler()", "pass")),
        _TRIED.replace(_MADE, _BY_VERSION.replace("scaler = torch.cuda", "other = torch.cuda")),
        _TRIED.replace(_MADE, _BY_VERSION.replace("scaler = torch.cuda.amp.GradScaler()", "raise")),
        # A call that hands no scaler on.
        _TRIED + "    train(model, optimizer, x, use_amp=args.amp)\n",
        _TRIED.replace("scaler=scaler)", "scaler=find(scaler))"),
        # Another scaler, or another option that switches native AMP on.
        _TRIED.replace("    for x in", "    scaler = scaler or make(args)\n    for x in"),
        _TRIED.replace("    if scaler is not None:\n        with", "    if model.is_native:\n        with"),
        # Where there is no scaler, it may train in float32.
        _TRIED.replace(_CHOOSES, _MIXED),
        _TRIED.replace(_CHOOSES, _NESTED),
        _TRIED.replace('opt_level="O1"', 'opt_level="O1", enabled=args.low'),
        _TRIED.replace("optimizer.step()\n    else", "optimizer.step()\n            print(1)\n    else").replace(
            "    for x in", "    print(amp.state_dict())\n    for x in"
        ),
        # More than that is tried, or done.
        _TRIED.replace("        except:", "            model = wrap(model)\n        except:"),
        _TRIED.replace("        except:\n", "        except Exception as e:\n            model.why = e\n"),
        _TRIED.replace("        except:\n", "        except:\n            if args.strict:\n                raise\n"),
        # The native step is another one.
        _TRIED.replace("            scaler.step(optimizer)\n", ""),
        _TRIED_TWICE,
    ],
)
def test_native_amp_where_initialize_raises_goes_on_as_it_does_today(text: str, migrate: Check) -> None:
    plan = migrate(text, head="import torch\n")
    assert plan.after == "import torch\n" + text.removeprefix("\n")
    assert {each.hint for each in plan.findings if each.code == "AMP290"} == {_TODAY}


def test_a_step_that_another_file_calls_goes_on_as_it_does_today(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch\n" + _TRIED)
    (tmp_path / "other.py").write_text("from train import train\ntrain(net, opt, batch, use_amp=True)\n")
    outcome = migrate_paths([tmp_path], Settings())
    assert not outcome.changed
    assert _TODAY in {each.hint for each in outcome.findings}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("except:", "except OverflowError:"),
        ("            scaler = torch.amp.GradScaler", "            scaler = make_scaler"),
        ("        if scaler is not None:\n            scaler", "        if False:\n            scaler"),
    ],
)
def test_what_does_not_train_natively_where_initialize_raises_is_served_by_the_shim(
    old: str, new: str, migrate: Check
) -> None:
    assert "amp_shim" in migrate(_TRIED.replace(old, new), head="import torch\n").after


def test_the_flag_of_another_file(tmp_path: Path) -> None:
    (tmp_path / "flags.py").write_text("try:\n    from apex import amp\nexcept ImportError:\n    amp = None\n")
    text = "import torch\nfrom flags import amp\n" + _BROUGHT + _named(_BODY, "amp is not None")
    (tmp_path / "train.py").write_text(text)
    outcome = migrate_paths([tmp_path], Settings())
    assert {each.source.path.name: each.after for each in outcome.changed} == {
        "flags.py": "pass\n",
        "train.py": "import torch\n" + _BROUGHT + _named(_NATIVE),
    }
    assert not [each for each in outcome.findings if each.kind is Kind.ERROR]


_SEEN = "def {}:\n    try:\n        import apex\n        return True\n    except ImportError:\n        return False\n"


@pytest.mark.parametrize(
    ("flags", "imported", "asked", "is_left"),
    [
        (_SEEN.format("has_apex()"), "has_apex", "has_apex()", True),
        (_SEEN.format("see()"), "see", "see()", True),
        (_SEEN.format("see()").replace("import apex", "import lmdb"), "see", "see()", False),
        (_FLAG + "def scale(loss, optimizer):\n    return amp.scale_loss(loss, optimizer)\n", "*", "has_apex", True),
    ],
)
def test_another_file_that_sees_whether_apex_is_there(
    flags: str, imported: str, asked: str, is_left: bool, tmp_path: Path
) -> None:
    (tmp_path / "flags.py").write_text(flags)
    head = f"import torch\nfrom flags import {imported}\nif {asked}:\n    from apex import amp\n"
    (tmp_path / "train.py").write_text(head + _BROUGHT + _named(_BODY, asked))
    outcome = migrate_paths([tmp_path], Settings())
    after = {each.source.path.name: each.after for each in outcome.changed}
    assert ("from amp_shim" in "".join(after.values())) is not is_left
    assert (_TODAY in {each.hint for each in outcome.findings}) is is_left
