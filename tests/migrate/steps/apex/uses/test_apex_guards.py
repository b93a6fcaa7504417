"""The guards round Apex: imports that may fail go, and branches that do the same with Apex and without become one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from amp_migrate.engine.migrate import migrate as migrate_paths
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.settings import Settings

Check = Callable[..., Any]


def test_import_that_must_succeed(rewrites: Check) -> None:
    rewrites(
        """
        - try:
        -     from apex import amp
        - except ImportError:
        -     raise ImportError("Please install apex")
        -
          MODEL
        ~ INITIALIZE
        ~ APEX_EPOCH
        """
    )


def test_import_that_complains(rewrites: Check) -> None:
    rewrites(
        """
        - try:
        -     from apex import amp
        - except ImportError:
        -     print("Please install apex")
        -
          MODEL
        ~ INITIALIZE
        ~ APEX_EPOCH
        """
    )


def test_import_that_may_give_none(rewrites: Check) -> None:
    rewrites(
        """
        - try:
        -     from apex import amp
        - except ImportError:
        -     amp = None
        -
          MODEL
        ~ INITIALIZE
        ~ APEX_EPOCH
        """
    )


def test_module_and_its_attribute(rewrites: Check) -> None:
    rewrites(
        """
        - import apex
        -
          MODEL
        - model, optimizer = apex.amp.initialize(model, optimizer, opt_level="O1")
        + scaler = torch.amp.GradScaler("cuda")
          for x, y in loader:
        ~     loss = nn.functional.mse_loss(model(x), y)
        -     with apex.amp.scale_loss(loss, optimizer) as scaled_loss:
        -         scaled_loss.backward()
        +     scaler.scale(loss).backward()
        ~     optimizer.step()
              optimizer.zero_grad()
        """
    )


def test_module_under_another_name(rewrites: Check) -> None:
    rewrites(
        """
        - import apex.amp as apex_amp
        -
          MODEL
        - model, optimizer = apex_amp.initialize(model, optimizer, opt_level="O1")
        + scaler = torch.amp.GradScaler("cuda")
          for x, y in loader:
        ~     loss = nn.functional.mse_loss(model(x), y)
        -     with apex_amp.scale_loss(loss, optimizer) as scaled_loss:
        -         scaled_loss.backward()
        +     scaler.scale(loss).backward()
        ~     optimizer.step()
              optimizer.zero_grad()
        """
    )


def test_flag_with_import_inside(rewrites: Check) -> None:
    rewrites(
        """
          def main(args):
              model = Net()
              optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        -     if args.fp16:
        -         try:
        -             from apex import amp
        -         except ImportError:
        -             raise ImportError("Please install apex")
        -         model, optimizer = amp.initialize(model, optimizer, opt_level=args.fp16_opt_level)
        +     amp_enabled = bool(args.fp16) and args.fp16_opt_level != "O0"
        +     scaler = torch.amp.GradScaler("cuda", enabled=amp_enabled)
              for step, batch in enumerate(loader):
        -         loss = model(**batch)[0] / args.accumulation
        -         if args.fp16:
        -             with amp.scale_loss(loss, optimizer) as scaled_loss:
        -                 scaled_loss.backward()
        -         else:
        -             loss.backward()
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=amp_enabled):
        +             loss = model(**batch)[0] / args.accumulation
        +         scaler.scale(loss).backward()
                  if (step + 1) % args.accumulation == 0:
        -             if args.fp16:
        -                 torch.nn.utils.clip_grad_norm_(amp.master_params(optimizer), args.max_grad_norm)
        -             else:
        -                 torch.nn.utils.clip_grad_norm_(model.parameters(), args.max_grad_norm)
        +             scaler.unscale_(optimizer)
        +             torch.nn.utils.clip_grad_norm_(model.parameters(), args.max_grad_norm)
        ~             optimizer.step()
                      scheduler.step()
                      model.zero_grad()
        """
    )


def test_flag_with_import_inside_in_bfloat16(rewrites: Check) -> None:
    rewrites(
        """
          def main(args):
              model = Net()
              optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        -     if args.fp16:
        -         try:
        -             from apex import amp
        -         except ImportError:
        -             raise ImportError("Please install apex")
        -         model, optimizer = amp.initialize(model, optimizer, opt_level=args.fp16_opt_level)
        +     amp_enabled = bool(args.fp16) and args.fp16_opt_level != "O0"
              for step, batch in enumerate(loader):
        -         loss = model(**batch)[0] / args.accumulation
        -         if args.fp16:
        -             with amp.scale_loss(loss, optimizer) as scaled_loss:
        -                 scaled_loss.backward()
        -         else:
        -             loss.backward()
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.bfloat16, enabled=amp_enabled):
        +             loss = model(**batch)[0] / args.accumulation
        +         loss.backward()
                  if (step + 1) % args.accumulation == 0:
        -             if args.fp16:
        -                 torch.nn.utils.clip_grad_norm_(amp.master_params(optimizer), args.max_grad_norm)
        -             else:
        -                 torch.nn.utils.clip_grad_norm_(model.parameters(), args.max_grad_norm)
        +             torch.nn.utils.clip_grad_norm_(model.parameters(), args.max_grad_norm)
                      optimizer.step()
                      scheduler.step()
                      model.zero_grad()
        """,
        dtype="bf16",
    )


def test_flag_at_module_level(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          MODEL
        - if use_fp16:
        -     model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
        + scaler = torch.amp.GradScaler("cuda", enabled=bool(use_fp16))
          for x, y in loader:
        -     loss = nn.functional.mse_loss(model(x), y)
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=bool(use_fp16)):
        +         loss = nn.functional.mse_loss(model(x), y)
              optimizer.zero_grad()
        -     if use_fp16:
        -         with amp.scale_loss(loss, optimizer) as scaled_loss:
        -             scaled_loss.backward()
        -     else:
        -         loss.backward()
        +     scaler.scale(loss).backward()
        ~     optimizer.step()
        """
    )


