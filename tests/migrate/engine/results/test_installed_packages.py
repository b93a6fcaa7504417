"""Packages that are installed are read where a script uses them: what is wrong in them is told where it calls them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from amp_migrate.cli import command
from amp_migrate.engine.find.packages import Packages
from amp_migrate.engine.migrate import migrate, migrate_workspace
from amp_migrate.engine.parts import work
from amp_migrate.engine.parts.work import Work, done, since
from amp_migrate.engine.results.examined import Examined
from amp_migrate.engine.results.flow_files import FlowFiles
from amp_migrate.engine.workspace import Workspace
from amp_migrate.environment import environment_of
from amp_migrate.flow.questions import Questions
from amp_migrate.prove import precision
from amp_migrate.settings import Dtype, Settings
from click.testing import CliRunner

TRAIN = """\
import torch
from torch import nn
{imports}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.layer, self.last = nn.Linear(8, 8), {layer}, nn.Linear(8, 2)

    def forward(self, x):
        x = self.first(x)
        x = self.layer(x)
        return self.last(x)


net = {net}.cuda()
optimizer = torch.optim.Adam(net.parameters())
for x, y in torch.load("batches.pt"):
    x, y = x.cuda(), y.cuda()
    loss = nn.functional.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
PLAIN = """\
import torch
from torch import nn


class Plain(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner = nn.Linear(width, width)

    def forward(self, x):
        return torch.relu(self.inner(x))
"""
# Distances by x*x - 2*x*y + y*y in half precision.
NEAREST = """\
import torch
from torch import nn


class Nearest(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.codes = nn.Parameter(torch.randn(16, width))

    def forward(self, x):
        far = x.pow(2).sum(1, keepdim=True) - 2 * x @ self.codes.t() + self.codes.pow(2).sum(1)
        return self.codes[far.argmin(1)]


class Whole(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.nearest = nn.Linear(width, width), Nearest(width)

    def forward(self, x):
        return self.nearest(self.first(x))
"""
OFF = 'with torch.amp.autocast(device_type="cuda", enabled=False):'
UNREAD = "could not be read"
Environment = Callable[[Mapping[str, str]], Path]


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Environment:
    """Makes an environment with some files, and a project beside it that is the current folder."""
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")

    def make(files: Mapping[str, str]) -> Path:
        for name, text in files.items():
            path = tmp_path / "env/lib/python3.11/site-packages" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path / "env"

    return make


def moved(
    text: str, env: Path | None, name: str = "train.py", dtype: Dtype = Dtype.FP16
) -> tuple[str, list[tuple[int, str]]]:
    Path(name).write_text(text)
    outcome = migrate([Path(name)], Settings(dtype=dtype, environment=None if env is None else environment_of(env)))
    (plan,) = outcome.plans
    return plan.after, [(each.line, each.message) for each in outcome.findings if each.code == "AMP504"]


def training(imports: str, layer: str = "nn.Identity()", net: str = "Net()") -> str:
    return TRAIN.format(imports=imports, layer=layer, net=net)


@pytest.mark.parametrize(
    ("files", "imports", "made"),
    [
        ({"layers.py": PLAIN}, "import layers", "layers.Plain(8)"),
        ({"layers/__init__.py": PLAIN}, "from layers import Plain", "Plain(8)"),
        (
            {"layers/__init__.py": "from .nets import *\n", "layers/nets.py": PLAIN},
            "from layers import Plain",
            "Plain(8)",
        ),
        (
            {"layers/__init__.py": "from layers.nets.plain import Plain\n", "layers/nets/plain.py": PLAIN},
            "import layers as l",
            "l.Plain(8)",
        ),
        (
            {
                "layers/__init__.py": "",
                "layers/nets/__init__.py": "from ..base import Base\n\n\nclass Plain(Base):\n    pass\n",
                "layers/base.py": PLAIN.replace("Plain", "Base"),
            },
            "from layers.nets import Plain",
            "Plain(8)",
        ),
        ({"space/layers/plain.py": PLAIN}, "from space.layers.plain import Plain", "Plain(8)"),
        ({"space/layers/plain.py": PLAIN}, "import space.layers.plain", "space.layers.plain.Plain(8)"),
        (
            {"layers/__init__.py": "import torch\nfrom inner.plain import Plain\n", "inner/plain.py": PLAIN},
            "import layers",
            "layers.Plain(8)",
        ),
    ],
)
def test_nothing_is_told_of_a_plain_layer_that_is_read(
    environment: Environment, files: Mapping[str, str], imports: str, made: str
) -> None:
    env = environment(files)
    text = training(imports, made)
    before, told = moved(text, None)
    assert OFF in before
    assert UNREAD in told[0][1]
    after, told = moved(text, env)
    assert told == []
    assert OFF not in after
    assert "scaler.scale(loss)" in after
    whole, told = moved(training(imports, net=made), env)
    assert told == []
    assert "autocast" in whole


