"""Checkpoints: the scaler's state is saved beside the optimizer's and restored behind it, from old files too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]


def test_entry_of_a_dictionary(rewrites: Check) -> None:
    rewrites(
        """
        ~ MODEL
          for x, y in loader:
        ~     loss = nn.functional.mse_loss(model(x), y)
        ~     loss.backward()
        ~     optimizer.step()
              optimizer.zero_grad()
        - torch.save({"epoch": epoch, "optimizer": optimizer.state_dict()}, "last.pt")
        + torch.save({"epoch": epoch, "optimizer": optimizer.state_dict(), "scaler": scaler.state_dict()}, "last.pt")
        """
    )


def test_entry_of_a_dictionary_with_one_entry_a_line(rewrites: Check) -> None:
    rewrites(
        """
        ~ MODEL
        ~ EPOCH
          torch.save(
              {
                  "model": model.state_dict(),
                  "optimizer": optimizer.state_dict(),  # momentum
        +         "scaler": scaler.state_dict(),
                  "epoch": 1,
              },
              "last.pt",
          )
        """
    )


def test_entry_of_a_dict_call(rewrites: Check) -> None:
    rewrites(
        """
        ~ MODEL
          for x, y in loader:
        ~     loss = nn.functional.mse_loss(model(x), y)
        ~     loss.backward()
        ~     optimizer.step()
              optimizer.zero_grad()
        - torch.save(dict(epoch=epoch, optimizer=optimizer.state_dict()), "last.pt")
        + torch.save(dict(epoch=epoch, optimizer=optimizer.state_dict(), scaler=scaler.state_dict()), "last.pt")
        """
    )


def test_entry_by_assignment(rewrites: Check) -> None:
    rewrites(
        """
        ~ MODEL
        ~ EPOCH
          state = {}
          state['optimizer'] = optimizer.state_dict()
        + state['scaler'] = scaler.state_dict()
        """
    )


def test_entry_that_not_every_checkpoint_has(rewrites: Check) -> None:
    rewrites(
        """
        ~ MODEL
        ~ EPOCH
          state = {
              "optimizer": None if is_last else optimizer.state_dict(),
        +     "scaler": None if is_last else scaler.state_dict(),
          }
          torch.save(state, "last.pt")
          state["optim"] = optimizer.state_dict() if more and not is_last else None
        + state["scaler"] = scaler.state_dict() if more and not is_last else None
          torch.save(state, "best.pt")
        """
    )


@pytest.mark.parametrize("kept", ["{} if asks() else None", "{} if more else state", "{} or None"])
def test_entry_of_which_it_is_not_clear_when_it_is_there_is_told(migrate: Check, kept: str) -> None:
    plan = migrate(
        f"""
        MODEL
        EPOCH
        torch.save({{"optimizer": {kept.format("optimizer.state_dict()")}}}, "last.pt")
        """
    )
    assert "scaler.state_dict()" not in plan.after
    assert "AMP611" in {each.code for each in plan.findings}


def test_entry_by_a_name_that_only_the_state_has(rewrites: Check) -> None:
    rewrites(
        """
        ~ MODEL
        ~ EPOCH
          kept = optimizer.state_dict()
        - torch.save({"epoch": epoch, "optimizer": kept}, "last.pt")
        + torch.save({"epoch": epoch, "optimizer": kept, "scaler": scaler.state_dict()}, "last.pt")
        """
    )
    rewrites(
        """
        ~ MODEL
        ~ EPOCH
          kept = optimizer.state_dict()
          if fresh:
              kept = model.state_dict()
          torch.save({"epoch": epoch, "kept": kept}, "last.pt")
        """
    )


def test_restored_where_the_checkpoint_has_it(rewrites: Check) -> None:
    rewrites(
        """
        ~ MODEL
          if args.resume:
              checkpoint = torch.load(args.resume)
              optimizer.load_state_dict(checkpoint["optimizer"])
        +     if checkpoint.get("scaler"):
        +         scaler.load_state_dict(checkpoint["scaler"])
              model.load_state_dict(checkpoint["model"])
        ~ EPOCH
        """
    )


@pytest.mark.parametrize("kept", ["model.state_dict()", '{"model": model.state_dict(), "epoch": 3}', "model"])
def test_not_restored_where_no_checkpoint_has_the_optimizer(rewrites: Check, kept: str) -> None:
    rewrites(
        f"""
        ~ MODEL
          if args.resume:
              checkpoint = torch.load(args.resume)
              model.load_state_dict(checkpoint["model"])
              if "optimizer" in checkpoint:
                  optimizer.load_state_dict(checkpoint["optimizer"])
        ~ EPOCH
          torch.save({kept}, "last.pt")
        """
    )


def test_restored_where_one_of_several_checkpoints_has_the_optimizer(rewrites: Check) -> None:
    rewrites(
        """
        ~ MODEL
          if args.resume:
              checkpoint = torch.load(args.resume)
              optimizer.load_state_dict(checkpoint["optimizer"])
        +     if checkpoint.get("scaler"):
        +         scaler.load_state_dict(checkpoint["scaler"])
        ~ EPOCH
          torch.save(model.state_dict(), "best.pt")
        - torch.save({"optimizer": optimizer.state_dict()}, "last.pt")
        + torch.save({"optimizer": optimizer.state_dict(), "scaler": scaler.state_dict()}, "last.pt")
        """
    )


RESTORED = """
  import os
  import torch.distributed as dist
  import library
