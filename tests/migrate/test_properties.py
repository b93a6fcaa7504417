"""What holds for every input: generated programs keep their meaning, and no text, however broken, does any harm."""

from __future__ import annotations

import ast
import io
import os
import random
import subprocess
import sys
import tokenize
from collections import Counter
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import amp_migrate
import pytest
from amp_migrate.engine.migrate import migrate, migrate_text
from amp_migrate.report.finding import Kind
from amp_migrate.settings import Dtype, Settings
from hypothesis import given, settings
from hypothesis import strategies as st

PACKAGE = Path(amp_migrate.__file__).parent
ROOT = PACKAGE.parents[1]
SCRIPTS = sorted((ROOT / "fixtures").glob("*/*.py"))
REAL = [path.read_text(encoding="utf-8") for path in [*SCRIPTS, *sorted(PACKAGE.glob("engine/*.py"))]]

# How a file may come to autocast, and what it is called there.
IMPORTS = {
    "import torch": "torch.cuda.amp.autocast",
    "import torch as th": "th.cuda.amp.autocast",
    "import torch.cuda.amp": "torch.cuda.amp.autocast",
    "import torch.cuda.amp as mixed": "mixed.autocast",
    "import torch.cuda as tc": "tc.amp.autocast",
    "from torch import cuda": "cuda.amp.autocast",
    "from torch.cuda import amp": "amp.autocast",
    "from torch.cuda import amp as a": "a.autocast",
    "from torch.cuda.amp import autocast": "autocast",
    "from torch.cuda.amp import autocast as ac, GradScaler": "ac",
    "from torch.cuda.amp import *": "autocast",
    "from torch.cuda.amp.autocast_mode import autocast": "autocast",
    "import torch\namp = torch.cuda.amp": "amp.autocast",
    "import torch\nautocast = torch.cuda.amp.autocast": "autocast",
    "import torch\ntry:\n    from torch.cuda.amp import autocast\nexcept ImportError:\n    autocast = None": "autocast",
}
ARGUMENTS = [
    "", "enabled=flag", "flag", "False, float16", "True, bfloat16, False", "dtype=bfloat16", "cache_enabled=flag",
    "\n    enabled=flag,  # as asked for\n    dtype=float16,\n", "flag, cache_enabled=False", "enabled=not flag,",
]  # fmt: skip
USES = [
    "with {make}:\n    pass",
    "with nullcontext(), {make} as region, nullcontext():\n    pass",
    "@{make}\ndef step():\n    pass",
    "regions = [{make} for _ in range(2)]",
    "region = {make} if flag else nullcontext()",
    "make = lambda: {make}\nmake()",
    "def give(region={make}):\n    return region",
    "class Trainer:\n    region = {make}",
    "region = partial({name}, enabled=flag)\nregion()",
    "region = {name} if flag else nullcontext\nregion()",
]


def fake_torch(seen: list[tuple[Any, ...]], *, old: bool) -> dict[str, ModuleType]:
    """A torch whose regions only say what they were asked for; without `old`, the deprecated packages are empty."""

    class Region:
        def __init__(self, device_type: str, dtype: str, enabled: bool = True, cache_enabled: bool = True) -> None:
            seen.append((device_type, dtype, enabled, cache_enabled))

        def __enter__(self) -> None: ...
        def __exit__(self, *_: object) -> None: ...
        def __call__(self, function: Any) -> Any:
            return function

    class OldRegion(Region):
        def __init__(self, enabled: bool = True, dtype: str = "float16", cache_enabled: bool = True) -> None:
            super().__init__("cuda", dtype, enabled, cache_enabled)

    modules = {name: ModuleType(name) for name in ("torch", "torch.amp", "torch.cuda")}
    modules["torch.amp"].__dict__.update(autocast=Region, GradScaler=object)
    modules["torch"].__dict__.update(
        float16="float16", bfloat16="bfloat16", amp=modules["torch.amp"], cuda=modules["torch.cuda"]
    )
    package, module = ModuleType("torch.cuda.amp"), ModuleType("torch.cuda.amp.autocast_mode")
    if old:
        package.__dict__.update(autocast=OldRegion, GradScaler=object, autocast_mode=module)
        module.__dict__["autocast"] = OldRegion
    modules["torch.cuda"].__dict__["amp"] = package
    modules |= {"torch.cuda.amp": package, "torch.cuda.amp.autocast_mode": module}
    return modules


