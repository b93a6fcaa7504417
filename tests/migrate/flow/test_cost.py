"""What an analysis costs grows with the program, by counters: files that are not needed are not even parsed."""

from __future__ import annotations

import ast
import inspect
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from amp_migrate import implications, syntax
from amp_migrate.flow import analysis, source
from amp_migrate.flow.analysis import Analysis
from amp_migrate.flow.domain import machine, state
from amp_migrate.flow.domain.atoms import (
    UNKNOWN,
    Atom,
    Obj,
    Opaque,
    Part,
    Share,
    Value,
    const,
    join,
    join_all,
    tensors_in,
)
from amp_migrate.flow.domain.contexts import NO_CONTEXT
from amp_migrate.flow.domain.machine import (
    EMPTY,
    EMPTY_MACHINE,
    LOST,
    READY,
    START,
    TRUE,
    Key,
    Machine,
    Ways,
    World,
    Worlds,
    common,
)
from amp_migrate.flow.domain.tensor import CPU, Tensor, Units, unknown_as_one
from amp_migrate.flow.events import Act
from amp_migrate.flow.python import calls as calling
from amp_migrate.flow.python import classes, statements
from amp_migrate.flow.pytorch import gradients, modules, unread
from amp_migrate.flow.pytorch.cancellation import distances
from amp_migrate.flow.questions import faults
from amp_migrate.flow.source import Module, Site

from .conftest import HEAD, Texts

STEP = """
class Net{0}(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x).relu()
        return x


def train{0}(loader):
    model = Net{0}().cuda()
    opt = optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    for x in loader:
        with torch.amp.autocast("cuda"):
            loss = model(x.cuda()).mean()
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
"""


def counted(texts: dict[str, str], focus: list[str]) -> Analysis:
    return Analysis(Texts(texts), focus).run()


def program(steps: int) -> str:
    return HEAD + "".join(STEP.format(each) for each in range(steps))


def test_twice_the_program_is_twice_the_work() -> None:
    small, large = (counted({"a.py": program(steps)}, ["a.py"]) for steps in (8, 16))
    assert large.executed <= 2.2 * small.executed
    assert large.evaluated <= 2.2 * small.evaluated
    assert large.interpreted <= 2.2 * small.interpreted


def test_a_chain_of_calls_costs_what_it_is_long() -> None:
    def chain(length: int) -> Analysis:
        calls = "".join(f"def f{n}(x):\n    return f{n + 1}(x) + f{n + 1}(x)\n\n\n" for n in range(length))
        return counted({"a.py": f"{HEAD}{calls}def f{length}(x):\n    return x\n\n\ny = f0(torch.ones(2))\n"}, ["a.py"])

    short, long = chain(15), chain(30)
    assert long.executed <= 2.2 * short.executed


def test_nested_loops_and_deep_recursion_come_to_an_end() -> None:
    loops = "".join("    " * depth + f"for i{depth} in range(3):\n" for depth in range(6))
    text = f"{HEAD}x = 0\n{loops}{'    ' * 6}x = x + i0 if x else (x, 1)\n"
    assert counted({"a.py": text}, ["a.py"]).executed < 20_000
    ackermann = (
        "def f(m, n):\n    if m == 0:\n        return n + 1\n"
        "    return f(m - 1, f(m, n - 1) if n else 1)\n\n\ny = f(3, 3)\n"
    )
    assert counted({"a.py": HEAD + ackermann}, ["a.py"]).executed < 2_000


def test_what_a_recursion_was_called_with_before_more_was_known_is_not_gone_through_again() -> None:
    """Functions that rebuild a model of which nobody knows the parts, one after another."""

    def rebuilt(times: int) -> Analysis:
        parts = "".join(
            f"class Norm{n}(nn.BatchNorm2d):\n    pass\n\n\n"
            f"def rebuild{n}(module):\n    made = module\n    if isinstance(module, nn.BatchNorm{n}d):\n"
            f"        made = Norm{n}(module.num_features)\n        made.act, made.weight = module.act, module.weight\n"
            "        made.more = nn.ModuleList([nn.BatchNorm2d(3) for _ in range(3)])\n"
            "    for name, child in module.named_children():\n"
            f"        made.add_module(name, rebuild{n}(child))\n    return made\n\n\n"
            for n in range(times)
        )
        calls = "".join(f"if flags[{n}]:\n    model = rebuild{n}(model)\n" for n in range(times))
        return counted({"a.py": f"{HEAD}import models\n{parts}model = models.create()\n{calls}"}, ["a.py"])

    two, six = rebuilt(2), rebuilt(6)
    assert two.is_complete
    assert two.interpreted < 60
    assert six.interpreted <= 5 * two.interpreted  # it depends on the order of what is equal, too


def test_files_that_nothing_asks_for_are_not_parsed() -> None:
    main = HEAD + "from lib.used import f\nimport lib.unused\n\n\nx = f()\n"
    texts = {"a.py": main, "lib/__init__.py": "", "lib/used.py": "def f():\n    return 1\n"}
    texts |= {f"lib/other{each}.py": program(3) for each in range(20)} | {"lib/unused.py": program(3)}
    told = counted(texts, ["a.py"])
    parsed = {file for file, module in told.modules.items() if module is not None}
    assert parsed <= {"a.py", "lib/used.py", "lib/__init__.py"}
    assert told.lowered < 20


def test_a_file_is_parsed_once() -> None:
    texts = {
        "a.py": HEAD + "import b\nfrom b import f\nx = f(), b.f()\n",
        "b.py": "from c import g\n\n\ndef f():\n    return g()\n",
    }
    told = counted(texts | {"c.py": "def g():\n    return 1\n"}, ["a.py"])
    assert told.lowered == sum(text.count("\n") + 1 for text in (*texts.values(), "def g():\n    return 1\n"))


