"""Apex's training steps beyond the plain form: branches that differ, clipping in micro-batches, more in the body."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.settings import Settings

Check = Callable[..., Any]


def test_branches_that_clip_apart_are_both_scaled(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          MODEL
        - if args.fp16:
        -     model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
        + scaler = torch.amp.GradScaler("cuda", enabled=bool(args.fp16))
          for x in loader:
        -     loss = model(x).mean()
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=bool(args.fp16)):
        +         loss = model(x).mean()
              if args.fp16:
        -         with amp.scale_loss(loss, optimizer) as scaled_loss:
        -             scaled_loss.backward()
        -         torch.nn.utils.clip_grad_norm_(amp.master_params(optimizer), 1.0)
        +         scaler.scale(loss).backward()
        +         scaler.unscale_(optimizer)
        +         torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
              else:
        ~         loss.backward()
        ~     optimizer.step()
              optimizer.zero_grad()
        """
    )


def test_branches_that_clip_by_the_new_name_and_the_old_do_the_same(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          MODEL
        - if args.fp16:
        -     model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
        + scaler = torch.amp.GradScaler("cuda", enabled=bool(args.fp16))
          for x in loader:
        -     loss = model(x).mean()
        -     if args.fp16:
        -         with amp.scale_loss(loss, optimizer) as scaled_loss:
        -             scaled_loss.backward()
        -         torch.nn.utils.clip_grad_norm_(amp.master_params(optimizer), 1.0)
        -     else:
        -         loss.backward()
        -         torch.nn.utils.clip_grad_norm(model.parameters(), 1.0)
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=bool(args.fp16)):
        +         loss = model(x).mean()
        +     scaler.scale(loss).backward()
        +     scaler.unscale_(optimizer)
        +     torch.nn.utils.clip_grad_norm(model.parameters(), 1.0)
        ~     optimizer.step()
              optimizer.zero_grad()
        """
    )


def test_clipping_of_every_micro_batch_goes_by_a_scaled_limit(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          MODEL
        - if args.fp16:
        -     model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
        + scaler = torch.amp.GradScaler("cuda", enabled=bool(args.fp16))
          for step, x in enumerate(loader):
        -     loss = model(x).mean() / 4
        -     if args.fp16:
        -         with amp.scale_loss(loss, optimizer) as scaled_loss:
        -             scaled_loss.backward()
        -         torch.nn.utils.clip_grad_norm_(amp.master_params(optimizer), args.max_norm)
        -     else:
        -         loss.backward()
        -         torch.nn.utils.clip_grad_norm_(model.parameters(), args.max_norm)
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=bool(args.fp16)):
        +         loss = model(x).mean() / 4
        +     scaler.scale(loss).backward()
        +     torch.nn.utils.clip_grad_norm_(model.parameters(), args.max_norm * scaler.get_scale())
              if step % 4 == 3:
        ~         optimizer.step()
                  optimizer.zero_grad()
        """
    )


def test_gradients_that_are_reduced_under_the_scale_are_reduced_before_they_are_unscaled(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          model = nn.Linear(2, 2).cuda()
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        ~ INITIALIZE
          for step, (x, y) in enumerate(loader):
        ~     loss = nn.functional.mse_loss(model(x), y)
              delay = step % 4 != 3
        -     with amp.scale_loss(loss, optimizer, delay_unscale=delay) as scaled_loss:
        -         scaled_loss.backward()
        -         if not delay:
        -             # every process has the same scale
        -             all_reduce([p.grad for p in model.parameters()])
        +     scaler.scale(loss).backward()
        +     if not delay:
        +         # every process has the same scale
        +         all_reduce([p.grad for p in model.parameters()])
              if not delay:
        -         torch.nn.utils.clip_grad_norm_(amp.master_params(optimizer), 1.0)
        +         scaler.unscale_(optimizer)
        +         torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        ~         optimizer.step()
                  optimizer.zero_grad()
        """
    )


def test_horovod_synchronizes_before_the_scaler_looks_at_gradients(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          model = nn.Linear(2, 2).cuda()
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        ~ INITIALIZE
          for x, y in loader:
        ~     loss = nn.functional.mse_loss(model(x), y)
        -     with amp.scale_loss(loss, optimizer) as scaled_loss:
        -         scaled_loss.backward()
        -         optimizer.synchronize()
        +     scaler.scale(loss).backward()
        +     optimizer.synchronize()
              with optimizer.skip_synchronize():
        ~         optimizer.step()
                  optimizer.zero_grad()
        """
    )


