"""What low precision breaks in a step stays as it was; what it may harm moves, and is told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from textwrap import indent

import pytest
from amp_migrate.engine.migrate import migrate, migrate_text
from amp_migrate.flow.files import Files
from amp_migrate.flow.questions import Questions
from amp_migrate.prove import precision
from amp_migrate.report.finding import Kind
from amp_migrate.settings import Apex, Dtype, Settings

STEP = """\
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
HEAD = """\
import torch
from torch import nn

model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.Linear(8, 4)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
losses = [nn.BCELoss(), nn.MSELoss()]


def sample(x):
    with torch.no_grad():
        best = model(x).argmax(1)
    return model(x), best


for x, target in loader:
"""
SHOWN = """\
import torch


def shown(model, x):
    with torch.no_grad(), torch.cuda.amp.autocast():
        return model(x)
"""
# May clip what is not scaled, if the first optimizer is None.
TWO_OPTIMIZERS = """\
def train(model, loader, first, second, clip):
    for x, y in loader:
        loss = torch.nn.functional.mse_loss(model(x), y)
        if first is not None:
            first.zero_grad()
        second.zero_grad()
        loss.backward()
        if clip > 0:
            if first is not None:
                torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        if first is not None:
            first.step()
        second.step()
"""
NO_GRAD = f"{HEAD}    out, best = sample(x)\n    loss = nn.functional.cross_entropy(out, best)\n{STEP}"
GRAM = f"{HEAD}    out = model(x)\n    loss = (out @ out.t()).square().mean()\n{STEP}"


@pytest.mark.parametrize(
    ("target", "region"),
    [
        ((2, 6), 'torch.amp.autocast(device_type="cuda", dtype=torch.float16, cache_enabled=False)'),
        ((2, 15), 'torch.amp.autocast(device_type="cuda", dtype=torch.float16)'),
    ],
)
def test_a_weight_under_no_grad_and_with_gradients_is_cast_for_each(target: tuple[int, int], region: str) -> None:
    plan = migrate_text(NO_GRAD, Settings(target_torch=target))
    assert f"with {region}:\n        out, best = sample(x)" in plan.after
    assert migrate_text(plan.after, Settings(target_torch=target)).after == plan.after


def test_a_refused_loss_that_is_not_seen_by_its_name_leaves_the_step() -> None:
    text = f"{HEAD}    out = model(x).sigmoid()\n    loss = sum(each(out, target) for each in losses)\n{STEP}"
    plan = migrate_text(text, Settings())
    assert plan.after == text
    assert [(each.code, each.kind) for each in plan.findings] == [("AMP590", Kind.LEFT)]
    assert plan.findings[0].message == "left as it was: autocast refuses it: binary_cross_entropy (line 17)"


def test_true_gradients_are_not_added_to_scaled_ones() -> None:
    text = f"{HEAD}    loss = model(x).mean()\n{STEP}    model(x).sum().backward()\n    optimizer.step()\n"
    plan = migrate_text(text, Settings())
    assert plan.after == text
    assert plan.findings[0].code == "AMP590"


@pytest.mark.parametrize("dtype", [Dtype.FP16, Dtype.BF16])
def test_what_may_overflow_or_round_moves_and_is_told(dtype: Dtype) -> None:
    plan = migrate_text(GRAM, Settings(dtype=dtype))
    assert "with torch.amp.autocast(" in plan.after
    assert {each.code for each in plan.findings} == {"AMP501", "AMP504"}


def test_a_variance_as_a_difference_of_means_is_told_and_bfloat16_is_no_way_out() -> None:
    variance = "    var = (out * out).mean(dim=0) - out.mean(dim=0) ** 2\n"
    text = f"{HEAD}    out = model(x)\n{variance}    loss = var.mean()\n{STEP}"
    told = [each for each in migrate_text(text, Settings()).findings if each.code == "AMP504"]
    assert [(each.line, "E[x*y] - E[x]*E[y]" in each.message, "bf16" in each.hint) for each in told] == [
        (17, True, False)
    ]


KEPT = """\
import torch
from local_blocks import Block
from torch import nn


class Cosine(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Block(8)
        self.weight = nn.Parameter(torch.randn(8, 32))
        self.register_buffer("scale", torch.tensor(16.0))

    def forward(self, x):
        x = self.block(nn.functional.linear(x, self.weight))
        x = nn.functional.normalize(x, dim=1)
        return torch.matmul(x, self.weight.t()) * self.scale


def keep(model, loader):
    kept = []
    with torch.no_grad():
        for x, _ in loader:
            shares = torch.softmax(model(x.cuda()), dim=1)
            kept.append(model(x.cuda()).cpu())
    kept = torch.cat(kept)
    return kept.argmax(1), kept.std(0), shares.max(1)


def main(loader):
    model = Cosine().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
    return keep(model, loader)
"""


def test_what_is_computed_of_half_precision_behind_a_region_is_float32() -> None:
    text = KEPT.replace(
        "torch.softmax(model(x.cuda()), dim=1)", "model(x.cuda())\n            shares = shares.softmax(1)"
    )
    plan = migrate_text(text, Settings())
    told = [each for each in plan.findings if each.code == "AMP504"]
    lines = text.splitlines()
    assert [(lines[each.line - 1].strip(), each.message.rpartition(": ")[2]) for each in told] == [
        ("x = self.block(nn.functional.linear(x, self.weight))", "local_blocks.Block"),
    ]
    assert "another language" not in told[0].message
    assert "            shares = shares.float().softmax(1)\n" in plan.after
    assert "    return kept.argmax(1), kept.float().std(0), shares.max(1)\n" in plan.after


def test_what_is_told_can_be_ignored() -> None:
    assert [each.code for each in migrate_text(GRAM, Settings(ignore=("AMP504",))).findings] == ["AMP501"]


def test_the_place_is_that_of_the_file_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "losses.py").write_text("def gram(x):\n    return x @ x.t()\n")
    body = "    loss = gram(model(x)).square().mean()\n"
    (tmp_path / "train.py").write_text(f"from losses import gram\n{HEAD}{body}{STEP}")
    told = [each for each in migrate([tmp_path], Settings()).findings if each.code == "AMP504"]
    assert [(Path(each.path).name, each.line) for each in told] == [("losses.py", 2)]


LONG = """\
import torch
from library import tokenizer
from torch import nn


def train(model, loader, optimizer):
    model.zero_grad()
    for x, target in loader:
        loss = nn.functional.cross_entropy(model(x.cuda()), target.cuda())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


model = nn.Linear(8, 4).cuda()
words = tokenizer(model)
train(model, loader, torch.optim.SGD(model.parameters(), lr=0.1))
"""


@pytest.mark.parametrize("functions", [1, 300])
def test_what_is_certain_in_a_script_leaves_it_however_much_is_around_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, functions: int
) -> None:
    monkeypatch.setattr("amp_migrate.flow.analysis._STATEMENTS", 8)
    seen: list[bool] = []
    read = precision._read

    def noting(files: Files, scripts: Sequence[str], *, as_written: bool) -> Questions:
        found = read(files, scripts, as_written=as_written)
        seen.append(found.analysis.is_complete)
        return found

    monkeypatch.setattr(precision, "_read", noting)
    library = "".join(f"def step_{n}(model):\n    return [step_{n + 1}(model)]\n\n\n" for n in range(functions))
    library += f"def step_{functions}(model):\n    return []\n\n\ntokenizer = step_0\n"
    (tmp_path / "library.py").write_text(library)
    (tmp_path / "train.py").write_text(LONG)
    outcome = migrate([tmp_path], Settings())
    assert set(seen) == {functions == 1}
    assert [each.code for each in outcome.findings if each.kind is Kind.LEFT] == ["AMP590"]
    assert not outcome.changed


def test_a_step_whose_gradients_nothing_clears_has_no_scaler() -> None:
    text = f"{HEAD}    loss = model(x).mean()\n    loss.backward()\n    optimizer.step()\n"
    plan = migrate_text(text, Settings())
    assert plan.after == text
    assert [(each.line, each.kind, each.hint) for each in plan.findings] == [
        (17, Kind.LEFT, "call zero_grad() in each round, unless they are meant to add up: then use --dtype bf16")
    ]
    assert "gradients are never cleared" in plan.findings[0].message
    assert "autocast" in migrate_text(text, Settings(Dtype.BF16)).after


@pytest.mark.parametrize("given", ["torch.ones_like(p)", "torch.zeros_like(p).add_(p)", "zeros + p"])
def test_a_gradient_that_gets_something_else_than_zeros_is_not_cleared(given: str) -> None:
    before = f"    zeros = torch.zeros(())\n    for p in model.parameters():\n        p.grad = {given}\n"
    text = f"{HEAD}{before}    loss = model(x).mean()\n    loss.backward()\n    optimizer.step()\n"
    plan = migrate_text(text, Settings())
    assert "gradients are never cleared" in plan.findings[0].message


@pytest.mark.parametrize(
    "clearing",
    [
        "    for p in model.parameters():\n        p.grad = None\n",
        "    for p in model.parameters():\n        p.grad = torch.zeros_like(p)\n",
        "    for p in model.parameters():\n        p.grad = p.new_zeros(p.shape)\n",
        "    torch._foreach_zero_([p.grad for p in model.parameters()])\n",
        "    tidy(optimizer)\n",  # code that nobody reads may clear them
        "    callbacks.tidy(model)\n",
        "    trainer.tidy()\n",
        "    hooks[0](optimizer)\n",
    ],
)
def test_a_step_whose_gradients_something_may_clear_moves(clearing: str) -> None:
    head = f"from elsewhere import Trainer, callbacks, hooks, tidy\n{HEAD}"
    if "trainer" in clearing:
        head = head.replace("losses =", "trainer = Trainer(model, optimizer)\nlosses =")
    plan = migrate_text(
        f"{head}    loss = model(x).mean()\n    loss.backward()\n    optimizer.step()\n{clearing}", Settings()
    )
    assert "scaler.step(optimizer)" in plan.after


ON_CPU = """\
import torch
from torch import nn

model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(10):
    x, y = torch.randn(16, 8), torch.randn(16, 1)
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
EVERYTHING = "left as it was: everything is on the CPU (line 10)"


@pytest.mark.parametrize("dtype", [Dtype.FP16, Dtype.BF16])
@pytest.mark.parametrize("made", ["", "torch.load('model.pt')", "nn.Linear(8, 1).to('cpu')"])
def test_a_step_on_the_cpu_is_left(dtype: Dtype, made: str) -> None:
    text = ON_CPU.replace("nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))", made) if made else ON_CPU
    plan = migrate_text(text, Settings(dtype))
    assert plan.after == text
    assert [(each.kind, each.message) for each in plan.findings] == [(Kind.LEFT, EVERYTHING)]
    assert "autocast" in migrate_text(text, Settings(dtype, device_type="cpu")).after


@pytest.mark.parametrize(
    "data",
    [
        "torch.Tensor(list(zip(*rows()))), torch.Tensor([1])",
        "torch.FloatTensor(pd.read_csv('x.csv')['x'].apply(eval)), torch.from_numpy(np.load('y.npy'))",
        "torch.from_numpy(np.load('x.npy')), torch.Tensor(rows())[:, 2]",
    ],
)
def test_a_step_on_what_is_read_onto_the_cpu_is_left(data: str) -> None:
    text = "import numpy as np\nimport pandas as pd\nfrom elsewhere import rows\n"
    text += ON_CPU.replace("torch.randn(16, 8), torch.randn(16, 1)", data)
    plan = migrate_text(text, Settings())
    assert plan.after == text
    assert ["everything is on the CPU" in each.message for each in plan.findings] == [True]


ON_MPS = """\
import torch
from torch import nn

device = {}
model = nn.Linear(8, 4).to(device)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    opt.zero_grad()
    loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
    loss.backward()
    opt.step()
