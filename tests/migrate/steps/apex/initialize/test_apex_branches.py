"""`amp.initialize` in branches of the script."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]

SCRIPT = """
    from apex import amp
    from apex.optimizers import FusedAdam

    def main(args):
        MODEL
        {initialize}
        for x in loader:
            loss = model(x).mean()
            if args.fp16:
                SCALE_LOSS
            else:
                loss.backward()
            optimizer.step()
            optimizer.zero_grad()
"""
CALL = "model, optimizer = amp.initialize(model, optimizer{options})"


def script(*lines: str) -> str:
    """The script with some lines in the place where Apex is initialized; `INIT(...)` stands for the call."""
    text = "\n        ".join(lines)
    while "INIT(" in text:
        before, _, rest = text.partition("INIT(")
        options, _, after = rest.partition(")")
        text = before + CALL.format(options=options and f", {options}") + after
    return SCRIPT.format(initialize=text)


@pytest.mark.parametrize(
    ("lines", "scaler"),
    [
        (("if args.fp32:", "    print()", "else:", "    INIT()"), "enabled=not args.fp32"),
        (("if not args.fp16:", "    print()", "else:", "    INIT()"), "enabled=bool(args.fp16)"),
        (
            ("if args.way == 1:", "    print()", "elif args.fp16:", "    INIT()"),
            "enabled=not (args.way == 1) and bool(args.fp16)",
        ),
        (('if args.level == "O1":', "    INIT()", "else:", '    INIT(opt_level="O2")'), ""),
        (
            ("if args.one:", "    INIT()", "elif args.two:", '    INIT(opt_level="O2")'),
            "enabled=bool(args.one or args.two)",
        ),
        (
            ('if args.level == "O1":', "    INIT()", "else:", "    INIT(opt_level=args.level, loss_scale=None)"),
            'enabled=args.level != "O0"',
        ),
        (
            ("if args.first:", "    INIT(enabled=args.amp)", "else:", "    INIT()"),
            "enabled=bool(args.amp if args.first else True)",
        ),
        (
            ("if args.full:", '    INIT(opt_level="O0")', "else:", "    INIT(opt_level=args.level)"),
            'enabled=not args.full and args.level != "O0"',
        ),
        (
            ("if args.half:", "    INIT()", "else:", "    INIT(opt_level=args.level)"),
            'enabled=bool(args.half or args.level != "O0")',
        ),
        (
            ("if args.one:", "    INIT(opt_level=args.level)", "elif args.two:", "    INIT()"),
            'enabled=bool(args.level != "O0" if args.one else args.two)',
        ),
        (
            ("if args.scale == 0:", '    INIT(loss_scale="dynamic")', "else:", "    INIT(loss_scale=args.scale)"),
            "init_scale=65536.0 if args.scale == 0 else float(args.scale), "
            "growth_interval=2000 if args.scale == 0 else 2**31 - 1",
        ),
        (
            (
                "if args.fp16:",
                "    optimizer = FusedAdam(model.parameters())",
                "    if args.scale == 0:",
                "        INIT()",
                "    else:",
                "        INIT(loss_scale=8.0)",
                "else:",
                "    optimizer = torch.optim.Adam(model.parameters())",
            ),
            "init_scale=65536.0 if args.scale == 0 else 8.0, "
            "growth_interval=2000 if args.scale == 0 else 2**31 - 1, enabled=bool(args.fp16)",
        ),
        (("if args.fp16:", '    level = "O1"', "    INIT(opt_level=level)"), "enabled=bool(args.fp16)"),
        (('level = "O2"', "if args.fp16:", "    INIT(opt_level=level)"), 'enabled=bool(args.fp16) and level != "O0"'),
        (
            ("if args.fp16:", "    scale = args.scale", "    s = scale", "    INIT(loss_scale=s)"),
            'init_scale=65536.0 if args.scale in (None, "dynamic") else float(args.scale), '
            'growth_interval=2000 if args.scale in (None, "dynamic") else 2**31 - 1, enabled=bool(args.fp16)',
        ),
        (
            ("if args.fp16:", '    level = "O1" if args.o else "O0"', "    INIT(opt_level=level)"),
            "enabled=bool(args.fp16) and bool(args.o)",
        ),
        (
            ("if args.fp16:", '    level = "O1"', "    INIT(opt_level=level)", "else:", "    level = None"),
            "enabled=bool(args.fp16)",
        ),
        (
            (
                "if args.many:",
                "    if args.fp16:",
                "        INIT(opt_level=args.level)",
                "    model = nn.DataParallel(model)",
                "else:",
                "    if args.fp16:",
                "        INIT(opt_level=args.level)",
                "    print()",
            ),
            'enabled=bool(args.fp16) and args.level != "O0"',
        ),
        (("if args.fp16:", "    INIT(enabled=args.fp16)"), "enabled=bool(args.fp16)"),
        (("if args.fp16:", '    INIT("O1")'), "enabled=bool(args.fp16)"),
        (("INIT() if args.fp16 else (model, optimizer)",), "enabled=bool(args.fp16)"),
        (
            ("if args.many:", "    INIT() if args.fp16 else (model, optimizer)"),
            "enabled=bool(args.many) and bool(args.fp16)",
        ),
    ],
    ids=[
        "else",
        "not",
        "elif",
        "levels",
        "two-of-three",
        "asked",
        "enabled",
        "off",
        "or",
        "each",
        "scales",
        "nested",
        "set",
        "named",
        "made",
        "either",
        "twice",
        "alike",
        "asked-twice",
        "level-for-enabled",
        "chosen",
        "chosen-in-a-branch",
    ],
)
def test_conditions_become_the_switch_of_the_scaler(lines: tuple[str, ...], scaler: str, migrate: Check) -> None:
    after = migrate(script(*lines)).after
    made = next(line for line in after.splitlines() if "GradScaler" in line or "amp_enabled =" in line)
    arguments = ", ".join(['"cuda"', *filter(None, [scaler])])
    expected = (f"scaler = torch.amp.GradScaler({arguments})", f"amp_enabled = {scaler.removeprefix('enabled=')}")
    assert made.strip() in expected
    assert "apex" not in after


@pytest.mark.parametrize(
    "lines",
    [
        ("if args.many:", "    if args.fp16:", "        INIT()", "else:", "    if args.amp:", "        INIT()"),
        (
            "if args.many:",
            "    if args.fp16:",
            "        INIT()",
            "elif args.two:",
            "    if args.fp16:",
            "        INIT()",
        ),
        ("INIT() if args.fp16 else (other, optimizer)",),
    ],
    ids=["tests", "no-else", "chosen"],
)
def test_branches_that_ask_otherwise_stay_on_the_shim(lines: tuple[str, ...], migrate: Check) -> None:
    assert "amp_shim" in migrate(script(*lines)).after


def test_a_scaler_is_made_before_the_branches(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          model = nn.Linear(2, 2)
        + scaler = torch.amp.GradScaler("cuda", enabled=bool(args.fp16))
          if args.fp16:
              optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        -     if args.deep:
        -         model, optimizer = amp.initialize(model, optimizer, opt_level="O2")
        -     else:
        -         model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
          else:
              optimizer = torch.optim.Adam(model.parameters())
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


def test_an_outer_branch_that_makes_the_optimizer_decides_too(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          model = nn.Linear(2, 2)
        + amp_enabled = bool(args.fp16) and bool(args.deep)
        + scaler = torch.amp.GradScaler("cuda", enabled=amp_enabled)
          if args.fp16:
              optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        -     if args.deep:
        -         model, optimizer = amp.initialize(model, optimizer)
          else:
              optimizer = torch.optim.Adam(model.parameters())
          for x in loader:
        -     loss = model(x).mean()
        -     if args.fp16 and args.deep:
        -         with amp.scale_loss(loss, optimizer) as scaled_loss:
        -             scaled_loss.backward()
        -     else:
        -         loss.backward()
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=amp_enabled):
        +         loss = model(x).mean()
        +     scaler.scale(loss).backward()
        ~     optimizer.step()
        """
    )