@contextmanager
def in_place_of_torch(modules: dict[str, ModuleType]) -> Any:
    """Answer `import torch` with `modules`, and with nothing else."""
    kept = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "torch"}
    for name in kept:
        del sys.modules[name]
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name in modules:
            del sys.modules[name]
        sys.modules.update(kept)


def regions_of(program: str, *, flag: bool, old: bool) -> list[tuple[Any, ...]]:
    """What the regions of a program are asked for when it runs."""
    from functools import partial

    seen: list[tuple[Any, ...]] = []
    with in_place_of_torch(fake_torch(seen, old=old)):
        names = {
            "flag": flag, "float16": "float16", "bfloat16": "bfloat16", "nullcontext": nullcontext, "partial": partial
        }  # fmt: skip
        exec(compile(program, "program.py", "exec"), names)
    return seen


@given(
    st.sampled_from(list(IMPORTS)),
    st.lists(st.tuples(st.sampled_from(USES), st.sampled_from(ARGUMENTS)), min_size=1, max_size=4),
    st.booleans(),
)
@settings(max_examples=30, deadline=None)
def test_every_way_to_write_a_region_keeps_what_it_asks_for(
    brought: str, uses: list[tuple[str, str]], flag: bool
) -> None:
    name = IMPORTS[brought]
    parts = [use.format(name=name, make=f"{name}({arguments})") for use, arguments in uses]
    program = "\n".join(["from functools import partial", brought, *parts, ""])
    plan = migrate_text(program, Settings())
    left = [finding for finding in plan.findings if finding.kind is Kind.LEFT]
    assert [finding for finding in plan.findings if finding.kind is Kind.ERROR] == []
    if not left:
        assert regions_of(plan.after, flag=flag, old=False) == regions_of(program, flag=flag, old=True)
    else:
        # Only a class that is handed on as a value may stay; two such values under one name are not followed.
        assert any("{make}" not in use for use, _ in uses)
        assert regions_of(plan.after, flag=flag, old=True) == regions_of(program, flag=flag, old=True)


def comments(text: str) -> Counter[str]:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return Counter(token.string for token in tokens if token.type == tokenize.COMMENT)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: f"{path.parent.name}/{path.stem}")
@pytest.mark.parametrize("dtype", list(Dtype))
def test_no_comment_is_lost(path: Path, dtype: Dtype) -> None:
    text = path.read_text(encoding="utf-8")
    after = migrate_text(text, Settings(dtype=dtype), path.name).after
    gone = comments(text) - comments(after)
    assert all("apex" in comment.lower() or "scale" in comment for comment in gone), gone


