"""The report that a person reads."""

from __future__ import annotations

from amp_migrate.report.finding import Finding, Kind
from amp_migrate.report.forms.text import render
from amp_migrate.report.report import Report


def finding(line: int, kind: Kind, code: str = "AMP101", message: str = "done", hint: str = "") -> Finding:
    return Finding("train.py", line, 5 if line else 0, code, kind, message, hint)


def lines(*findings: Finding, files: int = 1, changed: tuple[str, ...] = (), written: bool = True) -> list[str]:
    return render(Report(findings, files, changed, written)).splitlines()


def test_places_come_line_by_line_with_their_hints_and_a_summary_at_the_end() -> None:
    findings = [
        finding(3, Kind.MIGRATED, "AMP501", "training step runs under autocast"),
        finding(58, Kind.LEFT, "AMP590", "step left as it was: a closure", "Run with --dtype bf16."),
    ]
    assert lines(*findings, files=4, changed=("train.py",)) == [
        "train.py:3:5 AMP501 training step runs under autocast",
        "train.py:58:5 AMP590 step left as it was: a closure",
        "    Run with --dtype bf16.",
        "4 files read, 1 changed, 1 place migrated, 1 left as it was.",
        "More about a code: amp-migrate --explain AMP590",
    ]


def test_what_git_ignores_is_counted_in_the_summary() -> None:
    begin = "3 files read, 0 changed, 0 places migrated, 0 left as they were"
    for ignored, said in (((2, 1), "2 files and 1 folder"), ((1, 0), "1 file"), ((0, 2), "2 folders")):
        report = Report((), 3, (), written=True, ignored=ignored)
        assert render(report) == f"{begin}; {said} passed over, which git ignores.\n"


def test_the_same_change_in_many_places_is_said_once() -> None:
    findings = [finding(line, Kind.MIGRATED) for line in (3, 9, 12)]
    assert lines(*findings)[0] == "train.py:3:5 AMP101 done (also in lines 9, 12)"
    assert lines(*findings)[1] == "1 file read, 0 changed, 3 places migrated, 0 left as they were."
    assert lines(*findings[:2])[0] == "train.py:3:5 AMP101 done (also in line 9)"
    assert lines(*(finding(line, Kind.NOTE) for line in (3, 9)))[0] == "train.py:3:5 AMP101 done (also in line 9)"


def test_what_was_left_is_never_folded() -> None:
    assert lines(*(finding(line, Kind.LEFT) for line in (3, 9))) == [
        "train.py:3:5 AMP101 done",
        "train.py:9:5 AMP101 done",
        "1 file read, 0 changed, 0 places migrated, 2 left as they were.",
        "  left: AMP101 done (2 times)",
        "More about a code: amp-migrate --explain AMP101",
    ]


def test_a_reason_is_counted_once_wherever_it_lies() -> None:
    places = ("", " (line 4)", " (../model/net.py:40)", " (line 8)")
    findings = [finding(line, Kind.LEFT, message=f"left: (1) is read{at}") for line, at in enumerate(places, start=3)]
    assert lines(*findings)[-2] == "  left: AMP101 left: (1) is read (4 times)"


def test_a_finding_without_a_place_shows_the_file_alone() -> None:
    assert lines(finding(0, Kind.ERROR, "AMP001", "no such file or folder"), files=0) == [
        "train.py AMP001 no such file or folder",
        "0 files read, 0 changed, 0 places migrated, 0 left as they were, 1 error.",
    ]


def test_what_was_not_written_is_told_as_what_would_be() -> None:
    report = lines(finding(3, Kind.MIGRATED), changed=("train.py",), written=False)
    assert report[:2] == ["what would be done:", "train.py:3:5 AMP101 done"]
    assert report[-1] == "1 file read, 1 would change, 1 place to be migrated, 0 left as they were."


def test_hazards_are_counted_apart_and_are_nothing_that_was_left() -> None:
    report = lines(finding(3, Kind.HAZARD, "AMP601", "gradients clipped too early", "unscale them first"))
    assert report == [
        "train.py:3:5 AMP601 gradients clipped too early",
        "    unscale them first",
        "1 file read, 0 changed, 0 places migrated, 0 left as they were, 1 hazard.",
        "More about a code: amp-migrate --explain AMP601",
    ]


def test_nothing_is_announced_where_nothing_would_be_done() -> None:
    assert lines(finding(3, Kind.LEFT), written=False)[0] == "train.py:3:5 AMP101 done"


def test_files_that_change_with_others_are_named() -> None:
    report = lines(finding(3, Kind.MIGRATED), changed=("a.ipynb", "train.py"))
    assert report[1] == "changed with them: a.ipynb"
    report = lines(finding(3, Kind.MIGRATED), changed=("a.ipynb", "train.py"), written=False)
    assert report[2] == "would change with them: a.ipynb"
