"""Scripts that import Apex, unmodified."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import amp_shim
import pytest
from amp_shim import amp, parallel
from amp_shim.amp import handle
from amp_shim.install import install, uninstall

SHIM = Path(amp_shim.__file__).parents[1]


@pytest.fixture
def installed() -> Iterator[None]:
    install()
    yield
    uninstall()


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(SHIM), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-m", "amp_shim", *arguments],
        cwd=cwd, env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    "statement",
    [
        "from apex import amp",
        "import apex.amp as amp",
        "import apex; amp = apex.amp",
        "import apex.amp; amp = apex.amp",
        "from apex.amp import *; import apex; amp = apex.amp; initialize, scale_loss",
    ],
)
def test_every_way_to_import_amp_gives_the_shims(statement: str) -> None:
    names: dict[str, object] = {}
    exec(statement, names)
    assert names["amp"] is amp


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    "statement",
    [
        "from apex.amp import _amp_state",
        "from apex.amp._amp_state import _amp_state",
        "import apex.amp._amp_state; _amp_state = apex.amp._amp_state",
        "from apex.amp._amp_state import master_params, maybe_print; from apex import amp; _amp_state = amp._amp_state",
    ],
)
def test_every_way_to_the_state_gives_the_one_state(statement: str) -> None:
    names: dict[str, object] = {}
    exec(statement, names)
    assert names["_amp_state"] is amp._amp_state


@pytest.mark.usefixtures("installed")
def test_other_parts_of_apex_are_found_where_scripts_look() -> None:
    names: dict[str, object] = {}
    exec(
        "import apex\n"
        "from apex.parallel import DistributedDataParallel as DDP, convert_syncbn_model\n"
        "from apex.parallel.LARC import LARC\n"
        "from apex.normalization.fused_layer_norm import FusedLayerNorm\n"
        "from apex.optimizers.fused_lamb import FusedLAMB\n"
        "from apex.fp16_utils.fp16util import network_to_half\n"
        "found = (\n"
        "    apex.parallel.DistributedDataParallel is DDP,\n"
        "    apex.normalization.FusedLayerNorm is FusedLayerNorm,\n"
        "    apex.optimizers.FusedLAMB is FusedLAMB,\n"
        "    apex.fp16_utils.network_to_half is network_to_half,\n"
        ")\n",
        names,
    )
    assert names["found"] == (True, True, True, True)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    "statement",
    [
        "from apex.amp.frontend import initialize, load_state_dict, state_dict",
        "from apex.amp.handle import AmpHandle, NoOpHandle, disable_casts, scale_loss",
        "from apex.amp.amp import half_function, init, register_float_function",
        "from apex.amp.opt import OptimWrapper",
        "from apex.parallel.sync_batchnorm import SyncBatchNorm",
        "from apex.parallel.optimized_sync_batchnorm import SyncBatchNorm",
        "from apex.parallel import ReduceOp",
    ],
)
def test_inner_modules_of_apex_are_the_shims(statement: str) -> None:
    names: dict[str, object] = {}
    exec(statement, names)
    del names["__builtins__"]
    parts = (amp, handle, parallel)
    assert names == {name: next(vars(part)[name] for part in parts if name in vars(part)) for name in names}


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("first", ["apex_C", "apex.parallel.distributed"])
def test_extension_that_flattens_is_answered_too(first: str) -> None:
    importlib.import_module(first)
    names: dict[str, object] = {}
    exec(
        "import apex_C, torch\n"
        "from apex.parallel.distributed import flat_dist_call\n"
        "tensors = [torch.ones(2, 2), torch.zeros(1)]\n"
        "flat = apex_C.flatten(tensors)\n"
        "shapes = [tuple(tensor.shape) for tensor in apex_C.unflatten(flat, tensors)]\n"
        "flat_dist_call(tensors, torch.Tensor.add_, (2.0,))\n",
        names,
    )
    assert names["flat"].tolist() == [1, 1, 1, 1, 0]  # type: ignore[attr-defined]
    assert names["shapes"] == [(2, 2), (1,)]
    assert names["tensors"][1].tolist() == [2.0]  # type: ignore[index]


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("import apex.transformer", r"no apex\.transformer; use torch\.distributed\.tensor\.parallel instead"),
        ("from apex import transformer", r"no apex\.transformer; use torch\.distributed\.tensor\.parallel instead"),
        ("from apex.RNN.models import LSTM", r"no apex\.RNN; use torch\.nn\.LSTM, GRU or RNN instead"),
        ("from apex.contrib.xentropy import SoftmaxCrossEntropyLoss", r"use torch\.nn\.functional\.cross_entropy"),
        ("from apex.contrib import xentropy", r"no apex\.contrib\.xentropy; use torch\.nn\.functional\.cross_entropy"),
        ("import apex; apex.contrib.clip_grad.clip_grad_norm_", r"use torch\.nn\.utils\.clip_grad_norm_ instead"),
        ("import apex.contrib.nothing", r"no apex\.contrib\.nothing; use the torch function of the same purpose"),
        ("import apex.nothing", r"no apex\.nothing; use its counterpart in torch instead"),
        ("from apex.mlp import nothing", "cannot import name 'nothing' from 'amp_shim.mlp'"),
        ("from amp_C import multi_tensor_lamb_mp", "cannot import name 'multi_tensor_lamb_mp' from 'amp_shim"),
    ],
)
def test_missing_part_of_apex_is_an_import_error_that_names_the_alternative(statement: str, message: str) -> None:
    with pytest.raises(ImportError, match=message):
        exec(statement, {})


@pytest.mark.usefixtures("installed")
def test_name_that_apex_never_had_is_an_attribute_error() -> None:
    apex = importlib.import_module("apex")
    assert not hasattr(apex, "nothing")
    assert not hasattr(apex.contrib, "__wrapped__")


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("first", ["amp_C", "apex"])
def test_extension_of_apex_is_answered_too(first: str) -> None:
    importlib.import_module(first)
    names: dict[str, object] = {}
    exec(
        "from apex.multi_tensor_apply import multi_tensor_applier\n"
        "import amp_C, torch\n"
        "flag, x = torch.zeros(1, dtype=torch.int), [torch.ones(2)]\n"
        "multi_tensor_applier(amp_C.multi_tensor_scale, flag, [x, x], 3.0)\n",
        names,
    )
    assert names["x"][0].tolist() == [3.0, 3.0]  # type: ignore[index]


def test_nothing_is_answered_before_install_and_after_uninstall() -> None:
    for _ in range(2):
        with pytest.raises(ImportError):
            importlib.import_module("apex")
        install()
        install()
        importlib.import_module("apex.amp")
        uninstall()
        with pytest.raises(ImportError):
            importlib.import_module("apex")
        uninstall()


def test_real_apex_that_is_loaded_already_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "apex.py").write_text("real = True\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    real = importlib.import_module("apex")
    try:
        with pytest.raises(RuntimeError, match="apex is imported already"):
            install()
        assert sys.modules["apex"] is real
    finally:
        del sys.modules["apex"]


def test_another_package_of_that_name_is_not_apex_and_answers_again_after_uninstall(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "apex.py").write_text("real = True\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    install()
    assert importlib.import_module("apex").amp is amp
    uninstall()
    try:
        assert importlib.import_module("apex").real
    finally:
        sys.modules.pop("apex", None)


# An Apex as NVIDIA leaves it: compiled, but for the kernels of its layers.
APEX_OF_TODAY = {
    "amp_C.py": "real = True",
    "apex/__init__.py": "from . import normalization, optimizers\nversion = 'real'",
    "apex/contrib/__init__.py": "",
    "apex/contrib/xentropy/__init__.py": "real = True",
    "apex/mlp/__init__.py": "import mlp_cuda",
    "apex/multi_tensor_apply/__init__.py": "real = True",
    "apex/normalization/__init__.py": "FusedLayerNorm = 'not compiled'",
    "apex/optimizers/__init__.py": "from apex.multi_tensor_apply import real",
    "apex/optimizers/fused_sgd.py": "real = True",
}


@pytest.fixture
def beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, text in APEX_OF_TODAY.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text + "\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    install()
    yield
    uninstall()


@pytest.mark.usefixtures("beside")
@pytest.mark.parametrize(
    "statement",
    [
        "import apex; found = apex.version == 'real'",
        "from apex.optimizers import real as found",
        "import apex; found = apex.optimizers.real",
        "from apex.optimizers.fused_sgd import real as found",
        "from apex.multi_tensor_apply import real as found",
        "from apex.contrib.xentropy import real as found",
        "from apex.contrib import xentropy; found = xentropy.real",
        "import amp_C; found = amp_C.real",
    ],
)
def test_what_an_installed_apex_still_has_is_its_own(statement: str) -> None:
    names: dict[str, object] = {}
    exec(statement, names)
    assert names["found"] is True


@pytest.mark.usefixtures("beside")
@pytest.mark.parametrize(
    ("statement", "module"),
    [
        ("from apex import amp as found", "amp_shim.amp"),
        ("import apex; found = apex.amp", "amp_shim.amp"),
        ("import apex.amp as found", "amp_shim.amp"),
        ("from apex.parallel import LARC as found", "amp_shim.parallel.larc"),
        ("from apex.fp16_utils import FP16_Optimizer as found", "amp_shim.fp16_utils.fp16_optimizer"),
        ("import apex; found = apex.fp16_utils.fp16util", "amp_shim.fp16_utils.fp16util"),
        ("from apex.normalization import FusedLayerNorm as found", "amp_shim.normalization"),
        ("import apex; found = apex.normalization.FusedLayerNorm", "amp_shim.normalization"),
        ("from apex.mlp import MLP as found", "amp_shim.mlp"),
    ],
)
def test_what_it_has_deleted_and_what_is_not_compiled_comes_from_the_shim(statement: str, module: str) -> None:
    names: dict[str, Any] = {}
    exec(statement, names)
    found = names["found"]
    assert getattr(found, "__module__", found.__name__ if hasattr(found, "__name__") else None) == module


@pytest.mark.usefixtures("beside")
def test_what_neither_has_is_an_import_error_that_names_the_alternative() -> None:
    with pytest.raises(ImportError, match=r"no apex\.RNN; use torch\.nn\.LSTM, GRU or RNN instead"):
        importlib.import_module("apex.RNN")
    with pytest.raises(ImportError, match="cannot import name 'RNN' from 'apex'"):
        exec("from apex import RNN", {})


@pytest.mark.usefixtures("beside")
def test_installed_apex_is_whole_again_after_uninstall() -> None:
    importlib.import_module("apex.amp")
    uninstall()
    assert importlib.import_module("apex").normalization.FusedLayerNorm == "not compiled"
    with pytest.raises(ImportError):
        importlib.import_module("apex.amp")
    for name in [name for name in sys.modules if name == "apex" or name.startswith("apex.")]:
        del sys.modules[name]


def test_script_runs_as_main_with_its_arguments_and_its_folder(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "sibling.py").write_text("value = 7\n")
    script = tmp_path / "code" / "train.py"
    script.write_text(
        "import sys\n"
        "from importlib.util import find_spec\n"
        "import sibling\n"
        "print(__name__, sys.argv, __file__, sibling.value, find_spec('apex').name)\n"
        "sys.exit(3)\n"
    )
    result = run("code/train.py", "--lr", "0.1", "-m", cwd=tmp_path)
    assert result.stdout == f"__main__ ['code/train.py', '--lr', '0.1', '-m'] {script} 7 apex\n", result.stderr
    assert result.returncode == 3


def test_module_runs_by_its_dotted_name(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").write_text("")
    (tmp_path / "pkg" / "train.py").write_text(
        "import sys\n"
        "from importlib.util import find_spec\n"
        "print(__name__, __package__, sys.argv[1:], find_spec('apex').name)\n"
    )
    result = run("-m", "pkg.train", "--lr", "0.1", cwd=tmp_path)
    assert result.stdout == "__main__ pkg ['--lr', '0.1'] apex\n", result.stderr


def test_spawned_worker_can_import_apex_too(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import multiprocessing\n"
        "from apex import amp\n"
        "def work(queue):\n"
        "    queue.put(amp.__name__)\n"
        "if __name__ == '__main__':\n"
        "    context = multiprocessing.get_context('spawn')\n"
        "    queue = context.Queue()\n"
        "    process = context.Process(target=work, args=(queue,))\n"
        "    process.start()\n"
        "    print(queue.get(timeout=60))\n"
        "    process.join()\n"
    )
    result = run("train.py", cwd=tmp_path)
    assert result.stdout == "amp_shim.amp\n", result.stderr


def test_level_on_the_command_line_replaces_the_scripts(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import torch\n"
        "from apex import amp\n"
        "model = amp.initialize(torch.nn.Linear(1, 1), opt_level='O1', verbosity=0)\n"
        "print(amp._amp_state.opt_properties.opt_level, model.weight.dtype)\n"
    )
    result = run("--opt-level", "O3", "train.py", cwd=tmp_path)
    assert result.stdout == "O3 torch.float16\n", result.stderr


def test_package_itself_answers_as_apex() -> None:
    code = (
        "import amp_shim as apex\n"
        "amp = apex.amp\n"
        "from amp_shim.amp._amp_state import _amp_state\n"
        "assert amp._amp_state is _amp_state\n"
        "print(hasattr(apex, 'nothing'))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(SHIM)}
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert result.stdout == "False\n", result.stderr


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "no script given"),
        (["nowhere.py"], "nowhere.py: no such file"),
        (["-m"], "-m needs the name of a module"),
        (["-m", "nowhere.train"], "-m nowhere.train: no such module"),
        (["--fast"], "unknown option --fast"),
        (["--opt-level", "2", "train.py"], "--opt-level takes one of O0, O1, O2, O3, O4, O5, found '2'"),
    ],
)
def test_usage_errors_are_one_line_and_exit_two(arguments: list[str], problem: str, tmp_path: Path) -> None:
    result = run(*arguments, cwd=tmp_path)
    assert result.stderr == f"amp_shim: {problem}; see python -m amp_shim --help\n"
    assert (result.stdout, result.returncode) == ("", 2)


def test_help_is_the_product(tmp_path: Path) -> None:
    result = run("--help", cwd=tmp_path)
    assert result.stdout.startswith("usage: python -m amp_shim [--opt-level LEVEL] SCRIPT")
    assert (result.stderr, result.returncode) == ("", 0)


SCRIPT = """\
import torch
from torch import nn
from apex import amp
from apex.fp16_utils import *
from apex.multi_tensor_apply import multi_tensor_applier
from apex.optimizers import FusedLAMB
from apex.parallel import LARC, convert_syncbn_model
try:
    from apex.contrib.clip_grad import clip_grad_norm_