@pytest.mark.parametrize("dtype", [Dtype.FP16, Dtype.BF16])
def test_a_layer_with_a_hazard_computes_in_float32_by_the_call_that_gives_it_what_is_low(
    environment: Environment, dtype: Dtype
) -> None:
    env = environment({"layers/__init__.py": "from .nearest import Nearest\n", "layers/nearest.py": NEAREST})
    after, told = moved(training("from layers import Nearest", "Nearest(8)"), env, dtype=dtype)
    assert f"        {OFF}\n            x = self.layer(x.float())\n" in after
    ((line, message),) = told
    assert line == 13
    assert message.startswith("kept in float32: ")
    assert message.endswith(" (in layers/nearest.py:11)")


def test_what_is_wrong_in_a_model_is_told_where_it_is_called(environment: Environment) -> None:
    env = environment({"layers/__init__.py": "from .nearest import Whole\n", "layers/nearest.py": NEAREST})
    after, told = moved(training("from layers import Whole", net="Whole(8)"), env)
    assert OFF not in after
    assert "autocast" in after
    assert [line for line, _ in told] == [21]
    assert all(message.endswith(" (in layers/nearest.py:11)") for _, message in told)
    (site,) = Path("../env").rglob("nearest.py")
    assert site.read_text() == NEAREST  # whatever is wrong in it


def test_a_loss_that_autocast_refuses_is_computed_without_it(environment: Environment) -> None:
    loss = "import torch\n\n\ndef rate(p, y):\n    return torch.nn.functional.binary_cross_entropy(p, y)\n"
    env = environment({"losses.py": loss})
    text = training("import losses").replace(
        "loss = nn.functional.cross_entropy(net(x), y)", "out = net(x).sigmoid()\n    loss = losses.rate(out, y)"
    )
    after, told = moved(text, env)
    assert f"{OFF}\n            loss = losses.rate(out.float(), y)\n" in after
    assert ["refuses it: binary_cross_entropy (in losses.py:5)" in message for _, message in told] == [True]


def test_a_step_whose_model_raises_under_autocast_is_left(environment: Environment) -> None:
    model = PLAIN.replace(
        "return torch.relu(self.inner(x))", "return nn.functional.binary_cross_entropy(self.inner(x).sigmoid(), x)"
    )
    env = environment({"layers.py": model})
    text = training("import layers", net="layers.Plain(8)").replace("nn.functional.cross_entropy(net(x), y)", "net(x)")
    Path("train.py").write_text(text)
    outcome = migrate([Path("train.py")], Settings(environment=environment_of(env)))
    (left,) = [each.message for each in outcome.findings if each.code == "AMP590"]
    assert "autocast refuses it: binary_cross_entropy (in layers.py:11) (line 21)" in left