def test_flag_declared_as_a_bool_is_passed_as_it_is(rewrites: Check) -> None:
    rewrites(
        """
          import argparse
        - from apex import amp

          parser = argparse.ArgumentParser()
          parser.add_argument("--fp16", action="store_true")
          args = parser.parse_args()
          MODEL
        - if args.fp16:
        -     model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
        + scaler = torch.amp.GradScaler("cuda", enabled=args.fp16)
          for x in loader:
        -     loss = model(x).mean()
        -     if args.fp16:
        -         with amp.scale_loss(loss, optimizer) as scaled_loss:
        -             scaled_loss.backward()
        -     else:
        -         loss.backward()
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=args.fp16):
        +         loss = model(x).mean()
        +     scaler.scale(loss).backward()
        ~     optimizer.step()
        """
    )


def test_plain_branch_first(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          MODEL
        - if args.fp16:
        -     model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
        + scaler = torch.amp.GradScaler("cuda", enabled=bool(args.fp16))
          for x, y in loader:
        -     loss = nn.functional.mse_loss(model(x), y)
        -     if not args.fp16:
        -         loss.backward()
        -     else:
        -         with amp.scale_loss(loss, optimizer) as scaled_loss:
        -             scaled_loss.backward()
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=bool(args.fp16)):
        +         loss = nn.functional.mse_loss(model(x), y)
        +     scaler.scale(loss).backward()
        ~     optimizer.step()
        """
    )


def test_branches_that_differ_in_more_than_apex_both_stay(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          MODEL
        - if args.fp16:
        -     model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
        + scaler = torch.amp.GradScaler("cuda", enabled=bool(args.fp16))
          for x, y in loader:
        -     loss = nn.functional.mse_loss(model(x), y)
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=bool(args.fp16)):
        +         loss = nn.functional.mse_loss(model(x), y)
              if args.fp16:
        ~         SCALE_LOSS
                  count += 1
              else:
        ~         loss.backward()
        ~     optimizer.step()
        """
    )


