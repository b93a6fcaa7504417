"""Scripts that have native AMP beside Apex: what chose Apex chooses that."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from amp_migrate.engine.migrate import migrate as migrate_paths
from amp_migrate.settings import Apex, Settings

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
                  optimizer.zero_grad()
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
        optimizer.zero_grad()
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
        (_SCRIPT, "run(use_apex)", "what use_apex decides beside Apex is not understood"),
        (_SCRIPT, "while use_apex: train()", "what use_apex decides beside Apex is not understood"),
        (_SCRIPT, "state = amp.state_dict()", "apex.amp is used where native AMP is not chosen instead"),
        (_SCRIPT.replace("if use_apex", "if ask()"), "", "Apex and native AMP stand side by side in one step"),
        (_OPTION, 'enabled = kind == "native"', "what kind decides beside Apex is not understood"),
        (_OPTION, "enabled = kind in kinds", "what kind decides beside Apex is not understood"),
    ],
)
def test_what_depends_on_the_choice_in_another_way(script: str, line: str, reason: str, migrate: Check) -> None:
    plan = migrate(f"{script}    {line}\n")
    assert "from amp_shim import amp\n" in plan.after
    assert "    with amp.scale_loss(loss, optimizer)" in plan.after
    assert reason in {finding.message.partition(": ")[2] for finding in plan.findings}


@pytest.mark.parametrize(
    ("script", "line"),
    [
        (_SCRIPT, "enabled = not use_apex"),
        (_OPTION, 'enabled = kind != "apex"'),
        (_OPTION, 'enabled = kind not in ("apex",)'),
    ],
)
def test_what_is_true_wherever_apex_is_not_chosen(script: str, line: str, migrate: Check) -> None:
    assert migrate(f"{script}    {line}\n").after.endswith("    enabled = True\n")


_BACKENDS = """
from apex import amp
class Trainer:
    def __init__(self, args, model):
        self.args, self.model = args, model
        self.use_apex = self.use_amp = False
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        if args.backend == "amp":
            self.use_amp = True
            self.scaler = torch.amp.GradScaler("cuda")
        else:
            self.use_apex = True
        if self.use_apex:
            self.model, self.optimizer = amp.initialize(self.model, self.optimizer)
    def step(self, x):
        with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
            loss = self.model(x).mean()
        if self.use_amp:
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
        elif self.use_apex:
            with amp.scale_loss(loss, self.optimizer) as scaled_loss:
                scaled_loss.backward()
            self.optimizer.step()
