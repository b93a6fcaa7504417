"""What a program is too large for is told where a step moves, if it has to do with the step."""

from __future__ import annotations

from pathlib import Path

import pytest
from amp_migrate.engine.migrate import migrate, migrate_text
from amp_migrate.settings import Settings

SCRIPT = """\
import torch
from library import first
from torch import nn

model = nn.Linear(8, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{before}
for x, target in loader:
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy({out}, target.cuda())
    loss.backward()
    optimizer.step()
"""
TOLD = "the program is too large to look at all of what low precision does in it: step_"


@pytest.mark.parametrize(
    ("before", "out", "functions", "is_told"),
    [
        ("", "first(model(x.cuda()))", 300, True),
        ("first(model)", "model(x.cuda())", 300, True),
        ("first(12)", "model(x.cuda())", 300, False),
        ("", "first(model(x.cuda()))", 3, False),
    ],
)
def test_functions_that_nobody_has_looked_at_are_told_where_a_step_moves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str, out: str, functions: int, is_told: bool
) -> None:
    monkeypatch.setattr("amp_migrate.flow.analysis._STATEMENTS", 8)
    library = "".join(f"def step_{n}(x):\n    return step_{n + 1}(x)\n\n\n" for n in range(functions))
    library += f"def step_{functions}(x):\n    return x\n\n\nfirst = step_0\n"
    (tmp_path / "library.py").write_text(library)
    (tmp_path / "train.py").write_text(SCRIPT.format(before=before, out=out))
    outcome = migrate([tmp_path], Settings())
    assert len(outcome.changed) == 1
    told = [each.message for each in outcome.findings if each.code == "AMP504"]
    assert [each.startswith(TOLD) for each in told] == [True] * is_told


KERNELS = """\
from torch.autograd import Function
from torch.utils.cpp_extension import load

kernels = load("kernels", sources=["kernels.cu"])


class Act(Function):
    @staticmethod
    def forward(ctx, x, bias):
        return kernels.act(x, bias)
"""


@pytest.mark.parametrize("base", ["Function", "object"])
def test_a_step_stays_whose_kernels_nobody_has_seen_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, base: str
) -> None:
    monkeypatch.setattr("amp_migrate.flow.analysis._STATEMENTS", 8)
    library = "import kernels\n\nkernels.Act\n\n\n"
    library += "".join(f"def step_{n}(x):\n    return step_{n + 1}(x)\n\n\n" for n in range(300))
    (tmp_path / "library.py").write_text(library + "def step_300(x):\n    return kernels.act(x)\n\n\nfirst = step_0\n")
    (tmp_path / "kernels.py").write_text(KERNELS.replace("Act(Function)", f"Act({base})"))
    (tmp_path / "train.py").write_text(SCRIPT.format(before="", out="first(model(x.cuda()))"))
    outcome = migrate([tmp_path], Settings())
    is_told = [each.message.startswith(TOLD) for each in outcome.findings if each.code == "AMP504"]
    left = [each.message for each in outcome.findings if "kernels.py compiles may take one type" in each.message]
    assert (len(outcome.changed), len(is_told), len(left)) == ((0, 0, 1) if base == "Function" else (1, 1, 0))


BOXES = """\
from det import _C

nms = _C.nms


def kept(boxes):
    return boxes[nms(boxes{cast}, 0.7)]


"""


@pytest.mark.parametrize(("cast", "is_told"), [("", True), (".float()", False)])
def test_what_a_compiled_module_gets_before_a_program_is_too_large_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cast: str, is_told: bool
) -> None:
    monkeypatch.setattr("amp_migrate.flow.analysis._STATEMENTS", 3)
    library = BOXES.format(cast=cast)
    library += "".join(f"def step_{n}(x):\n    return step_{n + 1}(x)\n\n\n" for n in range(100))
    library += "def step_100(x):\n    return x\n\n\ndef first(x):\n    return step_0(kept(x))\n"
    (tmp_path / "det").mkdir()
    (tmp_path / "det" / "__init__.py").write_text("")
    (tmp_path / "library.py").write_text(library)
    (tmp_path / "train.py").write_text(SCRIPT.format(before="", out="first(model(x.cuda()))"))
    outcome = migrate([tmp_path], Settings())
    told = [each.message for each in outcome.findings if each.code == "AMP504"]
    assert any(each.startswith(TOLD.removesuffix("step_")) for each in told)
    assert ("code that could not be read gets a half-precision value: det._C.nms" in told) is is_told


