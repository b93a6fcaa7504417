"""All moves in, what is to be made and said out: a move is made whole or not at all."""

from __future__ import annotations

import libcst as cst
import pytest
from amp_migrate.plan.code import plain
from amp_migrate.plan.edit import After, Change, Edit, NewLine, Replace, Substitute
from amp_migrate.plan.move import Move
from amp_migrate.report.finding import Finding, Kind
from amp_migrate.settings import Settings
from amp_migrate.trees.tree import Tree
from amp_migrate.wishes import Wishes
from amp_migrate.write.consume import Settled, consume, new_text

TEXT = "a = 1\nb = 2  # amp-migrate: ignore[AMP101]\nc = 3  # amp-migrate: ignore\n"


def tree(text: str = TEXT, name: str = "a.py") -> Tree:
    return Tree(name, cst.parse_module(text), text)


def edit(of: Tree, name: str, rule: str, change: Change | None = None) -> Edit:
    """An edit of the statement that assigns a name."""
    assign = next(each for each in of.every(cst.Assign) if of.code(each).startswith(f"{name} ="))
    if change is not None:
        return Edit(of, assign, change, rule)
    return Edit(of, assign.value, Replace(plain("0")), rule)


def move(*edits: Edit, kind: Kind = Kind.MIGRATED) -> Move:
    """A move that tells of its first edit."""
    first = edits[0]
    return Move(edits, (Finding.at(first.tree, first.node, first.rule, kind, "moved"),))


def run(of: Tree, *moves: Move, **settings: tuple[str, ...]) -> tuple[str, list[tuple[str, int, Kind, str]]]:
    """The new text of a file, and what is said."""
    settled: Settled = consume(moves, Wishes(Settings(**settings)), {of.name: of})  # type: ignore[arg-type]
    said = [(each.code, each.line, each.kind, each.message) for each in settled.findings]
    return new_text(of, settled.edits.get(of, ())), said


def test_what_is_wanted_is_made_and_told() -> None:
    sheet = tree()
    after, said = run(sheet, move(edit(sheet, "a", "AMP101")))
    assert after == TEXT.replace("a = 1", "a = 0")
    assert said == [("AMP101", 1, Kind.MIGRATED, "moved")]


@pytest.mark.parametrize(
    ("name", "rule", "settings"),
    [
        ("a", "AMP101", {"ignore": ("AMP1",)}),
        ("a", "AMP101", {"select": ("AMP5",)}),
        ("b", "AMP101", {}),
        ("c", "AMP501", {}),
    ],
)
def test_what_is_not_wanted_is_neither_made_nor_told(
    name: str, rule: str, settings: dict[str, tuple[str, ...]]
) -> None:
    sheet = tree()
    assert run(sheet, move(edit(sheet, name, rule)), **settings) == (TEXT, [])


def test_a_line_that_leaves_out_one_rule_takes_another() -> None:
    sheet = tree()
    after, said = run(sheet, move(edit(sheet, "b", "AMP501")))
    assert "b = 0" in after
    assert said == [("AMP501", 2, Kind.MIGRATED, "moved")]


@pytest.mark.parametrize(
    ("other", "settings", "why"),
    [
        (("a", "AMP202"), {"ignore": ("AMP202",)}, "AMP202 is not selected"),
        (("b", "AMP101"), {}, "line 2 asks to be left alone"),
    ],
)
def test_a_move_is_left_whole_with_a_part_that_is_not_wanted(
    other: tuple[str, str], settings: dict[str, tuple[str, ...]], why: str
) -> None:
    sheet = tree()
    whole = move(edit(sheet, "a", "AMP201", Substitute()), edit(sheet, *other))
    beside = move(edit(sheet, "a", "AMP301", After((NewLine(plain("d = 4")),))))
    after, said = run(sheet, whole, beside, **settings)
    assert after == TEXT.replace("a = 1\n", "a = 1\nd = 4\n")
    assert ("AMP201", 1, Kind.LEFT, f"left as it was: {why}, and the two belong together") in said
    assert ("AMP301", 1, Kind.MIGRATED, "moved") in said


def test_a_note_goes_with_the_move_and_a_hazard_stays() -> None:
    sheet = tree()
    unwanted = edit(sheet, "b", "AMP101")
    place = edit(sheet, "a", "AMP601").node
    findings = [Finding.at(sheet, place, "AMP601", kind, "told") for kind in (Kind.NOTE, Kind.HAZARD)]
    assert run(sheet, Move((unwanted,), tuple(findings)))[1] == [("AMP601", 1, Kind.HAZARD, "told")]


def test_what_is_put_beside_a_line_that_is_left_alone_is_no_change_of_it() -> None:
    sheet = tree()
    after, _ = run(sheet, move(edit(sheet, "c", "AMP501", After((NewLine(plain("d = 4")),)))))
    assert after == TEXT + "d = 4\n"


def test_nothing_is_written_to_nor_said_of_a_file_that_asks_to_be_skipped() -> None:
    text = "# amp-migrate: skip-file\na = 1\n"
    sheet = tree(text)
    line = edit(sheet, "a", "AMP501", After((NewLine(plain("d = 4")),)))
    assert run(sheet, move(line), move(edit(sheet, "a", "AMP101"))) == (text, [])


def test_another_file_that_asks_to_be_skipped_is_named() -> None:
    sheet, other = tree(), tree("# amp-migrate: skip-file\na = 1\n", "b.py")
    both = move(edit(sheet, "a", "AMP501"), edit(other, "a", "AMP501"))
    settled = consume([both], Wishes(Settings()), {each.name: each for each in (sheet, other)})
    assert settled.edits == {}
    (finding,) = settled.findings
    assert finding.message == "left as it was: in b.py, the file asks to be skipped, and the two belong together"


def test_equal_findings_of_several_moves_are_told_once_and_in_order() -> None:
    sheet = tree()
    told = [move(edit(sheet, name, "AMP501")) for name in "bab"]
    assert [line for _, line, _, _ in run(sheet, *told)[1]] == [1, 2]


def test_errors_are_told_whatever_is_wanted() -> None:
    sheet = tree()
    error = Move((), (Finding("a.py", 3, 1, "AMP001", Kind.ERROR, "broken"),))
    assert run(sheet, error, ignore=("AMP",))[1] == [("AMP001", 3, Kind.ERROR, "broken")]
