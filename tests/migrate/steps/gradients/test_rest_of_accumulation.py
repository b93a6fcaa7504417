"""What is left of an accumulation when a loop ends: a second step, by the test that the last round has made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]

NEXT = "(number + 1) % every"
# `FULL` ends a step in the loop, `REST` one behind it.
ACCUMULATION = """
  import tqdm
  batches, every = torch.load("words.pt"), 8
~ MODEL
  for epoch in range(5):
      for number, (x, y) in enumerate(batches):
~         loss = nn.functional.mse_loss(model(x), y)
~         loss.backward()
          if FULL:
~             optimizer.step()
              optimizer.zero_grad()
      if REST:
~         optimizer.step()
          optimizer.zero_grad()
"""


def accumulation(full: str, rest: str, old: str = "", new: str = "") -> str:
    """The program with its two tests, and a change that must be one."""
    assert old in ACCUMULATION
    return ACCUMULATION.replace(old, new, 1).replace("FULL", full).replace("REST", rest)


@pytest.mark.parametrize(
    ("full", "rest"),
    [
        ("(number + 1) % every == 0", "(number + 1) % every != 0"),
        ("(number + 1) % every == 0", "not (number + 1) % every == 0"),
        ("number % every == every - 1", "epoch < 4 and number % every != every - 1"),
        ("(number + 1) % every == 0", "len(batches) % every != 0"),
        ("not (number + 1) % every", "len(batches) % every"),
        ("(number + 1) % every == 0", "(number + 1) % every"),
    ],
)
def test_the_rest_steps_by_the_test_of_the_last_round(full: str, rest: str, rewrites: Check) -> None:
    rewrites(accumulation(full, rest))


@pytest.mark.parametrize(
    ("full", "rest", "old", "new"),
    [
        ("number % every == 0", "len(batches) % every != 0", "enumerate(batches)", "enumerate(batches, start=1)"),
        ("(number + 1) % every == 0", "90 % every", "number, (x, y) in enumerate(batches)", "number in range(90)"),
        (f"{NEXT} == 0", "len(batches) % every != 0", "in enumerate(batches)", "in enumerate(tqdm.tqdm(batches))"),
        (f"{NEXT} == 0", "len(batches) % every != 0", "in enumerate(batches)", "in tqdm.tqdm(enumerate(batches))"),
    ],
)
def test_what_is_counted_ends_at_the_number_of_all(full: str, rest: str, old: str, new: str, rewrites: Check) -> None:
    rewrites(accumulation(full, rest, old, new))


@pytest.mark.parametrize(
    ("full", "rest", "old", "new"),
    [
        pytest.param(f"{NEXT} == 0", "(number + 1) % 4 != 0", "", "", id="another number"),
        pytest.param(f"{NEXT} == 0", f"{NEXT} == 0", "", "", id="the same again"),
        pytest.param(
            f"{NEXT} == 0", f"{NEXT} != 0", "      if REST", "      every = 3\n      if REST", id="a new number"
        ),
        pytest.param("number % every == 0", "len(batches) % every != 0", "", "", id="from zero"),
        pytest.param(
            f"{NEXT} == 0", "len(batches) % every != 0", "enumerate(batches)", "enumerate(batches, 2)", id="from two"
        ),
        pytest.param(
            f"{NEXT} == 0",
            "len(batches) % every != 0",
            "          if FULL",
            "          batches = batches[1:]\n          if FULL",
            id="another list",
        ),
        pytest.param(
            f"{NEXT} == 0",
            "len(x) % every != 0",
            "(x, y) in enumerate(batches)",
            "x in enumerate(x)",
            id="an item of it",
        ),
        pytest.param(
            f"{NEXT} == 0",
            "len(batches) % every != 0",
            "          if FULL",
            "          number += 1\n          if FULL",
            id="counted twice",
        ),
        pytest.param(
            f"{NEXT} == 0",
            "len(batches) % every != 0",
            "~         loss =",
            "          if x.sum() > 9:\n              break\n~         loss =",
            id="a break",
        ),
    ],
)
def test_a_rest_that_the_last_round_says_nothing_of_stays(
    full: str, rest: str, old: str, new: str, leaves: Check
) -> None:
    lines = accumulation(full, rest, old, new).splitlines()
    leaves("\n".join(line[2:] for line in lines).replace("MODEL", "\nMODEL\n"), "")