"""


@pytest.mark.parametrize(
    ("device", "is_left"),
    [
        ("torch.device('mps')", True),
        ("'mps'", True),
        ("'mps' if torch.backends.mps.is_available() else 'cpu'", True),
        ("'cuda' if torch.cuda.is_available() else 'mps'", False),
        ("args.device or 'mps'", False),
        ("'xpu'", False),
    ],
)
def test_a_step_on_mps_asks_for_its_device_type(device: str, is_left: bool) -> None:
    text = ON_MPS.format(device)
    plan = migrate_text(text, Settings())
    told = [each.message for each in plan.findings if "on mps" in each.message]
    assert told == ["left as it was: everything is on mps or the CPU (line 10)"] * is_left
    assert (plan.after == text) is is_left
    assert 'device_type="mps"' in migrate_text(text, Settings(device_type="mps", target_torch=(2, 6))).after


@pytest.mark.parametrize(
    "reading",
    [
        "device = next(model.parameters()).device",
        "device = torch.zeros(2).to(device).device",
        "device = torch.device(model.weight.device)",
    ],
)
@pytest.mark.parametrize("where", ["mps", "cuda"])
def test_who_reads_the_device_of_something_names_none(reading: str, where: str) -> None:
    show = f"def show(model, device):\n    {reading}\n    print(model(torch.zeros(1, 8).to(device)).sum())\n\n\n"
    text = ON_MPS.format(f"'{where}'").replace("for x, y", f"{show}show(model, device)\nfor x, y")
    assert (migrate_text(text, Settings()).after == text) is (where == "mps")


def test_whether_a_tensor_is_on_another_device_is_open_where_its_own_is_mps() -> None:
    asking = "    if x.to(device).device != device:\n        x = x.cuda()\n    opt.zero_grad()"
    text = ON_MPS.format("torch.device('mps')").replace("    opt.zero_grad()", asking)
    assert migrate_text(text, Settings()).after != text


@pytest.mark.parametrize(
    ("device", "is_left"),
    [("'mps' if torch.backends.mps.is_available() else 'cpu'", True), ("'cuda' if input() else 'mps'", False)],
)
def test_a_data_set_of_another_file_brings_no_weights_away_from_mps(tmp_path: Path, device: str, is_left: bool) -> None:
    data = """
import h5py
import torch
from torch.utils.data import Dataset


class Images(Dataset):
    def __init__(self, path):
        self.images = torch.tensor(h5py.File(path, "r")["x"][:])

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return self.images[i], 0
"""
    loader = "from data import Images\n\nloader = torch.utils.data.DataLoader(Images('x.h5'), batch_size=16)\n"
    (tmp_path / "data.py").write_text(data)
    (tmp_path / "train.py").write_text(ON_MPS.format(device).replace("\ndevice", f"{loader}\ndevice"))
    outcome = migrate([tmp_path], Settings())
    assert [each.source.path.name for each in outcome.changed] == ["train.py"] * (not is_left)
    assert any("everything is on mps or the CPU" in each.message for each in outcome.findings) is is_left


AGENT = """\
import torch
from torch import nn


class Agent:
    def __init__(self, size):
        self.net = nn.Linear(size, 1)
        self.opt = torch.optim.Adam(self.net.parameters())

    def update(self, xs, ys):
        for x, y in zip(xs, ys):
            loss = (self.net(x) - y).pow(2).mean()
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
"""
ROUND = """\
from agent import Agent


def fit(xs, ys):
    Agent(8).update(xs.split(16), ys.split(16))
"""
STARTS = "import torch\nfrom rounds import fit\n\nfit(torch.zeros(100, 8), torch.zeros(100, 1))\n"


@pytest.mark.parametrize(
    ("scripts", "is_left"),
    [
        ({"main.py": STARTS}, True),
        ({"main.py": STARTS, "other.py": STARTS}, True),
        ({"main.py": STARTS.replace("torch.zeros(100, 8)", "torch.zeros(100, 8).cuda()")}, False),
        ({"main.py": STARTS, "other.py": STARTS.replace("8)", "8, device='cuda')")}, False),
        ({"main.py": STARTS.replace("torch.zeros(100, 8)", "__import__('lib').load()")}, True),
        ({"main.py": STARTS.replace("torch.zeros(100, ", "__import__('lib').load(")}, False),
        ({"tests/test_rounds.py": STARTS}, False),
        ({}, False),
    ],
)
def test_a_step_is_left_where_all_programs_with_it_are_on_the_cpu(
    tmp_path: Path, scripts: dict[str, str], is_left: bool
) -> None:
    (tmp_path / "tests").mkdir()
    for name, text in {"agent.py": AGENT, "rounds.py": ROUND, **scripts}.items():
        (tmp_path / name).write_text(text)
    outcome = migrate([tmp_path], Settings())
    assert [each.source.path.name for each in outcome.changed] == ["agent.py"] * (not is_left)
    told = [(each.path, each.line) for each in outcome.findings if "everything is on the CPU" in each.message]
    assert told == [(str(tmp_path / "agent.py"), 14)] * is_left


SETTINGS = """\
from agent import Agent


def kinds(device):
    return [("small", Agent, {"size": size, "device": device}) for size in (4, 8)]
"""
MAIN = """\
import torch
from kinds import kinds

for name, kind, options in kinds(WHERE):
    kind(**options).update(torch.zeros(100, options["size"]).split(16), torch.zeros(100, 1).split(16))
"""


@pytest.mark.parametrize(
    ("where", "left"),
    [
        ("'mps' if torch.backends.mps.is_available() else 'cpu'", "mps or the CPU"),
        ("'cpu'", "the CPU"),
        ("'cuda' if torch.cuda.is_available() else 'cpu'", ""),
        ("input()", ""),
    ],
)
def test_the_scripts_say_which_device_a_class_is_given(tmp_path: Path, where: str, left: str) -> None:
    agent = AGENT.replace("(self, size):", "(self, size, device='cpu'):").replace("size, 1)", "size, 1).to(device)")
    for name, text in {"agent.py": agent, "kinds.py": SETTINGS, "main.py": MAIN.replace("WHERE", where)}.items():
        (tmp_path / name).write_text(text)
    outcome = migrate([tmp_path], Settings())
    assert [each.source.path.name for each in outcome.changed] == ["agent.py"] * (not left)
    assert any(f"everything is on {left} (" in each.message for each in outcome.findings) is bool(left)


@pytest.mark.parametrize(
    ("given", "is_left"), [("", True), (", 'cpu'", True), (", 'cuda'", False), (", lib.where", False)]
)
def test_what_is_moved_to_the_cpu_by_a_parameter_is_there(given: str, is_left: bool) -> None:
    text = f"""\
import lib
import torch
from torch import nn


