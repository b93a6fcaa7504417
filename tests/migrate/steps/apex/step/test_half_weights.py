"""An `FP16_Optimizer` that is always there, over weights that are float16 only where the script is asked for that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.settings import Settings

Check = Callable[..., Any]

TRAINING = """
      def main(args, loader):
          model = nn.Linear(2, 2)
    -     if args.fp16:
    -         model = {network}
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    -     optimizer = FP16_Optimizer(optimizer, dynamic_loss_scale=True)
    +     scaler = torch.amp.GradScaler("cuda", enabled=bool(args.fp16))
          for x in loader:
    -         loss = model(x).mean()
    -         optimizer.backward(loss)
    -         optimizer.step()
    +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=bool(args.fp16)):
    +             loss = model(x).mean()
    +         scaler.scale(loss).backward()
    +         scaler.step(optimizer)
    +         scaler.update()
              optimizer.zero_grad()
"""
TEXT = """
    from apex.fp16_utils import FP16_Optimizer

    def main(args, model, loader):
        {halved}
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        optimizer = FP16_Optimizer(optimizer, {options})
        for x in loader:
            loss = model(x).mean()
            optimizer.backward(loss)
            optimizer.step()
            optimizer.zero_grad()

    main(args, nn.Linear(2, 2), loader)
"""
DYNAMIC = "dynamic_loss_scale=True"


def test_the_switch_of_the_weights_is_that_of_mixed_precision(rewrites: Check) -> None:
    plan = rewrites(f"    - from apex.fp16_utils import FP16_Optimizer\n    -{TRAINING.format(network='model.half()')}")
    told = [each.message for each in plan.findings if "had their loss scaled" in each.message]
    assert told == ["float32 weights had their loss scaled, too: without `args.fp16` there is no loss scale now"]


def test_a_function_that_halves_is_asked_where_it_is_called(rewrites: Check) -> None:
    rewrites(
        """
    - from apex.fp16_utils import FP16_Optimizer, network_to_half
    -
      def lowered(network):
    -     network = network_to_half(network)
          return network
    """
        + TRAINING.replace("- ", "  ", 2).format(network="lowered(model)")
    )


@pytest.mark.parametrize(
    "halved",
    [
        "model = model.half()",
        "if args.fp16:\n            print('half')\n        model.half()",
        "if args.fp16:\n            model.half()\n        else:\n            model.half()",
        "if a:\n            model.half()\n        elif b:\n            model.half()\n"
        "        else:\n            model.half()",
    ],
)
def test_weights_that_are_always_float16_ask_for_nothing(halved: str, migrate: Check) -> None:
    after = migrate(TEXT.format(halved=halved, options=DYNAMIC)).after
    assert "autocast" in after
    assert "enabled" not in after


@pytest.mark.parametrize("when", ["", "if args.low: "])
def test_weights_that_no_optimizer_steps_say_nothing_and_stay_float16(when: str, migrate: Check) -> None:
    halved = f"teacher = nn.Linear(2, 2)\n        {when}teacher.half()\n        if args.fp16:\n            model.half()"
    after = migrate(TEXT.format(halved=halved, options=DYNAMIC)).after
    assert "enabled=bool(args.fp16)" in after
    assert f"    {when}teacher.half()\n" in after
    assert "model.half()" not in after


def test_weights_that_may_be_those_of_the_optimizer_are_float16_as_well(migrate: Check) -> None:
    halved = "net = wrapped(model)\n        net.half()\n        if args.fp16:\n            model.half()"
    after = migrate(TEXT.format(halved=halved, options=DYNAMIC)).after
    assert "half()" not in after
    assert "enabled" not in after


def test_weights_that_are_float16_for_several_reasons_stay_on_the_shim(migrate: Check) -> None:
    halved = "if args.fp16:\n            model.half()\n        elif args.low:\n            model.half()"
    plan = migrate(TEXT.format(halved=halved, options=DYNAMIC))
    assert "from amp_shim.fp16_utils import FP16_Optimizer" in plan.after
    assert any("when FP16_Optimizer gets float16 weights" in each.message for each in plan.findings)


def test_a_condition_that_cannot_be_asked_beside_the_wrapper_leaves_it_on_the_shim(migrate: Check) -> None:
    called = "low = asked()\n    net = nn.Linear(2, 2)\n    if low:\n        net.half()\n    main(args, net, loader)"
    text = TEXT.format(halved="low = False", options=DYNAMIC).replace("main(args, nn.Linear(2, 2), loader)", called)
    assert "from amp_shim.fp16_utils import FP16_Optimizer" in migrate(text).after


def test_what_is_scaled_by_one_has_no_scale_to_lose(migrate: Check) -> None:
    plan = migrate(TEXT.format(halved="if args.fp16:\n            model.half()", options="verbose=False"))
    assert "enabled=bool(args.fp16)" in plan.after
    assert not any("had their loss scaled" in each.message for each in plan.findings)


AGAIN = """
    from apex.fp16_utils import FP16_Optimizer

    def main(args, loader):
        model = nn.Linear(2, 2)
        model.half()
        model = {wrapped}
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        optimizer = FP16_Optimizer(optimizer, dynamic_loss_scale=True)
        for x in loader:
            loss = model(x).mean()
            optimizer.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        kept = model.state_dict()
        model = nn.Linear(2, 2)
        model.load_state_dict(kept)
        model.half()  # behind the training
        with torch.no_grad():
            return [model(x.half()) for x in loader]

    main(args, loader)