HOOKS = """\
import torch


class Shortened(torch.optim.SGD):
    def __init__(self, model):
        super().__init__(model.parameters(), lr=0.1)
        for parameter in model.parameters():
            parameter.register_hook(self.shorten)

    def shorten(self, gradient):
        return gradient{by}


"""


@pytest.mark.parametrize(("by", "is_left"), [(" / gradient.norm()", True), (" * 0.5", False)])
def test_a_step_stays_whose_hooks_give_no_scaled_gradients_however_large_the_program_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str, is_left: bool
) -> None:
    monkeypatch.setattr("amp_migrate.flow.analysis._STATEMENTS", 8)
    library = "".join(f"def step_{n}(x):\n    return step_{n + 1}(x)\n\n\n" for n in range(300))
    library = f"{HOOKS.format(by=by)}{library}def step_300(x):\n    return x\n\n\nfirst = step_0\n"
    (tmp_path / "library.py").write_text(library)
    script = SCRIPT.format(before="", out="first(model(x.cuda()))").replace("import first", "import Shortened, first")
    (tmp_path / "train.py").write_text(
        script.replace("torch.optim.SGD(model.parameters(), lr=0.1)", "Shortened(model)")
    )
    outcome = migrate([tmp_path], Settings())
    left = [each.message for each in outcome.findings if "kept as a gradient" in each.message]
    told = [each.message for each in outcome.findings if each.message.startswith(TOLD)]
    assert (len(outcome.changed), len(left), len(told)) == ((0, 1, 0) if is_left else (1, 0, 1))


ENDING = """\
import sys
import torch
from library import F, usage
from torch import nn


class Holder:
    pass


def main():
    model = nn.Linear(8, 4).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    {before}
    for x, target in loader:
        optimizer.zero_grad()
        loss = {loss}
        loss.backward()
        optimizer.step()
    {behind}


if __name__ == "__main__":
    main()
    print("done")
"""
LIBRARY = """\
import sys
import torch.nn.functional as F


def usage():
    print("train.py")
    sys.exit(2)
"""
MSE = "nn.functional.mse_loss(model(x.cuda()), target.cuda())"
NEVER_RETURNS = "what this calls never returns, as far as it can be read: what low precision does behind it is known in"


@pytest.mark.parametrize(
    ("before", "loss", "behind", "line"),
    [
        ("Holder().start()", MSE, "", 14),
        ("held = Holder().data", MSE, "", 0),
        ("try:\n        Holder().start()\n    except AttributeError:\n        pass", MSE, "", 0),
        ("if len(sys.argv) < 2:\n        usage()", MSE, "", 0),
        ("if len(sys.argv) < 2:\n        sys.exit(1)", MSE, "", 0),
        ("pass", MSE, "sys.exit(0)", 0),
        ("pass", MSE, "raise SystemExit", 0),
        ("pass", MSE, "usage()", 0),
        ("pass", MSE, "Holder().start()", 0),
        ("pass", MSE, "while True:\n        pass", 0),
        ("unknown().start()", MSE, "", 0),
    ],
)
def test_a_step_behind_what_seems_to_end_the_program_is_told(
    tmp_path: Path, before: str, loss: str, behind: str, line: int
) -> None:
    (tmp_path / "library.py").write_text(LIBRARY)
    (tmp_path / "train.py").write_text(ENDING.format(before=before, loss=loss, behind=behind))
    outcome = migrate([tmp_path], Settings())
    assert len(outcome.changed) == 1
    told = [each.line for each in outcome.findings if each.message.startswith(NEVER_RETURNS)]
    assert told == [line] * bool(line)


HELPER = """\
import torch
from torch import nn


class Data(torch.utils.data.Dataset):
    def __init__(self, x, y):
        self.x = x.to_numpy()
        self.y = y.to_numpy()

    def __getitem__(self, index):
        return torch.from_numpy(self.x[index]).cuda(), torch.from_numpy(self.y[index]).cuda()


class Helper:
    def __init__(self):
        self.network = nn.Linear(8, 1).cuda()
        self.optimizer = torch.optim.Adam(self.network.parameters())
        self.x = None
        self.y = None

    def train(self):
        data = Data(self.x, self.y)
        for x, y in torch.utils.data.DataLoader(data):
            self.optimizer.zero_grad()
            loss = nn.functional.mse_loss(self.network(x), y)
            loss.backward()
            self.optimizer.step()
"""


