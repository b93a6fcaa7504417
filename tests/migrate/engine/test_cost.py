"""What a run costs depends on what may change, and not on what lies around it: counted, and so the same everywhere."""

from __future__ import annotations

import ast
import gc
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from weakref import WeakSet

import libcst as cst
import pytest
from amp_migrate import syntax
from amp_migrate.analysis.names.file_names import Names
from amp_migrate.analysis.names.scopes import Scope, Scopes
from amp_migrate.analysis.project import FunctionRef, Project
from amp_migrate.analysis.roles import Roles
from amp_migrate.engine import workspace
from amp_migrate.engine.migrate import migrate
from amp_migrate.engine.parsed_files import ParsedLibrary
from amp_migrate.engine.parts import in_parts
from amp_migrate.engine.parts.work import Work, done, since
from amp_migrate.engine.results import worse_numerics
from amp_migrate.engine.workspace import Workspace
from amp_migrate.flow import programs
from amp_migrate.flow.files import Files
from amp_migrate.flow.questions import Fault, Questions
from amp_migrate.flow.source import Code, Module, read_module
from amp_migrate.flow.task import Task
from amp_migrate.settings import Dtype, Settings
from amp_migrate.steps.regions import evaluation, find_regions
from amp_migrate.steps.regions.find_regions import Placement
from amp_migrate.steps.regions.quiet_regions import place_quiet_regions
from amp_migrate.trees.nodes import Statement
from amp_migrate.trees.own_calls import calls_of
from amp_migrate.trees.tree import Tree

SCRIPT = """\
import torch
from amp_parts.net_{0} import Net

model = Net().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in range(9):
    loss = torch.nn.functional.mse_loss(model(torch.ones(4, 8).cuda()), torch.ones(4, 2).cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
NET = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, {0} + 8), nn.Linear({0} + 8, 2)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))
"""
# What a repository is full of: modules of PyTorch, and tools that have nothing to do with it.
IDLE = ("import torch\n\n\ndef shift_{0}(x):\n    return torch.roll(x, {0})\n", "def name_{0}():\n    return '{0}'\n")

# A model of a class that nobody sees, which is told something, and the classes that it may be of.
TELLING = """\
import torch
from elsewhere import make_model

model = make_model().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model.set_checkpoints(True)
for x in range(9):
    loss = torch.nn.functional.mse_loss(model(torch.ones(4, 8).cuda()), torch.ones(4, 2).cuda())
    if x > 5:
        model.set_checkpoints(False)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
TOLD = (
    NET
    + """
    def set_checkpoints(self, on):
        self.checkpoints = {1}
"""
)


@pytest.fixture
def work(tmp_path: Path) -> Callable[..., Mapping[Work, int]]:
    """What it takes to migrate a tree of so many scripts, with as many modules, and so many files without a step."""

    def run(scripts: int, idle: int) -> Mapping[Work, int]:
        root = tmp_path / f"{scripts}-{idle}"
        (root / "amp_parts").mkdir(parents=True)
        for number in range(scripts):
            # In folders of their own: what stands beside a script may be of it.
            (root / f"task_{number}").mkdir()
            (root / f"task_{number}" / "train.py").write_text(SCRIPT.format(number))
            (root / "amp_parts" / f"net_{number}.py").write_text(NET.format(number))
        for number in range(idle):
            (root / f"idle_{number}.py").write_text(IDLE[number % 2].format(number))
        before = done()
        outcome = migrate([root], Settings())
        assert len(outcome.changed) == scripts
        return since(before)

    return run


PARSED = (Work.LIBCST, Work.LIBCST_FILES, Work.AST, Work.PLANS, Work.EDITS)


def test_files_without_a_step_are_not_parsed_however_many_there_are(work: Callable[..., Mapping[Work, int]]) -> None:
    few, many = work(scripts=4, idle=8), work(scripts=4, idle=80)
    assert {what: many[what] for what in PARSED} == {what: few[what] for what in PARSED}
    assert many[Work.READ] == few[Work.READ] + 72


def test_twice_as_many_scripts_cost_at_most_twice_as_much(work: Callable[..., Mapping[Work, int]]) -> None:
    some, twice = work(scripts=4, idle=8), work(scripts=8, idle=8)
    assert {what: twice[what] for what in PARSED if twice[what] > 2 * some[what]} == {}


def test_no_file_is_parsed_twice(work: Callable[..., Mapping[Work, int]]) -> None:
    found = work(scripts=4, idle=8)
    # Each script, and the module of its model; Python's own parser reads what would be written.
    assert found[Work.LIBCST_FILES] == 2 * 4


@pytest.mark.parametrize(
    ("told", "parsed"),
    [
        ("on", 1),
        ("bool(on)", 1),
        ("self.first.set_checkpoints(on)", 1),
        ("self.bool(on)", 1 + 8),
        ("set_checkpoints(on)", 1 + 8),
        ('"""\nas told\n""" and shift(on)', 1 + 8),
    ],
)
def test_models_whose_method_runs_nothing_are_not_parsed_to_see_whether_it_runs_one(
    tmp_path: Path, told: str, parsed: int
) -> None:
    (tmp_path / "train.py").write_text(TELLING)
    for number in range(8):
        (tmp_path / f"net_{number}.py").write_text(TOLD.format(number, told))
    before = done()
    assert len(migrate([tmp_path], Settings()).changed) == 1
    assert since(before)[Work.LIBCST_FILES] == parsed


CALLED = """
import torch
from torch import nn, optim


