"""`FusedAdam` as Apex had it in 2019 clipped in its step for an `FP16_Optimizer`: a result has to do so itself."""

from __future__ import annotations

from textwrap import dedent

import pytest

from .conftest import Check

BEFORE = """
    import torch
    from torch import nn
    from mine import BertAdam

    def train(args, model, loader):
        if args.fp16:
            from apex.optimizers import FP16_Optimizer, FusedAdam
            optimizer = FusedAdam(model.parameters(), lr=1e-3, bias_correction=False, max_grad_norm=args.norm)
            optimizer = FP16_Optimizer(optimizer, dynamic_loss_scale=True)
        else:
            optimizer = BertAdam(model.parameters(), lr=1e-3)
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            if args.fp16:
                optimizer.backward(loss)
            else:
                loss.backward()
            optimizer.step()
            optimizer.zero_grad()
"""
AFTER = """
    import torch
    from torch import nn
    from mine import BertAdam

    def train(args, model, loader):
        scaler = torch.amp.GradScaler("cuda", enabled=bool(args.fp16))
        if args.fp16:
            from apex.optimizers import FusedAdam
            optimizer = FusedAdam(model.parameters(), lr=1e-3, bias_correction=False)
        else:
            optimizer = BertAdam(model.parameters(), lr=1e-3)
        for x, y in loader:
            with torch.autocast("cuda", enabled=bool(args.fp16)):
                loss = nn.functional.mse_loss(model(x), y)
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            for group in optimizer.param_groups if bool(args.fp16) else ():
                torch.nn.utils.clip_grad_norm_(group["params"], args.norm)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
"""
CLIP = """\
            for group in optimizer.param_groups if bool(args.fp16) else ():
                torch.nn.utils.clip_grad_norm_(group["params"], args.norm)
"""


def test_a_clip_of_each_group_before_the_step_is_the_clip_in_it(wrong: Check) -> None:
    assert wrong(BEFORE, AFTER) == ""
    assert wrong(BEFORE, AFTER.replace("group", "each_group").replace("param_each_groups", "param_groups")) == ""


def _under_a_test(text: str, first: str, last: str) -> str:
    """The lines from one to another under `if args.do_train:`."""
    start, end = text.index(first), text.index(last)
    inside = "".join(f"    {line}" for line in text[start:end].splitlines(keepends=True))
    return f"{text[:start]}        if args.do_train:\n{inside}{text[end:]}"


def _under_two_tests(text: str) -> str:
    """The optimizer made under `if args.do_train:`, and the loop under a second one."""
    first = "        scaler = " if "scaler" in text else "        if args.fp16:"
    return _under_a_test(f"{_under_a_test(text, first, '        for x, y')}END", "        for x, y", "END")[:-3]


def test_a_test_that_optimizer_and_step_both_stand_under_is_none_of_the_clip(wrong: Check) -> None:
    starts = "        if args.fp16:", "        scaler = "
    whole = [_under_a_test(f"{t}END", first, "END")[:-3] for t, first in zip((BEFORE, AFTER), starts, strict=True)]
    assert "    if args.do_train:\n            if args.fp16:" in whole[0]
    assert wrong(*whole) == ""


@pytest.mark.parametrize(
    ("before_it", "is_right"),
    [
        pytest.param("", True, id="nothing"),
        pytest.param("optimizer = None", True, id="None, which does not step"),
        pytest.param("optimizer = BertAdam(model.parameters(), lr=1e-3)", False, id="another"),
        pytest.param("from mine import optimizer", False, id="imported"),
        pytest.param("for optimizer in args.optimizers: pass", False, id="of a loop"),
    ],
)
def test_a_test_that_all_optimizers_of_a_step_are_made_under_is_none_of_the_clip(
    wrong: Check, before_it: str, is_right: bool
) -> None:
    made = [_under_two_tests(each) for each in (BEFORE, AFTER)]
    first = f"        {before_it}\n        if args.do_train:"
    assert (wrong(*(each.replace("        if args.do_train:", first, 1) for each in made)) == "") is is_right


