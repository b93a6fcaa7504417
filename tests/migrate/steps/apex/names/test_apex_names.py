"""The rest of Apex: what torch has itself is torch's, with the arguments that keep the meaning."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from pydoc import locate
from typing import Any

import pytest
from amp_migrate.engine.migrate import migrate as migrate_paths
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.report.finding import Finding, Kind
from amp_migrate.settings import Apex, Settings
from amp_migrate.tables.apex_natives import NATIVES, TorchForm

Check = Callable[..., Any]

DDP = "nn.parallel.DistributedDataParallel"
FORWARD = "class A(M):\n    def forward(self, x):\n        self.kept = self.f(x)\n        return self.kept\n"
AS_APEX = "find_unused_parameters=True, broadcast_buffers=False"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("parallel.DistributedDataParallel(m)", f"{DDP}(m, {AS_APEX})"),
        ("parallel.DistributedDataParallel(module=m)", f"{DDP}(module=m, {AS_APEX})"),
        (
            "parallel.DistributedDataParallel(m, delay_allreduce=False)",
            f"{DDP}(m, {AS_APEX})",
        ),
        ("parallel.DistributedDataParallel(m, 2 ** 20, prof=True)", f"{DDP}(m, {AS_APEX})"),
        ("parallel.DistributedDataParallel(m, message_size=1)", f"{DDP}(m, {AS_APEX})"),
        ("parallel.convert_syncbn_model(m)", "nn.SyncBatchNorm.convert_sync_batchnorm(m)"),
        ("parallel.convert_syncbn_model(m, group)", "nn.SyncBatchNorm.convert_sync_batchnorm(m, group)"),
        ("parallel.SyncBatchNorm(8, 1e-3, channel_last=False)", "nn.SyncBatchNorm(8, 1e-3)"),
        ("optimizers.FusedAdam(p)", "torch.optim.AdamW(p, weight_decay=0.0, fused=True)"),
        ("optimizers.FusedAdam(p, 0.1)", "torch.optim.AdamW(p, 0.1, weight_decay=0.0, fused=True)"),
        ("optimizers.FusedAdam(p, weight_decay=wd)", "torch.optim.AdamW(p, weight_decay=wd, fused=True)"),
        ("optimizers.FusedAdam(p, adam_w_mode=False)", "torch.optim.Adam(p, fused=True)"),
        (
            "optimizers.FusedAdam(p, 0.1, True, (0.9, 0.99), 1e-6, True, 0.01)",
            "torch.optim.AdamW(p, 0.1, betas=(0.9, 0.99), eps=1e-6, weight_decay=0.01, fused=True)",
        ),
        ("optimizers.fused_adam.FusedAdam(p)", "torch.optim.AdamW(p, weight_decay=0.0, fused=True)"),
        ("optimizers.FusedSGD(p, 0.1, 0.9)", "torch.optim.SGD(p, 0.1, 0.9)"),
        ("optimizers.FusedSGD(p, lr=0.1, materialize_master_grads=False)", "torch.optim.SGD(p, lr=0.1)"),
        ("optimizers.FusedAdagrad(p, 0.1, 1e-8)", "torch.optim.Adagrad(p, 0.1, eps=1e-8)"),
        ("normalization.FusedLayerNorm(8)", "nn.LayerNorm(8)"),
        ("normalization.FusedLayerNorm(8, 1e-6, False)", "nn.LayerNorm(8, 1e-6, False)"),
        ("normalization.FusedLayerNorm(8, memory_efficient=True)", "nn.LayerNorm(8)"),
        ("normalization.fused_layer_norm.FusedLayerNorm(8)", "nn.LayerNorm(8)"),
        ("normalization.MixedFusedLayerNorm(8, eps=1e-6)", "nn.LayerNorm(8, eps=1e-6)"),
        ("normalization.FusedRMSNorm(8)", "nn.RMSNorm(8, eps=1e-5)"),
        ("normalization.FusedRMSNorm(8, 1e-6)", "nn.RMSNorm(8, 1e-6)"),
        ("normalization.MixedFusedRMSNorm(8)", "nn.RMSNorm(8, eps=1e-5)"),
        ("contrib.clip_grad.clip_grad_norm_(p, 1.0)", "nn.utils.clip_grad_norm_(p, 1.0)"),
        ("contrib.layer_norm.FastLayerNorm(8)", "nn.LayerNorm(8)"),
        ("contrib.group_norm.GroupNorm(2, 8, affine=False)", "nn.GroupNorm(2, 8, affine=False)"),
    ],
)  # fmt: skip
def test_call_that_torch_has_itself(migrate: Check, before: str, after: str) -> None:
    plan = migrate(f"import apex\n\nthing = apex.{before}\n")
    assert plan.after == f"import torch\nfrom torch import nn\n\nthing = {after}\n"
    assert [finding.kind for finding in plan.findings] == [Kind.MIGRATED]


@pytest.mark.parametrize(
    ("call", "why"),
    [
        ("parallel.DistributedDataParallel(m, gradient_average=False)", "this gradient_average="),
        ("parallel.DistributedDataParallel(m, gradient_predivide_factor=world)", "this gradient_predivide_factor="),
        ("parallel.DistributedDataParallel(m, **options)", "its arguments are starred"),
        ("parallel.DistributedDataParallel(m).enable_allreduce()", "no enable_allreduce()"),
        ("parallel.convert_syncbn_model(m, channel_last=True)", "this channel_last="),
        ("parallel.convert_syncbn_model", "passes Apex's arguments"),
        ("parallel.SyncBatchNorm(8, fuse_relu=True)", "this fuse_relu="),
        ("optimizers.FusedAdam(p, bias_correction=False)", "this bias_correction="),
        ("optimizers.FusedAdam(p, adam_w_mode=decoupled)", "this adam_w_mode="),
        ("optimizers.FusedAdam", "passes Apex's arguments"),
        ("optimizers.FusedSGD(p, 0.1, wd_after_momentum=True)", "this wd_after_momentum="),
        ("optimizers.FusedLAMB(p)", "Apex still has"),
        ("normalization.MixedFusedLayerNorm(8, elementwise_affine=True)", "or not those of Apex"),
        ("normalization.FusedRMSNorm", "passes Apex's arguments"),
    ],
)
def test_call_that_torch_has_nothing_for(migrate: Check, call: str, why: str) -> None:
    plan = migrate(f"import apex\n\nthing = apex.{call}\n")
    is_deleted = call.startswith("parallel.")
    kept = "import amp_shim as apex" if is_deleted else "import apex"
    assert plan.after == plan.source.text.replace("import apex", kept)
    assert [finding for finding in plan.findings if why in finding.message], plan.findings


def test_what_apex_still_has_becomes_torchs_only_where_that_frees_the_file_from_apex(
    leaves: Check, rewrites: Check
) -> None:
    text = "from apex.optimizers import FusedAdam, FusedLAMB\n\n{} = FusedAdam(p), FusedLAMB(p)\n"
    leaves(text.format("a, b"), "Apex still has apex.optimizers.FusedLAMB")
    rewrites(
        """
        - from apex.optimizers import FusedAdam, FusedLAMB
        + from apex.optimizers import FusedLAMB

        - a, b = FusedAdam(p), FusedLAMB(p)
        + a, b = torch.optim.AdamW(p, weight_decay=0.0, fused=True), FusedLAMB(p)
        """,
        apex=Apex.NATIVE,
    )


@pytest.mark.parametrize("package", ["lightning", "pytorch_lightning", "lightning.pytorch"])
def test_lightning_may_clip_what_is_not_fused(migrate: Check, package: str) -> None:
    text = f"import {package} as pl\nfrom apex.optimizers import FusedAdam\n\noptimizer = FusedAdam(p, 0.1)\n"
    assert migrate(text).after.endswith("optimizer = torch.optim.AdamW(p, 0.1, weight_decay=0.0)\n")


@pytest.mark.parametrize("folder", ["", "third_party/"])
def test_copy_of_apex_in_the_tree_is_used_as_it_is(tmp_path: Path, folder: str) -> None:
    (tmp_path / folder / "apex/amp").mkdir(parents=True)
    (tmp_path / folder / "apex/__init__.py").write_text("from . import amp\n")
    (tmp_path / folder / "apex/amp/__init__.py").write_text("def initialize(model):\n    return model\n")
    (tmp_path / folder / "train.py").write_text("from apex import amp\n\nmodel = amp.initialize(model)\n")
    (tmp_path / folder / "apex/trial.py").write_text("from apex import amp\n\nmodel = amp.initialize(model)\n")
    outcome = migrate_paths([tmp_path], Settings())
    assert not list(outcome.changed)
    (told,) = outcome.findings
    assert (told.code, told.kind, told.path) == ("AMP290", Kind.LEFT, str(tmp_path / folder / "train.py"))
    assert "`import apex` loads what stands in this project by that name" in told.message


@pytest.mark.parametrize(
    "text",
    [
        "if isinstance(model, {}):\n    model = model.module\n",
        "def wrap(model) -> {}:\n    return model\n",
        "class Wrapper({}):\n    pass\n",
        "WRAPPERS = [{}]\n",
    ],
)
def test_class_named_without_a_call(migrate: Check, text: str) -> None:
    plan = migrate("from apex.parallel import DistributedDataParallel as DDP\n\n" + text.format("DDP"))
    assert plan.after == "import torch\nfrom torch import nn\n\n" + text.format("nn.parallel.DistributedDataParallel")


def test_class_that_has_another_name_below_its_import(rewrites: Check) -> None:
    rewrites(
        """
        - from apex.normalization.fused_layer_norm import FusedLayerNorm as LayerNorm
        -
        - BertLayerNorm = LayerNorm
        + BertLayerNorm = nn.LayerNorm

          class Block(nn.Module):
              def __init__(self, width):
                  super().__init__()
                  self.norm = BertLayerNorm(width, eps=1e-12)

          def init(module):
              if isinstance(module, BertLayerNorm):
                  module.bias.data.zero_()
        """
    )


def test_object_and_the_question_for_its_class_move_together(migrate: Check) -> None:
    text = """
        from apex.parallel import DistributedDataParallel as DDP

        model = DDP(model, gradient_average=False)
        if isinstance(model, DDP):
            model = model.module
        """
    plan = migrate(text)
    assert plan.after == plan.source.text.replace("from apex.", "from amp_shim.")


@pytest.mark.parametrize(
    ("asked", "handed_on", "is_torchs"),
    [
        ("isinstance(module, FusedLayerNorm)", "from layers import Norm", False),
        ("isinstance(module, (nn.Linear, FusedLayerNorm))", "from layers import Norm", False),
        ("type(module) == FusedLayerNorm", "from layers import Norm", False),
        ("module.norm is not None", "from layers import Norm", True),
        ("isinstance(module, FusedLayerNorm)", "import argparse", True),
    ],
)
def test_class_that_is_asked_for_in_one_file_is_the_same_where_others_make_it(
    tmp_path: Path, asked: str, handed_on: str, *, is_torchs: bool
) -> None:
    (tmp_path / "layers.py").write_text(
        "from apex.normalization.fused_layer_norm import FusedLayerNorm as Norm\n\ndef block():\n    return Norm(8)\n"
    )
    (tmp_path / "head.py").write_text(f"{handed_on}\n")
    (tmp_path / "model.py").write_text(
        "from apex.normalization import FusedLayerNorm\nfrom torch import nn\n\nnorm = FusedLayerNorm(8)\n\n"
        f"def reset(module):\n    if {asked}:\n        module.weight.data.fill_(1.0)\n"
    )
    changed = {each.source.path.name: each.after for each in migrate_paths([tmp_path], Settings()).changed}
    assert ("norm = nn.LayerNorm(8)" in changed.get("model.py", "")) is is_torchs


def test_own_names_of_torch_are_used(rewrites: Check) -> None:
    rewrites(
        """
          from torch import optim
          from torch.nn.parallel import DistributedDataParallel
        - from apex.parallel import DistributedDataParallel as DDP
        - from apex.optimizers import FusedSGD

        - model = DDP(model)
        - optimizer = FusedSGD(
        -     model.parameters(),
        -     lr=0.1,  # for a batch of 256
        -     set_grad_none=True,
        - )
        + model = DistributedDataParallel(model, find_unused_parameters=True, broadcast_buffers=False)
        + optimizer = optim.SGD(
        +     model.parameters(),
        +     lr=0.1,  # for a batch of 256
        + )
        """
    )


def test_script_on_the_shim_stays_there_as_a_whole(migrate: Check) -> None:
    text = """
        from apex import amp
        from apex.parallel import DistributedDataParallel as DDP

        MODEL
        model, optimizer = amp.initialize(model, optimizer, opt_level="O5")
        model = DDP(model)
        """
    plan = migrate(text)
    assert plan.after == plan.source.text.replace("from apex", "from amp_shim")


@pytest.mark.parametrize(
    "guard",
    [
        "except ImportError:\n    raise ImportError('Please install apex')\n",
        "except ImportError:\n    print('Please install apex')\n",
    ],
)
def test_guard_of_an_import_that_is_gone_goes_with_it(migrate: Check, guard: str) -> None:
    text = f"try:\n    from apex.parallel import DistributedDataParallel as DDP\n{guard}\nmodel = DDP(model)\n"
    after = migrate(text).after
    assert after.splitlines()[-1] == f"model = {DDP}(model, {AS_APEX})"
    assert "try" not in after
    assert "install" not in after


def test_flag_that_says_that_apex_is_there_stays_true(rewrites: Check) -> None:
    rewrites(
        """
        - try:
        -     from apex.parallel import DistributedDataParallel as DDP
        -     HAS_APEX = True
        - except ImportError:
        -     HAS_APEX = False
        + HAS_APEX = True

          if HAS_APEX:
        -     model = DDP(model)
        +     model = nn.parallel.DistributedDataParallel(model, find_unused_parameters=True, broadcast_buffers=False)
        """
    )


def test_guard_of_imports_that_go_for_different_reasons(migrate: Check) -> None:
    text = """
        try:
            from apex import amp
            from apex.parallel import convert_syncbn_model
            has_apex = True
        except ImportError:
            has_apex = False

        model = nn.Linear(2, 2)
        if has_apex:
            model = convert_syncbn_model(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model, optimizer = amp.initialize(model, optimizer)
        APEX_EPOCH
        """
    after = migrate(text).after
    assert after.startswith("import torch\nfrom torch import nn\n\nhas_apex = True\n\nmodel = nn.Linear(2, 2)\n")


def test_name_with_a_stand_in_is_left_as_it_works(ignores: Check) -> None:
    ignores(
        """
        try:
            from apex.normalization import FusedLayerNorm as LayerNorm
        except ImportError:
            from torch.nn import LayerNorm

        norm = LayerNorm(8)
        """
    )


def test_name_that_is_torchs_without_apex_is_torchs(rewrites: Check) -> None:
    rewrites(
        """
        - try:
        -     from apex.parallel import DistributedDataParallel as DDP
        - except ImportError:
        -     from torch.nn.parallel import DistributedDataParallel as DDP
        -
        - net = DDP(net, delay_allreduce=True)
        + net = nn.parallel.DistributedDataParallel(net, find_unused_parameters=True, broadcast_buffers=False)
        """
    )


@pytest.mark.parametrize(
    "text",
    [
        "try:\n    from apex.parallel import {0} as DDP\nexcept ImportError:\n    from own import {0} as DDP\n",
        "if own:\n    from apex.parallel import {0} as DDP\nelse:\n    from torch.nn.parallel import {0} as DDP\n",
    ],
)
def test_name_that_is_another_class_without_apex_or_by_choice(text: str, migrate: Check) -> None:
    plan = migrate(text.format("DistributedDataParallel") + "model = DDP(nn.Linear(2, 2))\n")
    assert "from amp_shim.parallel import DistributedDataParallel as DDP" in plan.after
    assert "model = DDP(nn.Linear(2, 2))" in plan.after


def test_torch_that_comes_by_star_is_not_imported_beside(migrate: Check) -> None:
    text = "from modeling import *\nfrom apex.optimizers import FusedSGD\n\noptimizer = FusedSGD(p, 0.1)\n"
    after = "from modeling import *\n\noptimizer = torch.optim.SGD(p, 0.1)\n"
    assert migrate(text + "x = torch.ones(3)\n", head="").after == after + "x = torch.ones(3)\n"


def test_files_of_a_script_on_the_shim_stay_there_with_it(rewrites_files: Check) -> None:
    rewrites_files(
        {
            "train.py": """
                - from apex import amp
                + from amp_shim import amp
                  from network import wrap

                  model, optimizer = amp.initialize(model, optimizer, opt_level="O5")
                """,
            "network/__init__.py": """
                - import apex
                + import amp_shim as apex

                  def wrap(model):
                      return apex.parallel.DistributedDataParallel(model)
                """,
        }
    )


def test_checkpoint_that_does_not_fit_is_told(migrate: Check) -> None:
    text = "from apex.optimizers import FusedAdam\n\noptimizer = FusedAdam(p)\n"
    for line, is_told in (("optimizer.load_state_dict(state)\n", [True]), ("model.load_state_dict(state)\n", [])):
        said: list[Finding] = [each for each in migrate(text + line).findings if each.kind is Kind.NOTE]
        assert ["no step of each parameter" in each.message for each in said] == is_told


@pytest.mark.parametrize(("state", "is_told"), [("optimizer", True), ("model", False)])
def test_checkpoint_that_another_file_loads_and_that_does_not_fit_is_told(
    tmp_path: Path, state: str, is_told: bool
) -> None:
    (tmp_path / "build.py").write_text(
        "from apex.optimizers import FusedAdam\n\ndef build(p):\n    return FusedAdam(p)\n"
    )
    resume = f"def resume(model, state):\n    optimizer = build.build(model)\n    {state}.load_state_dict(state)\n"
    (tmp_path / "train.py").write_text(f"import build\n\n{resume}")
    told = [each.message for each in migrate_paths([tmp_path], Settings()).findings if each.kind is Kind.NOTE]
    assert any("no step of each parameter" in each for each in told) == is_told


def test_target_without_the_new_name_keeps_apex() -> None:
    text = "import torch\nfrom apex.normalization import FusedRMSNorm\n\nnorm = FusedRMSNorm(8)\n"
    plan = migrate_text(text, Settings(target_torch=(2, 1)))
    assert plan.after == text
    assert [each for each in plan.findings if "torch.nn.RMSNorm came with PyTorch 2.4" in each.message]


@pytest.mark.parametrize(("target", "said"), [((2, 3), "weight_decay=0.0"), ((2, 4), "weight_decay=0.0, fused=True")])
def test_target_decides_what_a_call_can_say(target: tuple[int, int], said: str) -> None:
    text = "import torch\nfrom apex.optimizers import FusedAdam\n\noptimizer = FusedAdam(p)\n"
    plan = migrate_text(text, Settings(target_torch=target))
    assert plan.after == f"import torch\n\noptimizer = torch.optim.AdamW(p, {said})\n"


@pytest.mark.parametrize(
    ("settings", "said"),
    [(Settings(), "broadcast_buffers"), (Settings(target_torch=(2, 15)), "forward_sync_buffers")],
)
def test_what_only_the_newest_torch_takes_is_written_on_request(settings: Settings, said: str) -> None:
    text = "import torch\nfrom apex.parallel import DistributedDataParallel\n\nm = DistributedDataParallel(m)\n"
    plan = migrate_text(text, settings)
    assert plan.after == f"import torch\n\nm = torch.{DDP}(m, find_unused_parameters=True, {said}=False)\n"


def test_rule_that_is_not_wanted_leaves_the_name() -> None:
    text = "import torch\nfrom apex.contrib.clip_grad import clip_grad_norm_\n\nclip_grad_norm_(p, 1.0)\n"
    assert migrate_text(text, Settings()).changed
    assert not migrate_text(text, Settings(ignore=("AMP340",))).changed


@pytest.mark.torch
@pytest.mark.parametrize("native", NATIVES, ids=lambda native: f"{native.old}-{native.new}")
def test_torch_takes_what_is_written(native: TorchForm) -> None:
    new = locate(native.new)
    assert callable(new)
    parameters = list(inspect.signature(new).parameters)
    old = [word.partition("=")[0] for word in native.parameters.split() if word != "*"]
    newest = [said.keyword for said in native.says if said.before is None]
    assert {*native.goes.values(), *newest} <= set(parameters)
    assert {*native.goes, *native.requires} <= set(old)
    # The names of leading parameters matter where they are passed by keyword; the first never is.
    assert parameters[1 : native.leading] == old[1 : native.leading]


def test_parallel_class_where_torch_comes_by_a_star() -> None:
    before = "from apex.parallel import DistributedDataParallel as DDP\nfrom tools import *\n\nm = DDP(torch.f(m))\n"
    after = "from tools import *\n\n"
    plan = migrate_text(before, Settings())
    assert plan.after == f"{after}m = torch.{DDP}(torch.f(m), find_unused_parameters=True, broadcast_buffers=False)\n"


def test_what_is_imported_by_a_string_is_told() -> None:
    text = 'import importlib\n\namp = importlib.import_module("apex.amp")\nopt = importlib.import_module("apex.mlp")\n'
    plan = migrate_text(text, Settings())
    assert plan.after == text
    assert [(each.code, each.kind, each.line) for each in plan.findings] == [("AMP390", Kind.LEFT, 3)]


@pytest.mark.parametrize(
    ("by_name", "stays"),
    [
        ('global amp\n    amp = importlib.import_module("apex.amp")', True),
        ('amp = __import__("apex.amp")', True),
        ('apex = importlib.import_module("apex")\n    apex.amp.init()', True),
        ('importlib.import_module("apex")', False),
        ('mlp = importlib.import_module("apex.mlp")', False),
    ],
)
def test_what_a_program_that_imports_apex_by_a_string_uses_of_it_elsewhere_stays(
    tmp_path: Path, by_name: str, stays: bool
) -> None:
    parts = "import torch\nfrom apex import amp\n\ndef f(x):\n    with amp.disable_casts():\n        return x.exp()\n"
    idle = "import torch\nfrom apex import amp\n\ndef g(x):\n    return x.exp()\n"
    train = f"import importlib\nimport parts, idle\n\ndef main(x):\n    {by_name}\n    parts.f(idle.g(x))\n"
    for name, text in {"parts": parts, "idle": idle, "train": train, "apart": idle}.items():
        (tmp_path / f"{name}.py").write_text(text)
    result = migrate_paths([tmp_path], Settings())
    changed = {each.source.path.name for each in result.changed}
    assert changed >= ({"apart.py"} if stays else {"idle.py", "apart.py"})
    assert changed.isdisjoint({"idle.py", "parts.py"}) == stays
    plans = ((each.source.path.name, found) for each in result.plans for found in each.findings)
    told = [(name, found.code, found.line) for name, found in plans if "by a string" in found.message]
    assert told == ([("idle.py", "AMP290", 2), ("parts.py", "AMP290", 5)] if stays else [])


@pytest.mark.parametrize(
    ("layers", "is_told"),
    [
        ("from torch.utils.checkpoint import checkpoint_sequential\n", True),
        ("import torch.utils.checkpoint as ckpt\n", True),
        ("import torch.utils.checkpoint\n", True),
        ("from torch.utils.checkpoint import checkpoint as kept\n\ndef f(g, x):\n    return kept(g, x)\n", False),
        ("import torch.utils.checkpoint as ckpt\n\ndef f(g, x):\n    return ckpt.checkpoint(g, x)\n", False),
        ("from torch.utils.checkpoint import *\n\ndef f(g, x):\n    return checkpoint(g, x)\n", False),
        ("from torch.utils.checkpoint import checkpoint\n\n__all__ = ['checkpoint']\n", False),
        ("import torch.utils.checkpoint\n\ndef f(g, x):\n    return torch.utils.checkpoint.checkpoint(g, x)\n", False),
        ("import torch.utils.data\n\ndef f(path):\n    return torch.load(path + '/checkpoint')\n", True),
        (FORWARD + "\ndef penalty(m):\n    return m.kept.sum()\n\nprint(penalty(A()))\n", False),
        (FORWARD + "\ndef penalty(m):\n    return m.kept.sum()\n", True),
        (FORWARD + "\nclass B(M):\n    def forward(self, x):\n        return self.a.kept.sum()\n", False),
        (FORWARD + "\nclass B(M):\n    @property\n    def sum(self):\n        return self.a.kept.sum()\n", False),
        (FORWARD + "\ndef keep(m):\n    m.kept = None\n", True),
        (FORWARD.replace("self.f(x)", "x.size()") + "\ndef size(m):\n    return m.kept[0]\n", True),
    ],
)
def test_parameters_without_gradients_are_looked_for_unless_some_would_be_hidden(
    tmp_path: Path, layers: str, is_told: bool
) -> None:
    (tmp_path / "layers.py").write_text(layers)
    (tmp_path / "train.py").write_text(
        "from torch import nn\nfrom apex.parallel import DistributedDataParallel as D\nD(m)\n"
    )
    outcome = migrate_paths([tmp_path], Settings())
    (plan,) = outcome.changed
    assert ("find_unused_parameters=True" in plan.after) is is_told
    hints = [each.hint for each in outcome.findings if each.code == "AMP310"]
    assert ["drop find_unused_parameters" in each for each in hints] == [is_told]
    assert ["is not there" in each for each in hints] == [not is_told]


@pytest.mark.parametrize("otherwise", ["None", "nn.parallel.DistributedDataParallel"])
def test_class_that_is_none_without_apex_or_torchs_is_torchs(otherwise: str, rewrites: Check) -> None:
    rewrites(
        f"""
        - try:
        -     from apex import amp
        -     from apex.parallel import DistributedDataParallel as ApexDDP
        - except ImportError:
        -     ApexDDP = {otherwise}
        -
          def is_wrapped(model):
        -     return isinstance(model, (nn.DataParallel, ApexDDP))
        +     return isinstance(model, (nn.DataParallel, nn.parallel.DistributedDataParallel))

          MODEL
        ~ INITIALIZE
        ~ APEX_EPOCH
        """
    )


@pytest.mark.parametrize("other", ["    ApexDDP = Own", "    from own import ApexDDP", "    pass\nApexDDP = None"])
def test_class_that_may_be_another_one_stays(other: str, migrate: Check) -> None:
    brought = "try:\n    from apex.parallel import DistributedDataParallel as ApexDDP\nexcept ImportError:\n"
    plan = migrate(f"{brought}{other}\nprint(isinstance(model, ApexDDP))\n")
    assert "isinstance(model, ApexDDP)" in plan.after
