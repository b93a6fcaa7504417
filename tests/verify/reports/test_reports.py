from __future__ import annotations

import json
import math
import re
import shlex
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from amp_migrate.report.finding import Finding, Kind
from amp_migrate.verify.judge.evidence import Evidence
from amp_migrate.verify.judge.meanings import MEANINGS
from amp_migrate.verify.judge.statistics.speed import Memory, Speed
from amp_migrate.verify.judge.verdict import Limits, Verdict, assess
from amp_migrate.verify.recorded.recording import Trace
from amp_migrate.verify.reports import as_html, as_json, as_text, plots
from amp_migrate.verify.reports.outcome import Outcome, command_line
from amp_migrate.verify.runs.kinds import Arm
from amp_migrate.verify.runs.setup import Setup
from amp_migrate.verify.runs.target import Target
from markupsafe import escape

Make = Callable[..., Trace]
MakeEvidence = Callable[..., Evidence]


@pytest.fixture
def outcome_of(tmp_path: Path) -> Callable[[Evidence], Outcome]:
    def made(evidence: Evidence) -> Outcome:
        setup = Setup(
            scripts={Arm.ORIGINAL: Target(Path("/a/train <old>.py")), Arm.MIGRATED: Target(Path("/a/train_new.py"))},
            arguments=("--lr", "0.1"),
            python="python",
            cwd=tmp_path,
            copy_cwd=True,
            scratch=tmp_path,
            shim=tmp_path,
            device="auto",
            steps=20,
            timing_steps=100,
            timeout=600,
            jobs=2,
        )
        moved = Finding("train.py", 3, 1, "AMP501", Kind.MIGRATED, "migrated")
        return Outcome(setup, evidence, assess(evidence, Limits()), (moved,))

    return made


OutcomeOf = Callable[[Evidence], Outcome]


def test_text_has_a_line_per_check_and_the_verdict(make_evidence: MakeEvidence, outcome_of: OutcomeOf) -> None:
    text = as_text.render(outcome_of(make_evidence()))
    for check in ("G1", "G2", "G3", "G4", "G5", "G6", "G7", "E", "S", "N"):
        assert re.search(rf"^pass +{check} ", text, re.M), check
    assert "\nPASS: with mixed precision off it is the same program to the bit" in text
    assert "not checked: speed and memory: a CPU stood in for the GPU" in text


def test_text_names_the_suspicion_and_whether_it_is_the_edit(
    make_evidence: MakeEvidence, outcome_of: OutcomeOf, make_trace: Make
) -> None:
    losses = [loss * (1.0 if i == 0 else 1.2) for i, loss in enumerate(make_trace().losses)]
    text = as_text.render(outcome_of(make_evidence(migrated_off=make_trace(losses))))
    assert "FAIL: AMP off, the same program: first difference: backward pass 1: 1 and 1.2" in text
    assert "precision or edit? the edit" in text


def test_json_is_valid_even_where_numbers_are_not_finite(
    make_evidence: MakeEvidence, outcome_of: OutcomeOf, make_trace: Make
) -> None:
    bad = make_trace([2.0, math.nan, *[1.0] * 18], scale=64.0)
    document = json.loads(as_json.render(outcome_of(make_evidence(migrated=bad))), parse_constant=pytest.fail)
    assert document["schema"] == "amp-migrate/verify/1"
    assert document["verdict"] == "FAIL"
    assert document["exit_code"] == 1
    assert document["early"]["S"] == "inf"
    assert document["losses"]["migrated"][1] == "nan"
    assert document["speed"] is None
    assert document["tf32"] is None


def test_json_holds_the_numbers_behind_the_verdict(make_evidence: MakeEvidence, outcome_of: OutcomeOf) -> None:
    evidence = make_evidence()
    outcome = outcome_of(evidence)
    fast = Speed(2.0, None, None, 10.0, 5.0, 0.01)
    outcome = replace(outcome, assessment=replace(outcome.assessment, tf32=(fast, None)))
    document = json.loads(as_json.render(outcome))
    assert (document["tf32"]["on"]["ratio"], document["tf32"]["off"]) == (2.0, None)
    assert document["early"]["S"] == pytest.approx(0.25)
    assert document["early"]["noise"] == pytest.approx([2e-3] * 20)
    assert len(document["early"]["norms"]) == 6
    assert document["events"]["scales"] == [1024.0] * 20
    assert {run["name"] for run in document["runs"]} >= {"original", "migrated"}
    assert document["confidence"] == "early"
    whole = assess(replace(evidence, whole=((evidence.original, evidence.original),) * 3), Limits())
    assert json.loads(as_json.render(replace(outcome, assessment=whole)))["confidence"] == "converged"


