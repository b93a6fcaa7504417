"""Apex's evaluation and inference, and steps that are not where `initialize` is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from amp_migrate.engine.migrate import migrate as migrate_paths
from amp_migrate.settings import Settings

Check = Callable[..., Any]


def test_step_in_another_function_is_given_the_scaler(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
        - def train(model, optimizer, loader, args):
        + def train(model, optimizer, scaler, loader, args):
              for x, y in loader:
        -         loss = nn.functional.mse_loss(model(x), y)
        -         with amp.scale_loss(loss, optimizer) as scaled_loss:
        -             scaled_loss.backward()
        -         torch.nn.utils.clip_grad_norm_(amp.master_params(optimizer), 1.0)
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=args.opt_level != "O0"):
        +             loss = nn.functional.mse_loss(model(x), y)
        +         scaler.scale(loss).backward()
        +         scaler.unscale_(optimizer)
        +         torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        ~         optimizer.step()

          def main(args):
              MODEL
        -     model, optimizer = amp.initialize(model, optimizer, opt_level=args.opt_level)
        -     train(model, optimizer, loader, args)
        +     amp_enabled = args.opt_level != "O0"
        +     scaler = torch.amp.GradScaler("cuda", enabled=amp_enabled)
        +     train(model, optimizer, scaler, loader, args)
        """
    )


def test_module_of_another_library_with_the_name_of_a_method(rewrites_files: Check) -> None:
    rewrites_files(
        {
            "__init__.py": "  ",
            "other.py": "  import tensorflow as tf\n  saver = tf.train.Saver(tf.train)\n",
            "trainer.py": """
              import torch
              from torch import nn
            - from apex import amp

              class Trainer:
            -     def train(self, model, optimizer, loader):
            +     def train(self, model, optimizer, scaler, loader):
            ~         APEX_EPOCH

              MODEL
            - model, optimizer = amp.initialize(model, optimizer)
            - make().train(model, optimizer, loader)
            + scaler = torch.amp.GradScaler("cuda")
            + make().train(model, optimizer, scaler, loader)
            """,
        }
    )


def test_step_in_a_method_with_the_name_of_one_that_every_module_has(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          class Trainer:
        -     def train(self, model, optimizer, loader):
        +     def train(self, model, optimizer, scaler, loader):
                  model.train()
        ~         APEX_EPOCH

          def main(kind):
              MODEL
        ~     INITIALIZE
              trainer = TRAINERS[kind]()
        -     trainer.train(model, optimizer, loader)
        +     trainer.train(model, optimizer, scaler, loader)

          TRAINERS = {"plain": Trainer}
        """
    )


def test_master_parameters_of_an_optimizer_made_elsewhere(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
        - def train(model, optimizer, loader):
        + def train(model, optimizer, scaler, loader):
              for x in loader:
        ~         loss = model(x).mean()
        -         with amp.scale_loss(loss, optimizer) as scaled_loss:
        -             scaled_loss.backward()
        -         torch.nn.utils.clip_grad_norm_(amp.master_params(optimizer), 1.0)
        +         scaler.scale(loss).backward()
        +         scaler.unscale_(optimizer)
        +         torch.nn.utils.clip_grad_norm_((p for group in optimizer.param_groups for p in group["params"]), 1.0)
        ~         optimizer.step()

          def main():
              model = nn.Linear(2, 2)
              optimizer = build(model)
        -     model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
        -     train(model, optimizer, [])
        +     scaler = torch.amp.GradScaler("cuda")
        +     train(model, optimizer, scaler, [])
        """
    )


def test_evaluation_ran_in_mixed_precision_too(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          def evaluate(model, loader):
              model.eval()
              with torch.no_grad():
                  for x in loader:
        ~             out = model(x)

          def main():
              MODEL
        ~     INITIALIZE
        ~     APEX_EPOCH
              evaluate(model, loader)
        """
    )


def test_evaluation_with_the_switch_at_hand(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          def evaluate(model, loader, args):
              model.eval()
              with torch.no_grad():
                  for x in loader:
        -             out = model(x)
        +             with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=bool(args.fp16)):
        +                 out = model(x)

          def main(args):
              MODEL
        -     if args.fp16:
        -         model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
        +     scaler = torch.amp.GradScaler("cuda", enabled=bool(args.fp16))
              for x in loader:
        -         loss = model(x).mean()
        -         if args.fp16:
        -             with amp.scale_loss(loss, optimizer) as scaled_loss:
        -                 scaled_loss.backward()
        -         else:
        -             loss.backward()
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=bool(args.fp16)):
        +             loss = model(x).mean()
        +         scaler.scale(loss).backward()
        ~         optimizer.step()
              evaluate(model, loader, args)
        """
    )