def fit(net, opt, batches):
    for x in batches:
        opt.zero_grad()
        loss = net(x.cuda()).mean()
        loss.backward()
        opt.step()


net = nn.Linear(4, 4).cuda()
fit(net, optim.SGD(net.parameters(), lr=0.1), torch.ones(8, 2, 4))
"""
NAMED = """
import torch


def fit{0}(fit=None, at=None):
    return torch.load("fit", fit={1})
"""


@pytest.mark.parametrize(("given", "parsed"), [("None", 1), ("fit", 1), ("torch.fit", 1), ("at.fit", 1 + 8)])
def test_files_in_which_a_function_of_a_step_is_only_a_word_are_not_parsed(
    tmp_path: Path, given: str, parsed: int
) -> None:
    (tmp_path / "train.py").write_text(CALLED)
    for number in range(8):
        (tmp_path / f"named_{number}.py").write_text(NAMED.format(number, given))
    before = done()
    assert len(migrate([tmp_path], Settings()).changed) == 1
    assert since(before)[Work.LIBCST_FILES] == parsed


NORMALIZING = """
from apex.normalization import FusedLayerNorm

norm = FusedLayerNorm(8)
"""


@pytest.mark.parametrize(("module", "parsed"), [("elsewhere", 1), ("norms", 1 + 8)])
def test_files_that_take_a_name_of_apex_from_elsewhere_are_not_parsed(tmp_path: Path, module: str, parsed: int) -> None:
    (tmp_path / "norms.py").write_text(NORMALIZING)
    for number in range(8):
        (tmp_path / f"layer_{number}.py").write_text(f"from {module} import FusedLayerNorm\n\nFusedLayerNorm(8)\n")
    before = done()
    migrate([tmp_path], Settings())
    assert since(before)[Work.LIBCST_FILES] == parsed


HELPING = """

def mean_{0}(values):
    total = 0.0
    for value in values:
        total += value
    return total / len(values)
"""
SCORING = """

def score(model, x):
    with torch.no_grad():
        return model(x)
"""


def test_functions_in_which_gradients_are_on_are_not_searched_for_evaluation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched = []

    def place(*given: Any) -> Placement:
        searched.append(given)
        return place_quiet_regions(*given)

    monkeypatch.setattr(evaluation, "place_quiet_regions", place)
    (tmp_path / "train.py").write_text(SCRIPT.format(0) + "".join(map(HELPING.format, range(8))) + SCORING)
    assert len(migrate([tmp_path], Settings()).changed) == 1
    assert len(searched) == 1 + 1  # the step's own code, and the function that evaluates


TESTING = """
import torch
from library.make import make_model