def test_horovod_with_a_norm_that_is_clipped_where_it_steps(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          model = nn.Linear(2, 2).cuda()
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        ~ INITIALIZE
          for i, (x, y) in enumerate(loader):
        ~     loss = nn.functional.mse_loss(model(x), y)
        -     with amp.scale_loss(loss, optimizer, delay_unscale=i % 4 != 3) as scaled_loss:
        -         scaled_loss.backward()
        -         optimizer.synchronize()
        +     scaler.scale(loss).backward()
        +     optimizer.synchronize()
              if i % 4 == 3:
        -         norm = nn.utils.clip_grad_norm_(amp.master_params(optimizer), 1.0)
        +         scaler.unscale_(optimizer)
        +         norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                  log.add_scalar("norm", norm, i)
                  none = [n for n, p in model.named_parameters() if p.grad is None]
                  assert not none, none
                  with optimizer.skip_synchronize():
        ~             optimizer.step()
                      optimizer.zero_grad()
        """
    )


@pytest.mark.parametrize(("more", "is_told"), [("pass", False), ('self.fire("more")', True)])
def test_callbacks_that_are_given_the_trainer_get_true_gradients_or_are_told(
    more: str, is_told: bool, migrate: Check
) -> None:
    plan = migrate(f"""
        from apex import amp

        class Trainer:
            def __init__(self, callbacks):
                self.model = nn.Linear(2, 2).cuda()
                self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
                self.model, self.optimizer = amp.initialize(self.model, self.optimizer, opt_level="O1")
                self.callbacks = callbacks
            def fire(self, event):
                for callback in self.callbacks:
                    callback.handle(event, self)
            def train(self, loader):
                for i, x in enumerate(loader):
                    with amp.scale_loss(self.model(x).mean(), self.optimizer) as scaled:
                        scaled.backward()
                    {more}
                    if i % 4 == 3:
                        self.fire("step")
                        self.optimizer.step()
                        self.optimizer.zero_grad()
        """)
    assert 'self.scaler.unscale_(self.optimizer)\n                self.fire("step")' in plan.after
    assert plan.after.count("unscale_(") == 1
    assert any("gradients are scaled where" in each.message for each in plan.findings) is is_told


@pytest.mark.parametrize(
    ("wait", "is_told"), [("pass", True), ("optimizer.synchronize()", False), ("torch.cuda.synchronize()", True)]
)
def test_horovod_that_adds_up_gradients_after_they_are_unscaled_is_told(
    wait: str, is_told: bool, migrate: Check
) -> None:
    plan = migrate(f"""
        import horovod.torch as hvd
        from apex import amp

        model = nn.Linear(2, 2).cuda()
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))
        model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            with amp.scale_loss(loss, optimizer) as scaled_loss:
                scaled_loss.backward()
                {wait}
            optimizer.step()
            optimizer.zero_grad()
        """)
    assert "scaler.step(optimizer)" in plan.after
    assert any("Horovod adds up gradients" in each.message for each in plan.findings) is is_told


def test_a_step_on_cleared_gradients_needs_no_scaler(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          model = nn.Linear(2, 2).cuda()
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        ~ INITIALIZE
          optimizer.zero_grad()
          optimizer.step()
        ~ APEX_EPOCH
              optimizer.zero_grad()
        """
    )


def test_norm_that_is_kept_where_clipped_gradients_are_added_to(rewrites: Check) -> None:
    rewrites(
        """
        - from apex import amp
          MODEL
        - model, optimizer = amp.initialize(model, optimizer, opt_level="O1", enabled=bool(fp16))
        + scaler = torch.amp.GradScaler("cuda", enabled=bool(fp16))
          norms = 0
          for step, (x, y) in enumerate(loader):
        -     loss = nn.functional.mse_loss(model(x), y)
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=bool(fp16)):
        +         loss = nn.functional.mse_loss(model(x), y)
              if fp16:
        -         with amp.scale_loss(loss, optimizer) as scaled_loss:
        -             scaled_loss.backward()
        -         norm = nn.utils.clip_grad_norm_(amp.master_params(optimizer), 1.0)
        +         scaler.scale(loss).backward()
        +         norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0 * scaler.get_scale()) / scaler.get_scale()
                  print(norm)
              else:
        -         loss.backward()
        -         norms += nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        +         scaler.scale(loss).backward()
        +         norms += nn.utils.clip_grad_norm_(model.parameters(), 1.0 * scaler.get_scale()) / scaler.get_scale()
              if step % 4 == 3:
        -         optimizer.step()
        +         scaler.step(optimizer)
        +         scaler.update()
                  optimizer.zero_grad()
        """
    )


