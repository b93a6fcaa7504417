"""Apex's state in checkpoints: the scaler's takes its place, and old checkpoints still load."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from amp_migrate.engine.migrate import migrate as migrate_paths
from amp_migrate.settings import Apex, Settings

Check = Callable[..., Any]


def test_restored_where_the_checkpoint_has_it(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          MODEL
        ~ INITIALIZE
          if args.resume:
              checkpoint = torch.load(args.resume)
        -     amp.load_state_dict(checkpoint["amp"])
        +     if checkpoint.get("scaler"):
        +         scaler.load_state_dict(checkpoint["scaler"])
        ~ APEX_EPOCH
        """
    )


def test_test_of_the_checkpoint_asks_for_the_scaler(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          MODEL
        - model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
        - if "amp" in checkpoint:
        -     amp.load_state_dict(checkpoint["amp"])
        + scaler = torch.amp.GradScaler("cuda")
        + if checkpoint.get("scaler"):
        +     scaler.load_state_dict(checkpoint["scaler"])
        ~ APEX_EPOCH
        """
    )


def test_restored_under_the_flag_that_initializes(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          MODEL
        + scaler = torch.amp.GradScaler("cuda", enabled=bool(args.fp16))
          if args.fp16:
        -     model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
              if args.resume:
        -         amp.load_state_dict(checkpoint["amp"])
        +         if checkpoint.get("scaler"):
        +             scaler.load_state_dict(checkpoint["scaler"])
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
              optimizer.zero_grad()
        """
    )


RESTORING_MAKER = """
        ~ APEX
        - def prepare(model, checkpoint):
        + def prepare(model, checkpoint, scaler):
              optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        -     model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
              schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3)
              if checkpoint:
                  optimizer.load_state_dict(checkpoint["optimizer"])
        -         amp.load_state_dict(checkpoint["amp"])
        +         if checkpoint.get("scaler"):
        +             scaler.load_state_dict(checkpoint["scaler"])
              return optimizer, schedule

          def train(model, loader, checkpoint):
        -     optimizer, schedule = prepare(model, checkpoint)
        +     scaler = torch.amp.GradScaler("cuda")
        +     optimizer, schedule = prepare(model, checkpoint, scaler)
        ~     APEX_EPOCH

          train(nn.Linear(2, 2), loader, torch.load("last.pt"))
"""


def test_restored_by_the_function_that_makes_the_optimizer(rewrites: Check) -> None:
    rewrites(RESTORING_MAKER)


@pytest.mark.parametrize(
    ("line", "instead"),
    [
        ("def prepare(model, checkpoint):", "@timed\n        - def prepare(model, checkpoint):"),
        (
            "  train(nn.Linear(2, 2),",
            "  print(list(map(prepare, [nn.Linear(2, 2)], [None])))\n          train(nn.Linear(2, 2),",
        ),
        (
            "  train(nn.Linear(2, 2),",
            "  optimizer, _ = prepare(nn.Linear(2, 2), None)\n          train(nn.Linear(2, 2),",
        ),
    ],
    ids=["decorated", "passed", "called-for-something-else"],
)
def test_restored_by_a_function_that_others_call_too(line: str, instead: str, migrate: Check) -> None:
    text = "\n".join(each[10:] for each in RESTORING_MAKER.replace(line, instead).splitlines() if each[8:9] != "+")
    assert "from amp_shim import amp\n" in migrate(text.replace("APEX\n", "from apex import amp\n", 1)).after


def test_entry_of_a_dictionary(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          MODEL
        ~ INITIALIZE
          for x in loader:
        ~     loss = model(x).mean()
        ~     SCALE_LOSS
        -     optimizer.step()
        +     scaler.step(optimizer)
        +     scaler.update()
              optimizer.zero_grad()
        - torch.save({"optimizer": optimizer.state_dict(), "amp": amp.state_dict()}, "last.pt")
        + torch.save({"optimizer": optimizer.state_dict(), "scaler": scaler.state_dict()}, "last.pt")
        """
    )


def test_entry_by_assignment(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          MODEL
        ~ INITIALIZE
        ~ APEX_EPOCH
          state = {}
        - state["amp"] = amp.state_dict()
        + state["scaler"] = scaler.state_dict()
        """
    )


