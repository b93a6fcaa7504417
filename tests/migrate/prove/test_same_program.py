"""Two programs are the same if the same is left of them when the precision is taken out."""

from __future__ import annotations

import pytest
from amp_migrate.prove.check import Change, Project, faults
from amp_migrate.prove.code.program import Others

from .conftest import Check

PLAIN = """
import torch
from torch import nn
from data import batches

model = nn.Linear(4, 1).cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
criterion = nn.MSELoss()


def save(path, epoch):
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, path)


for epoch in range(3):
    for x, y in batches:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    save("last.pt", epoch)
"""
NATIVE = """
import torch
from torch import nn
from data import batches

model = nn.Linear(4, 1).cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cuda")
criterion = nn.MSELoss()


def save(path, epoch):
    torch.save(
        {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "scaler": scaler.state_dict(),
            "epoch": epoch,
        },
        path,
    )


for epoch in range(3):
    for x, y in batches:
        optimizer.zero_grad()
        with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
            loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
    save("last.pt", epoch)
"""
APEX = """
import torch
from torch import nn
from apex import amp
from data import batches

model = nn.Linear(4, 1).cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
criterion = nn.MSELoss()


def save(path, epoch):
    torch.save(
        {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "amp": amp.state_dict(), "epoch": epoch},
        path,
    )


for epoch in range(3):
    for x, y in batches:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
        nn.utils.clip_grad_norm_(amp.master_params(optimizer), 1.0)
        optimizer.step()
    save("last.pt", epoch)
"""


@pytest.mark.parametrize("before", [PLAIN, APEX], ids=["float32", "apex"])
def test_a_step_and_its_native_form_are_one_program(wrong: Check, before: str) -> None:
    assert wrong(before, NATIVE) == ""


def test_native_code_without_its_scaler_is_one_program(wrong: Check) -> None:
    bf16 = NATIVE.replace('scaler = torch.amp.GradScaler("cuda")\n', "").replace(
        '            "scaler": scaler.state_dict(),\n', ""
    )
    bf16 = bf16.replace("scaler.scale(loss).backward()", "loss.backward()").replace("float16", "bfloat16")
    bf16 = bf16.replace("        scaler.unscale_(optimizer)\n", "").replace("        scaler.update()\n", "")
    bf16 = bf16.replace("scaler.step(optimizer)", "optimizer.step()")
    assert wrong(NATIVE, bf16) == ""
    assert wrong(PLAIN, bf16) == ""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("        nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n", ""),
        ("clip_grad_norm_(model.parameters(), 1.0)", "clip_grad_norm_(model.parameters(), 2.0)"),
        ("        optimizer.zero_grad()\n", ""),
        ("scaler.step(optimizer)", "scaler.step(model)"),
        ("        scaler.step(optimizer)\n", ""),
        ('"epoch": epoch', '"epochs": epoch'),
        ('            "optimizer": optimizer.state_dict(),\n', ""),
        ("loss = criterion(model(x), y)", "loss = criterion(model(x), x)"),
        ("scaler.scale(loss).backward()", "scaler.scale(loss.mean()).backward()"),
        ('    save("last.pt", epoch)', '        save("last.pt", epoch)'),
        ("lr=1e-3", "lr=1e-4"),
        ("nn.MSELoss()", "nn.L1Loss()"),
        ("model(x), y)", "model(x).float(), y.float().long())"),
    ],
)
def test_what_computes_something_else_is_another_program(wrong: Check, old: str, new: str) -> None:
    assert NATIVE.count(old) == 1
    assert wrong(PLAIN, NATIVE.replace(old, new)).startswith("the result is another program: ")


@pytest.mark.parametrize(("limit", "is_same"), [("1.0", True), ("max_norm=1.0", True), ("2.0", False)])
def test_an_older_name_of_one_function_is_the_same(wrong: Check, limit: str, is_same: bool) -> None:
    old = NATIVE.replace("clip_grad_norm_(model.parameters(), 1.0)", f"clip_grad_norm(model.parameters(), {limit})")
    assert (wrong(PLAIN, old) == "") is is_same


