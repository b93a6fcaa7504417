"""Several calls of `amp.initialize`: each region asks what those ask that come before it, and never another's."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import pytest
from amp_migrate.engine.migrate import migrate
from amp_migrate.settings import Settings

Check = Callable[..., Any]

HEAD = """\
import torch
from apex import amp

def epoch(args, model, optimizer):
    for x, y in loader:
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        with amp.scale_loss(loss, optimizer) as scaled:
            scaled.backward()
        optimizer.step()

def evaluate(args, model):
    with torch.no_grad():
        return model(x).argmax(1)

"""
MODEL = """\
model = torch.nn.Linear(8, 3).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
TRAIN = """\
def {}(args, model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer = amp.initialize(model, optimizer, opt_level={})
    epoch(args, model, optimizer)

"""
ONE_OF_TWO = """\
def main(args):
    model = torch.nn.Linear(8, 3).cuda()
    if args.full:
        full(args, model)
    else:
        half(args, model)
"""
OTHER_CONDITIONS = "amp.initialize comes before this more than once, under different conditions"
UNASKED = "whether mixed precision is on cannot be asked here"


def main(text: str) -> str:
    """A script whose main function has some lines."""
    return HEAD + "def main(args):\n" + indent(dedent(text).strip("\n").replace("MODEL\n", MODEL), "    ") + "\n"


def asked(after: str) -> list[str]:
    """What regions and scalers ask, in their order; `on` where it is nothing."""
    found = []
    for line in after.splitlines():
        made = re.search(r"\b(autocast|GradScaler)\((.*)\)", line)
        if made is not None:
            condition = re.search(r"enabled=(.*)", made[2])
            found.append(f"{made[1]}: {'on' if condition is None else condition[1]}")
    return found


def step_and_scaler(after: str) -> list[str]:
    """What the region of the step and what the scaler asks."""
    return [each.partition(": ")[2] for each in (asked(after)[0], asked(after)[-1])]


def told(plan: Any) -> list[str]:
    return [finding.message for finding in plan.findings]


def stays(migrate: Check, text: str, why: str, dtype: str = "fp16") -> None:
    """Assert that a script keeps Apex's calls, from the shim, and that this is said with a reason."""
    plan = migrate(text, dtype, head="")
    assert plan.after == plan.source.text.replace("from apex import amp", "from amp_shim import amp")
    assert f"kept on amp_shim instead of native AMP: {why}" in told(plan)


INITIALIZES = """
    model = torch.nn.Linear(8, 3).cuda()
    if args.load == "":
        half(args, model)
    else:
        model = amp.initialize(model, opt_level={level})
        evaluate(args, model)
"""


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_another_branch_that_only_tests_says_nothing_of_the_training(dtype: str, migrate: Check) -> None:
    text = main(INITIALIZES.format(level='"O1"')) + TRAIN.format("half", '"O1"')
    after = migrate(text, dtype, head="").after
    assert "enabled=" not in after
    assert len(asked(after)) == (3 if dtype == "fp16" else 2)


def test_another_level_of_what_only_tests_is_that_of_the_test(migrate: Check) -> None:
    text = main(INITIALIZES.format(level="args.level")) + TRAIN.format("half", '"O1"')
    after = migrate(text, head="").after
    assert asked(after) == ["autocast: on", 'autocast: args.level != "O0"', "GradScaler: on"]


def test_another_level_of_what_trains_is_not_that_of_the_test(migrate: Check) -> None:
    text = main(INITIALIZES.format(level='"O1"')) + TRAIN.format("half", "args.level")
    after = migrate(text, head="").after
    assert asked(after) == ['autocast: args.level != "O0"', "autocast: on", "GradScaler: amp_enabled"]
    assert 'amp_enabled = args.level != "O0"' in after


def test_a_function_that_both_ways_call_has_its_region_round_each_call(migrate: Check) -> None:
    text = main(INITIALIZES.format(level="args.level")) + TRAIN.format("half", '"O1"') + "    evaluate(args, model)\n"
    plan = migrate(text, head="")
    assert asked(plan.after) == ["autocast: on", 'autocast: args.level != "O0"', "GradScaler: on", "autocast: on"]
    assert plan.after.count(":\n            evaluate(args, model)\n") == 1
    assert "AMP211" not in {each.code for each in plan.findings}


METHODS = """\
import torch
from apex import amp

class Trainer:
    def __init__(self, fp16):
        self.fp16 = fp16
    def train(self, loader):
        model = torch.nn.Linear(8, 3).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        if self.fp16:
            model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
        for x in loader:
            loss = model(x).mean()
            if self.fp16:
                with amp.scale_loss(loss, optimizer) as scaled:
                    scaled.backward()
            else:
                loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        return self.evaluate(model, loader)
    {}
        with torch.no_grad():
            return [model(x) for x in loader]

Trainer(True).train(loader)
"""


