"""A name that a result adds has a value wherever it is used."""

from __future__ import annotations

import pytest

from .conftest import Check

BEFORE = """
import torch
from data import early, late

def run(pretrain):
    model = torch.nn.Linear(3, 3)
    optimizer = None
    if pretrain:
        optimizer = torch.optim.Adam(model.parameters())
        for x in early:
            model(x).sum().backward()
            optimizer.step()
    if optimizer is None:
        optimizer = torch.optim.Adam(model.parameters())
    for x in late:
        model(x).sum().backward()
        optimizer.step()
"""


def scaled(make_at: str) -> str:
    """`BEFORE` in native AMP, with the scaler made before a line."""
    lines = []
    for line in BEFORE.splitlines():
        indent = line[: len(line) - len(line.lstrip())]
        if line.strip() == make_at:
            lines.append(f'{indent}scaler = torch.amp.GradScaler("cuda")')
        if line.strip() == "model(x).sum().backward()":
            lines.append(f"{indent}scaler.scale(model(x).sum()).backward()")
        elif line.strip() == "optimizer.step()":
            lines += [f"{indent}scaler.step(optimizer)", f"{indent}scaler.update()"]
        else:
            lines.append(line)
    return "\n".join(lines) + "\n"


def test_a_scaler_that_is_made_before_all_uses_has_a_value(wrong: Check) -> None:
    assert wrong(BEFORE, scaled("optimizer = None")) == ""


def test_a_scaler_that_is_made_behind_a_use_has_none(wrong: Check) -> None:
    assert wrong(BEFORE, scaled("for x in late:")) == "the result uses `scaler` where it may have no value"


def test_a_scaler_that_is_made_on_one_way_has_none_on_the_other(wrong: Check) -> None:
    assert wrong(BEFORE, scaled("for x in early:")) == "the result uses `scaler` where it may have no value"


def test_a_scaler_lives_where_its_optimizer_does(wrong: Check) -> None:
    before = """
    import torch
    def fit(train):
        model = torch.nn.Linear(3, 3)
        if train:
            optimizer = torch.optim.Adam(model.parameters())
        for x in range(3):
            loss = model(x).sum()
            if train:
                loss.backward()
                optimizer.step()
    """
    after = """
    import torch
    def fit(train):
        model = torch.nn.Linear(3, 3)
        if train:
            optimizer = torch.optim.Adam(model.parameters())
            scaler = torch.amp.GradScaler("cuda")
        for x in range(3):
            with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                loss = model(x).sum()
            if train:
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
    """
    assert wrong(before, after) == ""
    other = after.replace("            if train:\n                scaler", "            if x:\n                scaler")
    assert wrong(before.replace("            if train:", "            if x:"), other) != ""


def test_a_module_that_makes_its_scaler_behind_a_call_that_reads_it_fails(wrong: Check) -> None:
    before = """
    import torch
    model = torch.nn.Linear(3, 3)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    def train(x):
        loss = model(x).sum()
        loss.backward()
        optimizer.step()
    train(1)
    """
    made = '    scaler = torch.amp.GradScaler("cuda")\n'
    after = before.replace("loss.backward()", "scaler.scale(loss).backward()")
    after = after.replace("        optimizer.step()", "        scaler.step(optimizer)\n        scaler.update()")
    assert wrong(before, after.replace("    def train", f"{made}    def train")) == ""
    assert wrong(before, f"{after.rstrip()}\n{made}") == "the result uses `scaler` where it may have no value"


def test_where_the_original_ends_a_new_name_needs_no_value(wrong: Check) -> None:
    before = (
        "import torch\n\n\ndef main(net, x, a):\n    if not a:\n        opt = None\n    else:\n        if not a:\n"
        "            opt.zero_grad()\n            net(x).backward()\n            opt.step()\n"
        "    opt = torch.optim.SGD(net.parameters())\n"
    )
    after = before.replace("net(x).backward()", "scaler.scale(net(x)).backward()")
    after = after.replace("opt.step()", "scaler.step(opt)\n            scaler.update()")
    after += '    scaler = torch.amp.GradScaler("cuda")\n'
    assert wrong(before, after) == ""
    given = (("(net, x, a)", "(net, x, a, opt)"), ("    else:\n        if not a:", "    else:\n        if x:"))
    for old, new in given:  # where it has a value for all that it reads, it goes on
        before, after = before.replace(old, new), after.replace(old, new)
    assert "`scaler` where it may have no value" in wrong(before, after)


def test_a_function_inside_of_another_reads_names_when_it_runs(wrong: Check) -> None:
    before = """
    import torch
    def fit(model, loader):
        optimizer = torch.optim.Adam(model.parameters())
        def step(x):
            model(x).sum().backward()
            optimizer.step()
        for x in loader:
            step(x)
    """
    after = """
    import torch
    def fit(model, loader):
        optimizer = torch.optim.Adam(model.parameters())
        {made}
        def step(x):
            scaler.scale(model(x).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
        for x in loader:
            step(x)
    """
    scaler = 'scaler = torch.amp.GradScaler("cuda")'
    assert wrong(before, after.format(made=scaler)) == ""
    some = after.format(made=f"if model.training: {scaler}")
    assert wrong(before, some) == "the result uses `scaler` where it may have no value"