"""


def test_native_amp_that_another_condition_sets_up(migrate: Check) -> None:
    line = '        with torch.amp.autocast(device_type="cuda", dtype=torch.float16):\n            loss'
    asked = f'        if self.args.backend == "amp":\n{textwrap.indent(line, "    ")}'
    plan = migrate(_BACKENDS.replace(line, asked).replace('if args.backend == "amp":', "if args.native:"))
    reason = "native AMP is set up here under another condition than what chooses it"
    assert "from amp_shim import amp\n" in plan.after
    assert reason in {finding.message.partition(": ")[2] for finding in plan.findings}


def test_what_is_not_come_to_with_native_amp_is_not_come_to_with_apex(migrate: Check) -> None:
    plan = migrate(
        """
        from apex import amp
        def train(model, loader, args):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            scaler = None
            if args.fp16:
                if args.kind == "native":
                    scaler = torch.amp.GradScaler("cuda")
                elif args.kind == "apex":
                    model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
            for x in loader:
                optimizer.zero_grad()
                is_native = args.fp16 and args.kind == "native"
                with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=is_native):
                    loss = model(x).mean()
                if args.fp16:
                    if args.kind == "native":
                        scaler.scale(loss).backward()
                    elif args.kind == "apex":
                        with amp.scale_loss(loss, optimizer) as scaled:
                            scaled.backward()
                else:
                    loss.backward()
                if args.fp16 and args.kind == "native":
                    scaler.step(optimizer)
                    scaler.update()
                else:
                    optimizer.step()
        def evaluate(model, loader, args):
            total = 0
            for i, x in enumerate(loader):
                if args.most > 0 and i >= args.most:
                    break
                is_native = args.fp16 and args.kind == "native"
                with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=is_native):
                    total += model(x).mean().item()
            return total
        """
    )
    assert "apex.amp" not in plan.after
    assert "Apex step folded onto the native AMP that the script has beside it" in {e.message for e in plan.findings}


def test_nothing_trains_where_neither_is_chosen(migrate: Check) -> None:
    plan = migrate(
        """
        from apex import amp
        def train(model, loader, args):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            scaler = None
            if args.fp16:
                if args.kind == "native":
                    scaler = torch.amp.GradScaler("cuda")
                elif args.kind == "apex":
                    model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
            is_native = args.fp16 and args.kind == "native"
            for x in loader:
                optimizer.zero_grad()
                with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=is_native):
                    loss = model(x).mean()
                if is_native:
                    scaler.scale(loss).backward()
                    scaler.step(optimizer)
                    scaler.update()
                elif args.fp16 and args.kind == "apex":
                    with amp.scale_loss(loss, optimizer) as scaled:
                        scaled.backward()
                    optimizer.step()
        """
    )
    assert "apex.amp" not in plan.after
    assert 'is_native = args.fp16 and args.kind in ("native", "apex")' in plan.after
    assert plan.after.endswith("scaler.step(optimizer)\n            scaler.update()\n")


def test_helper_that_gives_the_parameters_of_either(migrate: Check) -> None:
    plan = migrate(
        """
        try:
            from apex import amp
            has_apex = True
        except ImportError:
            has_apex = False

        def parameters(optimizer):
            if has_apex:
                yield from amp.master_params(optimizer)
            else:
                for group in optimizer.param_groups:
                    yield from group["params"]

        def train(model, loader, args):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            if args.kind == "native":
                scaler = torch.amp.GradScaler("cuda")
            elif args.kind == "apex":
                model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
            for x in loader:
                optimizer.zero_grad()
                with torch.amp.autocast("cuda", dtype=torch.float16, enabled=args.kind == "native"):
                    loss = model(x).mean()
                if args.kind == "native":
                    scaler.scale(loss).backward()
                    scaler.unscale_(optimizer)
                elif args.kind == "apex":
                    with amp.scale_loss(loss, optimizer) as scaled:
                        scaled.backward()
                else:
                    loss.backward()
                nn.utils.clip_grad_norm_(parameters(optimizer), 1.0)
                if args.kind == "native":
                    scaler.step(optimizer)
                    scaler.update()
                else:
                    optimizer.step()
        """
    )
    assert "apex.amp" not in plan.after
    assert 'yield from (p for group in optimizer.param_groups for p in group["params"])' in plan.after
    assert [each.code for each in plan.findings if each.code == "AMP290"] == []


_ASKS = "import torch\ndef cast(args):\n    return torch.autocast('cuda', enabled=not args.use_apex)\n"
_PARSES = "import argparse\nargs = argparse.ArgumentParser().parse_args()\nif args.use_apex: print('with Apex')\n"


@pytest.mark.parametrize(
    ("other", "imported", "stays"),
    [(_ASKS, "import other\n", True), (_ASKS, "", True), (_PARSES, "import other\n", True), (_PARSES, "", False)],
)
def test_another_file_that_asks_for_the_choice(other: str, imported: str, stays: bool, tmp_path: Path) -> None:
    script = _SCRIPT.replace("    use_apex = args.apex\n", "").replace("use_apex", "args.use_apex")
    (tmp_path / "train.py").write_text(f"{imported}import torch\nfrom torch import nn\n{script}")
    (tmp_path / "other.py").write_text(other)
    found = {each.message.partition(": ")[2] for each in migrate_paths([tmp_path], Settings()).findings}
    assert ("another file asks whether Apex or native AMP is chosen" in found) is stays


def test_option_that_becomes_a_word_for_one_of_the_two(rewrites: Check) -> None:
    plan = rewrites(
        """
          from functools import partial
          from contextlib import suppress
          from timm.utils import ApexScaler, NativeScaler
          from torch.nn.parallel import DistributedDataParallel as NativeDDP
        - try:
        -     from apex import amp
        -     from apex.parallel import DistributedDataParallel as ApexDDP
        -     from apex.parallel import LARC
        -     has_apex = True
        - except ImportError:
        -     has_apex = False
        + has_apex = True
          has_native_amp = hasattr(torch.cuda, "amp")

          def main(args, model, loader):
              use_amp = None
              if args.apex_amp and has_apex:
                  use_amp = "apex"
              elif args.native_amp and has_native_amp:
                  use_amp = "native"
        -     assert not (args.script and use_amp == "apex"), "no Apex with TorchScript"
              optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
              autocast = suppress
              loss_scaler = None
        -     if use_amp == "apex":
        -         model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
        -         optimizer = LARC(optimizer)
        -         loss_scaler = ApexScaler()
        -         print("mixed precision by Apex")
        -     elif use_amp == "native":
        +     if use_amp in ("native", "apex"):
                  autocast = partial(torch.amp.autocast, device_type="cuda", dtype=torch.float16)
                  loss_scaler = NativeScaler()
                  print("native mixed precision")
              else:
                  print("float32")
        -     if has_apex and use_amp == "apex":
        -         model = ApexDDP(model, delay_allreduce=True)
        -     else:
        -         model = NativeDDP(model, device_ids=[args.rank])
        +     model = NativeDDP(model, device_ids=[args.rank])
              for x in loader:
                  with autocast():
                      loss = model(x).mean()
                  loss_scaler(loss, optimizer)
                  if args.ema:
                      validate(model, loader, autocast)
        """
    )
    told = {(each.code, each.message) for each in plan.findings}
    assert ("AMP202", "amp.initialize is gone: what asked for Apex asks for the script's own native AMP") in told
    assert not any(code in ("AMP310", "AMP301") for code, _ in told)


def test_branches_that_are_all_there_is_and_other_words(rewrites: Check) -> None:
    rewrites(
        """
        - from apex import amp
        -
          def prepare(args, model, optimizer):
        -     if args.amp == "apex":
        -         # Apex wants both
        -         model, optimizer = amp.initialize(model, optimizer, opt_level="O2")
              return model, optimizer
          class Saver:
              def save(self, args, model):
        -         if args.amp == "apex": torch.save(amp.state_dict(), "amp.pt")
        -         torch.save(model.state_dict(), "m.pt")
        +         torch.save(model.state_dict(), "m.pt")
              def only(self, args):
        -         if args.amp == "apex":
        -             amp.load_state_dict(torch.load("amp.pt"))
        +         pass
          def main(args, loader):
              model = nn.Linear(2, 2)
              optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
              model, optimizer = prepare(args, model, optimizer)
        -     scaler = torch.amp.GradScaler("cuda") if args.amp == "native" else None
        -     level = "O1" if args.amp == "apex" else None
        +     scaler = torch.amp.GradScaler("cuda") if args.amp in ("native", "apex") else None
        +     level = None
              for x in loader:
                  optimizer.zero_grad()
        -         with torch.autocast("cuda", dtype=torch.float16, enabled=args.amp == "native"):
        +         with torch.autocast("cuda", dtype=torch.float16, enabled=args.amp in ("native", "apex")):
                      loss = model(x).mean()
        -         if args.amp == "native":
        +         if args.amp in ("native", "apex"):
                      scaler.scale(loss).backward()
                      scaler.step(optimizer)
                      scaler.update()
        -         elif args.amp == "apex":
        -             with amp.scale_loss(loss, optimizer) as scaled:
        -                 scaled.backward()
        -             optimizer.step()
                  elif args.amp in ("none", None):
                      loss.backward()
                      optimizer.step()
                  else:
                      raise ValueError(args.amp)
              print(level)
        """
    )


def test_two_flags(rewrites: Check) -> None:
    rewrites(
        """
          from contextlib import suppress
        - has_apex = False
        - try:
        -     from apex import amp
        -     has_apex = True
        - except ImportError:
        -     pass
        + has_apex = False
        + has_apex = True

          def main(args, model, loader):
              if args.amp and not has_apex:
                  args.native_amp = True
              elif args.amp:
                  args.apex_amp = True
        -     assert not args.apex_amp or not args.native_amp, "only one of both"
              autocast = suppress
        -     if args.native_amp:
        +     if args.native_amp or args.apex_amp:
                  autocast = torch.amp.autocast
                  print("native mixed precision")
        -     elif args.apex_amp:
        -         print("mixed precision by Apex")
              else:
                  print("float32")
        -     if args.apex_amp:
        -         model = amp.initialize(model, opt_level="O1")
        -     if not args.native_amp and args.half:
        +     if not (args.native_amp or args.apex_amp) and args.half:
                  model = model.half()
              for x in loader:
                  with torch.no_grad(), autocast("cuda", dtype=torch.float16):
                      model(x)
        """
    )


def test_a_native_scaler_that_is_restored_beside_a_branch_of_apex_that_restores_nothing(migrate: Check) -> None:
    restored = 'scaler = torch.amp.GradScaler("cuda")\n        scaler.load_state_dict(torch.load("scaler.pt"))\n'
    script = _SCRIPT.replace('scaler = torch.amp.GradScaler("cuda")\n', restored)
    assert '\n    scaler.load_state_dict(torch.load("scaler.pt"))\n' in migrate(script).after


def test_shim_that_was_asked_for_keeps_the_branches(migrate: Check) -> None:
    assert "    with amp.scale_loss(loss, optimizer)" in migrate(_SCRIPT, apex=Apex.SHIM).after


def test_one_name_for_the_amp_of_both(rewrites: Check) -> None:
    rewrites(
        """
        - if args.backend == "native":
        + if args.backend in ("native", "apex"):
        -     from torch.cuda import amp
        +     from torch import amp
        - elif args.backend == "apex":
        -     from apex import amp
          MODEL
        - if args.backend == "native":
        -     scaler = amp.GradScaler()
        - elif args.backend == "apex":
        -     model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
        + if args.backend in ("native", "apex"):
        +     scaler = amp.GradScaler("cuda")
          for x in loader:
              optimizer.zero_grad()
        -     if args.backend == "native":
        -         with amp.autocast():
        +     if args.backend in ("native", "apex"):
        +         with amp.autocast(device_type="cuda", dtype=torch.float16):
                      loss = model(x).mean()
                  scaler.scale(loss).backward()
                  scaler.step(optimizer)
                  scaler.update()
        -     elif args.backend == "apex":
        -         loss = model(x).mean()
        -         with amp.scale_loss(loss, optimizer) as scaled_loss:
        -             scaled_loss.backward()
        -         optimizer.step()
        """
    )


def test_flag_of_native_amp_that_leaves_apex_where_it_is_false(rewrites: Check) -> None:
    plan = rewrites(
        """
        - try:
        -     from apex import amp
        - except ImportError:
        -     amp = None
        -
          def main(args, loader):
              MODEL
              scaler = None
              if args.fp16:
        -         if args.native:
        -             scaler = torch.amp.GradScaler("cuda")
        -         else:
        -             model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
        +         scaler = torch.amp.GradScaler("cuda")
              for x in loader:
                  optimizer.zero_grad()
        -         if args.fp16 and args.native:
        +         if args.fp16:
                      with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                          loss = model(x).mean()
                  else:
                      loss = model(x).mean()
                  if args.fp16:
        -             if args.native:
        -                 scaler.scale(loss).backward()
        -                 scaler.unscale_(optimizer)
        -                 nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        -                 scaler.step(optimizer)
        -                 scaler.update()
        -             else:
        -                 with amp.scale_loss(loss, optimizer) as scaled_loss:
        -                     scaled_loss.backward()
        -                 nn.utils.clip_grad_norm_(amp.master_params(optimizer), 1.0)
        -                 optimizer.step()
        +             scaler.scale(loss).backward()
        +             scaler.unscale_(optimizer)
        +             nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        +             scaler.step(optimizer)
        +             scaler.update()
                  else:
                      loss.backward()
                      nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                      optimizer.step()
        """
    )
    told = {each.message for each in plan.findings if each.code == "AMP210"}
    assert "args.native chooses nothing any more: native AMP is what there is" in told


def test_apex_in_the_else_of_native_amp_with_a_parameter_that_is_kept(rewrites: Check) -> None:
    rewrites(
        """
        - from apex import amp
        -
          class Engine:
              def __init__(self, model, optimizer, use_apex=False, use_amp=False):
                  self.model, self.optimizer = model, optimizer
                  self.use_amp = use_amp
                  self.use_apex = use_apex
        -         if use_amp:
        +         if use_amp or use_apex:
                      self.scaler = torch.amp.GradScaler("cuda")
        -         if self.use_apex:
        -             self.model, self.optimizer = amp.initialize(self.model, self.optimizer)
              def step(self, x):
        -         if self.use_amp:
        +         if self.use_amp or self.use_apex:
                      with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                          loss = self.model(x).mean()
                      self.scaler.scale(loss).backward()
                      self.scaler.step(self.optimizer)
                      self.scaler.update()
                  else:
                      loss = self.model(x).mean()
        -             if self.use_apex:
        -                 with amp.scale_loss(loss, self.optimizer) as scaled_loss:
        -                     scaled_loss.backward()
        -                 nn.utils.clip_grad_norm_(amp.master_params(self.optimizer), 1.0)
        -             else:
        -                 loss.backward()
        -                 nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        +             loss.backward()
        +             nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                      self.optimizer.step()
        """
    )


def test_native_amp_where_apex_is_missing(rewrites: Check) -> None:
    rewrites(
        """
        - try:
        -     from apex import amp
        -     APEX = True
        - except ImportError:
        -     from torch.amp import GradScaler, autocast
        -     APEX = False
        + from torch.amp import GradScaler, autocast
        + APEX = False

          def main(loader):
              MODEL
        -     if APEX:
        -         model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
        -     else:
        -         scaler = GradScaler("cuda")
        +     scaler = GradScaler("cuda")
              for x in loader:
                  optimizer.zero_grad()
        -         if APEX:
        -             loss = model(x).mean()
        -             with amp.scale_loss(loss, optimizer) as scaled_loss:
        -                 scaled_loss.backward()
        -             optimizer.step()
        -         else:
        -             with autocast("cuda", dtype=torch.float16):
        -                 loss = model(x).mean()
        -             scaler.scale(loss).backward()
        -             scaler.step(optimizer)
        -             scaler.update()
        +         with autocast("cuda", dtype=torch.float16):
        +             loss = model(x).mean()
        +         scaler.scale(loss).backward()
        +         scaler.step(optimizer)
        +         scaler.update()
        """
    )


def test_flag_of_native_amp_in_enabled_counts_what_chose_apex(rewrites: Check) -> None:
    rewrites(
        """
        - from apex import amp
        -
          def main(args, loader):
              MODEL
        -     scaler = torch.amp.GradScaler("cuda", enabled=args.native)
        -     if args.apex:
        -         model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
        +     scaler = torch.amp.GradScaler("cuda", enabled=args.native or args.apex)
              for x in loader:
                  optimizer.zero_grad()
        -         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=args.native):
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=args.native or args.apex):
                      loss = model(x).mean()
        -         if args.apex:
        -             with amp.scale_loss(loss, optimizer) as scaled_loss:
        -                 scaled_loss.backward()
        -             optimizer.step()
        -         else:
        -             scaler.scale(loss).backward()
        -             scaler.step(optimizer)
        -             scaler.update()
        +         scaler.scale(loss).backward()
        +         scaler.step(optimizer)
        +         scaler.update()
        """
    )


_AT_A_LEVEL = """
from apex import amp
MORE
def train(model, loader, with_apex=False, mixed=True, other=False):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if with_apex:
        model, optimizer = amp.initialize(model, optimizer, LEVEL)
    scaler = torch.amp.GradScaler("cuda", enabled=mixed)
    for x in loader:
        optimizer.zero_grad()
        if with_apex:
            loss = model(x).mean()
        else:
            with torch.amp.autocast("cuda", dtype=torch.float16, enabled=mixed):
                loss = model(x).mean()
        if with_apex:
            APEX_STEP
        else:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        LAST