def test_the_difference_is_shown_with_both_lines() -> None:
    from .conftest import found

    fault = found(PLAIN, NATIVE.replace("lr=1e-3", "lr=1e-4"))["train.py"]
    assert (fault.line_before, fault.line_after) == (7, 7)
    assert fault.message == (
        "the result is another program: `torch.optim.Adam(0=model.parameters(), 1=0.0001)` stands where the original "
        "has `torch.optim.Adam(0=model.parameters(), 1=0.001)`"
    )


def test_a_cast_of_what_is_floating_changes_nothing(wrong: Check) -> None:
    assert (
        wrong("import torch\np = torch.sigmoid(x)\nshow(p)\n", "import torch\np = torch.sigmoid(x)\nshow(p.float())\n")
        == ""
    )


def test_a_cast_of_what_may_be_whole_numbers_is_another_program(wrong: Check) -> None:
    assert "labels.float()" in wrong("import torch\nshow(labels)\n", "import torch\nshow(labels.float())\n")


def test_the_targets_of_a_loss_that_takes_only_floats_may_be_cast(wrong: Check) -> None:
    before = "import torch.nn.functional as F\nloss = F.binary_cross_entropy(p, y)\n"
    after = "import torch.nn.functional as F\nloss = F.binary_cross_entropy(p.float(), y.float())\n"
    assert wrong(before, after) == ""
    assert wrong(before.replace("binary_", ""), after.replace("binary_", "")) != ""


@pytest.mark.parametrize("given", ["torch.load(path)", 'torch.load(path)["amp"]', 'state.pop("amp")'])
def test_what_a_state_is_restored_from_is_still_made(wrong: Check, given: str) -> None:
    restored = f"amp.load_state_dict({given})\n"
    once = f'taken = {given}\nif "scale" in taken:\n    scaler.load_state_dict(taken)\n'
    assert wrong(APEX + restored, NATIVE + once) == ""
    assert wrong(APEX + restored, NATIVE) != ""
    assert wrong(APEX + restored, NATIVE + once.replace("in taken", f"in {given}")) != ""


def test_a_scaler_goes_through_calls_and_files(wrong: Check) -> None:
    engine = """
    def step(model, x, optimizer):
        loss = model(x).sum()
        loss.backward()
        optimizer.step()
    """
    main = """
    import torch
    from engine import step
    from data import batches
    model = torch.nn.Linear(3, 3)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for x in batches:
        step(model, x, optimizer)
    """
    native = """
    import torch
    def step(model, x, optimizer, scaler):
        with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
            loss = model(x).sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    """
    scaled = main.replace(", 0.1)\n", ', 0.1)\n    scaler = torch.amp.GradScaler("cuda")\n')
    after = {"engine.py": native, "main.py": scaled.replace("x, optimizer)", "x, optimizer, scaler)")}
    before = {"engine.py": engine, "main.py": main}
    assert wrong(before, after) == ""
    assert wrong(before, {**after, "main.py": scaled}) != ""  # the call does not bring the scaler
    assert (
        wrong(before, {**after, "main.py": after["main.py"].replace("optimizer, scaler)", "scaler, optimizer)")}) != ""
    )


@pytest.mark.parametrize(
    ("asked", "is_same"),
    [
        ("", True),
        ("scaler is not None and ", True),
        ("model is not None and ", True),
        ("model and os.path.isdir(path) and ", True),
        ("seen(model) and ", False),
        ("made().scaler is not None and ", False),
        ("scaler is not None or ", False),
    ],
)
def test_a_scaler_is_restored_from_a_file_of_its_own_where_there_is_one(
    wrong: Check, asked: str, is_same: bool
) -> None:
    test = f'if {asked}os.path.exists("scaler.pt"):'
    restored = f'{test}\n    scaler.load_state_dict(torch.load("scaler.pt"))\n'
    assert (wrong("import os\n" + PLAIN, "import os\n" + NATIVE + restored) == "") is is_same