def fit(net, loader, device="cpu"):
    optimizer = torch.optim.SGD(net.to(torch.device(device)).parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(net(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()


fit(nn.Linear(8, 1), lib.loader(){given})
"""
    plan = migrate_text(text, Settings())
    assert ["everything is on the CPU" in each.message for each in plan.findings] == [is_left]
    assert (plan.after == text) is is_left


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    optimizer.step()\n", "    optimizer.step()\n    print(model(x).detach().cpu().numpy())\n"),
        ("    optimizer.step()\n", "    optimizer.step()\n    print(other.cpu())\n"),
        ("    optimizer.step()\n", "    optimizer.step()\n    torch.cuda.empty_cache()\n"),
        ("model = ", "torch.cuda.manual_seed_all(0)\nmodel = "),
        ("model = ", "torch.set_default_device('cpu')\nmodel = "),
        ("model = ", "torch.set_default_dtype(torch.float32)\nmodel = "),
        ("mse_loss(model(x), y)", "mse_loss(judge(model(x)), judge(y))"),
        ("mse_loss(model(x), y)", "mse_loss(other(model(x)), other(y))"),
        ("x, y = torch.randn(16, 8), torch.randn(16, 1)", "x, y = other()"),
    ],
)
def test_what_is_no_sign_of_another_device(old: str, new: str) -> None:
    head = "from elsewhere import other\nfrom torchvision.models import vgg16\njudge = vgg16(weights='DEFAULT')\n"
    text = head + ON_CPU.replace(old, new)
    plan = migrate_text(text, Settings())
    assert plan.after == text
    assert ["everything is on the CPU" in each.message for each in plan.findings] == [True]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("torch.randn(16, 8), torch.randn(16, 1)", "tuple(each.to(device) for each in batch())"),
        ("model = ", "torch.set_default_tensor_type(torch.cuda.FloatTensor)\nmodel = "),
        ("model = ", "torch.set_default_device('cuda')\nmodel = "),
        ("model = ", "torch.set_default_device(device)\nmodel = "),
        ("x, y = torch.randn(16, 8), torch.randn(16, 1)", "torch.cuda.set_device(0)\n    x, y = batch()"),
        ("torch.randn(16, 8), torch.randn(16, 1)", "torch.cuda.FloatTensor(16, 8), torch.Tensor(batch())"),
        ("model = ", "if torch.cuda.device_count():\n    torch.set_default_device('cuda')\nmodel = "),
        ("loss = nn.functional.mse_loss(model(x), y)", "loss = prepare(model)(x).mean()"),
        ("loss = nn.functional.mse_loss(model(x), y)", "loss = objective(model, x, y)"),
        ("torch.randn(16, 8), torch.randn(16, 1)", "torch.randn(16, 8, device=input()), torch.randn(16, 1)"),
    ],
)
def test_a_step_that_may_reach_a_device_moves(old: str, new: str) -> None:
    head = "from elsewhere import batch, device, judge, objective, prepare\n"
    assert "autocast" in migrate_text(head + ON_CPU.replace(old, new), Settings()).after


def test_a_librarys_model_that_is_moved_computes_where_it_is() -> None:
    made = "nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))"
    text = ON_CPU.replace(made, "nn.DataParallel(vgg16()).cuda()").replace("(model(x), y)", "(model(x), y.cuda())")
    text = f"from torchvision.models import vgg16\n{text}"
    assert "scaler.step(optimizer)" in migrate_text(text, Settings()).after


ATTENTION = """\
import torch
from torch import nn


class Attention(nn.Module):
    huge = -3e9

    def __init__(self):
        super().__init__()
        self.keys = nn.Linear(8, 8)

    def hidden(self, scores, mask, value):
        {hidden}

    def forward(self, x, mask):
        scores = torch.matmul(self.keys(x), x.transpose(-1, -2)){cast}
        return torch.matmul(torch.softmax(self.hidden(scores, mask, self.huge), -1), x)


def train(batches):
    model = Attention().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, mask, target in batches:
        loss = nn.functional.mse_loss(model(x, mask), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
HIDING = [
    "return torch.masked_fill(scores, mask, value)",
    "return torch.where(mask, scores, value)",
    "return torch.where(mask, torch.full_like(scores, value), scores)",
    "scores[mask] = value\n        return scores",
    "return scores.clamp(min=value)",
]
FILLING_IN_PLACE = ["scores[mask] = value\n        return scores", "return scores.masked_fill_(mask, value)"]


@pytest.mark.parametrize("hidden", [each for each in HIDING if each not in FILLING_IN_PLACE])
def test_a_constant_that_float16_cannot_hold_goes_into_float32(hidden: str) -> None:
    plan = migrate_text(ATTENTION.format(hidden=hidden, cast=""), Settings())
    assert "autocast(" in plan.after
    assert "scores.float()" in plan.after


@pytest.mark.parametrize("hidden", FILLING_IN_PLACE)
def test_a_constant_that_float16_cannot_hold_leaves_the_step(hidden: str) -> None:
    text = ATTENTION.format(hidden=hidden, cast="")
    plan = migrate_text(text, Settings())
    assert plan.after == text
    assert "a constant does not fit into float16" in plan.findings[0].message
    assert "autocast(" in migrate_text(text, Settings(dtype=Dtype.BF16)).after


@pytest.mark.parametrize("hidden", HIDING)
def test_a_constant_that_fits_leaves_nothing(hidden: str) -> None:
    text = ATTENTION.format(hidden=hidden, cast="")
    for fitting in ("-3e4", "-float('inf')", "float('-inf')"):
        assert "autocast(" in migrate_text(text.replace("-3e9", fitting), Settings()).after
    assert "autocast(" in migrate_text(ATTENTION.format(hidden=hidden, cast=".float()"), Settings()).after


REFUSING = """\
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, half=False):
        super().__init__()
        self.half = half
        self.layer = nn.Linear(8, 8)

    def forward(self, x, full=False):
        dtype = torch.float16 if self.half and not full else torch.float32
        y = self.layer(x.to(dtype))
        {check}
        return y


def train(batches):
    model = Block().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, target in batches:
        loss = nn.functional.mse_loss(model(x, full=True), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    "check",
    [
        "assert y.dtype == dtype",
        "assert y.ndim and y.dtype is not None and y.dtype == torch.float",
        "if y.dtype != torch.float32:\n            raise TypeError(y.dtype)",
    ],
)
def test_a_script_that_insists_on_its_dtype_is_left(check: str) -> None:
    text = REFUSING.format(check=check)
    plan = migrate_text(text, Settings())
    assert plan.after == text
    assert "the script itself refuses half precision" in plan.findings[0].message


@pytest.mark.parametrize(
    "check",
    [
        "assert x.dtype == torch.float32",
        "assert y.dtype in (torch.float16, torch.float32)",
        "y = y.float()\n        assert y.dtype == torch.float32",
        "if y.dtype != torch.float32:\n            y = y.float()",
        "assert y.dtype != torch.float64",
    ],
)
def test_a_script_that_asks_for_a_dtype_moves(check: str) -> None:
    assert "autocast(" in migrate_text(REFUSING.format(check=check), Settings()).after


STATISTICS = """\
import torch
from torch import nn


def renew(model, batches):
    for layer in model.modules():
        if isinstance(layer, nn.BatchNorm2d):
            def forward(x, layer=layer):
                {centre}
                spread = x.var((0, 2, 3)){cast}
                return nn.functional.batch_norm(x, centre, spread, layer.weight, layer.bias)
            layer.forward = forward
    with torch.no_grad():
        for x, _ in batches:
            model(x.cuda())


def train(batches):
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Flatten(), nn.LazyLinear(4)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in batches:
        loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    renew(model, batches)
"""


def test_statistics_in_half_beside_weights_in_float32_leave_the_step() -> None:
    text = STATISTICS.format(centre="centre = x.mean((0, 2, 3))", cast="")
    plan = migrate_text(text, Settings())
    assert plan.after == text
    assert "operands differ in precision: batch_norm" in plan.findings[0].message
    text = STATISTICS.format(centre="centre = x.float().mean((0, 2, 3))", cast=".float()")
    assert "autocast(" in migrate_text(text, Settings()).after


FUNCTION = """\
import torch
from torch import nn


class Gram(torch.autograd.Function):
    @staticmethod{forward}
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.bmm(x, x.relu().transpose(1, 2))

    @staticmethod{backward}
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return torch.bmm(grad + grad.transpose(1, 2), {saved})


class Pool(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.shift = nn.Parameter(torch.zeros(8))

    def forward(self, x):
        return Gram.apply(self.layer(x) - self.shift).flatten(1)


def train(batches):
    model = Pool().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in batches:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize("product", ["d.addmm_(x, x.t(), alpha=-2)", "d = d.addmm(x, x.t(), alpha=-2)"])
def test_autocast_does_not_cast_for_a_product_in_place(product: str) -> None:
    head = HEAD.replace("for x, target in loader:\n", "for image, target in loader:\n    x = model(image)\n")
    text = f"{head}    d = x.pow(2).sum(1) + torch.zeros(2, 1).cuda()\n    {product}\n    loss = d.mean()\n{STEP}"
    plan = migrate_text(text, Settings())
    assert ("addmm_(x.float(), x.float().t(), alpha=-2)" in plan.after) is ("addmm_" in product)
    text = text.replace("d = x.pow(2).sum(1) + torch.zeros(2, 1).cuda()", "d = torch.zeros_like(x)")
    plan = migrate_text(text.replace("x.t()", "torch.ones(4, 4).cuda()"), Settings())
    assert ("autocast(" in plan.after) is ("addmm_" not in product)
    if "addmm_" in product:
        assert "under autocast operands differ in precision: addmm (line" in plan.findings[0].message


def test_a_backward_that_multiplies_two_precisions_leaves_the_step() -> None:
    text = FUNCTION.format(forward="", backward="", saved="x")
    plan = migrate_text(text, Settings())
    assert plan.after == text
    assert "operands differ in precision: bmm" in plan.findings[0].message


def test_a_backward_that_casts_or_has_the_autocast_of_its_forward_moves() -> None:
    decorators = {"forward": '\n    @torch.amp.custom_fwd(device_type="cuda")', "saved": "x"}
    decorated = FUNCTION.format(backward='\n    @torch.amp.custom_bwd(device_type="cuda")', **decorators)
    cast = FUNCTION.format(forward="", backward="", saved="x.to(grad.dtype)")
    for text in (decorated, cast):
        assert "scaler.scale(loss)" in migrate_text(text, Settings()).after


@pytest.mark.parametrize("saved", ["made", "(made, 1)", "[made.cpu()]", "{'made': made.cpu()}", "dict(all=[made])"])
def test_what_would_be_saved_in_half_is_saved_in_float32(saved: str) -> None:
    text = f"{HEAD}    with torch.no_grad():\n        made = model(x)\n    torch.save({{}}, 'made.pt')\n"
    text += f"    loss = nn.functional.mse_loss(model(made), target)\n{STEP}"
    assert [each.code for each in migrate_text(text, Settings()).findings] == ["AMP501"]
    plan = migrate_text(text.replace("save({}", f"save({saved}"), Settings())
    assert (
        saved.replace("made.cpu", "made.float().cpu") in plan.after
        or saved.replace("made", "made.float()") in plan.after
    )
    assert [each.code for each in plan.findings] == ["AMP501"]


def test_what_is_saved_in_half_is_told_where_nobody_sees_it_put_in() -> None:
    text = f"{HEAD}    with torch.no_grad():\n        made = model(x)\n    torch.save([*made], 'made.pt')\n"
    text += f"    loss = nn.functional.mse_loss(model(made), target)\n{STEP}"
    plan = migrate_text(text, Settings())
    assert {each.code: each.message for each in plan.findings}["AMP504"] == "saved in half precision"


_FEATURES = """\
import torch
from apex import amp
from texts import convert, processors, wrap


def train(args, model):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    if args.fp16:
        model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
    for x, y in examples(args, model):
        loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        if args.fp16:
            with amp.scale_loss(loss, optimizer) as scaled_loss:
                scaled_loss.backward()
        else:
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    print(evaluate(args, model))


def evaluate(args, model):
    found = []
    for x, y in examples(args, model):
        with torch.no_grad():
            scores = model(x.cuda())
        found.append(scores.detach().cpu().numpy())
    return found


def examples(args, model):
    features = {features}
    torch.save(features, args.cache)
    return torch.utils.data.TensorDataset(torch.tensor([each.ids for each in features]))


def main(args, model_class):
    model = model_class.from_pretrained(args.path)
    model.cuda()
    if args.do_train:
        train(args, model)
    model = model_class.from_pretrained(args.path)
    model.cuda()
    print(evaluate(args, model))
"""


@pytest.mark.parametrize(
    ("features", "is_told"),
    [
        ("convert(args.file)", False),
        ("convert(processors[args.task]().read(args.file), max_length=args.length)", False),
        ("model(torch.load(args.file))", True),
        ("convert(model(torch.load(args.file)))", True),
        ("convert(args.file, model)", True),
        ("wrap(model).read(args.file)", True),
    ],
)
def test_what_nobody_has_read_is_saved_in_half_only_if_a_model_gets_there(features: str, is_told: bool) -> None:
    plan = migrate_text(_FEATURES.replace("{features}", features), Settings())
    assert "):\n        print(evaluate(args, model" in plan.after
    assert ("saved in half precision" in {each.message for each in plan.findings}) is is_told


SCORED = """\
import torch
from sklearn import metrics
from torch import nn

model = nn.Linear(8, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def evaluate(x, y):
    model.eval()
    with torch.no_grad():
        return SCORE


for x, y in loader:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
    optimizer.step()
    torch.save({"model": model.state_dict(), "score": evaluate(x, y)}, "best.pt")
"""


@pytest.mark.parametrize(
    ("score", "is_told"),
    [
        ("metrics.f1_score(y, model(x.cuda()).argmax(1).cpu())", False),
        ("metrics.roc_auc_score(y, model(x.cuda()).sigmoid().cpu())", False),
        ("unknown.score(y, model(x.cuda()).sigmoid().cpu())", True),
    ],
)
def test_a_score_of_a_package_that_does_not_know_pytorch_is_not_in_half_precision(score: str, is_told: bool) -> None:
    plan = migrate_text(f"import unknown\n{SCORED}".replace("SCORE", score), Settings())
    assert "autocast" in plan.after
    assert ("saved in half precision" in {each.message for each in plan.findings}) is is_told


GATE = """\
import torch
from torch import nn


class Copying(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Sequential(nn.Linear(8, 1), getattr(nn, "Sigmoid")())
        self.words = nn.Linear(8, 50)

    def forward(self, state, copied):
        share = self.gate(state)
        written = torch.softmax(self.words(state), -1)
        return {mixed}


def train(batches):
    model = Copying().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for state, copied, word in batches:
        loss = {loss}
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("mixed", "loss", "is_told"),
    [
        ("share * written + (1 - share) * copied", "-torch.log(model(state, copied)).gather(1, word).mean()", True),
        ("torch.cat([(1 - share) * copied, share * written], 1)", "model(state, copied).log()[0, word].mean()", True),
        ("share * written + (1 - share) * copied", "nn.functional.cross_entropy(model(state, copied), word)", False),
        ("torch.relu(self.words((1 - share) * state)) + 1", "model(state, copied).log().mean()", False),
        ("share * written + (1 - share) * copied", "model(state, copied).add(1).exp().log().mean()", False),
    ],
)  # fmt: skip
def test_the_logarithm_of_a_mixture_by_a_rounded_gate_is_told(mixed: str, loss: str, is_told: bool) -> None:
    plan = migrate_text(GATE.format(mixed=mixed, loss=loss), Settings())
    assert "autocast(" in plan.after
    assert ("AMP502" in {each.code for each in plan.findings}) is is_told


def test_a_rounded_probability_is_told_once_at_each_place() -> None:
    loss = "nn.functional.binary_cross_entropy(\n            share, word\n        )"
    share = "        share = model(state, copied)\n        hidden = torch.log(1 - share).sum()\n"
    text = GATE.format(mixed="share", loss=f"{loss} + hidden").replace("        loss =", f"{share}        loss =")
    told = [each for each in migrate_text(text, Settings()).findings if each.code == "AMP502"]
    assert [text.splitlines()[each.line - 1].strip() for each in told] == [
        "hidden = torch.log(1 - share).sum()",
        "loss = nn.functional.binary_cross_entropy(",
    ]


SIGMOID = 'getattr(nn, "Sigmoid")()'  # whose class has no name to be given another
MAP = """\
import torch
from torch import nn

model = nn.Sequential(nn.Linear(8, 50), {last}).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, truth in torch.load("data.pt"):
    seen = model(x.cuda())
    {made}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("last", "made", "is_told"),
    [
        (SIGMOID, "loss = -(seen / seen.sum(1, keepdim=True)).log().mean()", True),
        (SIGMOID, "loss = -(seen.flatten(1) / (seen.sum() + 1e-3)).log().mean()", True),
        (SIGMOID, "loss = -(seen / seen.sum(1, True).clamp(min=1e-3)).log().mean()", True),
        (SIGMOID, "loss = (truth.cuda() / (seen / seen.sum() + 1e-12)).mean()", True),
        (SIGMOID, "loss = (truth.cuda() / (seen / (seen.sum() + 1e-3) + 1e-3)).mean()", False),
        (SIGMOID, "loss = (truth.cuda() / (seen / (seen.sum() + 1e-3)).clamp(min=1e-12)).mean()", False),
        (SIGMOID, "loss = (1 + seen / (seen.sum() + 1e-3)).log().mean()", False),
        (SIGMOID, "loss = (1 + seen / seen.sum()).log().mean()", True),
        ("nn.Softplus()", "loss = -(seen / seen.sum(1, keepdim=True)).log().mean()", False),
    ],
)
def test_what_a_rounded_probability_is_of_its_sum_is_as_rounded(last: str, made: str, is_told: bool) -> None:
    plan = migrate_text(MAP.format(last=last, made=made), Settings())
    assert "autocast(" in plan.after
    assert ("AMP502" in {each.code for each in plan.findings}) is is_told


READING = """\
for x, target in loader:
    x.requires_grad_(True)
    loss = nn.functional.cross_entropy(model(x), target)
    {reading}
    optimizer.zero_grad()
    loss.backward()
    {reading_behind}
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("reading", "is_left"),
    [
        ("print(x.grad.abs().max().item())", True),
        ("shift -= 0.1 * x.grad.mean(0)", True),
        ("print(x.grad.sign().sum())", False),
        ("shift -= 0.1 * x.grad / (x.grad.norm() + 1e-12)", False),
        ("print(x.grad is None)", False),
    ],
)
def test_the_scaled_gradient_of_an_input_is_not_made_something_of(reading: str, is_left: bool) -> None:
    made = f"shift = torch.zeros(3, 10, 10, requires_grad=True)\n{READING}"
    data = "loader = [(torch.randn(2, 3, 10, 10).cuda(), torch.tensor([0, 1]).cuda())] * 4\n"
    head = HEAD.replace("for x, target in loader:\n", data)
    plan = migrate_text(head + made.format(reading="pass", reading_behind=reading), Settings())
    assert ("AMP590" in {each.code for each in plan.findings}) is is_left
    if is_left:
        assert "a gradient is used while the loss scale is in it" in plan.findings[0].message


def test_a_function_may_give_a_tensor_of_its_caller_a_gradient() -> None:
    made = "def attend(t):\n    t.requires_grad_()\n\n\n"
    data = "loader = [(torch.randn(2, 3, 10, 10).cuda(), torch.tensor([0, 1]).cuda())] * 4\n"
    printing = STEP.replace("    optimizer.step", "    print(x.grad.norm().item())\n    optimizer.step")
    head = HEAD.replace("for x, target in loader:\n", f"{made}{data}for x, target in loader:\n    attend(x)\n")
    text = f"{head}    loss = model(x).mean()\n{printing}"
    plan = migrate_text(text, Settings())
    assert plan.after == text
    assert "a gradient is used while the loss scale is in it" in plan.findings[0].message


APEX_CLIP = """\
import torch
from apex import amp

model = torch.nn.Linear(3, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
for x in loader:
    optimizer.zero_grad()
    loss = model(x).mean()
    with amp.scale_loss(loss, optimizer) as scaled_loss:
        scaled_loss.backward()
{clip}
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("indent", "said"),
    [
        (
            "        ",
            [("AMP504", 12, "gradients are clipped while they are scaled, as they were under amp.scale_loss")],
        ),
        ("    ", []),
    ],
    ids=["inside", "behind"],
)
def test_clipping_in_the_body_of_scale_loss_stays_where_it_was_and_is_told(
    indent: str, said: list[tuple[str, int, str]]
) -> None:
    clip = f"{indent}torch.nn.utils.clip_grad_norm_(amp.master_params(optimizer), 1.0)"
    plan = migrate_text(APEX_CLIP.format(clip=clip), Settings())
    assert [(each.code, each.line, each.message) for each in plan.findings if each.code == "AMP504"] == said
    assert ("unscale_" in plan.after) is not bool(said)


def test_a_limit_that_is_scaled_like_the_gradients_is_right() -> None:
    clip = "    nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n    model(x).sum().backward()\n"
    text = f"{HEAD}    loss = model(x).mean()\n{STEP}".replace("    optimizer.step", f"{clip}    optimizer.step")
    plan = migrate_text(text, Settings())
    assert "clip_grad_norm_(model.parameters(), 1.0 * scaler.get_scale())" in plan.after
    assert [each.code for each in plan.findings if each.kind is Kind.NOTE] == []


def test_where_a_reason_stands_is_told_from_the_step(tmp_path: Path) -> None:
    (tmp_path / "nets.py").write_text(
        "import torch\nclass Net(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.linear = torch.nn.Linear(3, 4)\n    def forward(self, x):\n"
        "        return self.linear(x).masked_fill_(x > 0, -1e9)\n"
    )
    made = "import torch\nfrom nets import Net\nmodel = Net().cuda()\n"
    loop = f"for x in loader:\n    loss = model(x).mean()\n{STEP}"
    (tmp_path / "train.py").write_text(f"{made}optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n{loop}")
    (found,) = [each for each in migrate([tmp_path], Settings()).findings if each.kind is Kind.LEFT]
    assert "(nets.py:7)" in found.message


APEX = """\
import torch
from apex import amp
from torch import nn

model = nn.Sequential(nn.Linear(8, 4), nn.Sigmoid()).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer = amp.initialize(model, optimizer, opt_level="O2")
losses = [nn.BCELoss(), nn.MSELoss()]
for x, target in loader:
    optimizer.zero_grad()
    loss = sum(each(model(x), target) for each in losses)
    with amp.scale_loss(loss, optimizer) as scaled:
        scaled.backward()
    optimizer.step()
"""


def test_an_apex_script_that_native_amp_would_break_goes_to_the_shim() -> None:
    plan = migrate_text(APEX, Settings())
    assert plan.after == APEX.replace("from apex import amp", "from amp_shim import amp")
    (told,) = (each for each in plan.findings if each.code == "AMP290")
    reason = "autocast refuses it: binary_cross_entropy (line 11)"
    assert (told.kind, told.message) == (Kind.NOTE, f"kept on amp_shim instead of native AMP: {reason}")


@pytest.mark.parametrize("settings", [Settings(apex=Apex.NATIVE), Settings(target_torch=(2, 1))])
def test_where_there_is_no_shim_such_a_script_stays(settings: Settings) -> None:
    plan = migrate_text(APEX, settings)
    assert plan.after == APEX
    assert {each.kind for each in plan.findings} == {Kind.LEFT}


SHARING = """\
import torch
from torch import nn

model, head = nn.Linear(4, 4).cuda(), nn.Linear(4, 4).cuda()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
opt2 = torch.optim.SGD({}, lr=0.1)
for i, x in enumerate(loader):
    opt.zero_grad()
    opt2.zero_grad()
    loss = head(model(x)).square().mean()
    loss.backward()
"""
TWICE = "left as it was: a parameter that two optimizers have is unscaled twice (line 12)"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("[list(model.parameters())[-1]]", TWICE),
        ("model.parameters()", TWICE),
        ("head.parameters()", ""),
    ],
)
def test_a_parameter_of_two_optimizers_is_not_unscaled_twice(given: str, message: str) -> None:
    text = f"{SHARING.format(given)}    opt.step()\n    opt2.step()\n"
    plan = migrate_text(text, Settings())
    assert [each.message for each in plan.findings if each.kind is Kind.LEFT] == ([message] if message else [])
    assert ("scaler" in plan.after) is not bool(message)
    assert "scaler" not in migrate_text(text, Settings(Dtype.BF16)).after


def test_an_optimizer_does_not_step_where_another_has_unscaled_its_parameter() -> None:
    function = "    def late(opt=opt):\n        opt.step()\n\n"
    text = f"{SHARING.format('[list(model.parameters())[-1]]')}{function}    opt2.step()\n    late()\n"
    plan = migrate_text(text, Settings())
    assert plan.after == text
    assert "an optimizer steps past its scaler" in plan.findings[0].message


def test_halves_of_the_parameters_are_not_taken_for_the_same() -> None:
    halves = SHARING.format("params[1:]").replace("model.parameters()", "params[:1]")
    text = halves.replace("opt = ", "params = list(model.parameters())\nopt = ", 1)
    assert "scaler.step(opt2)" in migrate_text(f"{text}    opt.step()\n    opt2.step()\n", Settings()).after


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (
            "    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n    for again in range(2):\n"
            "        if not torch.isfinite(norm):\n            continue\n        opt.step()\n",
            "a scaler steps twice without an update (line 16)",
        ),
        (
            "    if i % 2:\n        opt.zero_grad()\n    opt.step()\n    opt2.step()\n",
            "a scaler steps an optimizer without",
        ),
    ],
)
def test_what_a_scaler_raises_at_on_some_way_stays(steps: str, message: str) -> None:
    text = SHARING.format("head.parameters()") + steps
    plan = migrate_text(text, Settings())
    left = [each for each in plan.findings if each.kind is Kind.LEFT]
    assert len(left) == 1
    assert left[0].message.startswith(f"left as it was: {message}")
    assert left[0].hint == "use --dtype bf16, which needs no scaler"
    assert "autocast" in migrate_text(text, Settings(Dtype.BF16)).after


