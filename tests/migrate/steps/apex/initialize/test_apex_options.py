"""What an Apex script says beside its level: loss scales, their limits, functions that stay in float32."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.report.finding import Kind
from amp_migrate.settings import Settings

Check = Callable[..., Any]

SCRIPT = """
from apex import amp

model = nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer = amp.initialize(model, optimizer, opt_level="O1", {})
for x in loader:
    loss = model(x).mean()
    with amp.scale_loss(loss, optimizer) as scaled_loss:
        scaled_loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("option", "scaler"),
    [
        ('loss_scale="dynamic"', '"cuda"'),
        ("loss_scale=None", '"cuda"'),
        ("loss_scale=128", '"cuda", init_scale=128.0, growth_interval=2**31 - 1'),
        ('loss_scale="128.0"', '"cuda", init_scale=128.0, growth_interval=2**31 - 1'),
        (
            "loss_scale=args.loss_scale",
            '"cuda", init_scale=65536.0 if args.loss_scale in (None, "dynamic") else float(args.loss_scale), '
            'growth_interval=2000 if args.loss_scale in (None, "dynamic") else 2**31 - 1',
        ),
        (
            'loss_scale="dynamic" if args.scale == 0 else args.scale',
            '"cuda", init_scale=65536.0 if args.scale == 0 else float(args.scale), '
            "growth_interval=2000 if args.scale == 0 else 2**31 - 1",
        ),
        (
            "loss_scale=64, enabled=args.fp16",
            '"cuda", init_scale=64.0, growth_interval=2**31 - 1, enabled=bool(args.fp16)',
        ),
    ],
)
def test_loss_scale_is_what_the_scaler_begins_with(migrate: Check, option: str, scaler: str) -> None:
    plan = migrate(SCRIPT.format(option))
    assert f"scaler = torch.amp.GradScaler({scaler})" in plan.after.splitlines()
    notes = [finding.message for finding in plan.findings if finding.kind is Kind.NOTE]
    assert any("a static loss_scale" in note for note in notes) == ("init_scale" in scaler)


@pytest.mark.parametrize(
    ("option", "arguments", "lines"),
    [
        ("min_loss_scale=128", "", ["if scaler.get_scale() < 128.0:", "scaler.update(128.0)"]),
        ("max_loss_scale=2.0**20", "", ["if scaler.get_scale() > 1048576.0:", "scaler.update(1048576.0)"]),
        (
            "max_loss_scale=512.0",
            ", init_scale=512.0",
            ["if scaler.get_scale() > 512.0:", "scaler.update(512.0)"],
        ),
        ("max_loss_scale=2.0**24", "", []),
    ],
)
def test_scale_stays_within_its_limits(migrate: Check, option: str, arguments: str, lines: list[str]) -> None:
    plan = migrate(SCRIPT.format(option))
    assert f'torch.amp.GradScaler("cuda"{arguments})' in plan.after
    after = [line.strip() for line in plan.after.splitlines()]
    behind = after[after.index("scaler.update()") + 1 :]
    assert behind[: len(lines)] == lines
    assert ("get_scale" in plan.after) == bool(lines)


def test_static_scale_knows_no_limits(migrate: Check) -> None:
    plan = migrate(SCRIPT.format("loss_scale=4096, max_loss_scale=1024.0"))
    assert 'torch.amp.GradScaler("cuda", init_scale=4096.0, growth_interval=2**31 - 1)' in plan.after
    assert "get_scale" not in plan.after
    assert not [each for each in plan.findings if "loss_scale is gone" in each.message]