@pytest.mark.parametrize(
    ("made", "again", "is_same"),
    [
        ("torch.autograd.grad(loss, ps)", "tuple(g for g in gs)", True),
        ("torch.autograd.grad(loss, ps)", "tuple([g for g in gs])", True),
        ("torch.autograd.grad(loss, ps)", "[g for g in gs]", False),  # which is no tuple
        ("torch.autograd.grad(loss, ps)", "tuple(g for g in gs if g)", False),
        ("torch.autograd.grad(loss, ps)", "tuple(g for g in others)", False),
        ("torch.autograd.grad(loss, ps)[0]", "tuple(g for g in gs)", False),
        ("lines(ps)", "tuple(g for g in gs)", False),
    ],
)
def test_a_tuple_of_all_gradients_is_what_they_are(wrong: Check, made: str, again: str, is_same: bool) -> None:
    text = "import torch\n{}other.update(ps, gs)\nprint(zip(ps, gs))\n"
    scaled = "scaler = torch.amp.GradScaler('cuda')\ngs = " + made.replace("loss", "scaler.scale(loss)")
    assert (wrong(text.format(f"gs = {made}\n"), text.format(f"{scaled}\ngs = {again}\n")) == "") is is_same


@pytest.mark.parametrize("other", ["others", "(1, 2)", "tuple(g for g in others)"])
def test_what_a_name_stands_for_in_lines_that_stay_is_no_other(wrong: Check, other: str) -> None:
    text = "import torch\ngs = lines(ps)\n{}print(gs)\n"
    assert wrong(text.format(""), text.format(f"gs = {other}\n")) != ""


@pytest.mark.parametrize(("decorator", "is_same"), [("", True), ("@task\n", False)])
def test_a_call_that_raises_gives_no_parameter_its_value(wrong: Check, decorator: str, is_same: bool) -> None:
    def files(made: str, scaler: str) -> dict[str, str]:
        head = "import torch\nfrom util import show\n"
        return {
            "util.py": f"from tasks import task\n{decorator}def show(model, head{scaler}, epoch):\n    print(epoch)\n",
            "good.py": f"{head}{made}show(1, 2{scaler}, 3)\n",
            "bad.py": f"{head}show(1, 2, 'a', 4, 5)\n",
        }

    made = 'scaler = torch.amp.GradScaler("cuda")\n'
    assert (wrong(files("", ""), files(made, ", scaler")) == "") is is_same


@pytest.mark.parametrize(("given", "is_same"), [("*args", True), ("*args[:3]", False)])
def test_a_function_under_a_decorator_that_hands_all_on_takes_a_scaler(wrong: Check, given: str, is_same: bool) -> None:
    def files(made: str, scaler: str) -> dict[str, str]:
        return {
            "util.py": "def timed(f):\n    def inner(*args, **kwargs):\n"
            f"        return f({given}, **kwargs)\n    return inner\n",
            "train.py": f"import torch\nfrom util import timed\n@timed\ndef show(model, head{scaler}, epoch=1):\n"
            f"    print(epoch)\n{made}show(1, 2{scaler}, 3)\n",
        }

    made = 'scaler = torch.amp.GradScaler("cuda")\n'
    assert (wrong(files("", ""), files(made, ", scaler")) == "") is is_same