"""


@pytest.mark.parametrize(
    ("level", "enabled"),
    [
        ('opt_level="O2" if mixed else "O0"', "mixed"),
        ('opt_level="O0" if not mixed else "O1"', "mixed"),
        ("enabled=mixed", "mixed"),
        ('opt_level="O1"', "mixed or with_apex"),
        ('opt_level="O1" if mixed else "O2"', "mixed or with_apex"),
        ('opt_level="O2" if other else "O0"', ""),
    ],
)
def test_native_amp_is_on_where_the_level_of_apex_was(level: str, enabled: str, migrate: Check) -> None:
    after = migrate(_AT_A_LEVEL.replace("LEVEL", level).replace("MORE", "").replace("LAST", "pass")).after
    assert after.count(f"enabled={enabled})") == (2 if enabled else 0)
    assert ("amp_shim" in after) is (not enabled)


_INFERS = """
import torch
from apex import amp
def infer(model, {word}=False):
    if {word}:
        model = amp.initialize(model, opt_level="O2")
    with torch.no_grad():
        return model(torch.randn(2, 4).cuda())
"""


@pytest.mark.parametrize(
    ("infers", "called", "moves"),
    [
        (_INFERS.format(word="with_apex"), "infer(model, with_apex=with_apex)", True),
        (_INFERS.format(word="with_apex"), "infer(model, with_apex)", True),
        # Where it is asked for by another name, or in a file that has nothing of Apex, nothing would be answered.
        (_INFERS.format(word="fast"), "infer(model, fast=with_apex)", False),
        ("def infer(model, with_apex):\n    print(with_apex)\n", "infer(model, with_apex)", False),
        (_INFERS.format(word="with_apex"), "print(with_apex)", False),
    ],
)
def test_a_choice_that_is_passed_on_is_answered_where_it_is_asked(
    infers: str, called: str, moves: bool, tmp_path: Path
) -> None:
    text = _AT_A_LEVEL.replace("LEVEL", 'opt_level="O2" if mixed else "O0"')
    text = text.replace("MORE", "from infer import infer").replace("LAST", called)
    step = "with amp.scale_loss(loss, optimizer) as scaled: scaled.backward()\n            optimizer.step()"
    (tmp_path / "train.py").write_text("import torch\n" + text.replace("APEX_STEP", step))
    (tmp_path / "infer.py").write_text(infers)
    after = {each.source.path.stem: each.after for each in migrate_paths([tmp_path], Settings()).changed}
    assert ("amp_shim" not in after["train"]) is moves
    assert ("enabled=mixed" in after["train"] and "scale_loss" not in after["train"]) is moves
    if moves:
        assert "apex" not in after["infer"].replace("with_apex", "")
        assert called in after["train"]


_IN_FLOAT32 = """
try:
    from torch.amp import GradScaler, autocast
    NATIVE = True