def test_branches_that_do_more_than_initialize_share_a_scaler_made_before_them(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          model, old = nn.Linear(2, 2), nn.Linear(2, 2)
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        + amp_enabled = args.level != "O0"
        + scaler = torch.amp.GradScaler("cuda", enabled=amp_enabled)
          if args.old:
        -     [model, old], optimizer = amp.initialize([model.cuda(), old.cuda()], optimizer, opt_level=args.level)
        +     [model, old] = [model.cuda(), old.cuda()]
              old.eval()
          else:
        -     model, optimizer = amp.initialize(model.cuda(), optimizer, opt_level=args.level)
        +     model = model.cuda()
          for x in loader:
        -     loss = model(x).mean()
        -     with amp.scale_loss(loss, optimizer) as scaled_loss:
        -         scaled_loss.backward()
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=amp_enabled):
        +         loss = model(x).mean()
        +     scaler.scale(loss).backward()
        ~     optimizer.step()
              optimizer.zero_grad()
        """
    )


def test_a_branch_that_initializes_more_than_another_shares_its_scaler(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          body, head = nn.Linear(2, 2), nn.Linear(2, 2)
          optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.1)
        + amp_enabled = args.level != "O0"
        + scaler = torch.amp.GradScaler("cuda", enabled=amp_enabled)
        - if args.freeze:
        -     head, optimizer = amp.initialize(head, optimizer, opt_level=args.level)
        - else:
        -     head, optimizer = amp.initialize(head, optimizer, opt_level=args.level)
        -     body, optimizer = amp.initialize(body, optimizer, opt_level=args.level)
          for x in loader:
        -     loss = head(body(x)).mean()
        -     with amp.scale_loss(loss, optimizer) as scaled_loss:
        -         scaled_loss.backward()
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=amp_enabled):
        +         loss = head(body(x)).mean()
        +     scaler.scale(loss).backward()
        ~     optimizer.step()
              optimizer.zero_grad()
        """
    )


