"""Evaluation that cannot ask whether Apex casts in it, and whose calls are no statements: they hand the switch on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from amp_migrate.engine.migrate import migrate as migrate_paths
from amp_migrate.settings import Settings

Check = Callable[..., Any]

TRAIN = """
  import argparse
  import torch
- from apex import amp
  {imports}


  {functions}


  def main(loader):
      parser = argparse.ArgumentParser()
      parser.add_argument("--fp16", action="store_true")
      args = parser.parse_args()
      model = torch.nn.Linear(3, 2).cuda()
      optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
      {early}
-     if args.fp16:
-         model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
+     scaler = torch.amp.GradScaler("cuda", enabled=args.fp16)
      for x, y in loader:
          optimizer.zero_grad()
-         loss = torch.nn.functional.cross_entropy(model(x), y)
-         if args.fp16:
-             with amp.scale_loss(loss, optimizer) as scaled_loss:
-                 scaled_loss.backward()
-         else:
-             loss.backward()
-         optimizer.step()
+         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=args.fp16):
+             loss = torch.nn.functional.cross_entropy(model(x), y)
+         scaler.scale(loss).backward()
+         scaler.step(optimizer)
+         scaler.update()
{calls}

  main([])
"""
REGION = 'with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=use_amp):'
EVALUATE = f"""
  import torch


- def evaluate(model, loader):
+ def evaluate(model, loader, use_amp=False):
      model.eval()
      with torch.no_grad():
-         return sum((model(x).argmax(1) == y).sum() for x, y in loader)
+         {REGION}
+             return sum((model(x).argmax(1) == y).sum() for x, y in loader)
"""
OF_FILE = "from evaluation import evaluate"
ASKED = """
-     if evaluate(model, loader) > 1:
+     if evaluate(model, loader, use_amp=args.fp16) > 1:
          print("trained")
"""


def train(calls: str, *, imports: str = OF_FILE, functions: str = "THRESHOLD = 1", early: str = "pass") -> str:
    return TRAIN.format(imports=imports, functions=functions.strip(), early=early, calls=calls.strip("\n"))


def before(text: str) -> str:
    """What a diff begins with."""
    lines = [each for each in text.splitlines() if not each.startswith("+")]
    return "\n".join(each[2:] for each in lines)


def told(files: dict[str, str], folder: Path) -> tuple[list[str], str]:
    """What is said to stay in float32, and all new text."""
    for name, text in files.items():
        (folder / name).write_text(text)
    outcome = migrate_paths([folder], Settings())
    assert any(each.code == "AMP202" for each in outcome.findings), [each.message for each in outcome.findings]
    said = [each.message for each in outcome.findings if each.code == "AMP211"]
    return said, "\n".join(each.after for each in outcome.changed)


def test_a_function_of_another_file_is_told_by_a_call_in_an_expression(rewrites_files: Check) -> None:
    found = rewrites_files({"evaluation.py": EVALUATE, "train.py": train(ASKED)})
    assert "AMP211" not in {each.code for each in found}
    assert any("whether mixed precision is on is handed on" in each.message for each in found)


def test_a_call_of_a_script_without_apex_computes_as_it_did(rewrites_files: Check) -> None:
    other = "\n  from evaluation import evaluate\n\n  print(evaluate(torch.load('model.pt'), []))\n"
    found = rewrites_files({"evaluation.py": EVALUATE, "train.py": train(ASKED), "test.py": other})
    assert "AMP211" not in {each.code for each in found}


def test_a_call_before_apex_is_initialized_computes_as_it_did(rewrites_files: Check) -> None:
    early = "print(evaluate(model, loader))"
    rewrites_files({"evaluation.py": EVALUATE, "train.py": train(ASKED, early=early)})


def test_the_switch_goes_through_all_functions_on_the_way(rewrites: Check) -> None:
    functions = EVALUATE.partition("import torch")[2].strip("\n").replace("evaluate(", "accuracy(")[2:]
    functions = (
        "THRESHOLD = 1\n\n\n- "
        + functions
        + """