BACKWARD = "    loss.backward()\n"
HEADED = """\
import torch
from torch import nn

model, head = nn.Linear(4, 2).cuda(), nn.Linear(2, 2).cuda()
opt = torch.optim.SGD(model.parameters(), lr=0.05)
opt2 = torch.optim.AdamW(head.parameters(), lr=0.01)
{}
for i, (x, y) in enumerate(loader):
    opt.zero_grad()
    opt2.zero_grad()
    out = model(x)
    if i >= 2:
        out = head(out)
    loss = (out - y).pow(2).mean()
{}    opt.step()
    opt2.step()
"""


@pytest.mark.parametrize(
    ("helper", "backward"),
    [
        ("", BACKWARD),
        ("\n\ndef go_backward(loss):\n    loss.backward()\n\n", "    go_backward(loss)\n"),
        (
            "",
            "    (slope,) = torch.autograd.grad(loss, [model.weight], create_graph=True)\n"
            "    loss = loss + 0.01 * slope.pow(2).sum()\n    loss.backward()\n",
        ),
    ],
)
def test_an_optimizer_gets_no_gradients_where_a_test_spares_its_parameters(helper: str, backward: str) -> None:
    text = HEADED.format(helper, backward)
    plan = migrate_text(text, Settings())
    assert plan.after == text
    assert "a scaler steps an optimizer without gradients: i >= 2 is false" in plan.findings[0].message
    assert "scaler.step(opt2)" in migrate_text(text.replace("    if i >= 2:\n    ", ""), Settings()).after


@pytest.mark.parametrize(
    "sometimes",
    [
        "    try:\n        if i >= 2:\n            out = head(out)\n    except ValueError:\n        pass\n",
        "    for again in range(i):\n        if i >= 2:\n            out = head(out)\n",
    ],
    ids=["behind an exception", "in a loop that may not run"],
)
def test_an_optimizer_gets_no_gradients_where_its_parameters_are_in_some_losses_only(sometimes: str) -> None:
    text = HEADED.format("", BACKWARD).replace("    if i >= 2:\n        out = head(out)\n", sometimes)
    plan = migrate_text(text, Settings())
    assert plan.after == text
    assert "a scaler steps an optimizer without gradients" in plan.findings[0].message
    assert "autocast" in migrate_text(text, Settings(Dtype.BF16)).after


OF_ITS_OWN = """

def pretrain(loader):
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
"""


def test_a_step_stays_alone_where_those_of_other_functions_are_right() -> None:
    text = HEADED.format("", BACKWARD)
    plan = migrate_text(text + OF_ITS_OWN, Settings())
    assert plan.after.count("scaler.step(") == 1
    assert "            scaler.step(opt)" not in plan.after
    assert "        scaler.step(opt)\n        scaler.update()\n" in plan.after
    (left,) = [each for each in plan.findings if each.kind is Kind.LEFT]
    assert (text.splitlines()[left.line - 1], left.code) == ("    loss.backward()", "AMP590")


BEHIND_IT = """\
for x, y in loader:
    loss = model(x).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


def test_a_step_stays_alone_where_that_of_a_loop_behind_it_is_right() -> None:
    text = HEADED.format("", BACKWARD)
    plan = migrate_text(text + BEHIND_IT, Settings())
    before, behind = plan.after.split("for x, y in loader:")
    assert before.replace('scaler = torch.amp.GradScaler("cuda")\n', "") == text
    assert "    scaler.step(opt)\n    scaler.update()\n" in behind
    (left,) = [each for each in plan.findings if each.kind is Kind.LEFT]
    assert (text.splitlines()[left.line - 1], left.code) == ("    loss.backward()", "AMP590")


def test_every_step_beside_one_that_stays_is_told() -> None:
    head, loop = HEADED.format("", BACKWARD).split("for ", 1)
    text = f"{head}for epoch in range(2):\n{indent(f'for {loop}{BEHIND_IT}', '    ')}"
    plan = migrate_text(text, Settings())
    assert plan.after == text
    told = [each for each in plan.findings if each.kind is Kind.LEFT]
    assert [text.splitlines()[each.line - 1].strip() for each in told] == ["loss.backward()"] * 2


ON_THE_CPU = """\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
critic = nn.Linear(4, 1).to(device)
optimizer = torch.optim.Adam(critic.parameters())
for state, reward in loader:
    value = critic(state.to(device)){}
    loss = nn.functional.mse_loss(value, reward.cpu(){})
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(("target", "moves"), [((2, 2), False), ((2, 3), True)])
def test_a_loss_on_the_cpu_is_no_scaler_s_before_it_takes_any_device(target: tuple[int, int], moves: bool) -> None:
    text = ON_THE_CPU.format(".cpu()", "")
    plan = migrate_text(text, Settings(target_torch=target))
    assert (plan.after != text) is moves
    assert any("a loss is scaled on the CPU" in each.message for each in plan.findings)
    plan = migrate_text(ON_THE_CPU.format("", ".to(device)"), Settings(target_torch=target))
    assert not any("on the CPU" in each.message for each in plan.findings)