def test_rest_of_the_guarded_block_stays(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          MODEL
        + scaler = torch.amp.GradScaler("cuda", enabled=bool(args.fp16))
          if args.fp16:
        -     model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
              print("mixed precision")
          for x in loader:
        -     loss = model(x).mean()
        -     if args.fp16:
        -         with amp.scale_loss(loss, optimizer) as scaled_loss:
        -             scaled_loss.backward()
        -     else:
        -         loss.backward()
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=bool(args.fp16)):
        +         loss = model(x).mean()
        +     scaler.scale(loss).backward()
        ~     optimizer.step()
        """
    )


def test_assertion_that_apex_is_there_goes_with_it(rewrites: Check) -> None:
    rewrites(
        """
        - try:
        -     from apex import amp
        - except ImportError:
        -     amp = None
        -
          def main(config, loader):
              MODEL
        -     if config.LEVEL != "O0":
        -         model, optimizer = amp.initialize(model, optimizer, opt_level=config.LEVEL)
        +     amp_enabled = config.LEVEL != "O0"
        +     scaler = torch.amp.GradScaler("cuda", enabled=amp_enabled)
              for x, y in loader:
        -         loss = nn.functional.mse_loss(model(x), y)
        -         if config.LEVEL != "O0":
        -             with amp.scale_loss(loss, optimizer) as scaled_loss:
        -                 scaled_loss.backward()
        -         else:
        -             loss.backward()
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=amp_enabled):
        +             loss = nn.functional.mse_loss(model(x), y)
        +         scaler.scale(loss).backward()
        ~         optimizer.step()

          if __name__ == "__main__":
        -     if config.LEVEL != "O0":
        -         assert amp is not None, "amp not installed!"
        -     if amp is None:
        -         raise RuntimeError("no apex")
              main(config, loader)
        """
    )


def test_what_only_runs_without_apex_goes(rewrites: Check) -> None:
    rewrites(
        """
        - try:
        -     from apex import amp
        - except ImportError:
        -     amp = None
        -
          MODEL
        - if amp is None:
        -     batches = batches.double()
        - model, optimizer = amp.initialize(model, optimizer)
        + scaler = torch.amp.GradScaler("cuda")
        ~ loss = model(x).mean()
        ~ APEX_STEP
        """
    )


def test_import_that_nothing_uses_does_not_hold_back_float32_training(rewrites: Check) -> None:
    rewrites(
        """
          try:
        -     from apex import amp
        -     from apex.parallel import convert_syncbn_model
        +     from amp_shim.parallel import convert_syncbn_model
              has_apex = True
          except ImportError:
              has_apex = False

          model = nn.Linear(2, 2)
          if has_apex:
              model = convert(convert_syncbn_model)(model)
        ~ optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        ~ EPOCH
          with torch.no_grad():
        ~     output = model(y)
        """
    )


def test_import_that_nothing_uses_goes_from_evaluation_without_a_region(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          model = nn.Linear(2, 2)
          with torch.no_grad():
              output = model(y)
        """
    )


GLOBAL_FLAG = """
from apex import amp

def main():
    global args
    args = parser.parse_args()
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if args.fp16:
        model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
    train(model, optimizer, loader)

def train(model, optimizer, loader):
    for x in loader:
        loss = model(x).mean()
        if args.fp16:
            with amp.scale_loss(loss, optimizer) as scaled_loss:
                scaled_loss.backward()
        else:
            loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize("dtype", ["fp16", "bf16", "auto"])
def test_flag_that_is_global_is_asked_wherever_it_is_needed(migrate: Check, dtype: str) -> None:
    after = migrate(GLOBAL_FLAG, dtype).after
    assert "enabled=bool(args.fp16)):\n            loss = model(x).mean()" in after


def test_scaler_is_not_asked_for_mixed_precision_where_the_gpu_decides_about_the_dtype(migrate: Check) -> None:
    # On a GPU with bfloat16 the scaler is off, and the region must not be.
    hidden = GLOBAL_FLAG.replace("    global args\n", "").replace(
        "        if args.fp16:\n            with", "        if True:\n            with"
    )
    after = migrate(hidden, "auto").after
    assert "is_enabled" not in after


ASKED = """
import importlib.util
{head}
model = nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
enabled = {question}
if enabled:
    from apex import amp
    model, optimizer = amp.initialize(model, optimizer, opt_level="{level}")
for x in loader:
    loss = model(x).mean()
    if enabled:
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
    else:
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ('args.amp and importlib.util.find_spec("apex") is not None', "args.amp"),
        ('importlib.util.find_spec("apex") is not None and args.amp', "args.amp"),
        ('importlib.util.find_spec("apex.amp") is not None', "True"),
        ('bool(importlib.util.find_spec("apex"))', "bool(True)"),
        ('not importlib.util.find_spec("apex") is None', "not False"),
    ],
)
def test_question_whether_apex_is_there_does_not_switch_native_amp_off(
    migrate: Check, question: str, answer: str
) -> None:
    plan = migrate(ASKED.format(head="", question=question, level="O1"))
    assert f"enabled = {answer}\n" in plan.after
    assert "apex" not in plan.after


def test_question_whether_apex_is_there_asks_for_the_shim_where_that_trains(migrate: Check) -> None:
    plan = migrate(ASKED.format(head="", question='importlib.util.find_spec("apex") is not None', level="O5"))
    assert 'enabled = importlib.util.find_spec("amp_shim") is not None\n' in plan.after


