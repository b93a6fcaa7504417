"""`FP16_Optimizer` of `apex.fp16_utils` as native AMP."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from amp_migrate.engine.migrate import migrate as migrate_paths
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.settings import Apex, Settings
from amp_migrate.tables.apex_names import AN_OLD_APEX

Check = Callable[..., Any]

SCRIPT = """
    from apex.fp16_utils import FP16_Optimizer, network_to_half

    model = network_to_half(nn.Linear(2, 2).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer = FP16_Optimizer(optimizer{options})
    for x in loader:
        optimizer.zero_grad()
        loss = model(x).mean()
        {backward}
        {more}
        optimizer.step()
"""


def script(options: str = "", backward: str = "optimizer.backward(loss)", more: str = "pass") -> str:
    return SCRIPT.format(options=options, backward=backward, more=more)


def test_scaling_clipping_and_networks(rewrites: Check) -> None:
    rewrites(
        """
        - from apex.fp16_utils import FP16_Optimizer, network_to_half
        -
          model = nn.Linear(2, 2).cuda()
        - model = network_to_half(model)
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        - optimizer = FP16_Optimizer(optimizer, dynamic_loss_scale=True)
        + scaler = torch.amp.GradScaler("cuda")
          for x in loader:
        -     optimizer.zero_grad(set_grads_to_None=True)
        +     optimizer.zero_grad(set_to_none=True)
        ~     loss = model(x).mean()
        -     optimizer.backward(loss, retain_graph=True)
        -     optimizer.clip_master_grads(1.0)
        +     scaler.scale(loss).backward(retain_graph=True)
        +     scaler.unscale_(optimizer)
        +     torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        -     optimizer.step()
        +     scaler.step(optimizer)
        -     print(optimizer.loss_scale)
        +     scaler.update()
        +     print(scaler.get_scale())
        """
    )


def test_branches_for_both_precisions_are_one(rewrites: Check) -> None:
    rewrites(
        """
        - from apex.fp16_utils import BN_convert_float, FP16_Optimizer
        -
          def main(args):
              model = nn.Linear(2, 2)
        -     if args.fp16:
        -         model = BN_convert_float(model.half())
              optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        -     if args.fp16:
        -         optimizer = FP16_Optimizer(
        -             optimizer, static_loss_scale=args.scale, dynamic_loss_scale=args.dynamic
        -         )
        +     scaler = torch.amp.GradScaler("cuda", init_scale=65536.0 if args.dynamic else float(args.scale), growth_interval=2000 if args.dynamic else 2**31 - 1, enabled=bool(args.fp16))
              for x in loader:
        -         loss = model(x).mean()
        -         if args.fp16:
        -             optimizer.backward(loss)
        -             optimizer.clip_master_grads(args.clip)
        -         else:
        -             loss.backward()
        -             nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=bool(args.fp16)):
        +             loss = model(x).mean()
        +         scaler.scale(loss).backward()
        +         scaler.unscale_(optimizer)
        +         nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        ~         optimizer.step()
                  optimizer.zero_grad()
        """  # noqa: E501
    )


def test_branches_that_differ_are_unscaled_each(rewrites: Check) -> None:
    rewrites(
        """
        - from apex.fp16_utils import FP16_Optimizer
        -
          MODEL
        - if args.fp16:
        -     optimizer = FP16_Optimizer(optimizer, dynamic_loss_scale=True)
        + scaler = torch.amp.GradScaler("cuda", enabled=bool(args.fp16))
          for x in loader:
        -     loss = model(x).mean()
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=bool(args.fp16)):
        +         loss = model(x).mean()
              if args.fp16:
        -         optimizer.backward(loss)
        -         optimizer.clip_master_grads(1.0)
        +         scaler.scale(loss).backward()
        +         scaler.unscale_(optimizer)
        +         torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
              else:
        ~         loss.backward()
        +         scaler.unscale_(optimizer)
                  nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        ~     optimizer.step()
              optimizer.zero_grad()
        """
    )


def test_an_optimizer_that_is_made_of_others_in_a_branch_has_its_own_gradients_clipped(rewrites: Check) -> None:
    rewrites(
        """
        - from apex.fp16_utils import FP16_Optimizer
        -
          model = nn.Linear(2, 2)
          if args.bias_only:
              optimizer = torch.optim.SGD([model.bias], lr=0.1)
          else:
              optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        - optimizer = FP16_Optimizer(optimizer, dynamic_loss_scale=True)
        + scaler = torch.amp.GradScaler("cuda")
          for x in loader:
        -     loss = model(x).mean()
        -     optimizer.backward(loss)
        -     optimizer.clip_master_grads(1.0)
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +         loss = model(x).mean()
        +     scaler.scale(loss).backward()
        +     scaler.unscale_(optimizer)
        +     torch.nn.utils.clip_grad_norm_((p for group in optimizer.param_groups for p in group["params"]), 1.0)
        ~     optimizer.step()
              optimizer.zero_grad()
        """
    )


def test_what_it_wraps_is_the_optimizer_itself(rewrites: Check) -> None:
    rewrites(
        """
        - from apex.fp16_utils import FP16_Optimizer
          model = nn.Linear(2, 2).cuda()
        - optimizer = FP16_Optimizer(torch.optim.SGD(model.parameters(), lr=0.1), static_loss_scale=8.0)
        - scheduler = torch.optim.lr_scheduler.StepLR(optimizer.optimizer, 10)
        + optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        + scaler = torch.amp.GradScaler("cuda", init_scale=8.0, growth_interval=2**31 - 1)
        + scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10)
          for x in loader:
              optimizer.zero_grad()
        -     optimizer.backward(model(x).mean())
        -     optimizer.step()
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +         loss = model(x).mean()
        +     scaler.scale(loss).backward()
        +     scaler.step(optimizer)
        +     scaler.update()
              scheduler.step()
        """
    )


def test_the_scale_is_kept_in_checkpoints(migrate: Check) -> None:
    save = 'state = {"optimizer": optimizer.state_dict()}'
    plan = migrate(script(more=f'{save}\n        optimizer.load_state_dict(state["optimizer"])'))
    assert '{"optimizer": optimizer.state_dict(), "scaler": scaler.state_dict()}' in plan.after
    assert 'scaler.load_state_dict(state["scaler"])' in plan.after
    assert any("holds objects of Apex" in finding.message for finding in plan.findings)


def test_a_model_that_is_loaded_by_itself_is_no_old_checkpoint(migrate: Check) -> None:
    plan = migrate(script(more='model.load_state_dict(torch.load("model.bin"))'))
    assert not any("holds objects of Apex" in finding.message for finding in plan.findings)


@pytest.mark.parametrize(
    ("options", "scaler"),
    [
        ("", 'GradScaler("cuda", init_scale=1.0, growth_interval=2**31 - 1)'),
        (", 128", 'GradScaler("cuda", init_scale=128.0, growth_interval=2**31 - 1)'),
        (", static_loss_scale=scale", 'GradScaler("cuda", init_scale=float(scale), growth_interval=2**31 - 1)'),
        (", dynamic_loss_scale=True, verbose=False", 'GradScaler("cuda")'),
        (", dynamic_loss_args=None", 'GradScaler("cuda", init_scale=1.0, growth_interval=2**31 - 1)'),
    ],
)
def test_loss_scale_to_begin_with(options: str, scaler: str, migrate: Check) -> None:
    after = migrate(script(options)).after
    assert f"scaler = torch.amp.{scaler}\n" in after
    assert "model = nn.Linear(2, 2).cuda()\n" in after


@pytest.mark.parametrize("name", ["network_to_half", "FP16Model", "BN_convert_float"])
def test_networks_stay_in_float32(name: str, migrate: Check) -> None:
    after = migrate(script().replace("network_to_half", name)).after
    assert "model = nn.Linear(2, 2).cuda()\n" in after
    assert name not in after
    assert "GradScaler" in after


def test_bfloat16_needs_no_scaler(migrate: Check) -> None:
    after = migrate(script(more="optimizer.clip_master_grads(2)"), "bf16").after
    assert (
        "    loss.backward()\n    torch.nn.utils.clip_grad_norm_(model.parameters(), 2)\n    optimizer.step()" in after
    )
    assert "caler" not in after


@pytest.mark.parametrize(
    "text",
    [
        script(backward="optimizer.backward(loss, *options)"),
        script(backward="done = optimizer.backward(loss)"),
        script(more="done = optimizer.update_master_grads()"),
        script(more="optimizer.inspect_master_grad_data()"),
        script(more="optimizer.loss_scale = 8.0"),
        script(more="optimizer.optimizer = other"),
        script(", dynamic_loss_args=options"),
        script(", dynamic_loss_args={'min_scale': 1}"),
        script().replace("FP16_Optimizer, network_to_half", "FP16_Optimizer, network_to_half, prep_param_lists")
        + "    prep_param_lists(model)\n",
        script().replace("optimizer = FP16_Optimizer(optimizer)", "optimizer = wrap(FP16_Optimizer(optimizer))"),
        script().replace("network_to_half(nn.Linear(2, 2).cuda())", "wrap(network_to_half)"),
        script().replace("nn.Linear(2, 2).cuda())", "nn.Linear(2, 2), dtype)"),
    ],
)
def test_what_has_no_native_form_stays_on_the_shim(text: str, migrate: Check) -> None:
    plan = migrate(text)
    assert "from amp_shim.fp16_utils import FP16_Optimizer" in plan.after
    assert "autocast" not in plan.after
    assert "AMP290" in {finding.code for finding in plan.findings}


def test_float16_weights_may_be_asked_to_stay() -> None:
    text = "import torch\nfrom torch import nn\n" + script().replace("\n    ", "\n")
    plan = migrate_text(text, Settings(apex_o2=Apex.SHIM))
    assert "from amp_shim.fp16_utils import FP16_Optimizer" in plan.after


INTERVAL = "2000 if args.loss_scale == 0 else 2**31 - 1"
SCALE = "65536.0 if args.loss_scale == 0 else float(args.loss_scale)"
LATER = """
      def train(args, model, loader):
    -     if args.fp16:
    -         model.half()
          model.cuda()
    +     scaler = torch.amp.GradScaler("cuda", init_scale=SCALE, growth_interval=INTERVAL, enabled=bool(args.fp16))
          if args.fp16:
              try:
    -             from apex.optimizers import FP16_Optimizer
                  from apex.optimizers import FusedAdam
              except ImportError:
                  raise ImportError("Please install apex")
    -         optimizer = FusedAdam(model.parameters(), lr=1e-3, bias_correction=False, max_grad_norm=1.0)
    +         optimizer = FusedAdam(model.parameters(), lr=1e-3, bias_correction=False)
    -         if args.loss_scale == 0:
    -             optimizer = FP16_Optimizer(optimizer, dynamic_loss_scale=True)
    -         else:
    -             optimizer = FP16_Optimizer(optimizer, static_loss_scale=args.loss_scale)
          else:
              optimizer = BertAdam(model.parameters(), lr=1e-3)
          for x, y in loader:
    -         loss = nn.functional.cross_entropy(model(x), y)
    -         if args.fp16:
    -             optimizer.backward(loss)
    -         else:
    -             loss.backward()
    -         optimizer.step()
    +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=bool(args.fp16)):
    +             loss = nn.functional.cross_entropy(model(x), y)
    +         scaler.scale(loss).backward()
    +         scaler.unscale_(optimizer)
    +         for group in optimizer.param_groups if bool(args.fp16) else ():
    +             torch.nn.utils.clip_grad_norm_(group["params"], 1.0)
    +         scaler.step(optimizer)
    +         scaler.update()
              optimizer.zero_grad()