@pytest.mark.parametrize("options", ['opt_level="O0"', 'opt_level="O1", loss_scale=128.0', "max_loss_scale=512.0"])
def test_a_branch_that_initializes_in_two_ways_stays_on_the_shim(options: str, migrate: Check) -> None:
    result = migrate(
        f"""
        from apex import amp

        body, head = nn.Linear(2, 2), nn.Linear(2, 2)
        optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.1)
        if args.freeze:
            head, optimizer = amp.initialize(head, optimizer, opt_level="O1")
        else:
            head, optimizer = amp.initialize(head, optimizer, opt_level="O1")
            body, optimizer = amp.initialize(body, optimizer, {options})
        APEX_EPOCH
        """
    )
    assert "amp_shim" in result.after
    assert "GradScaler" not in result.after


def test_two_calls_in_one_branch(migrate: Check) -> None:
    after = migrate(
        """
        from apex import amp

        first, second = nn.Linear(2, 2), nn.Linear(2, 2)
        one = torch.optim.SGD(first.parameters(), lr=0.1)
        two = torch.optim.SGD(second.parameters(), lr=0.1)
        if args.fp16:
            first, one = amp.initialize(first, one)
            second, two = amp.initialize(second, two)
        for x in loader:
            loss = second(first(x)).mean()
            with amp.scale_loss(loss, [one, two]) as scaled_loss:
                scaled_loss.backward()
            one.step()
            two.step()
        """
    ).after
    assert after.count("GradScaler(") == 1
    assert "apex" not in after


def test_a_scaler_is_made_where_the_first_of_two_initializations_is_chosen(rewrites: Check) -> None:
    """The second runs only where Apex is on by then: it is asked for nothing that the first is not."""
    rewrites(
        """
        ~ APEX
          model, mean = nn.Linear(2, 2), nn.Linear(2, 2)
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        + scaler = torch.amp.GradScaler("cuda", enabled=bool(args.fp16))
          if args.fp16:
        -     model, optimizer = amp.initialize(model, optimizer)
              if args.mean:
                  second = torch.optim.SGD(mean.parameters(), lr=0.0)
        -         mean, second = amp.initialize(mean, second)
          for x in loader:
        -     loss = model(x).mean()
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=bool(args.fp16)):
        +         loss = model(x).mean()
        -     if args.fp16:
        -         with amp.scale_loss(loss, optimizer) as scaled_loss:
        -             scaled_loss.backward()
        -     else:
        -         loss.backward()
        +     scaler.scale(loss).backward()
        ~     optimizer.step()
              optimizer.zero_grad()
        """
    )


@pytest.mark.parametrize("options", ["", ", loss_scale=128.0"])
def test_a_scaler_of_two_optimizers_has_one_scale(options: str, migrate: Check) -> None:
    after = migrate(
        f"""
        from apex import amp

        first, second = nn.Linear(2, 2), nn.Linear(2, 2)
        one = torch.optim.SGD(first.parameters(), lr=0.1)
        two = torch.optim.SGD(second.parameters(), lr=0.1)
        if args.fp16:
            first, one = amp.initialize(first, one)
        if args.fp16 and args.both:
            second, two = amp.initialize(second, two{options})
        for x in loader:
            loss = second(first(x)).mean()
            with amp.scale_loss(loss, [one, two]) as scaled_loss:
                scaled_loss.backward()
            one.step()
            two.step()
        """
    ).after
    assert ('GradScaler("cuda", enabled=bool(args.fp16))' in after) is not bool(options)
    assert ("amp_shim" in after) is bool(options)