def test_the_scaler_of_an_object_and_its_checkpoint_go(wrong: Check) -> None:
    before = """
    import torch
    class Trainer:
        def __init__(self, model):
            self.model = model
            self.optimizer = torch.optim.SGD(model.parameters(), 0.1)
        def load(self, path):
            state = torch.load(path)
            self.optimizer.load_state_dict(state["optimizer"])
        def step(self, x):
            loss = self.model(x).sum()
            loss.backward()
            self.optimizer.step()
            return loss.item()
    """
    after = """
    import torch
    class Trainer:
        def __init__(self, model):
            self.model = model
            self.optimizer = torch.optim.SGD(model.parameters(), 0.1)
            self.scaler = torch.amp.GradScaler("cuda")
        def load(self, path):
            state = torch.load(path)
            self.optimizer.load_state_dict(state["optimizer"])
            if "scaler" in state:
                self.scaler.load_state_dict(state["scaler"])
        def step(self, x):
            with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                loss = self.model(x).sum()
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
            return loss.item()
    """
    assert wrong(before, after) == ""
    assert wrong(before, after.replace("return loss.item()", "return loss")) != ""
    assert wrong(before, after.replace('load_state_dict(state["optimizer"])', 'load_state_dict(state["scaler"])')) != ""


def test_what_stands_under_one_key_of_a_checkpoint_is_not_what_stands_under_another(wrong: Check) -> None:
    before = """
    import torch
    class Trainer:
        def save(self):
            package = {}
            package["model"] = {"state": self.model.state_dict()}
            package["optimizer"] = self.optimizer.state_dict()
            torch.save(package, "last.pt")
            part = package["model"]
            part["state"] = None
            torch.save(part, "best.pt")
        def __init__(self, model):
            self.model = model
            self.optimizer = torch.optim.SGD(model.parameters(), 0.1)
    """
    after = before.replace(
        "torch.save(package,", 'package["scaler"] = self.scaler.state_dict()\n            torch.save(package,'
    ).replace("self.model = model", 'self.model = model\n            self.scaler = torch.amp.GradScaler("cuda")')
    assert wrong(before, after) == ""
    assert wrong(before, after.replace('part = package["model"]', 'part = package["scaler"]')) != ""


def test_an_option_that_only_switches_precision_goes(wrong: Check) -> None:
    before = """
    import argparse, torch
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float)
    args = parser.parse_args()
    loss = model(x, args.lr)
    """
    after = """
    import argparse, torch
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float)
    parser.add_argument("--amp", action="store_true")
    args = parser.parse_args()
    with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=args.amp):
        loss = model(x, args.lr)
    """
    assert wrong(before, after) == ""
    assert wrong(before, after.replace('parser.add_argument("--lr", type=float)', "")) != ""


def test_an_option_that_nobody_reads_is_compared_where_both_have_it(wrong: Check) -> None:
    before = """
    import argparse
    from torch.cuda.amp import autocast
    parser = argparse.ArgumentParser()
    parser.add_argument("--path", default="a")
    with autocast():
        y = model(x)
    """
    after = before.replace("torch.cuda.amp", "torch.amp").replace("autocast()", 'autocast("cuda")')
    option = '    parser.add_argument("--path", default="a")\n'
    assert wrong(before, after) == ""
    assert wrong(before, after.replace(option, option * 2)) != ""


def test_deprecated_names_are_what_they_stand_for(wrong: Check) -> None:
    before = """
    import torch
    from torch.cuda.amp import autocast as region
    def forward(x):
        with region():
            return torch.is_autocast_cpu_enabled(), model(x)
    """
    after = """
    import torch
    from torch.amp import autocast
    def forward(x):
        with autocast(device_type="cuda", dtype=torch.float16):
            return torch.is_autocast_enabled("cpu"), model(x)
    """
    assert wrong(before, after) == ""
    assert wrong(before, after.replace('"cpu"', '"cuda"')) != ""


def test_a_name_for_part_of_an_expression_goes_back(wrong: Check) -> None:
    before = "import torch\ndef f(x):\n    return torch.nn.functional.cross_entropy(model(x), target(x))\n"
    after = """
    import torch
    def f(x):
        logits = model(x)
        return torch.nn.functional.cross_entropy(logits, target(x))
    """
    assert wrong(before, after) == ""
    swapped = after.replace("logits = model(x)", "y = target(x)\n        logits = model(x)").replace(
        "logits, target(x)", "logits, y"
    )
    assert wrong(before, swapped) != ""  # target(x) now runs before model(x)