@given(st.sampled_from(REAL), st.randoms(use_true_random=False), st.sampled_from(list(Dtype)))
@settings(max_examples=10, deadline=None)
def test_broken_text_is_told_or_migrated_and_never_a_fault(text: str, chance: random.Random, dtype: Dtype) -> None:
    lines = text.splitlines(keepends=True)
    for _ in range(chance.randint(1, 3)):
        at, other = chance.randrange(len(lines)), chance.randrange(len(lines))
        change = chance.choice(["drop", "repeat", "swap", "indent", "cut"])
        if change == "drop":
            lines[at] = ""
        elif change == "repeat":
            lines[at] += lines[at]
        elif change == "swap":
            lines[at], lines[other] = lines[other], lines[at]
        elif change == "indent":
            lines[at] = "    " + lines[at]
        else:
            lines[at] = lines[at][: len(lines[at]) // 2]
    mutated = "".join(lines)
    plan = migrate_text(mutated, Settings(dtype=dtype))
    # AMP001 says that a text does not parse; AMP002 would be a fault of the tool.
    assert {finding.code for finding in plan.findings if finding.kind is Kind.ERROR} <= {"AMP001"}
    if plan.changed:
        # A text may parse and yet not compile, with a `return` behind a `def` that is gone: so does what is made of it.
        flags = 0 if compiles(mutated) else ast.PyCF_ONLY_AST
        compile(plan.after, "after.py", "exec", flags=flags, dont_inherit=True)
        assert migrate_text(plan.after, Settings(dtype=dtype)).after == plan.after
    else:
        assert plan.after == mutated


def compiles(text: str) -> bool:
    try:
        compile(text, "before.py", "exec", dont_inherit=True)
    except SyntaxError:
        return False
    return True


@given(st.text(alphabet=st.sampled_from("amp.torch()=:\n\t '\"\\#[]{}\x00\x0c\u0394loss.backward")))
@settings(max_examples=60, deadline=None)
def test_any_text_comes_back_whole(text: str) -> None:
    plan = migrate_text(f"{text}\nloss.backward()\n", Settings())
    assert {finding.code for finding in plan.findings if finding.kind is Kind.ERROR} <= {"AMP001"}


# Programs of Apex with a plain step beside: how they initialize, go backward, and come to the plain step's optimizer.
INITIALIZES = [
    "amp.initialize(model, optimizer, opt_level='O1')",
    "amp.initialize(model, optimizer, opt_level='O0')",
    "amp.initialize(model, optimizer, opt_level=args.level)",
    "amp.initialize(model, optimizer, enabled=args.fp16)",
]
SCALED = "with amp.scale_loss(loss, optimizer) as scaled:\n                scaled.backward()"
BACKWARDS = [
    f"if True:\n            {SCALED}",
    f"if args.fp16:\n            {SCALED}\n        else:\n            loss.backward()",
]
OPTIMIZERS = ["torch.optim.SGD(model.parameters(), lr=0.1)", "given"]
LOOP = """    for x, y in loader:
        optimizer.zero_grad()
        loss = (model(x) - y).square().mean()
        {backward}
        optimizer.step()
"""
TRAIN = """
def train(args, model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer = {initialize}
{loop}    return model, optimizer
"""
WARM = """
def warm(model, given, loader):
    optimizer = {optimizer}
{loop}"""
MAIN = """
def main(args, model, loader):
    model, optimizer = train(args, model, loader)
    warm(model, optimizer, loader)
"""
HOMES = [
    {"train.py": "from apex import amp\n{train}{warm}{main}"},
    {"train.py": "from apex import amp\nfrom warm import warm\n{train}{main}", "warm.py": "{warm}"},
    {"main.py": "from train import train\n{warm}{main}", "train.py": "from apex import amp\n{train}"},
    {
        "main.py": "from train import train\nfrom warm import warm\n{main}",
        "train.py": "from apex import amp\n{train}",
        "warm.py": "{warm}",
    },
]


@given(st.sampled_from(INITIALIZES), st.sampled_from(BACKWARDS), st.sampled_from(OPTIMIZERS), st.sampled_from(HOMES))
@settings(max_examples=25, deadline=None)
def test_a_second_run_over_the_files_of_a_program_changes_nothing(
    initialize: str, backward: str, optimizer: str, home: dict[str, str]
) -> None:
    train = TRAIN.format(initialize=initialize, loop=LOOP.format(backward=backward))
    warm = WARM.format(optimizer=optimizer, loop=LOOP.format(backward="loss.backward()"))
    with TemporaryDirectory() as folder:
        for name, text in home.items():
            whole = "import torch\n" + text.format(train=train, warm=warm, main=MAIN)
            (Path(folder) / name).write_text(whole, encoding="utf-8")
        first = migrate([Path(folder)], Settings())
        assert first.changed
        for plan in first.changed:
            plan.source.path.write_text(plan.after, encoding="utf-8")
        assert migrate([Path(folder)], Settings()).changed == ()


def test_hash_seed_and_processes_make_no_difference() -> None:
    outputs = set()
    for seed, workers in (("0", "1"), ("1", "2"), ("42", "4")):
        command = [sys.executable, "-c", "from amp_migrate.cli import main; main()", "fixtures", "shim", "--diff"]
        done = subprocess.run(
            [*command, "--workers", workers],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(PACKAGE.parent)},
            capture_output=True,
            timeout=300,
            check=True,
        )
        outputs.add((done.stdout, done.stderr))
    assert len(outputs) == 1
    assert b"+++ " in next(iter(outputs))[0]