@pytest.mark.parametrize(
    ("scale", "is_dynamic"),
    [
        ("args.scale", 'args.scale in (None, "dynamic")'),
        ('"dynamic" if args.scale == 0 else args.scale', "args.scale == 0"),
    ],
)
def test_limits_are_for_a_scale_that_the_run_makes_dynamic(migrate: Check, scale: str, is_dynamic: str) -> None:
    plan = migrate(SCRIPT.format(f"loss_scale={scale}, min_loss_scale=16, max_loss_scale=1024.0"))
    assert f"init_scale=1024.0 if {is_dynamic} else float(args.scale), " in plan.after
    asked = "if scaler.is_enabled() and scaler.get_growth_interval() < 2**31 - 1 and scaler.get_scale()"
    assert [line.strip() for line in plan.after.splitlines() if "get_scale" in line] == [
        f"{asked} < 16.0:",
        f"{asked} > 1024.0:",
    ]


def test_limit_that_cannot_be_seen_is_told(migrate: Check) -> None:
    plan = migrate(SCRIPT.format("max_loss_scale=args.most"))
    assert 'torch.amp.GradScaler("cuda")' in plan.after
    assert [each for each in plan.findings if each.kind is Kind.NOTE and "GradScaler knows no limits" in each.message]


def test_limit_that_scripts_sharing_a_step_do_not_share_is_told(rewrites_files: Check) -> None:
    started = """
      import torch
    - from apex import amp
      from common import train

      def main(loader):
          model = torch.nn.Linear(2, 2).cuda()
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    -     model, optimizer = amp.initialize(model, optimizer, opt_level="O1", {})
    -     train(model, optimizer, loader)
    +     scaler = torch.amp.GradScaler("cuda", init_scale=512.0)
    +     train(model, optimizer, scaler, loader)
    """
    step = """
    - from apex import amp
    + import torch

    - def train(model, optimizer, loader):
    + def train(model, optimizer, scaler, loader):
          for x in loader:
              optimizer.zero_grad()
    -         loss = model(x).mean()
    -         with amp.scale_loss(loss, optimizer) as scaled_loss:
    -             scaled_loss.backward()
    -         optimizer.step()
    +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
    +             loss = model(x).mean()
    +         scaler.scale(loss).backward()
    +         scaler.step(optimizer)
    +         scaler.update()
    +         if scaler.get_scale() > 512.0:
    +             scaler.update(512.0)
    """
    limits = {"a": "min_loss_scale=128.0, max_loss_scale=512.0", "b": "min_loss_scale=32.0, max_loss_scale=512.0"}
    scripts = {f"{name}.py": started.format(each) for name, each in limits.items()}
    found = rewrites_files(scripts | {"common.py": step})
    told = [(Path(each.path).name, each.message) for each in found if "loss_scale is gone" in each.message]
    assert [file for file, _ in told] == ["a.py", "b.py"]
    assert all(message.startswith("min_loss_scale is gone") for _, message in told)


def test_function_that_stays_in_float32(rewrites: Check) -> None:
    plan = rewrites(
        """
        ~ APEX

        - @amp.float_function
        + @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
          def upsample(x):
              return nn.functional.interpolate(x, scale_factor=2)


        - nms = amp.float_function(_C.nms)
        + nms = torch.amp.custom_fwd(_C.nms, device_type="cuda", cast_inputs=torch.float32)
          MODEL
        ~ INITIALIZE
        ~ APEX_EPOCH
        """
    )
    assert len([each for each in plan.findings if "was float_function" in each.message]) == 2


def test_casts_switched_off(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          MODEL
        ~ INITIALIZE
          for x in loader:
        -     with amp.disable_casts():
        +     with torch.amp.autocast(device_type="cuda", enabled=False):
                  x = prepare(x)
        ~     loss = model(x).mean()
        ~     APEX_STEP
        """
    )


def test_forward_that_cannot_be_seen_runs_where_apex_ran_it(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          class Trainer:
              def __init__(self, model, make_optimizer):
                  self.optimizer = make_optimizer(model)
        -         self.model, self.optimizer = amp.initialize(model, self.optimizer)
        +         self.model = model
        +         self.scaler = torch.amp.GradScaler("cuda")

              def loss(self, data):
                  raise NotImplementedError

              def do_step(self, data):
        ~         loss, meta = self.loss(data)
                  self.optimizer.zero_grad()
        -         with amp.scale_loss(loss, self.optimizer) as scaled_loss:
        -             scaled_loss.backward()
        -         self.optimizer.step()
        +         self.scaler.scale(loss).backward()
        +         self.scaler.step(self.optimizer)
        +         self.scaler.update()
        """
    )