IMPORTED = "try:\n    import apex\nexcept ImportError:\n    print('no apex')\nimport sys"


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ('args.amp and "apex" in sys.modules', "args.amp"),
        ('args.amp and "apex" not in sys.modules', "args.amp and False"),
    ],
)
def test_what_was_imported_before_does_not_switch_native_amp_off(migrate: Check, question: str, answer: str) -> None:
    plan = migrate(ASKED.format(head=IMPORTED, question=question, level="O1"))
    assert f"enabled = {answer}\n" in plan.after
    assert "apex" not in plan.after


@pytest.mark.parametrize("question", ['"apex" not in sys.modules', 'importlib.util.find_spec("apex") is None'])
def test_what_insists_on_apex_goes_with_it(migrate: Check, question: str) -> None:
    head = f"{IMPORTED}\nif args.amp and {question}:\n    raise RuntimeError('no apex')"
    plan = migrate(ASKED.format(head=head, question="args.amp", level="O1"))
    assert "raise" not in plan.after
    assert "apex" not in plan.after


def test_whoever_asks_what_was_imported_asks_for_the_shim_where_that_trains(migrate: Check) -> None:
    plan = migrate(ASKED.format(head=IMPORTED, question="'apex' in sys.modules", level="O5"))
    assert "enabled = 'amp_shim' in sys.modules\n" in plan.after


def test_whether_something_was_imported_that_the_file_does_not_import_first_is_told(migrate: Check) -> None:
    plan = migrate(ASKED.format(head="import sys", question="'apex' in sys.modules", level="O1"))
    assert "enabled = 'apex' in sys.modules\n" in plan.after
    assert any("this asks whether Apex is there" in finding.message for finding in plan.findings)


def test_question_about_more_than_mixed_precision_is_told(migrate: Check) -> None:
    head = "from apex.optimizers import FusedLAMB\noptimizers = [FusedLAMB]"
    question = 'importlib.util.find_spec("apex") is not None'
    plan = migrate(ASKED.format(head=head, question=question, level="O1"))
    assert f"enabled = {question}\n" in plan.after
    assert any("this asks whether Apex is there" in finding.message for finding in plan.findings)


FLAGS = """
def has_apex():
    try:
        from apex import amp
        {found}
    except ImportError:
        {missing}
{end}"""


@pytest.mark.parametrize(
    ("found", "missing", "end"),
    [("return True", "return False", ""), ("flag = True", "flag = False", "    return flag\n")],
)
@pytest.mark.parametrize("level", ["O1", "O5"])
def test_flag_of_another_file_goes_the_way_of_the_steps(
    tmp_path: Path, found: str, missing: str, end: str, level: str
) -> None:
    (tmp_path / "flags.py").write_text(FLAGS.format(found=found, missing=missing, end=end))
    (tmp_path / "train.py").write_text(
        "import torch\nfrom torch import nn\n"
        + ASKED.format(head="from flags import has_apex", question="has_apex()", level=level)
    )
    plans = {plan.source.path.name: plan.after for plan in migrate_paths([tmp_path], Settings()).changed}
    if level == "O1":
        assert "apex" not in plans["flags.py"].replace("has_apex", "")
        assert "except" not in plans["flags.py"]
    else:
        assert "from amp_shim import amp" in plans["flags.py"]


def test_flag_that_asks_whether_apex_is_there(rewrites: Check) -> None:
    rewrites(
        """
        - try:
        -     from apex import amp
        - except ImportError:
        -     amp = None
        -
          MODEL
        - use_amp = amp is not None and args.fp16
        - if amp is None:
        -     print("float32")
        - if use_amp:
        -     model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
        + use_amp = args.fp16
        + scaler = torch.amp.GradScaler("cuda", enabled=bool(use_amp))
          for x, y in loader:
        -     loss = nn.functional.mse_loss(model(x), y)
        -     if use_amp:
        -         with amp.scale_loss(loss, optimizer) as scaled_loss:
        -             scaled_loss.backward()
        -     else:
        -         loss.backward()
        -     optimizer.step()
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=bool(use_amp)):
        +         loss = nn.functional.mse_loss(model(x), y)
        +     scaler.scale(loss).backward()
        +     scaler.step(optimizer)
        +     scaler.update()
        """
    )


def test_name_that_the_script_itself_makes_none_asks_for_its_switch(rewrites: Check) -> None:
    rewrites(
        """
        - if args.fp16:
        -     from apex import amp
        - else:
        -     amp = None
          MODEL
        - if amp:
        -     INITIALIZE
        + scaler = torch.amp.GradScaler("cuda", enabled=bool(args.fp16))
          for x, y in loader:
        -     loss = nn.functional.mse_loss(model(x), y)
        -     if amp:
        -         with amp.scale_loss(loss, optimizer) as scaled_loss:
        -             scaled_loss.backward()
        -     else:
        -         loss.backward()
        -     optimizer.step()
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=bool(args.fp16)):
        +         loss = nn.functional.mse_loss(model(x), y)
        +     scaler.scale(loss).backward()
        +     scaler.step(optimizer)
        +     scaler.update()
        """
    )