CLIPS_TOO_EARLY = """
    from apex import amp
    MODEL
    model, optimizer = amp.initialize(model, optimizer, opt_level="O1", enabled=bool(fp16))
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        if fp16:
            SCALE_LOSS
        else:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            loss.backward()
        optimizer.step()
"""


def test_gradients_that_were_just_cleared_are_not_unscaled(migrate: Check) -> None:
    after = migrate(CLIPS_TOO_EARLY).after
    assert "    else:\n        nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n        scaler.scale(loss)" in after
    assert "unscale_" not in after


@pytest.mark.parametrize("instead", ["pass", "if x.any():\n            optimizer.zero_grad()"])
def test_gradients_that_may_not_be_cleared_are_scaled_there(instead: str, migrate: Check) -> None:
    after = migrate(CLIPS_TOO_EARLY.replace("optimizer.zero_grad()", instead)).after
    assert "nn.utils.clip_grad_norm_(model.parameters(), 1.0 * scaler.get_scale())\n" in after


def test_what_is_made_in_the_call_is_made_under_its_condition(rewrites: Check) -> None:
    rewrites(
        """
        - from apex import amp
          MODEL
        + scaler = torch.amp.GradScaler("cuda", enabled=bool(fp16))
          if fp16:
        -     model, optimizer = amp.initialize(model.cuda(), optimizer, opt_level="O1")
        +     model = model.cuda()
          for x, y in loader:
        -     loss = nn.functional.mse_loss(model(x), y)
        -     if fp16:
        -         with amp.scale_loss(loss, optimizer) as scaled_loss:
        -             scaled_loss.backward()
        -     else:
        -         loss.backward()
        -     optimizer.step()
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=bool(fp16)):
        +         loss = nn.functional.mse_loss(model(x), y)
        +     scaler.scale(loss).backward()
        +     scaler.step(optimizer)
        +     scaler.update()
              optimizer.zero_grad()
        """
    )


CHOSEN = """
    from contextlib import nullcontext
    from apex import amp

    model = nn.Linear(2, 2).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if args.fp16:
        model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
    for x in loader:
        loss = model(x).mean()
        with CONTEXT as scaled:
            scaled.backward()
        optimizer.step()
        optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    "context",
    [
        "amp.scale_loss(loss, optimizer) if args.fp16 else nullcontext(loss)",
        "nullcontext(loss) if not args.fp16 else amp.scale_loss(loss, optimizer)",
    ],
)
def test_loss_that_is_entered_scaled_or_as_it_is(context: str, migrate: Check) -> None:
    after = migrate(CHOSEN.replace("CONTEXT", context)).after
    assert "apex" not in after
    assert "    scaler.scale(loss).backward()\n    scaler.step(optimizer)\n" in after


@pytest.mark.parametrize(
    "context",
    [
        "amp.scale_loss(loss, optimizer) if args.fp16 else nullcontext(loss / 2)",
        "amp.scale_loss(loss, optimizer) if args.fp16 else torch.no_grad()",
        "amp.scale_loss(loss, optimizer) if asks(x) else nullcontext(loss)",
    ],
)
def test_loss_that_is_another_where_it_is_not_scaled(context: str, migrate: Check) -> None:
    after = migrate(CHOSEN.replace("CONTEXT", context)).after
    assert "from amp_shim import amp" in after
    assert "GradScaler" not in after


def test_scaled_loss_by_the_name_of_the_loss(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          MODEL
        - if args.fp16:
        -     model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
        + scaler = torch.amp.GradScaler("cuda", enabled=bool(args.fp16))
          for x in loader:
        -     loss = model(x).mean()
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=bool(args.fp16)):
        +         loss = model(x).mean()
              if args.fp16:
        -         with amp.scale_loss(loss / 4, optimizer) as loss:
        -             loss.backward()
        +         loss = loss / 4
        +         scaler.scale(loss).backward()
              else:
        -         (loss / 4).backward()
        +         scaler.scale(loss / 4).backward()
        ~     optimizer.step()
              optimizer.zero_grad()
              print(loss.item())
        """
    )


