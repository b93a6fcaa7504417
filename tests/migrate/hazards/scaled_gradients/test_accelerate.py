"""Beside Accelerate: a scaler that divides in every micro-batch, and gradients clipped while they are scaled."""

from __future__ import annotations

import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.settings import Settings

TEXT = """\
import torch
from accelerate import Accelerator
from torch import nn


def main(loader, args):
    accelerator = Accelerator(gradient_accumulation_steps=args.steps)
    net = nn.Linear(8, 1).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    net, optimizer, loader = accelerator.prepare(net, optimizer, loader)
    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        with accelerator.accumulate(net):
            with torch.amp.autocast("cuda", dtype=torch.float16):
                loss = nn.functional.mse_loss(net(x), y)
            accelerator.backward(scaler.scale(loss))
            if accelerator.sync_gradients:
                scaler.unscale_(optimizer)
                accelerator.clip_grad_norm_(net.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
"""
GUARDED = """\
            if accelerator.sync_gradients:
                scaler.step(optimizer)
                scaler.update()
"""


def told(text: str) -> list[str]:
    return [each.message for each in migrate_text(text, Settings(select=("AMP608",))).findings]


def test_a_scaler_divides_in_every_micro_batch() -> None:
    each = " divides what earlier micro-batches of accelerator.accumulate(net) gave once more"
    assert told(TEXT) == [f"scaler.step(optimizer){each}"]
    always = TEXT.replace("if accelerator.sync_gradients:", "if args.clips:")
    assert told(always) == [f"scaler.unscale_(optimizer){each}", f"scaler.step(optimizer){each}"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("            scaler.step(optimizer)\n            scaler.update()\n", GUARDED),
        ("gradient_accumulation_steps=args.steps", "gradient_accumulation_steps=1"),
        ("gradient_accumulation_steps=args.steps", "log_with=args.steps"),
        ("with accelerator.accumulate(net):", "with accelerator.profile():"),
        ("net, optimizer, loader = accelerator.prepare(net, optimizer, loader)", "net = accelerator.prepare(net)"),
        ("from accelerate import", "from mine import"),
    ],
)
def test_what_divides_in_the_last_one_alone_or_does_not_accumulate_is_right(old: str, new: str) -> None:
    assert old in TEXT
    assert told(TEXT.replace(old, new)) == []


CLIPPED = """\
import torch
from accelerate import Accelerator
from torch import nn


def main(loader, args):
    helper = Accelerator(log_with="tensorboard", mixed_precision="fp16")
    net = nn.Linear(6, 2)
    optimizer = torch.optim.RMSprop(net.parameters(), lr=0.1)
    net, optimizer, loader = helper.prepare(net, optimizer, loader)
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.l1_loss(net(x), y)
        helper.backward(loss)
        if args.clip:
            torch.nn.utils.clip_grad_norm_(net.parameters(), args.clip)
        optimizer.step()
"""


def read(text: str) -> list[tuple[int, str]]:
    return [(each.line, each.message) for each in migrate_text(text, Settings(select=("AMP601",))).findings]


@pytest.mark.parametrize("precision", ['"fp16"', "args.precision"])
def test_gradients_are_clipped_while_accelerate_s_scale_is_in_them(precision: str) -> None:
    found = read(CLIPPED.replace('"fp16"', precision))
    call = "torch.nn.utils.clip_grad_norm_(net.parameters(), args.clip)"
    assert found == [(16, f"{call} sees gradients that Accelerate has multiplied by the loss scale")]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"fp16"', '"bf16"'),
        ('mixed_precision="fp16"', "split_batches=True"),
        ("torch.nn.utils.clip_grad_norm_", "helper.clip_grad_norm_"),
        ("        if args.clip:", "        helper.unscale_gradients()\n        if args.clip:"),
        ("        helper.backward(loss)\n", "        loss.backward()\n"),
        ("from accelerate import", "from mine import"),
    ],
)
def test_what_accelerate_has_not_scaled_or_has_unscaled_is_right(old: str, new: str) -> None:
    assert read(CLIPPED.replace(old, new)) == []