def test_a_method_that_has_no_object_leaves_its_region_to_who_calls_it(migrate: Check) -> None:
    plan = migrate(METHODS.format("@staticmethod\n    def evaluate(model, loader):"), head="")
    assert asked(plan.after) == ["GradScaler: bool(self.fp16)", *["autocast: bool(self.fp16)"] * 2]
    assert ":\n            return self.evaluate(model, loader)\n" in plan.after


def test_a_method_asks_for_an_attribute_of_its_object(migrate: Check) -> None:
    plan = migrate(METHODS.format("def evaluate(self, model, loader):"), head="")
    assert asked(plan.after) == ["GradScaler: bool(self.fp16)", *["autocast: bool(self.fp16)"] * 2]


def test_both_branches_of_an_if_with_float32_in_one(migrate: Check) -> None:
    after = migrate(
        main("""
            MODEL
            if args.full:
                model, optimizer = amp.initialize(model, optimizer, opt_level="O0")
                epoch(args, model, optimizer)
            else:
                model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
                epoch(args, model, optimizer)
        """),
        head="",
    ).after
    assert step_and_scaler(after) == ["not args.full", "amp_enabled"]
    assert "amp_enabled = not args.full\n" in after


def test_both_branches_of_an_if_with_mixed_precision_ask_nothing(migrate: Check) -> None:
    after = migrate(
        main("""
            MODEL
            if args.fast:
                model, optimizer = amp.initialize(model, optimizer, opt_level="O2")
                epoch(args, model, optimizer)
            else:
                model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
                epoch(args, model, optimizer)
            evaluate(args, model)
        """),
        head="",
    ).after
    assert asked(after) == ["autocast: on", "autocast: on", "GradScaler: on"]


def test_two_functions_of_which_one_is_called_are_always_on_together(migrate: Check) -> None:
    text = HEAD + TRAIN.format("half", '"O1"') + TRAIN.format("full", '"O2"') + ONE_OF_TWO
    after = migrate(text + "    evaluate(args, model)\n", head="").after
    assert asked(after) == ["autocast: on", "autocast: on", "GradScaler: on", "GradScaler: on"]


@pytest.mark.parametrize(
    ("level", "scaler"),
    [('"O0"', "False"), ("args.level", "amp_enabled"), ('"O1", enabled=args.amp', "bool(args.amp)")],
)
def test_a_step_that_two_functions_share_asks_the_scaler_it_is_given(level: str, scaler: str, migrate: Check) -> None:
    text = HEAD + TRAIN.format("half", '"O1"') + TRAIN.format("full", level) + ONE_OF_TWO
    plan = migrate(text + "    evaluate(args, model)\n", head="")
    assert asked(plan.after) == ["autocast: scaler.is_enabled()", "GradScaler: on", f"GradScaler: {scaler}"]
    why = "and the switch cannot be handed on: no call of main() is among the files that were given"
    assert f"evaluation stays in float32: {UNASKED}, {why}" in told(plan)


@pytest.mark.parametrize("level", ['"O0"', "args.level", '"O1", enabled=args.amp'])
def test_a_step_without_a_scaler_that_two_functions_share_stays(level: str, migrate: Check) -> None:
    text = HEAD + TRAIN.format("half", '"O1"') + TRAIN.format("full", level) + ONE_OF_TWO
    stays(migrate, text, UNASKED, "bf16")


PLAIN = """\
def full(args, model):
    print(model)

"""
PLAIN_STEP = """\
def full(args, model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()

"""


def test_an_evaluation_that_a_plain_training_calls_too_asks_which_one_it_was(migrate: Check) -> None:
    text = HEAD + TRAIN.format("half", '"O1"') + PLAIN + ONE_OF_TWO + "    evaluate(args, model)\n"
    assert asked(migrate(text, head="").after) == ["autocast: on", "GradScaler: on", "autocast: not args.full"]


def test_an_evaluation_in_the_branch_of_the_mixed_training_is_mixed(migrate: Check) -> None:
    text = HEAD + TRAIN.format("half", '"O1"') + PLAIN + ONE_OF_TWO + "        evaluate(args, model)\n"
    plan = migrate(text, head="")
    assert asked(plan.after) == ["autocast: on", "autocast: on", "GradScaler: on"]


def test_an_evaluation_behind_a_branch_that_leaves_is_mixed(migrate: Check) -> None:
    text = HEAD + TRAIN.format("half", '"O1"') + PLAIN + ONE_OF_TWO + "    evaluate(args, model)\n"
    after = migrate(text.replace("        full(args, model)\n", "        return full(args, model)\n"), head="").after
    assert asked(after) == ["autocast: on", "autocast: on", "GradScaler: on"]