def test_what_an_object_lacks_whoever_makes_it_gives_it() -> None:
    plan = migrate_text(HELPER, Settings())
    assert "self.scaler.step(self.optimizer)" in plan.after
    assert not any(NEVER_RETURNS in each.message for each in plan.findings)


def test_a_module_that_is_cast_can_be_called(tmp_path: Path) -> None:
    (tmp_path / "engine.py").write_text(
        "import torch\n\n\ndef train(model: torch.nn.Module, loader, optimizer):\n    model.train(True)\n"
        "    model = model.float()\n    for x, y in loader:\n        optimizer.zero_grad()\n"
        "        loss, _ = model(x.cuda(), y.cuda())\n        print(loss.item())\n"
        "        loss.backward()\n        optimizer.step()\n"
    )
    (tmp_path / "main.py").write_text(
        "import torch\nfrom elsewhere import Net, loader\nfrom engine import train\n\nnet = Net().cuda()\n"
        "train(net, loader, torch.optim.Adam(net.parameters()))\n"
    )
    outcome = migrate([tmp_path], Settings())
    assert len(outcome.changed) == 2
    assert not any(NEVER_RETURNS in each.message for each in outcome.findings)


def test_what_low_precision_breaks_behind_what_seems_to_end_the_program_is_found_as_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "library.py").write_text(LIBRARY + "\n\ndef spread(out):\n    return (out.t() @ out).det().log()\n")
    text = ENDING.replace("F, usage", "F, usage, spread", 1)
    texts = []
    for before in ("Holder().start()", "unknown().start()"):
        (tmp_path / "train.py").write_text(text.format(before=before, loss="spread(model(x.cuda()))", behind=""))
        outcome = migrate([tmp_path], Settings())
        found = [each.message for each in outcome.findings if not each.message.startswith(NEVER_RETURNS)]
        texts.append((found, [each.after.replace(before, "unknown().start()") for each in outcome.changed]))
    assert texts[0] == texts[1]
    assert texts[0] != (["training step moved to float16 autocast with scaler"], texts[0][1])


@pytest.mark.parametrize(
    ("library", "is_told"),
    [
        ("def first(out):\n    print 'half', out\n    return out\n", True),
        ("def first(out):\n    return out\n\n\ndef odd(:\n", True),
        ("def first(out):\n    return out\n", False),
    ],
)
def test_a_file_that_cannot_be_parsed_is_told_where_a_step_moves(tmp_path: Path, library: str, is_told: bool) -> None:
    (tmp_path / "library.py").write_text(library)
    (tmp_path / "train.py").write_text(SCRIPT.format(before="", out="first(model(x.cuda()))"))
    outcome = migrate([tmp_path], Settings())
    assert len(outcome.changed) == 1
    told = [each.message for each in outcome.findings if each.code == "AMP504" and "cannot parse" in each.message]
    assert [each.split("library.py")[1] for each in told] == [": what low precision does in it is not known"] * is_told


def test_a_step_stays_in_a_file_that_this_python_cannot_parse(tmp_path: Path) -> None:
    # LibCST reads what is newer than the running Python, and these bytes, which no Python does.
    (tmp_path / "library.py").write_text("def first(out):\n    return out\n")
    script = SCRIPT.format(before="", out="first(model(x.cuda()))")
    (tmp_path / "train.py").write_text(script + "print(b'\u00e9')\n")
    outcome = migrate([tmp_path], Settings())
    assert not outcome.changed
    (told,) = outcome.findings
    assert told.message.startswith("step left as it was: this Python (")
    assert told.message.endswith("train.py")
    (tmp_path / "train.py").write_text(script)
    assert len(migrate([tmp_path], Settings()).changed) == 1


APEX = """\
import torch
from apex import amp
from torch import nn

model = nn.Linear(8, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
for x, target in loader:
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x.cuda()), target.cuda())
    with amp.scale_loss(loss, optimizer) as scaled:
        scaled.backward()
    optimizer.step()
"""