def test_flag_of_an_object_that_asks_whether_apex_is_there(rewrites: Check) -> None:
    rewrites(
        """
        - try:
        -     from apex import amp
        - except ImportError:
        -     amp = None
        - USE_AMP = amp is not None
        + USE_AMP = True

          class Trainer:
              def __init__(self, args, model):
                  self.model = model
                  self.optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
                  self.fp16 = args.fp16 and USE_AMP
        -         if self.fp16:
        -             self.model, self.optimizer = amp.initialize(self.model, self.optimizer)
        +         self.scaler = torch.amp.GradScaler("cuda", enabled=bool(self.fp16))
              def step(self, x, y):
                  self.optimizer.zero_grad()
        -         loss = nn.functional.mse_loss(self.model(x), y)
        -         if self.fp16:
        -             with amp.scale_loss(loss, self.optimizer) as scaled_loss:
        -                 scaled_loss.backward()
        -         else:
        -             loss.backward()
        -         self.optimizer.step()
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=bool(self.fp16)):
        +             loss = nn.functional.mse_loss(self.model(x), y)
        +         self.scaler.scale(loss).backward()
        +         self.scaler.step(self.optimizer)
        +         self.scaler.update()
        """
    )


def test_questions_for_a_function_that_apex_has(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          MODEL
        - if hasattr(amp, "register_half_function"):
        -     amp.register_half_function(torch, "einsum")
        ~ INITIALIZE
          for x, y in loader:
        ~     loss = nn.functional.mse_loss(model(x), y)
        -     if hasattr(amp, "scale_loss"):
        -         with amp.scale_loss(loss, optimizer) as scaled_loss:
        -             scaled_loss.backward()
        -     else:
        -         loss.backward()
        +     scaler.scale(loss).backward()
        ~     optimizer.step()
              optimizer.zero_grad()
        """
    )


@pytest.mark.parametrize("asked", ["hasattr(amp, 'fast_mode')", "hasattr(amp, name)", "getattr(amp, 'init')"])
def test_questions_for_what_nobody_knows_keep_the_shim(migrate: Check, asked: str) -> None:
    plan = migrate(
        f"""
        from apex import amp
        MODEL
        model, optimizer = amp.initialize(model, optimizer)
        print({asked})
        APEX_EPOCH
        """
    )
    assert "from amp_shim import amp\n" in plan.after
    assert any("amp itself is used as a value" in each.message for each in plan.findings)


@pytest.mark.parametrize("value", ["partial(amp.scale_loss, optimizers=optimizer)", "scales[amp.scale_loss]"])
def test_functions_of_apex_that_are_values_keep_the_shim(migrate: Check, value: str) -> None:
    plan = migrate(
        f"""
        from functools import partial
        from apex import amp
        MODEL
        model, optimizer = amp.initialize(model, optimizer)
        scale_loss = {value}
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            with scale_loss(loss) as scaled_loss:
                scaled_loss.backward()
            optimizer.step()
        """
    )
    assert "from amp_shim import amp\n" in plan.after
    assert any("amp.scale_loss itself is used as a value" in each.message for each in plan.findings)


@pytest.mark.parametrize("module", ["transformers.file_utils", ".file_utils"])
@pytest.mark.parametrize("test", ["not is_apex_available()", "args.fp16 and not is_apex_available()"])
def test_what_complains_where_a_library_sees_no_apex_goes_with_it(rewrites: Check, module: str, test: str) -> None:
    rewrites(
        f"""
          from {module} import is_apex_available
        -
        - if is_apex_available():
        -     from apex import amp

          MODEL
        - if {test}:
        -     raise ImportError("Please install apex")
        ~ INITIALIZE
        ~ APEX_EPOCH
        """
    )


@pytest.mark.parametrize("module", ["transformers.file_utils", ".file_utils"])
def test_what_asks_a_library_for_apex_asks_for_the_shim_of_a_script_that_stays_on_it(
    rewrites_files: Check, module: str
) -> None:
    rewrites_files(
        {
            "train.py": f"""
        + import importlib.util
          import torch
          from torch import nn
          from {module} import is_apex_available

        - if is_apex_available():
        -     from apex import amp
        + if importlib.util.find_spec("amp_shim") is not None:
        +     from amp_shim import amp

          MODEL
        - if args.fp16 and not is_apex_available():
        -     raise ImportError("Please install apex to use fp16 training.")
        + if args.fp16 and not (importlib.util.find_spec("amp_shim") is not None):
        +     raise ImportError("Please install amp-migrate[shim] to use fp16 training.")
          model, optimizer = amp.initialize(model, optimizer, cast_model_outputs=torch.float32)
          for x, y in loader:
              loss = nn.functional.mse_loss(model(x), y)
              with amp.scale_loss(loss, optimizer) as scaled_loss:
                  scaled_loss.backward()
              optimizer.step()
        """
        }
    )


def test_what_a_file_of_the_project_answers_is_asked_there(rewrites_files: Check) -> None:
    rewrites_files(
        {
            "file_utils.py": """
                  try:
                -     from apex import amp
                +     from amp_shim import amp
                      _has_apex = True
                  except ImportError:
                      _has_apex = False

                  def is_apex_available():
                      return _has_apex
            """,
            "train.py": """
                  import torch
                  from torch import nn
                  from file_utils import is_apex_available

                  if is_apex_available():
                -     from apex import amp
                +     from amp_shim import amp

                  MODEL
                  model, optimizer = amp.initialize(model, optimizer, cast_model_outputs=torch.float32)
                  for x, y in loader:
                      loss = nn.functional.mse_loss(model(x), y)
                      with amp.scale_loss(loss, optimizer) as scaled_loss:
                          scaled_loss.backward()
                      optimizer.step()
            """,
        }
    )


def test_import_that_is_put_among_the_globals(rewrites: Check) -> None:
    rewrites(
        """
        - def train(model, optimizer, loader):
        + def train(model, optimizer, scaler, loader):
        ~     APEX_EPOCH
          def main(loader):
        -     from apex import amp
        -     globals()["amp"] = amp
              MODEL
        ~     INITIALIZE
        -     train(model, optimizer, loader)
        +     train(model, optimizer, scaler, loader)
        """
    )


@pytest.mark.parametrize("kept", ['globals()["handle"] = amp', 'options["amp"] = amp'])
def test_import_that_is_put_elsewhere_stays(kept: str, migrate: Check) -> None:
    text = f"""
from apex import amp
{kept}
def main(loader):
    MODEL
    model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
    for x in loader:
        with amp.scale_loss(model(x).sum(), optimizer) as scaled_loss:
            scaled_loss.backward()
        optimizer.step()
"""
    plan = migrate(text)
    assert "from amp_shim import amp\n" in plan.after
    assert "amp itself is used as a value" in {each.message.partition(": ")[2] for each in plan.findings}


def test_initialization_in_the_guard_of_the_import(rewrites: Check) -> None:
    rewrites(
        """
          def main(args, loader):
              MODEL
        -     if args.fp16:
        -         try:
        -             from apex import amp
        -             amp.register_half_function(torch, "einsum")
        -             model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
        -         except ImportError:
        -             raise ImportError("Please install apex")
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
                  optimizer.zero_grad()
        """
    )


def test_initialization_in_a_guard_that_does_more(rewrites: Check) -> None:
    rewrites(
        """
          MODEL
        - try:
        -     from apex import amp
        -     model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
        -     tell(model)
        - except ImportError:
        -     raise
        + try:
        +     scaler = torch.amp.GradScaler("cuda")
        +     tell(model)
        + except ImportError:
        +     raise
        ~ APEX_EPOCH
        """
    )


@pytest.mark.parametrize(
    "test",
    ["args.fp16 and amp is not None", "amp is not None and args.fp16", "amp and args.fp16", "args.fp16 and amp"],
)
def test_switch_beside_the_question_whether_apex_is_there(test: str, rewrites: Check) -> None:
    rewrites(
        f"""
        - try:
        -     from apex import amp
        - except ImportError:
        -     amp = None
        -
          MODEL
          mixed = False
        - if {test}:
        -     model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
        + scaler = torch.amp.GradScaler("cuda", enabled=bool(args.fp16))
        + if args.fp16:
              mixed = True
          for x, y in loader:
        -     loss = nn.functional.mse_loss(model(x), y)
        -     if {test}:
        -         with amp.scale_loss(loss, optimizer) as scaled_loss:
        -             scaled_loss.backward()
        -     else:
        -         loss.backward()
        -     optimizer.step()
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=bool(args.fp16)):
        +         loss = nn.functional.mse_loss(model(x), y)
        +     scaler.scale(loss).backward()
        +     scaler.step(optimizer)
        +     scaler.update()
              optimizer.zero_grad()
        """
    )


def _where_it_may_be_missing(prepares: str, plain: str, given: str) -> str:
    """A script that prepares, and steps, by what it asks of `amp`, and its result, whose scaler is given something."""
    return f"""
