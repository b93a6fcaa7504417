"""The loss scale, where an Apex script asks for it by itself or sets it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]

SCRIPT = """
    from apex import amp
    from apex.amp import _amp_state

    MODEL
    INITIALIZE
    {early}
    APEX_EPOCH
        print({late})
"""

each_read = pytest.mark.parametrize(
    "read",
    [
        "amp._amp_state.loss_scalers[0].loss_scale()",
        "amp._amp_state.loss_scalers[0]._loss_scale",
        "_amp_state.loss_scalers[0].loss_scale()",
        'amp.state_dict()["loss_scaler0"]["loss_scale"]',
    ],
)


@each_read
def test_a_read_asks_the_scaler(read: str, migrate: Check) -> None:
    after = migrate(SCRIPT.format(early="", late=read)).after
    assert "print(scaler.get_scale())" in after
    assert "apex" not in after


@each_read
def test_without_a_scaler_the_scale_is_one(read: str, migrate: Check) -> None:
    after = migrate(SCRIPT.format(early="", late=read), "bf16").after
    assert "print(1.0)" in after
    assert "apex" not in after


def test_a_scale_that_is_set_behind_initialize_is_the_one_to_begin_with(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          MODEL
        - if args.fp16:
        -     model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
        -     amp._amp_state.loss_scalers[0]._loss_scale = 2**20
        + scaler = torch.amp.GradScaler("cuda", init_scale=2**20, enabled=bool(args.fp16))
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


def test_a_scale_that_is_set_where_something_else_is_done_as_well(migrate: Check) -> None:
    after = migrate(SCRIPT.format(early="amp._amp_state.loss_scalers[0]._loss_scale = start", late="1")).after
    assert 'scaler = torch.amp.GradScaler("cuda", init_scale=start)\n' in after
    assert "_amp_state" not in after


@pytest.mark.parametrize(
    ("early", "late"),
    [
        ("", "amp._amp_state.loss_scalers[0]._unskipped"),
        ("", "len(amp._amp_state.loss_scalers)"),
        ("", 'amp.state_dict()["loss_scaler0"]["unskipped"]'),
        ("amp._amp_state.loss_scalers[1]._loss_scale = 8.0", "1"),
        ("amp._amp_state.loss_scalers[0]._scale_seq_len = 100", "1"),
        ("for _ in range(2): amp._amp_state.loss_scalers[0]._loss_scale = 8.0", "1"),
    ],
)
def test_what_else_is_done_with_apex_scalers(early: str, late: str, migrate: Check) -> None:
    plan = migrate(SCRIPT.format(early=early, late=late))
    assert "from amp_shim import amp\n" in plan.after
    assert "AMP290" in {finding.code for finding in plan.findings}


@pytest.mark.parametrize(
    "asked",
    [
        "optimizer._amp_stash.already_patched",
        'getattr(optimizer, "_amp_stash").already_patched',
        'hasattr(optimizer, "_amp_stash")',
        "len(optimizer._amp_stash.all_fp32_from_fp16_params)",
    ],
)
def test_what_apex_keeps_in_an_optimizer_is_that_of_the_shim(asked: str, migrate: Check) -> None:
    plan = migrate(SCRIPT.format(early="", late=asked))
    assert "from amp_shim import amp\n" in plan.after
    told = next(finding for finding in plan.findings if finding.code == "AMP290" and "_amp_stash" in finding.message)
    assert ("scaler.update()" in told.hint) is ("already_patched" in asked)


def test_so_is_a_helper_of_the_same_script_that_asks_for_it(rewrites_files: Check) -> None:
    rewrites_files(
        {
            "train.py": """
                  import torch
                - from apex import amp
                + from amp_shim import amp
                  from skips import is_skipped

                  model = torch.nn.Linear(2, 2).cuda()
                  optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                  model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
                  for x in loader:
                      loss = model(x).mean()
                      with amp.scale_loss(loss, optimizer) as scaled_loss:
                          scaled_loss.backward()
                      print(is_skipped(optimizer))
                      optimizer.step()
            """,
            "skips.py": """
                  def is_skipped(optimizer):
                      return optimizer._amp_stash.already_patched
            """,
        }
    )