@pytest.mark.parametrize(
    ("first", "is_same"),
    [
        ("sigmoid(a(x))", True),
        ("nn.functional.dropout(a(x))", False),  # draws before b(x) does, which may draw, too
        ("sigmoid(a(x), out=y)", False),
        ("not_known(a(x))", False),
    ],
)
def test_operators_that_only_compute_may_run_behind_a_call(wrong: Check, first: str, is_same: bool) -> None:
    before = f"import torch\ndef f(x):\n    return torch.{first} + b(x)\n"
    lines = f"p = a(x)\n    q = b(x)\n    return torch.{first.replace('a(x)', 'p')} + q"
    assert (wrong(before, f"import torch\ndef f(x):\n    {lines}\n") == "") is is_same


def test_a_name_that_a_branch_assigns_anew_does_not_go_back(wrong: Check) -> None:
    before = """
    from torch.cuda.amp import autocast

    def length(model, first):
        found = first
        for layer in model.modules():
            if layer.stride:
                found = found // layer.stride
        with autocast():
            return found.int()
    """
    after = before.replace("torch.cuda.amp", "torch.amp").replace("autocast()", 'autocast("cuda")')
    assert wrong(before, after) == ""
    assert wrong(before, after.replace("found = found // layer.stride", "pass")) != ""


def test_apex_is_what_stands_for_it_in_torch(wrong: Check) -> None:
    before = """
    import torch
    from apex.parallel import DistributedDataParallel as DDP
    from apex.optimizers import FusedAdam
    net = DDP(torch.nn.Linear(3, 3))
    optimizer = FusedAdam(net.parameters(), lr=0.1)
    """
    shim = before.replace("from apex.", "from amp_shim.")
    assert wrong(before, shim) == ""
    assert wrong(before, shim.replace("lr=0.1", "lr=0.2")) != ""


def test_a_newer_syntax_than_this_python_reads_is_told(wrong: Check) -> None:
    assert "newer Python" in wrong("x = 1\n", "x = (\n")


def test_a_name_is_followed_through_files_that_hand_it_on(wrong: Check) -> None:
    before = {
        "compat.py": "from torch.cuda.amp import autocast\n",
        "main.py": "import compat\nwith compat.autocast():\n    y = model(x)\n",
    }
    after = {
        "compat.py": "from torch.amp import autocast\n",
        "main.py": 'import compat\nwith compat.autocast(device_type="cuda"):\n    y = model(x)\n',
    }
    assert wrong(before, after) == ""
    assert wrong(before, {**after, "main.py": after["main.py"].replace("model(x)", "model(y)")}) != ""


def test_a_name_is_looked_for_in_all_modules_that_a_file_imports_everything_from() -> None:
    kept = {
        "utils": "from .first import *\nfrom .second import \\\n    *\nfrom .third import *\n",
        "utils.first": "a = 1\n",
    }
    before = {
        "utils.second": "def load(optimizer, path):\n    optimizer.load_state_dict(path)\n",
        "main": "import utils\nutils.load(optimizer, path)\n",
    }
    after = {
        "utils.second": before["utils.second"]
        .replace("(optimizer, path)", "(optimizer, scaler, path)")
        .replace("(path)\n", '(path)\n    scaler.load_state_dict(path["scaler"])\n'),
        "main": 'import torch, utils\nscaler = torch.amp.GradScaler("cuda")\nutils.load(optimizer, scaler, path)\n',
    }

    def locate(dotted: str, importer: str) -> str | None:
        name = f"{importer}{dotted}" if dotted.startswith(".") else dotted
        return name if name in {**kept, **before} else None

    def text(dotted: str, importer: str) -> str | None:
        return kept.get(locate(dotted, importer) or "")

    project = Project(locate, Others(text, lambda word: False), ((2, 6), (2, 15)))
    assert faults([Change(name, before[name], after[name]) for name in before], project) == {}
    after["main"] = after["main"].replace("scaler, path", "scaler, optimizer")
    assert faults([Change(name, before[name], after[name]) for name in before], project) != {}