def test_a_plain_training_stays_plain_beside_a_test_that_initializes(migrate: Check) -> None:
    text = main("""
        model = torch.nn.Linear(8, 3).cuda()
        if args.test:
            model = amp.initialize(model, opt_level="O1")
            evaluate(args, model)
        else:
            full(args, model)
    """)
    text = text[: text.index("def epoch")] + text[text.index("def evaluate") :] + PLAIN_STEP
    stays(migrate, text, "a training step in float32 stands in one file with inference by Apex")


@pytest.mark.parametrize("level", ['"O1"', '"O1", enabled=args.teach'])
def test_another_model_before_the_step_under_another_condition_keeps_it(level: str, migrate: Check) -> None:
    text = main(f"""
        MODEL
        teacher = amp.initialize(torch.nn.Linear(8, 3).cuda(), opt_level={level})
        model, optimizer = amp.initialize(model, optimizer, opt_level="O1", enabled=args.amp)
        epoch(args, model, optimizer)
    """)
    stays(migrate, text, OTHER_CONDITIONS)


def branches(level: str) -> str:
    """Evaluate a checkpoint and train; train; evaluate one: each initializes what it needs, the first at a level."""
    train = HEAD + TRAIN.format("train", '"O1"' if "args" not in level else level)
    return (
        train
        + f"""\
def main(args):
    model = torch.nn.Linear(8, 3).cuda()
    if args.pretrained:
        model = amp.initialize(model, opt_level={level})
        evaluate(args, model)
        train(args, model)
    elif not args.checkpoint:
        train(args, model)
    else:
        model = amp.initialize(model, opt_level={level})
        evaluate(args, model)
"""
    )


@pytest.mark.parametrize(
    ("level", "found"),
    [
        ('"O1"', {"autocast: on", "GradScaler: on"}),
        ("args.level", {'autocast: args.level != "O0"', "GradScaler: amp_enabled"}),
    ],
)
def test_models_that_some_branches_prepare_at_the_level_of_the_training(
    level: str, found: set[str], migrate: Check
) -> None:
    plan = migrate(branches(level), head="")
    assert "apex" not in plan.after
    assert {"AMP211", "AMP290"}.isdisjoint(each.code for each in plan.findings)
    assert set(asked(plan.after)) == found
    assert plan.after.count('amp_enabled = args.level != "O0"') == plan.after.count("enabled=amp_enabled")


def test_a_model_alone_in_the_other_branch_lets_what_is_behind_both_ask_nothing(migrate: Check) -> None:
    text = main("""
        MODEL
        if args.train:
            model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
        else:
            model = amp.initialize(model, opt_level="O1")
        evaluate(args, model)
        if args.train:
            epoch(args, model, optimizer)
    """)
    assert set(asked(migrate(text, head="").after)) == {"autocast: on", "GradScaler: on"}


def test_a_model_that_a_branch_prepares_in_float32_before_the_training_keeps_it(migrate: Check) -> None:
    stays(migrate, branches('"O0"'), OTHER_CONDITIONS)


def test_another_model_after_the_step_says_nothing_of_it(migrate: Check) -> None:
    text = main("""
        MODEL
        model, optimizer = amp.initialize(model, optimizer, opt_level="O1", enabled=args.amp)
        epoch(args, model, optimizer)
        teacher = amp.initialize(torch.nn.Linear(8, 3).cuda(), opt_level="O1")
        evaluate(args, teacher)
    """)
    assert asked(migrate(text, head="").after) == [
        "autocast: bool(args.amp)",
        "autocast: on",
        "GradScaler: bool(args.amp)",
    ]


def test_another_model_after_the_step_in_a_loop_may_be_before_it(migrate: Check) -> None:
    text = main("""
        MODEL
        model, optimizer = amp.initialize(model, optimizer, opt_level="O1", enabled=args.amp)
        for _ in range(2):
            epoch(args, model, optimizer)
            teacher = amp.initialize(torch.nn.Linear(8, 3).cuda(), opt_level="O1")
    """)
    stays(migrate, text, OTHER_CONDITIONS)


def test_branches_that_take_turns_in_a_loop_are_not_apart(migrate: Check) -> None:
    text = main("""
        MODEL
        model, optimizer = amp.initialize(model, optimizer, opt_level="O1", enabled=args.amp)
        for phase in phases:
            if phase == "train":
                epoch(args, model, optimizer)
            else:
                teacher = amp.initialize(torch.nn.Linear(8, 3).cuda(), opt_level="O1")
                evaluate(args, teacher)
    """)
    stays(migrate, text, OTHER_CONDITIONS)


def test_one_after_the_other_under_two_conditions_keeps_the_step(migrate: Check) -> None:
    text = main("""
        MODEL
        if args.one:
            model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
        if args.two:
            model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
        epoch(args, model, optimizer)
    """)
    stays(migrate, text, OTHER_CONDITIONS)