def test_gradients():
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = model(torch.ones(2, 8).cuda()).mean()
    loss.backward()
    optimizer.step()
"""
MAKING = """
from library.parts_0 import add_parts


def make_model(parser=None):
    return add_parts(parser)
"""
ADDING = """
from library.parts_{1} import add_parts as add_more


def add_parts(parser):
    parser.add_argument("--part-{0}")
    return add_more(parser)
"""


@pytest.mark.parametrize(("name", "parsed"), [("tests/test_model.py", 1), ("train_model.py", 1 + 1 + 8)])
def test_what_a_unit_test_computes_is_not_looked_for_in_the_project(tmp_path: Path, name: str, parsed: int) -> None:
    for path, text in {name: TESTING, "library/make.py": MAKING}.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    for number in range(8):
        (tmp_path / "library" / f"parts_{number}.py").write_text(ADDING.format(number, number + 1))
    before = done()
    migrate([tmp_path], Settings())
    assert since(before)[Work.LIBCST_FILES] == parsed


LOW = """
import torch

model = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda")
for x in range(9):
    optimizer.zero_grad()
    with torch.amp.autocast("cuda", dtype=torch.float16):
        loss = model(torch.ones(2, 4).cuda()).mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""
MASKING = """
import torch


class Net{0}(torch.nn.Module):
    def forward(self, x, mask):
        return (x @ x.T).masked_fill(mask, -1e9).clamp(max=1 - 1e-7)
"""


@pytest.mark.parametrize(("folder", "parsed"), [("other", 1), ("task/models", 1 + 8)])
def test_models_that_are_none_of_the_scripts_are_not_parsed(tmp_path: Path, folder: str, parsed: int) -> None:
    texts = {f"{folder}/net_{number}.py": MASKING.format(number) for number in range(8)}
    texts |= {"task/train.py": LOW, "run.py": f"import {folder.replace('/', '.')}.net_0\nimport task.train\n"}
    for path, text in texts.items():
        (tmp_path / path).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / path).write_text(text)
    before = done()
    migrate([tmp_path], Settings())
    assert since(before)[Work.LIBCST_FILES] == parsed


SCALING = """
import torch
from library.make import make_model


class {0}:
    def scale(self, loss):
        return loss * 512


def train(batches, grad_scaler={0}()):
    model = make_model()
    for x in batches:
        loss = model(x).mean()
        grad_scaler.scale{1}.backward()
"""


@pytest.mark.parametrize(
    ("name", "scaled", "is_read"),
    [("LossGradScaler", ".apply(loss)", False), ("GradScaler", ".apply(loss)", True), ("LossScaler", "(loss)", True)],
)
def test_a_file_is_not_interpreted_for_a_name_that_only_ends_as_a_scaler_s(
    tmp_path: Path, name: str, scaled: str, is_read: bool
) -> None:
    # What it hands back is seen without reading on: whether that is a model is asked of every call.
    making = MAKING.replace("return add_parts(parser)", "add_parts(parser)\n    return torch.nn.Linear(2, 2)")
    making = f"import torch\n{making}"
    (tmp_path / "library").mkdir()
    (tmp_path / "train.py").write_text(SCALING.format(name, scaled))
    (tmp_path / "library/make.py").write_text(making)
    for number in range(8):
        (tmp_path / "library" / f"parts_{number}.py").write_text(ADDING.format(number, number + 1))
    before = done()
    migrate([tmp_path], Settings())
    own = len(SCALING.splitlines()) + len(making.splitlines())
    assert (since(before)[Work.AST] > own) == is_read  # what it imports, as deep as a call is followed


@pytest.mark.parametrize(("kept", "times"), [(2**20, 1), (0, 2)])
def test_what_several_analyses_ask_for_is_parsed_for_one_of_them_as_long_as_it_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: int, times: int
) -> None:
    parsed = Counter[str]()

    def reading(file: str, text: str) -> Module | None:
        parsed[Path(file).name] += 1
        return read_module(file, text)

    monkeypatch.setattr(workspace, "read_module", reading)
    monkeypatch.setattr(workspace, "_PARSED_BYTES", kept)
    (tmp_path / "amp_parts").mkdir()
    (tmp_path / "amp_parts" / "net_0.py").write_text(NET.format(0))
    for number in range(2):
        (tmp_path / f"task_{number}").mkdir()
        (tmp_path / f"task_{number}" / f"train_{number}.py").write_text(SCRIPT.format(0))
    assert len(migrate([tmp_path], Settings()).changed) == 2
    assert parsed == {"train_0.py": 1, "train_1.py": 1, "net_0.py": times}


