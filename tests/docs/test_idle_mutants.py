"""A mutant is not counted where it can be shown to do what its result does, and only there."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path

import pytest

IDLE = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks/idle_mutants.py"))
WHY: Callable[[str, str], str] = IDLE["why_idle"]


def inside(*lines: str) -> str:
    return "def run(x, scaler, state, model):\n" + "".join(f"    {line}\n" for line in lines)


@pytest.mark.parametrize(
    ("result", "mutant", "reason"),
    [
        (inside("return x * 2"), inside("return x * 2  # twice"), IDLE["SAME_CODE"]),
        (inside("return 1", "x += 1"), inside("return 1", "pass"), IDLE["SAME_CODE"]),
        (inside("n = 1", "return x"), inside("n = 2", "return x"), IDLE["UNREAD"]),
        (inside("n = None", "n, m = x", "return n"), inside("pass", "n, m = x", "return n"), IDLE["UNREAD"]),
        ("if torch.__version__ < '1.2':\n    x = 1\n", "if torch.__version__ < '1.2':\n    pass\n", IDLE["OLD_TORCH"]),
        (
            inside("if x:", "    state()", "else:", "    state()"),
            inside("if not x:", "    state()", "else:", "    state()"),
            IDLE["SAME_BRANCHES"],
        ),
        (inside("if x:", "    model.half()"), inside("if x:", "    pass"), IDLE["PRECISION"]),
        (inside("if state:", "    scaler.load_state_dict(state)"), inside("if state:", "    pass"), IDLE["PRECISION"]),
    ],
)
def test_what_changes_nothing_is_known(result: str, mutant: str, reason: str) -> None:
    assert WHY(result, mutant) == reason


@pytest.mark.parametrize(
    ("result", "mutant"),
    [
        (inside("n = 1", "return n"), inside("n = 2", "return n")),
        (inside("n = x()", "return x"), inside("pass", "return x")),  # a call may do anything
        (inside("n = 1", "print(n)", "n = x"), inside("pass", "print(n)", "n = x")),
        (inside("n = 1", "return locals()"), inside("n = 2", "return locals()")),
        (inside("global n", "n = 1"), inside("global n", "n = 2")),
        (inside("n = 1", "try:", "    n = x()", "except E:", "    x(n)"),
         inside("n = 2", "try:", "    n = x()", "except E:", "    x(n)")),
        ("if torch.__version__ > '1.2':\n    x = 1\n", "if torch.__version__ > '1.2':\n    pass\n"),
        ("n = 1\n", "n = 2\n"),  # of a module: others may read it
        (inside("if x():", "    model.half()"), inside("pass")),
        (inside("model.load_state_dict(state)"), inside("pass")),
        (inside("scaler.update()"), inside("pass")),
        (inside("n = 1", "for x in state:", "    if x: break", "    n = 2", "return n"),
         inside("n = 3", "for x in state:", "    if x: break", "    n = 2", "return n")),
    ],
)  # fmt: skip
def test_what_may_change_something_is_counted(result: str, mutant: str) -> None:
    assert WHY(result, mutant) == ""
