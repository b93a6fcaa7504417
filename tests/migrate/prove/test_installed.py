"""What a guard decides is still decided rightly, whatever is installed."""

from __future__ import annotations

import pytest

from .conftest import Check

IMPORTS = """
try:
    from apex import amp
    has_apex = True
except ImportError:
    has_apex = False
if has_apex:
    model, optimizer = amp.initialize(model, optimizer)
"""


def test_a_guard_that_asks_for_the_shim_instead_passes(wrong: Check) -> None:
    assert wrong(IMPORTS, IMPORTS.replace("from apex", "from amp_shim")) == ""


def test_a_guard_may_not_be_turned_round(wrong: Check) -> None:
    other = IMPORTS.replace("from apex", "from amp_shim").replace("if has_apex:", "if not has_apex:")
    assert wrong(IMPORTS, other) != ""


def test_a_function_that_tells_whether_apex_is_there_goes_on_telling(wrong: Check) -> None:
    before = """
    def is_apex_available():
        try:
            import apex
            return True
        except ImportError:
            return False
    available = is_apex_available()
    """
    after = """
    def is_apex_available():
        try:
            return True
        except ImportError:
            return False
    available = is_apex_available()
    """
    assert wrong(before, after) != ""


def test_what_apex_still_has_is_not_asked_of_the_shim_behind_a_guard(wrong: Check) -> None:
    before = """
    from torch.optim import Adam
    def build(params, fused):
        try:
            from apex.optimizers import FusedAdam
        except ImportError:
            fused = False
        if fused:
            return FusedAdam(params, lr=1e-3)
        return Adam(params, lr=1e-3)
    """
    assert "where amp_shim is not installed" in wrong(before, before.replace("from apex", "from amp_shim"))
    without = """
    from torch.optim import Adam
    def build(params, fused):
        try:
            pass
        except ImportError:
            fused = False
        if fused:
            return FusedAdam(params, lr=1e-3)
        return Adam(params, lr=1e-3)
    """
    assert wrong(before, without) != ""


def test_a_test_for_apex_beside_code_that_needs_the_shim_is_refused(wrong: Check) -> None:
    before = """
    import importlib.util
    from data import args
    try:
        from apex import amp
    except ImportError:
        print("apex is not available")
    enabled = args.amp and importlib.util.find_spec("apex") is not None
    if enabled:
        model, optimizer = amp.initialize(model, optimizer)
    """
    half = before.replace("from apex", "from amp_shim")
    assert wrong(before, half) != ""
    assert wrong(before, half.replace('find_spec("apex")', 'find_spec("amp_shim")')) == ""


def test_a_test_of_the_version_that_both_decide_alike_may_go(wrong: Check) -> None:
    before = """
    import torch
    if hasattr(torch.cuda, "amp"):
        from torch.cuda.amp import autocast
    else:
        from stub import autocast
    with autocast():
        y = model(x)
    """
    after = """
    import torch
    with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        y = model(x)
    """
    assert wrong(before, after) == ""


def test_what_raises_where_apex_is_missing_need_not_be_the_same_behind_it(wrong: Check) -> None:
    before = """
    import torch
    from data import args, batches
    model = torch.nn.Linear(3, 3)
    if args.fp16:
        try:
            from apex.optimizers import FP16_Optimizer, FusedAdam
        except ImportError:
            raise ImportError("Please install apex")
        optimizer = FusedAdam(model.parameters(), max_grad_norm=1.0)
        optimizer = FP16_Optimizer(optimizer, dynamic_loss_scale=True)
    else:
        optimizer = torch.optim.Adam(model.parameters())
    for x in batches:
        loss = model(x).sum()
        if args.fp16:
            optimizer.backward(loss)
        else:
            loss.backward()
        optimizer.step()
    """
    after = """
    import torch
    from data import args, batches
    model = torch.nn.Linear(3, 3)
    scaler = torch.amp.GradScaler("cuda", enabled=args.fp16)
    if args.fp16:
        try:
            from apex.optimizers import FusedAdam
        except ImportError:
            raise ImportError("Please install apex")
        optimizer = FusedAdam(model.parameters())
    else:
        optimizer = torch.optim.Adam(model.parameters())
    for x in batches:
        with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=args.fp16):
            loss = model(x).sum()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        for group in optimizer.param_groups if args.fp16 else ():
            torch.nn.utils.clip_grad_norm_(group["params"], 1.0)
        scaler.step(optimizer)
        scaler.update()
    """
    assert wrong(before, after) == ""
    assert wrong(before, after.replace("scaler.scale(loss)", "scaler.scale(2 * loss)")) != ""
    handled = '\n        except ImportError:\n            raise ImportError("Please install apex")'
    quiet = "\n        except ImportError:\n            print()"
    assert "where apex is not installed" in wrong(before.replace(handled, quiet), after.replace(handled, quiet))
    changed = ("for x in batches:", "args.fp16 = bool(batches)\n    for x in batches:")
    assert "where apex is not installed" in wrong(before.replace(*changed), after.replace(*changed))


def test_what_only_an_untaken_branch_imports_may_be_renamed(wrong: Check) -> None:
    before = """
    import torch
    try:
        from apex import amp
    except ImportError:
        from torch.cuda.amp import GradScaler
    def make():
        return GradScaler()
    """
    after = before.replace("torch.cuda.amp", "torch.amp").replace("GradScaler()", 'GradScaler("cuda")')
    assert wrong(before, after) == ""
    assert wrong(before, after.replace("return ", "return not ")) != ""


@pytest.mark.parametrize(
    "region",
    [
        'torch.autocast("cuda", dtype=torch.float16, enabled={})',
        'torch.autocast("cuda", torch.float16, {})',
        "torch.cuda.amp.autocast({})",
    ],
)
def test_what_switches_a_region_is_read_wherever_it_stands_in_the_call(region: str, wrong: Check) -> None:
    text = f"""
    import torch
    from data import args
    try:
        from apex import amp
        has_apex = True
    except ImportError:
        has_apex = False
    with {region}:
        y = model(x)
    """
    assert "decides otherwise" in wrong(text.format("has_apex"), text.format("has_apex"))
    assert wrong(text.format("args.amp"), text.format("args.amp")) == ""


@pytest.mark.parametrize(
    ("asked", "is_idle"),
    [
        ("not fp16 or fp16 and has_apex", True),
        ("has_apex", True),
        ("not (fp16 and not has_apex)", True),
        ("not fp16 or ready and has_apex", False),
        ("not ask() or ask() and has_apex", False),
        ("fp16 and has_apex", False),
    ],
)
def test_an_assertion_goes_with_a_flag_of_the_import_where_it_asks_nothing_else(
    asked: str, is_idle: bool, wrong: Check
) -> None:
    before = f"""
    import torch
    from data import ask, fp16, ready
    try:
        from apex import amp
        has_apex = True
    except ImportError:
        has_apex = False
    assert {asked}, "Apex is missing"
    model = torch.nn.Linear(2, 2)
    """
    after = """
    import torch
    from data import ask, fp16, ready
    model = torch.nn.Linear(2, 2)
    """
    assert (wrong(before, after) == "") is is_idle