def test_saved_by_a_function_that_is_given_the_optimizer(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
        - def save(model, optimizer):
        -     torch.save({"optimizer": optimizer.state_dict(), "amp": amp.state_dict()}, "last.pt")
        + def save(model, optimizer, scaler):
        +     torch.save({"optimizer": optimizer.state_dict(), "scaler": scaler.state_dict()}, "last.pt")

          def main():
              MODEL
        ~     INITIALIZE
              for x in loader:
        ~         loss = model(x).mean()
        ~         SCALE_LOSS
        -         optimizer.step()
        +         scaler.step(optimizer)
        +         scaler.update()
                  optimizer.zero_grad()
        -     save(model, optimizer)
        +     save(model, optimizer, scaler)
        """
    )


def test_entry_of_a_dictionary_goes_in_bfloat16(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          MODEL
        - model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
          for x in loader:
        ~     loss = model(x).mean()
        -     with amp.scale_loss(loss, optimizer) as scaled_loss:
        -         scaled_loss.backward()
        +     loss.backward()
              optimizer.step()
              optimizer.zero_grad()
        - torch.save({"optimizer": optimizer.state_dict(), "amp": amp.state_dict()}, "last.pt")
        + torch.save({"optimizer": optimizer.state_dict()}, "last.pt")
        """,
        dtype="bf16",
    )


def test_entry_by_assignment_goes_in_bfloat16(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          MODEL
        - model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
          for x in loader:
        ~     loss = model(x).mean()
        -     with amp.scale_loss(loss, optimizer) as scaled_loss:
        -         scaled_loss.backward()
        +     loss.backward()
              optimizer.step()
              optimizer.zero_grad()
          state = {}
        - state["amp"] = amp.state_dict()
        """,
        dtype="bf16",
    )


def test_restoring_goes_in_bfloat16(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          MODEL
        - model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
          if args.resume:
              checkpoint = torch.load(args.resume)
        -     amp.load_state_dict(checkpoint["amp"])
          for x in loader:
        ~     loss = model(x).mean()
        -     with amp.scale_loss(loss, optimizer) as scaled_loss:
        -         scaled_loss.backward()
        +     loss.backward()
              optimizer.step()
              optimizer.zero_grad()
        """,
        dtype="bf16",
    )