def test_a_scaler_is_never_made_by_what_only_tests(migrate: Check) -> None:
    text = main("""
        model = torch.nn.Linear(8, 3).cuda()
        if args.load == "":
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            model, optimizer = prepare(args, model, optimizer)
            epoch(args, model, optimizer)
        else:
            model = amp.initialize(model, opt_level="O1")
            evaluate(args, model)
    """)
    helper = """\
def prepare(args, model, optimizer):
    return amp.initialize(model, optimizer, opt_level=args.level)
"""
    after = migrate(text + helper, head="").after
    assert asked(after) == ['autocast: args.level != "O0"', "autocast: on", "GradScaler: amp_enabled"]
    assert 'amp_enabled = args.level != "O0"\n' in after
    assert "args.load" not in after.replace('if args.load == "":', "")


def test_objects_that_train_do_not_ask_what_the_test_asks(migrate: Check) -> None:
    text = main("""
        model = torch.nn.Linear(8, 3).cuda()
        if args.load == "":
            trainer = Trainer(args, model)
            trainer.fit()
        else:
            model = amp.initialize(model, opt_level="O1", enabled=args.half)
            evaluate(args, model)
    """)
    trainer = """\
class Trainer:
    def __init__(self, args, model):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.model, self.optimizer = amp.initialize(self.model, self.optimizer, opt_level="O1")

    def fit(self):
        for x, y in loader:
            loss = torch.nn.functional.cross_entropy(self.model(x), y)
            self.optimizer.zero_grad()
            with amp.scale_loss(loss, self.optimizer) as scaled:
                scaled.backward()
            self.optimizer.step()
"""
    after = migrate(text[: text.index("def epoch")] + text[text.index("def evaluate") :] + trainer, head="").after
    assert sorted(asked(after)) == ["GradScaler: on", "autocast: bool(args.half)", "autocast: on"]


def test_two_files_of_which_one_only_tests(rewrites_files: Check) -> None:
    rewrites_files(
        {
            "train.py": """
                  import torch
                - from apex import amp
                  import test

                  def train(args, model):
                      optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                -     model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
                +     scaler = torch.amp.GradScaler("cuda")
                      for x, y in loader:
                ~         loss = torch.nn.functional.mse_loss(model(x), y)
                ~         APEX_STEP

                  def main(args, model):
                      if args.load == "":
                          train(args, model)
                      else:
                          test.run(args, model)
            """,
            "test.py": """
                  import torch
                - from apex import amp

                  def run(args, model):
                -     model = amp.initialize(model, opt_level="O1", enabled=args.half)
                      with torch.no_grad():
                -         return model(x)
                +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=bool(args.half)):
                +             return model(x)
            """,
        }
    )


TRAINING = """\
from apex import amp
import torch
import steps
{more}
model = torch.nn.Linear(8, 3).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer = amp.initialize(model, optimizer, opt_level="O1" if half else "O0")
steps.train(model, optimizer)
"""
STEPS = """\
import torch
from apex import amp

def train(model, optimizer):
    for x in loader:
        loss = model(x).mean()
        optimizer.zero_grad()
        with amp.scale_loss(loss, optimizer) as scaled:
            scaled.backward()
        optimizer.step()
    evaluate(model)

def evaluate(model):
    with torch.no_grad():
        return model(x)
"""
TESTING = "from apex import amp\nimport steps\n\namp_handle = amp.init(enabled=fast)\nsteps.evaluate(model)\n"


@pytest.mark.parametrize(("more", "moves"), [("", True), ("import testing\n", False)])
def test_what_another_script_initializes_is_not_before_a_step_that_it_does_not_load(
    tmp_path: Path, more: str, moves: bool
) -> None:
    texts = {"training": TRAINING.format(more=more), "steps": STEPS, "testing": TESTING}
    for name, text in texts.items():
        (tmp_path / f"{name}.py").write_text(text)
    outcome = migrate([tmp_path], Settings())
    after = {each.source.path.stem: each.after for each in outcome.changed}
    assert ("scaler.scale(loss).backward()" in after["steps"]) == moves
    assert any(OTHER_CONDITIONS in each.message for each in outcome.findings) != moves


SELF_TEST = """\
net = amp.initialize(Net(8, 2).cuda(), opt_level="O1")
print(net(torch.ones(4, 8).cuda()))
"""
IN_FUNCTION = f"def try_out():\n{indent(SELF_TEST, '    ')}\n"
IS_STARTED = 'if __name__ == "__main__":\n    '