STEPPING = """

def step_{0}(model, optimizer, batch):
    optimizer.zero_grad()
    model(batch).mean().backward()
    optimizer.step()
"""
CALLING_STEPS = """
import torch
from task.steps import *

model = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""


def test_a_file_that_is_asked_for_many_names_is_read_and_its_imports_are_looked_through_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_through = Counter[int]()
    every = Scopes.all

    def counting(self: Scopes) -> tuple[Scope, ...]:
        looked_through[functions] += 1
        return every(self)

    monkeypatch.setattr(Scopes, "all", counting)
    read = {}
    for functions in (3, 12):
        root = tmp_path / str(functions)
        (root / "task").mkdir(parents=True)
        (root / "task/steps.py").write_text("import torch\n" + "".join(map(STEPPING.format, range(functions))))
        calls = "".join(f"step_{each}(model, optimizer, torch.ones(2, 4).cuda())\n" for each in range(functions))
        (root / "run.py").write_text(
            CALLING_STEPS.replace("*", ", ".join(f"step_{n}" for n in range(functions))) + calls
        )
        before = done()
        assert len(migrate([root], Settings()).changed) == 2
        read[functions] = since(before)[Work.READ]
    assert read[12] == read[3]
    assert looked_through[12] - looked_through[3] <= 2 * (12 - 3)  # names that are free for a scaler


def test_who_imports_each_of_many_files_is_asked_without_reading_all_of_them_again(tmp_path: Path) -> None:
    read = {}
    padding = f"# {'=' * 118}\n" * 800  # so that the files read last are not all that there are
    for modules in (20, 40):
        root = tmp_path / str(modules)
        (root / "task").mkdir(parents=True)
        (root / "task/__init__.py").write_text("".join(f"from . import part{n}\n" for n in range(modules)))
        for n in range(modules):
            (root / f"task/part{n}.py").write_text(f"def step{n}():\n    pass\n{padding}")
            (root / f"run{n}.py").write_text(f"from task import part{n}\npart{n}.step{n}()\n{padding}")
        library = ParsedLibrary(Workspace.open([root]), {}, (2, 6))
        before = done()
        for n in range(modules):
            file = library.named(f"{root.as_posix()}/task/part{n}.py")
            assert file is not None
            assert list(library.importing(file, {f"step{n}"})) == [f"{root.as_posix()}/run{n}.py"]
        read[modules] = since(before)[Work.READ]
    assert read[40] < 2.2 * read[20]


def test_what_is_said_between_imports_that_a_file_repeats_is_looked_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    children, every = syntax.children, Tree.every
    gone_through: Counter[int] = Counter()

    def counting_children(node: ast.AST) -> list[ast.AST]:
        gone_through[times] += isinstance(node, ast.Module)
        return children(node)

    def counting_every(tree: Tree, *kinds: Any) -> Any:
        gone_through[times] += cst.Name in kinds
        return every(tree, *kinds)

    monkeypatch.setattr(syntax, "children", counting_children)
    monkeypatch.setattr(Tree, "every", counting_every)
    for times in (3, 30):
        imports = "import torch\nfrom torch import nn\nfrom torch.cuda.amp import autocast\n" * times
        path = tmp_path / f"pasted_{times}.py"
        path.write_text(
            f"{imports}\nmodel = nn.Linear(8, 8).cuda()\nwith autocast():\n    print(model(torch.ones(8)))\n"
        )
        assert migrate([path], Settings()).changed
    assert gone_through[30] == gone_through[3]


def test_what_a_statement_calls_is_looked_for_once_for_all_questions_about_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Counter[Statement]()

    def counting(statement: Statement) -> Iterator[cst.Call]:
        asked[statement] += 1
        return calls_of(statement)

    monkeypatch.setattr(find_regions, "calls_of", counting)
    (tmp_path / "train.py").write_text(SCRIPT.format(0) + SCORING)
    assert len(migrate([tmp_path], Settings()).changed) == 1
    assert max(asked.values()) == 2  # for its step, and for what evaluates beside it


def test_what_no_edit_changes_is_printed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code_for_node = cst.Module.code_for_node
    printed = Counter[cst.CSTNode]()

    def counting(self: cst.Module, node: cst.CSTNode, *given: Any) -> str:
        printed[node] += 1
        return code_for_node(self, node, *given)

    monkeypatch.setattr(cst.Module, "code_for_node", counting)
    path = tmp_path / "train.py"
    path.write_text(SCRIPT.format(0) + "".join("\n\n" + IDLE[1].format(number) for number in range(9)))
    assert migrate([path], Settings()).changed
    assert [printed[each] for each in printed if isinstance(each, cst.FunctionDef)] == [1] * 9
    assert not any(isinstance(each, cst.Module) and each.body for each in printed)


def test_what_is_found_out_about_a_result_goes_once_it_has_been_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks, asked = WeakSet[Task](), list[int]()
    make, faults = Task.__init__, Questions.faults

    def making(task: Task, *given: Any) -> None:
        tasks.add(task)
        make(task, *given)

    def counting(questions: Questions) -> list[Fault]:
        asked.append(len(tasks))
        return faults(questions)

    monkeypatch.setattr(Task, "__init__", making)
    monkeypatch.setattr(Questions, "faults", counting)
    for number in range(3):
        (tmp_path / f"train_{number}.py").write_text(SCRIPT.format(number))
    gc.disable()
    try:
        assert len(migrate([tmp_path], Settings()).changed) == 3
    finally:
        gc.enable()
    assert len(asked) == 3
    assert asked[0] == asked[1] == asked[2] > 0


TRIMMING = """