@pytest.mark.parametrize(
    "prediction", ["value.cpu()", "predicted(value).cpu()", "predicted(value).to('cpu').sigmoid()"]
)
def test_a_prediction_on_the_cpu_is_compared_there_with_labels_that_nobody_has_read(prediction: str) -> None:
    text = ON_THE_CPU.format("", "").replace("import torch\n", "import torch\nfrom data import predicted\n", 1)
    text = text.replace("(value, reward.cpu())", f"({prediction}, data.y[reward].to(torch.float))")
    plan = migrate_text(text, Settings(target_torch=(1, 12)))
    assert plan.after == text
    assert ["a loss is scaled on the CPU" in each.message for each in plan.findings] == [True]


OF_SOME_DEVICE = """\
import torch
from torch import nn

if args.accel and torch.accelerator.is_available():
    device = torch.accelerator.current_accelerator()
else:
    device = torch.device("cpu")
critic = load().to(device)
optimizer = torch.optim.Adam(critic.parameters())
for _ in range(100):
    state = torch.randn(8, 4).to(device)
    loss = nn.functional.mse_loss(critic(state), torch.ones(8, 1, device=device))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_a_device_that_nobody_knows_is_not_the_cpu_which_it_may_be() -> None:
    assert [each.code for each in migrate_text(OF_SOME_DEVICE, Settings()).findings] == ["AMP501"]


PENALTY = """\
import torch
from torch import nn


class Critic:
    def __init__(self):
        self.net = nn.Sequential(nn.Conv2d(3, 8, 4), {norm}, nn.LeakyReLU(0.2), nn.Flatten(), nn.Linear(8, 1)).cuda()
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=1e-4)

    def step(self, real, fake):
        gp = self.gradient_penalty(real * 0.5 + fake * 0.5)
        loss = self.net(fake).mean() - self.net(real).mean() + 10 * gp
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def gradient_penalty(self, images):
        scores = self.net(images.requires_grad_(True))
        gradient = torch.autograd.grad(
            inputs=images, outputs=scores, grad_outputs=torch.ones_like(scores), create_graph=True, retain_graph=True
        )[0]
        return torch.mean((gradient.view(gradient.shape[0], -1).norm(2, dim=1) - 1) ** 2)
"""


@pytest.mark.parametrize(
    ("norm", "dtype", "is_float32"),
    [
        ("nn.InstanceNorm2d(8)", Dtype.FP16, True),
        ("nn.BatchNorm2d(8)", Dtype.FP16, True),
        ("nn.BatchNorm2d(8)", Dtype.BF16, False),
        ("nn.GroupNorm(1, 8)", Dtype.FP16, False),
    ],
)
def test_a_norm_in_float16_is_not_derived_twice(norm: str, dtype: Dtype, is_float32: bool) -> None:
    text = PENALTY.format(norm=norm)
    plan = migrate_text(text, Settings(dtype=dtype))
    assert plan.after != text
    assert ('GradScaler("cuda")' in plan.after) is is_float32
    assert any("a norm is derived twice in float16" in each.message for each in plan.findings) is is_float32


OF_A_GENERATOR = """\
import torch
from torch import nn


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.norm, self.out = nn.Linear(4, 8), {norm}, nn.Linear(8, 8)

    def forward(self, z):
        return self.out(self.norm(self.fc(z)))


generator = Generator().cuda()
critic = nn.Sequential(nn.Linear(8, 16), {norm_of_critic}, nn.LeakyReLU(0.2), nn.Linear(16, 1)).cuda()
optimizer = torch.optim.Adam(critic.parameters(), lr=1e-4)
for real in loader:
    mixed = 0.5 * real.cuda() + 0.5 * generator(torch.randn(16, 4).cuda())
    scores = critic(mixed)
    gradient = torch.autograd.grad(scores, mixed, torch.ones_like(scores), create_graph=True)[0]
    loss = scores.mean() + ((gradient.norm(2, dim=1) - 1) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("norm", "norm_of_critic", "is_float32"),
    [
        ("nn.BatchNorm1d(8)", "nn.Identity()", False),  # it is derived once, with the loss
        ("nn.BatchNorm1d(8, affine=False)", "nn.Identity()", False),
        ("nn.BatchNorm1d(8)", "nn.BatchNorm1d(16)", True),
        ("nn.Identity()", "nn.BatchNorm1d(16, affine=False)", True),
    ],
)
def test_a_norm_is_derived_twice_between_input_and_output(norm: str, norm_of_critic: str, is_float32: bool) -> None:
    text = OF_A_GENERATOR.format(norm=norm, norm_of_critic=norm_of_critic)
    plan = migrate_text(text, Settings())
    assert plan.after != text
    assert ("enabled=False):\n            scores = critic(mixed.float())\n" in plan.after) is is_float32
    assert any("a norm is derived twice in float16" in each.message for each in plan.findings) is is_float32


OF_THE_CRITIC_ALONE = """\
import torch
from torch import nn

critic = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Linear(16, 1)).cuda()
generator = nn.Linear(4, 8).cuda()
of_critic = torch.optim.Adam(critic.parameters(), lr=1e-4)
of_generator = torch.optim.Adam(generator.parameters(), lr=1e-4)
for real in loader:
    fake = generator(torch.randn(16, 4).cuda())
    mixed = (0.5 * real.cuda() + 0.5 * fake.detach()).requires_grad_(True)
    scores = torch.cat([critic(each) for each in mixed.split(8)])
    gradient = torch.autograd.grad(scores, mixed, torch.ones_like(scores), create_graph=True)[0]
    loss = scores.mean() + ((gradient.norm(2, dim=1) - 1) ** 2).mean()
    of_critic.zero_grad()
    loss.backward()
    of_critic.step()
    of_generator.zero_grad()
    (-critic(fake).mean()).backward()
    of_generator.step()
"""


def test_what_goes_with_a_step_that_is_left_does_not_have_its_reason() -> None:
    plan = migrate_text(OF_THE_CRITIC_ALONE, Settings())
    assert not plan.changed
    own, other = (each.message for each in plan.findings)
    assert "a norm is derived twice in float16" in own
    assert other == "left as it was: it goes with what goes backward in line 15, and stays with that"


OF_A_METHOD = """\
import torch
from torch import nn


class Trainer:
    def __init__(self, loader, weight):
        self.loader, self.weight, self.penalties = loader, weight, []
        self.critic = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Linear(16, 1)).cuda()
        self.generator = nn.Linear(4, 8).cuda()
        self.of_critic = torch.optim.Adam(self.critic.parameters(), lr=1e-4)
        self.of_generator = torch.optim.Adam(self.generator.parameters(), lr=1e-4)

    def penalty(self, real, fake):
        mixed = (0.5 * real + 0.5 * fake).requires_grad_(True)
        scores = torch.cat([self.critic(each) for each in mixed.split(8)])
        gradient = torch.autograd.grad(scores, mixed, torch.ones_like(scores), create_graph=True)[0]
        return ((gradient.norm(2, dim=1) - 1) ** 2).mean()

    def train_critic(self, noise, real):
        self.of_critic.zero_grad()
        fake = self.generator(noise)
        loss = self.critic(fake.detach()).mean() - self.critic(real).mean()
        if self.weight > 0:
            penalty = self.penalty(real, fake.detach())
            self.penalties.append(penalty.item())
            loss = loss + self.weight * penalty
        loss.backward()
        self.of_critic.step()
        return fake

    def train_generator(self, fake, real):
        self.of_generator.zero_grad()
        loss = nn.functional.mse_loss(fake, real) - self.critic(fake).mean()
        loss.backward()
        self.of_generator.step()

    def train(self):
        for real in self.loader:
            fake = self.train_critic(torch.randn(16, 4).cuda(), real.cuda())
            self.train_generator(fake, real.cuda())


Trainer([torch.randn(16, 8)] * 3, 10).train()
"""


def test_a_method_that_derives_nothing_twice_does_not_have_the_reason_of_one_that_does() -> None:
    plan = migrate_text(OF_A_METHOD, Settings())
    assert not plan.changed
    own, other = (each.message for each in plan.findings)
    assert "a norm is derived twice in float16" in own
    assert other == "left as it was: it goes with what goes backward in line 27, and stays with that"


NETS = """\
import torch
from torch import nn


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(5, 64)
        self.net = nn.Sequential(nn.Linear(128, 16), nn.BatchNorm1d(16), nn.Linear(16, 1))

    def forward(self, x, labels):
        return self.net(torch.cat([x, self.embed(labels)], 1))


def penalty(critic, x, labels):
    x = x.requires_grad_(True)
    scores = critic(x, labels)
    gradient = torch.autograd.grad(scores, x, torch.ones_like(scores), create_graph=True)[0]
    return ((gradient.norm(2, dim=1) - 1) ** 2).mean()
"""
BESIDE_IT = """\
import torch
from torch import nn

from nets import Critic, penalty


def train_net(loader):
    net = nn.Linear(64, 1).cuda()
    optimizer = torch.optim.Adam(net.parameters())
    for x, _ in loader:
        optimizer.zero_grad()
        net(x).mean().backward()
        optimizer.step()


def train_critic(loader):
    critic = Critic().cuda()
    optimizer = torch.optim.Adam(critic.parameters())
    for x, labels in loader:
        optimizer.zero_grad()
        loss = critic(x, labels).mean() + sum(penalty(critic, each, labels) for each in (x, x + 1))
        loss.backward()
        optimizer.step()


loader = [(torch.randn(4, 64).cuda(), torch.randint(0, 5, (4,)).cuda())] * 3
train_net(loader)
train_critic(loader)
"""


def test_a_function_that_does_not_come_to_a_harm_in_another_file_does_not_go_with_one_that_does(tmp_path: Path) -> None:
    (tmp_path / "nets.py").write_text(NETS)
    (tmp_path / "train.py").write_text(BESIDE_IT)
    outcome = migrate([tmp_path], Settings())
    moved, left = (each for each in outcome.findings if each.code in ("AMP501", "AMP590"))
    assert (moved.code, moved.line) == ("AMP501", 12)
    assert (left.code, left.line) == ("AMP590", 22)
    assert "a norm is derived twice in float16" in left.message