def test_what_is_only_consulted_costs_no_more_than_the_script_is_worth() -> None:
    """A model of a thousand layers beside a script is not followed to its end: what is left is unknown."""

    def beside(layers: int) -> Analysis:
        classes = "".join(
            f"class Layer{n}(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            f"        self.inner = {f'Layer{n - 1}()' if n else 'nn.Linear(4, 4)'}\n\n"
            "    def forward(self, x):\n        y = self.inner(x)\n"
            "        for _ in range(3):\n            y = y.relu() + x\n        return y\n\n\n"
            for n in range(layers)
        )
        main = (
            f"{HEAD}from model import Layer{layers - 1}\nmodel = Layer{layers - 1}()\n"
            "opt = optim.SGD(model.parameters(), lr=0.1)\nscaler = torch.amp.GradScaler('cuda')\n"
            "for x in [torch.ones(2, 4)]:\n    opt.zero_grad()\n    with torch.amp.autocast('cuda'):\n"
            "        loss = model(x).mean()\n    scaler.scale(loss).backward()\n"
            "    scaler.step(opt)\n    scaler.update()\nprint(norm(model.parameters()), count(model))\n"
        )
        norms = (
            "def norm(parameters):\n    return sum(p.grad.norm() for p in parameters if p.grad is not None)\n\n\n"
            "def count(model):\n    return sum(1 for p in model.parameters())\n"
        )
        head = "from norms import count, norm\n"
        return counted({"a.py": head + main, "model.py": HEAD + classes, "norms.py": norms}, ["a.py"])

    short, long = beside(20), beside(400)
    assert not short.not_followed
    assert long.not_followed
    assert long.consulted < 9_000
    # What reads gradients, and what the script calls by itself, is looked at all the same: a step may go by it.
    left = {each.name for each in long.not_followed}
    assert "forward" in left
    assert "count" not in left
    assert "norm" not in left
    # The loss still depends on the model: the optimizer has gradients, and nothing is said against its step.
    assert faults(long) == [] == faults(short)


PARSER = """
def walked(node, index):
    if not node.children:
        return [(node.start, node.end)]
    found = []
    for child in node.children:
        found += walked(child, index)
    return found


def parse(node, index, states):
    states = states.copy()
    if not node.children:
        key, text = index[node.start, node.end]
        states[text] = [key]
        return [(text, key, [text], states[text].copy())], states
    found = []
{kinds}
    return sorted(found, key=lambda each: each[1]), states
"""
KIND = """
    if node.kind == "kind{0}":
        more, states = parse(node.left, index, states)
        found += more
        for one in walked(node.left, index):
            key, text = index[one]
            for two in walked(node.right, index):
                other, second = index[two]
                found.append((text, key, [second], [other]))
            states[text] = [key]
        known = [states]
        for child in node.children:
            more, now = parse(child, index, states)
            found += more
            known.append(now)
        together = dict()
        for each in known:
            for name in each:
                together[name] = sorted(set(together.get(name, []) + each[name]))
        states = together
"""
PARSING = """
from parser import parse
from model import Net
tree, index = load()
graph, names = parse(tree, index, dict())
model = Net().cuda()
opt = optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda")
for x in loader:
    opt.zero_grad()
    with torch.amp.autocast("cuda", dtype=torch.float16):
        loss = model(x).mean()
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
"""


def test_a_parser_that_calls_itself_leaves_the_model_what_a_run_is_worth() -> None:
    parser = PARSER.format(kinds="".join(KIND.format(number) for number in range(12)))
    model = f"{HEAD}class Net(nn.Module):\n    def forward(self, x):\n        return x.softmax(-1)\n"
    files = Texts({"a.py": HEAD + PARSING, "parser.py": parser, "model.py": model})
    told = Analysis(files, ["a.py"], patience=42).run()
    assert told.is_complete
    assert [each.name for each in told.given_up] == ["parse"]
    assert told.consulted < 8_000  # it was 66,000


def test_a_run_that_is_of_no_use_unless_it_is_whole_stops_where_it_cannot_be() -> None:
    forward = "    def forward(self, x):\n        return Layer{1}()(x) + Layer{1}()(x * {0})\n\n\n"
    layer = f"class Layer{{0}}(nn.Module):\n{forward}"
    classes = f"{HEAD}class Layer0(nn.Linear):\n    pass\n\n\n{''.join(layer.format(n, n - 1) for n in range(1, 400))}"
    main = f"{HEAD}from model import Layer399\nwith torch.amp.autocast('cuda'):\n    y = Layer399()(torch.ones(4))\n"
    texts = Texts({"a.py": main, "model.py": classes})
    told = Analysis(texts, ["a.py"]).run()
    stopped = Analysis(texts, ["a.py"], only_whole=True).run()
    assert not told.is_complete
    assert not stopped.is_complete
    assert stopped.was_stopped
    assert not told.was_stopped
    assert stopped.executed < told.executed
    small = Texts({"a.py": main.replace("399", "3"), "model.py": classes})
    assert Analysis(small, ["a.py"], only_whole=True).run().executed == Analysis(small, ["a.py"]).run().executed


def test_a_loop_that_does_not_come_to_rest_leaves_what_changed_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"{HEAD}x, y = (), 1\nfor _ in range(9):\n    x = (x, y)\nz, w = x, y\n"
    told = counted({"a.py": text}, ["a.py"])
    assert not told.given_up
    monkeypatch.setattr(statements, "_MOST_ROUNDS", 1)
    told = counted({"a.py": text}, ["a.py"])
    assert told.given_up
    assert given(told, "z") == UNKNOWN
    assert given(told, "w") == const(1)


