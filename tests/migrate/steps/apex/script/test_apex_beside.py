"""Scripts that have native AMP beside Apex: what chose Apex chooses that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from amp_migrate.settings import Apex

Check = Callable[..., Any]


def test_flag_that_leaves_native_amp_where_it_is_false(rewrites: Check) -> None:
    rewrites(
        """
        - if has_apex():
        -     from apex import amp
        -
          class T:
              def __init__(self, model, mixed):
                  self.mixed = mixed
                  self.use_apex = has_apex()
                  self.model = model
                  self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                  if mixed:
        -             if self.use_apex:
        -                 self.scaler = None
        -                 self.model, self.optimizer = amp.initialize(self.model, self.optimizer)
                      self.scaler = torch.amp.GradScaler("cuda")
              def step(self, x):
                  with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=self.mixed):
                      loss = self.model(x).mean()
                  if self.mixed:
        -             if self.use_apex:
        -                 with amp.scale_loss(loss, self.optimizer) as scaled_loss:
        -                     scaled_loss.backward()
        -                 norm = nn.utils.clip_grad_norm_(amp.master_params(self.optimizer), 1.0)
        -                 self.optimizer.step()
        -             else:
        -                 # the script's own way
        -                 self.scaler.scale(loss).backward()
        -                 self.scaler.unscale_(self.optimizer)
        -                 norm = nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        -                 self.scaler.step(self.optimizer)
        -                 self.scaler.update()
        +             # the script's own way
        +             self.scaler.scale(loss).backward()
        +             self.scaler.unscale_(self.optimizer)
        +             norm = nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        +             self.scaler.step(self.optimizer)
        +             self.scaler.update()
                  else:
                      loss.backward()
                      self.optimizer.step()
        """
    )


def test_option_that_names_one_of_the_two(rewrites: Check) -> None:
    rewrites(
        """
        - try:
        -     from apex import amp
        - except ImportError:
        -     print("no Apex")
        -
          def main(args, checkpoint):
        -     if args.fp16 and args.amp == "apex" and "apex" not in sys.modules:
        -         raise RuntimeError("no Apex")
        -     if args.amp == "apex":
        -         amp.register_half_function(torch, "einsum")
              MODEL
              scaler = None
              if args.fp16:
        -         if args.amp == "native":
        +         if args.amp in ("native", "apex"):
                      scaler = torch.amp.GradScaler("cuda")
        -             scaler.load_state_dict(checkpoint["amp"])
        -         elif args.amp == "apex":
        -             model, optimizer = amp.initialize(model, optimizer, opt_level=args.level)
        -             amp.load_state_dict(checkpoint["amp"])
        +             if "scale" in checkpoint["amp"]:
        +                 scaler.load_state_dict(checkpoint["amp"])
                  else:
                      raise ValueError(args.amp)
              for x in loader:
        -         enabled = args.fp16 and args.amp == "native"
        +         enabled = args.fp16 and args.amp in ("native", "apex")
                  with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=enabled):
                      loss = model(x).mean()
        -         if args.amp == "apex":
        -             with amp.scale_loss(loss, optimizer) as scaled_loss:
        -                 scaled_loss.backward()
        -         elif args.amp == "native":
        +         if args.amp in ("native", "apex"):
                      scaler.scale(loss).backward()
                  else:
                      loss.backward()
        -         if args.amp == "apex":
        -             nn.utils.clip_grad_norm_(amp.master_params(optimizer), 1.0)
        -         else:
        -             if scaler is not None:
        -                 scaler.unscale_(optimizer)
        -             nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        -         if args.amp == "native":
        +         if scaler is not None:
        +             scaler.unscale_(optimizer)
        +         nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        +         if args.amp in ("native", "apex"):
                      scaler.step(optimizer)
                      scaler.update()
                  else:
                      optimizer.step()
              print(f"trained with {args.amp}")
        """
    )


_SCRIPT = """
from apex import amp
def main(args, loader):
    use_apex = args.apex
    MODEL
    if use_apex:
        model, optimizer = amp.initialize(model, optimizer)
    else:
        scaler = torch.amp.GradScaler("cuda")
    for x in loader:
        with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=True):
            loss = model(x).mean()
        if use_apex:
            APEX_STEP
        else:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
"""
_OPTION = _SCRIPT.replace("use_apex = args.apex\n", "kind = args.kind\n").replace("use_apex", 'kind == "apex"')


@pytest.mark.parametrize("script", [_SCRIPT, _OPTION])
def test_branches_go_whatever_they_ask_for(script: str, migrate: Check) -> None:
    after = migrate(script).after
    assert not any(gone in after for gone in ("amp import", "amp.initialize", "scale_loss", "if ", "else:"))
    assert "    scaler.scale(loss).backward()\n        scaler.step(optimizer)\n" in after


@pytest.mark.parametrize(
    ("script", "line", "reason"),
    [
        (_SCRIPT, "enabled = not use_apex", "what use_apex decides beside Apex is not understood"),
        (_SCRIPT, "run(use_apex)", "what use_apex decides beside Apex is not understood"),
        (_SCRIPT, "state = amp.state_dict()", "apex.amp is used where native AMP is not chosen instead"),
        (_SCRIPT.replace("if use_apex", "if ask()"), "", "Apex and native AMP stand side by side in one step"),
        (_OPTION, 'enabled = kind == "native"', "what kind decides beside Apex is not understood"),
        (_OPTION, 'enabled = kind != "apex"', "what kind decides beside Apex is not understood"),
    ],
)
def test_what_depends_on_the_choice_in_another_way(script: str, line: str, reason: str, migrate: Check) -> None:
    plan = migrate(f"{script}    {line}\n")
    assert "from amp_shim import amp\n" in plan.after
    assert "    with amp.scale_loss(loss, optimizer)" in plan.after
    assert reason in {finding.message.partition(": ")[2] for finding in plan.findings}


def test_another_file_that_asks_for_the_choice(rewrites_files: Check) -> None:
    script = "\n".join(f"  {line}" for line in _SCRIPT.replace("use_apex", "args.use_apex").splitlines()[2:])
    head = "  import torch\n  from torch import nn\n- from apex import amp\n+ from amp_shim import amp\n"
    other = "  import torch\n  def cast(args):\n      return torch.autocast('cuda', enabled=not args.use_apex)\n"
    findings = rewrites_files({"train.py": head + script, "other.py": other})
    assert any("another file asks whether Apex or native AMP is chosen" in each.message for each in findings)


def test_a_native_scaler_that_is_restored_beside_a_branch_of_apex_that_restores_nothing(migrate: Check) -> None:
    restored = 'scaler = torch.amp.GradScaler("cuda")\n        scaler.load_state_dict(torch.load("scaler.pt"))\n'
    script = _SCRIPT.replace('scaler = torch.amp.GradScaler("cuda")\n', restored)
    assert '\n    scaler.load_state_dict(torch.load("scaler.pt"))\n' in migrate(script).after


def test_shim_that_was_asked_for_keeps_the_branches(migrate: Check) -> None:
    assert "    with amp.scale_loss(loss, optimizer)" in migrate(_SCRIPT, apex=Apex.SHIM).after