- def report(model, loaders):
-     return max(accuracy(model, each) for each in loaders)
+ def report(model, loaders, use_amp=False):
+     return max(accuracy(model, each, use_amp=use_amp) for each in loaders)"""
    )
    calls = """
-     if report(model, [loader]) > 1:
+     if report(model, [loader], use_amp=args.fp16) > 1:
          print(model)
"""
    rewrites(train(calls, imports="", functions=functions).replace("  \n\n\n  THR", "  \n\n\n  THR"))


METHODS = """class Tester:
      def __init__(self, model, loader):
          self.model, self.loader = model, loader

-     def accuracy(self):
+     def accuracy(self, use_amp=False):
          with torch.no_grad():
-             return sum((self.model(x).argmax(1) == y).sum() for x, y in self.loader)
+             {region}
+                 return sum((self.model(x).argmax(1) == y).sum() for x, y in self.loader)


  class Counter(Tester):
-     def accuracy(self):
+     def accuracy(self, use_amp=False):
          return len(self.loader)"""


def test_methods_that_one_call_may_run_take_it_together(rewrites: Check) -> None:
    calls = """
-     if Tester(model, loader).accuracy() > Counter(model, loader).accuracy():
+     if Tester(model, loader).accuracy(use_amp=args.fp16) > Counter(model, loader).accuracy(use_amp=args.fp16):
          print(model)
"""
    rewrites(train(calls, imports="", functions=METHODS.format(region=REGION)))


@pytest.mark.parametrize("method", ["items()", "keys()", "values()"])
def test_the_entries_of_a_checkpoint_are_no_forward(method: str, tmp_path: Path) -> None:
    functions = f"""- def restore(model, path):
-     saved = torch.load(path)
-     weights = [each for each in saved["model"].{method}]
-     model.load_state_dict(saved["model"])
-     return weights""".replace("- ", "", 1)
    calls = "      if restore(model, 'model.pt') is None:\n          return"
    said, after = told({"train.py": before(train(calls, functions=functions))}, tmp_path)
    assert not said
    assert "use_amp" not in after


@pytest.mark.parametrize("goes", ["loss.backward()", "print(loss)"])
def test_a_call_that_trains_by_itself_is_no_evaluation(goes: str, tmp_path: Path) -> None:
    adapts = f"""
def test_time_training(model, x):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = model(x).mean()
    {goes}
    optimizer.step()
    return loss
"""
    calls = "      print(map(test_time_training, [], []))\n      print(test_time_training(model, loader[0]))"
    text = before(train(calls, imports="from adapt import test_time_training"))
    said, _ = told({"train.py": text, "adapt.py": f"import torch\n{adapts}"}, tmp_path)
    assert bool(said) is (goes == "print(loss)")


BRANCHES = """
import argparse
import torch
from apex import amp

def evaluate(model, loader):
    model.eval()
    with torch.no_grad():
        return sum((model(x).argmax(1) == y).sum() for x, y in loader)

def train(args, model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if args.fp16:
        model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
    for x, y in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        if args.fp16:
            with amp.scale_loss(loss, optimizer) as scaled_loss:
                scaled_loss.backward()
        else:
            loss.backward()
        optimizer.step()
    {trained}

def main(loader):
    parser = argparse.ArgumentParser()
    parser.add_argument("--fp16", action="store_true")
    parser.add_argument("--train", action="store_true")
    args = parser.parse_args()
    model = torch.nn.Linear(3, 2).cuda()
    if args.train:
        train(args, model, loader)
    else:
        {call}
        model.eval()
        with torch.no_grad():
            print(model(loader[0][0]))

main([])
"""


@pytest.mark.parametrize("trained", ["pass", "return evaluate(model, loader) > 1"])
def test_a_branch_that_apex_did_not_prepare_is_not_said_to_stay_in_float32(trained: str, tmp_path: Path) -> None:
    call = "if evaluate(model, loader) > 1: print(model)"
    said, after = told({"train.py": BRANCHES.format(trained=trained, call=call)}, tmp_path)
    assert not said
    assert call in after
    assert ("use_amp=args.fp16" in after) is (trained != "pass")
    assert ("def evaluate(model, loader):" in after) is (trained == "pass")


SHARED = """
  import argparse
  import torch
- from apex import amp


- def run(model, loader, optimizer=None, fp16=False):
+ def run(model, loader, optimizer=None, scaler=None, fp16=False, use_amp=False):
      total = 0
      for x, y in loader:
-         loss = torch.nn.functional.cross_entropy(model(x), y)
+         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=use_amp):
+             loss = torch.nn.functional.cross_entropy(model(x), y)
          if optimizer is not None:
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
          total += loss.item()
      return total


  def main(loader):
      parser = argparse.ArgumentParser()
      parser.add_argument("--fp16", action="store_true")
      args = parser.parse_args()
      model = torch.nn.Linear(3, 2).cuda()
      optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