def test_tested_restoring_goes_in_bfloat16(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          MODEL
        - model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
        - if "amp" in checkpoint:
        -     amp.load_state_dict(checkpoint["amp"])
          for x in loader:
        ~     loss = model(x).mean()
        -     with amp.scale_loss(loss, optimizer) as scaled_loss:
        -         scaled_loss.backward()
        +     loss.backward()
              optimizer.step()
              optimizer.zero_grad()
        """,
        dtype="bf16",
    )


@pytest.mark.parametrize("dtype", ["fp16", "bf16", "auto"])
@pytest.mark.parametrize("use", ["checkpoint['amp'] = amp.state_dict()", "amp.load_state_dict(checkpoint['amp'])"])
def test_state_of_a_script_that_cannot_be_seen_stays_with_the_shim(rewrites: Check, dtype: str, use: str) -> None:
    plan = rewrites(
        f"""
        - from apex import amp
        + from amp_shim import amp

          def keep(checkpoint):
              {use}
        """,
        dtype=dtype,
    )
    assert any("amp.initialize is not among the files" in finding.message for finding in plan.findings)


RESTORE = """
def restart_from(path, **kwargs):
    checkpoint = torch.load(path)
    for key, value in kwargs.items():
        if key in checkpoint and value is not None:
            value.load_state_dict(checkpoint[key])

"""


def test_module_that_is_passed_to_be_restored_gives_way_to_the_scaler(rewrites: Check) -> None:
    rewrites(
        """
        - import apex
          MODEL
        - model, optimizer = apex.amp.initialize(model, optimizer, opt_level="O1")
        - restart_from("last.pt", state_dict=model, optimizer=optimizer, amp=apex.amp)
        + scaler = torch.amp.GradScaler("cuda")
        + restart_from("last.pt", state_dict=model, optimizer=optimizer, scaler=scaler)
          for x in loader:
        ~     loss = model(x).mean()
        -     with apex.amp.scale_loss(loss, optimizer) as scaled_loss:
        -         scaled_loss.backward()
        +     scaler.scale(loss).backward()
        -     optimizer.step()
        +     scaler.step(optimizer)
        -     state["amp"] = apex.amp.state_dict()
        +     scaler.update()
        +     state["scaler"] = scaler.state_dict()
              optimizer.zero_grad()
        """,
        head=f"import torch\nfrom torch import nn\n{RESTORE}",
    )


def test_module_that_is_passed_for_anything_else_keeps_the_script_on_the_shim(migrate: Check) -> None:
    text = """
from apex import amp

MODEL
INITIALIZE
loss = model(x).mean()
APEX_STEP
report(amp=amp)
"""
    assert "from amp_shim import amp" in migrate(text).after


STEP = """
APEX_EPOCH
"""
SCRIPT = (
    """from apex import amp

model = nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
"""
    + STEP
)


@pytest.mark.parametrize(
    ("saved", "restored", "after"),
    [
        (
            'state = {"amp": amp.state_dict() if args.fp16 else None}',
            'amp.load_state_dict(state["amp"])',
            [
                'state = {"scaler": scaler.state_dict() if args.fp16 else None}',
                'if state.get("scaler"):',
                '    scaler.load_state_dict(state["scaler"])',
            ],
        ),
        (
            "state['amp'] = amp.state_dict()",
            "amp.load_state_dict(state.get('amp'))",
            [
                "state['scaler'] = scaler.state_dict()",
                "if state.get('scaler'):",
                "    scaler.load_state_dict(state['scaler'])",
            ],
        ),
        (
            'state["amp"] = amp.state_dict()',
            'amp.load_state_dict(state.pop("amp"))',
            [
                'state["amp"] = scaler.state_dict()',
                'scaler_state = state.pop("amp")',
                'if "scale" in scaler_state:',
                "    scaler.load_state_dict(scaler_state)",
            ],
        ),
        (
            'torch.save({"amp": amp.state_dict()}, args.path)',
            'amp.load_state_dict(torch.load(args.path)["amp"])',
            [
                'torch.save({"amp": scaler.state_dict()}, args.path)',
                'scaler_state = torch.load(args.path)["amp"]',
                'if "scale" in scaler_state:',
                "    scaler.load_state_dict(scaler_state)",
            ],
        ),
        (
            'state["amp"] = amp.state_dict()',
            'if args.resume and "amp" in state and state["amp"] is not None:\n    amp.load_state_dict(state["amp"])',
            [
                'state["scaler"] = scaler.state_dict()',
                'if args.resume and "scaler" in state and state.get("scaler") is not None:',
                '    if state.get("scaler"):',
                '        scaler.load_state_dict(state["scaler"])',
            ],
        ),
    ],
)
def test_what_is_saved_is_found_again(migrate: Check, saved: str, restored: str, after: list[str]) -> None:
    plan = migrate(f"{SCRIPT}{saved}\n{restored}\n")
    assert plan.after.splitlines()[-len(after) :] == after


@pytest.mark.parametrize(
    ("saved", "restored"),
    [
        ('state = {"amp": amp.state_dict()}', "amp.load_state_dict(*saved)"),
        ('state = {"amp": amp.state_dict()}', "done = amp.load_state_dict(saved)"),
        ('scale = amp.state_dict()["loss_scaler0"]', "amp.load_state_dict(saved)"),
    ],
)
def test_state_whose_key_cannot_be_seen_stays_with_the_shim(migrate: Check, saved: str, restored: str) -> None:
    plan = migrate(f"{SCRIPT}{saved}\n{restored}\n")
    assert plan.after == plan.source.text.replace("from apex", "from amp_shim")
    assert any("in a way that is not understood" in finding.message for finding in plan.findings)


@pytest.mark.parametrize(
    ("saved", "restored", "kept", "source"),
    [
        ("save(path, amp.state_dict())", 'amp.load_state_dict(state["amp"])', "save(path, STATE)", 'state["amp"]'),
        ('state = {"amp": amp.state_dict()}', "amp.load_state_dict(saved)", 'state = {"amp": STATE}', "saved"),
        ("state = dict(amp=amp.state_dict())", "amp.load_state_dict(o.amp)", "state = dict(amp=STATE)", "o.amp"),
    ],
)
def test_state_whose_key_cannot_be_seen_keeps_it_and_says_itself_whose_it_is(
    migrate: Check, saved: str, restored: str, kept: str, source: str
) -> None:
    after = migrate(f"{SCRIPT}{saved}\n{restored}\n").after
    told = f'if "scale" in {source}:\n    scaler.load_state_dict({source})\n'
    assert after.endswith(f"{kept.replace('STATE', 'scaler.state_dict()')}\n{told}")
    plan = migrate(f"{SCRIPT}{saved}\n{restored}\n", "bf16")
    assert plan.after == plan.source.text.replace("from apex", "from amp_shim")


@pytest.mark.torch
def test_what_the_old_state_says_is_no_scalers() -> None:
    torch = pytest.importorskip("torch")
    scaler = torch.amp.GradScaler("cpu")
    assert "scale" in scaler.state_dict()
    assert "scale" not in torch.amp.GradScaler("cpu", enabled=False).state_dict()
    assert "scale" not in {"loss_scaler0": {"loss_scale": 65536.0, "unskipped": 0}}  # Apex's


def test_methods_of_an_object_save_and_restore_its_scaler(migrate: Check) -> None:
    text = """
        from apex import amp

        class Trainer:
            def __init__(self, model):
                self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                self.model, self.optimizer = amp.initialize(model, self.optimizer)

            def amp_state(self):
                return amp.state_dict()

            def load_amp(self, state):
                amp.load_state_dict(state)

            def step(self, x):
                self.optimizer.zero_grad()
                loss = self.model(x).mean()
                with amp.scale_loss(loss, self.optimizer) as scaled:
                    scaled.backward()
                self.optimizer.step()
        """
    after = migrate(text).after
    assert "        return self.scaler.state_dict()\n" in after
    assert '        if "scale" in state:\n            self.scaler.load_state_dict(state)\n' in after


def test_state_that_nothing_restores_may_be_kept_anywhere(migrate: Check) -> None:
    assert migrate(f"{SCRIPT}save(path, amp.state_dict())\n").after.endswith("save(path, scaler.state_dict())\n")


def test_scaler_is_saved_with_the_optimizer_where_apex_was_not(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          def train(args, model, loader):
              optimizer = torch.optim.AdamW(model.parameters())
        -     model, optimizer = amp.initialize(model, optimizer)
        +     scaler = torch.amp.GradScaler("cuda")
              for x, y in loader:
        ~         loss = nn.functional.cross_entropy(model(x), y)
        ~         APEX_STEP
                  model.zero_grad()
        -         state = {"optimizer": optimizer.state_dict(), "x": 1}
        +         state = {"optimizer": optimizer.state_dict(), "scaler": scaler.state_dict(), "x": 1}
                  torch.save(state, "resume.bin")
        """
    )