except ImportError:
    from apex import amp
    NATIVE = False
def main(args, loader):
    MODEL
    if args.fp16 and not NATIVE:
        model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
    scaler = GradScaler("cuda", enabled=args.fp16) if NATIVE else None
    for x in loader:
        optimizer.zero_grad()
        if NATIVE:
            with autocast("cuda", dtype=torch.float16, enabled=args.fp16):
                loss = model(x).mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            loss = model(x).mean()
            if args.fp16:
                APEX_STEP
            else:
                loss.backward()
                optimizer.step()
"""


@pytest.mark.parametrize(
    ("enabled", "moves"), [(", enabled=args.fp16", True), ("", False), (", enabled=args.half", False)]
)
def test_what_apex_left_in_float32_stays_there(enabled: str, moves: bool, migrate: Check) -> None:
    plan = migrate(_IN_FLOAT32.replace(", enabled=args.fp16", enabled))
    assert ("scale_loss" not in plan.after) is moves
    assert ("if NATIVE" not in plan.after) is moves
    assert not any("internal" in each.message for each in plan.findings)


CHAIN = """
  class T:
      def __init__(self, model, params):
          self.params = params
          self.model = model
          self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
          if params.level >= 0:
              self.init_amp()
      def init_amp(self):
          params = self.params