""".replace("SCALE", SCALE).replace("INTERVAL", INTERVAL)
LATER_BEFORE = "\n".join("    " + line[6:] for line in LATER.splitlines() if not line.startswith("    +"))


def test_wrapper_of_apex_optimizers_with_an_optimizer_that_clips(rewrites: Check) -> None:
    plan = rewrites(LATER)
    assert [each.message for each in plan.findings if "max_grad_norm" in each.message] == [
        "max_grad_norm clipped the gradients of each group in FusedAdam's step: the script clips them itself now"
    ]


def test_optimizer_that_clips_is_made_under_one_test_and_stepped_under_a_second(rewrites: Check) -> None:
    rewrites("""
      def main(args, model, loader):
          if args.do_train:
    +         scaler = torch.amp.GradScaler("cuda", enabled=bool(args.fp16))
              if args.fp16:
    -             from apex.optimizers import FP16_Optimizer, FusedAdam
    -             optimizer = FusedAdam(model.parameters(), lr=0.1, bias_correction=False, max_grad_norm=1.0)
    -             optimizer = FP16_Optimizer(optimizer, dynamic_loss_scale=True)
    +             from apex.optimizers import FusedAdam
    +             optimizer = FusedAdam(model.parameters(), lr=0.1, bias_correction=False)
              else:
                  optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
          if args.do_train:
              for x, y in loader:
    -             loss = nn.functional.cross_entropy(model(x), y)
    -             if args.fp16:
    -                 optimizer.backward(loss)
    -             else:
    -                 loss.backward()
    -             optimizer.step()
    +             with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=bool(args.fp16)):
    +                 loss = nn.functional.cross_entropy(model(x), y)
    +             scaler.scale(loss).backward()
    +             scaler.unscale_(optimizer)
    +             for group in optimizer.param_groups if bool(args.fp16) else ():
    +                 torch.nn.utils.clip_grad_norm_(group["params"], 1.0)
    +             scaler.step(optimizer)
    +             scaler.update()
                  optimizer.zero_grad()
    """)


def test_wrapper_of_contrib_with_an_optimizer_that_clips_where_another_function_steps(rewrites: Check) -> None:
    plan = rewrites("""
      def train(loader):
          for x, y in loader:
    -         loss = nn.functional.cross_entropy(model(x), y)
    -         if fp16:
    -             optimizer.backward(loss)
    -         else:
    -             loss.backward()
    -         optimizer.step()
    +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=fp16):
    +             loss = nn.functional.cross_entropy(model(x), y)
    +         scaler.scale(loss).backward()
    +         scaler.unscale_(optimizer)
    +         for group in optimizer.param_groups if scaler.is_enabled() else ():
    +             torch.nn.utils.clip_grad_norm_(group["params"], 1.0)
    +         scaler.step(optimizer)
    +         scaler.update()
              optimizer.zero_grad()


      if __name__ == "__main__":
          fp16 = "--fp16" in sys.argv
          model = nn.Linear(8, 3).cuda()
    -     if fp16:
    -         model.half()
    +     scaler = torch.amp.GradScaler("cuda", enabled=fp16)
          if fp16:
    -         from apex.contrib.optimizers import FP16_Optimizer, FusedAdam
    +         from apex.contrib.optimizers import FusedAdam

    -         optimizer = FusedAdam(model.parameters(), lr=0.1, bias_correction=False, max_grad_norm=1.0)
    -         optimizer = FP16_Optimizer(optimizer, dynamic_loss_scale=True)
    +         optimizer = FusedAdam(model.parameters(), lr=0.1, bias_correction=False)
          else:
              optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
          train(loader)
    """)
    assert [each.hint for each in plan.findings if each.code == "AMP391"] == [
        "without Apex: torch.optim.AdamW(..., fused=True)"
    ]


def test_optimizer_that_torch_has_goes_with_its_wrapper(migrate: Check) -> None:
    text = """
        from apex.optimizers import FusedAdam
        from apex.optimizers.fp16_optimizer import FP16_Optimizer

        model = nn.Linear(2, 2).cuda().half()
        optimizer = FP16_Optimizer(FusedAdam(model.parameters(), lr=1e-3, max_grad_norm=0.5))
        for x in loader:
            loss = model(x).mean()
            optimizer.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        """
    after = migrate(text).after
    assert "apex" not in after
    assert "optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0, fused=True)\n" in after
    assert (
        'for group in optimizer.param_groups:\n        torch.nn.utils.clip_grad_norm_(group["params"], 0.5)\n' in after
    )


def test_norms_are_clipped_in_bfloat16_too(migrate: Check) -> None:
    after = migrate(LATER_BEFORE, dtype="bf16").after
    assert "unscale_" not in after
    assert "for group in optimizer.param_groups if bool(args.fp16) else ():\n" in after


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("optimizer.backward(loss)", "done = optimizer.backward(loss)"),
        ("optimizer.step()", "optimizer.step(closure)"),
        ("max_grad_norm=1.0", "max_grad_norm=LIMIT(args), eps_inside_sqrt=True"),
    ],
)
def test_wrapper_of_apex_optimizers_is_left_whole(old: str, new: str, leaves: Check) -> None:
    finding = leaves(LATER_BEFORE.replace(old, new), "left on Apex")
    assert "amp_shim" not in finding.hint


@pytest.mark.parametrize(
    "asked", ["add_param_group({'params': frozen})", "register_step_post_hook(log)", "defaults['lr']", "schedule(x)"]
)
def test_what_the_wrapper_lacks_is_its_optimizers(asked: str, migrate: Check) -> None:
    after = migrate(f"{LATER_BEFORE}\n            optimizer.{asked}\n").after
    assert "scaler.step(optimizer)" in after
    assert f"        optimizer.{asked}\n" in after


@pytest.mark.parametrize(
    "asked", ["cur_scale", "overflow", "fp32_groups_flat", "_check_overflow()", "add_param_group = add"]
)
def test_what_only_the_wrapper_has_leaves_all_that_apex_has_with_it(asked: str, leaves: Check) -> None:
    wrapped = (
        "        from apex.parallel import DistributedDataParallel\n        model = DistributedDataParallel(model)\n"
    )
    text = LATER_BEFORE.replace("loader):\n", f"loader):\n{wrapped}")
    assert wrapped in text
    assert leaves(f"{text}\n            optimizer.{asked}\n", "FP16_Optimizer's").hint == AN_OLD_APEX


def test_what_an_object_of_a_class_in_sight_has_is_not_the_wrapper_s(migrate: Check) -> None:
    holder = """
