"""Imports of Apex: what it deleted comes from the shim or is told, what it still has stays."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from amp_migrate.engine.migrate import migrate as migrate_paths
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.report.finding import Kind
from amp_migrate.settings import Apex, Settings
from amp_migrate.tables.apex_names import DELETED, SERVED, SHIM_MODULES

Check = Callable[..., Any]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("import apex", "import amp_shim as apex"),
        ("import apex.amp", "import amp_shim as apex"),
        ("import apex.amp as apex_amp", "import amp_shim.amp as apex_amp"),
        ("from apex import amp as apex_amp", "from amp_shim import amp as apex_amp"),
    ],
)
def test_name_that_apex_had_stays(migrate: Check, before: str, after: str) -> None:
    name = "apex_amp" if "apex_amp" in before else "apex.amp"
    plan = migrate(f"{before}\n\nnms = {name}.float_function(nms)\n")
    assert plan.after == plan.source.text.replace(before, after)


@pytest.mark.parametrize(
    "text",
    [
        "from apex_like import amp\n\nmodel = amp.initialize(model)",
        "try:\n    from apex.normalization import FusedLayerNorm\n    HAS = True\nexcept ImportError:\n    HAS = False",
        "def has():\n    try:\n        import apex\n        from apex import amp\n        return True\n"
        "    except ImportError:\n        return False",
    ],
)
def test_what_only_sees_whether_apex_is_there_is_no_matter(ignores: Check, text: str) -> None:
    ignores(f"{text}\n")


@pytest.mark.parametrize("package", ["apex.optimizers", "apex.contrib.xentropy", "apex.RNN"])
@pytest.mark.parametrize("form", ["from {} import thing\n", "import {}\n", "import {} as thing\n", "import apex\n"])
@pytest.mark.parametrize("guard", ["{}", "try:\n    {}except ImportError:\n    print('no apex')\n"])
def test_import_that_nothing_uses_goes_with_its_guard(migrate: Check, package: str, form: str, guard: str) -> None:
    plan = migrate(f"{guard.format(form.format(package))}x = 1\n")
    assert plan.after == "import torch\nfrom torch import nn\n\nx = 1\n"
    assert ["nothing uses it" in finding.message for finding in plan.findings] == [True]


def test_import_that_only_an_older_pytorch_reaches_stays_with_its_uses(ignores: Check) -> None:
    ignores(
        """
        amp, scaler = None, None
        if torch.__version__ >= "1.6.0":
            scaler = torch.amp.GradScaler("cuda")
        else:
            from apex import amp
            INITIALIZE
        for x in loader:
            optimizer.zero_grad()
            if scaler is not None:
                with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                    loss = model(x).mean()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            else:
                with amp.scale_loss(model(x).mean(), optimizer) as scaled_loss:
                    scaled_loss.backward()
                optimizer.step()
        """
    )


def test_star_import_that_nothing_uses_is_told(migrate: Check) -> None:
    text = "from apex.fp16_utils import *\nfrom apex import amp\n\nmodel = amp.initialize(model, **options)\n"
    plan = migrate(text)
    assert plan.after == plan.source.text.replace("from apex.fp16_utils import *\nfrom apex", "from amp_shim")
    assert "import of all of apex.fp16_utils is gone: nothing uses it" in [each.message for each in plan.findings]


def test_function_that_asks_for_apex_in_another_file_goes_with_the_step(rewrites_files: Check) -> None:
    findings = rewrites_files(
        {
            "misc.py": """
              def is_apex_available():
                  try:
            -         import apex  # NOQA
            +         import amp_shim as apex  # NOQA

                      return True
                  except ImportError:
                      return False
            """,
            "train.py": """
              import torch
              from misc import is_apex_available

              if is_apex_available():
            -     import apex
            +     import amp_shim as apex

              def train(model, loader, levels):
                  optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                  if is_apex_available():
                      model, optimizer = apex.amp.initialize(model, optimizer, *levels)
                  for x, y in loader:
                      loss = torch.nn.functional.cross_entropy(model(x), y)
                      with apex.amp.scale_loss(loss, optimizer) as scaled:
                          scaled.backward()
                      optimizer.step()
            """,
        },
        prove=True,
    )
    told = [each.message for each in findings if each.path.endswith("misc.py")]
    assert told == ["this asked whether Apex is there: it asks for amp_shim now"]


def test_function_that_asks_for_apex_stays_for_a_step_of_another_pytorch(rewrites_files: Check) -> None:
    rewrites_files(
        {
            "misc.py": """
              try:
                  from apex import amp

                  _has_apex = True
              except ImportError:
                  _has_apex = False

              def is_apex_available():
                  return _has_apex
            """,
            "train.py": """
              import torch
              from packaging import version

              if version.parse(torch.__version__) < version.parse("1.6"):
                  from misc import is_apex_available

                  if is_apex_available():
                      from apex import amp
            - scaler = torch.cuda.amp.GradScaler()
            + scaler = torch.amp.GradScaler("cuda")
            """,
        }
    )


def test_import_that_nothing_uses_stays_in_a_package(tmp_path: Path) -> None:
    (tmp_path / "__init__.py").write_text("from apex.optimizers import FusedLAMB\n")
    assert not list(migrate_paths([tmp_path], Settings()).changed)


@pytest.mark.torch
@pytest.mark.parametrize("package", [*SERVED, *SHIM_MODULES])
def test_shim_has_every_module_that_it_is_asked_for(package: str) -> None:
    module = SHIM_MODULES.get(package, package.replace("apex", "amp_shim", 1))
    assert importlib.util.find_spec(module) is not None


@pytest.mark.torch
@pytest.mark.parametrize(
    ("before", "after", "use"),
    [
        ("import amp_C", "import amp_shim.multi_tensor_apply.amp_c as amp_C", "amp_C.multi_tensor_scale"),
        ("import apex_C", "import amp_shim.parallel.flat as apex_C", "apex_C.flatten"),
        ("from apex.optimizers import FusedAdam", "from amp_shim.optimizers import FusedAdam", "FusedAdam"),
        ("from apex.multi_tensor_apply import *", "from amp_shim.multi_tensor_apply import *", "multi_tensor_applier"),
        ("from apex.mlp import MLP", "from amp_shim.mlp import MLP", "MLP([1, 2])"),
    ],
)
def test_what_apex_still_has_comes_from_the_shim_where_that_is_asked_for(
    migrate: Check, before: str, after: str, use: str
) -> None:
    text = f"{before}\nfrom apex import RNN\n\nthing = {use}, RNN\n"
    assert after in migrate(text, apex=Apex.SHIM).after.splitlines()
    exec(after)  # the shim has that name
    plan = migrate(text)
    assert plan.after == plan.source.text
    assert any("Apex still has" in finding.message for finding in plan.findings)


@pytest.mark.torch
@pytest.mark.parametrize(
    ("before", "after", "use"),
    [
        ("from apex.parallel.LARC import LARC", "from amp_shim.parallel.larc import LARC", "LARC(optimizer)"),
        (
            "from apex.parallel.distributed import flat_dist_call",
            "from amp_shim.parallel.distributed import flat_dist_call",
            "flat_dist_call",
        ),
    ],
)
def test_module_that_apex_has_deleted_comes_from_the_shim(migrate: Check, before: str, after: str, use: str) -> None:
    assert after in migrate(f"{before}\n\nthing = {use}\n").after.splitlines()
    exec(after)  # the shim has that name


@pytest.mark.parametrize("package", sorted(set(DELETED) - set(SERVED)))
@pytest.mark.parametrize("form", ["from {} import thing\n", "import {}\n", "import {} as thing\n"])
def test_deleted_package_that_the_shim_lacks_is_told(leaves: Check, package: str, form: str) -> None:
    use = "thing" if "thing" in form else package
    leaves(f"{form.format(package)}\nmodel = {use}(1)\n", "Apex has deleted what it names")


@pytest.mark.parametrize("beside", ["bias_correction=False", "lr=0.1"])
def test_name_that_a_living_package_lost_keeps_the_others_with_it(leaves: Check, beside: str) -> None:
    text = "from apex.optimizers import FP16_Optimizer, FusedAdam\n\n"
    leaves(
        f"{text}optimizer = FP16_Optimizer(FusedAdam(params, {beside}))\n",
        "left on Apex: no step that scales its loss is among the files",
    )


def test_module_used_for_deleted_and_living_packages_keeps_both(rewrites: Check) -> None:
    rewrites(
        """
          import apex
        + import amp_shim

        - reducer = apex.parallel.Reducer(model)
        + reducer = amp_shim.parallel.Reducer(model)
          loss = apex.contrib.xentropy.SoftmaxCrossEntropyLoss.apply(logits, labels)
        """
    )


def test_what_only_apex_has_is_told_with_what_does_without(leaves: Check) -> None:
    text = "from apex.contrib.xentropy import SoftmaxCrossEntropyLoss\n\nloss = SoftmaxCrossEntropyLoss.apply(x, y)\n"
    finding = leaves(text, "Apex still has apex.contrib.xentropy.SoftmaxCrossEntropyLoss")
    assert "torch.nn.functional.cross_entropy" in finding.hint


def test_items_of_one_import_go_their_own_ways(rewrites: Check) -> None:
    rewrites(
        """
        - from apex.parallel import DistributedDataParallel as DDP, Reducer
        + from amp_shim.parallel import Reducer

        - model = DDP(model)
        + model = nn.parallel.DistributedDataParallel(model, find_unused_parameters=True, broadcast_buffers=False)
          reducer = Reducer(model)
        """
    )


@pytest.mark.parametrize("import_", ["from utils import *", "from utils import amp"])
def test_amp_taken_from_another_file_stays_available(tmp_path: Path, import_: str) -> None:
    (tmp_path / "utils.py").write_text("from apex import amp\n")
    (tmp_path / "train.py").write_text(f"{import_}\n\nmodel = amp.initialize(model, opt_level='O5')\n")
    after = {plan.source.path.name: plan.after for plan in migrate_paths([tmp_path], Settings()).changed}
    assert after == {"utils.py": "from amp_shim import amp\n"}


def test_star_that_brings_nothing_goes_with_its_guard(migrate: Check) -> None:
    text = "import torch\ntry:\n    from apex.fp16_utils import *\nexcept ImportError:\n    print('no apex')\nx = {}\n"
    assert migrate(text.format("1")).after.endswith("import torch\nx = 1\n")
    used = migrate(text.format("network_to_half(model)")).after
    assert "    from amp_shim.fp16_utils import *\n" in used


def test_what_a_star_brings_counts_until_it_is_imported_from_elsewhere(migrate: Check) -> None:
    star, other = "from apex.fp16_utils import *\n", "from mine import network_to_half\n"
    use = "model = network_to_half(model)\n"
    assert migrate(star + other + use).after.endswith(f"\n\n{other}{use}")
    assert "from amp_shim.fp16_utils import *\n" in migrate(other + star + use).after
    assert "from amp_shim.fp16_utils import *\n" in migrate(star + use + other).after


def test_float32_training_beside_an_import_that_nothing_uses_moves_at_once(rewrites: Check) -> None:
    rewrites(
        """
          try:
        -     from apex import amp, parallel
        +     from amp_shim import parallel
          except ImportError:
              pass

          reducer = parallel.Reducer
        ~ MODEL
        ~ EPOCH
          with torch.no_grad():
        ~     out = model(x)
        """
    )


OTHERS = "import torch\nmodel = torch.nn.parallel.Reducer(net)\n"
OWN = "def reduced(Reducer):\n    return Reducer(1)\n"
LARC = "from apex.parallel import LARC, convert_syncbn_model\nuse(LARC)\n"


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("from apex import optimizers\nx = 1\n", "x = 1\n"),
        (LARC, "from amp_shim.parallel import LARC\nuse(LARC)\n"),
        (f"from apex.parallel import Reducer\n{OTHERS}", OTHERS),
        (f"from apex.parallel import Reducer\n{OWN}", OWN),
    ],
)
def test_what_nothing_uses_goes(text: str, after: str) -> None:
    plan = migrate_text(text, Settings())
    assert plan.after == after
    assert any(each.code == "AMP301" and "nothing uses" in each.message for each in plan.findings)


@pytest.mark.parametrize(
    "text",
    [
        "try:\n    from apex import optimizers\nexcept ImportError:\n    use_fused = False\n",
        "from apex import optimizers\n\n__all__ = ['optimizers']\n",
        "class Trainer:\n    from apex import optimizers\n\n    def make(self):\n        self.optimizers\n",
    ],
)
def test_what_is_there_to_be_asked_for_or_handed_on_does_not_go(text: str) -> None:
    assert "import optimizers" in migrate_text(text, Settings()).after


def test_amp_of_pytorch_or_of_apex_by_the_version(rewrites: Check) -> None:
    rewrites(
        """
          use_amp = True
          if use_amp:
              use_torch_amp = torch.__version__ >= "1.6"
              if use_torch_amp:
                  import torch.cuda.amp as amp
              else:
                  from apex import amp
          else:
              use_torch_amp = False

          def fit(model, loader, optimizer, scaler):
              for x in loader:
                  optimizer.zero_grad()
                  if use_torch_amp:
        -             with amp.autocast():
        +             with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                          loss = model(x).mean()
                      scaler.scale(loss).backward()
                      scaler.step(optimizer)
                      scaler.update()
                  elif use_amp:
                      with amp.scale_loss(model(x).mean(), optimizer) as scaled_loss:
                          scaled_loss.backward()
                      optimizer.step()

          if use_amp and not use_torch_amp:
              model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
        - fit(model, loader, optimizer, amp.GradScaler() if use_torch_amp else None)
        + fit(model, loader, optimizer, torch.amp.GradScaler("cuda") if use_torch_amp else None)
        """
    )


def test_flag_that_only_an_older_pytorch_sets_asks_for_no_shim(rewrites: Check) -> None:
    rewrites(
        """
          _use_apex = _use_native_amp = False
          if version.parse(torch.__version__) < version.parse("1.6"):
              from apex import amp
              _use_apex = True
          else:
              _use_native_amp = True

          class Trainer:
              def __init__(self, args, model):
                  self.args, self.model = args, model
                  self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                  if args.fp16 and _use_native_amp:
        -             self.scaler = torch.cuda.amp.GradScaler()
        +             self.scaler = torch.amp.GradScaler("cuda")
                  if args.fp16 and _use_apex:
                      self.model, self.optimizer = amp.initialize(self.model, self.optimizer)
              def step(self, x):
                  if self.args.fp16 and _use_native_amp:
                      with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                          loss = self.model(x).mean()
                      self.scaler.scale(loss).backward()
                      self.scaler.unscale_(self.optimizer)
                      nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                      self.scaler.step(self.optimizer)
                      self.scaler.update()
                  elif self.args.fp16 and _use_apex:
                      with amp.scale_loss(self.model(x).mean(), self.optimizer) as scaled_loss:
                          scaled_loss.backward()
                      nn.utils.clip_grad_norm_(amp.master_params(self.optimizer), 1.0)
                      self.optimizer.step()
                  self.optimizer.zero_grad()
        """,
        head="import torch\nfrom packaging import version\nfrom torch import nn\n\n",
    )


@pytest.mark.parametrize("name", ["sync_batchnorm_kernel import SyncBatchnormFunction", "distributed import Nobody"])
def test_what_the_shim_does_not_have_stays_and_holds_up_nothing(rewrites: Check, name: str) -> None:
    plan = rewrites(
        f"""
        - from apex import amp
          try:
              from apex.parallel.{name} as Norm
          except ImportError:
              Norm = None
          print(Norm)
          model = nn.Linear(2, 2)
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        - model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
        + scaler = torch.amp.GradScaler("cuda")
          for x, y in loader:
        ~     loss = nn.functional.mse_loss(model(x), y)
        ~     APEX_STEP
        """
    )
    assert [each.code for each in plan.findings if each.kind is Kind.LEFT] == ["AMP390"]


def test_a_copy_of_apex_is_not_migrated_and_who_has_it_installed_is(tmp_path: Path) -> None:
    script = "import torch\nfrom apex import amp\n\nmodel = amp.initialize(torch.nn.Linear(2, 2))\n"
    step = "scaler = torch.cuda.amp.GradScaler()\n"
    texts = {
        "theirs/setup.py": 'from setuptools import setup\nsetup(name="apex")\n',
        "theirs/apex/__init__.py": "",
        "theirs/apex/amp/__init__.py": "import torch\n" + step,
        "theirs/examples/main.py": script + step,
        "installed.py": script + step,
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    outcome = migrate_paths([tmp_path], Settings())
    assert [each.source.path.name for each in outcome.changed] == ["installed.py"]
    said = [each for each in outcome.findings if each.code == "AMP393"]
    assert [each.path for each in said] == [str(tmp_path / "theirs/setup.py")]
    assert not any("theirs/" in each.path for each in outcome.findings if each.code != "AMP393")


def test_star_import_of_apex_brings_no_name_that_is_bound_nowhere(migrate: Check) -> None:
    plan = migrate(
        """
        from apex import amp
        from apex.fp16_utils import *

        def train(model, loader):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            model, optimizer = amp.initialize(model, optimizer)
            for x in loader:
                optimizer.zero_grad()
                loss = model(x).mean() * options.weight
                with amp.scale_loss(loss, optimizer) as scaled:
                    scaled.backward()
                optimizer.step()
        """
    )
    assert "apex" not in plan.after
    assert "* options.weight" in plan.after