def test_scaled_loss_that_has_a_name_of_its_own_folds_with_the_plain_one(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          MODEL
        - if args.fp16:
        -     model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
        + scaler = torch.amp.GradScaler("cuda", enabled=bool(args.fp16))
          for x in loader:
        -     loss = model(x).mean()
        -     if args.fp16:
        -         with amp.scale_loss(loss / 4, optimizer) as scaled_loss:
        -             scaled_loss.backward()
        -     else:
        -         (loss / 4).backward()
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=bool(args.fp16)):
        +         loss = model(x).mean()
        +     scaler.scale(loss / 4).backward()
        ~     optimizer.step()
              optimizer.zero_grad()
        """
    )


def test_scaled_loss_that_is_computed_for_it_and_read_behind(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          MODEL
        - model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
        + scaler = torch.amp.GradScaler("cuda")
          loss = None
          for x in loader:
        -     with amp.scale_loss(model(x).mean(), optimizer) as loss:
        -         loss.backward()
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +         loss = model(x).mean()
        +     scaler.scale(loss).backward()
        ~     optimizer.step()
              optimizer.zero_grad()
          print(loss)
        """
    )


def test_gradients_for_a_penalty_are_taken_of_a_scaled_loss(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          MODEL
        - model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
        + scaler = torch.amp.GradScaler("cuda")
          for x in loader:
              x.requires_grad_()
        -     out = model(x)
        -     with amp.scale_loss(out.mean(), optimizer) as scaled_loss:
        -         scaled_loss.backward(retain_graph=True)
        -     grad = torch.autograd.grad(outputs=out.sum(), inputs=x, create_graph=True)[0]
        -     penalty = grad.pow(2).mean()
        -     with amp.scale_loss(penalty, optimizer) as scaled_penalty:
        -         scaled_penalty.backward()
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +         out = model(x)
        +         loss = out.mean()
        +     scaler.scale(loss).backward(retain_graph=True)
        +     grad = torch.autograd.grad(outputs=scaler.scale(out.float().sum()), inputs=x, create_graph=True)[0]
        +     grad = grad / scaler.get_scale()
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +         penalty = grad.pow(2).mean()
        +     scaler.scale(penalty).backward()
        ~     optimizer.step()
              optimizer.zero_grad()
        """
    )


_AVERAGED = """
from apex import amp
def main(loader, average):
    MODEL
    model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
    for i, x in enumerate(loader):
        with amp.scale_loss(model(x).mean(), optimizer) as scaled_loss:
            scaled_loss.backward()
        if i % 2:
            optimizer.step()
            optimizer.zero_grad()
        for p, q in zip(amp.master_params(optimizer), average):
            q.mul_(0.9).add_(VALUE)
"""


def test_weights_that_are_averaged_are_no_gradients(migrate: Check) -> None:
    after = migrate(_AVERAGED.replace("VALUE", "p.data")).after
    assert "        for p, q in zip(model.parameters(), average):\n" in after
    assert "unscale_" not in after


@pytest.mark.parametrize("value", ["p.grad", "p", "value_of(p)", "p.grad.data"])
def test_what_may_be_a_gradient_is_read_where_it_cannot_be_unscaled(value: str, migrate: Check) -> None:
    plan = migrate(_AVERAGED.replace("VALUE", value))
    assert "from amp_shim import amp\n" in plan.after
    reason = "gradients are read where the optimizer does not always step, so they cannot be unscaled there"
    assert reason in {each.message.partition(": ")[2] for each in plan.findings}


@pytest.mark.parametrize("use", ["print(model.weight.grad)", "log(model.weight.grad.norm().item())"])
def test_gradients_that_are_read_under_the_scale_are_the_same_numbers(rewrites: Check, use: str) -> None:
    rewrites(
        f"""
        ~ APEX
          model = nn.Linear(2, 2).cuda()
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        ~ INITIALIZE
          for x, y in loader:
        ~     loss = nn.functional.mse_loss(model(x), y)
        -     with amp.scale_loss(loss, optimizer) as scaled_loss:
        -         scaled_loss.backward()
        -         {use}
        +     scaler.scale(loss).backward()
        +     {use}
        ~     optimizer.step()
              optimizer.zero_grad()
        """
    )


def test_gradients_that_are_read_behind_the_scale_are_unscaled(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          model = nn.Linear(2, 2).cuda()
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        ~ INITIALIZE
          for x, y in loader:
        ~     loss = nn.functional.mse_loss(model(x), y)
        -     with amp.scale_loss(loss, optimizer) as scaled_loss:
        -         scaled_loss.backward()
        +     scaler.scale(loss).backward()
        +     scaler.unscale_(optimizer)
              print(model.weight.grad)
        ~     optimizer.step()
              optimizer.zero_grad()
        """
    )