- try:
-     from apex import amp
- except ImportError:
-     amp = None
-
  MODEL
{prepares}
+ scaler = torch.amp.GradScaler("cuda"{given})
  for x, y in loader:
      optimizer.zero_grad()
-     loss = nn.functional.mse_loss(model(x), y)
-     if {plain}:
-         loss.backward()
-     else:
-         with amp.scale_loss(loss, optimizer) as scaled_loss:
-             scaled_loss.backward()
-     optimizer.step()
+     with torch.amp.autocast(device_type="cuda", dtype=torch.float16{given}):
+         loss = nn.functional.mse_loss(model(x), y)
+     scaler.scale(loss).backward()
+     scaler.step(optimizer)
+     scaler.update()
"""


@pytest.mark.parametrize(
    ("prepares", "plain", "enabled"),
    [
        ("args.fp16 and amp is not None", "not args.fp16 or amp is None", "enabled=bool(args.fp16)"),
        ("amp and args.fp16", "amp is None or not args.fp16", "enabled=bool(args.fp16)"),
        ("args.fp16 and amp is not None", "amp is None", "enabled=bool(args.fp16)"),
        ("amp is not None", "amp is None", ""),
        ("amp", "not amp", ""),
    ],
)
def test_plain_step_where_apex_is_missing(prepares: str, plain: str, enabled: str, rewrites: Check) -> None:
    prepared = f'- if {prepares}:\n-     model, optimizer = amp.initialize(model, optimizer, opt_level="O1")'
    rewrites(_where_it_may_be_missing(prepared, plain, f", {enabled}" if enabled else ""))


def test_preparation_beside_what_is_said_where_apex_is_missing(rewrites: Check) -> None:
    prepared = """\