def test_a_script_of_apex_that_this_python_cannot_parse_comes_to_the_shim(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(APEX)
    (tmp_path / "other.py").write_text(APEX + "name = b'\u00e9'\n")
    outcome = migrate([tmp_path], Settings())
    one, other = (each.after for each in outcome.changed)
    assert "scaler.scale(loss).backward()" in one
    assert other == (APEX + "name = b'\u00e9'\n").replace("from apex", "from amp_shim")
    assert [each.code for each in outcome.findings if "this Python (" in each.message] == ["AMP290"]


HEADS = """\
import torch
import torch.nn.functional as F
from torch import nn


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.score = nn.Linear(4, 4)
        self.criterion = nn.BCELoss()

    def forward(self, x, target, weight):
        p = torch.softmax(self.score(x), dim=1)
        a = F.binary_cross_entropy(p, target.clamp(0, 1), weight)
        b = self.criterion(p, target)
        return a + b
"""


@pytest.mark.parametrize("functions", [3, 300])
def test_a_refused_loss_behind_the_end_of_an_analysis_stays_in_float32(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, functions: int
) -> None:
    monkeypatch.setattr("amp_migrate.flow.analysis._STATEMENTS", 8)
    library = "import heads\n\n\n"
    library += "".join(f"def step_{n}(x):\n    return step_{n + 1}(x)\n\n\n" for n in range(functions))
    library += f"def step_{functions}(x):\n    return heads.Head()(x, x, None)\n\n\nfirst = step_0\n"
    (tmp_path / "library.py").write_text(library)
    (tmp_path / "heads.py").write_text(HEADS)
    (tmp_path / "train.py").write_text(SCRIPT.format(before="", out="first(model(x.cuda()))"))
    outcome = migrate([tmp_path], Settings())
    after = {each.source.path.name: each.after for each in outcome.changed}
    target = "target.clamp(0, 1).float()" if functions == 300 else "target.float().clamp(0, 1)"
    lines = [
        '        with torch.amp.autocast(device_type="cuda", enabled=False):',
        f"            a = F.binary_cross_entropy(p, {target}, weight)",
        "            b = self.criterion(p, target.float())",
        "        return a + b",
    ]
    assert after["heads.py"].endswith("\n".join(lines) + "\n")
    assert any(each.message.startswith(TOLD) for each in outcome.findings) is (functions == 300)


def test_a_refused_loss_is_left_where_no_step_moves_or_nothing_imports_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("amp_migrate.flow.analysis._STATEMENTS", 8)
    library = "".join(f"def step_{n}(x):\n    return step_{n + 1}(x)\n\n\n" for n in range(300))
    (tmp_path / "library.py").write_text(f"{library}def step_300(x):\n    return x\n\n\nfirst = step_0\n")
    (tmp_path / "heads.py").write_text(HEADS)
    (tmp_path / "train.py").write_text(SCRIPT.format(before="", out="first(model(x.cuda()))"))
    assert [each.source.path.name for each in migrate([tmp_path], Settings()).changed] == ["train.py"]


UNFIT = """\
import torch
from apex import amp
from torch import nn


class Net(nn.Module):
    def __init__(self, args, size, labels=-1):
        super().__init__()
        self.fc = nn.Linear(size, labels)

    def forward(self, x, y):
        return (nn.functional.cross_entropy(self.fc(x), y),)


def main(args):
    model = Net({given}labels=2)
    model.to(0)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
    for step, (x, y) in enumerate(args.data):
        loss = model(x=x.cuda(), y=y.cuda())[0] / args.accumulation
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
        if step % args.accumulation == 0:
            torch.nn.utils.clip_grad_norm_(amp.master_params(optimizer), args.max_grad_norm)
            optimizer.step()
            model.zero_grad()
"""


@pytest.mark.parametrize(("given", "reasons"), [("args, 4, ", []), ("4, ", ["what this calls never returns"])])
def test_behind_a_call_that_does_not_fit_no_state_of_a_scaler_is_told(given: str, reasons: list[str]) -> None:
    plan = migrate_text(UNFIT.format(given=given), Settings())
    told = [each.message for each in plan.findings if each.code == "AMP290"]
    assert [each for each, why in zip(told, reasons, strict=True) if not (why in each and "(line 16)" in each)] == []


SWITCHED = """\
import sys
import torch
from torch import nn

TESTED = {tested}
model = nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def load(with_test):
    train = [torch.randn(8, 8).cuda() for _ in range(10)]
    return (train, train) if with_test else (train, None)


def show(model, shape):
    return model(torch.zeros(shape)).sum()


train_set, test_set = load(TESTED)
for epoch in range(3):
    for x in train_set:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), x)
        loss.backward()
        optimizer.step()
        {behind}
    if {test}:
        for x in test_set:
            x = x.view(-1, 8)
            shown = {shown}
            print(shown, nn.functional.mse_loss(model(x), x).item())
"""
ADDED_UP = "more = nn.functional.mse_loss(model(x), x + 1)\n        more.backward()\n        optimizer.step()"


@pytest.mark.parametrize(
    ("tested", "test", "shown", "is_told"),
    [
        (False, "TESTED", "1", False),
        (False, "not TESTED", "1", True),
        (True, "TESTED", "1", False),
        (True, "TESTED", "show(model, 8, 8)", True),
        ("len(sys.argv) > 1", "TESTED", "show(model, 8, 8)", True),
        (False, "epoch > 1 and TESTED", "1", False),
    ],
)
def test_what_a_switch_that_is_off_leaves_out_ends_nothing(
    tested: object, test: str, shown: str, is_told: bool
) -> None:
    plan = migrate_text(SWITCHED.format(tested=tested, test=test, shown=shown, behind="pass"), Settings())
    assert "scaler.step(optimizer)" in plan.after
    assert any(each.message.startswith(NEVER_RETURNS) for each in plan.findings) is is_told


@pytest.mark.parametrize(
    ("test", "reason"), [("len(sys.argv) > 1", "true gradients are added"), ("True", NEVER_RETURNS)]
)
def test_a_reason_that_holds_past_a_call_that_never_returns_is_told(test: str, reason: str) -> None:
    text = SWITCHED.format(tested=True, test=test, shown="show(model, 8, 8)", behind=ADDED_UP)
    plan = migrate_text(text, Settings())
    assert plan.after == text
    assert all(reason in each.message for each in plan.findings)


_CLONED = """\
import package
import torch
from torch import nn


class Maml:
    def __init__(self, loader):
        self.loader = loader

    def adapt(self):
        meta = package.Meta(nn.Linear(8, 1)).cuda()
        optimizer = torch.optim.SGD(meta.parameters(), 0.1)
        for x, y in self.loader:
            learner = meta.<copied>
            learner.adapt(nn.functional.mse_loss(learner(x.cuda()), y.cuda()))
            total = nn.functional.mse_loss(learner(x.cuda()), y.cuda())
            optimizer.zero_grad()
            total.backward()
            optimizer.step()

    def train(self):
        model = nn.Linear(8, 1).cuda()
        plain = torch.optim.SGD(model.parameters(), 0.1)
        for x, y in self.loader:
            plain.zero_grad()
            loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())
            loss.backward()
            plain.step()


maml = Maml([(torch.randn(4, 8), torch.randn(4, 1))] * 3)
maml.adapt()
maml.train()
"""


@pytest.mark.parametrize("copied", ["clone()", "copy()"])
def test_a_method_of_an_unread_model_is_its_own_though_tensors_have_one_of_that_name(copied: str) -> None:
    plan = migrate_text(_CLONED.replace("<copied>", copied), Settings())
    assert [each.code for each in plan.findings] == ["AMP590", "AMP501"]
    assert "scaler.step(plain)" in plan.after


_CURRIED = """\
import torch
from package import <decorator>
from torch import nn


@<decorator>
def collate(scale, items):
    return torch.stack(items) * scale


model = nn.Linear(8, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
collate_fn = collate(2.0)
for x in torch.utils.data.DataLoader(data, collate_fn=collate_fn):
    loss = model(x.cuda()).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(("decorator", "is_told"), [("curry", False), ("wraps", True)])
def test_a_decorator_that_nobody_has_read_may_take_fewer_arguments(decorator: str, is_told: bool) -> None:
    found = migrate_text(_CURRIED.replace("<decorator>", decorator), Settings()).findings
    assert any("what this calls never returns" in each.message for each in found) is is_told