"""


@pytest.mark.parametrize("wrapped", ["nn.DataParallel(model)", "model"])
def test_another_model_of_the_same_name_stays_float16(wrapped: str, migrate: Check) -> None:
    after = migrate(AGAIN.format(wrapped=wrapped)).after
    assert after.count("model.half()") == 1
    assert "model.half()  # behind the training" in after
    assert "model(x.half())" in after


BY_HAND = """\
import torch
from apex.fp16_utils import *
from torch import nn

net = nn.Linear(8, 1).cuda()
{halved}
model_params, master_params = prep_param_lists(model)
optimizer = torch.optim.SGD(master_params, 0.05)
for x in torch.load("batches.pt"):
    loss = nn.functional.mse_loss(model(x.cuda()).float().squeeze(1), x.cuda().sum(1)) * 128.0
    model.zero_grad()
    loss.backward()
    model_grads_to_master_grads(model_params, master_params)
    for p in master_params:
        p.grad.data = p.grad.data / 128.0
    optimizer.step()
    master_params_to_model_params(model_params, master_params)
"""


@pytest.mark.parametrize(
    "halved",
    [
        "model = network_to_half(net)",
        "model = FP16Model(net)",
        "model = convert_network(net, torch.float16)",
        "model = BN_convert_float(net.half())",
        "model = net\nif torch.cuda.is_available():\n    model = network_to_half(net)",
    ],
)
def test_training_in_float16_by_the_functions_of_apex_is_no_float32_training(halved: str) -> None:
    """It has a loss scale of its own, and goes on with the shim's functions; no region and no scaler is put beside."""
    plan = migrate_text(BY_HAND.format(halved=halved), Settings())
    assert "from amp_shim.fp16_utils import *" in plan.after
    assert "autocast" not in plan.after
    assert "GradScaler" not in plan.after
    assert {each.code for each in plan.findings} == {"AMP301", "AMP590"}


def test_a_loss_that_a_scaler_of_apex_takes_backward_is_said_to_be_scaled() -> None:
    begin, _, end = BY_HAND.partition("    loss.backward()\n")
    text = begin.replace("for x in", "scaler = DynamicLossScaler()\nfor x in") + "    scaler.backward(loss)\n" + end
    plan = migrate_text(text.format(halved="model = network_to_half(net)"), Settings())
    (told,) = (each for each in plan.findings if each.code != "AMP301")
    assert told.message == (
        "step left as it was: the loss of scaler.backward(loss) is multiplied by a loss scale of the script's own"
    )