def given(told: Analysis, name: str) -> Value:
    """What a name of the module is given."""
    return join_all(
        value
        for node, value in told.values.items()
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
    )


def test_a_function_that_does_not_come_to_rest_gives_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"{HEAD}n = ()\n\n\ndef f():\n    global n\n    n = (n, 1)\n    return n\n\n\nx = f()\n"
    assert not counted({"a.py": text}, ["a.py"]).given_up
    monkeypatch.setattr(analysis, "_MOST_RUNS", 1)
    told = counted({"a.py": text}, ["a.py"])
    assert [code.name for code in told.given_up] == ["f"]
    assert given(told, "x") == UNKNOWN


def test_what_many_calls_store_in_objects_comes_to_each_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analysis, "_MOST_TASKS", 1)
    monkeypatch.setattr(analysis, "_MOST_WIDENINGS", 1)
    hooks = "class Hook:\n    kept = None\n\n    def on(self, x):\n        self.kept = x\n\n\n"
    helpers = "def inner(h, x):\n    h.on(x)\n\n\ndef middle(h, x):\n    inner(h, x)\n\n\n"
    outer = "def outer(h, x):\n    middle(h, x)\n\n\n"
    calls = "".join(f"h{each} = Hook()\nouter(h{each}, torch.ones(1))\n" for each in range(6))
    told = counted({"a.py": f"{HEAD}{hooks}{helpers}{outer}{calls}x = h5.kept.clone()\n"}, ["a.py"])
    assert list(tensors_in(given(told, "x")))
    assert not told.gone_on


def test_data_sets_of_other_files_are_not_run() -> None:
    data = (
        f"{HEAD}from torch.utils.data import Dataset\nclass Images(Dataset):\n    def __init__(self, root):\n"
        "        self.root = root\n\n    def __getitem__(self, i):\n        return torch.ones(3).cuda()\n"
    )
    main = f"{HEAD}from data import Images\nimages = Images('x')\nx = images[0]\nr = images.root\n"
    told = counted({"a.py": main, "data.py": data}, ["a.py"])
    assert told.consulted == 7  # those of the module itself
    (tensor,) = tensors_in(given(told, "x"))
    assert tensor.place == CPU
    assert any(isinstance(each, Opaque) for each in given(told, "r"))


ONE_OF_MANY = """
def made(model, name):
{0}    else:
        raise ValueError(name)
    return opt


def main(name, clips):
    model = nn.Linear(4, 4).cuda()
    opt = made(model, name)
    scaler = torch.amp.GradScaler("cuda")
    for x in range(9):
        loss = model(torch.ones(2, 4).cuda()).mean()
        scaler.scale(loss).backward()
        if clips:
            scaler.unscale_(opt)
        scaler.step(opt)
        scaler.update()
        opt.zero_grad()


main(NAME, CLIPS)
"""