-     if args.fp16:
-         model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
-     run(model, loader, optimizer, args.fp16)
+     scaler = torch.amp.GradScaler("cuda", enabled=args.fp16)
+     run(model, loader, optimizer, scaler, args.fp16, use_amp=args.fp16)
      with torch.no_grad():
-         print(run(model, loader))
+         print(run(model, loader, use_amp=args.fp16))


  main([])
"""


def test_a_function_that_trains_and_evaluates_asks_no_scaler_that_it_has_not(rewrites: Check) -> None:
    rewrites(SHARED)


def test_a_forward_that_may_have_no_scaler_asks_whether_there_is_one(tmp_path: Path) -> None:
    text = before(SHARED) + "\nuse_amp = with_amp = mixed_precision = None\n"
    said, after = told({"train.py": text}, tmp_path)
    assert ["are all taken" in each for each in said] == [True]
    assert "enabled=scaler is not None and scaler.is_enabled()" in after


@pytest.mark.parametrize(
    ("evaluation", "calls", "why"),
    [
        (EVALUATE, "print(list(map(evaluate, [model], [loader])))", "is also passed around as a value"),
        (EVALUATE.replace("- def eval", "- @timed\n- def eval"), "", "a decorator may change what evaluate() takes"),
        (EVALUATE.replace("loader):", "loader, **options):"), "", "takes whatever a call passes by `**`"),
        (EVALUATE.replace("import torch", "import torch  # use_amp, with_amp, mixed_precision = ..."), "", ""),
    ],
)
def test_what_cannot_be_told_is_said_to_stay_in_float32(evaluation: str, calls: str, why: str, tmp_path: Path) -> None:
    call = "if evaluate(model, loader, **vars(args)) > 1:" if "**" in evaluation else "if evaluate(model, loader) > 1:"
    text = before(train(f"      {call}\n          {calls or 'pass'}"))
    said, after = told({"evaluation.py": before(evaluation), "train.py": text}, tmp_path)
    assert ("use_amp=args.fp16" in after) is (not why)
    assert [why in each and each.startswith("evaluation stays in float32: ") for each in said] == [True] * bool(why)


@pytest.mark.parametrize("made", ["make()", "Other()"])
def test_a_method_is_told_where_no_call_may_be_of_another_object(made: str, tmp_path: Path) -> None:
    functions = METHODS.format(region=REGION).partition("\n\n\n  class Counter")[0]
    calls = f"      if Tester(model, loader).accuracy() > {made}.accuracy():\n          print(model)"
    text = before(train(calls, imports="from elsewhere import make, Other", functions=functions))
    said, after = told({"train.py": text}, tmp_path)
    assert f"{made}.accuracy()" in after
    assert ("use_amp=args.fp16" in after) is not bool(said)


@pytest.mark.parametrize("trains", [True, False])
def test_a_script_that_trains_by_itself_may_have_a_region_round_its_call(trains: bool, tmp_path: Path) -> None:
    step = "loss.backward()\noptimizer.step()" if trains else "print(loss)"
    other = f"from evaluation import evaluate\n\nloss = evaluate(model, loader)\n{step}\n"
    files = {"evaluation.py": before(EVALUATE), "train.py": before(train(ASKED)), "other.py": other}
    said, after = told(files, tmp_path)
    assert (bool(said), "use_amp" in after) == (trains, not trains)


ANSWERS = """
import torch
from apex import amp