@pytest.mark.parametrize(
    ("run", "moves"),
    [
        (f"{IN_FUNCTION}{IS_STARTED}try_out()", True),
        (f"{IS_STARTED}{indent(SELF_TEST, '    ').strip()}", True),
        (f"{IN_FUNCTION}try_out()", False),
        (f"{IN_FUNCTION}{IS_STARTED}pass\nelse:\n    try_out()", False),
    ],
)
def test_a_file_that_is_loaded_does_not_do_what_it_does_when_it_is_started(
    tmp_path: Path, run: str, moves: bool
) -> None:
    more = "from net import Net\n"
    head = "import torch\nfrom apex import amp\n\nclass Net(torch.nn.Linear):\n    pass\n\n"
    (tmp_path / "net.py").write_text(f"{head}{run}\n")
    (tmp_path / "training.py").write_text(TRAINING.format(more=more))
    (tmp_path / "steps.py").write_text(STEPS)
    outcome = migrate([tmp_path], Settings())
    after = {each.source.path.stem: each.after for each in outcome.changed}
    assert ("scaler.scale(loss).backward()" in after["steps"]) == moves
    assert ("torch.amp.autocast" in after["net"]) == moves
    assert any(OTHER_CONDITIONS in each.message for each in outcome.findings) != moves


# A function that says by a parameter of its own whether mixed precision is on, and a training that validates by it.
OWN_PARAMETER = """\
import torch
from apex import amp

def infer(model, loader, fp16=True, is_validation=False):
    if not is_validation:
        model = amp.initialize(model.cuda(), None, opt_level="O2" if fp16 else "O0")
    with torch.no_grad():
        return [model(x) for x in loader]

def train(loader, half):
    model = torch.nn.Linear(8, 3).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer = amp.initialize(model, optimizer, opt_level="O2" if half else "O0")
    for x in loader:
        optimizer.zero_grad()
        loss = model(x).mean()
        with amp.scale_loss(loss, optimizer) as scaled:
            scaled.backward()
        optimizer.step()
    infer(model, loader, VALIDATES)

def main(args, loader):
    if args.train:
        train(loader, half=not args.full)
    else:
        infer(torch.load("model"), loader, INFERS)
"""


@pytest.mark.parametrize(
    ("validates", "infers", "is_asked"),
    [
        ("half, is_validation=True", "fp16=not args.full", True),
        ("fp16=half", "", True),
        ("is_validation=True", "", False),
        ("fp16=not half, is_validation=True", "", False),
        ("half, is_validation=True", "is_validation=True", False),
        ("half, **more", "", True),
        ("**more", "", False),
    ],
)
def test_function_whose_parameter_is_handed_on(validates: str, infers: str, is_asked: bool, migrate: Check) -> None:
    plan = migrate(OWN_PARAMETER.replace("VALIDATES", validates).replace("INFERS", infers), head="")
    found = asked(plan.after)
    assert (found[0] == "autocast: bool(fp16)") is is_asked
    assert found[-1] == "autocast: bool(half)"
    assert any(UNASKED in each for each in told(plan)) is not is_asked


_EVALUATIONS = {
    "parameter": (
        "def check(opt, model):\n    with torch.no_grad():\n        return model(x).argmax(1)",
        "check(args, model)",
        "opt.fp16",
    ),
    "attribute": (
        "class Checker:\n"
        "    def __init__(self, options, model):\n"
        "        self.options, self.model = options, model\n"
        "    def check(self):\n"
        "        with torch.no_grad():\n            return self.model(x).argmax(1)",
        "Checker(args, model).check()",
        "self.options.fp16",
    ),
    "another": (
        "def check(opt, model):\n    with torch.no_grad():\n        return model(x).argmax(1)",
        "check(other, model)",
        "",
    ),
    "rebound": (
        "def check(opt, model):\n    opt = parsed()\n    with torch.no_grad():\n        return model(x).argmax(1)",
        "check(args, model)",
        "",
    ),
}


@pytest.mark.parametrize(("evaluation", "call", "said"), _EVALUATIONS.values(), ids=_EVALUATIONS)
def test_an_evaluation_that_has_the_switch_by_another_name(
    evaluation: str, call: str, said: str, migrate: Check
) -> None:
    body = f"""
    MODEL
    if args.fp16:
        model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
    epoch(args, model, optimizer)
    with torch.no_grad():
        return {call}
    """
    plan = migrate(f"{main(body)}\n\n{evaluation}\n", head="")
    assert any(f"autocast: bool({said})" in each for each in asked(plan.after)) is bool(said), plan.after


@pytest.mark.parametrize("imported", ["import config", "from config import fp16"])
def test_an_evaluation_in_another_file_asks_the_module_that_both_import(imported: str, tmp_path: Path) -> None:
    switch = "config.fp16" if imported == "import config" else "fp16"
    body = f"""
    MODEL
    if {switch}:
        model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
    epoch(args, model, optimizer)
    print(validate(model))
    """
    evaluation = "def validate(model):\n    with torch.no_grad():\n        return model(torch.ones(1, 8)).argmax(1)\n"
    (tmp_path / "config.py").write_text("fp16 = True\n")
    (tmp_path / "checks.py").write_text(f"import torch\n{imported}\n\n{evaluation}")
    (tmp_path / "train.py").write_text(f"{imported}\nfrom checks import validate\n{main(body)}\nmain(None)\n")
    outcome = migrate([tmp_path], Settings())
    after = {plan.source.path.name: plan.after for plan in outcome.changed}
    assert asked(after["checks.py"]) == [f"autocast: bool({switch})"]