-         if {test}:
-             self.model, self.optimizer = amp.initialize(self.model, self.optimizer)
-         else:
-             self.scaler = torch.amp.GradScaler("cuda")
+         self.scaler = torch.amp.GradScaler("cuda")
      def go_back(self, loss):
          params = self.params
          if params.level == -1:
              loss.backward()
              self.optimizer.step()
-         elif {test}:
-             with amp.scale_loss(loss, self.optimizer) as scaled:
-                 scaled.backward()
-             self.optimizer.step()
          else:
              self.scaler.scale(loss).backward()
              self.scaler.step(self.optimizer)
              self.scaler.update()
      def step(self, x):
          self.optimizer.zero_grad()
-         if self.params.level == -1 or self.params.nvidia:
+         if self.params.level == -1:
              loss = self.model(x).mean()
          else:
              with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                  loss = self.model(x).mean()
          self.go_back(loss)
"""


@pytest.mark.parametrize("test", ["params.nvidia is True", "params.nvidia == True", "params.nvidia"])
def test_flag_is_what_a_test_means_whatever_it_looks_like(test: str, rewrites: Check) -> None:
    """One of three ways, chosen by what the object has under another name."""
    rewrites(f"- from apex import amp{CHAIN.format(test=test)}")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # Where something else is called so, nobody knows that the tests ask for the same.
        ("params = self.params\n", "params = self.params if self.params else load()\n"),
        # Native AMP that is set up under another condition than what chooses it.
        ("self.params.level == -1 or self.params.nvidia", "self.params.level == -1 or self.params.other"),
        ("params.nvidia is True", "params.nvidia is not True"),
    ],
)
def test_what_may_be_another_choice_stays_on_the_shim(old: str, new: str, migrate: Check) -> None:
    lines = [each for each in CHAIN.format(test="params.nvidia is True").splitlines() if not each.startswith("+")]
    text = textwrap.dedent("\n".join(f" {each[1:]}" for each in lines))
    plan = migrate(f"import torch\nfrom apex import amp\n{text.replace(old, new)}\n")
    assert "from amp_shim import amp\n" in plan.after


MEMBERS = """
  import enum
  class Kind(enum.Enum):
      APEX = "apex"
      TORCH = "torch"
  class T:
      def __init__(self, model, args):
          self.model = model
          self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
          self.kind = None
          self.scaler = None
          if args.mixed:
              self.kind = Kind(args.kind)