def test_a_scaler_that_the_original_has_is_made_on_all_ways_as_before(wrong: Check) -> None:
    before = """
    import torch
    def fit(model, loader, on):
        optimizer = torch.optim.Adam(model.parameters())
        scaler = torch.cuda.amp.GradScaler(enabled=on)
        for x in loader:
            scaler.scale(model(x).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
    """
    new = 'torch.amp.GradScaler("cuda", enabled=on)'
    after = before.replace("torch.cuda.amp.GradScaler(enabled=on)", new)
    assert wrong(before, after) == ""
    some = after.replace("scaler = ", "if on: scaler = ")
    assert wrong(before, some) == "the result uses `scaler` where it may have no value"
    assert wrong(before.replace("scaler = ", "if on: scaler = "), some) == ""  # as in the original


def test_a_test_is_the_same_while_no_name_in_it_changes(wrong: Check) -> None:
    before = """
    import torch
    def fit(model, loader, mode, optimizer):
        for NAME in loader:
            if mode == "apex":
                model(NAME).sum().backward()
                optimizer.step()
    """
    after = before.replace(
        "        for", '        if mode == "apex": scaler = torch.amp.GradScaler("cuda")\n        for'
    )
    after = after.replace("model(NAME).sum().backward()", "scaler.scale(model(NAME).sum()).backward()")
    after = after.replace("optimizer.step()", "scaler.step(optimizer); scaler.update()")
    for name, said in (("x", ""), ("mode", "the result uses `scaler` where it may have no value")):
        text, result = (each.replace("NAME", name) for each in (before, after))
        assert wrong(text, result) == said  # `x` is only a letter of "apex"


def test_a_test_of_several_parts_is_the_same_test_each_time(wrong: Check) -> None:
    before = """
    import torch
    def fit(model, loader, amp, apex, optimizer):
        for x in loader:
            if TEST:
                model(x).sum().backward()
                optimizer.step()
    """
    made = "        if TEST: scaler = torch.amp.GradScaler('cuda')\n        for"
    after = before.replace("        for", made).replace(
        "model(x).sum().backward()", "scaler.scale(model(x).sum()).backward()"
    )
    after = after.replace("optimizer.step()", "scaler.step(optimizer); scaler.update()")
    for test in ("amp or apex", "amp and apex", "not (amp or apex)"):
        assert wrong(before.replace("TEST", test), after.replace("TEST", test)) == ""
    either = after.replace("TEST", "amp and apex", 1).replace("TEST", "amp or apex")
    assert wrong(before.replace("TEST", "amp or apex"), either) == "the result uses `scaler` where it may have no value"


def test_a_switch_asks_only_what_has_a_value_where_it_is_asked(wrong: Check) -> None:
    before = """
    import torch
    from apex import amp
    def fit(model, loader, fp16):
        optimizer = torch.optim.Adam(model.parameters())
        if fp16:
            level = "O1"
            model, optimizer = amp.initialize(model, optimizer, opt_level=level)
        for x in loader:
            loss = model(x).sum()
            if fp16:
                with amp.scale_loss(loss, optimizer) as scaled:
                    scaled.backward()
            else:
                loss.backward()
            optimizer.step()
    """
    after = """
    import torch
    def fit(model, loader, fp16):
        optimizer = torch.optim.Adam(model.parameters())
        SWITCH
        scaler = torch.amp.GradScaler("cuda", enabled=on)
        if fp16:
            level = "O1"
        for x in loader:
            with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=on):
                loss = model(x).sum()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
    """
    said = "the result uses `level` where it may have no value"
    assert wrong(before, after.replace("SWITCH", 'on = fp16 and level != "O0"')) == said
    assert wrong(before, after.replace("SWITCH", "on = fp16")) == ""
    first = 'if fp16: level = "O1"\n        optimizer ='
    before, after = (each.replace("optimizer =", first, 1) for each in (before, after))
    assert wrong(before, after.replace("SWITCH", 'on = fp16 and level != "O0"')) == ""
    assert wrong(before, after.replace("SWITCH", 'on = level != "O0" and fp16')) == said