QUIET = "with torch.no_grad():\n    targets = model(x)\n"
BEFORE = """\
MODEL
{before}
model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
epoch(args, model, optimizer)
{behind}
"""


@pytest.mark.parametrize(
    ("before", "behind", "regions"),
    [
        (QUIET, "", 1),  # that of `evaluate`, which nothing here calls
        ("evaluate(args, model)", "", 0),
        ("for _ in range(2):\n    evaluate(args, model)", "", 0),
        (QUIET, QUIET, 2),
        ("", "evaluate(args, model)", 1),
        ("test = lambda: evaluate(args, model)", "test()", 1),
        ("given = (evaluate(args, model) for _ in range(2))", "list(given)", 1),
    ],
)
def test_what_runs_before_all_that_initializes_stays_in_float32(
    migrate: Check, before: str, behind: str, regions: int
) -> None:
    plan = migrate(main(BEFORE.format(before=before, behind=behind)), head="")
    assert sorted(asked(plan.after)) == ["GradScaler: on"] + ["autocast: on"] * (1 + regions)
    assert not any("stays in float32" in each for each in told(plan))


SPAWNED = """\
import torch
import torch.multiprocessing as mp
from apex import amp

def work(rank, args):
    model = torch.nn.Linear(8, 3).cuda()
    {before}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer = amp.initialize(model, optimizer, opt_level=args.level)
    for x, y in loader:
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        with amp.scale_loss(loss, optimizer) as scaled:
            scaled.backward()
        optimizer.step()

def main(args):
    mp.spawn(work, nprocs=2, args=(args,))
"""


@pytest.mark.parametrize("before", ["print(model(x).mean())", "with torch.no_grad():\n        targets = model(x)"])
def test_what_a_process_runs_before_it_initializes_stays_in_float32(migrate: Check, before: str) -> None:
    plan = migrate(SPAWNED.format(before=before), head="")
    assert before in plan.after
    assert asked(plan.after) == ["GradScaler: amp_enabled", "autocast: amp_enabled"]


def test_a_function_that_is_called_before_and_behind_what_initializes_asks_for_no_name_of_it(migrate: Check) -> None:
    show = "def show():\n        with torch.no_grad():\n            print(model(x))\n    show()"
    text = SPAWNED.format(before=show).replace("    for x, y", "    show()\n    for x, y")
    assert 'enabled=args.level != "O0"):\n                print(model(x))' in migrate(text, head="").after


def test_an_evaluation_before_what_initializes_stays_in_float32_and_has_a_region_behind(migrate: Check) -> None:
    plan = migrate(main(BEFORE.format(before="evaluate(args, model)", behind="evaluate(args, model)")), head="")
    assert asked(plan.after) == ["autocast: on", "GradScaler: on", "autocast: on"]
    assert "\n    evaluate(args, model)\n" in plan.after
    assert "AMP211" not in {each.code for each in plan.findings}


def test_what_a_loop_comes_to_again_runs_behind_what_initializes(migrate: Check) -> None:
    rounds = "for _ in range(2):\n" + indent(BEFORE.format(before=QUIET, behind=""), "    ").replace(
        "    MODEL\n", indent(MODEL, "    ")
    )
    assert asked(migrate(main(rounds), head="").after).count("autocast: on") == 3


def test_a_function_of_another_file_that_runs_before_is_not_told_of(tmp_path: Path) -> None:
    text = main(BEFORE.format(before="evaluated(model)", behind="")).replace(
        "import torch\n", "import torch\nEVAL\n", 1
    )
    (tmp_path / "main.py").write_text(text.replace("EVAL", "from evaluation import evaluated"))
    (tmp_path / "evaluation.py").write_text(
        "def evaluated(model):\n    model.eval()\n    return model(torch.ones(1, 8))\n"
    )
    outcome = migrate([tmp_path], Settings())
    assert [each.code for each in outcome.findings] == ["AMP201", "AMP202"]


SCORER = """\
import torch

class Scorer:
    def __call__(self, model):
        return {scored}

def evaluated(model):
    scorer = Scorer()
    return scorer(model)
"""


@pytest.mark.parametrize(
    ("scored", "before", "behind", "is_told"),
    [
        ("model(torch.ones(1, 8)).argmax(1)", "", "evaluated(model)", True),
        ("model(torch.ones(1, 8)).argmax(1)", "evaluated(model)", "", False),
        ("model(torch.ones(1, 8)).argmax(1)", "", "", False),
        ("len(list(model.parameters()))", "", "evaluated(model)", False),
    ],
)
def test_an_object_that_evaluates_when_it_is_called_is_told_of(
    scored: str, before: str, behind: str, is_told: bool, tmp_path: Path
) -> None:
    text = main(BEFORE.format(before=before, behind=behind)).replace(
        "import torch\n", "import torch\nfrom evaluation import evaluated\n", 1
    )
    (tmp_path / "main.py").write_text(text)
    (tmp_path / "evaluation.py").write_text(SCORER.format(scored=scored))
    said = [each.message for each in migrate([tmp_path], Settings()).findings if each.code == "AMP211"]
    message = "evaluation stays in float32: scorer() is in another file, and may not be this script's alone"
    assert said == ([message] if is_told else [])