def test_files_that_import_each_other_come_to_an_end(wrong: Check) -> None:
    before = {
        "a.py": "from b import f\nfrom torch.cuda.amp import autocast\n",
        "b.py": "from a import autocast, f\nf()\n",
    }
    after = {**before, "a.py": "from b import f\nfrom torch.amp import autocast\n"}
    assert wrong(before, after) == ""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("torch.backends.cudnn.benchmark = True", "torch.backends.cudnn.benchmark = False"),
        ("model.training = False", "pass"),
        ("lr = 0.1", "lr = 0.2"),
    ],
)
def test_what_somebody_else_may_read_is_compared(wrong: Check, old: str, new: str) -> None:
    text = f"import torch\nfrom torch.cuda.amp import autocast\n{old}\nwith autocast():\n    y = model(x)\n"
    assert wrong(text, text) == ""
    assert wrong(text, text.replace(old, new)) != ""


def test_the_body_of_a_method_that_nobody_calls_is_compared(wrong: Check) -> None:
    before = """
    import torch
    class Module(torch.nn.Module):
        def training_step(self, batch):
            return self.loss(batch)
    """
    assert wrong(before, before.replace("return self.loss(batch)", "return self.loss(batch) / 2")) != ""


def test_two_methods_of_one_text_are_told_apart_where_one_changes(wrong: Check) -> None:
    both = "class {}:\n    def __init__(self):\n        self.reset()\n        return\n"
    trainer = both.format("Trainer")
    before = f"import torch\n\n\n{trainer}\n\n{both.format('Other')}"
    made = trainer.replace("        return", '        self.scaler = torch.amp.GradScaler("cuda")\n        return')
    assert not wrong(before, before.replace(trainer, made))


def test_a_method_that_does_not_take_the_arguments_of_a_call_gets_none_of_it(wrong: Check) -> None:
    step = "        self.model(batch).sum().backward()\n        optimizer.step()\n"
    native = (
        '        with torch.amp.autocast(device_type="cuda", dtype=torch.float16):\n'
        "            loss = self.model(batch).sum()\n"
        "        scaler.scale(loss).backward()\n        scaler.step(optimizer)\n        scaler.update()\n"
    )
    classes = (
        "import torch\nclass One:\n    def train(self, batch, optimizer, epochs=1):\n{0}\n"
        "class Two:\n    def train(self, batch, other, optimizer, epochs=1):\n{0}\n"
    )
    main = (
        "import torch\nfrom trainers import One, Two\n"
        "def run(trainer, model, x):\n"
        "    optimizer = torch.optim.SGD(model.parameters(), 0.1)\n"
    )
    call = "    trainer.train(x, optimizer, epochs=3)\n"
    made = '    scaler = torch.amp.GradScaler("cuda")\n    trainer.train(x, optimizer, scaler, epochs=3)\n'
    before = {"trainers.py": classes.format(step), "main.py": main + call}
    moved = classes.format(native).replace("optimizer, epochs", "optimizer, scaler, epochs")
    assert wrong(before, {"trainers.py": moved, "main.py": main + made}) == ""
    twisted = made.replace("optimizer, scaler, epochs", "scaler, optimizer, epochs")
    assert wrong(before, {"trainers.py": moved, "main.py": main + twisted}) != ""


_OPENED = """        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
"""
_KEPT = """        context = amp.scale_loss(loss, optimizer)
        with context as scaled_loss:
            scaled_loss.backward()
"""
_GIVEN = """        with scaled(loss) as scaled_loss:
            scaled_loss.backward()
"""
_GIVES = "\n\ndef scaled(loss):\n    return amp.scale_loss(loss, optimizer)\n\n\ndef save("
_YIELDS = (
    "\n\n@contextlib.contextmanager\ndef scaled(loss):\n    with amp.scale_loss(loss, optimizer) as own:\n"
    "        yield own\n\n\ndef save("
)