def test_scales_of_nested_initializations_stay_on_the_shim(migrate: Check) -> None:
    result = migrate(
        """
        from apex import amp

        first, second = nn.Linear(2, 2), nn.Linear(2, 2)
        one = torch.optim.SGD(first.parameters(), lr=0.1)
        two = torch.optim.SGD(second.parameters(), lr=0.1)
        if args.fp16:
            first, one = amp.initialize(first, one)
            if args.both:
                second, two = amp.initialize(second, two, loss_scale=128.0)
        for x in loader:
            loss = second(first(x)).mean()
            with amp.scale_loss(loss, [one, two]) as scaled_loss:
                scaled_loss.backward()
            one.step()
            two.step()
        """
    )
    assert "amp_shim" in result.after
    assert "amp.initialize comes before this more than once, under different conditions" in str(result.findings)


@pytest.mark.parametrize(
    ("setting", "switch"),
    [
        ("fp16 = torch.cuda.is_available()", "fp16"),
        ("fp16 = args.level != 'O0' and not args.cpu", "fp16"),
        ("fp16 = isinstance(args, dict) and hasattr(args, 'fp16')", "fp16"),
        ("wanted = True\n    fp16 = wanted", "fp16"),
        ("fp16 = args.opt_level and True", "bool(fp16)"),  # a string where it is empty
        ("fp16 = args.fp16", "bool(fp16)"),
        ("fp16 = torch.cuda.is_available()\n    fp16 = args.fp16", "bool(fp16)"),
    ],
)
def test_what_is_boolean_already_is_not_made_so(migrate: Check, setting: str, switch: str) -> None:
    after = migrate(
        f"""
        from apex import amp

        def main(args):
            MODEL
        {"    " + setting.replace(chr(10), chr(10) + "        ")}
            if fp16:
                model, optimizer = amp.initialize(model, optimizer)
            for x in loader:
                loss = model(x).mean()
                if fp16:
                    SCALE_LOSS
                else:
                    loss.backward()
                optimizer.step()
                optimizer.zero_grad()
        """
    ).after
    assert f'GradScaler("cuda", enabled={switch})' in after


@pytest.mark.parametrize(
    ("parameter", "switch"),
    [("fp16: bool", "fp16"), ("fp16=False", "fp16"), ("fp16: bool = None", "bool(fp16)"), ("fp16", "bool(fp16)")],
)
def test_a_parameter_says_that_it_is_boolean(migrate: Check, parameter: str, switch: str) -> None:
    after = migrate(
        f"""
        from apex import amp

        def main({parameter}):
            MODEL
            model, optimizer = amp.initialize(model, optimizer, enabled=fp16)
            APEX_EPOCH
        """
    ).after
    assert f'GradScaler("cuda", enabled={switch})' in after


@pytest.mark.parametrize(
    "lines",
    [
        ("if args.fp16:", "    level = pick()", "    INIT(opt_level=level)"),
        ("if args.fp16:", '    level = "O1"', "    if late: level = args.l", "    INIT(opt_level=level)"),
        ("if args.fp16:", "    if late:", '        level = "O1"', "    INIT(opt_level=level)"),
    ],
    ids=["called", "changed", "sometimes"],
)
def test_what_a_branch_sets_in_its_own_way_cannot_be_asked_outside(migrate: Check, lines: tuple[str, ...]) -> None:
    reason = "what opt_level is cannot be said where the scaler would be made"
    told = [each.message for each in migrate(script(*lines)).findings]
    assert f"kept on amp_shim instead of native AMP: {reason}" in told


def test_a_level_that_is_a_constant_by_name_is_known(migrate: Check) -> None:
    told = [each.message for each in migrate(script('level = "O2"', "INIT(opt_level=level)")).findings]
    assert "O2 kept float16 weights with float32 masters; now the weights are float32 under autocast" in told
    told = [each.message for each in migrate(script('level = "O1"', "INIT(opt_level=level)")).findings]
    assert not any("O2" in each for each in told)