@pytest.mark.parametrize(
    "loss",
    [
        "self.criterion(outputs, y)",
        "self.loss(outputs, y)",
        "self.measure(outputs, y)",
        "self.inherited_loss_fn(outputs, y)",
        "outputs.mean()",
        "distance(outputs, y)",
    ],
)
def test_loss_of_outputs_from_elsewhere_is_no_forward(migrate: Check, loss: str) -> None:
    text = f"""
        from apex import amp
        from losses import distance

        class Trainer:
            def __init__(self, model, optimizer, criterion):
                self.optimizer = optimizer
                self.criterion = criterion
                self.measure = distance
                self.model, self.optimizer = amp.initialize(model, self.optimizer)

            def loss(self, outputs, y):
                return (outputs - y).pow(2).mean()

            def do_step(self, outputs, y):
                loss = {loss}
                with amp.scale_loss(loss, self.optimizer) as scaled_loss:
                    scaled_loss.backward()
                self.optimizer.step()
        """
    plan = migrate(text)
    assert plan.after == plan.source.text.replace("from apex", "from amp_shim")


def test_own_clipping_of_the_masters_comes_after_unscaling(migrate: Check) -> None:
    text = SCRIPT.format("verbosity=0").replace(
        "    optimizer.step()", "    clipper.step(amp.master_params(optimizer))\n    optimizer.step()"
    )
    after = [line.strip() for line in migrate(text).after.splitlines()]
    unscaled = after.index("scaler.unscale_(optimizer)")
    assert after[unscaled : unscaled + 2] == ["scaler.unscale_(optimizer)", "clipper.step(model.parameters())"]


def test_masters_of_an_attribute_are_the_parameters_it_was_made_from(migrate: Check) -> None:
    text = """
        from apex import amp

        class Trainer:
            def __init__(self):
                self.model = nn.Linear(2, 2)
                self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
                self.model, self.optimizer = amp.initialize(self.model, self.optimizer)

            def step(self, x):
                loss = self.model(x).mean()
                with amp.scale_loss(loss, self.optimizer) as scaled_loss:
                    scaled_loss.backward()
                nn.utils.clip_grad_norm_(amp.master_params(self.optimizer), 1.0)
                self.optimizer.step()
        """
    assert "clip_grad_norm_(self.model.parameters(), 1.0)" in migrate(text).after


def test_import_inside_one_of_two_branches_does_not_keep_them_apart(migrate: Check) -> None:
    text = SCRIPT.format("enabled=fp16").replace(
        """    with amp.scale_loss(loss, optimizer) as scaled_loss:
        scaled_loss.backward()
""",
        """    if fp16:
        from apex import amp
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
    else:
        loss.backward()
""",
    )
    after = migrate(text).after
    assert after.count("scaler.scale(loss).backward()") == 1
    assert "if fp16" not in after


def test_registration_of_what_autocast_runs_in_half_anyway(rewrites: Check) -> None:
    rewrites(
        """
          MODEL
        - if args.fp16:
        -     try:
        -         import apex
        -
        -         apex.amp.register_half_function(torch, "einsum")
        -     except ImportError:
        -         raise ImportError("install apex")
        - if args.fp16:
        -     from apex import amp
        -
        -     model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
        + scaler = torch.amp.GradScaler("cuda", enabled=bool(args.fp16))
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


REGISTERING = """
    import torch.nn.functional as F
    from apex import amp

    {registration}
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
    for x in loader:
        loss = model(x).mean()
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
        optimizer.step()
        optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    "registration",
    [
        'amp.register_half_function(F, "linear")',
        'amp.register_float_function(F, "softmax")',
        'amp.register_float_function(torch.Tensor, "sum")',
        'amp.register_promote_function(torch, "cat")',
    ],
)
def test_registration_that_changes_nothing_goes(registration: str, migrate: Check) -> None:
    after = migrate(REGISTERING.format(registration=registration)).after
    assert "GradScaler" in after
    assert "register" not in after