def test_html_is_self_contained_and_escapes_what_the_user_named(
    make_evidence: MakeEvidence, outcome_of: OutcomeOf
) -> None:
    page = as_html.render(outcome_of(make_evidence()))
    assert "train &lt;old&gt;.py" in page
    assert "train <old>.py" not in page
    assert "AMP501" in page
    links = re.findall(r'(?:src|href)="([^"]*)"', page)
    assert [link for link in links if not link.startswith("#")] == []
    assert "prefers-color-scheme: dark" in page


def test_html_says_when_what_each_check_means_what_differs_and_how_to_repeat_it(
    make_evidence: MakeEvidence, outcome_of: OutcomeOf, tmp_path: Path
) -> None:
    outcome = outcome_of(make_evidence())
    files = {arm: tmp_path / f"{arm.value}.py" for arm in Arm}
    files[Arm.ORIGINAL].write_text("a = 1\nloss.backward()\n")
    files[Arm.MIGRATED].write_text("a = 1\nscaler.scale(loss).backward()\n")
    setup = replace(outcome.setup, scripts={arm: Target(file) for arm, file in files.items()})
    command = "amp-verify run original.py migrated.py"
    page = as_html.render(replace(outcome, setup=setup, command=command, date="2026-11-22 11:00 UTC"))
    assert "2026-11-22 11:00 UTC" in page
    assert command in page
    for check in outcome.assessment.checks:
        assert str(escape(MEANINGS[check.id])) in page
    assert "-loss.backward()\n+scaler.scale(loss).backward()\n" in page
    for line in (*outcome.assessment.power, *outcome.assessment.not_checked):
        assert str(escape(line)) in page
    assert "@media print" in page
    assert "To repeat it" in page
    assert "To repeat it" not in as_html.render(outcome)


def test_the_first_loss_that_is_no_number_is_marked(make_evidence: MakeEvidence, make_trace: Make) -> None:
    bad = make_trace([2.0, 1.5, math.nan, *[math.nan] * 17], scale=64.0)
    plot = plots.losses(make_evidence(migrated=bad))
    assert plot is not None
    assert "migrated: no finite loss" in plot.svg
    right = plots.losses(make_evidence())
    assert right is not None
    assert "no finite loss" not in right.svg


def test_all_plots_count_optimizer_steps(make_evidence: MakeEvidence) -> None:
    drawn = [draw(make_evidence()) for draw in (plots.losses, plots.differences, plots.norms, plots.scale)]
    assert all(plot is not None and "optimizer step" in plot.svg for plot in drawn)


def test_plots_are_well_formed_take_the_page_s_colours_and_share_no_ids(
    make_evidence: MakeEvidence, outcome_of: OutcomeOf
) -> None:
    page = as_html.render(outcome_of(make_evidence()))
    figures = re.findall(r"<svg.*?</svg>", page, re.S)
    assert len(figures) == 4
    ids: list[str] = []
    for figure in figures:
        root = ElementTree.fromstring(figure)
        found = [element.get("id") for element in root.iter() if element.get("id")]
        ids += [one for one in found if one is not None]
        assert root.get("viewBox")
        assert root.get("width") is None
        assert re.findall(r"#[0-9a-f]{6}\b", figure) == []
        assert "var(--migrated)" in figure
    assert len(ids) == len(set(ids))


def test_a_report_of_a_crash_has_no_curves(
    make_evidence: MakeEvidence, outcome_of: OutcomeOf, make_trace: Make
) -> None:
    empty = make_trace([], stopped=False, census=())
    page = as_html.render(outcome_of(make_evidence(original=empty, migrated=empty, migrated_off=None, reference=None)))
    assert "ORIGINAL FAILED" in page
    assert "<svg" not in page


def test_title_names_the_scripts_as_the_user_sees_them(make_evidence: MakeEvidence, outcome_of: OutcomeOf) -> None:
    setup = outcome_of(make_evidence()).setup
    setup = replace(setup, cwd=Path("/a"))
    assert setup.title == "train <old>.py and train_new.py"
    made = {**setup.scripts, Arm.MIGRATED: Target(setup.scratch / "migrated/train.py")}
    assert replace(setup, scripts=made).title == "train <old>.py and its migration"


def measured(low: float | None, ratio: float = 1.2, iqr: float = 0.01) -> Speed:
    return Speed(ratio, low, None if low is None else 2.0, 12.0, 10.0, iqr)