~ MODEL
  rank = int(os.environ["LOCAL_RANK"])
  number = dist.get_rank()
  if resume:
      if {test}:
          checkpoint = torch.load("last.pt")
          optimizer.load_state_dict(checkpoint["optimizer"])
{restored}~ EPOCH
  if rank == 0:
-     torch.save({{"optimizer": optimizer.state_dict()}}, "last.pt")
+     torch.save({{"optimizer": optimizer.state_dict(), "scaler": scaler.state_dict()}}, "last.pt")
"""


@pytest.mark.parametrize(
    "test",
    [
        "rank == 0",
        "number == 0 and resume",
        "args.local_rank in (-1, 0)",
        "not dist.get_rank()",
        "library.is_main_process()",
        "trainer.is_master",
    ],
)
def test_a_scaler_is_not_restored_in_one_process_only(rewrites: Check, test: str) -> None:
    plan = rewrites(RESTORED.format(test=test, restored=""))
    found = [each for each in plan.findings if each.code == "AMP504"]
    assert [each.message.partition(":")[0] for each in found] == ["only one process loads optimizer here"]


@pytest.mark.parametrize("test", ["rank != -1", "args.local_rank == -1", "epoch == 0", "is_first_epoch", "rank >= 0"])
def test_it_is_restored_where_every_process_restores(rewrites: Check, test: str) -> None:
    lines = '+         if checkpoint.get("scaler"):\n+             scaler.load_state_dict(checkpoint["scaler"])\n'
    assert "AMP504" not in {each.code for each in rewrites(RESTORED.format(test=test, restored=lines)).findings}


def test_saved_and_restored_by_methods(rewrites: Check) -> None:
    rewrites(
        """
          class T:
              def __init__(self, model):
                  self.model = model
                  self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        +         self.scaler = torch.amp.GradScaler("cuda")
              def fit(self, loader):
                  for x in loader:
        ~             loss = self.model(x).mean()
        -             loss.backward()
        -             self.optimizer.step()
        +             self.scaler.scale(loss).backward()
        +             self.scaler.step(self.optimizer)
        +             self.scaler.update()
                      self.optimizer.zero_grad()
              def state_dict(self):
        -         return {"optimizer": self.optimizer.state_dict()}
        +         return {"optimizer": self.optimizer.state_dict(), "scaler": self.scaler.state_dict()}
              def load_state_dict(self, state):
                  self.optimizer.load_state_dict(state["optimizer"])
        +         if state.get("scaler"):
        +             self.scaler.load_state_dict(state["scaler"])
        """
    )


def test_saved_by_a_function_that_is_given_the_optimizer(rewrites: Check) -> None:
    rewrites(
        """
        - def save(path, model, optimizer):
        -     torch.save({"epoch": epoch, "optimizer": optimizer.state_dict()}, path)
        + def save(path, model, optimizer, scaler):
        +     torch.save({"epoch": epoch, "optimizer": optimizer.state_dict(), "scaler": scaler.state_dict()}, path)

          def main():
        ~     MODEL
              for x, y in loader:
        ~         loss = nn.functional.mse_loss(model(x), y)
        ~         loss.backward()
        ~         optimizer.step()
                  optimizer.zero_grad()
        -     save("last.pt", model, optimizer)
        +     save("last.pt", model, optimizer, scaler)
        """
    )


def test_whoever_saves_without_a_scaler_saves_none_where_it_need_not_be_given(rewrites: Check) -> None:
    rewrites(
        """
        - def save(path, model, optimizer=None):
        + def save(path, model, optimizer=None, scaler=None):
              torch.save(model.state_dict(), path)
              if optimizer is not None:
        -         state = {"opt": optimizer.state_dict()}
        +         state = {"opt": optimizer.state_dict(), "scaler": scaler.state_dict() if scaler is not None else None}
                  torch.save(state, path)

        ~ MODEL
        ~ EPOCH
        - save("last.pt", model, optimizer)
        + save("last.pt", model, optimizer, scaler)
        """
    )


def test_bare_state_of_an_optimizer_is_left_as_it_was(rewrites: Check) -> None:
    rewrites(
        """
        ~ MODEL
        ~ EPOCH
          torch.save(model.state_dict(), "model.pt")
          torch.save(optimizer.state_dict(), "last.pt")
          optimizer.load_state_dict(torch.load("last.pt"))
        """
    )


def test_other_states_are_left_as_they_were(rewrites: Check) -> None:
    rewrites(
        """
        ~ MODEL
        ~ EPOCH
          torch.save({"scheduler": scheduler.state_dict(), "ema": ema.state_dict()}, "last.pt")
        """
    )


def test_one_scaler_of_two_optimizers_is_saved_and_restored_once(migrate: Check) -> None:
    plan = migrate(
        """
        a, b = A(), B()
        opt_a = torch.optim.SGD(a.parameters(), lr=0.1)
        opt_b = torch.optim.SGD(b.parameters(), lr=0.1)
        state = torch.load("last.pt")
        opt_a.load_state_dict(state["a"])
        opt_b.load_state_dict(state["b"])
        for x in loader:
            loss = b(a(x)).mean()
            loss.backward()
            opt_a.step()
            opt_a.zero_grad()
            opt_b.step()
            opt_b.zero_grad()
        torch.save({"a": opt_a.state_dict(), "b": opt_b.state_dict()}, "last.pt")
        """
    )
    assert plan.after.count('"scaler": scaler.state_dict()') == 1
    assert plan.after.count("scaler.load_state_dict(") == 1


RESTORER = """
def restore(path, **objects):
    checkpoint = torch.load(path)
    for key, value in objects.items():
        {test}:
            value.load_state_dict(checkpoint[key])
