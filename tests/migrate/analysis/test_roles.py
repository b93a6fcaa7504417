"""What part an object plays: seen from how it is made and used, guessed from its name only where everybody says so."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import permutations

import libcst as cst
import pytest
from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import Project
from amp_migrate.analysis.roles import Roles
from amp_migrate.analysis.values.optimizers import is_optimizer

Make = Callable[..., tuple[Project, dict[str, File]]]
HEAD = "import torch\nimport torchvision\nfrom torch import nn\nfrom torch.nn import functional as F\n"


def last_call(made: tuple[Project, dict[str, File]]) -> tuple[Roles, File, cst.Call]:
    """The roles of a project, and the last call of its file `a` that is a statement of its own."""
    project, files = made
    file = files["a"]
    calls = [call for call in file.calls if isinstance(file.tree.parents[call], cst.Expr)]
    return Roles(project), file, calls[-1]


@pytest.mark.parametrize(
    "text",
    [
        "m = nn.Linear(2, 2)\nm(x)",
        "m = nn.Linear(2, 2).to(device).train()\nm(x)",
        "m = torch.nn.DataParallel(thing)\nm(x)",
        "m = torch.compile(thing)\nm(x)",
        "m = torchvision.models.resnet18(num_classes=10)\nm(x)",
        "class Net(nn.Module): ...\nm = Net()\nm(x)",
        "class Base(nn.Module): ...\nclass Net(Base): ...\nm = Net()\nm(x)",
        "thing.train()\nthing(x)",
        "m = build(args).eval()\nm(x)",
        "m = copy.deepcopy(n).eval().requires_grad_(False).to(device)\nm.encode(x)",
        "import copy\nm = nn.Linear(2, 2)\nother = copy.deepcopy(m)\nother(x)",
        "m = models[0]\nmodels[-1].eval()\nm(x)",
        "class Net(nn.Module):\n    def f(self, x):\n        self.forward(x)",
        "optimizer = torch.optim.SGD(thing.parameters())\nthing(x)",
        "def f(thing):\n    thing(x)\nf(nn.Linear(2, 2))\nnn.Linear(2, 2)(x)",
        "def f(model):\n    return model\nmodel(x)",
        "m = nn.Linear(2, 2)\nm.module(x)",
        "from sklearn.svm import SVC\nmodel = SVC()\nmodel = Net()\nmodel(x)",
        "m = nn.Linear(2, 2)\nm.forward(x)",
        "m = nn.Linear(2, 2)\nm.encode(x)",
        "m = nn.Linear(2, 2)\nother = m\nother(x)",
        "m = nn.Linear(2, 2)\na = m\nb = a\nc = b\nd = c\ne = d\nf = e\ng = f\nh = g\ni = h\nj = i\nj(x)",
        "m = nn.Linear(2, 2)\nnets = {'a': m}\nnets['a'](x)",
        "m = nn.Linear(2, 2)\nfor net in [m]:\n    net(x)",
        "class T:\n    def f(self, g):\n        g.parameters()\n        self.g = g\n        self.g(x)",
        "m = nn.Linear(2, 2)\ndef run(x):\n    return m(x)\nrun(x)",
        "def make():\n    return nn.Linear(2, 2)\nm = make()\nm(x)",
        "def bare(m=None):\n    if m is None:\n        m = n\n    return m.module\nn = nn.Linear(2, 2)\nbare()(x)",
        "def move(each):\n    return each.cuda()\nm = move(nn.Linear(2, 2))\nm(x)",
        "m = nn.utils.spectral_norm(layer)\nm(x)",
        "m = nn.Linear(2, 2)\nm.add_adapter(name, config=None)",
        "m = nn.Linear(2, 2)\nx = read(1)\nm.look(x)",
        "m = nn.Linear(2, 2)\nx = Batch(data)\nm.look(x)",
        "m = nn.Linear(2, 2)\nx = Batch(x)\nm.look(x)",
        "m = nn.Linear(2, 2)\nm.optimize()",
        "class Net(nn.Module):\n    def add(self, n):\n        self.fc(n)\nm = Net()\nm.add(1)",
    ],
)
def test_call_runs_a_forward(project: Make, text: str) -> None:
    roles, file, call = last_call(project(a=HEAD + text + "\n"))
    assert roles.runs_forward(file, call)


@pytest.mark.parametrize(
    "text",
    [
        "choices = eval(text)\nchoice = choices[0]\nchoice.strip()",
        "print(x)",
        "import sentencepiece as spm\nsp_model = spm.SentencePieceProcessor()\nsp_model.IdToPiece(x)",
        "from sklearn.svm import SVC\nmodel = SVC()\nmodel.predict(x)",
        "f = open(x)\nf(x)",
        "f = frame.query(x).eval(y)\nf(x)",
        "class Plan:\n    def f(self, x):\n        self.forward(x)",
        "m = nn.Linear(2, 2)\nm.train()",
        "m = nn.Linear(2, 2)\nm.zero_grad()",
        "m = nn.Linear(2, 2)\nm.state_dict()",
        "m = nn.Linear(2, 2)\nm.load_weights(x)",
        "m = nn.Linear(2, 2)\nm.resize_token_embeddings(len(x))",
        "m = nn.Linear(2, 2)\nm.add_adapter('lang', config=None)",
        "m = nn.Linear(2, 2)\nc = lib.Config(lib.Kind(), reduction=16)\nm.add_adapter('lang', c)",
        "m = nn.Linear(2, 2)\nm.parameters()",
        "f = open(x)\ng = f\ng(x)",
        "import copy\nf = open(x)\ng = copy.copy(f)\ng(x)",
        "def move(each):\n    return each.cuda()\nm = move(nn.Linear(2, 2))\nf = move(x)\nf.encode(y)",
        "f = F.relu\ngates = {'a': f}\ngates['a'](x)",
        "criterion = nn.MSELoss()\ncriterion(x, y)",
        "b = nn.utils.rnn.pad_sequence(a, batch_first=True)\nb.size(0)",
        "w = nn.Parameter(torch.ones(2))\nw.dot(x)",
        "F.relu(x)",
        "nn.Linear(2, 2)",
        "class Net(nn.Module): ...\nNet()",
        "def model(): ...\nmodel()",
        "class model: ...\nmodel()",
        "from lib import model\nmodel(x)",
        "optimizer = torch.optim.SGD(p)\noptimizer(x)",
        "class Model: ...\nm = Model()\nm.fit(x)",
    ],
)
def test_call_runs_no_forward(project: Make, text: str) -> None:
    roles, file, call = last_call(project(a=HEAD + text + "\n"))
    assert not roles.runs_forward(file, call)


@pytest.mark.parametrize(
    ("then", "computes"),
    [
        ("torch.optim.SGD(net.parameters())", False),
        ("net.train()", False),
        ("net = amp.initialize(net)", False),
        ("net.sum()", True),
        ("net.cuda()", True),
    ],
)
@pytest.mark.parametrize("handed_back", ["", ".cuda()"])
def test_call_that_makes_a_module_is_no_forward(project: Make, handed_back: str, then: str, computes: bool) -> None:
    text = f"from apex import amp\nmodel = get(args)\nnet = model(args){handed_back}\n{then}\n"
    made, files = project(a=HEAD + text)
    call = next(each for each in files["a"].calls if files["a"].tree.code(each) == "model(args)")
    assert Roles(made).runs_forward(files["a"], call) is computes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("optimizer.step()", True),
        ("self.optimizer_G.step()", True),
        ("optimizers['d'].step()", True),
        ("state['optimizer'].step()", True),
        ("schedule['optimizer'].step()", True),
        ("optimizer['scheduler'].step()", False),
        ("state[optimizer].step()", False),
        ("self.optD.step()", True),
        ("optimG.step()", True),
        ("option.step()", False),
        ("optics.step()", False),
        ("o = torch.optim.Adam(p)\no.step()", True),
        ("sgd.zero_grad()\nsgd.step()", True),
        ("a, o = f(), torch.optim.Adam(p)\no.step()", True),
        ("env.step()", False),
        ("scheduler.step()", False),
        ("o = torch.optim.lr_scheduler.StepLR(optimizer, 1)\no.step()", False),
        ("optimizer_scheduler.step()", False),
        ("profiler.step()", False),
        ("all = [torch.optim.SGD(p), torch.optim.Adam(q)]\nfor o in all: o.step()", True),
        ("all = [StepLR(o, 1), StepLR(p, 1)]\nfor s in all: s.step()", False),
        ("all = [torch.optim.SGD(p), StepLR(o, 1)]\nfor s in all: s.step()", True),
        ("all = {k: StepLR(o, 1) for k, o in optimizers.items()}\nfor s in all.values(): s.step()", False),
        ("all = {'d': StepLR(o, 1)}\nall['d'].step()", False),
    ],
)
def test_object_that_steps_is_an_optimizer(project: Make, text: str, expected: bool) -> None:
    header = HEAD + "from torch.optim.lr_scheduler import StepLR\n"
    _, file, call = last_call(project(a=header + text + "\n"))
    receiver = cst.ensure_type(call.func, cst.Attribute).value
    assert is_optimizer(file, receiver) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("criterion(x, y)", True),
        ("self.loss_fn(x, y)", True),
        ("nn.MSELoss()(x, y)", True),
        ("F.cross_entropy(x, y)", True),
        ("c = nn.BCEWithLogitsLoss().cuda()\nc(x, y)", True),
        ("from losses import dice_loss\ndice_loss(x, y)", True),
        ("F.relu(x)", False),
        ("nn.MSELoss()", False),
        ("from losses import DiceLoss\nDiceLoss()", False),
        ("class LossMeter: ...\nLossMeter()", False),
        ("print(x)", False),
    ],
)
def test_call_computes_a_loss(project: Make, text: str, expected: bool) -> None:
    roles, file, call = last_call(project(a=HEAD + text + "\n"))
    assert roles.losses.is_call(file, call) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("c = nn.BCELoss()\nc(x, y)", True),
        ("c = nn.BCELoss(reduction='sum').to(device)\nc(x, y)", True),
        ("nn.BCELoss()(x, y)", True),
        ("F.binary_cross_entropy(x, y)", True),
        ("def f(a, b):\n    return F.binary_cross_entropy(a, b)\nf(x, y)", True),
        ("c = nn.BCEWithLogitsLoss()\nc(x, y)", False),
        ("F.binary_cross_entropy_with_logits(x, y)", False),
        ("c = nn.MSELoss()\nc(x, y)", False),
        ("bce(x, y)", False),
    ],
)
def test_loss_is_banned_under_autocast(project: Make, text: str, expected: bool) -> None:
    roles, file, call = last_call(project(a=HEAD + text + "\n"))
    assert roles.losses.reaches_banned(file, call) is expected


NET = (
    "class Base(nn.Module):\n    def __init__(self, config):\n        self.config = config\n"
    "class Net(Base):\n    def __init__(self, config):\n        super().__init__(config)\n"
    "        self.lin = nn.Linear(2, 2)\n        self.register_buffer('scale', torch.ones(2))\n"
    "    def wrap(self, x):\n        return torch.tensor(x).to(self.config.device)\n"
    "    def wrap_all(self, *each):\n        return [self.wrap(x) for x in each]\n"
    "    def embed(self, x):\n        return [self.lin(x)]\n"
    "    def scaled(self, x):\n        return x * self.scale\n"
    "    def later(self, x):\n        return lambda: self.embed(x)\n"
    "    def handed(self, x):\n        return helper(self, x)\n"
    "class Agent:\n    def __init__(self, model):\n        self.model = model\n    def act(self, x):\n"
    "        self.model.{}(x)\n"
)


@pytest.mark.parametrize(
    ("method", "computes"),
    [
        *(("wrap", False), ("wrap_all", False), ("embed", True), ("scaled", True), ("later", True), ("handed", True)),
        *(("unknown", True), ("forward", True)),
    ],
)
def test_a_method_in_sight_that_uses_no_weights_is_no_forward(project: Make, method: str, computes: bool) -> None:
    roles, file, call = last_call(project(a=HEAD + NET.replace("{}", method)))
    assert roles.runs_forward(file, call) is computes


@pytest.mark.parametrize(
    ("body", "computes"), [("return self.net(x)", True), ("return self.net", False), ("self.note = x", False)]
)
def test_a_method_that_is_called_like_bookkeeping_is_a_forward_if_it_runs_one(
    project: Make, body: str, computes: bool
) -> None:
    text = (
        "class Flow(nn.Module):\n    def __init__(self):\n        self.net = nn.Linear(2, 2)\n"
        f"    def log_prob(self, x):\n        {body}\n"
        "class Trainer:\n    def __init__(self, flow):\n        self.flow = flow.cuda()\n"
        "    def step(self, x):\n        self.flow.log_prob(x)\n"
    )
    roles, file, call = last_call(project(a=HEAD + text, b="import a\na.Trainer(a.Flow())\n"))
    assert roles.runs_forward(file, call) is computes


@pytest.mark.parametrize("made", ["nn.Linear(2, 2)", "read(x)"])
def test_what_names_are_to_each_other_is_the_same_in_whatever_order_they_are_asked(project: Make, made: str) -> None:
    text = f"a = b\nb = c if x else a\nc = a\nb = {made} if y else c\nd = c\nrun(a, b, c, d)\nrun(d, c, b, a)\n"
    made_of, files = project(a=HEAD + text)
    calls = [call for call in files["a"].calls if isinstance(files["a"].tree.parents[call], cst.Expr)]
    for call in calls:
        roles = Roles(made_of)
        assert {roles.is_module(files["a"], each.value) for each in call.args} == {made.startswith("nn.")}


CALLING = """
def first(x):
    second(x)
    third(x)
    {}