def test_a_step_on_a_parameter_is_not_held_to_where_optimizers_are_made(wrong: Check) -> None:
    made = [_under_two_tests(each) for each in (BEFORE, AFTER)]
    assert wrong(*(each.replace("model, loader", "model, loader, optimizer") for each in made)) != ""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(CLIP, "", id="no clip"),
        pytest.param('["params"], args.norm', '["params"], args.lr', id="to another norm"),
        pytest.param(" if bool(args.fp16) else ():", ":", id="with the other optimizer, too"),
        pytest.param("if bool(args.fp16) else ():", "if args.clip else ():", id="when something else is asked for"),
        pytest.param('(group["params"], args.norm)', "(model.parameters(), args.norm)", id="all groups together"),
        pytest.param("for group in optimizer.", "for group in other.", id="of another optimizer"),
    ],
)
def test_any_other_clip_is_another_program(wrong: Check, old: str, new: str) -> None:
    assert old in AFTER
    assert wrong(BEFORE, AFTER.replace(old, new)) != ""


def test_a_clip_behind_the_step_is_another_program(wrong: Check) -> None:
    behind = AFTER.replace(CLIP, "").replace("            scaler.update()\n", CLIP + "            scaler.update()\n")
    assert wrong(BEFORE, behind) != ""


def test_a_step_whose_value_is_kept_clips_as_well(wrong: Check) -> None:
    kept = [BEFORE.replace("optimizer.step()", "done = optimizer.step()")]
    kept += [text.replace("scaler.step(", "done = scaler.step(") for text in (AFTER, AFTER.replace(CLIP, ""))]
    assert wrong(kept[0], kept[1]) == ""
    assert wrong(kept[0], kept[2]) != ""


def test_a_limit_that_the_step_cannot_read_is_not_taken_for_the_same(wrong: Check) -> None:
    def parted(text: str, made: str) -> str:
        """The optimizer made in a function of its own."""
        text = text.replace("def train(args, model, loader):", "def make(args, model):")
        loop = f"    return {made}\n\n    def train(args, {made}, model, loader):\n        for x, y in loader:"
        text = text.replace("    for x, y in loader:", loop)
        call = f"        {made} = make(args, model)\n        train(other, {made}, model, loader)\n"
        return f"{text}\n    def main(args, other, model, loader):\n{call}"

    assert "max_grad_norm" in wrong(parted(BEFORE, "optimizer"), parted(AFTER, "optimizer, scaler"))


def test_a_limit_of_another_function_holds_where_the_scaler_is_on(wrong: Check) -> None:
    def parted(text: str) -> str:
        """The same, where the loop is a function that reads what the module has."""
        body = dedent(text).replace("def train(args, model, loader):", "if True:")
        made, _, loop = body.partition("    for x, y in loader:\n")
        return f"{made}\ndef steps(loader):\n    for x, y in loader:\n{loop}"

    before, after = parted(BEFORE.replace("args.norm", "1.0")), parted(AFTER.replace("args.norm", "1.0"))
    is_on = after.replace("if bool(args.fp16) else ():", "if scaler.is_enabled() else ():")
    assert wrong(before, is_on) == ""
    assert wrong(before, is_on.replace("if scaler.is_enabled() else ():", "if clips else ():")) != ""


def test_what_no_wrapper_tells_the_norms_clips_nothing(wrong: Check) -> None:
    before = """
        from apex.optimizers import FusedAdam

        optimizer = FusedAdam(model.parameters(), lr=1e-3, max_grad_norm=1.0)
    """
    assert wrong(before, before.replace(", max_grad_norm=1.0", "")) != ""


def test_weights_that_are_made_float16_where_a_model_is_made(wrong: Check) -> None:
    before = "from torch import nn\n\nmodel = nn.Linear(2, 2).cuda(){}\nprint(model)\n"
    assert wrong(before.format(".half()"), before.format("")) == ""
    assert wrong("y = x.argmax(1).half()\n", "y = x.argmax(1)\n") != ""