def trim(outputs, first, last):
    texts = []
"""
TRIMMED = """
    for g in outputs["{0}"]:
        if g and g[0] in (first, last):
            g = g[1:]
        g = g[:g.index(first)] if first in g else g
        g = g[:g.index(last)] if last in g else g
        texts.append(g.copy())
"""


def test_a_name_that_is_bound_anew_from_itself_is_asked_once_wherever_it_comes_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shows_module = Roles._shows_module
    asked: Counter[int] = Counter()

    def counting(*args: Any) -> Any:
        asked[times] += 1
        return shows_module(*args)

    monkeypatch.setattr(Roles, "_shows_module", counting)
    for times in (3, 6):
        path = tmp_path / f"trim_{times}.py"
        loops = "".join(map(TRIMMED.format, range(times)))
        path.write_text(SCRIPT.format(0) + TRIMMING + loops + "    return texts\n\n\ntrim({}, 1, 2)\n")
        assert migrate([path], Settings()).changed
    assert 0 < asked[6] <= 2 * asked[3]


ADAPTED = """
import torch
from torch import nn


class Net{0}(nn.Module):
    def __init__(self):
        super(Net{0}, self).__init__()
        self.layer = nn.Linear(8, 8)

    def adapt(self, loss):
        loss.backward()
"""
ADAPTING = """
import torch
from elsewhere import make_model
from task.net_0 import Net0

model = make_model() or Net0()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in range(9):
    loss = model(torch.ones(4, 8).cuda()).mean()
    optimizer.zero_grad()
    model.adapt(loss)
    optimizer.step()
"""


def test_who_calls_the_same_method_of_many_models_is_looked_for_in_one_program(tmp_path: Path) -> None:
    found = {}
    for models in (2, 8):
        root = tmp_path / str(models)
        (root / "task").mkdir(parents=True)
        imports = "".join(f"import task.net_{each}\n" for each in range(models))
        (root / "run.py").write_text(f"{imports}{ADAPTING}")
        for number in range(models):
            (root / "task" / f"net_{number}.py").write_text(ADAPTED.format(number))
        before = done()
        assert not migrate([root], Settings()).changed
        found[models] = since(before)
    assert found[8][Work.PROGRAMS] == found[2][Work.PROGRAMS] == 1


CALLED_ON_ITS_OWN = """
import torch