def test_a_device_that_a_package_names_is_none_that_the_script_names(environment: Environment) -> None:
    body = "        torch.zeros(2, device='cuda' if torch.cuda.is_available() else 'cpu')\n        return torch.relu"
    env = environment({"layers.py": PLAIN.replace("        return torch.relu", body)})
    text = training("import layers").replace(".cuda()", "").replace("    loss =", "    layers.Plain(8)(x)\n    loss =")
    batches = "[(torch.zeros(2, 8), torch.zeros(2).long())]"
    Path("train.py").write_text(text.replace('torch.load("batches.pt")', batches))
    for settings in (Settings(), Settings(environment=environment_of(env))):
        said = [each.message for each in migrate([Path("train.py")], settings).findings if each.code == "AMP590"]
        assert [each.startswith("left as it was: everything is on the CPU") for each in said] == [True]


@pytest.mark.parametrize(
    "text",
    [
        "import importlib\nimport torch\n\nPlain = importlib.import_module('elsewhere').Plain\n",
        "import torch\nfrom ._compiled import Plain\n",
        "import torch\nfrom missing import Plain\n",
    ],
)
def test_what_nobody_can_read_is_told_as_before(environment: Environment, text: str) -> None:
    env = environment({"layers/__init__.py": text, "layers/_compiled.cpython-311.so": ""})
    script = training("import layers", "layers.Plain(8)")
    after, told = moved(script, env)
    assert [line for line, _ in told] == [13]
    assert UNREAD in told[0][1]
    assert after == moved(script, None)[0]


def test_what_has_no_pytorch_is_not_looked_into(environment: Environment) -> None:
    env = environment(
        {
            "numbers_only/__init__.py": "from .deep import Plain\n",
            "numbers_only/deep.py": "def lazily():\n    import torch\n\n\nclass Plain:\n    pass\n",
            "torch/__init__.py": "import torch.nn\n",
            "timm/__init__.py": PLAIN,
        }
    )
    packages = Packages(environment_of(env))
    assert [packages.locate(each, "train.py") for each in ("numbers_only", "torch", "timm", "absent")] == [None] * 4


def test_what_stands_beside_the_script_goes_before_what_is_installed(environment: Environment) -> None:
    env = environment({"layers.py": NEAREST.replace("Nearest", "Plain")})
    Path("layers.py").write_text(PLAIN)
    text = training("import layers", "layers.Plain(8)")
    assert moved(text, env) == moved(text, None)
    found = migrate([Path()], Settings(environment=environment_of(env)))
    assert not [each for each in found.findings if each.code == "AMP504"]