def _opening(opened: str, gives: str) -> tuple[str, str]:
    """Apex's program with the loss scaled otherwise, and the native one."""
    before, native = (text.replace("import torch\n", "import contextlib\nimport torch\n", 1) for text in (APEX, NATIVE))
    return before.replace(_OPENED, opened).replace("\n\ndef save(", gives), native


@pytest.mark.parametrize(
    ("opened", "gives"),
    [
        (_KEPT, "\n\ndef save("),
        (_KEPT.replace("optimizer)", "optimizer) if x else contextlib.nullcontext(loss)", 1), "\n\ndef save("),
        (_GIVEN, _GIVES),
        (_GIVEN, _YIELDS),
    ],
)
def test_a_scaled_loss_that_comes_by_a_name_or_a_function_is_the_loss(wrong: Check, opened: str, gives: str) -> None:
    assert wrong(*_opening(opened, gives)) == ""


@pytest.mark.parametrize(
    ("opened", "gives"),
    [
        (_KEPT.replace("loss,", "2 * loss,"), "\n\ndef save("),
        (_KEPT.replace("        with", "        loss = 2 * loss\n        with"), "\n\ndef save("),
        (_KEPT.replace("optimizer)", "optimizer) if x else contextlib.nullcontext(2 * loss)"), "\n\ndef save("),
        (_GIVEN, _GIVES.replace("    return", "    count()\n    return")),
        (_GIVEN, _GIVES.replace("loss, optimizer", "2 * loss, optimizer")),
        (_GIVEN, _YIELDS.replace("    with", "    count()\n    with")),
        (_GIVEN, _YIELDS.replace("yield own", "yield 2 * own")),
        (_GIVEN.replace("scaled(loss)", "scaled(2 * loss)"), _YIELDS),
    ],
)
def test_a_scaled_loss_that_is_another_makes_another_program(wrong: Check, opened: str, gives: str) -> None:
    assert wrong(*_opening(opened, gives))


@pytest.mark.parametrize(
    ("made", "is_same"),
    [
        ("Norm(width, eps=1e-12)", True),
        ("Norm(width, 1e-12, True)", True),
        ("Norm(width, 1e-12, True, True)", False),
        ("Norm(width, memory_efficient=True)", False),  # which torch's class does not take
    ],
)
def test_a_variable_that_holds_a_class_of_apex_takes_the_same_arguments(wrong: Check, made: str, is_same: bool) -> None:
    text = (
        "\n{}\n\n\ndef make(width):\n    return ["
        + made
        + "]\n\n\ndef is_one(module):\n    return isinstance(module, Norm)\n"
    )
    head = "from torch import nn\n"
    apex = f"{head}from apex.normalization import FusedLayerNorm as LayerNorm\n"
    assert (wrong(apex + text.format("Norm = LayerNorm"), head + text.format("Norm = nn.LayerNorm")) == "") is is_same


@pytest.mark.parametrize("kind", ["torch.amp.GradScaler", "GradScaler", '"torch.amp.GradScaler"'])
def test_a_parameter_that_says_it_is_a_scaler(wrong: Check, kind: str) -> None:
    head = "import torch\nfrom torch.amp import GradScaler\n\n\n"
    before = head + 'def save(parts, path):\n    torch.save({"parts": parts}, path)\n'
    saved = 'torch.save({"parts": parts, "scaler": scaler.state_dict()}, path)'
    after = f"{head}def save(parts, path, scaler: {kind}):\n    {saved}\n"
    assert (wrong(before, after) == "") is not kind.startswith('"')


def test_a_parameter_that_says_it_is_a_scaler_of_its_own(wrong: Check) -> None:
    head = "import torch\n\n\nclass GradScaler(list):\n    pass\n\n\n"
    before = head + 'def save(parts, path):\n    torch.save({"parts": parts}, path)\n'
    after = (
        head
        + 'def save(parts, path, scaler: GradScaler):\n    torch.save({"parts": parts, "s": scaler.copy()}, path)\n'
    )
    assert wrong(before, after) != ""
