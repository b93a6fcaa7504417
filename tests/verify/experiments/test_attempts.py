"""What is tried next where a migration fails for precision."""

from __future__ import annotations

import pytest
from amp_migrate.verify.experiments.attempts import attempts
from amp_migrate.verify.experiments.float32_parts import Localised
from amp_migrate.verify.recorder.part import Part


def part(name: str, owner: str = "", *, learns: bool = True) -> Part:
    return Part(0 if learns else 1, name, owner or "Linear", leaf=True, owner=owner, learns=learns)


NET = part("", "Net")
BLOCK, FIRST, SQUARE = part("block", "Block"), part("block.first"), part("block.square", "Square")
LOSS = part("", "AreaLoss", learns=False)
PARTS = (NET, BLOCK, FIRST, SQUARE, part("head"), LOSS)


@pytest.mark.parametrize(
    ("islands", "words"),
    [
        ([SQUARE], [("--keep-float32", "Square")]),
        ([FIRST], [("--keep-float32", "Block")]),
        ([SQUARE, FIRST], [("--keep-float32", "Square", "--keep-float32", "Block")]),
        ([part("head")], []),  # in none of the user's forwards but the model's
        ([FIRST, part("head")], []),
        ([NET], []),
        ([LOSS], [("--keep-float32", "AreaLoss")]),
    ],
)
def test_the_forwards_that_hold_the_parts_are_kept(islands: list[Part], words: list[tuple[str, ...]]) -> None:
    found = Localised("", islands=tuple(islands), parts=PARTS)
    assert [each.words for each in attempts(found, None)] == words


def test_bfloat16_is_tried_last_and_only_where_it_passes_and_nothing_else_was_asked_for() -> None:
    found = Localised("", islands=(SQUARE,), parts=PARTS, bfloat16=True)
    assert [each.name for each in attempts(found, None)] == ["--keep-float32 Square", "--dtype bf16"]
    assert [each.name for each in attempts(found, "fp16")] == ["--dtype fp16 --keep-float32 Square"]
    assert attempts(Localised("look at the loss", bfloat16=False), None) == ()