class Agent:
    def __init__(self):
        self.model = torch.nn.Linear(8, 8).cuda()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def update(self, loss):
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def train(self):
        for x in range(9):
            loss = self.model(torch.ones(4, 8).cuda()).mean()
            self.update(loss)


class Counter:
    def __init__(self):
        self.counts = []

    def update(self, number):
        self.counts.append(number)

    def count(self):
        self.update(1)
"""


def test_who_calls_a_method_on_objects_that_are_all_seen_is_known_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(CALLED_ON_ITS_OWN)
    before = done()
    assert len(migrate([tmp_path], Settings()).changed) == 1
    assert since(before)[Work.PROGRAMS] == 1  # what is written is looked at


WRAPPING = """
import torch


class Slow{0}:
    def __init__(self, params):
        self.optimizer = torch.optim.SGD(params, lr=0.1)

    def step(self):
        self.optimizer.step()


def make(params):
    return Slow(params)
"""
STEPPING_WHAT_IS_MADE = """
import torch
from task.slow import make

model = torch.nn.Linear(8, 8).cuda()
optimizer = make(model.parameters())
for x in range(9):
    loss = model(torch.ones(4, 8).cuda()).mean()
    model.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize("bases", ["", "(torch.optim.Optimizer)"])
def test_whose_step_is_called_is_not_asked_where_no_class_hides_an_optimizer(tmp_path: Path, bases: str) -> None:
    (tmp_path / "task").mkdir()
    (tmp_path / "train.py").write_text(STEPPING_WHAT_IS_MADE)
    (tmp_path / "task/slow.py").write_text(WRAPPING.format(bases))
    before = done()
    assert len(migrate([tmp_path], Settings()).changed) == (1 if bases else 2)
    is_asked = since(before)[Work.PROGRAMS] > 1  # what is written is looked at
    assert is_asked == (not bases)


# More than is looked at, so that the last function is not followed, and who gets the parameters is not known.
LOOKING = """

def look_{0}(given):
    number = given
"""
SHOWING = """

def show(given):
    return list(given)
"""


@pytest.mark.parametrize(("clearing", "parsed"), [("optimizer.zero_grad()", 0), ("pass", 8)])
def test_who_may_clear_gradients_out_of_sight_is_not_looked_for_where_they_are_cleared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clearing: str, parsed: int
) -> None:
    asked: set[str] = set()

    def reading(file: str, text: str) -> Module | None:
        asked.add(Path(file).stem)
        return read_module(file, text)

    monkeypatch.setattr(workspace, "read_module", reading)
    calls = "".join(f"look_{each}(1)\n" for each in range(16))
    train = LOW.replace("optimizer.zero_grad()", clearing).replace("for x", f"{calls}show(model.parameters())\nfor x")
    looking = "".join(LOOKING.format(each) + "    number += 1\n" * 1800 for each in range(16))
    texts = {
        "train.py": f"from library.data import *\n{train}",
        "library/data.py": f"import library.parts_0\n{looking}{SHOWING}",
    }
    (tmp_path / "library").mkdir()
    for path, text in texts.items():
        (tmp_path / path).write_text(text)
    for number in range(8):
        (tmp_path / "library" / f"parts_{number}.py").write_text(f"import library.parts_{number + 1}\n")
    migrate([tmp_path], Settings())
    assert asked == {"train", "data", *(f"parts_{number}" for number in range(parsed))}


def test_who_imports_a_file_is_known_without_parsing_what_else_is_imported(tmp_path: Path) -> None:
    (tmp_path / "task").mkdir()
    imports = "".join(f"from task.part_{number} import shift_{number}\n" for number in range(8))
    (tmp_path / "train.py").write_text(f"{imports}{STEPPING_WHAT_IS_MADE}")
    (tmp_path / "task/slow.py").write_text(WRAPPING.format(""))
    for number in range(8):
        (tmp_path / "task" / f"part_{number}.py").write_text(IDLE[0].format(number))
    before = done()
    assert len(migrate([tmp_path], Settings()).changed) == 2
    assert since(before)[Work.LIBCST_FILES] == 2