@torch.no_grad()
def answers(model, loader):
    return [model(x.cuda()) for x, _ in loader]


def main(opts, loader):
    model = torch.nn.Linear(2, 2).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer = amp.initialize(model, optimizer, enabled=opts.fp16, opt_level="O2")
    for x, y in loader:
        loss = torch.nn.functional.mse_loss(model(x.cuda()), y.cuda())
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
        optimizer.step()
    print(answers(model, loader))


if __name__ == "__main__":
    main(get_options(), get_loader())
"""
ASKING = """
import torch
from apex import amp
from train import answers


def main(opts):
    model = amp.initialize(torch.nn.Linear(2, 2).cuda(), enabled=opts.fp16, opt_level="O2")
    print(answers(model, get_loader()))


if __name__ == "__main__":
    main(get_options())
"""


def test_a_script_that_only_asks_is_not_said_to_train(tmp_path: Path) -> None:
    said, _ = told({"train.py": ANSWERS, "asking.py": ASKING}, tmp_path)
    assert [each.partition("calls it, too, and ")[2] for each in said] == ["has a switch of its own"]


def test_a_file_that_is_to_be_left_alone_takes_no_switch(tmp_path: Path) -> None:
    evaluation = "# amp-migrate: skip-file\n" + before(EVALUATE)
    said, after = told({"evaluation.py": evaluation, "train.py": before(train(ASKED))}, tmp_path)
    assert said
    assert "use_amp" not in after
    assert "scaler.step(optimizer)" in after


KEPT = """
  import torch
- from apex import amp


  class Trainer:
      def __init__(self, model, level):
          self.model = model
          self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
          fp16 = level > 0
-         if fp16:
-             self.model, self.optimizer = amp.initialize(self.model, self.optimizer, opt_level="O1")
+         self.scaler = torch.amp.GradScaler("cuda", enabled=fp16)
          self.fp16 = fp16

      def step(self, x, y):
          self.optimizer.zero_grad()
-         loss = torch.nn.functional.cross_entropy(self.model(x), y)
-         if self.fp16:
-             with amp.scale_loss(loss, self.optimizer) as scaled_loss:
-                 scaled_loss.backward()
-         else:
-             loss.backward()
-         self.optimizer.step()
+         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=self.scaler.is_enabled()):
+             loss = torch.nn.functional.cross_entropy(self.model(x), y)
+         self.scaler.scale(loss).backward()
+         self.scaler.step(self.optimizer)
+         self.scaler.update()
"""
KEEPS = """
  import torch
  from evaluation import evaluate
  from trainer import Trainer


  def main(loader, level):
      trainer = Trainer(torch.nn.Linear(3, 2).cuda(), level)
      for x, y in loader:
          trainer.step(x, y)
-     if evaluate(trainer.model, loader) > 1:
+     if evaluate(trainer.model, loader, use_amp=trainer.scaler.is_enabled()) > 1:
          print("trained")


  main([], 1)
"""


def test_the_scaler_of_an_object_that_the_caller_has_made_is_asked(rewrites_files: Check) -> None:
    rewrites_files({"trainer.py": KEPT, "evaluation.py": EVALUATE, "train.py": KEEPS})


@pytest.mark.parametrize(
    "made",
    [
        "trainer = Trainer(torch.nn.Linear(3, 2).cuda(), level)\n    trainer = wrap(trainer)",
        "if level:\n        trainer = Trainer(torch.nn.Linear(3, 2).cuda(), level)",
        "trainer = make(Trainer, level)",
    ],
)
def test_an_object_that_may_be_another_or_not_be_there_is_not_asked(made: str, tmp_path: Path) -> None:
    script = before(KEEPS).replace("trainer = Trainer(torch.nn.Linear(3, 2).cuda(), level)", made)
    files = {"trainer.py": before(KEPT), "evaluation.py": before(EVALUATE), "train.py": script}
    _, after = told(files, tmp_path)
    assert "trainer.scaler" not in after