-             if self.kind == Kind.TORCH:
+             if self.kind in (Kind.TORCH, Kind.APEX):
                  self.scaler = torch.amp.GradScaler("cuda")
-         if self.kind == Kind.APEX:
-             self.model, self.optimizer = amp.initialize(self.model, self.optimizer)
      def step(self, x):
          self.optimizer.zero_grad()
-         if self.kind == Kind.TORCH:
+         if self.kind in (Kind.TORCH, Kind.APEX):
              with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                  loss = self.model(x).mean()
          else:
              loss = self.model(x).mean()
-         if self.kind == Kind.APEX:
-             with amp.scale_loss(loss, self.optimizer) as scaled:
-                 scaled.backward()
-             self.optimizer.step()
-         elif self.kind == Kind.TORCH:
+         if self.kind in (Kind.TORCH, Kind.APEX):
              self.scaler.scale(loss).backward()
              self.scaler.step(self.optimizer)
              self.scaler.update()
          else:
              loss.backward()
              self.optimizer.step()
"""


def test_members_of_an_enumeration_are_constants(rewrites: Check) -> None:
    """The scaler is made under `args.mixed` alone, which is so wherever the choice has a value."""
    rewrites(f"- from apex import amp{MEMBERS}")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("class Kind(enum.Enum)", "class Kind(Settings)"),  # its attributes may be anything
        ("self.kind = None", "self.kind = args.default"),  # Apex may be chosen without `args.mixed`
    ],
)
def test_choice_that_is_not_by_members_or_is_made_elsewhere_stays_on_the_shim(
    old: str, new: str, migrate: Check
) -> None:
    lines = [each for each in MEMBERS.splitlines() if not each.startswith("+")]
    text = textwrap.dedent("\n".join(f" {each[1:]}" for each in lines))
    plan = migrate(f"import torch\nfrom apex import amp\n{text.replace(old, new)}\n")
    assert "from amp_shim import amp\n" in plan.after


RAISING = """\
              if args.sharded:
-                 if self.kind == Kind.APEX:
-                     raise ValueError("sharded, and Apex")
+                 pass
-             elif self.kind == Kind.TORCH:
+             elif self.kind in (Kind.TORCH, Kind.APEX):
"""
IN_BRANCHES = MEMBERS.replace(
    """\