ON_THE_CPU = (
    LOW.split("scaler")[0].replace(".cuda()", "")
    + """\
for x in range(9):
    optimizer.zero_grad()
    model(torch.ones(2, 4)).mean().backward()
    optimizer.step()
"""
)


def test_a_script_is_interpreted_once_for_its_scalers_that_go_and_for_what_is_wrong_in_it(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(LOW)
    before = done()
    assert len(migrate([tmp_path], Settings(Dtype.BF16)).changed) == 1
    assert since(before)[Work.PROGRAMS] == 1


def test_a_script_is_interpreted_once_for_all_plans_that_are_made_of_it(tmp_path: Path) -> None:
    known: dict[tuple[str, ...], Mapping[Work, int]] = {}
    for texts in ({"a": LOW}, {"b": ON_THE_CPU}, {"a": LOW, "b": ON_THE_CPU}):
        folder = tmp_path / "".join(texts)
        folder.mkdir()
        for name, text in texts.items():
            (folder / f"train_{name}.py").write_text(text)
        before = done()
        migrate([folder], Settings())
        known[tuple(texts)] = since(before)
    one, other, both = known.values()
    assert other[Work.PLANS] == both[Work.PLANS] == 2  # the second without the step that low precision does nothing for
    assert both[Work.STATEMENTS] == one[Work.STATEMENTS] + other[Work.STATEMENTS]


def test_a_file_that_scripts_of_several_parts_may_run_in_a_region_is_interpreted_there_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Counter[str]()
    interpreted = programs._in_region

    def counting(files: Files, file: str) -> programs.InRegion:
        asked[Path(file).stem] += 1
        return interpreted(files, file)

    monkeypatch.setattr(programs, "_in_region", counting)
    monkeypatch.setattr(in_parts, "PART_BYTES", 60)
    (tmp_path / "amp_parts").mkdir()
    (tmp_path / "amp_parts/scaling.py").write_text(NET.format(0).replace("x)))", "x)) / (x + 1e-9))"))
    for number in range(3):
        (tmp_path / "amp_parts" / f"net_{number}.py").write_text(NET.format(number))
        (tmp_path / f"train_{number}.py").write_text(SCRIPT.format(number))
    workspace = Workspace.open([tmp_path])
    assert len(in_parts.split(workspace, Settings())) > 2
    assert len(in_parts.migrate_in_parts(workspace, Settings()).changed) == 3
    assert asked == {"scaling": 1}


INNERMOST = """
import torch


def step(net, x):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(5):
        loss = net(x.cuda()).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


def test_who_calls_a_function_is_asked_once_however_many_ways_lead_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Counter[int]()
    call_sites = Project.call_sites

    def counting(project: Project, function: FunctionRef) -> Any:
        asked[layers] += 1
        return call_sites(project, function)

    monkeypatch.setattr(Project, "call_sites", counting)
    for layers in (3, 6):
        text = INNERMOST
        for layer in range(layers):
            for each in range(2):
                below = [f"layer_{layer - 1}_{n}" for n in range(2)] if layer else ["step", "step"]
                calls = "\n    ".join(f"{name}(net, x)" for name in below)
                text += f"\n\ndef layer_{layer}_{each}(net, x):\n    {calls}\n"
        top = f"layer_{layers - 1}_"
        text += f"\n\nnet, x = torch.nn.Linear(8, 8).cuda(), torch.ones(4, 8)\n{top}0(net, x)\n{top}1(net, x)\n"
        path = tmp_path / f"layers_{layers}.py"
        path.write_text(text)
        assert migrate([path], Settings()).changed
    assert asked[6] <= 2 * asked[3]


@pytest.mark.parametrize("workers", [1, 2])
def test_results_of_parts_that_become_one_are_looked_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    monkeypatch.setattr(in_parts, "PART_BYTES", 60)
    (tmp_path / "amp_parts").mkdir()
    (tmp_path / "amp_parts/net_0.py").write_text(
        NET.format(0).replace("self.first(x)", "torch.fft.rfft(self.first(x)).abs()")
    )
    for number in range(2):
        (tmp_path / f"task_{number}").mkdir()
        (tmp_path / f"task_{number}" / f"train_{number}.py").write_text(SCRIPT.format(0))
    workspace = Workspace.open([tmp_path])
    assert len(in_parts.split(workspace, Settings())) > 1
    before = done()
    outcome = in_parts.migrate_in_parts(workspace, Settings(), workers)
    looked_at = since(before)[Work.PROGRAMS]
    assert len(outcome.changed) == 3
    # Each script once; and the model in a region, by each process, and for the one part.
    assert looked_at == 2 + workers + 1
    assert migrate([tmp_path], Settings()).plans == outcome.plans


def test_what_a_name_stands_for_is_asked_once_however_many_ways_names_are_exchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Counter[int]()
    of_path = Names._of_path

    def counting(*given: Any, **named: Any) -> frozenset[str]:
        asked[branches] += 1
        return of_path(*given, **named)

    monkeypatch.setattr(Names, "_of_path", counting)
    for branches in (3, 6):
        exchanged = "".join(f"    if a < b + {each}:\n        a, b, c = b, c, a\n" for each in range(branches))
        text = f"def ordered(a, b, c):\n{exchanged}    return a, b, c\n\n\n{SCRIPT.format(0)}"
        path = tmp_path / f"exchanging_{branches}.py"
        path.write_text(text)
        assert migrate([path], Settings()).changed
    assert asked[6] <= 5 * asked[3]


PREPARED = """
import torch
from apex import amp

model = torch.nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer = amp.initialize(model, optimizer, opt_level="O2")
for x in range(9):
    loss = model(torch.ones(4, 8).cuda()).mean()
    optimizer.zero_grad()
    with amp.scale_loss(loss, optimizer) as scaled:
        scaled.backward()
    optimizer.step()
"""
EVALUATING = """
with torch.no_grad():
    print(model(torch.ones(4, 8).cuda()).mean())
"""


@pytest.mark.parametrize(("behind", "programs"), [("", 1), (EVALUATING, 2)])
def test_which_models_apex_was_given_is_not_asked_where_nothing_but_a_step_runs_one(
    tmp_path: Path, behind: str, programs: int
) -> None:
    (tmp_path / "train.py").write_text(PREPARED + behind)
    before = done()
    assert len(migrate([tmp_path], Settings()).changed) == 1
    assert since(before)[Work.PROGRAMS] == programs  # what is written is looked at


def test_what_else_is_in_a_file_that_changes_is_looked_for_once_however_many_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: Counter[int] = Counter()
    beside_apex = worse_numerics._beside_apex

    def counting(text: str) -> Iterator[int]:
        asked[scripts] += 1
        return beside_apex(text)

    monkeypatch.setattr(worse_numerics, "_beside_apex", counting)
    for scripts in (2, 4):
        root = tmp_path / str(scripts)
        root.mkdir()
        for number in range(scripts):
            (root / f"train_{number}.py").write_text(PREPARED)
        assert len(migrate([root], Settings()).changed) == scripts
    assert asked[4] == 2 * asked[2] > 0


def test_what_is_asked_of_a_file_by_its_kind_is_gathered_once_for_all_programs_that_it_is_part_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = Module.nodes
    gone_through = Counter[str]()

    def counting(module: Module) -> Iterator[tuple[ast.AST, Code]]:
        gone_through[Path(module.file).stem] += 1
        return nodes(module)

    monkeypatch.setattr(Module, "nodes", counting)
    (tmp_path / "amp_parts").mkdir()
    (tmp_path / "amp_parts/net_0.py").write_text(NET.format(0))
    for number in range(3):
        (tmp_path / f"train_{number}.py").write_text(SCRIPT.format(0))
    before = done()
    assert len(migrate([tmp_path], Settings()).changed) == 3
    assert since(before)[Work.PROGRAMS] >= 3
    assert gone_through["net_0"] == 1