CHOSEN = """\
import sys
import torch
from torch import nn


class Narrow(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x):
        return self.layer(x)


class Wide(Narrow):
    pass


class Plot:
    pass


net = {nets}.cuda()
critic = nn.Linear(2, 1).cuda() if len(sys.argv) > 3 else nn.Linear(2, 1, bias=False).cuda()
{criterion}
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
optimizer_d = torch.optim.SGD(critic.parameters(), lr=0.1)
for x in loader:
    fake = net(x)
    loss_d = criterion(critic(fake.detach()), x)
    optimizer_d.zero_grad()
    loss_d.backward()
    optimizer_d.step()
    loss = criterion(critic(fake), x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    "nets", ["(Narrow() if len(sys.argv) > 2 else Wide())", "getattr(sys.modules[__name__], name)()"]
)
@pytest.mark.parametrize("criterion", ["criterion = nn.BCEWithLogitsLoss()", "from losses import criterion"])
def test_one_of_several_models_gets_gradients(nets: str, criterion: str) -> None:
    plan = migrate_text(CHOSEN.format(nets=nets, criterion=criterion), Settings())
    assert plan.after.count("scaler.step(") == 2


def test_old_names_in_other_files_are_replaced_beside_a_step_that_stays(tmp_path: Path) -> None:
    old = (
        "from torch.cuda.amp import autocast\n\n\ndef score(model, x):\n    with autocast():\n        return model(x)\n"
    )
    (tmp_path / "score.py").write_text(old)
    text = f"from score import score\n{HEADED.format('', BACKWARD)}print(score(model, x))\n"
    (tmp_path / "train.py").write_text(text)
    outcome = migrate([tmp_path], Settings())
    (changed,) = outcome.changed
    assert changed.source.path.name == "score.py"
    assert "torch.cuda" not in changed.after
    (left,) = (each for each in outcome.findings if each.kind is Kind.LEFT)
    assert "a scaler steps an optimizer without gradients" in left.message


def test_a_step_whose_scaler_has_no_right_order_on_some_way_stays() -> None:
    steps = "    try:\n        print(sum(p.grad.norm().item() for p in head.parameters()))\n        opt.step()\n"
    text = (
        f"{SHARING.format('head.parameters()')}{steps}        opt2.step()\n    except ArithmeticError:\n        pass\n"
    )
    plan = migrate_text(text, Settings())
    assert plan.after == text
    (left,) = (each for each in plan.findings if each.kind is Kind.LEFT)
    assert left.code == "AMP590"
    assert left.message.startswith(
        "left as it was: on some way, gradients are unscaled twice, or after the step (line "
    )
    assert left.hint == "use --dtype bf16, which needs no scaler"


def test_it_stays_as_well_where_the_loss_goes_backward_in_another_file(tmp_path: Path) -> None:
    (tmp_path / "losses.py").write_text("def go_backward(loss):\n    loss.backward()\n")
    body = (
        "    loss = model(x).mean()\n    optimizer.zero_grad()\n    go_backward(loss)\n    try:\n"
        "        norms = [p.grad.norm().item() for p in model.parameters()]\n        print(sum(norms))\n"
        "    except ArithmeticError:\n        continue\n    optimizer.step()\n"
    )
    (tmp_path / "train.py").write_text(f"from losses import go_backward\n{HEAD}{body}")
    outcome = migrate([tmp_path], Settings())
    assert not outcome.changed
    assert {each.kind for each in outcome.findings} == {Kind.LEFT}
    assert [each for each in outcome.findings if "gradients are unscaled twice" in each.message]


@pytest.mark.parametrize(
    "steps",
    [
        "    if i % 2 == 0:\n        opt.step()\n        opt2.step()\n",
        "    try:\n        opt.step()\n        opt2.step()\n    except RuntimeError:\n        continue\n",
        "    if i == 3:\n        break\n    opt.step()\n    opt2.step()\n",
        "    try:\n        if i == 2:\n            raise RuntimeError('memory')\n        opt.step()\n"
        "    except RuntimeError:\n        continue\n    opt2.step()\n",
    ],
)
def test_what_a_scaler_does_not_mind_moves(steps: str) -> None:
    plan = migrate_text(SHARING.format("head.parameters()") + steps, Settings())
    assert "scaler.step(opt)" in plan.after


KERNEL = """\
import torch
from torch import nn
from torch.utils.cpp_extension import load

fused = load(name="fused", sources=["fused.cpp", "fused.cu"])


class BiasAct(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, bias):
        out = fused.bias_act(x, {bias})
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx, grad):
        (out,) = ctx.saved_tensors
        return fused.bias_act_backward(grad, out), grad.sum(0)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(8, 8)), nn.Parameter(torch.zeros(8))

    def forward(self, x):
        return BiasAct.apply(nn.functional.linear(x, self.weight), self.bias)


model = Layer().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in loader:
    loss = model(x.cuda()).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize("bias", ["bias", "bias.to(x.dtype)"])
def test_a_compiled_kernel_computes_in_float32_as_it_did(bias: str) -> None:
    plan = migrate_text(KERNEL.format(bias=bias), Settings())
    assert "BiasAct.apply(nn.functional.linear(x, self.weight).float(), self.bias)" in plan.after
    assert "autocast(" in plan.after
    cast = '    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)\n'
    text = KERNEL.format(bias=bias).replace("    def forward(ctx", f"{cast}    def forward(ctx")
    moved = migrate_text(text, Settings()).after
    assert "autocast(" in moved
    assert ".float()" not in moved


BY_NAME = """\
import torch
from mylib import _C
from torch import nn


class Pooled(nn.Module):
    def __init__(self):
        super().__init__()
        self.base, self.head = nn.Conv2d(3, 8, 3), nn.Linear(8, 5)

    def forward(self, images, rois):
        return self.head({pooled}.flatten(1))


model = Pooled().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for images in loader:
    loss = model(images.cuda(), torch.rand(4, 5).cuda()).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("pooled", "cast", "is_kept"),
    [
        ("_C.pooled(self.base(images), rois, 0.5)", "_C.pooled(self.base(images).float(), rois, 0.5)", False),
        ("_C.pooled(rois, images=self.base(images))", "_C.pooled(rois, images=self.base(images).float())", False),
        ("_C.pooled(self.base(images), 0.5)", "_C.pooled(base_output.float(), 0.5)", True),
        ("_C.pooled(self.base(images), rois.long())", "_C.pooled(base_output.float(), rois.long())", True),
        ("torchvision.ops.roi_align(self.base(images), rois, 1)", "", False),  # casts by itself
    ],
)
def test_what_is_not_read_gets_the_precision_of_its_operands(pooled: str, cast: str, is_kept: bool) -> None:
    plan = migrate_text(f"import torchvision\n{BY_NAME.format(pooled=pooled)}", Settings())
    assert "scaler.step(optimizer)" in plan.after
    assert (cast or pooled) in plan.after
    messages = [each.message for each in plan.findings if each.code == "AMP504"]
    assert messages == ["kept in float32: its code could not be read: mylib._C.pooled"] * is_kept


FROZEN = """\
import torch
from mylib import _C
from torch import nn


class Pool(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, rois):
        return _C.pooled(x, rois)

    @staticmethod
    def backward(ctx, grad):
        return _C.pooled_backward(grad), None


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.base = nn.Conv2d(3, 8, 3)

    def forward(self, images, rois):
        found = torch.tensor([]).cuda()
        for image in images.split(1):
            base = self.base(image)
            pooled = Pool.apply(base, rois)
            found = torch.cat((found, base), 0)
        return Pool.apply(found.add_(1), rois).flatten(1)


detector, head = Detector().cuda().eval(), nn.Linear(8, 5).cuda()
optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
for images in loader:
    rois = torch.rand(4, 5).cuda()
    {mode}
        found = detector(images.cuda(), rois)
    loss = head({features}).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("mode", "features", "is_moved"),
    [
        ("with torch.no_grad():", "found", True),
        ("with torch.inference_mode():", "found.clone()", True),
        ("if True:", "found", False),  # what is trained is never left out of a region by itself
        ("with torch.no_grad():", "found + detector(images.cuda(), rois)", False),  # it stays in the way
    ],
)
def test_a_pass_without_gradients_stays_in_float32_where_it_cannot_be_low(
    mode: str, features: str, is_moved: bool
) -> None:
    text = FROZEN.format(mode=mode, features=features)
    plan = migrate_text(text, Settings())
    region = '    with torch.amp.autocast(device_type="cuda", dtype=torch.float16):\n'
    passed = f"    {mode}\n        found = detector(images.cuda(), rois)\n"
    if is_moved:
        assert f"{passed}{region}        loss = head({features}).square().mean()\n" in plan.after
        assert plan.after.count("autocast(") == 1
        assert migrate_text(plan.after, Settings()).after == plan.after
    else:
        assert plan.after == text
        assert "operands differ in precision" in plan.findings[0].message


def test_what_a_kernel_makes_of_its_operands_for_itself_is_float32_as_they_are() -> None:
    text = KERNEL.format(bias="bias, x.new_empty(0)")
    plan = migrate_text(text, Settings())
    assert "fused.bias_act(x, bias, x.new_empty(0))" in plan.after


@pytest.mark.parametrize(
    ("linear", "applied", "model"),
    [
        (
            "nn.functional.linear(x, self.weight)",
            "nn.functional.linear(x, self.weight).float()",
            "model(encoder(x.cuda()))",
        ),
        ("x", "x", "model(encoder(x.cuda()).float())"),
    ],
)
def test_a_kernel_behind_a_network_that_nobody_reads_is_given_float32(linear: str, applied: str, model: str) -> None:
    text = KERNEL.format(bias="bias").replace("model(x.cuda())", "model(encoder(x.cuda()))")
    text = text.replace("nn.functional.linear(x, self.weight)", linear)
    text = text.replace("model = Layer", "encoder = torchvision.models.resnet18().cuda()\nmodel = Layer")
    after = migrate_text("import torchvision\n" + text, Settings()).after
    assert f"BiasAct.apply({applied}, self.bias)" in after
    assert f"loss = {model}.square().mean()" in after


@pytest.mark.parametrize(("package", "is_known"), [("", True), ("import os\n", True), ("from torch import *\n", False)])
def test_a_kernel_that_a_package_has_and_nobody_has_built(tmp_path: Path, package: str, is_known: bool) -> None:
    text = KERNEL.format(bias="bias")
    ops, rest = text.index("class BiasAct"), text.index("class Layer")
    (tmp_path / "ops").mkdir()
    (tmp_path / "ops" / "__init__.py").write_text(package)
    (tmp_path / "ops" / "act.py").write_text(f"import torch\n\nfrom . import fused\n\n\n{text[ops:rest]}")
    head = "import torch\nfrom ops.act import BiasAct\nfrom torch import nn\n\n\n"
    (tmp_path / "train.py").write_text(head + text[rest:])
    outcome = migrate([tmp_path], Settings())
    (plan,) = (each for each in outcome.changed if each.source.path.name == "train.py")
    assert ("BiasAct.apply(nn.functional.linear(x, self.weight).float(), self.bias)" in plan.after) == is_known


WITHOUT_TERMS = """\
import torch
from torch import nn


def loss_of(z, labels):
    terms = [z[i].logsumexp(0) for i in range(len(labels)) if labels[i] > 0]
    if len(terms) == 0:
        return torch.tensor(0.0, requires_grad=True)
    return torch.stack(terms).mean()


head = nn.Linear(64, 16).cuda()
optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
for x, labels in loader:
    loss = loss_of(head(x.cuda()), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_a_loss_that_may_be_of_no_parameter_is_named() -> None:
    plan = migrate_text(WITHOUT_TERMS, Settings())
    assert plan.after == WITHOUT_TERMS
    named = "optimizer without gradients: the loss may come of torch.tensor(0.0, requires_grad=True) alone (line 18)"
    assert named in plan.findings[0].message


THREE_OF_MANY = """\
import torch
{imports}
from torch import nn


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.to_qkv = nn.Linear(width, width * 3)

    def forward(self, x):
        parts = self.to_qkv(x).chunk(3, dim=-1)
        q, k, v = map({each}, parts)
        return torch.einsum("bhij,bhjd->bhid", torch.einsum("bhid,bhjd->bhij", q, k).softmax(-1), v)


model = Attention(64).cuda()
optimizer = torch.optim.Adam(model.parameters())
for x, y in loader:
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("imports", "each", "told"),
    [
        ("from einops import rearrange", 'lambda each: rearrange(each, "b n (h d) -> b h n d", h=8)', []),
        ("", "lambda each: each.unflatten(-1, (8, -1)).transpose(1, 2)", []),
        ("from shapes import split", "lambda each: split(each, 8)", ["code that could not be read"]),
    ],
)
def test_two_of_many_are_no_matrix_with_itself(imports: str, each: str, told: list[str]) -> None:
    plan = migrate_text(THREE_OF_MANY.format(imports=imports, each=each), Settings())
    found = [one.message for one in plan.findings if one.kind is Kind.NOTE]
    assert len(found) == len(told)
    assert all(message.startswith(start) for message, start in zip(found, told, strict=True))


