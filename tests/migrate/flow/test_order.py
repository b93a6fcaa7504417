"""What an analysis finds, and what it costs, depends on the program alone: on no hash seed, and on no run before it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from amp_migrate.flow.analysis import Analysis
from amp_migrate.flow.domain.atoms import Atom, Part
from amp_migrate.flow.events import Act
from amp_migrate.flow.questions import Questions

from .conftest import HEAD, Texts

MODEL = f"""{HEAD}
class Block(nn.Module):
    def __init__(self, width, scaled=False):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(3)])
        self.norm = nn.BatchNorm1d(width) if scaled else nn.LayerNorm(width)
        self.shift = nn.Parameter(torch.zeros(width))

    def forward(self, x, keep=None):
        for layer in self.layers:
            x = layer(x).relu() if keep is None else keep(layer(x))
        return self.norm(x) + self.shift


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleDict({{"a": Block(4), "b": Block(4, True), "c": nn.Sequential(Block(4), nn.Tanh())}})

    def forward(self, x):
        return {{name: part(x) for name, part in self.parts.items()}}
"""
MAIN = f"""{HEAD}from model import Block, Pair
models = {{"one": Block(4).cuda(), "two": Pair().cuda()}}
optimizers = [optim.SGD(m.parameters(), lr=0.1) for m in models.values()]
scaler, other = torch.amp.GradScaler("cuda"), torch.amp.GradScaler("cuda")


def step(opt, loss, clip=None, accumulate=1):
    if accumulate > 1:
        loss = loss / accumulate
    scaler.scale(loss).backward()
    if clip:
        if accumulate == 1:
            scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(models["one"].parameters(), clip)
    scaler.step(opt)
    scaler.update()


for epoch in range(9):
    for name, opt in zip(models, optimizers):
        with torch.amp.autocast("cuda", enabled=epoch > 3):
            out = models[name](torch.ones(2, 4).cuda())
            loss = sum(v.square().mean() for v in out.values()) if isinstance(out, dict) else (out @ out.t()).sum()
        step(opt, loss, clip=epoch, accumulate=len(name))
        if epoch % 2:
            opt.zero_grad()
    with torch.no_grad():
        table = [torch.multinomial(m(torch.ones(2, 4).cuda()).softmax(-1), 1) for m in models.values()]
"""
TEXTS = {"train.py": MAIN, "model.py": MODEL}


def told() -> list[str]:
    """Everything that an analysis says, and its counters."""
    found = Analysis(Texts(TEXTS), ["train.py"]).run()
    questions = Questions(found)
    counted = found.interpreted, found.executed, found.consulted, found.evaluated, found.is_complete
    events = [f"{e.site} {e.act} {e.why} {e.tensor} {len(e.states)} {list(e.subject)}" for e in questions.events()]
    return [str(counted), *events, *map(str, questions.faults())]


def test_no_hash_seed_changes_what_is_told() -> None:
    assert len(told()) > 15
    root = Path(__file__).parents[3]
    # The second budget is spent long before the end, so that what is known depends on what was interpreted first.
    code = (
        "from tests.migrate.flow.test_order import told; from amp_migrate.flow import analysis\n"
        "print(*told(), sep='\\n')\nanalysis._STATEMENTS = 0; analysis._STATEMENTS_PER_LINE = 1\n"
        "print(*told(), sep='\\n')"
    )

    def run(seed: int) -> str:
        environment = os.environ | {"PYTHONHASHSEED": str(seed), "PYTHONPATH": os.pathsep.join([str(root), *sys.path])}
        ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        return ran.stdout

    first, *others = (run(seed) for seed in range(4))
    assert "False)" in first  # the smaller budget does not suffice
    assert others == [first] * 3


def test_no_run_before_changes_what_is_told() -> None:
    alone = told()
    Analysis(Texts({"a.py": MODEL + MAIN.replace("from model import Block, Pair\n", "")}), ["a.py"]).run()
    assert told() == alone


def test_what_is_made_behind_another_run_is_what_its_own_run_has_made() -> None:
    text = f"{MODEL}net = Pair()\noptim.SGD(net.parameters(), lr=0.1).step()\n"
    questions = Questions(Analysis(Texts({"a.py": text}), ["a.py"]).run())

    def made() -> list[Atom]:
        known = [part for each in questions.events(Act.STEP) for part in questions.parameters_of(*each.optimizer)]
        assert known
        return [Part(each.owner, each.name) for each in known if isinstance(each, Part)]

    before = made()
    Analysis(Texts(TEXTS), ["train.py"]).run()
    assert all(one is other for one, other in zip(before, made(), strict=True))