- if args.fp16:
-     if amp is not None:
-         model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
-     else:
-         print("float32")"""
    rewrites(_where_it_may_be_missing(prepared, "not args.fp16 or amp is None", ", enabled=bool(args.fp16)"))


def test_preparation_in_the_else_of_what_asks_whether_apex_is_missing(rewrites: Check) -> None:
    rewrites(
        """
        - try:
        -     from apex import amp
        - except ImportError:
        -     amp = None
        -
          MODEL
        - if amp is None or not args.fp16:
        + scaler = torch.amp.GradScaler("cuda", enabled=bool(args.fp16))
        + if not args.fp16:
              print("float32")
        - else:
        -     model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
          for x, y in loader:
              optimizer.zero_grad()
        -     loss = nn.functional.mse_loss(model(x), y)
        -     with amp.scale_loss(loss, optimizer) as scaled_loss:
        -         scaled_loss.backward()
        -     optimizer.step()
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=bool(args.fp16)):
        +         loss = nn.functional.mse_loss(model(x), y)
        +     scaler.scale(loss).backward()
        +     scaler.step(optimizer)
        +     scaler.update()
        """
    )


_ASKED = """
    try:
        from apex import amp
    except ImportError:
        amp = None
    MODEL
    if {}:
        INITIALIZE
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        if {}:
            SCALE_LOSS
        else:
            loss.backward()
        optimizer.step()
    """


@pytest.mark.parametrize("test", ["amp and args.fp16 and args.cuda", "args.fp16 and (args.cuda and amp)"])
def test_question_whether_apex_is_there_goes_from_a_longer_test(test: str, migrate: Check) -> None:
    plan = migrate(_ASKED.format(test, test))
    assert "amp_enabled = bool(args.fp16 and args.cuda)\n" in plan.after
    assert "apex" not in plan.after


def test_apex_that_is_the_value_of_a_test_stays(migrate: Check) -> None:
    plan = migrate(_ASKED.format("args.fp16", "args.fp16").replace("MODEL", "MODEL\n    tell(args.fp16 and amp)"))
    assert "from amp_shim import amp" in plan.after, plan.after


_BEHIND_THE_IMPORT = """
    try:
        from apex import amp
    except ImportError:
        amp = None
    args.fast = bool(args.fast)
    MODEL
    {}
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        if {}:
            {}
        else:
            {}
        optimizer.step()
    """
_PLAIN_FIRST, _APEX_FIRST = ("loss.backward()", "SCALE_LOSS"), ("SCALE_LOSS", "loss.backward()")


@pytest.mark.parametrize(
    "test",
    [
        "not args.fp16 or amp is None",
        "amp == None or not args.fp16",
        "not (args.fp16 and amp)",
        "not args.fp16 or not amp",
        "amp is None or not args.fp16 or not amp is not None",
    ],
)
@pytest.mark.parametrize(
    "start",
    [
        "if args.fp16 and amp is not None:\n        INITIALIZE",
        "if args.fp16:\n        if amp is not None:\n            INITIALIZE\n        else:\n            raise OSError",
        "if args.fp16:\n        assert not args.fp16 or amp is not None\n        INITIALIZE",
        "if amp is not None:\n        if args.fp16:\n            INITIALIZE",
        "if not args.fp16 or amp is None:\n        pass\n    else:\n        INITIALIZE",
    ],
)
def test_question_whether_apex_is_missing_beside_the_switch(start: str, test: str, migrate: Check) -> None:
    after = migrate(_BEHIND_THE_IMPORT.format(start, test, *_PLAIN_FIRST)).after
    assert not any(word in after for word in ("if ", "raise", "assert", "apex", "amp_shim")), after
    assert '\nscaler = torch.amp.GradScaler("cuda", enabled=' in after, after
    assert "    scaler.scale(loss).backward()\n    scaler.step(optimizer)\n" in after, after


@pytest.mark.parametrize(
    "start",
    [
        "if amp is not None:\n        INITIALIZE",
        "if amp is None:\n        raise RuntimeError\n    else:\n        INITIALIZE",
        "if amp:\n        INITIALIZE",
    ],
)
def test_apex_that_is_asked_for_alone_is_always_there(start: str, migrate: Check) -> None:
    after = migrate(_BEHIND_THE_IMPORT.format(start, "amp is not None", *_APEX_FIRST)).after
    assert '\nscaler = torch.amp.GradScaler("cuda")\n' in after, after
    assert not any(word in after for word in ("if ", "raise", "apex")), after


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ("flag = args.fp16 and amp is not None", "flag = args.fp16"),
        ("flag = not (amp is None)", "flag = True"),
        ("level = 1 if amp is not None else 0", "level = 1"),
        ("level = 1 if amp is None or args.fast else 0", "level = 1 if args.fast else 0"),
        ("if args.fast or amp is not None:\n        tell()", "tell()"),
        ("if not (amp is None or args.fast and args.fp16):\n        tell()", "if not (args.fast and args.fp16):"),
        ("if amp is None or args.fast:\n        tell()", "if args.fast:"),
    ],
)
def test_question_whether_apex_is_there_is_answered(asked: str, answer: str, migrate: Check) -> None:
    start = f"if args.fp16:\n        INITIALIZE\n    {asked}"
    after = migrate(_BEHIND_THE_IMPORT.format(start, "args.fp16", *_APEX_FIRST)).after
    assert f"\n{answer}\n" in after, after
    assert not any(word in after for word in ("amp is", "amp_shim")), after


def test_amp_that_the_script_itself_may_do_without_is_its_switch(migrate: Check) -> None:
    start = "if not args.fp16:\n        amp = None\n    if amp is not None:\n        INITIALIZE"
    after = migrate(_BEHIND_THE_IMPORT.format(start, "amp is None", *_PLAIN_FIRST)).after
    assert "from amp_shim import amp" in after, after


CHOSEN_AT_ONCE = """\
import sys

