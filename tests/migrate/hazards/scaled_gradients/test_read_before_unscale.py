"""AMP601: gradients that are clipped or read while they are still scaled."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import indent
from typing import Any

import pytest

Check = Callable[..., Any]


def loop(*lines: str, head: str = "") -> str:
    """A training loop with `lines` behind the scaled backward."""
    body = "".join(f"        {line}\n" for line in lines)
    return (
        f"def train(model, optimizer, scaler, loader, args):\n{head}    for i, (x, y) in enumerate(loader):\n"
        f"        scaler.scale(F.mse_loss(model(x), y)).backward()\n{body}"
    )


STEP = ("scaler.step(optimizer)", "scaler.update()")


@pytest.mark.parametrize("scaler", ["torch.amp.GradScaler", "torch.GradScaler", "torch.amp.grad_scaler.GradScaler"])
def test_clipping_in_one_block_with_the_step_is_repaired(rewrites: Check, scaler: str) -> None:
    rewrites(
        f"""
          model = nn.Linear(2, 2)
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
          scaler = {scaler}("cuda")
          for x, y in loader:
              with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                  loss = nn.functional.mse_loss(model(x), y)
              scaler.scale(loss).backward()
        +     scaler.unscale_(optimizer)
              torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # not too far
              scaler.step(optimizer)
              scaler.update()
        """,
        unsafe=True,
    )


def test_clipping_under_an_if_is_repaired_before_the_if(rewrites: Check) -> None:
    rewrites(
        """
          def train(model, optimizer, scaler, loader, args):
              for x, y in loader:
                  scaler.scale(nn.functional.mse_loss(model(x), y)).backward()
        +         scaler.unscale_(optimizer)
                  if args.clip:
                      torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
                  scaler.step(optimizer)
                  scaler.update()
        """,
        unsafe=True,
    )


def test_clipping_that_could_be_repaired_is_told_by_default(marked: Check) -> None:
    found = marked(loop("nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # AMP601", *STEP))
    assert "--unsafe" in found[0].hint


def test_what_is_repaired_is_left_alone_if_it_is_not_wanted(marked: Check) -> None:
    text = loop("nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # amp-migrate: ignore[AMP601]", *STEP)
    assert marked(text) == ()


def test_clipping_before_unscaling_is_told(marked: Check) -> None:
    found = marked(
        loop(
            "nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # AMP601",
            "scaler.unscale_(optimizer)",
            *STEP,
        )
    )
    assert "write scaler.unscale_(optimizer) before it" in found[0].hint


@pytest.mark.parametrize(
    "around",
    [
        "for x in batch:\n    scaler.scale(net(x)).backward()\nelse:\n    {clip}",
        "while more():\n    scaler.scale(net(x)).backward()\nelse:\n    {clip}",
        "try:\n    scaler.scale(net(x)).backward()\nexcept ValueError:\n    raise\nelse:\n    {clip}",
        "try:\n    scaler.scale(net(x)).backward()\nfinally:\n    {clip}",
        "scaler.scale(net(x)).backward()\ntry:\n    check(x)\nexcept ValueError:\n    {clip}",
        "scaler.scale(net(x)).backward()\nmatch mode:\n    case 1:\n        {clip}",
        "scaler.scale(net(x)).backward()\nwith timer:\n    {clip}",
        "scaler.scale(net(x)).backward()\nwhile again():\n    if done():\n        break\n    {clip}",
    ],
)
def test_clipping_is_told_in_whichever_block_it_stands(marked: Check, around: str) -> None:
    body = around.format(clip="nn.utils.clip_grad_norm_(net.parameters(), 1.0)  # AMP601")
    steps = "".join(f"    {line}\n" for line in STEP)
    marked(f"def train(net, optimizer, scaler, batch, x, mode, timer):\n{indent(body, '    ')}\n{steps}")


def test_a_norm_that_is_logged_is_told(marked: Check) -> None:
    marked(
        loop(
            "norms = [p.grad.norm() for p in model.parameters()]  # AMP601",
            "print(max(norms))",
            "nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
            "scaler.step(optimizer)",
            "scaler.step(args.other)",
            "scaler.update()",
        )
    )


def test_a_norm_that_nobody_looks_at_is_no_hazard(marked: Check) -> None:
    marked(loop("norms = [p.grad.norm() for p in model.parameters()]", "scaler.step(optimizer)", "scaler.update()"))


def test_clipping_with_several_optimizers_is_told(marked: Check) -> None:
    marked(
        loop(
            "nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # AMP601",
            "scaler.step(optimizer)",
            "scaler.step(args.optimizer)",
            "scaler.update()",
        )
    )


@pytest.mark.parametrize(
    "line",
    [
        "p.grad = None",
        "p.grad.zero_()",
        "p.grad.div_(args.world_size)",
        "p.grad.mul_(0.5)",
        "torch.distributed.all_reduce(p.grad)",
        "assert torch.isfinite(p.grad.sum())",
        "ok = p.grad is not None",
        "saved = p.grad.clone()",
    ],
)
def test_what_any_scale_may_do_is_no_read(clean: Check, line: str) -> None:
    clean(loop("for p in model.parameters():", f"    {line}", *STEP))


HOROVOD = "from horovod import torch as hvd\n\n\n"


@pytest.mark.parametrize(
    "line",
    [
        "hvd.allreduce_(p.grad.data)",
        "p.grad = hvd.allreduce(p.grad)",
        "p.grad.data = hvd.synchronize(hvd.allreduce_async(p.grad))",
        "hvd.grouped_allreduce_([p.grad])",
    ],
)
def test_what_horovod_adds_up_is_as_good_of_scaled_gradients(clean: Check, line: str) -> None:
    clean(HOROVOD + loop("for p in model.parameters():", f"    {line}", *STEP, "optimizer.zero_grad()"))


def test_size_of_what_horovod_adds_up_is_read(marked: Check) -> None:
    line = "    print(hvd.allreduce(p.grad).norm().item())  # AMP601"
    marked(HOROVOD + loop("for p in model.parameters():", line, *STEP))


@pytest.mark.parametrize(
    "lines",
    [
        # unscaled first
        ("scaler.unscale_(optimizer)", "nn.utils.clip_grad_norm_(model.parameters(), 1.0)", *STEP),
        # only where it is clipped
        (
            "if args.clip:",
            "    scaler.unscale_(optimizer)",
            "    nn.utils.clip_grad_norm_(model.parameters(), args.clip)",
            *STEP,
        ),
        # two tests that say the same
        (
            "if args.clip > 0:",
            "    scaler.unscale_(optimizer)",
            "nn.utils.clip_grad_norm_(model.parameters(), args.clip or 1e9)",
            *STEP,
        ),
        # read after the step, which unscales
        ("scaler.step(optimizer)", "print(model.weight.grad.norm())", "scaler.update()"),
        # the scale taken out by hand
        ("norm = nn.utils.clip_grad_norm_(model.parameters(), args.clip * scaler.get_scale())", *STEP),
        # somebody else may have unscaled
        ("args.prepare(scaler, optimizer)", "nn.utils.clip_grad_norm_(model.parameters(), 1.0)", *STEP),
        # the step is not here
        ("nn.utils.clip_grad_norm_(model.parameters(), 1.0)",),
    ],
)
def test_true_gradients_may_be_clipped(clean: Check, lines: tuple[str, ...]) -> None:
    clean(loop(*lines))


def test_clipping_in_the_branch_without_a_scaler_is_right(clean: Check) -> None:
    clean(
        """
        def train(model, optimizer, scaler, loader):
            for x, y in loader:
                loss = F.mse_loss(model(x), y)
                if scaler is not None:
                    scaler.scale(loss).backward()
                else:
                    loss.backward()
                if not scaler:
                    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                    optimizer.step()
                else:
                    scaler.step(optimizer)
                    scaler.update()
        """
    )


def test_a_helper_that_unscales_is_followed(clean: Check) -> None:
    clean(
        """
        class Trainer:
            def __init__(self, model, optimizer):
                self.scaler = torch.amp.GradScaler("cuda")

            def prepare(self):
                self.scaler.unscale_(self.optimizer)

            def train(self, x):
                self.scaler.scale(self.model(x)).backward()
                self.prepare()
                nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                self.scaler.step(self.optimizer)
                self.scaler.update()
        """
    )


def test_bfloat16_takes_the_scaler_and_the_hazard_with_it(migrate: Check) -> None:
    text = (
        'scaler = torch.amp.GradScaler("cuda")\n'
        "for x, y in loader:\n"
        '    with torch.amp.autocast("cuda"):\n'
        "        loss = nn.functional.mse_loss(model(x), y)\n"
        "    scaler.scale(loss).backward()\n"
        "    nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
        "    scaler.step(optimizer)\n"
        "    scaler.update()\n"
    )
    plan = migrate(text, "bf16")
    assert {finding.code for finding in plan.findings} == {"AMP510"}
    assert "unscale_" not in plan.after


APEX_BESIDE = """
    from distutils.version import LooseVersion

    def train(model, loader, optimizer, args, amp, scaler):
        for x, y in loader:
            loss = F.mse_loss(model(x), y)
            if args.use_apex:
                if scaler is not None:
                    scaler.scale(loss).backward(){unscale}
                else:
                    with amp.scale_loss(loss, optimizer) as scaled_loss:
                        scaled_loss.backward()
            else:
                loss.backward()
            if args.clip > 0:
                nn.utils.clip_grad_norm_(model.parameters(), args.clip){mark}
            if args.use_apex and scaler is not None:
                scaler.step(optimizer)
                scaler.update()
            else:
                optimizer.step()
            optimizer.zero_grad()

    def main(args, model, loader):
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        amp, scaler = None, None
        if args.use_apex:
            if LooseVersion(torch.__version__) >= LooseVersion("1.6.0"):
                scaler = torch.amp.GradScaler("cuda")
            else:
                from apex import amp
                model, optimizer = amp.initialize(model, optimizer, opt_level=args.level)
        train(model, loader, optimizer, args, amp, scaler)