def test_a_saver_that_nobody_gives_an_optimizer(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          class Saver:
              def save(self, model, optimizer=None):
                  state = {"model": model.state_dict()}
                  if optimizer is not None:
                      state["optimizer"] = optimizer.state_dict()
                  torch.save(state, "model.pt")
          def main(loader):
              MODEL
              saver = Saver()
        ~     INITIALIZE
        ~     APEX_EPOCH
              saver.save(model)
        """
    )


def test_an_optimizer_that_is_restored_before_it_is_prepared(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
        - def resume(model, optimizer):
        + def resume(model, optimizer, scaler):
              state = torch.load("model.pt")
              model.load_state_dict(state["model"])
              optimizer.load_state_dict(state["optimizer"])
        +     if state.get("scaler"):
        +         scaler.load_state_dict(state["scaler"])
          def main(loader):
              MODEL
        -     resume(model, optimizer)
        -     model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
        +     scaler = torch.amp.GradScaler("cuda")
        +     resume(model, optimizer, scaler)
        ~     APEX_EPOCH
              state = {"model": model.state_dict()}
              state["optimizer"] = optimizer.state_dict()
        +     state["scaler"] = scaler.state_dict()
              torch.save(state, "model.pt")
        """
    )


def test_object_that_saves_an_optimizer_which_it_is_given(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          class Restorer:
        -     def __init__(self, opts, model, optimizer):
        +     def __init__(self, opts, model, optimizer, scaler):
                  self.model, self.optimizer, self.mixed = model, optimizer, opts.fp16
        +         self.scaler = scaler
              def save(self):
                  state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
                  if self.mixed:
        -             state["amp_state"] = amp.state_dict()
        +             state["scaler"] = self.scaler.state_dict()
                  torch.save(state, "last.pt")
              def restore(self):
                  state = torch.load("last.pt")
                  self.model.load_state_dict(state["model"])
                  self.optimizer.load_state_dict(state["optimizer"])
                  if self.mixed:
        -             amp.load_state_dict(state["amp_state"])
        +             if state.get("scaler"):
        +                 self.scaler.load_state_dict(state["scaler"])
          def main(opts, loader):
              MODEL
        ~     INITIALIZE
        -     restorer = Restorer(opts, model, optimizer)
        +     restorer = Restorer(opts, model, optimizer, scaler)
        ~     APEX_EPOCH
              restorer.save()
        """
    )


def test_object_that_makes_the_optimizer_which_another_steps_and_saves(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          class Solver:
              def __init__(self, args):
                  self.net = nn.Linear(2, 2)
                  self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
        -         if args.fp16:
        -             self.net, self.optimizer = amp.initialize(self.net, self.optimizer, opt_level="O1")
        +         self.scaler = torch.amp.GradScaler("cuda", enabled=bool(args.fp16))
          class Runner:
              def __init__(self, args):
                  self.args = args
              def run(self, own, loader):
                  for x in loader:
                      own.optimizer.zero_grad()
        -             loss = own.net(x).mean()
        -             if self.args.fp16:
        -                 with amp.scale_loss(loss, own.optimizer) as scaled_loss:
        -                     scaled_loss.backward()
        -             else:
        -                 loss.backward()
        -             own.optimizer.step()
        +             with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=own.scaler.is_enabled()):
        +                 loss = own.net(x).mean()
        +             own.scaler.scale(loss).backward()
        +             own.scaler.step(own.optimizer)
        +             own.scaler.update()
                  state = {"net": own.net.state_dict(), "optimizer": own.optimizer.state_dict()}
                  if self.args.fp16:
        -             state["amp"] = amp.state_dict()
        +             state["scaler"] = own.scaler.state_dict()
                  torch.save(state, "last.pt")
          def main(args, loader):
              Runner(args).run(Solver(args), loader)
        """
    )