def second(x):
    first(x)
def third(x):
    second(x)
def last(x):
    third(x)
"""


@pytest.mark.parametrize("order", list(permutations(("first", "second", "third", "last"))))
@pytest.mark.parametrize(
    "does", ["x.backward()", "torch.autograd.grad(x, y)", "nn.Linear(2, 2)(x)", "F.mse_loss(x, y)", "y"]
)
def test_functions_that_call_each_other_do_the_same_in_whatever_order_they_are_asked(
    project: Make, does: str, order: tuple[str, ...]
) -> None:
    made_of, files = project(a=HEAD + CALLING.format(does) + "".join(f"{each}(x)\n" for each in order))
    roles, file = Roles(made_of), files["a"]
    calls = [call for call in file.calls if isinstance(file.tree.parents[call.func], cst.Call)][-4:]
    functions = [each for each in map(partial(made_of.called, file), calls) if each is not None]
    asked: list[Callable[..., list[bool]]] = [
        lambda: list(map(roles.goes_backward, functions)),
        lambda: list(map(roles.takes_gradients, functions)),
        lambda: list(map(roles.has_forward, functions)),
        lambda: [roles.losses.computes(file, each) for each in calls],
    ]
    assert len(functions) == 4
    found = [ask() for ask in asked]
    assert all(len(set(each)) == 1 for each in found)
    assert sum(map(all, found)) == (does != "y")


def test_class_of_another_file_is_a_module(project: Make) -> None:
    made = project(a="from b import Net\nm = Net()\nm(x)\n", b="from torch import nn\nclass Net(nn.Module): ...\n")
    roles, file, call = last_call(made)
    assert roles.runs_forward(file, call)


def test_argument_of_another_file_is_a_module(project: Make) -> None:
    made = project(
        a="def f(thing):\n    thing(x)\n",
        b="import torch\nfrom a import f\nf(torch.nn.Linear(2, 2))\n",
    )
    roles, file, call = last_call(made)
    assert roles.runs_forward(file, call)


@pytest.mark.parametrize(("method", "computes"), [("startswith", False), ("strip", False), ("encode", True)])
def test_what_texts_alone_have_computes_nothing_of_what_is_called_like_a_model(
    project: Make, method: str, computes: bool
) -> None:
    made = project(
        a=f"def table(name):\n    name.{method}(x)\n",
        b="from a import table\ntable(args.base_model)\n",
    )
    roles, file, call = last_call(made)
    assert roles.runs_forward(file, call) is computes


DRAWN = "optimizer = torch.optim.Adam({has}.parameters())\ntasks = {made}\ntasks.{method}()\n{drawn}\n"


@pytest.mark.parametrize(
    ("has", "made", "method", "drawn", "is_forward"),
    [
        ("net", "lib.Tasks()", "train", "tasks.draw(x)", False),
        ("net", "lib.Tasks()", "eval", "tasks.draw(x)", False),
        # Nothing else is trained; an optimizer, a function or a device gets it, or it is called.
        ("tasks", "lib.Tasks()", "train", "tasks.draw(x)", True),
        ("net", "lib.Tasks()", "train", "lib.fit(tasks)\ntasks.draw(x)", True),
        ("net", "lib.Tasks()", "train", "y = tasks(x)\ntasks.draw(x)", True),
        ("net", "lib.Tasks()", "train", "tasks.cuda()\ntasks.draw(x)", True),
        ("net", "lib.Tasks()", "modules", "tasks.draw(x)", True),
        ("net", "nn.Linear(2, 2)", "train", "tasks.draw(x)", True),
    ],
)
def test_a_source_of_data_with_a_part_for_training_is_no_module(
    project: Make, has: str, made: str, method: str, drawn: str, is_forward: bool
) -> None:
    text = "import lib\n" + HEAD + DRAWN.format(has=has, made=made, method=method, drawn=drawn)
    roles, file, call = last_call(project(a=text))
    assert roles.runs_forward(file, call) is is_forward


def test_a_part_for_training_speaks_for_a_module_where_no_optimizer_is_made(project: Make) -> None:
    roles, file, call = last_call(project(a=f"import lib\n{HEAD}tasks = lib.Tasks()\ntasks.train()\ntasks.draw(x)\n"))
    assert roles.runs_forward(file, call)