"""


def test_apex_beside_gives_true_gradients_and_the_same_optimizer_on_its_own_way(marked: Check, clean: Check) -> None:
    marked(APEX_BESIDE.format(unscale="", mark="  # AMP601"))
    clean(APEX_BESIDE.format(unscale="; scaler.unscale_(optimizer)", mark=""))


def test_what_only_an_older_pytorch_runs_is_no_hazard(marked: Check) -> None:
    marked(
        """
        scaler = torch.amp.GradScaler("cuda")
        OLD = False
        if torch.__version__ < "1.6":
            OLD = True

        def step(model, optimizer, x):
            with torch.amp.autocast("cuda", dtype=torch.float16):
                loss = model(x).mean()
            scaler.scale(loss).backward()
            if OLD:
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            nn.utils.clip_grad_value_(model.parameters(), 1.0)  # AMP601
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        """
    )


def test_a_read_where_tests_forbid_the_scaled_loss_sees_no_scale(clean: Check) -> None:
    clean(
        """
        class Trainer:
            def __init__(self, args, model):
                self.args, self.model = args, model
                self.optimizer = torch.optim.Adam(model.parameters())
                self.scaler = torch.amp.GradScaler("cuda")

            def run(self, loader):
                for x in loader:
                    self.optimizer.zero_grad()
                    self.go_backward(x)
                    if self.args.fp16 and self.args.native:
                        self.scaler.unscale_(self.optimizer)
                        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                    else:
                        nn.utils.clip_grad_norm_(self.model.parameters(), 2.0)
                    if self.args.fp16 and self.args.native:
                        self.scaler.step(self.optimizer)
                        self.scaler.update()
                    else:
                        self.optimizer.step()

            def go_backward(self, x):
                with torch.amp.autocast("cuda", dtype=torch.float16, enabled=self.args.fp16 and self.args.native):
                    loss = self.model(x).mean()
                if self.args.native and self.args.fp16:
                    self.scaler.scale(loss).backward()
                else:
                    loss.backward()
        """
    )