@pytest.mark.parametrize("given", ["optimizer if args.whole else None", "None if args.weights else optimizer"])
def test_the_scaler_goes_where_the_optimizer_may_be_left_out(given: str, migrate: Check) -> None:
    after = migrate(f"""
        from apex import amp

        def resume(model, optimizer, path):
            state = torch.load(path)
            if optimizer is not None:
                optimizer.load_state_dict(state["optimizer"])
            amp.load_state_dict(state["amp"])

        def main(args, loader):
            model = nn.Linear(2, 2)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
            resume(model, {given}, args.path)
            for x in loader:
                loss = model(x).mean()
                with amp.scale_loss(loss, optimizer) as scaled_loss:
                    scaled_loss.backward()
                optimizer.step()
                optimizer.zero_grad()
        """).after
    assert f"resume(model, {given}, scaler, args.path)" in after
    assert 'scaler.load_state_dict(state["scaler"])' in after


TRAINS = """
import torch
from apex import amp

def train(model, loader, path):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
    for x in loader:
        optimizer.zero_grad()
        loss = model(x).mean()
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
        optimizer.step()
    torch.save({"model": model.state_dict(), "amp_state": amp.state_dict()}, path)
"""
READS = """
import torch
from apex import amp

def evaluate(model, path, x):
    model = amp.initialize(model, opt_level="O1")
    checkpoint = torch.load(path)
    model.load_state_dict(checkpoint["model"])
    {}
    return model(x)
"""