def test_evaluation_with_a_copy_of_the_switch(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          import copy
          def evaluate(model, loader, args):
              if args.single:
                  args = copy.deepcopy(args)
              model.eval()
              with torch.no_grad():
                  for x in loader:
        -             out = model(x)
        +             with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=bool(args.fp16)):
        +                 out = model(x)

          def main(args):
              MODEL
        -     if args.fp16:
        -         model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
        +     scaler = torch.amp.GradScaler("cuda", enabled=bool(args.fp16))
              for x in loader:
        -         loss = model(x).mean()
        -         if args.fp16:
        -             with amp.scale_loss(loss, optimizer) as scaled_loss:
        -                 scaled_loss.backward()
        -         else:
        -             loss.backward()
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=bool(args.fp16)):
        +             loss = model(x).mean()
        +         scaler.scale(loss).backward()
        ~         optimizer.step()
              evaluate(model, loader, args)
        """
    )


def test_evaluation_without_the_switch_has_its_region_round_the_call(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          def evaluate(model, loader):
              with torch.no_grad():
                  for x, y in loader:
                      out = model(x)

          def main(args):
              model = nn.Linear(2, 2).cuda()
              optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        -     model, optimizer = amp.initialize(model, optimizer, opt_level=args.opt_level)
        +     amp_enabled = args.opt_level != "O0"
        +     scaler = torch.amp.GradScaler("cuda", enabled=amp_enabled)
              for x, y in loader:
        -         loss = nn.functional.mse_loss(model(x), y)
        -         with amp.scale_loss(loss, optimizer) as s:
        -             s.backward()
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=amp_enabled):
        +             loss = nn.functional.mse_loss(model(x), y)
        +         scaler.scale(loss).backward()
        ~         optimizer.step()
        -     evaluate(model, loader)
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=amp_enabled):
        +         evaluate(model, loader)
        """
    )