-             if self.kind == Kind.TORCH:
+             if self.kind in (Kind.TORCH, Kind.APEX):
""",
    RAISING,
    1,
)


def test_native_amp_behind_what_raises_with_apex(rewrites: Check) -> None:
    """Wherever Apex is chosen, `args.sharded` is not so."""
    rewrites(f"- from apex import amp{IN_BRANCHES}")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "if self.kind == Kind.APEX:\n                    raise",
            "if self.kind == Kind.TORCH:\n                    raise",
        ),
        ('raise ValueError("sharded, and Apex")', 'print("sharded, and Apex")'),
        (
            "if self.kind == Kind.APEX:\n                    raise",
            "if args.own and args.kind:\n                    raise",
        ),
        (
            'raise ValueError("sharded, and Apex")',
            "try:\n                        raise ValueError()\n                    except ValueError:\n"
            "                        pass",
        ),
    ],
)
def test_what_does_not_raise_with_apex_is_another_condition(old: str, new: str, migrate: Check) -> None:
    lines = [each for each in IN_BRANCHES.splitlines() if not each.startswith("+")]
    text = textwrap.dedent("\n".join(f" {each[1:]}" for each in lines))
    assert old in text
    plan = migrate(f"import torch\nfrom apex import amp\n{text.replace(old, new)}\n")
    assert "from amp_shim import amp\n" in plan.after


def test_choice_that_is_kept_beside_other_things(rewrites: Check) -> None:
    rewrites(
        """
        - from apex import amp
        -
          class T:
              def __init__(self, model, kind):
                  self.model, self.kind = model, kind
                  self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        -         if kind == "apex":
        -             self.model, self.optimizer = amp.initialize(self.model, self.optimizer)
        -         self.scaler = torch.amp.GradScaler("cuda") if kind == "torch" else None
        +         self.scaler = torch.amp.GradScaler("cuda") if kind in ("torch", "apex") else None
              def step(self, x):
                  self.optimizer.zero_grad()
        -         if self.kind == "torch":
        +         if self.kind in ("torch", "apex"):
                      with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                          loss = self.model(x).mean()
                      self.scaler.scale(loss).backward()
                      self.scaler.step(self.optimizer)
                      self.scaler.update()
                  else:
                      loss = self.model(x).mean()
        -             if self.kind == "apex":
        -                 with amp.scale_loss(loss, self.optimizer) as scaled:
        -                     scaled.backward()
        -             else:
        -                 loss.backward()
        +             loss.backward()
                      self.optimizer.step()
        """
    )


def test_enabled_that_is_a_part_of_the_flag_of_mixed_precision(rewrites: Check) -> None:
    rewrites(
        """
        - from apex import amp
        -
          class T:
              def __init__(self, model, config):
                  self.model, self.config = model, config
                  self.use_apex = has_apex()
                  self.mixed = self.config.mixed and self.config.cuda
                  self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                  if self.mixed:
        -             if self.use_apex:
        -                 self.model, self.optimizer = amp.initialize(self.model, self.optimizer)
                      self.scaler = torch.amp.GradScaler("cuda")
              def step(self, x, config):
                  with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=config.mixed):
                      loss = self.model(x).mean()
                  if self.mixed:
        -             if self.use_apex:
        -                 with amp.scale_loss(loss, self.optimizer) as scaled_loss:
        -                     scaled_loss.backward()
        -                 norm = nn.utils.clip_grad_norm_(amp.master_params(self.optimizer), 1.0)
        -             else:
        -                 self.scaler.scale(loss).backward()
        -                 self.scaler.step(self.optimizer)
        -                 self.scaler.update()
        +             self.scaler.scale(loss).backward()
        +             self.scaler.step(self.optimizer)
        +             self.scaler.update()
                  else:
                      loss.backward()
                      self.optimizer.step()
        """
    )


TWICE = """
from apex import amp

class Trainer:
    def __init__(self, args, model):
        self.use_apex = self.use_amp = False
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        if args.fp16:
            if args.backend == "amp":
                self.use_amp = True
                self.scaler = torch.amp.GradScaler("cuda")
            else:
                self.use_apex = True
        if self.use_apex:
            self.model, self.optimizer = amp.initialize(self.model, self.optimizer)

    def step(self, x, y):
        if self.use_amp:
            with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                loss = nn.functional.mse_loss(self.model(x), y)
                {inside}
            {native}
        else:
            loss = nn.functional.mse_loss(self.model(x), y)
            {other}
        if self.use_amp:
            self.scaler.scale(loss).backward()
        elif self.use_apex:
            with amp.scale_loss(loss, self.optimizer) as scaled_loss:
                scaled_loss.backward()
        else:
            loss.backward()
        if self.use_amp:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            self.optimizer.step()
        self.optimizer.zero_grad()