def train_and_evaluate(folder: Path, restored: str, settings: Settings) -> tuple[str, str, list[str]]:
    """Both scripts after a run, and what is said: one saves Apex's state, the other one restores it."""
    (folder / "train.py").write_text(TRAINS)
    (folder / "evaluate.py").write_text(READS.format(restored))
    found = migrate_paths([folder], settings)
    after = {each.source.path.name: each.after for each in found.plans}
    return after["train.py"], after["evaluate.py"], [each.message for each in found.findings]


def test_a_script_without_a_step_becomes_native_and_restores_no_scale(tmp_path: Path) -> None:
    train, evaluate, _ = train_and_evaluate(tmp_path, 'amp.load_state_dict(checkpoint["amp_state"])', Settings())
    assert '"scaler": scaler.state_dict()' in train
    assert "amp" not in evaluate.replace("torch.amp", "")
    assert "with torch.amp.autocast(" in evaluate


@pytest.mark.parametrize(
    "restored",
    [
        'amp.load_state_dict(checkpoint.pop("amp_state"))',
        'state = checkpoint["amp_state"]\n    amp.load_state_dict(state)',
        'amp.load_state_dict(checkpoint["amp_state"])\n    print(amp.state_dict())',
    ],
)
def test_a_key_that_a_script_on_the_shim_reads_is_kept(restored: str, tmp_path: Path) -> None:
    """The shim takes the state of a scaler for its own."""
    train, evaluate, _ = train_and_evaluate(tmp_path, restored, Settings())
    assert '"amp_state": scaler.state_dict()' in train
    assert "from amp_shim import amp" in evaluate


def test_a_script_stays_with_apex_where_one_that_restores_its_state_does(tmp_path: Path) -> None:
    settings = Settings(apex=Apex.NATIVE)
    train, _, said = train_and_evaluate(tmp_path, 'amp.load_state_dict(checkpoint.pop("amp_state"))', settings)
    assert train == TRAINS
    assert any("evaluate.py reads Apex's state by this key, and stays with Apex" in each for each in said)
    train, _, _ = train_and_evaluate(tmp_path, 'amp.load_state_dict(checkpoint.pop("amp"))', settings)
    assert '"scaler": scaler.state_dict()' in train


def test_two_scripts_that_save_by_one_key_become_native_together(tmp_path: Path) -> None:
    restored = '    state = torch.load(path)\n    amp.load_state_dict(state["amp_state"])\n'
    restores = TRAINS.replace("    for x in", f"{restored}    for x in")
    (tmp_path / "first.py").write_text(restores)
    (tmp_path / "second.py").write_text(restores)
    plans = migrate_paths([tmp_path], Settings()).plans
    assert all('"scaler": scaler.state_dict()' in each.after for each in plans)
