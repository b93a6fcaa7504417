"""Apex's opt levels and `enabled=`, as native AMP."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.settings import Settings

Check = Callable[..., Any]


def test_o0_is_plain_float32_and_stays_so(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          MODEL
        - model, optimizer = amp.initialize(model, optimizer, opt_level="O0")
          for x, y in loader:
              loss = nn.functional.mse_loss(model(x), y)
        -     with amp.scale_loss(loss, optimizer) as scaled_loss:
        -         scaled_loss.backward()
        +     # amp-migrate: ignore[AMP501] (float32, as Apex's O0)
        +     loss.backward()
              optimizer.step()
        """
    )


def test_o0_keeps_no_state_and_has_no_scale(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX

          def train(args, model, loader):
              optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        -     model, optimizer = amp.initialize(model, optimizer, opt_level="O0")
              for x, y in loader:
        -         with amp.scale_loss(nn.functional.mse_loss(model(x), y), optimizer) as scaled_loss:
        -             scaled_loss.backward()
        -         torch.nn.utils.clip_grad_norm_(amp.master_params(optimizer), 1.0)
        +         # amp-migrate: ignore[AMP501] (float32, as Apex's O0)
        +         nn.functional.mse_loss(model(x), y).backward()
        +         torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                  optimizer.step()
        -     return {"model": model.state_dict(), "amp": amp.state_dict()}
        +     return {"model": model.state_dict()}
        """
    )


@pytest.mark.parametrize("off", ['opt_level="O0"', "enabled=False"])
def test_o0_of_a_step_in_another_file(rewrites_files: Check, off: str) -> None:
    rewrites_files(
        {
            "engine.py": """
            - from apex import amp
            -
            -
              def train(model, optimizer, loader):
                  for x, y in loader:
                      loss = (model(x) - y).square().mean()
            -         with amp.scale_loss(loss, optimizer) as scaled_loss:
            -             scaled_loss.backward()
            +         # amp-migrate: ignore[AMP501] (float32, as Apex's O0)
            +         loss.backward()
                      optimizer.step()
                  return {"model": model.state_dict()}
            """,
            "train.py": f"""
              import torch
            - from apex import amp
              from engine import train

              model = torch.nn.Linear(3, 1)
              optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            - model, optimizer = amp.initialize(model, optimizer, {off})
              train(model, optimizer, loader)
            """,
        }
    )


def test_o0_whose_state_is_kept_by_no_key_stays_on_the_shim(rewrites: Check) -> None:
    plan = rewrites(
        """
        - from apex import amp
        + from amp_shim import amp

          MODEL
          model, optimizer = amp.initialize(model, optimizer, opt_level="O0")
          for x, y in loader:
              with amp.scale_loss(nn.functional.mse_loss(model(x), y), optimizer) as scaled_loss:
                  scaled_loss.backward()
              optimizer.step()
          save(amp.state_dict())
        """
    )
    assert any("amp.state_dict is kept in a way" in each.message for each in plan.findings)


def test_o2_keeps_float32_weights(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          MODEL
        - model, optimizer = amp.initialize(model, optimizer, opt_level="O2", keep_batchnorm_fp32=True)
        + scaler = torch.amp.GradScaler("cuda")
        ~ APEX_EPOCH
        """
    )


def test_level_of_the_command_line_is_a_switch(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          MODEL
        - model, optimizer = amp.initialize(model, optimizer, opt_level=args.opt_level)
        + amp_enabled = args.opt_level != "O0"
        + scaler = torch.amp.GradScaler("cuda", enabled=amp_enabled)
          for x, y in loader:
        -     loss = nn.functional.mse_loss(model(x), y)
        -     with amp.scale_loss(loss, optimizer) as scaled_loss:
        -         scaled_loss.backward()
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=amp_enabled):
        +         loss = nn.functional.mse_loss(model(x), y)
        +     scaler.scale(loss).backward()
        ~     optimizer.step()
        """
    )


def test_level_of_the_command_line_in_bfloat16(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          MODEL
        - model, optimizer = amp.initialize(model, optimizer, opt_level=args.opt_level)
        + amp_enabled = args.opt_level != "O0"
          for x, y in loader:
        -     loss = nn.functional.mse_loss(model(x), y)
        -     with amp.scale_loss(loss, optimizer) as scaled_loss:
        -         scaled_loss.backward()
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.bfloat16, enabled=amp_enabled):
        +         loss = nn.functional.mse_loss(model(x), y)
        +     loss.backward()
              optimizer.step()
        """,
        dtype="bf16",
    )


