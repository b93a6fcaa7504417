"""What a `with` opens that scales a loss, where `amp.scale_loss` does not stand in the `with` alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from amp_migrate.engine.outcome import FilePlan

Check = Callable[..., Any]

_HEAD = "import torch\nfrom contextlib import contextmanager, nullcontext\nfrom torch import nn\n\n"
_ASKED = 'scaler = torch.amp.GradScaler("cuda", enabled=bool(args.fp16))\n'
_STEP = "    optimizer.step()\n    optimizer.zero_grad()"
_SCALED = f"    scaler.scale(loss).backward()\n    scaler.step(optimizer)\n    scaler.update()\n{_STEP[21:]}"


def _script(opened: str, before: str = "", initialize: str = "INITIALIZE") -> str:
    """A script with lines by which it goes backward, and with lines before its loop that may define what they open."""
    text = "APEX\nMODEL\n{}\n{}\nfor x, y in loader:\n    loss = nn.functional.mse_loss(model(x), y)\n    {}\n{}"
    return text.format(initialize, before, opened.replace("\n", "\n    "), _STEP)


_BACKWARD = "with context as scaled_loss:\n    scaled_loss.backward()"
_UNDER_SWITCH = 'if args.fp16:\n    model, optimizer = amp.initialize(model, optimizer, opt_level="O1")'


def _is_native(plan: FilePlan) -> bool:
    return "apex" not in plan.after and "amp_shim" not in plan.after and "scaler.step(optimizer)" in plan.after


def test_context_that_is_kept_before_it_is_opened(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          MODEL
        ~ INITIALIZE
          for x, y in loader:
        ~     loss = nn.functional.mse_loss(model(x), y)
        -     context = amp.scale_loss(loss, optimizer)
        -     optimizer.zero_grad()
        -     with context as scaled_loss:
        -         scaled_loss.backward()
        +     optimizer.zero_grad()
        +     scaler.scale(loss).backward()
        ~     optimizer.step()
        """,
    )


@pytest.mark.parametrize(
    "context",
    [
        "context = amp.scale_loss(loss, optimizer) if args.fp16 else nullcontext(loss)",
        "if args.fp16:\n    context = amp.scale_loss(loss, optimizer)\nelse:\n    context = nullcontext(loss)",
        "context = nullcontext(loss)\nif args.fp16:\n    context = amp.scale_loss(loss, optimizer)",
    ],
)
def test_kept_context_that_is_chosen(context: str, migrate: Check) -> None:
    plan = migrate(_script(f"{context}\n{_BACKWARD}", initialize=_UNDER_SWITCH), head=_HEAD)
    assert _is_native(plan), plan.after
    assert _ASKED in plan.after
    assert plan.after.endswith(_SCALED), plan.after


@pytest.mark.parametrize(
    "context",
    [
        "context = amp.scale_loss(loss, optimizer)\nloss = loss * 2",
        "context = amp.scale_loss(loss, optimizer)\nloss *= 2",
        "context = amp.scale_loss(loss, optimizer)\ntell(context)",
        "context = amp.scale_loss(loss, optimizer) if args.fp16 else nullcontext(2 * loss)",
        "context = amp.scale_loss(loss, optimizer) if args.fp16 else other(loss)",
        "context = amp.scale_loss(nn.functional.mse_loss(model(x), y), optimizer)",
        "if args.fp16:\n    context = amp.scale_loss(loss, optimizer)\nelse:\n    context = other(loss)",
    ],
)
def test_kept_context_that_may_give_another_loss_stays(context: str, migrate: Check) -> None:
    plan = migrate(_script(f"{context}\n{_BACKWARD}"), head=_HEAD)
    assert "from amp_shim import amp" in plan.after
    assert [each for each in plan.findings if "a with statement opens" in each.message], plan.findings


@pytest.mark.parametrize(
    "items",
    [
        'amp.scale_loss(loss, optimizer) as scaled_loss, timer.phase("backward")',
        'timer.phase("backward"), amp.scale_loss(loss, optimizer) as scaled_loss',
    ],
)
def test_context_beside_others(items: str, migrate: Check) -> None:
    plan = migrate(_script(f"with {items}:\n    scaled_loss.backward()"))
    assert _is_native(plan), plan.after
    assert '    with timer.phase("backward"):\n        scaler.scale(loss).backward()\n    scaler.step' in plan.after


@pytest.mark.parametrize(
    "items",
    [
        "amp.scale_loss(loss, optimizer) as scaled_loss, watch(scaled_loss)",
        "model.no_sync(), amp.scale_loss(nn.functional.mse_loss(model(x), y), optimizer) as scaled_loss",
        "amp.scale_loss(loss, optimizer) as scaled_loss, amp.scale_loss(loss, optimizer) as other",
    ],
)
def test_context_beside_one_that_the_loss_has_to_do_with_stays(items: str, migrate: Check) -> None:
    plan = migrate(_script(f"with {items}:\n    scaled_loss.backward()"))
    assert "from amp_shim import amp" in plan.after, plan.after