MODEL
restore("last.pt", model=model, optimizer=optimizer)
EPOCH
torch.save(dict(model=model.state_dict(), optimizer=optimizer.state_dict()), "last.pt")
"""


def test_restored_by_a_function_that_restores_all_it_is_given(migrate: Check) -> None:
    after = migrate(RESTORER.format(test="if key in checkpoint")).after
    assert 'restore("last.pt", model=model, optimizer=optimizer, scaler=scaler)\n' in after
    assert "optimizer=optimizer.state_dict(), scaler=scaler.state_dict())" in after


def test_an_old_checkpoint_without_the_scaler_is_not_asked_for_it(migrate: Check) -> None:
    after = migrate(RESTORER.format(test="if value is not None")).after
    assert 'restore("last.pt", model=model, optimizer=optimizer)\n' in after


RESUMING = """
    MODEL
    state = torch.load("last.pt")
    optimizer.load_state_dict(state["{restored}"])
    for x, y in loader:
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
    torch.save({{"{saved}": optimizer.state_dict()}}, "last.pt")
"""


@pytest.mark.parametrize(
    ("saved", "restored", "key"),
    [
        ("optimizer_state_dict", "optimizer_state_dict", "scaler_state_dict"),
        ("opt_state", "opt_state", "scaler_state"),
        ("optim", "optim", "scaler"),
        ("optimizer_g_state", "optimizer_g_state", "scaler"),
        ("optimizer_state_dict", "optimizer", "scaler"),  # one key for both, or nothing would be restored
    ],
)
def test_the_key_ends_as_that_of_the_optimizer(migrate: Check, saved: str, restored: str, key: str) -> None:
    after = migrate(RESUMING.format(saved=saved, restored=restored)).after
    assert f', "{key}": scaler.state_dict()' in after
    assert f'if state.get("{key}"):\n    scaler.load_state_dict(state["{key}"])\n' in after


@pytest.mark.parametrize(
    ("taken", "key"),
    [
        ('"scaler": standard.state()', "grad_scaler"),
        ('"scaler": standard.state(), "grad_scaler": None', "amp_scaler"),
        ('"scale": standard.state()', "scaler"),
    ],
)
def test_a_key_that_something_else_is_saved_by_stays_its_own(migrate: Check, taken: str, key: str) -> None:
    text = RESUMING.format(saved="optimizer", restored="optimizer")
    after = migrate(text.replace('"optimizer": optimizer', f'{taken}, "optimizer": optimizer')).after
    assert f'{taken}, "optimizer": optimizer.state_dict(), "{key}": scaler.state_dict()' in after
    assert f'if state.get("{key}"):\n    scaler.load_state_dict(state["{key}"])\n' in after


BY_KEY = """
    class T:
        def __init__(self, model):
            self.model = model
            self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        def fit(self, loader):
            for x in loader:
                self.optimizer.zero_grad()
                self.model(x).mean().backward()
                self.optimizer.step()
        def save(self, path):
            torch.save({{"optimizer": self.optimizer.state_dict(), "epoch": 1}}, path)
        def load(self, path):
            state = torch.load(path)
            for key in state.keys():
                if key == "optimizer":
                    self.optimizer.load_state_dict(state[key])
                else:
                    {rest}
"""


@pytest.mark.parametrize(
    ("rest", "key"),
    [
        ("setattr(self, key, state[key])", "scaler_state"),
        ("self.__dict__[key] = state[key]", "scaler_state"),
        ('setattr(self, "epoch", state[key])', "scaler"),
        ("self.epoch = state[key]", "scaler"),
    ],
)
def test_no_state_is_saved_by_the_name_of_an_attribute_that_may_become_it(migrate: Check, rest: str, key: str) -> None:
    after = migrate(BY_KEY.format(rest=rest)).after
    assert f'"{key}": self.scaler.state_dict()' in after
    test = 'if key == "optimizer":'
    own = f'if state.get("{key}"):\n                    self.scaler.load_state_dict(state["{key}"])\n'
    assert f"{test}\n                self.optimizer.load_state_dict(state[key])\n                {own}" in after


@pytest.mark.parametrize("test", ["key != 'optimizer'", "name == 'optimizer'", "key == wanted"])
def test_an_entry_of_another_key_is_not_where_the_optimizer_is_restored(migrate: Check, test: str) -> None:
    text = BY_KEY.format(rest="self.epoch = state[key]").replace('key == "optimizer"', test)
    assert "scaler.load_state_dict" not in migrate(text).after