"""
HALVED, PENALTY = "loss = loss / 2", "loss = loss + 0.3 * self.model.weight.pow(2).mean()"


@pytest.mark.parametrize(
    ("inside", "native", "other", "moves"),
    [
        ("pass", "pass", "pass", True),
        (HALVED, "pass", HALVED, True),
        ("pass", HALVED, HALVED, True),
        ("pass", "count += 1", "other_count += 1", True),
        ("pass", "pass", PENALTY, False),
        (HALVED, "pass", "pass", False),
        ("pass", HALVED, PENALTY, False),
    ],
)
def test_native_amp_that_computes_another_loss_keeps_apex(
    migrate: Check, inside: str, native: str, other: str, moves: bool
) -> None:
    plan = migrate(TWICE.format(inside=inside, native=native, other=other))
    is_told = any("native AMP computes something else here" in each.message for each in plan.findings)
    assert ("amp.scale_loss" in plan.after, is_told) == (not moves, not moves)


@pytest.mark.parametrize(("native", "moves"), [("self.scaler.step(self.other)", True), ("pass", False)])
def test_native_amp_that_leaves_out_an_optimizer_keeps_apex(migrate: Check, native: str, moves: bool) -> None:
    text = TWICE.format(inside="pass", native="pass", other="pass")
    for step, beside in (("self.optimizer.step()", "self.other.step()"), ("self.scaler.step(self.optimizer)", native)):
        text = text.replace(f"{step}\n", f"{step}\n            {beside}\n")
    plan = migrate(text)
    is_told = any("native AMP leaves out an optimizer here" in each.message for each in plan.findings)
    assert ("amp.scale_loss" in plan.after, is_told) == (not moves, not moves)


def test_plain_step_beside_what_is_folded_onto_native_amp(rewrites: Check) -> None:
    plan = rewrites(
        """
        - from apex import amp
        -
          def warm(model, loader):
              optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
              for x in loader:
                  optimizer.zero_grad()
                  loss = model(x).mean()
        +         # amp-migrate: ignore[AMP501] (float32: Apex did not scale it)
                  loss.backward()
                  optimizer.step()

          def main(args, model, loader):
              optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        -     if args.amp == "apex":
        -         model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
        -     elif args.amp == "native":
        +     if args.amp in ("native", "apex"):
                  scaler = torch.amp.GradScaler("cuda")
              for x in loader:
                  optimizer.zero_grad()
        -         if args.amp == "apex":
        -             loss = model(x).mean()
        -             with amp.scale_loss(loss, optimizer) as scaled_loss:
        -                 scaled_loss.backward()
        -             optimizer.step()
        -         elif args.amp == "native":
        +         if args.amp in ("native", "apex"):
                      with torch.autocast(device_type="cuda", dtype=torch.float16):
                          loss = model(x).mean()
                      scaler.scale(loss).backward()
                      scaler.step(optimizer)
                      scaler.update()
        """
    )
    assert any(each.message.startswith("step left in float32") for each in plan.findings)


def test_a_training_behind_it_that_is_native_already(rewrites: Check) -> None:
    rewrites(
        """
        - from apex import amp
          MODEL
        - model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
        + scaler = torch.amp.GradScaler("cuda")
          for x in loader:
              optimizer.zero_grad()
        -     loss = model(x).mean()
        -     with amp.scale_loss(loss, optimizer) as scaled:
        -         scaled.backward()
        -     optimizer.step()
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +         loss = model(x).mean()
        +     scaler.scale(loss).backward()
        +     scaler.step(optimizer)
        +     scaler.update()

          MODEL
          grad_scaler = torch.amp.GradScaler("cuda")
          for x in loader:
              optimizer.zero_grad()
              with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                  loss = model(x).mean()
              grad_scaler.scale(loss).backward()
              grad_scaler.step(optimizer)
              grad_scaler.update()
        """
    )


def test_one_loop_that_does_both(migrate: Check) -> None:
    plan = migrate(
        """
        from apex import amp
        MODEL
        scaler = torch.amp.GradScaler("cuda")
        model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
        for x in loader:
            optimizer.zero_grad()
            with amp.scale_loss(model(x).mean(), optimizer) as scaled:
                scaled.backward()
            scaler.scale(model(x).mean()).backward()
            optimizer.step()
        """
    )
    assert "with amp.scale_loss(" in plan.after
    assert any("Apex and native AMP stand side by side in one step" in each.message for each in plan.findings)


SYNCHRONIZED = """
- from apex import amp
- from apex.parallel import convert_syncbn_model
-
  def main(args):
      model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
      if args.apex:
-         model = convert_syncbn_model(model)
+         model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
      model.cuda()
      optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
-     if args.apex:
-         model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
-     elif args.distributed:
+     if args.distributed:
          model = nn.parallel.DistributedDataParallel(model)
-     scaler = torch.amp.GradScaler("cuda") if args.amp else None
+     scaler = torch.amp.GradScaler("cuda") if args.amp or args.apex else None
      for x in loader:
-         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=args.amp):
+         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=args.amp or args.apex):
              loss = model(x).mean()
          optimizer.zero_grad()
-         if args.apex:
-             with amp.scale_loss(loss, optimizer) as scaled_loss:
-                 scaled_loss.backward()
-             optimizer.step()
-         elif args.amp:
+         if args.amp or args.apex:
              scaler.scale(loss).backward()
              scaler.step(optimizer)
              scaler.update()
          else:
              loss.backward()
              optimizer.step()
"""


def test_batch_norms_are_synchronized_where_they_were(rewrites: Check) -> None:
    rewrites(SYNCHRONIZED)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "    model = convert_syncbn_model(model)\n",
            "    print('Apex')\n        model = convert_syncbn_model(model)\n",
        ),
        (
            "    if args.apex:\n        model = convert_syncbn_model(model)\n",
            "    model = convert_syncbn_model(model) if args.apex else model\n",
        ),
    ],
)
def test_batch_norms_that_only_apex_synchronizes_keep_a_script_on_the_shim(migrate: Check, old: str, new: str) -> None:
    text = "\n".join(each[2:] for each in SYNCHRONIZED.splitlines() if not each.startswith("+"))
    assert old in text
    told = [each.message for each in migrate(text.replace(old, new)).findings if each.code == "AMP290"]
    assert any("batch norms are synchronized with Apex, and not with native AMP" in each for each in told)