_CLIPPED = """
    ~ APEX
      MODEL
    - if args.fp16:
    -     model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
    + scaler = torch.amp.GradScaler("cuda", enabled=bool(args.fp16))
      for x in loader:
    -     loss = model(x).mean()
    -     if args.fp16:
    -         with amp.scale_loss(loss, optimizer) as scaled_loss:
    -             scaled_loss.backward()
    -         torch.nn.utils.clip_grad_norm_(amp.master_params(optimizer), 1.0)
    -     else:
    -         loss.backward()
    -         torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=bool(args.fp16)):
    +         loss = model(x).mean()
    +     scaler.scale(loss).backward()
    +     scaler.unscale_(optimizer)
    +     torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
          for p in model.parameters():
              {used}
    ~     optimizer.step()
          optimizer.zero_grad()
"""


@pytest.mark.parametrize("used", ["print(p.grad.norm())", "p.grad[mask] = 0", "p.grad += noise"])
def test_gradients_behind_branches_that_clip_are_unscaled_in_front_of_the_clipping(used: str, rewrites: Check) -> None:
    rewrites(_CLIPPED.format(used=used))


def test_gradients_behind_branches_that_clip_apart_are_unscaled_in_both(migrate: Check) -> None:
    after = migrate(
        """
        APEX
        MODEL
        if args.fp16:
            model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
        for x in loader:
            loss = model(x).mean()
            if args.fp16:
                with amp.scale_loss(loss, optimizer) as scaled_loss:
                    scaled_loss.backward()
                torch.nn.utils.clip_grad_norm_(amp.master_params(optimizer), 1.0)
            else:
                loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 2.0)
            print(model.weight.grad.norm())
            optimizer.step()
            optimizer.zero_grad()
        """
    ).after
    behind = "scaler.scale(loss).backward()\n        scaler.unscale_(optimizer)\n        torch.nn.utils.clip_grad_norm_"
    assert after.count(behind) == after.count("unscale_") == 2


CHOSEN_MASTERS = """\
import sys

import torch
from apex import amp


def main(fp16):
    model = torch.nn.Linear(3, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if fp16:
        model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
    for x, y in torch.load("batches.pt"):
        loss = (model(x.cuda()) - y.cuda()).square().mean()
        optimizer.zero_grad()
        if fp16:
            with amp.scale_loss(loss, optimizer) as scaled:
                scaled.backward()
        else:
            loss.backward()
        {clipped}
        optimizer.step()


main("fp16" in sys.argv)
"""


@pytest.mark.parametrize(
    "chosen",
    ["amp.master_params(optimizer) if fp16 else model.parameters()", "model.parameters() if not fp16 else masters"],
)
@pytest.mark.parametrize("clipped", ["clip({}, 1.0)", "own = {}\n        clip(own, 1.0)"])
def test_a_choice_between_the_master_parameters_and_the_model_s_is_none_natively(chosen: str, clipped: str) -> None:
    chosen = chosen.replace("masters", "amp.master_params(optimizer)")
    clipped = clipped.replace("clip(", "torch.nn.utils.clip_grad_norm_(")
    plan = migrate_text(CHOSEN_MASTERS.format(clipped=clipped.format(chosen)), Settings())
    assert f"scaler.unscale_(optimizer)\n        {clipped.format('model.parameters()')}" in plan.after
    assert "apex" not in plan.after