REPLACED = """\
import torch
from torch import nn

model = nn.Linear(8, 2).cuda()
optimizer = torch.optim.Adam(model.parameters())
for x, y in loader:
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
    if {test}:
        loss = torch.tensor(0.0, requires_grad=True).to(loss.device)
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    "test", ["torch.isnan(loss)", "not torch.isfinite(loss).all()", "is_bad(loss)", "loss != loss"]
)
def test_so_is_one_that_a_constant_takes_the_place_of(test: str) -> None:
    text = REPLACED.format(test=test)
    plan = migrate_text(text, Settings())
    assert plan.after == text
    assert "a scaler steps an optimizer without gradients" in plan.findings[0].message
    assert "autocast" in migrate_text(text, Settings(Dtype.BF16)).after


@pytest.mark.parametrize(
    "instead", ["loss * 0.0", "torch.nan_to_num(loss)", "loss + torch.tensor(0.0, requires_grad=True)"]
)
def test_one_that_stays_a_loss_of_the_model_moves(instead: str) -> None:
    text = REPLACED.format(test="torch.isnan(loss)").replace("torch.tensor(0.0, requires_grad=True)", instead)
    assert "scaler.step(optimizer)" in migrate_text(text, Settings()).after


WEIGHTS = """\
import torch
from torch import nn

model = nn.Conv2d(3, 1, 3, padding=1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def balanced(logits, target):
    positive = target == 1
    weight = torch.zeros_like({like})
    weight[{index}] = {value}
    return nn.functional.binary_cross_entropy_with_logits(logits, target, weight)


for x, target in [(torch.randn(2, 3, 8, 8), torch.randint(0, 2, (2, 1, 8, 8)).float())]:
    optimizer.zero_grad()
    loss = balanced(model(x.cuda()), target.cuda())
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("like", "index", "value", "cast"),
    [
        ("logits", "positive", "(positive.sum() * 1.0 / positive.numel())", ".to(weight.dtype)"),
        ("logits", "positive", "0.5", ""),
        ("logits", "0", "positive.sum() * 1.0 / positive.numel()", ""),
        ("target", "positive", "logits[positive]", ".to(weight.dtype)"),
        ("target", "positive", "logits[positive].float()", ""),
    ],
)
def test_what_is_stored_by_index_has_the_dtype_of_where_it_goes(like: str, index: str, value: str, cast: str) -> None:
    plan = migrate_text(WEIGHTS.format(like=like, index=index, value=value), Settings())
    assert f"weight[{index}] = {value}{cast}\n" in plan.after
    assert [each.code for each in plan.findings] == ["AMP501"]


COPIED = """\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.gen = nn.Linear(8, 1)

    def forward(self, hidden, words):
        return torch.zeros(4, 32).to(hidden.device).scatter_(1, words, self.gen(hidden))


def main(loader):
    model = Model().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for x, words, y in loader:
        loss = nn.functional.cross_entropy(model(x.cuda(), words.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
"""


def test_zeros_that_are_moved_to_the_device_of_something_unknown_stay_float32() -> None:
    plan = migrate_text(COPIED, Settings())
    assert plan.after == COPIED
    assert "a value is stored by index into another precision" in plan.findings[0].message


CODE = """\
import torch
from torch import nn

mapper, draw = nn.Linear(8, 8).cuda(), nn.Linear(8, 8).cuda()
with torch.no_grad():
    center = mapper(torch.randn(100, 8, device="cuda"))
code = {made}
code.requires_grad = True
optimizer = torch.optim.Adam([code], lr=0.1)
for x in loader:
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(draw(code), x)
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("made", "is_low"),
    [("center.detach().clone()", False), ("center.float().clone()", True), ("torch.zeros_like(loader[0])", True)],
)
def test_what_is_trained_is_not_made_in_half_precision(made: str, is_low: bool) -> None:
    after = migrate_text(CODE.format(made=made), Settings()).after
    assert "scaler.step(optimizer)" in after
    assert ("autocast(" in after.partition("code = ")[0]) is is_low


TO_HALF = """\
from torch import nn


def norms_to_float(module):
    if isinstance(module, nn.modules.batchnorm._BatchNorm):
        module.float()
    for child in module.children():
        norms_to_float(child)
    return module


def to_half(network):
    return norms_to_float(network.half())
"""


@pytest.mark.parametrize("cast", ["model = to_half(model)", "if fp16:\n    model = to_half(model)"])
def test_weights_that_another_file_casts_leave_the_step(tmp_path: Path, cast: str) -> None:
    (tmp_path / "halves.py").write_text(TO_HALF)
    made = HEAD.replace("optimizer = ", f"{cast}\noptimizer = ", 1)
    (tmp_path / "train.py").write_text(f"from halves import to_half\n{made}    loss = model(x).mean()\n{STEP}")
    outcome = migrate([tmp_path], Settings())
    assert not outcome.changed
    (left,) = outcome.findings
    assert (
        "what is trained is in half precision already: a model's weights were cast by `network.half()`" in left.message
    )
    assert left.hint.startswith("drop the cast")


UNREAD = """\
import torch
from diffusers import AutoModel
from peft import get_peft_model
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.generator = {made}

    def compute_loss(self, x, y):
        return nn.functional.mse_loss(self.generator(x), y)


model = Model()
{cast}
optimizer = torch.optim.AdamW({trained})
for x, y in loader:
    loss = model.compute_loss(x, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
LOADED, ADAPTED = "AutoModel.from_pretrained(name)", "get_peft_model(AutoModel.from_pretrained(name))"
PART_CAST = 'model.generator.to(device="cuda", dtype=torch.bfloat16)'
CAST_INSIDE = "model.generator.first.to(torch.bfloat16)"
OF_MODEL = "filter(lambda p: p.requires_grad, model.parameters())"


@pytest.mark.parametrize(
    ("made", "cast", "trained", "is_low"),
    [
        (LOADED, PART_CAST, "model.generator.parameters()", True),
        (ADAPTED, PART_CAST, OF_MODEL, True),
        (f"nn.Sequential({LOADED})", PART_CAST, OF_MODEL, True),
        (LOADED, f"model.generator = {PART_CAST}", "model.parameters()", True),
        (LOADED, PART_CAST.replace("bfloat16", "float32"), "model.parameters()", False),
        (LOADED, f"{PART_CAST}\nmodel.generator.requires_grad_(False)", "model.parameters()", False),
        (LOADED, CAST_INSIDE, "model.parameters()", True),
        (LOADED, CAST_INSIDE, "model.generator.last.parameters()", False),
        (LOADED, f"{CAST_INSIDE}\nmodel.generator.first.requires_grad_(False)", "model.parameters()", False),
        (f"nn.Sequential({LOADED}, nn.Linear(8, 8))", 'loader = loader.to("cuda", torch.bfloat16)', OF_MODEL, False),
    ],
)
def test_a_part_that_nobody_has_read_is_cast_before_it_is_trained(
    made: str, cast: str, trained: str, is_low: bool
) -> None:
    text = UNREAD.format(made=made, cast=cast, trained=trained)
    plan = migrate_text(text, Settings())
    assert (plan.after == text) is is_low
    assert any("in half precision already" in each.message for each in plan.findings) is is_low


PARTS = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode, self.decode = nn.Linear(8, 4), nn.Linear(4, 8)

    def forward(self, x):
        code = self.encode(x)
        return {"rebuilt": torch.sigmoid(self.decode(code)), "code": code}


def loss_of(x, out):
    return nn.functional.binary_cross_entropy(out["rebuilt"], x) + out["code"].abs().mean()


net = Net().cuda()
optimizer = torch.optim.Adam(net.parameters())
for x in loader:
    optimizer.zero_grad()
    out = net(x)
    loss = loss_of(x, out)
    loss.backward()
    optimizer.step()
"""


def test_true_gradients_of_the_round_before_are_not_clipped_by_a_scaled_limit() -> None:
    text = """\
import torch
from torch import nn

d, g = nn.Linear(4, 1).cuda(), nn.Linear(2, 4).cuda()
opt_d = torch.optim.Adam(d.parameters())
opt_g = torch.optim.Adam(g.parameters())
for z in loader:
    opt_d.zero_grad()
    d(g(z).detach()).mean().backward()
    nn.utils.clip_grad_norm_(g.parameters(), 5.0)
    try:
        opt_d.step()
        opt_g.zero_grad()
        d(g(z)).mean().backward()
    finally:
        pass
    opt_g.step()
"""
    plan = migrate_text(text, Settings())
    assert plan.after == text
    assert "gradients that are not scaled are clipped by a scaled limit (line 10)" in plan.findings[0].message


def test_what_holds_tensors_is_not_cast_like_one() -> None:
    after = migrate_text(PARTS, Settings()).after
    assert "        loss = loss_of(x, out)\n" in after
    assert "enabled=False):\n        return nn.functional.binary_cross_entropy(" in after
    single = PARTS.replace(
        'return {"rebuilt": torch.sigmoid(self.decode(code)), "code": code}', "return code.sigmoid()"
    )
    single = single.replace('out["rebuilt"]', "out").replace('out["code"]', "out")
    after = migrate_text(single, Settings()).after
    assert "return code.float().sigmoid()" in after
    assert "    loss = loss_of(x, out)\n" in after


@pytest.mark.parametrize(("loss", "times"), [("out.mean()", 0), ("(out @ out.t()).square().mean()", 1)])
def test_what_was_wrong_before_is_asked_only_where_something_is(
    loss: str, times: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def faults(original: precision.Original, read: Iterable[str]) -> Counter[precision.Key]:
        asked.append("train.py")
        return Counter()

    monkeypatch.setattr(precision.Original, "faults", faults)
    (tmp_path / "shown.py").write_text(SHOWN)
    (tmp_path / "train.py").write_text(f"{HEAD}    out = model(x)\n    loss = {loss}\n{STEP}")
    _, train = migrate([tmp_path], Settings()).changed
    assert "scaler.scale(loss).backward()" in train.after
    assert len(asked) == times


DEEP = """\
import torch
from torch import nn


def first(D, x):
    return second(D(x), x)


def second(out, x):
    return third(out, x) + 1


def third(out, x):
    return fourth(out.sum(), x).norm()


def fourth(out, x):
    return fifth(out, x)


def fifth(out, x):
    return torch.autograd.grad(out, x, create_graph=True)[0]


D = nn.Linear(8, 1).cuda()
optimizer = torch.optim.SGD(D.parameters(), lr=0.1)
for x in loader:
    optimizer.zero_grad()
    loss = D(x).mean() + first(D, x)
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize("dtype", [Dtype.FP16, Dtype.AUTO])
def test_gradients_of_an_unscaled_loss_are_seen_however_deep_they_are_taken(dtype: Dtype) -> None:
    plan = migrate_text(DEEP, Settings(dtype))
    assert plan.after == DEEP
    assert [each.message for each in plan.findings] == [
        "left as it was: torch.autograd.grad() takes gradients of an unscaled loss beside those of the scaled one "
        "(line 22)"
    ]
    assert "autocast" in migrate_text(DEEP, Settings(Dtype.BF16)).after


def test_gradients_of_float32_code_beside_a_step_need_no_scale() -> None:
    beside = "def look(x, scores):\n    return torch.autograd.grad(scores(x).sum(), x)[0]\n\n\n"
    text = DEEP.replace(" + first(D, x)", "").replace("D = nn", f"{beside}D = nn")
    assert "scaler.scale(loss).backward()" in migrate_text(text, Settings()).after


ENDLESS = """\
import torch
import torch.nn.functional as F
from torch import nn


def endless(loader):
    while True:
        for batch in loader:
            yield batch


model = nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches = endless(loader)
for _ in range(100):
    x = next(batches)
    optimizer.zero_grad()
    p = torch.sigmoid(model(x))
    loss = LOSS
    loss.backward()
    optimizer.step()
"""


def test_what_is_behind_a_generator_without_end_is_looked_at() -> None:
    text = ENDLESS.replace("LOSS", "sum(getattr(F, 'binary_cross_entropy')(each, x) for each in (p,))")
    (left,) = migrate_text(text, Settings(Dtype.FP16)).findings
    assert left.message.startswith("left as it was: autocast refuses it: binary_cross_entropy")
    assert "scaler.scale(loss)" in migrate_text(ENDLESS.replace("LOSS", "p.mean()"), Settings(Dtype.FP16)).after


OWN_FUNCTION = """\
import torch
from torch import nn
from torch.autograd import Function

import compiled


class Fused(Function):
    @staticmethod
    def forward(ctx, x):
        return compiled.leaky(x)

    @staticmethod
    def backward(ctx, grad):
        return compiled.leaky_backward(grad)


def penalty(out, x):
    grad, = torch.autograd.grad(outputs=out.sum(), inputs=x, create_graph=True)
    return grad.pow(2).mean() + 1


def total(out, x):
    return penalty(out, x) * 2


model = nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in loader:
    x.requires_grad_()
    optimizer.zero_grad()
    out = Fused.apply(model(x))
    loss = torch.stack([out.mean(), total(out, x)]).sum()
    loss.backward()
    optimizer.step()
"""


def test_a_function_of_autograds_own_hands_on_where_its_gradient_comes_through() -> None:
    (left,) = migrate_text(OWN_FUNCTION, Settings(Dtype.FP16)).findings
    assert "torch.autograd.grad() takes gradients of an unscaled loss" in left.message


SAVED_FROM_A_LIST = """\
import torch
from torch import nn


class Gan:
    def __init__(self):
        self.net = nn.Linear(8, 8).cuda()
        self.optimizer = torch.optim.Adam(self.net.parameters())
        self.optimizers = [self.optimizer]

    def train(self, data):
        loss = nn.functional.mse_loss(self.net(data.cuda()), data.cuda())
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def save(self, path):
        torch.save({"all": [each.state_dict() for each in self.optimizers]}, path)
"""


def test_a_scaler_that_no_checkpoint_holds_beside_its_optimizer_is_told_in_the_run_that_makes_it() -> None:
    plan = migrate_text(SAVED_FROM_A_LIST, Settings())
    told = [(each.line, each.code, each.kind) for each in plan.findings if each.code == "AMP611"]
    assert told == [(18, "AMP611", Kind.NOTE)]
    assert [each.code for each in migrate_text(plan.after, Settings()).findings] == ["AMP611"]
    for_bfloat16 = migrate_text(SAVED_FROM_A_LIST, Settings(Dtype.BF16))
    assert "autocast" in for_bfloat16.after
    assert "AMP611" not in {each.code for each in for_bfloat16.findings}


def test_a_scaler_that_is_saved_beside_one_optimizer_is_not_missed_beside_another() -> None:
    text = SAVED_FROM_A_LIST.replace("torch.save({", "torch.save({'optimizer': self.optimizer.state_dict(), ")
    plan = migrate_text(text, Settings())
    assert "scaler.state_dict()" in plan.after
    assert "AMP611" not in {each.code for each in plan.findings}


@pytest.mark.parametrize(
    "line", ["print(self.optimizer.state_dict())", "other.load_state_dict(self.optimizer.state_dict())"]
)
def test_a_state_that_goes_into_no_checkpoint_is_not_told(line: str) -> None:
    text = SAVED_FROM_A_LIST[: SAVED_FROM_A_LIST.index("        torch.save")] + f"        {line}\n"
    plan = migrate_text(text, Settings())
    assert "autocast" in plan.after
    assert "AMP611" not in {each.code for each in plan.findings}


SPARSE = """\
import torch
from torch import nn
from mesh import smooth

model = nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for graph, x in loader:
    optimizer.zero_grad()
    loss = smooth(graph, model(x)).mean()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize("product", ["torch.sparse.mm(graph, x)", "torch.spmm(graph, x)"])
def test_a_product_with_a_sparse_matrix_keeps_a_step_however_far_away_it_is(product: str, tmp_path: Path) -> None:
    (tmp_path / "mesh").mkdir()
    (tmp_path / "mesh/__init__.py").write_text("from .utils import smooth\n")
    helper = f"import torch\n\n\ndef smooth(graph, x):\n    return {product}\n"
    (tmp_path / "mesh/utils.py").write_text(helper)
    (tmp_path / "train.py").write_text(SPARSE)
    (left,) = migrate([tmp_path], Settings()).findings
    assert "under autocast no kernel takes half precision: " in left.message
    (tmp_path / "mesh/utils.py").write_text(helper.replace(product, "graph @ x"))
    (moved,) = migrate([tmp_path], Settings()).findings
    assert moved.code == "AMP501"


def test_a_step_behind_something_that_raises_is_looked_at_as_well(tmp_path: Path) -> None:
    raising = "class Exact:\n    pass\n\n\nexact = Exact().solve()\n"
    text = SPARSE.replace("from mesh import smooth\n", f"\n\n{raising}").replace("smooth(", "torch.linalg.solve(")
    (tmp_path / "train.py").write_text(text)
    (train,) = migrate([tmp_path], Settings()).changed
    assert "torch.linalg.solve(graph, model(x).float())" in train.after


SWITCHED = """\
import argparse

import torch
from torch import nn

PICKED = {"soft": torch.softmax, "log": torch.log_softmax}


def metrics(logits, generate):
    return generate(logits.flatten(0, 1), dim=1).max().item()


parser = argparse.ArgumentParser()
parser.add_argument("--fp16", action="store_true")
parser.add_argument("--loss", default="soft")
args = parser.parse_args()
model = nn.Linear(8, 50000).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
if args.fp16:
    from apex import amp

    model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
for x, labels in [(torch.rand(4, 2, 8), torch.zeros(8).long())]:
    logits = model(x.cuda())
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), labels.cuda())
    print(metrics(logits, PICKED[args.loss]))
    if args.fp16:
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
    else:
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_what_leaves_a_region_that_a_run_switches_is_float32_for_what_autocast_computes_so() -> None:
    after = migrate_text(SWITCHED, Settings()).after
    assert "enabled=args.fp16" in after
    assert "    print(metrics(logits.float(), PICKED[args.loss]))\n" in after
    as_it_was = SWITCHED.replace("generate(logits.flatten(0, 1), dim=1)", "logits")
    assert "    print(metrics(logits, PICKED[args.loss]))\n" in migrate_text(as_it_was, Settings()).after