class Holder:
    def __init__(self, model):
        self.model = model

def hold(model):
    optimizer = Holder(model)
    optimizer._mode = "late"
    return optimizer
"""
    assert "scaler.step(optimizer)" in migrate(f"{dedent(LATER_BEFORE)}\n{holder}").after


def test_gradients_that_are_copied_later(rewrites: Check) -> None:
    rewrites(
        """
        - from apex.fp16_utils import FP16_Optimizer
        -
          MODEL
        - optimizer = FP16_Optimizer(optimizer, dynamic_loss_scale=True)
        + scaler = torch.amp.GradScaler("cuda")
          for x in loader:
        ~     loss = model(x).mean()
              if fp16:
        -         optimizer.backward(loss, update_master_grads=False)
        -         optimizer.update_master_grads()
        +         scaler.scale(loss).backward()
                  print("half")
              else:
        -         loss.backward()
        +         scaler.scale(loss).backward()
        ~     optimizer.step()
              optimizer.zero_grad()
        """
    )


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ("{'init_scale': 2 ** 10, 'scale_window': n}", "init_scale=float(2 ** 10), growth_interval=n"),
        ("dict(scale_factor=4)", "growth_factor=4, backoff_factor=1 / (4)"),
        ("None", ""),
    ],
)
def test_how_the_scale_grows(given: str, made: str, migrate: Check) -> None:
    after = migrate(script(f", dynamic_loss_scale=True, dynamic_loss_args={given}")).after
    assert f'scaler = torch.amp.GradScaler("cuda"{made and ", " + made})\n' in after


@pytest.mark.parametrize(
    ("more", "is_told"),
    [
        ("norm = optimizer.clip_master_grads(1.0)", True),
        ("print(optimizer.clip_master_grads(1.0))", True),
        ("optimizer.clip_master_grads(1.0)", False),
    ],
)
def test_a_norm_that_was_minus_one_for_an_overflow_is_told(migrate: Check, more: str, is_told: bool) -> None:
    plan = migrate(script(", dynamic_loss_scale=True", more=more))
    assert "clip_grad_norm_" in plan.after
    assert any("clip_master_grads gave -1" in finding.message for finding in plan.findings) is is_told


@pytest.mark.parametrize(
    ("more", "is_told"),
    [
        ("torch.save(model.state_dict(), 'last.pt')", True),
        ("torch.save({'optimizer': optimizer.state_dict()}, 'last.pt')", False),
        ("pass", False),
    ],
)
def test_keys_that_lose_the_prefix_of_a_float16_network_are_told(migrate: Check, more: str, is_told: bool) -> None:
    plan = migrate(script(more=more))
    told = [finding for finding in plan.findings if 'network_to_half put "1." before each key' in finding.message]
    assert len(told) == is_told


@pytest.mark.parametrize(
    ("by_hand", "is_told"),
    [
        ("loss = loss * args.loss_scale", True),
        ("loss = args.loss_scale * loss", True),
        ("loss *= args.loss_scale", True),
        ("loss = loss * args.weight", False),
        ("loss = loss / args.steps", False),
        ("weight = weight * args.loss_scale", False),
    ],
)
def test_a_loss_that_is_scaled_by_hand_as_well_is_told(migrate: Check, by_hand: str, is_told: bool) -> None:
    text = SCRIPT.replace("{backward}", f"{by_hand}\n        {{backward}}")
    backward = "optimizer.backward(loss)"
    plan = migrate(text.format(options=", static_loss_scale=args.loss_scale", backward=backward, more="pass"))
    assert "GradScaler" in plan.after
    assert any("it is scaled twice" in finding.message for finding in plan.findings) is is_told
    plain = migrate(text.format(options=", static_loss_scale=128.0", backward=backward, more="pass"))
    assert not any("it is scaled twice" in finding.message for finding in plain.findings)


def test_a_loss_that_is_scaled_by_hand_where_it_goes_backward_is_told(migrate: Check) -> None:
    text = script(", args.loss_scale", "optimizer.backward(loss * args.loss_scale)")
    assert any("it is scaled twice" in finding.message for finding in migrate(text).findings)


@pytest.mark.parametrize(
    ("options", "arguments", "is_told"),
    [
        ("static_loss_scale=args.scale", "init_scale=float(args.scale), growth_interval=2**31 - 1", True),
        ("dynamic_loss_scale=True", "", False),
        (
            "dynamic_loss_scale=args.dynamic, dynamic_loss_args={'scale_window': 500}",
            "init_scale=65536.0 if args.dynamic else 1.0, growth_interval=500 if args.dynamic else 2**31 - 1",
            True,
        ),
    ],
)
def test_a_static_scale_does_not_grow(options: str, arguments: str, is_told: bool, migrate: Check) -> None:
    plan = migrate(script(f", {options}"))
    assert f"GradScaler({', '.join(filter(None, [chr(34) + 'cuda' + chr(34), arguments]))})" in plan.after
    assert any("stayed for good" in each.message for each in plan.findings) == is_told


def test_how_a_scale_grows_is_said_in_the_words_of_the_caller(migrate: Check) -> None:
    plan = migrate(
        """
        from apex.fp16_utils import FP16_Optimizer

        def wrap(optimizer, is_dynamic):
            optimizer = FP16_Optimizer(optimizer, dynamic_loss_scale=is_dynamic)
            return optimizer

        def main(args, model, loader):
            optimizer = wrap(torch.optim.SGD(model.parameters(), lr=0.1), args.dynamic)
            for x in loader:
                loss = model(x).mean()
                optimizer.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
        """
    )
    assert "growth_interval=2000 if args.dynamic else 2**31 - 1)" in plan.after


@pytest.mark.parametrize("test", ["False", "0"])
def test_a_wrapper_that_is_switched_off_is_none(migrate: Check, test: str) -> None:
    plan = migrate(
        f"""
        def train(model, loader, args):
            if {test}:
                from apex.fp16_utils import FP16_Optimizer
                optimizer = FP16_Optimizer(torch.optim.Adam(model.parameters()), dynamic_loss_scale=True)
            else:
                optimizer = torch.optim.Adam(model.parameters())
                if args.fp16:
                    from apex import amp
                    model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
            for x in loader:
                optimizer.zero_grad()
                loss = model(x).mean()
                if args.fp16:
                    with amp.scale_loss(loss, optimizer) as scaled_loss:
                        scaled_loss.backward()
                else:
                    loss.backward()
                optimizer.step()
        """
    )
    assert 'scaler = torch.amp.GradScaler("cuda", enabled=bool(args.fp16))' in plan.after
    assert "amp.scale_loss" not in plan.after


BY_NAME = "from apex.fp16_utils import FP16_Optimizer, network_to_half"
BY_STAR = "from apex.fp16_utils import *"


@pytest.mark.parametrize(
    "import_",
    [
        BY_STAR,
        f"from torch.nn import *\n    {BY_STAR}",
        f"try:\n        {BY_STAR}\n    except ImportError:\n        raise ImportError('no apex')",
    ],
)
def test_a_star_import_brings_what_one_by_name_does_and_goes_as_that_does(migrate: Check, import_: str) -> None:
    plan, wanted = migrate(script().replace(BY_NAME, import_)), migrate(script()).after
    kept = [line for line in plan.after.splitlines() if line and line != "from torch.nn import *"]
    assert kept == list(filter(None, wanted.splitlines()))
    assert not any("nothing uses it" in each.message for each in plan.findings)


def test_a_star_import_stays_for_what_nobody_moves(migrate: Check) -> None:
    used = "optimizer.backward(loss)\n        print(to_python_float(loss))"
    after = migrate(script(backward=used).replace(BY_NAME, BY_STAR)).after
    assert "from amp_shim.fp16_utils import *" in after


def test_a_star_import_beside_one_that_may_bring_the_same_is_left_to_the_shim(migrate: Check) -> None:
    text = script().replace(BY_NAME, f"{BY_STAR}\n    from mine import *")
    assert "from amp_shim.fp16_utils import *\nfrom mine import *\n" in migrate(text).after


def test_a_star_import_brings_the_wrapper_into_the_file_of_a_function_that_is_called(tmp_path: Path) -> None:
    (tmp_path / "setup_fp16.py").write_text(
        f"import torch\n{BY_STAR}\n\n\ndef setup(model, fp16):\n    if fp16:\n        model = network_to_half(model)\n"
        "    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n    if fp16:\n"
        "        optimizer = FP16_Optimizer(optimizer)\n    return model, optimizer\n"
    )
    (tmp_path / "train.py").write_text(
        "import torch\nfrom setup_fp16 import setup\n\n\ndef main(args, loader):\n"
        "    model = torch.nn.Linear(2, 2).cuda()\n    model, optimizer = setup(model, args.fp16)\n"
        "    for x in loader:\n        loss = model(x).mean()\n        optimizer.zero_grad()\n"
        "        if args.fp16:\n            optimizer.backward(loss)\n        else:\n            loss.backward()\n"
        "        optimizer.step()\n"
    )
    plans = migrate_paths([tmp_path], Settings()).changed
    after = {plan.source.path.name: plan.after for plan in plans}
    assert not any("apex" in text or "amp_shim" in text for text in after.values())
    assert "scaler.scale(loss).backward()" in after["train.py"]