import torch


def run(use_apex, distributed):
    model = torch.nn.Linear(2, 2).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if use_apex:
        import apex
        from apex import amp
        model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
    else:
        {none}
    if distributed:
        if {asked}:
            model = apex.parallel.DistributedDataParallel(model)
        else:
            model = torch.nn.parallel.DistributedDataParallel(model)
    loss = model(torch.rand(4, 2).cuda()).mean()
    if use_apex:
        with amp.scale_loss(loss, optimizer) as scaled:
            scaled.backward()
    else:
        loss.backward()
    optimizer.step()
    torch.save({{"model": model.state_dict(), "amp": amp}}, "last.pt")


run("apex" in sys.argv, "many" in sys.argv)
"""


@pytest.mark.parametrize("asked", ["use_apex", "apex is not None"])
@pytest.mark.parametrize("none", ["apex, amp = None, None", "(apex, amp) = (None, None)", "apex = amp = None"])
def test_names_that_are_none_without_apex_be_it_in_one_statement(none: str, asked: str) -> None:
    plan = migrate_text(CHOSEN_AT_ONCE.format(none=none, asked=asked), Settings())
    assert {each.code for each in plan.findings} == {"AMP301", "AMP290"}
    assert "from amp_shim import amp" in plan.after
    assert none in plan.after