def test_a_program_that_is_too_large_with_its_packages_is_looked_at_without_them(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = "\n".join(f"        x = self.inner(x) + {number}" for number in range(400))
    large = PLAIN.replace("        return torch.relu", f"{many}\n        return torch.relu")
    env = environment({"layers.py": large})
    text = training("import layers", "layers.Plain(8)")
    monkeypatch.setattr(precision, "_PATIENCE", 0)
    assert moved(text, env) == moved(text, None)
    before = dict(done())
    moved(text, None)
    alone = since(before)[Work.PROGRAMS]
    before = dict(done())
    moved(text, env)
    assert since(before)[Work.PROGRAMS] == alone + 1  # which is not tried again
    monkeypatch.undo()


@pytest.mark.parametrize(
    "forward",
    [
        "        raise NotImplementedError\n",
        "        return self.inner(x)\n\n\nmatch x with:\n    pass\n",
    ],
)
def test_a_program_that_is_not_understood_with_its_packages_is_looked_at_without_them(
    environment: Environment, forward: str
) -> None:
    env = environment({"layers.py": PLAIN.replace("        return torch.relu(self.inner(x))\n", forward)})
    text = training("import layers", "layers.Plain(8)")
    assert moved(text, env) == moved(text, None)


def test_a_package_that_makes_the_analysis_fail_is_not_looked_into(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(questions: Questions) -> bool:
        raise RecursionError

    env = environment({"layers.py": PLAIN})
    monkeypatch.setattr(precision, "_is_understood", failing)
    text = training("import layers", "layers.Plain(8)")
    assert moved(text, env) == moved(text, None)


def test_what_a_call_that_is_not_kept_in_float32_does_is_told_beside_one_that_is(environment: Environment) -> None:
    grams = "import torch\n\n\ndef gram(x):\n    return x @ x.t()\n"
    env = environment({"filters.py": grams})
    text = training("import filters").replace(
        "loss = nn.functional.cross_entropy(net(x), y)",
        "out = net(x)\n    loss = (filters.gram(out) - filters.gram(y)).mean()",
    )
    after, told = moved(text, env)
    assert f"{OFF}\n            gram_output = filters.gram(out.float())\n" in after
    kept, other = sorted((message, line) for line, message in told)
    assert kept == (f"kept in float32: {other[0]}", other[1])


def test_what_is_read_of_packages_is_counted_and_read_once(environment: Environment) -> None:
    files = {"layers/__init__.py": "from .plain import Plain\n", "layers/plain.py": PLAIN, "layers/other.py": NEAREST}
    env = environment(files)
    work.begin()
    moved(training("import layers", "layers.Plain(8)"), env)
    assert (done()[Work.READ], done()[Work.PACKAGES]) == (1, 2)
    assert done()[Work.LIBCST_FILES] == 1
    work.begin()
    moved(training("import layers", "layers.Plain(8)"), None)
    assert done()[Work.PACKAGES] == 0


def test_a_notebook_is_read_with_its_packages(environment: Environment) -> None:
    env = environment({"layers.py": PLAIN})
    sources = ["!pip install layers\n", training("import layers", "layers.Plain(8)")]
    cell: dict[str, object] = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    cells = [{**cell, "source": each} for each in sources]
    text = json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    assert moved(text, env, "train.ipynb")[1] == []
    assert UNREAD in moved(text, None, "train.ipynb")[1][0][1]


def test_the_option_is_one_of_the_command_line_and_of_the_project(environment: Environment) -> None:
    env = environment({"layers.py": PLAIN})
    Path("train.py").write_text(training("import layers", "layers.Plain(8)"))

    def told(*words: str) -> str:
        return CliRunner().invoke(command, ["train.py", "--check", *words]).output

    assert UNREAD in told()
    assert UNREAD not in told("--python", str(env))
    Path("pyproject.toml").write_text('[tool.amp-migrate]\npython = "../env"\n')
    assert UNREAD not in told()
    failed = CliRunner().invoke(command, ["train.py", "--check", "--python", "missing"])
    assert failed.exit_code == 2
    assert failed.output.splitlines()[-1] == "Error: --python missing: there is no such file or folder"


def test_the_next_step_is_told_where_nothing_that_is_installed_was_read(environment: Environment) -> None:
    env = environment({"layers.py": "import torch\nfrom missing import Plain\n"})
    Path("train.py").write_text(training("import layers", net="layers.Plain(8)"))
    found = [
        each.hint
        for settings in (Settings(), Settings(environment=environment_of(env)))
        for each in migrate([Path("train.py")], settings).findings
        if each.code == "AMP504"
    ]
    assert [each.startswith("give --python .venv/bin/python") for each in found] == [True, False]


def test_processes_read_the_same_packages(environment: Environment) -> None:
    env = environment({"layers.py": PLAIN})
    for number in range(2):
        folder = Path(f"part_{number}")
        folder.mkdir()
        (folder / "train.py").write_text(training("import layers", "layers.Plain(8)"))
    settings = Settings(environment=environment_of(env))
    packages = Packages(settings.environment)
    workspace = Workspace.open([Path()])
    examined = Examined(workspace, settings.target_torch, workers=2, packages=packages)
    found = migrate_workspace(workspace, settings, examined=examined)
    assert len(found.changed) == 2
    assert not [each for each in found.findings if each.code == "AMP504"]


def test_the_texts_that_a_result_hangs_on_are_those_of_the_project(environment: Environment) -> None:
    env = environment({"layers.py": PLAIN})
    Path("train.py").write_text(training("import layers", "layers.Plain(8)"))
    files = FlowFiles(Workspace.open([Path()]), Packages(environment_of(env)))
    at = files.locate("layers", "train.py")
    assert at is not None
    assert (files.text(at), files.shown(at)) == (PLAIN, "layers.py")
    assert set(files.texts) == {"train.py"}