CHECK = "def check(model, xs):\n    return sum(model(x).mean().item() for x in xs)\n"
LOOPED = "def check(model, xs):\n    for x in xs:\n        print(model(x).mean())\n"
TRAINS = """\
MODEL
model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
epoch(args, model, optimizer)
{}
"""


@pytest.mark.parametrize("function", [CHECK, LOOPED])
def test_what_computes_in_no_step_is_low_without_a_name_of_evaluation(function: str, tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(f"from checks import check\n{main(TRAINS.format('check(model, [])'))}")
    (tmp_path / "checks.py").write_text(f"import torch\n\n{function}")
    after = {plan.source.path.name: plan.after for plan in migrate([tmp_path], Settings()).changed}
    assert asked(after["checks.py"]) == ["autocast: on"]


@pytest.mark.parametrize("function", [CHECK, LOOPED])
def test_what_computes_in_no_step_has_a_region_beside_it(function: str, migrate: Check) -> None:
    plan = migrate(main(TRAINS.format("check(model, [])")) + function, head="")
    assert asked(plan.after).count("autocast: on") == 3


@pytest.mark.parametrize(("call", "function"), [("check(model, [])", CHECK), ("print(model(x).sum())", "")])
def test_what_computes_before_all_that_initializes_has_none(call: str, function: str, migrate: Check) -> None:
    plan = migrate(main(TRAINS.format("").replace("model, opt", f"{call}\nmodel, opt", 1)) + function, head="")
    assert asked(plan.after).count("autocast: on") == 2  # those of `epoch` and `evaluate`


def test_functions_of_other_files_that_others_call_too_have_their_region_round_the_call(tmp_path: Path) -> None:
    call = "check(model, [])"
    (tmp_path / "main.py").write_text(f"from checks import check\n{main(TRAINS.format(call))}")
    (tmp_path / "checks.py").write_text(f"import torch\n\n{CHECK}")
    (tmp_path / "other.py").write_text("from checks import check\n\nprint(check(load(), []))\n")
    outcome = migrate([tmp_path], Settings())
    (after,) = [each.after for each in outcome.changed]
    assert asked(after).count("autocast: on") == 3
    assert "AMP211" not in {each.code for each in outcome.findings}


def test_functions_of_other_files_that_have_a_region_through_their_callers(tmp_path: Path) -> None:
    check = CHECK.replace("model(x).mean()", "inner(model, x)")
    (tmp_path / "main.py").write_text(f"from checks import check\n{main(TRAINS.format('check(model, [])'))}")
    (tmp_path / "checks.py").write_text(f"import torch\nfrom inner import inner\n\n{check}")
    (tmp_path / "inner.py").write_text("import torch\n\ndef inner(model, x):\n    return model(x).mean()\n")
    outcome = migrate([tmp_path], Settings())
    after = {plan.source.path.name: plan.after for plan in outcome.changed}
    assert asked(after["inner.py"]) == ["autocast: on"]
    assert "AMP211" not in {each.code for each in outcome.findings}


BY_VALUE = """\
import argparse
import torch
from apex import amp

def setup(args, model, optimizer):
    if optimizer is not None:
        if args.amp:
            model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
        return model, optimizer
    if args.amp:
        model = amp.initialize(model, opt_level="O1")
    return model

def train(args):
    model = torch.nn.Linear(8, 2).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    model, optimizer = setup(args, model, optimizer)
    for x in torch.rand(9, 4, 8).cuda():
        loss = model(x).mean()
        optimizer.zero_grad()
        if args.amp:
            with amp.scale_loss(loss, optimizer) as scaled:
                scaled.backward()
        else:
            loss.backward()
        optimizer.step()

def check(args):
    model = torch.nn.Linear(8, 2).cuda()
    INITIALIZED
    with torch.no_grad():
        print(model(torch.rand(4, 8).cuda()).argmax(1))

def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--amp", action="store_true")
    parser.add_argument("--task", default="train")
    args = parser.parse_args()
    if args.task == "train":
        function = train
    else:
        function = check
    CALL

main()
"""
INITIALIZED = "model = setup(args, model, None)"


def by_value(call: str, initialized: str = INITIALIZED) -> str:
    text = BY_VALUE.replace("INITIALIZED", initialized).replace("CALL", call)
    return text.replace("def main", "def run(function, args):\n    function(args)\n\ndef main", call.startswith("run"))


@pytest.mark.parametrize(
    ("call", "is_seen"),
    [
        ("function(args)", True),
        ("run(function, args)", True),
        ('{"train": train, "check": check}[args.task](args)', True),
        ("for each in (train, check): each(args)", True),
        ("function(argparse.Namespace(amp=False)); function(args)", False),
        ("torch.multiprocessing.spawn(function, args=(args,))", False),
    ],
)
def test_a_function_that_is_handed_on_asks_what_each_call_by_its_value_passes(
    call: str, is_seen: bool, migrate: Check
) -> None:
    plan = migrate(by_value(call), head="")
    found = ["autocast: args.amp", "GradScaler: args.amp"]
    assert sorted(asked(plan.after)) == sorted([*found, "autocast: args.amp"] if is_seen else found)
    assert any(UNASKED in each.message for each in plan.findings) is not is_seen


@pytest.mark.parametrize("call", ["function(args)", "run(function, args)"])
def test_a_call_by_a_value_runs_one_function_and_not_what_another_initializes(call: str, migrate: Check) -> None:
    plan = migrate(by_value(call, "pass"), head="")
    assert sorted(asked(plan.after)) == ["GradScaler: args.amp", "autocast: args.amp"]


SHOWN = "with torch.no_grad(): print(torch.nn.Linear(8, 2).cuda()(torch.rand(4, 8).cuda()).argmax(1))"
TUNE = f"""\
def show(args):
    {SHOWN}

def tune(args):
    model = torch.nn.Linear(8, 2).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    if args.half:
        model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
    for x in torch.rand(9, 4, 8).cuda():
        loss = model(x).mean()
        optimizer.zero_grad()
        if args.half:
            with amp.scale_loss(loss, optimizer) as scaled:
                scaled.backward()
        else:
            loss.backward()
        optimizer.step()

def main():
"""
BEHIND = """\
if args.task == "tune":
        tune(args)
    else:
        FUNCTION(args)
        PLACE
"""


@pytest.mark.parametrize("place", [SHOWN, "show(args)"])
@pytest.mark.parametrize(("function", "is_certain"), [("function", False), ("train", True)])
def test_what_one_of_several_functions_initializes_need_not_be_before_what_is_behind_their_call(
    function: str, is_certain: bool, place: str, migrate: Check
) -> None:
    own = 'if args.amp:\n        model, optimizer = amp.initialize(model, optimizer, opt_level="O1")'
    behind = BEHIND.replace("FUNCTION", function).replace("PLACE", place)
    text = by_value(behind, "pass").replace("def main():\n", TUNE)
    text = text.replace("model, optimizer = setup(args, model, optimizer)", own)
    text = text[: text.index("def setup")] + text[text.index("def train") :]
    assert asked(migrate(text, head="").after).count("autocast: args.amp") == 1 + is_certain


_OF_ALL_SCRIPTS = {
    "parts.py": """\
def prepare(model, optimizer, fp16, level):
    if fp16:
        from apex import amp
        model, optimizer = amp.initialize(model, optimizer, opt_level=level)
    return model, optimizer
""",
    "train.py": """\
import torch
from parts import prepare
{imported}


def main(args):
    model = torch.nn.Linear(8, 8).cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model, optimizer = prepare(model, optimizer, args.fp16, args.level)
    for x, y in loader:
        loss = torch.nn.functional.mse_loss(model(x), y)
        if args.fp16:
            from apex import amp
            with amp.scale_loss(loss, optimizer) as scaled_loss:
                scaled_loss.backward()
        else:
            loss.backward()
        optimizer.step()
    {called}


if __name__ == "__main__":
    main(parse())
""",
    "encode.py": """\
import torch
from parts import prepare


def vectors(rows, model):
    with torch.no_grad():
        return torch.cat([model(each.cuda()).cpu() for each in rows])


def main(options):
    model, _ = prepare(torch.nn.Linear(8, 8), None, options.half, options.level)
    print(vectors(rows, model))


if __name__ == "__main__":
    main(parse())
""",
}


@pytest.mark.parametrize(
    ("imported", "called", "is_asked"),
    [("", "", True), ("import encode", "encode.main(args.encoding)", False)],
)
def test_a_script_asks_what_it_hands_to_a_helper_of_all_scripts(
    tmp_path: Path, imported: str, called: str, is_asked: bool
) -> None:
    for name, text in _OF_ALL_SCRIPTS.items():
        (tmp_path / name).write_text(text.replace("{imported}", imported).replace("{called}", called))
    outcome = migrate([tmp_path], Settings())
    after = {each.source.path.name: each.after for each in outcome.plans}
    assert "apex" not in "".join(after[name] for name in ("parts.py", "train.py"))
    region = 'enabled=bool(options.half) and options.level != "O0"):\n        print(vectors(rows, model))'
    assert (region in after.get("encode.py", "")) is is_asked
    assert any(each.code == "AMP211" for each in outcome.findings) is not is_asked