except ImportError:
    from torch.nn.utils import clip_grad_norm_

torch.manual_seed(0)
x, y = torch.randn(64, 16), torch.randint(0, 4, (64,))

def losses(model, optimizer, backward):
    for _ in range(20):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x).float(), y)
        backward(loss)
        optimizer.step()
        yield loss.item()

def network():
    return nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 4))

model = network()
optimizer = FusedLAMB(model.parameters(), lr=0.1)
model, optimizer = amp.initialize(model, optimizer, opt_level="O2", keep_batchnorm_fp32="True", loss_scale="128.0")

def scaled(loss):
    with amp.scale_loss(loss, optimizer) as scaled_loss:
        scaled_loss.backward()
    clip_grad_norm_(amp.master_params(optimizer), 1.0)

first, *_, last = losses(model, optimizer, scaled)
print("amp", last < first / 2)

model = network_to_half(network())
optimizer = FP16_Optimizer(torch.optim.SGD(model.parameters(), lr=0.5), dynamic_loss_scale=True, verbose=False)
first, *_, last = losses(model, optimizer, optimizer.backward)
print("fp16_utils", last < first / 2)
"""


def test_script_that_uses_many_parts_of_apex_trains_unmodified(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    result = run("train.py", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[-2:] == ["amp True", "fp16_utils True"]