def test_enabled_is_a_switch(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          model = nn.Linear(2, 2).cuda()
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        - model, optimizer = amp.initialize(model, optimizer, enabled=args.amp, opt_level="O1")
        + scaler = torch.amp.GradScaler("cuda", enabled=bool(args.amp))
          for x, y in loader:
        -     loss = nn.functional.mse_loss(model(x), y)
        -     with amp.scale_loss(loss, optimizer) as s:
        -         s.backward()
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=bool(args.amp)):
        +         loss = nn.functional.mse_loss(model(x), y)
        +     scaler.scale(loss).backward()
        ~     optimizer.step()
        """
    )


def test_enabled_is_a_switch_in_bfloat16(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          model = nn.Linear(2, 2).cuda()
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        - model, optimizer = amp.initialize(model, optimizer, enabled=args.amp, opt_level="O1")
          for x, y in loader:
        -     loss = nn.functional.mse_loss(model(x), y)
        -     with amp.scale_loss(loss, optimizer) as s:
        -         s.backward()
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.bfloat16, enabled=bool(args.amp)):
        +         loss = nn.functional.mse_loss(model(x), y)
        +     loss.backward()
              optimizer.step()
        """,
        dtype="bf16",
    )


def test_dynamic_loss_scale_is_what_the_scaler_does(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          MODEL
        - model, optimizer = amp.initialize(model, optimizer, opt_level="O1", loss_scale="dynamic", verbosity=0)
        + scaler = torch.amp.GradScaler("cuda")
        ~ APEX_EPOCH
        """
    )


def said_at(level: str, before: str = "") -> str:
    """A script that initializes Apex at a level, with lines before that."""
    return f"""\
import torch
from apex import amp
net = torch.nn.Linear(8, 3).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
{before}net, optimizer = amp.initialize(net, optimizer, opt_level={level})
for x in loader:
    loss = net(x.cuda()).mean()
    optimizer.zero_grad()
    with amp.scale_loss(loss, optimizer) as scaled_loss:
        scaled_loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("level", "is_told"),
    [
        ("'O1' if fp16 else 'O0'", False),
        ("'O1' if fp16 else ('O0' if slow else 'O1')", False),
        ("f'O{1}'", False),
        ("f'O{2}' if fp16 else 'O0'", True),
        ("'O2' if fp16 else 'O0'", True),
        ("LEVELS[fp16] if fp16 else 'O0'", True),
        ("args.level", True),
    ],
)
@pytest.mark.parametrize("by_name", [True, False])
def test_levels_with_float16_weights_are_told_where_one_may_be_asked_for(
    level: str, is_told: bool, by_name: bool
) -> None:
    said = f"level = {level}\n" if by_name else ""
    plan = migrate_text(said_at(level="level" if by_name else level, before=said), Settings())
    assert "GradScaler(" in plan.after
    assert any(each.code == "AMP210" and "O2 and O3" in each.message for each in plan.findings) == is_told


@pytest.mark.parametrize(
    ("level", "asked"),
    [
        ("'O0' if cfg.slow else 'O1'", "not cfg.slow"),
        ("('O0' if cfg.slow else 'O2')", "not cfg.slow"),
        ("'O0' if a and b else 'O1'", "not (a and b)"),
        ("'O1' if cfg.fp16 else 'O0'", "bool(cfg.fp16)"),
        ("'O1' if cfg.fp16 else 'O2'", "('O1' if cfg.fp16 else 'O2') != \"O0\""),
        ("cfg.level if cfg.fp16 else 'O0'", "(cfg.level if cfg.fp16 else 'O0') != \"O0\""),
        ("cfg.level or 'O0'", "(cfg.level or 'O0') != \"O0\""),
        ("cfg.level", 'cfg.level != "O0"'),
    ],
)
def test_a_level_that_is_chosen_in_its_place_is_asked_as_a_whole(level: str, asked: str) -> None:
    after = migrate_text(said_at(level), Settings()).after
    assert f"amp_enabled = {asked}\n" in after or f"enabled={asked})" in after
    for slow in (True, False):
        names = {"cfg": SimpleNamespace(slow=slow, fp16=slow, level="O1" if slow else "O0"), "a": slow, "b": True}
        assert eval(asked, dict(names)) == (eval(level, dict(names)) != "O0")


@pytest.mark.parametrize("level", ["f'O{1}'", "f'{\"O\"}1'"])
def test_level_that_is_put_together_of_what_is_written_out_is_known(level: str, migrate: Check) -> None:
    plan = migrate(said_at(level))
    assert plan.after == migrate(said_at("'O1'")).after