@pytest.mark.parametrize(("other", "is_gram"), [("keys", False), ("queries", True)])
def test_a_product_of_what_two_calls_of_a_function_give_is_none_of_a_matrix_with_itself(
    other: str, is_gram: bool
) -> None:
    text = f"""\
import torch
from torch import nn


def turned(x):
    return torch.cat([x[..., 1:], x[..., :1]], -1)


model, second = nn.Linear(4, 4).cuda(), nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD([*model.parameters(), *second.parameters()], lr=0.1)
for x, target in loader:
    queries = turned(model(x.cuda()))
    keys = turned(second(x.cuda()))
    loss = (queries @ {other}.t()).square().mean()
{STEP}"""
    said = " ".join(each.message for each in migrate_text(text, Settings()).findings)
    assert ("products of a matrix with itself" in said) is is_gram


def test_what_is_wrong_where_the_scaler_is_made_leaves_the_step_alone(tmp_path: Path) -> None:
    made = "model = torch.nn.Linear(2, 2).cuda()\n{} = torch.optim.SGD(model.parameters(), lr=0.1)\n"
    main = f"import torch\nfrom torch.cuda.amp import custom_fwd\nfrom engine import train\n\n{made}{made}"
    (tmp_path / "main.py").write_text(f"{main.format('a', 'b')}train(model, loader, a, b, 1.0)\n")
    (tmp_path / "engine.py").write_text(f"import torch\n\n\n{TWO_OPTIMIZERS}")
    plans = {each.source.path.name: each for each in migrate([tmp_path], Settings()).plans}
    assert "from torch.amp import custom_fwd" in plans["main.py"].after
    assert "GradScaler" not in plans["main.py"].after
    assert not plans["engine.py"].changed
    assert [each.kind for each in plans["engine.py"].findings] == [Kind.LEFT]


BY_HAND = """\
import copy
import torch
from torch import nn

model = nn.Linear(4, 2).cuda()
outer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    outer.zero_grad()
    inner = copy.deepcopy(model)
    optimizer = torch.optim.SGD(inner.parameters(), lr=0.1)
    loss = nn.functional.mse_loss(inner(x.cuda()), y.cuda())
    loss.backward()
    optimizer.step()
    for ours, its in zip(model.parameters(), inner.parameters()):
        {given}
    outer.step()
"""


@pytest.mark.parametrize(
    ("given", "is_said"),
    [
        ("ours.grad = its.grad.clone()", True),
        ("ours.grad.data.add_(its.grad.data)", True),
        ("ours.grad.copy_(its.grad)", True),
        ("print(its.grad)", False),
        ("ours.data.copy_(its.data)", False),
    ],
)
def test_gradients_that_are_given_by_hand_are_said_to_be(given: str, is_said: bool) -> None:
    plan = migrate_text(BY_HAND.format(given=given), Settings())
    left = [each.message for each in plan.findings if each.kind is Kind.LEFT]
    assert len(left) == 1
    assert ("what `.grad` is given by hand is of no scaled loss" in left[0]) is is_said


def test_what_a_function_of_torch_is_given_in_a_list_is_not_what_it_was_given_before() -> None:
    """The critic's optimizer has the generator's weights: its step does nothing, and raises with a scaler."""
    text = """\
import torch
from torch import nn


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 3)
        self.second = nn.Linear(8, 3)

    def forward(self, noise, fake):
        return torch.cat([self.first(noise), self.second(fake)], 1)


generator, critic = nn.Linear(4, 8).cuda(), Critic().cuda()
g_optimizer = torch.optim.Adam(generator.parameters(), lr=1e-3)
c_optimizer = torch.optim.Adam(OWNER.parameters(), lr=1e-3)
for step in range(10):
    noise = torch.randn(8, 4).cuda()
    fake = generator(noise).detach()
    c_loss = critic(noise, fake).square().mean()
    c_optimizer.zero_grad()
    c_loss.backward()
    c_optimizer.step()
    fake = generator(noise)
    g_loss = critic(noise, fake).square().mean()
    g_optimizer.zero_grad()
    g_loss.backward()
    g_optimizer.step()
"""
    left = migrate_text(text.replace("OWNER", "generator"), Settings())
    assert not left.changed
    assert any("a scaler steps an optimizer without gradients" in each.message for each in left.findings)
    assert "scaler.step(c_optimizer)" in migrate_text(text.replace("OWNER", "critic"), Settings()).after


@pytest.mark.parametrize(
    ("computed", "cast"),
    [
        ("torch.fft.rfft2(h)", "torch.fft.rfft2(h.float())"),
        ("torch.linalg.slogdet(h * 2)[1]", "torch.linalg.slogdet((h * 2).float())[1]"),
        (
            "torch.stft(h.flatten(1), 64, return_complex=True)",
            "torch.stft(h.float().flatten(1), 64, return_complex=True)",
        ),
        ("torch.histc(input=h)", "torch.histc(input=h.float())"),
    ],
)
def test_what_has_no_kernel_for_half_precision_reads_in_float32(computed: str, cast: str) -> None:
    text = f"""\
import torch
from torch import nn

model = nn.Conv2d(3, 8, 3).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in loader:
    optimizer.zero_grad()
    h = model(x.cuda())
    loss = {computed}.abs().mean()
    loss.backward()
    optimizer.step()
"""
    plan = migrate_text(text, Settings())
    assert [each.code for each in plan.findings] == ["AMP501"]
    assert f"    loss = {cast}.abs().mean()\n" in plan.after


@pytest.mark.parametrize(
    ("product", "is_kept"),
    [
        ("torch.bmm(x.transpose(1, 2), torch.bmm(between, x))", True),
        ("x.mT @ between @ x", True),
        ("torch.matmul(torch.matmul(x.mT, between), x)", True),
        ("x.mT @ (between @ x[:1])", False),
        ("between @ (between @ x)", False),
        ("x.mT @ (weight @ x)", False),
        ("torch.softmax(x, 1).mT @ (between @ x)", False),
        ("(between @ between.mT) @ x", True),
    ],
)
def test_a_matrix_on_both_sides_of_another_is_multiplied_with_itself(product: str, is_kept: bool) -> None:
    text = f"""\
import torch
from torch import nn

model, second = nn.Linear(4, 4).cuda(), nn.Linear(4, 4).cuda()
weight = nn.Parameter(torch.zeros(4, 4, device="cuda"))
optimizer = torch.optim.SGD([*model.parameters(), *second.parameters(), weight], lr=0.1)
for data, target in loader:
    x, between = model(data.cuda()) * 3, second(data.cuda())
    found = {product}
    loss = found.mean()
{STEP}"""
    after = migrate_text(text, Settings())
    said = [each.message for each in after.findings if "products of a matrix with itself" in each.message]
    assert [each.startswith("kept in float32") for each in said] == [True] * is_kept