def test_which_optimizers_share_parameters_is_asked_once_for_each_two(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Counter[int]()
    overlap = gradients.overlap

    def counting(*args: frozenset[Atom]) -> bool | None:
        asked[number] += 1
        return overlap(*args)

    monkeypatch.setattr(gradients, "overlap", counting)
    for number in (10, 20):
        branches = (
            f"    elif name == {each}:\n        opt = optim.Adam(model.parameters())\n" for each in range(number)
        )
        counted({"a.py": HEAD + ONE_OF_MANY.format("".join(branches).replace("elif", "if", 1))}, ["a.py"])
    assert 0 < asked[20] <= 5 * asked[10]


def test_what_a_handler_may_see_costs_what_is_bound_before_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    met = Counter[int]()

    def counting(a: Value, b: Value) -> Value:
        met[calls] += 1
        return join(a, b)

    monkeypatch.setattr(state, "join", counting)
    for calls in (20, 80):
        binds = "".join(f"        x{each} = load({each})\n        x.part{each} = x{each}\n" for each in range(calls))
        counted({"a.py": f"{HEAD}def f(load, x):\n    try:\n{binds}    except OSError:\n        pass\n"}, ["a.py"])
    assert 0 < met[80] <= 5 * met[20]


def test_which_optimizers_stand_in_for_another_is_not_asked_at_every_read_of_a_gradient(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = Counter[int]()
    ask = gradients.Registry.may_have_all_of

    def counting(*args: Any) -> bool:
        asked[reads] += 1
        return ask(*args)

    monkeypatch.setattr(gradients.Registry, "may_have_all_of", counting)
    branches = "".join(f"    elif name == {each}:\n        opt = optim.Adam(model.parameters())\n" for each in range(5))
    text = HEAD + ONE_OF_MANY.format(branches.replace("elif", "if", 1))
    for reads in (1, 10):
        counted(
            {"a.py": text.replace("if clips:", "print(model.weight.grad)\n        " * reads + "if clips:")}, ["a.py"]
        )
    assert 0 < asked[10] == asked[1]


def test_ways_on_which_calls_may_raise_are_looked_at_once_while_they_stay_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    noted = Counter[int]()
    add = Ways.add

    def counting(self: Ways, *given: Any) -> bool:
        noted[calls] += 1
        return add(self, *given)

    monkeypatch.setattr(Ways, "add", counting)
    for calls in (20, 80):
        counted({"a.py": HEAD + STEP.format(0) + "    log(loss)\n" * calls}, ["a.py"])
    assert 0 < noted[80] <= noted[20]


def test_states_that_are_many_are_one_of_which_only_that_is_known_which_holds_in_all() -> None:
    states = [EMPTY_MACHINE.but({("checked", "s"): True, ("stage", "s", n): READY}) for n in range(40)]
    ways = Ways()
    assert [ways.add(EMPTY_MACHINE, [each]) for each in states[:32]] == [True] * 32
    assert ways.states == {EMPTY_MACHINE: set(states[:32])}
    assert not ways.add(EMPTY_MACHINE, states[:32])
    ways.add(EMPTY_MACHINE, states[32:])
    lost = {("stage", "s", n): LOST for n in range(40)}
    assert ways.states == {EMPTY_MACHINE: {EMPTY_MACHINE.but({("checked", "s"): True, **lost})}}
    assert not ways.add(EMPTY_MACHINE, states)


def test_what_holds_in_all_of_some_states_is_found_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Counter[Machine]()
    lose = Machine.losing

    def counting(self: Machine, keys: Iterable[Key]) -> Machine:
        asked[self] += 1
        return lose(self, keys)

    monkeypatch.setattr(Machine, "losing", counting)
    states = [EMPTY_MACHINE.but({("checked", "once"): True, ("stage", "once", n): READY}) for n in range(3)]
    lost = {("stage", "once", n): LOST for n in range(3)}
    found = EMPTY_MACHINE.but({("checked", "once"): True, **lost})
    assert common(states) is common(reversed(states)) is common([*states, states[0]]) is found
    assert common([found, found]) is found
    assert asked.total() == 1


def test_a_function_that_is_called_in_a_new_state_is_run_once_for_it_and_its_callers_not_again() -> None:
    def calling(optimizers: int, depth: int) -> int:
        made = (f"m{n} = nn.Linear(4, 4)\no{n} = optim.SGD(m{n}.parameters(), lr=0.1)\n" for n in range(optimizers))
        steps = (f"    o{n}.step()\n    o{n}.zero_grad()\n" for n in range(optimizers))
        calls = (f"    m{n}(x).mean().backward()\n    step{depth}()\n" for n in range(optimizers))
        chain = (f"def step{n}():\n    step{n - 1}()\n\n\n" for n in range(1, depth + 1))
        text = f"{HEAD}{''.join(made)}\n\ndef step0():\n{''.join(steps)}\n\n{''.join(chain)}"
        return counted({"a.py": f"{text}for x in [torch.ones(2, 4)]:\n{''.join(calls)}"}, ["a.py"]).interpreted

    for optimizers, depth in ((2, 2), (4, 4), (4, 8), (8, 2)):
        assert calling(optimizers, depth) <= 2 * optimizers * (depth + 1) + 2  # at first, and from the last round


def test_what_is_stored_by_many_functions_and_given_to_each_comes_to_rest_soon() -> None:
    """Each call adds a leaf that nobody knows to what all of them read."""
    one = "def use{0}(f{0}, x):\n    y = f{0}(kept.last) if x else f{0}(x)\n    kept.last = y\n    return y\n\n\n"
    text = f"{HEAD}class Kept:\n    pass\n\n\nkept = Kept()\n\n\n{''.join(one.format(n) for n in range(12))}"
    told = counted({"a.py": text}, ["a.py"])
    assert told.is_complete
    assert told.interpreted <= 10 * 12


def test_a_function_that_is_called_in_many_states_is_run_for_all_further_ones_at_once() -> None:
    def told(optimizers: int) -> Analysis:
        made = (f"m{n} = nn.Linear(4, 4)\no{n} = optim.SGD(m{n}.parameters(), lr=0.1)\n" for n in range(optimizers))
        steps, clears = ([f"    o{n}.{what}()\n" for n in range(optimizers)] for what in ("step", "zero_grad"))
        calls = (f"m{n}(x).mean().backward()\nstep()\n" for n in range(optimizers))
        text = f"{HEAD}{''.join(made)}\n\ndef step():\n{''.join(steps)}\n\ndef clear():\n{''.join(clears)}\n\n"
        text += f"x = torch.ones(2, 4)\n{''.join(calls)}seen = 1\nclear()\nseen = 2\n"
        return counted({"a.py": text}, ["a.py"])

    def kinds(told: Analysis, at: int) -> set[str]:
        module = told.module("a.py")
        assert module is not None
        statements = (each for each in module.tree.body if ast.unparse(each) == f"seen = {at}")
        (world,) = told.states[next(statements)]
        return {grad.kind for grad in world.now.gradients().values()}

    few, many = told(20), told(60)
    assert not many.given_up
    assert many.interpreted <= few.interpreted + 5  # of the 21st to the 24th state, and of one for all others
    assert (kinds(few, 1), kinds(few, 2)) == ({TRUE}, {EMPTY})
    assert (kinds(many, 1), kinds(many, 2)) == ({LOST}, {EMPTY})


def test_what_a_class_inherits_from_is_looked_up_once_by_each_function(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: Counter[int] = Counter()
    look = classes.base_values
    attributes = 0

    def counting(*given: Any) -> list[Value]:
        looked[attributes] += 1
        return look(*given)

    monkeypatch.setattr(classes, "base_values", counting)
    for attributes in (10, 40):
        reads = "".join(f"        x = x * self.scale + self.shift({n})\n" for n in range(attributes))
        text = (
            f"{HEAD}class Base(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            "        self.scale = 2\n\n"
            f"    def shift(self, n):\n        return n\n\n\nclass Net(Base):\n    def forward(self, x):\n{reads}"
            "        return x\n\n\nprint(Net()(torch.ones(2, 4)))\n"
        )
        counted({"a.py": text}, ["a.py"])
    assert 0 < looked[40] == looked[10]


def test_what_a_module_holds_is_read_once_for_its_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    read: Counter[Atom] = Counter()
    parts = modules.parts

    def counting(frame: Any, owner: Obj) -> list[Value]:
        read[owner] += 1
        return parts(frame, owner)

    monkeypatch.setattr(modules, "parts", counting)
    told = counted({"a.py": f"{HEAD}net = nn.Sequential(nn.Linear(4, 4), nn.ReLU())\np = net.parameters()\n"}, ["a.py"])
    assert len(read) == 3
    assert max(read.values()) <= told.interpreted


@pytest.mark.parametrize("asked_for", ["x = net.parameters()", "net.cuda()"])
def test_what_a_module_consists_of_is_looked_for_once_however_often_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, asked_for: str
) -> None:
    read = Counter[int]()
    parts = modules.parts

    def counting(frame: Any, owner: Obj) -> list[Value]:
        read[functions] += 1
        return parts(frame, owner)

    monkeypatch.setattr(modules, "parts", counting)
    layers = "".join(f"        self.layer{n} = nn.Linear(4, 4)\n" for n in range(20))
    net = f"class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n{layers}\n\n"
    for functions in (3, 12):
        asking = "".join(f"def f{n}():\n    {asked_for}\n\n\nf{n}()\n" for n in range(functions))
        text = f"{HEAD}{net}net = Net()\nnet.cuda()\n{asking}"
        counted({"a.py": text}, ["a.py"])
    assert 20 < read[12] == read[3]


def test_of_a_model_that_grows_only_what_is_new_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    read = Counter[int]()
    parts = modules.parts

    def counting(frame: Any, owner: Obj) -> list[Value]:
        read[layers] += 1
        return parts(frame, owner)

    monkeypatch.setattr(modules, "parts", counting)
    for layers in (10, 40):
        adding = "".join(f"net.layer{n} = nn.Linear(4, 4)\nx = net.parameters()\n" for n in range(layers))
        counted({"a.py": f"{HEAD}net = nn.Module()\n{adding}"}, ["a.py"])
    assert 0 < read[40] <= 5 * read[10]


def test_what_may_be_called_is_looked_at_once_for_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Counter[int]()
    owner_of = unread.owner_of

    def counting(method: Atom | Tensor) -> Atom | None:
        asked[kinds] += 1
        return owner_of(method)

    monkeypatch.setattr(unread, "owner_of", counting)
    for kinds in (5, 20):
        defined = "".join(
            f"class Net{n}(nn.Module):\n    def run(self, x):\n        return x\n\n\n" for n in range(kinds)
        )
        made = ", ".join(f"Net{n}()" for n in range(kinds))
        counted({"a.py": f"{HEAD}{defined}for net in [{made}]:\n    net.run(1)\n"}, ["a.py"])
    assert 0 < asked[20] <= 5 * asked[5]


def test_what_a_call_is_given_is_looked_through_once_for_all_that_may_be_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked = Counter[int]()
    look = gradients.all_in

    def counting(frame: Any, value: Value, key: str = "") -> Value:
        looked[functions] += "_held_closely" in {each.function for each in inspect.stack()[1:2]}
        return look(frame, value, key)

    monkeypatch.setattr(gradients, "all_in", counting)
    monkeypatch.setattr(analysis, "_STATEMENTS", 20)
    for functions in (8, 16):  # more than are taken one after the other
        library = "".join(f"def deep_{n}(x):\n    return deep_{n + 1}(x)\n\n\n" for n in range(300))
        library += "def deep_300(x):\n    return x\n\n\n"
        library += "".join(f"def f{n}(x):\n    return x\n\n\n" for n in range(functions))
        library += "def any_of(fs, given):\n    for f in fs:\n        f(given)\n\n\n"
        names = ", ".join(f"f{n}" for n in range(functions))
        text = f"{HEAD}from library import any_of, deep_0, {names}\ndeep_0(1)\nany_of([{names}], [1, 2])\n"
        counted({"a.py": text, "library.py": library}, ["a.py"])
    assert 0 < looked[16] == looked[8]


def test_of_what_is_given_to_unread_code_the_parameters_are_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = Counter[int]()
    look = modules._parameters_of

    def counting(frame: Any, atom: Atom | Tensor) -> frozenset[Atom]:
        looked[functions] += 1
        return look(frame, atom)

    monkeypatch.setattr(modules, "_parameters_of", counting)
    for functions in (8, 16):  # more than are taken one after the other
        calls = "".join(f"elsewhere.f{n}(given)\n" for n in range(functions))
        counted({"a.py": f"{HEAD}import elsewhere\ngiven = nn.Linear(4, 4), nn.ReLU(), 1\n{calls}"}, ["a.py"])
    assert 0 < looked[16] == looked[8]


def test_what_is_only_consulted_is_joined_sooner_where_half_of_a_run_is_used_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each of 20 depths of a package is called with 20 numbers: to tell them all apart takes more than there is."""
    monkeypatch.setattr(analysis, "_STATEMENTS", 400)
    depths = "".join(f"def at_{n}(net, k):\n    k = k + 1\n    return at_{n + 1}(net, k)\n\n\n" for n in range(20))
    library = f"{depths}def at_20(net, k):\n    return net\n"
    calls = "".join(f"net = at_0(net, {100 * number})\n" for number in range(20))
    script = f"{HEAD}from library import at_0\nnet = nn.Linear(2, 2)\n{calls}"
    found = counted({"main.py": script, "library.py": library}, ["main.py"])
    assert found.is_complete
    assert not found.not_followed
    monkeypatch.setattr(analysis, "_MOST_TASKS_OF_THE_REST", 24)
    assert not counted({"main.py": script, "library.py": library}, ["main.py"]).is_complete


ZOO = """
known = {}


def register(make):
    known[make.__name__] = make
    return make


def create(name):
    return known[name]()
"""
NET = """

@register
def net_{0}():
    layers = nn.ModuleList()
    for number in range(4):
        layers.append(nn.Linear(number, {0}))
    return nn.Sequential(*layers)
"""


@pytest.mark.parametrize(("models", "are_tried"), [(8, True), (40, False)])
def test_of_more_models_than_can_be_looked_at_none_is_tried_in_the_place_of_all(
    monkeypatch: pytest.MonkeyPatch, models: int, are_tried: bool
) -> None:
    """A few are: that a loss cannot be computed in half precision is as true of one as of all."""
    monkeypatch.setattr(analysis, "_STATEMENTS", 800)
    nets = f"{HEAD}from zoo import register\n" + "".join(map(NET.format, range(models)))
    rest = f"{HEAD}from zoo import register\nfor each in range(9):\n    print(each)\n" + NET.format("last")
    texts = {
        "main.py": f"{HEAD}import nets\nfrom zoo import create\n\nmodel = create(load())\ny = model(torch.ones(2))\n",
        "zoo.py": ZOO,
        "nets.py": nets,
        **{f"more_{n}.py": f"import more_{n + 1}\n{rest}" for n in range(40)},
        "more_40.py": "",
    }
    texts["nets.py"] += "\nimport more_0\n"
    found = counted(texts, ["main.py"])
    tried = {each.name for each in found.spent if each.name.startswith("net_") and found.spent[each]}
    assert bool(tried) == are_tried


CACHED = """
known = {}


def function_for(key, scale):
    if key in known:
        return known[key]

    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return scale * x

        @staticmethod
        def backward(ctx, grad):
            return function_for(key, -scale).apply(grad)

    known[key] = Scaled
    return Scaled


"""


def test_what_a_function_makes_and_keeps_costs_what_its_calls_do() -> None:
    def calls(number: int) -> Analysis:
        text = "def f{0}(x):\n    return function_for((x.shape, {0}), {0}.5).apply(x)\n\n\ny = f{0}(weight)\n"
        used = "".join(text.format(n) for n in range(number))
        return counted({"a.py": f"{HEAD}{CACHED}weight = torch.ones(2, requires_grad=True)\n{used}"}, ["a.py"])

    few, many = calls(4), calls(16)
    assert many.executed <= 4.2 * few.executed


def test_chains_that_seem_to_hold_each_other_are_run_once_in_a_round_of_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = calling._run_object
    runs: Counter[int] = Counter()

    def counting(frame: Any, owner: Obj, args: Any, node: ast.AST) -> Value:
        runs[number] += 1
        return run(frame, owner, args, node)

    monkeypatch.setattr(calling, "_run_object", counting)
    for number in (2, 4, 8):
        held = "    held.append(nn.Sequential(*held))\n" * number
        text = f"{HEAD}held = [nn.Linear(4, 4)]\nfor _ in range(3):\n{held}out = held[-1](torch.ones(4, 4))\n"
        assert counted({"a.py": text}, ["a.py"]).is_complete
    assert runs[8] <= 4 * runs[4] <= 16 * runs[2]


def test_a_function_that_is_interpreted_once_for_all_gives_nothing_low_where_no_region_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(analysis, "_MOST_TASKS", 0)
    text = f"""{HEAD}
def twice(layer, x):
    return layer(layer(x))


model = nn.Linear(4, 4).cuda()
with torch.amp.autocast("cuda", dtype=torch.float16):
    low = twice(model, torch.ones(4, 4, device="cuda"))
plain = twice(model, torch.ones(4, 4, device="cuda"))
"""
    result = counted({"a.py": text}, ["a.py"])
    assert faults(result) == []
    found = {
        target.id: [each.may_be_low for each in tensors_in(value)]
        for target, value in result.values.items()
        if isinstance(target, ast.Name) and target.id in ("low", "plain")
    }
    assert found == {"low": [True], "plain": [False]}


def test_what_a_loss_reaches_is_asked_once_however_many_ways_lead_to_its_backward(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: Counter[str] = Counter()
    told_apart, accumulated = gradients._are_told_apart, gradients._accumulated

    def telling_apart(*given: Any) -> bool:
        asked["told apart"] += 1
        return told_apart(*given)

    def accumulating(*given: Any) -> Any:
        asked["accumulated"] += 1
        return accumulated(*given)

    monkeypatch.setattr(gradients, "_are_told_apart", telling_apart)
    monkeypatch.setattr(gradients, "_accumulated", accumulating)

    def work(tests: int) -> Counter[str]:
        asked.clear()
        made = "".join(
            f"net{n} = nn.Linear(4, 4).cuda()\nopt{n} = optim.SGD(net{n}.parameters(), lr=0.1)\n" for n in range(2)
        )
        tested = "".join(
            f"    if flags[{n}]:\n        opt{n % 2}.zero_grad()\n    if other[{n}]:\n        opt{n % 2}.step()\n"
            for n in range(tests)
        )
        loss = "    loss = net0(x.cuda()).mean()\n    if args.both:\n        loss = loss + net1(x.cuda()).mean()\n"
        step = "    scaler.scale(loss).backward()\n    scaler.step(opt0)\n    scaler.update()\n"
        text = f"{HEAD}{made}scaler = torch.amp.GradScaler('cuda')\nfor x in loader:\n{loss}{tested}{step}"
        counted({"a.py": text}, ["a.py"])
        return Counter(asked)

    asked_about = work(4)
    assert 0 < asked_about["told apart"] <= 24  # of two optimizers, in each round; once it was 456
    assert asked_about["accumulated"] <= 120


class Parsed(Texts):
    """Files that are parsed for the first of several analyses."""

    def __init__(self, texts: dict[str, str]) -> None:
        super().__init__(texts)
        self._modules: dict[str, Module | None] = {}

    def module(self, file: str) -> Module | None:
        """A file, parsed once."""
        if file not in self._modules:
            self._modules[file] = super().module(file)
        return self._modules[file]


def test_what_only_a_text_tells_is_found_out_once_for_all_who_analyse_it(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at, sites = Counter[int](), Counter[int]()  # by the analysis
    looks, place = (ast.iter_child_nodes, syntax.children), source.site_of

    def looking(look: Callable[[ast.AST], Iterable[ast.AST]], node: ast.AST) -> Iterable[ast.AST]:
        looked_at[len(evaluated)] += 1
        return look(node)

    def placing(file: str, node: ast.AST) -> Site:
        sites[len(evaluated)] += 1
        return place(file, node)

    monkeypatch.setattr(ast, "iter_child_nodes", partial(looking, looks[0]))
    for each in (syntax, source):
        monkeypatch.setattr(each, "children", partial(looking, looks[1]))
    monkeypatch.setattr(source, "site_of", placing)
    keys = "found = {}\nfor name in found:\n    print(found[name])\n"
    files = Parsed({"a.py": f"import b\n{keys}", "b.py": program(8)})
    evaluated: list[int] = []
    for _ in range(2):
        analysis = Analysis(files, ["a.py"], ["b.py"], keeps_all=True).run()
        assert all(module is not None and module.calls for module in analysis.modules.values())
        evaluated.append(analysis.evaluated)
    assert evaluated[0] == evaluated[1]
    assert looked_at[0] > 2_000
    assert looked_at[1] < 50  # targets and tests of its statements
    assert sites[1] == 0 < sites[0]


def test_what_a_test_tells_is_added_to_the_same_ways_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Counter[Worlds]()
    merge = machine.merged

    def counting(worlds: Iterable[World]) -> Worlds:
        found = merge(worlds)
        asked[found] += 1
        return found

    monkeypatch.setattr(machine, "merged", counting)
    stages = [EMPTY_MACHINE.but({("stage", "tested", n): READY}) for n in range(3)]
    ways = frozenset(World(EMPTY_MACHINE, frozenset(), each) for each in stages)
    first, second = (machine.assuming(ways, frozenset({("tested", True, frozenset())})) for _ in range(2))
    assert first is second
    assert {each.now for each in first} == set(stages)
    assert asked == {first: 1}


LARGE = """
from library import {names}


class Trainer:
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer


def main(loader):
    model = nn.Linear(4, 4)
    trainer = Trainer(model, optim.SGD(model.parameters(), lr=0.1))
    scaler = torch.amp.GradScaler("cuda")
    for x in loader:
        loss = deep_0(model(x)).mean()
        scaler.scale(loss).backward()
        {calls}
"""


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("finish", "finish(trainer.optimizer)"),
        ("finish_of", "finish_of(trainer)"),
        ("nested", "nested([trainer])"),
        ("limit", "limit(model)"),
        ("own", "own(x)"),
    ],
)
def test_the_functions_of_a_step_are_looked_at_however_large_the_program_is(
    monkeypatch: pytest.MonkeyPatch, name: str, call: str
) -> None:
    monkeypatch.setattr(analysis, "_STATEMENTS", 20)
    library = "".join(f"def deep_{n}(x):\n    return deep_{n + 1}(x)\n\n\n" for n in range(300))
    library += "def deep_300(x):\n    return x\n\n\ndef own(x):\n    return deep_1(x)\n\n\n"
    library += (
        "def finish(optimizer):\n    optimizer.step()\n\n\ndef finish_of(trainer):\n    finish(trainer.optimizer)\n"
    )
    library += "\n\ndef nested(held):\n    finish_of(held[0])\n\n\n"
    library += "def limit(model):\n    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
    text = HEAD + LARGE.format(names=f"deep_0, {name}", calls=call)
    found = counted({"a.py": text, "library.py": f"import torch\n{library}"}, ["a.py"])
    followed = {code.name for code, tasks in found._by_code.items() if tasks}
    assert name in followed
    assert ("finish" in followed) is (name in ("finish", "finish_of", "nested"))
    assert "deep_299" not in followed
    assert found.consulted < 450  # as many as the library has at its top, and what the script is worth


ENTERED = """
def train(model, opt, scaler, loader):
    for x in loader:
        with torch.amp.autocast("cuda"):
            loss = model(x.cuda()).mean()
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()


{0}
    model = nn.Linear(4, 4).cuda()
    opt = optim.SGD(model.parameters(), lr=0.1)
    train(model, opt, torch.amp.GradScaler("cuda"), [torch.ones(2, 4)])


if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize("main", ["@hydra.main(config_name='c')\ndef main(cfg):", "@click.command()\ndef main(lr):"])
def test_what_a_main_that_gets_its_arguments_from_elsewhere_calls_is_only_run_with_what_it_gives(main: str) -> None:
    imports = "import click\nimport hydra\n"
    plain, told = (counted({"a.py": HEAD + imports + ENTERED.format(each)}, ["a.py"]) for each in ("def main():", main))
    assert told.interpreted == plain.interpreted
    assert Act.GIVEN not in {each.act for each in told.events.values()}


def test_parameters_that_are_of_one_model_on_many_ways_are_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that code puts together which nobody has read: each part is about two before, and those about one."""
    asked = Counter[int]()
    part_of = gradients.part_of

    def counting(share: Share) -> Part:
        asked[parts] += 1
        return part_of(share)

    nobody: Any = SimpleNamespace(analysis=SimpleNamespace(pytorch=SimpleNamespace(leaves_of=lambda *_: frozenset())))
    leaf = Part(Opaque(("model",)), "*")
    for parts in (6, 12):
        share = Share((0,), frozenset({leaf}))
        for number in range(parts):
            sides = (Share((side, number), frozenset({part_of(share)})) for side in ("left", "right"))
            share = Share((number,), frozenset(map(part_of, sides)))
        monkeypatch.setattr(gradients, "part_of", counting)
        (found,) = gradients.shares_of(nobody, Opaque(("made",), None, "", False, frozenset({share})))
        assert found is part_of(share)
        monkeypatch.undo()
    assert 0 < asked[12] <= 2.2 * asked[6]


def test_leaves_that_are_one_because_nobody_knows_them_are_looked_at_once() -> None:
    asked = Counter[str]()

    class Leaf:
        @property
        def owner(self) -> Opaque:
            asked["leaf"] += 1
            return Opaque(("unknown",))

    leaves = frozenset(Leaf() for _ in range(30))
    assert unknown_as_one(leaves) == unknown_as_one(frozenset(leaves)) == {"?"}
    assert asked["leaf"] == 30


@pytest.mark.parametrize(("told", "forgotten"), [((), []), (("on",), ["on"]), (("on", "up"), ["on", "up"])])
def test_of_attributes_that_a_call_may_change_those_are_forgotten_that_a_test_has_told_of(
    monkeypatch: pytest.MonkeyPatch, told: tuple[str, ...], forgotten: list[str]
) -> None:
    asked: list[str] = []
    forget = state.State.forget

    def noting(known: state.State, name: str) -> None:
        asked.append(name)
        forget(known, name)

    monkeypatch.setattr(state.State, "forget", noting)
    facts = frozenset((f"self.{each}", True, frozenset({each})) for each in told)
    known = state.State({}, {}, NO_CONTEXT, frozenset({World(EMPTY_MACHINE, facts, EMPTY_MACHINE)}))
    known.forget_cells({(Opaque(), each) for each in ("on", "off", "up")})
    assert asked == forgotten
    assert known.worlds == START


def test_what_a_loop_counts_is_looked_for_once_however_many_ways_lead_out_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked = Counter[int]()
    are_stored = implications._are_stored

    def counting(expressions: Iterable[ast.expr], nodes: Iterable[ast.AST]) -> bool:
        looked[len(tests)] += 1
        return are_stored(expressions, nodes)

    monkeypatch.setattr(implications, "_are_stored", counting)
    for tests in ("a", "abcdefgh"):
        lines = "".join(f"        if {name} and i % 2 == 0:\n            loss = loss + {name}\n" for name in tests)
        text = f"def fit({', '.join(tests)}, loss):\n    for i in range(9):\n{lines}        loss.backward()\n"
        counted({"a.py": HEAD + text}, ["a.py"])
    assert looked[8] == looked[1] == 1


def test_rounded_products_in_a_long_sum_are_compared_with_squares_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    is_near = distances._Term.is_near

    def asking(product: distances._Term, squares: distances._Term) -> bool:
        asked.append(product)
        return is_near(product, squares)

    monkeypatch.setattr(distances._Term, "is_near", asking)
    blocks = "".join(f"    w{each} = nn.Parameter(torch.rand(4, 4))\n    x = x + x @ w{each}\n" for each in range(12))
    text = f"{HEAD}x = torch.rand(4, 4)\nwith torch.amp.autocast('cuda', dtype=torch.float16):\n{blocks}"
    counted({"a.py": text}, ["a.py"])
    assert not asked
    counted({"a.py": f"{text}    x = (x**2).sum() - 2 * x\n"}, ["a.py"])
    assert len(asked) <= 12


@pytest.mark.parametrize(
    "again",
    [
        "lib.wrap(self.net, x)",
        "lib.outer(lib.inner(self.net.part), x)",
        "self.net(x)",
    ],
)
def test_what_an_unread_call_gives_and_gets_again_is_the_same_in_all_rounds(again: str) -> None:
    """Each round made something of what the last one had made, until the function was given up."""
    text = f"""{HEAD}
import lib


class Runner:
    def __init__(self):
        self.net = lib.create()
        self.net.to("cuda")

    def step(self, x):
        self.net = {again}
        self.opt = optim.SGD(self.net.parameters(), lr=0.1)


runner = Runner()
for x in lib.loader:
    runner.step(x)
"""
    told = counted({"a.py": text}, ["a.py"])
    assert not told.given_up
    assert told.interpreted <= 16


def test_what_is_in_the_gradients_of_many_optimizers_is_asked_once_for_all_that_are_alike(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = Counter[int]()
    units_of_grad = gradients.units_of_grad

    def counting(grad: machine.Grad) -> Units:
        asked[optimizers] += 1
        return units_of_grad(grad)

    monkeypatch.setattr(gradients, "units_of_grad", counting)
    for optimizers in (2, 12):
        made = "".join(
            f"    if name == '{n}':\n        return optim.SGD(params, lr=0.{n})\n" for n in range(optimizers)
        )
        text = f"def choose(name, params):\n{made}\n\nnet = nn.Linear(2, 2)\nopt = choose(input(), net.parameters())\n"
        shown = "for p in net.parameters():\n    print(p.grad)\n"
        counted({"a.py": f"{HEAD}{text}net(torch.ones(2)).sum().backward()\n{shown}"}, ["a.py"])
    assert asked[12] == asked[2]
