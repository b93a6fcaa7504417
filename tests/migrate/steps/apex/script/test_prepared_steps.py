"""Plain steps that train what `amp.initialize` prepares: their script keeps its switch, or stays whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest

Check = Callable[..., Any]

CASTS = "Apex prepares its optimizer, and casts what is computed here though nothing scales the loss"
PLAIN = """
  import torch

  def tune(model, optimizer, loader):
      for x in loader:
          loss = model(x).mean()
          loss.backward()
          optimizer.step()
          optimizer.zero_grad()
"""
PLAIN_MOVED = """
  import torch

- def tune(model, optimizer, loader):
+ def tune(model, optimizer, scaler, loader):
      for x in loader:
~         loss = model(x).mean()
~         STEP
          optimizer.zero_grad()
"""
SCALED = """
  import torch

  def train(model, optimizer, loader):
-     from apex import amp
+     from amp_shim import amp
      for x in loader:
          loss = model(x).mean()
          with amp.scale_loss(loss, optimizer) as scaled:
              scaled.backward()
          optimizer.step()
          optimizer.zero_grad()
"""
SCALED_MOVED = """
  import torch

- def train(model, optimizer, loader):
-     from apex import amp
+ def train(model, optimizer, scaler, loader):
      for x in loader:
-         loss = model(x).mean()
-         with amp.scale_loss(loss, optimizer) as scaled:
-             scaled.backward()
-         optimizer.step()
+         with torch.amp.autocast(device_type="cuda", dtype=torch.float16{}):
+             loss = model(x).mean()
+         scaler.scale(loss).backward()
+         scaler.step(optimizer)
+         scaler.update()
          optimizer.zero_grad()
"""
HELD = """
  import torch

  class Tuner:
      def __init__(self, model, optimizer):
          self.model = model
          self.optimizer = optimizer

      def tune(self, loader):
          for x in loader:
              loss = self.model(x).mean()
              loss.backward()
              self.optimizer.step()
              self.optimizer.zero_grad()
"""
UNDER_SWITCH = """
  if {switch}:
-     from apex import amp
+     from amp_shim import amp
      model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
"""
ALWAYS = """
- from apex import amp
+ from amp_shim import amp
  model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
"""
NATIVE = """
- from apex import amp
- model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
+ scaler = torch.amp.GradScaler("cuda")
"""
BOTH = "from scaled import train\nfrom plain import tune"
TRAIN, TUNE = "train(model, optimizer, loader)", "tune(model, optimizer, loader)"


def script(imports: str, *body: str) -> str:
    """A script with a main() that makes model and optimizer."""
    lines = "\n".join(line for part in body for line in part.strip("\n").split("\n"))
    inside = "\n".join(
        line if not line.strip() else f"{line[:2]}    {line[2:]}" if line[:2] in ("- ", "+ ", "  ") else f"      {line}"
        for line in lines.split("\n")
    )
    return f"""
  import torch
{indent(imports, "  ")}

  def main(args, loader):
      model = torch.nn.Linear(2, 2)
      optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{inside}