def test_none_is_handed_on_where_a_new_name_has_no_value(wrong: Check) -> None:
    before = """
import torch

def hold(model, optimizer):
    return model, optimizer

def main(args, model, loader):
    if args.do_train:
        optimizer = torch.optim.Adam(model.parameters())
    else:
        optimizer = None
    held = hold(model, optimizer)
    if args.do_train:
        for x in loader:
            model(x).sum().backward()
            optimizer.step()
    return held
"""
    after = before.replace("model(x).sum().backward()", "scaler.scale(model(x).sum()).backward()")
    after = after.replace("optimizer.step()", "scaler.step(optimizer)\n            scaler.update()")
    after = after.replace("    else:\n", '        scaler = torch.amp.GradScaler("cuda")\n    else:\n')
    handed = after.replace("(model, optimizer)", "(model, optimizer, scaler)")
    handed = handed.replace("return model, optimizer, scaler", "return model, optimizer")
    assert wrong(before, after) == ""
    assert "`scaler` where it may have no value" in wrong(before, handed)
    # Where the optimizer is None, the original ends there.
    ends = (
        each.replace("= hold(model, optimizer", "= hold(model, optimizer.param_groups") for each in (before, handed)
    )
    assert wrong(*ends) == ""


def among_many(tests: int, made_if: str, used_if: str) -> tuple[str, str]:
    """A step in a loop with many other tests, and the same with a scaler that is made under a test of its own."""
    flags = "".join(
        f"        if flags[{n}]:\n            part{n} = x * {n}\n        else:\n            part{n} = None\n"
        for n in range(tests)
    )
    flags += "".join(f"        if flags[{n}]:\n            x = x + part{n}\n" for n in range(tests))
    text = (
        "import torch\n\n\ndef run(flags, train, other, loader):\n    model = torch.nn.Linear(3, 3)\n"
        f"    if {made_if}:\n        optimizer = torch.optim.Adam(model.parameters())\n{{made}}"
        f"    for x in loader:\n{flags}        if {used_if}:\n{{step}}"
    )
    plain = "            model(x).sum().backward()\n            optimizer.step()\n"
    made = '        scaler = torch.amp.GradScaler("cuda")\n'
    scaled = plain.replace("model(x).sum()", "scaler.scale(model(x).sum())").replace(
        "optimizer.step()", "scaler.step(optimizer)\n            scaler.update()"
    )
    return text.format(made="", step=plain), text.format(made=made, step=scaled)


@pytest.mark.parametrize("tests", [2, 8, 25])
@pytest.mark.parametrize(
    ("made_if", "used_if"),
    [
        ("train", "train"),
        ("not train", "not train"),
        ("train and not other", "train and not other"),
        ("train", "train and other"),
    ],
)
def test_however_many_tests_there_are_those_count_that_decide_about_a_name(
    wrong: Check, tests: int, made_if: str, used_if: str
) -> None:
    assert wrong(*among_many(tests, made_if, used_if)) == ""


@pytest.mark.parametrize("tests", [2, 8, 25])
def test_a_name_that_only_some_of_many_ways_give_a_value_has_none(wrong: Check, tests: int) -> None:
    before, after = among_many(tests, "train", "other")
    made = '        scaler = torch.amp.GradScaler("cuda")\n'
    before = before.replace("    if train:\n        optimizer", "    if True:\n        optimizer")
    after = after.replace("    if train:\n        optimizer", "    if True:\n        optimizer")
    after = after.replace(made, f"    if train:\n{made}")
    assert wrong(before, after) == "the result uses `scaler` where it may have no value"
    # A test that no longer asks the same decides nothing.
    before, after = among_many(tests, "train", "train")
    again = "    for x in loader:\n        train = x.any()\n        optimizer = optimizer if other else other\n"
    before = before.replace("    for x in loader:\n", again).replace("    if train:\n", "    if train or other:\n", 1)
    after = after.replace("    for x in loader:\n", again)
    after = after.replace(f"{made}", "").replace("    if train:\n", f"    if train:\n{made}    if train or other:\n", 1)
    assert wrong(before, after) == "the result uses `scaler` where it may have no value"


@pytest.mark.parametrize(
    ("called", "before_it", "is_wrong"),
    [
        ("self.load()", "", True),
        ("self.begin()", "", True),
        ("if resume:\n            self.begin()", "", True),
        ("self.hook = self.load", "", False),  # it runs later
        ("self.load()", 'self.scaler = torch.amp.GradScaler("cuda")', False),
    ],
)
def test_a_constructor_gives_attributes_a_value_before_it_calls_what_reads_them(
    called: str, before_it: str, is_wrong: bool, wrong: Check
) -> None:
    def runner(scaler: str, restored: str, first: str) -> str:
        return f"""
import torch

class Runner:
    def __init__(self, model, resume):
        self.optimizer = torch.optim.Adam(model.parameters())
        {first or "pass"}
        {called}
        {scaler or "pass"}

    def begin(self):
        self.load()

    def load(self):
        state = torch.load("last.pt")
        self.optimizer.load_state_dict(state["optimizer"])
        {restored or "pass"}
"""

    restored = 'self.scaler.load_state_dict(state["scaler"])'
    after = runner("" if before_it else 'self.scaler = torch.amp.GradScaler("cuda")', restored, before_it)
    found = wrong(runner("", "", ""), after)
    assert found == ("the result uses `self.scaler` where it may have no value" if is_wrong else "")