_RETURNS = "def scaled(loss, optimizer):\n    return amp.scale_loss(loss, optimizer)"
_CHOOSES = (
    "def scaled(loss, optimizer, fp16):\n    if fp16:\n        return amp.scale_loss(loss, optimizer)\n"
    "    return nullcontext(loss)"
)
_YIELDS = (
    '@contextmanager\ndef scaled(loss, optimizer):\n    """Scale it."""\n'
    "    with amp.scale_loss(loss, optimizer) as own:\n        yield own"
)
_YIELDS_EITHER = (
    "@contextmanager\ndef scaled(loss, optimizer, fp16):\n    if fp16:\n"
    "        with amp.scale_loss(loss, optimizer) as own:\n            yield own\n    else:\n        yield loss"
)


@pytest.mark.parametrize(("function", "fp16"), [
    (_RETURNS, ""), (_YIELDS, ""), (_CHOOSES, ", args.fp16"), (_YIELDS_EITHER, ", fp16=args.fp16"),
])  # fmt: skip
def test_function_that_gives_the_context(function: str, fp16: str, migrate: Check) -> None:
    opened = f"with scaled(loss, optimizer{fp16}) as scaled_loss:\n    scaled_loss.backward()"
    initialize = _UNDER_SWITCH if fp16 else "INITIALIZE"
    plan = migrate(_script(opened, function, initialize), head=_HEAD)
    assert _is_native(plan), plan.after
    assert "def scaled" not in plan.after
    assert plan.after.endswith(_SCALED)
    assert (_ASKED in plan.after) is bool(fp16)


@pytest.mark.parametrize(
    ("function", "opened"),
    [
        (_RETURNS, "tell(scaled)\nwith scaled(loss, optimizer) as scaled_loss:\n    scaled_loss.backward()"),
        (_RETURNS, "scaled_loss = scaled(loss, optimizer).__enter__()\nscaled_loss.backward()"),
        (_YIELDS.replace("    with", "    count()\n    with"), "with scaled(loss, optimizer) as s:\n    s.backward()"),
        (_YIELDS.replace("yield own", "yield own / 2"), "with scaled(loss, optimizer) as s:\n    s.backward()"),
        (_CHOOSES.replace("(loss)", "(2 * loss)"), "with scaled(loss, optimizer, True) as s:\n    s.backward()"),
        (_RETURNS.replace("    return", "    loss = loss / 2\n    return"),
         "with scaled(loss, optimizer) as s:\n    s.backward()"),
        (_YIELDS.replace("@contextmanager", "@wrapped"), "with scaled(loss, optimizer) as s:\n    s.backward()"),
    ],
)  # fmt: skip
def test_function_that_does_more_than_give_the_context_stays(function: str, opened: str, migrate: Check) -> None:
    plan = migrate(_script(opened, function), head=_HEAD)
    assert "from amp_shim import amp" in plan.after, plan.after
    assert "internal" not in str(plan.findings)


def test_method_of_another_file_that_gives_the_context(rewrites_files: Check) -> None:
    rewrites_files(
        {
            "scaling.py": """
                - from apex import amp
                -
                - def scaled(loss, optimizer):
                -     return amp.scale_loss(loss, optimizer)
                -
                  def count(model):
                      return sum(p.numel() for p in model.parameters())
                """,
            "train.py": """
                  import torch
                  from torch import nn
                - from apex import amp
                - from scaling import count, scaled
                + from scaling import count

                  MODEL
                ~ INITIALIZE
                  for x, y in loader:
                ~     loss = nn.functional.mse_loss(model(x), y)
                -     with scaled(loss, optimizer) as scaled_loss:
                -         scaled_loss.backward()
                +     scaler.scale(loss).backward()
                ~     optimizer.step()
                      optimizer.zero_grad()
                """,
        }
    )


def test_method_that_gives_the_context(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          class Trainer:
              def __init__(self, model):
                  self.model = model
                  self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        -         self.model, self.optimizer = amp.initialize(self.model, self.optimizer, opt_level="O1")
        -
        -     def scaled(self, loss):
        -         return amp.scale_loss(loss, self.optimizer)
        +         self.scaler = torch.amp.GradScaler("cuda")

              def step(self, x, y):
                  self.optimizer.zero_grad()
        -         loss = nn.functional.mse_loss(self.model(x), y)
        -         with self.scaled(loss) as scaled_loss:
        -             scaled_loss.backward()
        -         self.optimizer.step()
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +             loss = nn.functional.mse_loss(self.model(x), y)
        +         self.scaler.scale(loss).backward()
        +         self.scaler.step(self.optimizer)
        +         self.scaler.update()
        """
    )


def test_gradients_under_a_kept_context(migrate: Check) -> None:
    body = "\n    optimizer.synchronize()\n    nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
    kept = migrate(_script(f"context = amp.scale_loss(loss, optimizer)\n{_BACKWARD}{body}"))
    opened = migrate(_script(f"with amp.scale_loss(loss, optimizer) as scaled_loss:\n    scaled_loss.backward(){body}"))
    assert kept.after == opened.after