def test_inference_has_a_region_and_no_scaler(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          model = Net()
        - model = amp.initialize(model, opt_level="O1")
          model.eval()
          with torch.no_grad():
        ~     out = model(x)
        """
    )


def test_inference_whose_forward_is_out_of_sight_stays_mixed(rewrites: Check) -> None:
    rewrites(
        """
        - from apex import amp
        + from amp_shim import amp
          from engine import evaluate
          model = Net()
          model = amp.initialize(model, opt_level="O1")
          evaluate(model)
        """
    )


def test_a_file_that_changes_with_inference_says_so(tmp_path: Path) -> None:
    engine = "import torch\n\n\ndef predict(model, x):\n    with torch.no_grad():\n        return model(x)\n"
    (tmp_path / "engine.py").write_text(engine)
    (tmp_path / "main.py").write_text(
        "import torch\nfrom apex import amp\nfrom engine import predict\n"
        "model = torch.nn.Linear(3, 3).cuda().eval()\n"
        'model = amp.initialize(model, opt_level="O1")\npredict(model, torch.ones(2, 3).cuda())\n'
    )
    plan = migrate_paths([tmp_path], Settings()).plan_of(tmp_path / "engine.py")
    assert plan is not None
    said = "changes with inference in another file: what is computed here runs under autocast, too"
    assert [each.message for each in plan.findings] == [said]


def test_inference_beside_native_amp_stays_mixed(rewrites: Check) -> None:
    rewrites(
        """
        - from apex import amp
          def validate(model, loader, use_apex):
              autocast = nullcontext
        -     if use_apex:
        -         model = amp.initialize(model, opt_level="O1")
        -     else:
        -         autocast = partial(torch.amp.autocast, device_type="cuda", dtype=torch.float16)
        +     autocast = partial(torch.amp.autocast, device_type="cuda", dtype=torch.float16)
              with torch.no_grad(), autocast():
                  return model(x)
        """
    )


def test_step_in_another_file_is_given_the_scaler(rewrites_files: Check) -> None:
    rewrites_files(
        {
            "engine.py": """
                  import torch
                - from apex import amp

                - def train(model, optimizer, loader):
                + def train(model, optimizer, scaler, loader):
                      for x, y in loader:
                ~         loss = torch.nn.functional.mse_loss(model(x), y)
                ~         APEX_STEP
                """,
            "main.py": """
                  import torch
                - from apex import amp
                  from engine import train

                  model = torch.nn.Linear(2, 2)
                  optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                - model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
                - train(model, optimizer, loader)
                + scaler = torch.amp.GradScaler("cuda")
                + train(model, optimizer, scaler, loader)
                """,
        },
    )


_FIT = """
from apex import amp

def fit(model, optimizer, loader):
    for x in loader:
        optimizer.zero_grad()
        loss = model(x).mean()
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize("taken", ["from jobs import fit", "from jobs.fit import fit"])
def test_function_that_a_package_binds_by_the_name_of_its_module(taken: str, tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs/__init__.py").write_text("from .fit import fit\n")
    (tmp_path / "jobs/fit.py").write_text(_FIT)
    (tmp_path / "main.py").write_text(
        f"import torch\nfrom apex import amp\n{taken}\nmodel = torch.nn.Linear(2, 2).cuda()\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "model, optimizer = amp.initialize(model, optimizer)\nfit(model, optimizer, [])\n"
    )
    moved = {each.source.path.name: each.after for each in migrate_paths([tmp_path], Settings()).changed}
    assert "fit(model, optimizer, scaler, [])" in moved["main.py"]
    assert "scaler.scale(loss).backward()" in moved["fit.py"]


def test_step_in_another_file_in_bfloat16(rewrites_files: Check) -> None:
    rewrites_files(
        {
            "engine.py": """
                  import torch
                - from apex import amp

                  def train(model, optimizer, loader):
                      for x, y in loader:
                -         loss = torch.nn.functional.mse_loss(model(x), y)
                -         with amp.scale_loss(loss, optimizer) as scaled_loss:
                -             scaled_loss.backward()
                +         with torch.amp.autocast(device_type="cuda", dtype=torch.bfloat16):
                +             loss = torch.nn.functional.mse_loss(model(x), y)
                +         loss.backward()
                          optimizer.step()
                """,
            "main.py": """
                  import torch
                - from apex import amp
                  from engine import train

                  model = torch.nn.Linear(2, 2)
                  optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                - model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
                  train(model, optimizer, loader)
                """,
        },
        dtype="bf16",
    )


def test_two_scripts_in_one_folder_do_not_hold_each_other_up(rewrites_files: Check) -> None:
    rewrites_files(
        {
            "infer.py": """
                - from apex import amp
                + from amp_shim import amp
                  model, _ = amp.initialize(model, [], opt_level="O5")
                  """,
            "train.py": """
                  import torch
                - from apex import amp
                  model = torch.nn.Linear(2, 2)
                  optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                ~ INITIALIZE
                ~ APEX_EPOCH
                """,
        },
    )


def test_a_guard_of_the_script_is_no_switch(rewrites: Check) -> None:
    rewrites(
        """
        - from apex import amp
          if __name__ == "__main__":
              MODEL
        ~     INITIALIZE
              for x in loader:
        ~         loss = model(x).mean()
        -         with amp.scale_loss(loss, optimizer) as scaled:
        -             scaled.backward()
        +         scaler.scale(loss).backward()
        ~         optimizer.step()
                  optimizer.zero_grad()
        """
    )


def test_a_step_that_comes_by_a_star_import(rewrites_files: Check) -> None:
    rewrites_files(
        {
            "first.py": """
                  import torch

                - def train(model, optimizer, x):
                -     from apex import amp
                + def train(model, optimizer, scaler, x):
                ~     loss = model(x).mean()
                -     with amp.scale_loss(loss, optimizer) as scaled:
                -         scaled.backward()
                +     scaler.scale(loss).backward()
                ~     optimizer.step()

                  def main(model):
                      optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                -     from apex import amp
                -     model, optimizer = amp.initialize(model, optimizer)
                -     train(model, optimizer, torch.ones(2))
                +     scaler = torch.amp.GradScaler("cuda")
                +     train(model, optimizer, scaler, torch.ones(2))
                """,
            "second.py": """
                  import torch
                - from apex import amp
                  from first import *

                  def again(model):
                      optimizer = torch.optim.Adam(model.parameters())
                -     model, optimizer = amp.initialize(model, optimizer)
                -     train(model, optimizer, torch.ones(2))
                +     scaler = torch.amp.GradScaler("cuda")
                +     train(model, optimizer, scaler, torch.ones(2))
                """,
        }
    )


_NATIVE = """
      import torch
    - from apex import amp
      model = torch.nn.Linear(2, 2)
      optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    ~ INITIALIZE
    ~ APEX_EPOCH
    """


def test_float32_training_that_imports_apex_for_nothing_moves_beside_an_apex_script(rewrites_files: Check) -> None:
    rewrites_files(
        {
            "plain.py": """
                  import torch
                - from apex import amp
                  model = torch.nn.Linear(2, 2)
                ~ optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                ~ EPOCH
                """,
            "infer.py": """
                - from apex import amp
                + from amp_shim import amp
                  model, _ = amp.initialize(model, [], opt_level="O5")
                  """,
            "train.py": _NATIVE.replace("import torch\n", "import torch\n      import plain\n"),
        }
    )


def test_a_helper_that_no_program_loads_with_a_script_does_not_hold_it_up(rewrites_files: Check) -> None:
    rewrites_files(
        {
            "train.py": _NATIVE,
            "attacks/adversary.py": """
                - from apex import amp
                + from amp_shim import amp

                  def attack(loss, optimizer):
                      with amp.scale_loss(loss, optimizer) as scaled_loss:
                          scaled_loss.backward(retain_graph=True)
                """,
        }
    )


def test_a_script_that_goes_to_the_shim_with_its_helper_says_so(rewrites_files: Check) -> None:
    findings = rewrites_files(
        {
            "train.py": """
                  import torch
                - from apex import amp
                + from amp_shim import amp
                  from attacks.adversary import attack
                  model = torch.nn.Linear(2, 2)
                  optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                  INITIALIZE
                  APEX_EPOCH
                """,
            "attacks/adversary.py": """
                - from apex import amp
                + from amp_shim import amp

                  def attack(loss, optimizer):
                      with amp.scale_loss(loss, optimizer) as scaled_loss:
                          scaled_loss.backward(retain_graph=True)
                """,
        }
    )
    said = [each.message for each in findings if each.code == "AMP290" and each.path.endswith("train.py")]
    assert said == [
        "kept on amp_shim instead of native AMP: what is in attacks/adversary.py:4 is, and the script moves as a whole"
    ]


def test_what_a_script_imports_and_never_runs_does_not_decide_for_it(rewrites_files: Check) -> None:
    findings = rewrites_files(
        {
            "once.py": """
                  import torch
                - from apex import amp
                  from torch import nn
                  from src.factory import ENGINES

                  MODEL
                - model, optimizer = amp.initialize(model, optimizer)
                + scaler = torch.amp.GradScaler("cuda")
                ~ APEX_EPOCH
                """,
            "src/__init__.py": "  ",
            "src/factory.py": "  from src.engine import Engine\n\n  ENGINES = {'one': Engine}\n",
            "src/trainer.py": """
                - from apex import amp
                + from amp_shim import amp
                  from src.factory import ENGINES

                  class Trainer:
                      def __init__(self, name, model, optimizer):
                          self.engine = ENGINES[name](*amp.initialize(model, optimizer))
                """,
            "src/engine.py": """
                - from apex import amp
                + from amp_shim import amp

                  class Engine:
                      def __init__(self, model, optimizer):
                          self.model, self.optimizer = model, optimizer

                      def end(self, loss):
                          with amp.scale_loss(loss, self.optimizer) as scaled_loss:
                              scaled_loss.backward()
                          self.optimizer.step()
                """,
        }
    )
    assert {each.path.rpartition("/")[2] for each in findings if each.code == "AMP290"} == {"engine.py", "trainer.py"}


def test_what_is_wrong_in_a_file_that_a_script_loads_is_not_wrong_in_it(rewrites_files: Check) -> None:
    findings = rewrites_files(
        {
            "once.py": """
                  import torch
                - from apex import amp
                  from torch import nn
                  from src import factory

                  MODEL
                - model, optimizer = amp.initialize(model, optimizer)
                + scaler = torch.amp.GradScaler("cuda")
                ~ APEX_EPOCH
                """,
            "src/__init__.py": "  ",
            "src/factory.py": "  from src.engine import Mean\n\n  ENGINES = {'mean': Mean}\n",
            "src/engine.py": """
                - from apex import amp
                + from amp_shim import amp

                  class Engine:
                      def __init__(self, model, optimizer, data):
                          self.model, self.optimizer, self.data = model, optimizer, data

                      def end(self):
                          with amp.scale_loss(self.loss, self.optimizer) as scaled_loss:
                              scaled_loss.backward()
                          self.optimizer.step()

                      def train(self):
                          self.model, self.optimizer = amp.initialize(self.model, self.optimizer)
                          for x in self.data:
                              self.once(x)
                              self.end()

                  class Mean(Engine):
                      def once(self, x):
                          self.optimizer.zero_grad()
                          self.loss = self.model(x).mean()
                """,
        }
    )
    assert {each.path.rpartition("/")[2] for each in findings if each.code == "AMP290"} == {"engine.py"}


@pytest.mark.parametrize("given", ["args", "None"])
def test_evaluation_whose_caller_has_the_settings_by_another_name(migrate: Check, given: str) -> None:
    plan = migrate(
        f"""
        def predict(args, model, xs):
            with torch.no_grad():
                return [model(x) for x in xs]

        def infer(model, my_args, xs):
            def run():
                return predict(my_args, model, xs)
            return run()

        def train(args, model, loader):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            if args.fp16:
                from apex import amp
                model, optimizer = amp.initialize(model, optimizer, opt_level=args.level)
            for x in loader:
                loss = model(x).mean()
                if args.fp16:
                    with amp.scale_loss(loss, optimizer) as scaled_loss:
                        scaled_loss.backward()
                else:
                    loss.backward()
                optimizer.step()
            return predict(args, model, loader)

        def main(args, loader):
            model = nn.Linear(2, 2)
            train(args, model, loader)
            infer(model, {given}, loader)
        """
    )
    asks = 'enabled=bool(args.fp16) and args.level != "O0"'
    before, _, behind = plan.after.partition("def infer")
    assert (asks in before, asks in behind.partition("def main")[2]) == (given == "args", given == "None")
    assert all(each.code != "AMP211" for each in plan.findings)


SERVED = {
    "generate.py": """
          import torch

          def sample(model, context):
              with torch.no_grad():
                  for _ in range(5):
        -             context = model(context)
        +             with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +                 context = model(context)
              return context
        """,
    "serve.py": """
          import torch
        - from apex import amp
          from generate import sample

          model = torch.nn.Linear(8, 8).cuda().eval()
        - [model] = amp.initialize([model], opt_level="O1")
          print(sample(model, torch.randn(1, 8).cuda()))
        """,
}


def test_forward_in_a_file_without_apex_that_evaluates_for_this_script(rewrites_files: Check) -> None:
    rewrites_files(SERVED)


def test_forward_that_another_script_asks_for_too_has_its_region_round_the_call(tmp_path: Path) -> None:
    for name, text in SERVED.items():
        lines = [line[10:] for line in text.splitlines() if line[8:9] != "+"]
        (tmp_path / name).write_text("\n".join(lines))
    (tmp_path / "other.py").write_text("import torch\nfrom generate import sample\nsample(torch.nn.Linear(8, 8), x)\n")
    outcome = migrate_paths([tmp_path], Settings())
    (changed,) = outcome.changed
    assert changed.source.path.name == "serve.py"
    assert ":\n    print(sample(model, torch.randn(1, 8).cuda()))\n" in changed.after
    assert all(each.code != "AMP211" for each in outcome.findings)


HANDED = """
import argparse
import torch
from apex import amp
from monitor import Monitor
from validation import do_validation

def main(loader):
    args = argparse.ArgumentParser().parse_args()
    model = torch.nn.Linear(8, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    monitor = Monitor({handed}, loader)
    {initialize}
    for x in loader:
        optimizer.zero_grad()
        loss = model(x).mean()
        {scale}
        optimizer.step()
    monitor(model)
"""
ALWAYS = {
    "initialize": 'model, optimizer = amp.initialize(model, optimizer, opt_level="O1")',
    "scale": "with amp.scale_loss(loss, optimizer) as scaled_loss:\n            scaled_loss.backward()",
}
CHOSEN = {
    "initialize": "if args.fp16:\n        " + ALWAYS["initialize"],
    "scale": "if args.fp16:\n            with amp.scale_loss(loss, optimizer) as scaled_loss:\n"
    "                scaled_loss.backward()\n        else:\n            loss.backward()",
}
VALIDATION = """
import torch

@torch.no_grad()
def do_validation(model, loader):
    model.eval()
    return sum(model(x).mean().item() for x in loader)
"""
MONITOR = """
class Monitor:
    def __init__(self, function, loader):
        self.function, self.loader = function, loader

    def __call__(self, model):
        print(self.function(model, self.loader))
"""


@pytest.mark.parametrize(
    ("given", "handed", "validation", "others", "told"),
    [
        (CHOSEN, "do_validation", VALIDATION, "", ["validation.py"]),
        (ALWAYS, "do_validation", VALIDATION, "", []),
        (ALWAYS, "do_validation", VALIDATION, "do_validation(model, loader)", ["train.py"]),
        (CHOSEN, "print", VALIDATION, "", []),  # nobody calls it
        (CHOSEN, "do_validation", "def do_validation(model, loader):\n    return len(loader)\n", "", []),
    ],
)
def test_evaluation_that_is_handed_to_an_object_of_another_file(
    tmp_path: Path, given: dict[str, str], handed: str, validation: str, others: str, told: list[str]
) -> None:
    (tmp_path / "train.py").write_text(HANDED.format(handed=handed, **given))
    (tmp_path / "validation.py").write_text(validation)
    (tmp_path / "monitor.py").write_text(MONITOR)
    if others:
        (tmp_path / "other.py").write_text(f"from validation import do_validation\n{others}\n")
    outcome = migrate_paths([tmp_path], Settings())
    assert [Path(each.path).name for each in outcome.findings if each.code == "AMP211"] == told
    moved = {each.source.path.name: each.after for each in outcome.changed}
    assert "scaler.step(optimizer)" in moved["train.py"]
    assert ("autocast" in moved.get("validation.py", "")) is (given is ALWAYS and not told)


TRAINED = """
import torch
from apex import amp
{imports}

model = torch.nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
for x in loader:
    optimizer.zero_grad()
    loss = model(x).mean()
    with amp.scale_loss(loss, optimizer) as scaled_loss:
        scaled_loss.backward()
    optimizer.step()
{evaluates}
"""
EVALUATOR = """
import torch

class Evaluator:
    def __init__(self, loader):
        self.loader = loader

    @torch.no_grad()
    def evaluate(self, model, step):
        {around}:
            return [model(x).argmax(1) for x in self.loader]
"""
AUTOCAST = 'with torch.autocast("cuda")'


@pytest.mark.parametrize(
    ("around", "evaluates", "is_told"),
    [
        ("if True", "registry[name](loader).evaluate(model, 1)", True),
        (AUTOCAST, "registry[name](loader).evaluate(model, 1)", False),
        ("if True", "registry[name](loader).evaluate(loader, 1)", False),
    ],
)
def test_evaluation_of_another_file_that_stays_in_float32_is_told(
    tmp_path: Path, around: str, evaluates: str, is_told: bool
) -> None:
    (tmp_path / "train.py").write_text(TRAINED.format(imports="from evaluation import registry", evaluates=evaluates))
    (tmp_path / "evaluation.py").write_text(EVALUATOR.format(around=around))
    outcome = migrate_paths([tmp_path], Settings())
    assert any(each.code == "AMP201" for each in outcome.findings)
    assert any("evaluation stays in float32: evaluate() is" in each.message for each in outcome.findings) is is_told


def test_scripts_that_share_a_trainer_and_initialize_each_in_its_own_way(rewrites_files: Check) -> None:
    rewrites_files(
        {
            "trainers.py": """
                - from apex import amp
                + import torch
                  from torch import nn

                  class Trainer:
                      def __init__(self, model):
                          self.model = model

                -     def train(self, loader, optimizer, fp16=False):
                +     def train(self, loader, optimizer, scaler, fp16=False):
                          for x, y in loader:
                -             loss = nn.functional.mse_loss(self.model(x), y)
                +             with torch.amp.autocast(ON):
                +                 loss = nn.functional.mse_loss(self.model(x), y)
                              optimizer.zero_grad()
                -             if fp16:
                -                 with amp.scale_loss(loss, optimizer) as scaled_loss:
                -                     scaled_loss.backward()
                -             else:
                -                 loss.backward()
                -             optimizer.step()
                +             scaler.scale(loss).backward()
                +             scaler.step(optimizer)
                +             scaler.update()
                """.replace("ON)", 'device_type="cuda", dtype=torch.float16, enabled=scaler.is_enabled())'),
            "first.py": """
                  import torch
                - from apex import amp
                  from trainers import Trainer

                  def create(args):
                      model, optimizer = torch.nn.Linear(8, 2).cuda(), None
                      if args.fp16:
                          optimizer = torch.optim.Adam(model.parameters())
                -         model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
                      return model, optimizer

                  def main(args, loader):
                      model, optimizer = create(args)
                +     scaler = torch.amp.GradScaler("cuda", enabled=bool(args.fp16))
                      for _ in range(args.epochs):
                          if not args.fp16:
                              optimizer = torch.optim.Adam(model.parameters())
                -         Trainer(model).train(loader, optimizer, fp16=args.fp16)
                +         Trainer(model).train(loader, optimizer, scaler, fp16=args.fp16)
                """,
            "second.py": """
                  import torch
                - from apex import amp
                  from trainers import Trainer

                  def main(args, loader):
                      model = torch.nn.Linear(8, 2).cuda()
                      optimizer = torch.optim.Adam(model.parameters())
                -     if args.fp16:
                -         model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
                -     Trainer(model).train(loader, optimizer, fp16=args.fp16)
                +     scaler = torch.amp.GradScaler("cuda", enabled=bool(args.fp16))
                +     Trainer(model).train(loader, optimizer, scaler, fp16=args.fp16)
                """,
        }
    )


def test_a_script_that_takes_a_learning_rate_of_another_moves_without_it(rewrites_files: Check) -> None:
    rewrites_files(
        {
            "schedule.py": """
                  def warmup(step, options=None):
                      if options and options.start.go_back:
                          step = start = 0
                          return start
                      return min(step / 10, 1.0)

                  def go_back(loss, optimizer):
                -     from apex import amp
                +     from amp_shim import amp
                      with amp.scale_loss(loss, optimizer) as scaled_loss:
                          print(scaled_loss)

                  def start(model, optimizer):
                -     from apex import amp
                +     from amp_shim import amp
                      return amp.initialize(model, optimizer)
            """,
            "main.py": """
                  import torch
                  from torch import nn
                - from apex import amp
                  from schedule import warmup

                  MODEL
                ~ INITIALIZE
                ~ APEX_EPOCH
                  optimizer.param_groups[0]["lr"] = warmup(3)
            """,
        }
    )


@pytest.mark.parametrize("taken", ["from schedule import again", "import schedule", "from schedule import *"])
def test_a_script_that_may_take_a_step_of_another_goes_its_way(tmp_path: Path, taken: str) -> None:
    (tmp_path / "schedule.py").write_text(
        "from apex import amp\n\ndef go_back(loss, optimizer):\n"
        "    with amp.scale_loss(loss, optimizer) as scaled_loss:\n        print(scaled_loss)\n\n"
        "def start(model, optimizer):\n    return amp.initialize(model, optimizer)\n\n"
        "def again(*args):\n    return go_back(*args)\n"
    )
    (tmp_path / "main.py").write_text(
        f"import torch\nfrom torch import nn\nfrom apex import amp\n{taken}\n\nmodel = nn.Linear(2, 2)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\nmodel, optimizer = amp.initialize(model, optimizer)\n"
        "for x, y in loader:\n    loss = nn.functional.mse_loss(model(x), y)\n"
        "    with amp.scale_loss(loss, optimizer) as scaled_loss:\n        scaled_loss.backward()\n"
        "    optimizer.step()\n    optimizer.zero_grad()\n"
    )
    outcome = migrate_paths([tmp_path], Settings())
    assert {"kept on amp_shim" in each.message for each in outcome.findings if each.code == "AMP290"} == {True}
    assert all("from amp_shim import amp" in each.after for each in outcome.changed)


_OF_CLASS = """
import torch

class Evaluator:
    def __init__(self, trainer):
        self.trainer = trainer

    def NAME(self):
        model = self.trainer.model
        model.eval()
        with torch.no_grad():
            return sum(model(x).mean() for x in self.trainer.loader)
"""
_TRAINER = """
import torch
from apex import amp
from evaluation import MADE
from model import Net

class Trainer:
    def __init__(self, params, loader):
        self.loader = loader
        self.model = Net()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        if params.amp:
            self.model, self.optimizer = amp.initialize(self.model, self.optimizer)
        self.evaluator = MADE(self)

    def train(self):
        for x in self.loader:
            self.optimizer.zero_grad()
            with amp.scale_loss(self.model(x).mean(), self.optimizer) as scaled_loss:
                scaled_loss.backward()
            self.optimizer.step()
        with torch.no_grad():
            self.model.sample()
        CALL
"""
_NET = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(1, 1)

    def forward(self, x):
        return self.linear(x)

    def sample(self):
        return self(torch.zeros(1))
"""


@pytest.mark.parametrize(
    ("made", "call", "regions"),
    [
        ("Evaluator", "self.evaluator.run()", 3),
        ("Evaluator", "self.evaluator.evaluate()", 3),
        ("Evaluator", "print(lambda: self.evaluator.evaluate())", 3),
        ("make_evaluator", "self.evaluator.evaluate()", 2),
        ("Evaluator", "self.evaluator.start", 2),
        ("make_evaluator", "self.evaluator.run()", 2),
    ],
)
def test_evaluation_by_an_object_of_another_file_has_its_region_round_the_call(
    tmp_path: Path, made: str, call: str, regions: int
) -> None:
    name = call.split(".")[-1].strip("()")
    (tmp_path / "evaluation.py").write_text(_OF_CLASS.replace("NAME", name))
    (tmp_path / "model.py").write_text(_NET)
    (tmp_path / "train.py").write_text(_TRAINER.replace("MADE", made).replace("CALL", call))
    outcome = migrate_paths([tmp_path], Settings())
    assert any(each.code == "AMP201" for each in outcome.findings)
    assert all(each.code != "AMP211" for each in outcome.findings)
    assert sum(each.after.count("autocast") for each in outcome.changed) == regions


def test_scripts_share_an_optimizer_of_their_own_through_a_file_without_apex(rewrites_files: Check) -> None:
    script = """
      import torch
    - from apex import amp
      from package.loop import fit

      def main(args, model, loader):
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    -     if args.fp16:
    -         model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
    -     fit(model, optimizer, loader, args.fp16)
    +     scaler = torch.amp.GradScaler("cuda", enabled=bool(args.fp16))
    +     fit(model, optimizer, scaler, loader, args.fp16)
    """
    rewrites_files(
        {
            "package/__init__.py": "  ",
            "package/wrapper.py": """
            - from apex import amp
            -
            -
              class Wrapper:
                  def __init__(self, optimizer, enabled):
                      self.optimizer = optimizer
                      self.enabled = enabled

            -     def backward(self, loss):
            -         if self.enabled:
            -             with amp.scale_loss(loss, self.optimizer) as scaled_loss:
            -                 scaled_loss.backward()
            -         else:
            -             loss.backward()
            +     def backward(self, loss, scaler):
            +         scaler.scale(loss).backward()

            -     def step(self):
            -         self.optimizer.step()
            +     def step(self, scaler):
            +         scaler.step(self.optimizer)
                      self.optimizer.zero_grad()
            """,
            "package/loop.py": """
              from package.wrapper import Wrapper
            + import torch


            - def fit(model, optimizer, loader, enabled):
            + def fit(model, optimizer, scaler, loader, enabled):
                  optimizer = Wrapper(optimizer, enabled)
                  for x, y in loader:
            -         loss = (model(x) - y).square().mean()
            -         optimizer.backward(loss)
            -         optimizer.step()
            +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=scaler.is_enabled()):
            +             loss = (model(x) - y).square().mean()
            +         optimizer.backward(loss, scaler)
            +         optimizer.step(scaler)
            +         scaler.update()
            """,
            "tools/first.py": script,
            "tools/second.py": script,
        }
    )


SWITCHED = {
    "trainer.py": """
from apex import amp
import torch

class Trainer:
    def __init__(self, model, params):
        self.model, self.params = model, params
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        if params.fp16:
            self.model, self.optimizer = amp.initialize(self.model, self.optimizer, opt_level="O1")

    def step(self, x):
        self.optimizer.zero_grad()
        loss = self.model(x).square().mean()
        if self.params.fp16:
            with amp.scale_loss(loss, self.optimizer) as scaled_loss:
                scaled_loss.backward()
        else:
            loss.backward()
        self.optimizer.step()
""",
    "evaluator.py": """
import torch

class Evaluator:
    def __init__(self, trainer, params):
        self.model, self.params = trainer.model, params

    def run(self, x):
        self.model.eval()
        with torch.no_grad():
            h = self.model(x)
            h = h.half() if self.params.fp16 else h
            return self.model(h).mean().item()
""",
    "checks.py": VALIDATION,
}
STARTING = """
import argparse
import torch
from checks import do_validation
from evaluator import Evaluator
from trainer import Trainer

@torch.no_grad()
def own(model, loader):
    return sum(model(x).mean().item() for x in loader)

params = argparse.ArgumentParser().parse_args()
{before}
trainer = Trainer(torch.nn.Linear(8, 8).cuda(), params)
for x in torch.load("data.pt"):
    trainer.step(x.cuda())
print({after})
"""


@pytest.mark.parametrize(
    ("before", "after", "evaluator", "told"),
    [
        ("", "Evaluator(trainer, params).run(x)", True, []),
        ("", "do_validation(trainer.model, [x])", False, []),
        ("", "own(trainer.model, [x])", False, []),
        ("", "map(do_validation, [trainer.model], [[x]])", False, ["checks.py"]),
        ("", "len(x)", False, []),
        ("own(torch.nn.Linear(8, 8), [])", "len(x)", False, []),
    ],
)
def test_evaluation_that_the_program_calls_behind_a_trainer_that_initializes(
    tmp_path: Path, before: str, after: str, evaluator: bool, told: list[str]
) -> None:
    for name, text in SWITCHED.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "main.py").write_text(STARTING.format(before=before, after=after))
    outcome = migrate_paths([tmp_path], Settings())
    assert [Path(each.path).name for each in outcome.findings if each.code == "AMP211"] == told
    moved = {each.source.path.name: each.after for each in outcome.changed}
    assert "self.scaler.step(self.optimizer)" in moved["trainer.py"]
    region = 'with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=bool(self.params.fp16)):'
    assert (region in moved.get("evaluator.py", "")) is evaluator


def test_evaluation_by_a_method_that_a_derived_class_has_is_told(tmp_path: Path) -> None:
    derived = SWITCHED["evaluator.py"].replace(
        "    def run", "    def run_all(self, x):\n        self.run(x)\n        self.evaluate_all(x)\n\n    def run"
    )
    derived += "\nclass Both(Evaluator):\n    def evaluate_all(self, x):\n        return self.model(self.model(x))\n"
    for name, text in (SWITCHED | {"evaluator.py": derived}).items():
        (tmp_path / name).write_text(text)
    script = STARTING.format(before="", after="Both(trainer, params).run_all(x)")
    (tmp_path / "main.py").write_text(script.replace("import Evaluator", "import Both"))
    outcome = migrate_paths([tmp_path], Settings())
    assert [Path(each.path).name for each in outcome.findings if each.code == "AMP211"] == ["evaluator.py"], [
        each.message for each in outcome.findings
    ]