@pytest.mark.parametrize(
    "registration",
    [
        'amp.register_half_function(ops, "softmax")',
        'amp.register_float_function(torch, "sigmoid")',
        'amp.register_float_function(ops, "softmax")',
        "amp.register_half_function(torch, name)",
        'amp.register_half_function(module=torch, name="einsum")',
    ],
)
def test_registration_that_changes_something_needs_the_shim(registration: str, migrate: Check) -> None:
    after = migrate(REGISTERING.format(registration=registration)).after
    assert "from amp_shim import amp\n" in after
    assert registration in after


def test_settings_that_are_not_seen_are_asked_when_they_are_there(rewrites: Check) -> None:
    asked = 'settings.get("loss_scale")'
    plan = rewrites(
        f"""
        ~ APEX

          def main(model, **settings):
              optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        -     model, optimizer = amp.initialize(model, optimizer, verbosity=0, **settings)
        +     amp_enabled = bool(settings.get("enabled", True)) and settings.get("opt_level") != "O0"
        +     scaler = torch.amp.GradScaler("cuda", init_scale=65536.0 if {asked} in (None, "dynamic") else float({asked}), growth_interval=2000 if {asked} in (None, "dynamic") else 2**31 - 1, enabled=amp_enabled)
              for x, y in loader:
        -         loss = nn.functional.mse_loss(model(x), y)
        -         with amp.scale_loss(loss, optimizer) as scaled_loss:
        -             scaled_loss.backward()
        -         optimizer.step()
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=amp_enabled):
        +             loss = nn.functional.mse_loss(model(x), y)
        +         scaler.scale(loss).backward()
        +         scaler.step(optimizer)
        +         scaler.update()
        """  # noqa: E501
    )
    assert any("what else settings says of casts" in each.message for each in plan.findings)


def test_settings_that_are_written_out(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          MODEL
        - model, optimizer = amp.initialize(model, optimizer, **{"opt_level": "O1", "loss_scale": 128})
        + scaler = torch.amp.GradScaler("cuda", init_scale=128.0, growth_interval=2**31 - 1)
        ~ APEX_EPOCH
        """
    )


def test_a_loss_scale_by_a_key_is_read_where_mixed_precision_is_on() -> None:
    """The key is there only then: `params["amp"]["loss_scale"]`."""
    text = """\
import torch
from apex import amp


class Trainer:
    def __init__(self, model, params):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.use_amp = "amp" in params
        if self.use_amp:
            self.model, self.optimizer = amp.initialize(
                self.model, self.optimizer, opt_level="O1", loss_scale=params["amp"]["loss_scale"]
            )

    def step(self, x):
        self.optimizer.zero_grad()
        loss = self.model(x).square().mean()
        if self.use_amp:
            with amp.scale_loss(loss, self.optimizer) as scaled_loss:
                scaled_loss.backward()
        else:
            loss.backward()
        self.optimizer.step()


trainer = Trainer(torch.nn.Linear(4, 2).cuda(), params)
for x in loader:
    trainer.step(x.cuda())
"""
    plan = migrate_text(text, Settings())
    made = re.search(r"self\.scaler = (.*)\n", plan.after)
    assert made is not None
    assert made[1].startswith('torch.amp.GradScaler("cuda", init_scale=65536.0 if params["amp"]["loss_scale"] in ')
    assert made[1].endswith(' if bool(self.use_amp) else torch.amp.GradScaler("cuda", enabled=False)')
    assert migrate_text(plan.after, Settings()).after == plan.after