@pytest.mark.parametrize(
    ("speed", "said"),
    [
        (measured(1.1), "12.00 ms and 10.00 ms, 1.20 times as fast (95 % interval 1.10 to 2.00)"),
        (measured(1.03), "12.00 ms and 10.00 ms, 1.20 times as fast (95 % interval 1.03 to 2.00); no gain is claimed"),
        (measured(None), "12.00 ms and 10.00 ms, 1.20 times as fast"),
        (measured(1.1, iqr=0.3), "12.00 ms and 10.00 ms; the machine is too busy to claim a ratio"),
    ],
)
def test_a_gain_is_claimed_only_where_the_whole_interval_shows_one(
    make_evidence: MakeEvidence, speed: Speed, said: str
) -> None:
    assessment = replace(assess(make_evidence(), Limits()), speed=speed)
    assert list(as_text.performance(assessment)) == [f"step time: {said}"]


def test_a_busy_machine_says_nothing_of_tf32(make_evidence: MakeEvidence) -> None:
    calm, busy = measured(1.1), measured(1.1, iqr=0.3)
    assessment = replace(assess(make_evidence(), Limits()), tf32=(busy, calm))
    assert [line.partition(":")[0] for line in as_text.performance(assessment)] == ["beside the original with TF32 off"]


def test_memory_is_told_in_mebibytes(make_evidence: MakeEvidence) -> None:
    memory = Memory(3 * 2**20, 2 * 2**20, "peak_allocated")
    assessment = replace(assess(make_evidence(), Limits()), memory=memory)
    assert list(as_text.performance(assessment)) == ["peak memory: 3 MiB and 2 MiB, 0.67 times as much"]


@pytest.mark.parametrize(
    ("verdict", "tone"),
    [
        (Verdict.PASS, "pass"),
        (Verdict.FAIL, "fail"),
        (Verdict.INCONCLUSIVE, "warn"),
        (Verdict.VACUOUS, "warn"),
        (Verdict.ORIGINAL_FAILED, "fail"),
        (Verdict.MIGRATED_FAILED, "fail"),
        (Verdict.TOO_SLOW, "warn"),
    ],
)
def test_the_page_has_the_colour_of_its_verdict(
    make_evidence: MakeEvidence, outcome_of: OutcomeOf, make_trace: Make, verdict: Verdict, tone: str
) -> None:
    empty = make_trace([], stopped=False, census=())  # so that nothing is drawn, which takes a second
    outcome = outcome_of(make_evidence(original=empty, migrated=empty, migrated_off=None, reference=None))
    page = as_html.render(replace(outcome, assessment=replace(outcome.assessment, verdict=verdict)))
    assert f'<div class="verdict {tone}">' in page


def test_operations_that_moved_come_first(make_evidence: MakeEvidence, outcome_of: OutcomeOf, make_trace: Make) -> None:
    before = (("add", "float32", 5), ("linear", "float32", 3), ("mm", "float32", 2), ("zeros", "float32", 1))
    after = (("add", "float32", 5), ("linear", "float16", 3), ("mm", "float16", 1), ("mm", "float32", 1))
    evidence = make_evidence(original=make_trace(census=before), migrated=make_trace(scale=64.0, census=after))
    rows = outcome_of(evidence).census
    assert [(row.operation, row.moved, row.low) for row in rows] == [
        ("linear", True, True),
        ("mm", True, True),
        ("add", False, False),
        ("zeros", False, False),
    ]
    assert (rows[1].original, rows[1].migrated) == ({"float32": 2}, {"float16": 1, "float32": 1})


def test_a_command_line_can_be_typed_again(make_evidence: MakeEvidence) -> None:
    result = replace(make_evidence().original, command=("python", "my train.py", "--name", "a'b"))
    assert shlex.split(command_line(result)) == list(result.command)
    assert command_line(result).startswith("python 'my train.py' --name ")


@pytest.mark.parametrize(
    ("cause", "suspicion", "said"),
    [
        ("", "", []),
        ("", "no update()", ["suspicion: no update()"]),
        ("edit", "", ["precision or edit? the edit"]),
        ("casts", "", ["precision or edit? casts by hand"]),
        ("precision", "a scale", ["suspicion: a scale", "precision or edit? mixed precision"]),
    ],
)
def test_what_the_numbers_point_at(make_evidence: MakeEvidence, cause: str, suspicion: str, said: list[str]) -> None:
    assessment = replace(assess(make_evidence(), Limits()), cause=cause, suspicion=suspicion)
    assert [line.partition(": with autocast")[0] for line in as_text.reasons(assessment)] == said