"""


def messages(findings: Any, code: str) -> list[str]:
    return [f"{Path(each.path).name}: {each.message}" for each in findings if each.code == code]


@pytest.mark.parametrize("init", [UNDER_SWITCH.format(switch="args.amp"), ALWAYS])
def test_a_plain_step_alone_stays_beside_the_shim(rewrites_files: Check, init: str) -> None:
    findings = rewrites_files({"plain.py": PLAIN, "main.py": script("from plain import tune", init, TUNE)})
    assert [each.partition(" (")[0] for each in messages(findings, "AMP590")] == [
        f"plain.py: step left as it was: {CASTS}"
    ]


@pytest.mark.parametrize("init", [UNDER_SWITCH.format(switch="args.amp"), ALWAYS])
@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_a_plain_step_stays_as_it_does_alone_where_another_script_scales_its_loss(
    rewrites_files: Check, init: str, dtype: str
) -> None:
    scaled, native = SCALED_MOVED.format(""), script("from scaled import train", NATIVE, TRAIN)
    native = native.replace(f"      {TRAIN}", f"-     {TRAIN}\n+     {TRAIN.replace('er, ', 'er, scaler, ', 1)}")
    if dtype == "bf16":
        for line in ("def train(model, optimizer, loader):", TRAIN):
            scaled, native = (text.replace(f"- {line}", f"  {line}") for text in (scaled, native))
            native = native.replace(f"-     {line}", f"      {line}")
        kept = (line for text in (scaled,) for line in text.split("\n") if not line.startswith("+ def"))
        scaled = "\n".join(kept).replace("float16", "bfloat16").replace("-         optimizer.step()\n", "")
        scaled = scaled.replace("scaler.scale(loss)", "loss").replace("scaler.step(optimizer)", "optimizer.step()")
        scaled = scaled.replace("+         scaler.update()\n", "").replace(
            "+         optimizer.step", "          optimizer.step"
        )
        native = "\n".join(line for line in native.split("\n") if not line.startswith("+"))
    findings = rewrites_files(
        {
            "plain.py": PLAIN,
            "scaled.py": scaled,
            "main_plain.py": script("from plain import tune", init, TUNE),
            "main_scaled.py": native,
        },
        dtype=dtype,
    )
    assert [each.partition(" (")[0] for each in messages(findings, "AMP590")] == [
        f"plain.py: step left as it was: {CASTS}"
    ]
    (why,) = messages(findings, "AMP290")
    assert why.startswith("main_plain.py: kept on amp_shim instead of native AMP: no step that scales its loss")


def test_a_trainer_that_a_script_without_apex_shares_stays(rewrites_files: Check) -> None:
    scaled = script("from scaled import train", NATIVE, TRAIN)
    scaled = scaled.replace(f"      {TRAIN}", f"-     {TRAIN}\n+     {TRAIN.replace('er, ', 'er, scaler, ', 1)}")
    findings = rewrites_files(
        {
            "plain.py": PLAIN,
            "scaled.py": SCALED_MOVED.format(""),
            "with_apex.py": script("from plain import tune", UNDER_SWITCH.format(switch="args.amp"), TUNE),
            "without.py": script("from plain import tune", TUNE),
            "main_scaled.py": scaled,
        }
    )
    assert [each.partition(" (")[0] for each in messages(findings, "AMP590")] == [
        f"plain.py: step left as it was: {CASTS}"
    ]


@pytest.mark.parametrize(
    ("imports", "init"),
    [
        (BOTH, UNDER_SWITCH.format(switch="args.amp")),
        (BOTH, ALWAYS),
        (f"{BOTH}\nUSE_AMP = False", UNDER_SWITCH.format(switch="USE_AMP")),
        (f"{BOTH}\nfrom config import cfg", UNDER_SWITCH.format(switch="cfg.amp")),
    ],
    ids=["argument", "always", "global", "config"],
)
def test_a_script_stays_whole_whose_optimizer_a_plain_step_trains_too(
    rewrites_files: Check, imports: str, init: str
) -> None:
    config = "\n  class Config:\n      amp = False\n\n  cfg = Config()\n"
    files = {"config.py": config, "plain.py": PLAIN, "scaled.py": SCALED, "main.py": script(imports, init, TRAIN, TUNE)}
    findings = rewrites_files(files)
    told = messages(findings, "AMP290")
    why = "a step that does not scale its loss trains what this prepares (plain.py:"
    assert any(each.startswith(f"main.py: kept on amp_shim instead of native AMP: {why}") for each in told)
    assert len(told) == 2
    assert [each.partition(" (")[0] for each in messages(findings, "AMP590")] == [
        f"plain.py: step left as it was: {CASTS}"
    ]


def test_an_optimizer_is_known_by_the_name_that_initialize_gives_it(rewrites_files: Check) -> None:
    init = ALWAYS.replace("model, optimizer = amp", "net, opt = amp")
    body = (init, "train(net, opt, loader)", "tune(net, opt, loader)")
    findings = rewrites_files({"plain.py": PLAIN, "scaled.py": SCALED, "main.py": script(BOTH, *body)})
    assert len(messages(findings, "AMP590")) == 1


def test_an_object_that_is_given_the_optimizer_steps_what_is_prepared(rewrites_files: Check) -> None:
    imports = "from scaled import train\nfrom plain import Tuner"
    body = (UNDER_SWITCH.format(switch="args.amp"), TRAIN, "Tuner(model, optimizer).tune(loader)")
    findings = rewrites_files({"plain.py": HELD, "scaled.py": SCALED, "main.py": script(imports, *body)})
    assert len(messages(findings, "AMP590")) == 1


def test_a_plain_step_of_the_same_file_stays_with_its_script(rewrites_files: Check) -> None:
    body = script("", UNDER_SWITCH.format(switch="args.amp"), TRAIN, TUNE)
    findings = rewrites_files({"main.py": f"{SCALED}{PLAIN}{body}"})
    (why,) = messages(findings, "AMP290")
    assert "a step that does not scale its loss trains what this prepares (line " in why


def test_what_the_switch_leaves_in_float32_stays_there(rewrites_files: Check) -> None:
    branches = f"  if args.amp:\n      {TRAIN}\n  else:\n      {TUNE}"
    body = (UNDER_SWITCH.format(switch="args.amp"), branches)
    findings = rewrites_files({"plain.py": PLAIN, "scaled.py": SCALED, "main.py": script(BOTH, *body)})
    (left,) = messages(findings, "AMP590")
    assert "it is what the script computes in float32, where its own switch does not ask for Apex" in left
    why = "a step that computes in float32 where this is switched off trains what this prepares (plain.py:"
    assert any(why in each for each in messages(findings, "AMP290"))


def test_what_trains_before_anything_is_prepared_moves_by_itself(rewrites_files: Check) -> None:
    given = TUNE.replace("er, ", "er, scaler, ", 1)
    trained = TRAIN.replace("er, ", "er, scaler, ", 1)
    body = (f'+ scaler = torch.amp.GradScaler("cuda")\n- {TUNE}\n+ {given}', NATIVE, f"- {TRAIN}\n+ {trained}")
    rewrites_files({"plain.py": PLAIN_MOVED, "scaled.py": SCALED_MOVED.format(""), "main.py": script(BOTH, *body)})


def test_an_optimizer_that_apex_never_knew_and_that_steps_in_the_caller_is_told(migrate: Callable[..., Any]) -> None:
    plan = migrate(
        """
        from apex import amp

        def train(model, optimizer, x, y, pose):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x @ pose), y)
            with amp.scale_loss(loss, optimizer) as scaled_loss:
                scaled_loss.backward()
            optimizer.step()

        def main():
            model = nn.Linear(2, 2)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            poses = nn.Embedding(100, 4, sparse=True)
            others = torch.optim.SparseAdam(list(poses.parameters()), lr=0.01)
            model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
            for x, y, index in loader:
                others.zero_grad()
                train(model, optimizer, x, y, poses(index).view(2, 2))
                others.step()

        main()
        """
    )
    assert "scaler.step(optimizer)" in plan.after
    assert "    others.step()" in plan.after
    told = [each for each in plan.findings if each.message.startswith("amp.initialize never prepared others: ")]
    assert [plan.source.text.split("\n")[each.line - 1].strip() for each in told] == ["others.step()"]
