from __future__ import annotations

import json
import math
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from amp_migrate.verify import as_html, as_json, as_text
from amp_migrate.verify.evidence import Evidence
from amp_migrate.verify.outcome import Outcome
from amp_migrate.verify.plan import Arm
from amp_migrate.verify.setup import Setup
from amp_migrate.verify.speed import Speed
from amp_migrate.verify.target import Target
from amp_migrate.verify.trace import Trace
from amp_migrate.verify.verdict import Limits, assess

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
        return Outcome(setup, evidence, assess(evidence, Limits()), ("train.py:3:1 AMP501 migrated",))

    return made


OutcomeOf = Callable[[Evidence], Outcome]


def test_text_has_a_line_per_check_and_the_verdict(make_evidence: MakeEvidence, outcome_of: OutcomeOf) -> None:
    text = as_text.render(outcome_of(make_evidence()))
    for check in ("G1", "G2", "G3", "G4", "G5", "G6", "G7", "E", "S", "N"):
        assert re.search(rf"^pass +{check} ", text, re.M), check
    assert "\nPASS (early window only): " in text
    assert "not checked: speed and memory: a CPU stood in for the GPU" in text


def test_text_names_the_suspicion_and_whether_it_is_the_edit(
    make_evidence: MakeEvidence, outcome_of: OutcomeOf, make_trace: Make
) -> None:
    losses = [loss * (1.0 if i == 0 else 1.2) for i, loss in enumerate(make_trace().losses)]
    text = as_text.render(outcome_of(make_evidence(migrated_off=make_trace(losses))))
    assert "FAIL: AMP off, losses equal bit for bit: first difference at backward pass 1" in text
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
    assert document["early"]["S"] == pytest.approx(evidence.windows[0].s)
    assert len(document["early"]["oracle"]) == 3
    assert len(document["early"]["norms"]) == 6
    assert document["events"]["scales"] == [1024.0] * 20
    assert {run["name"] for run in document["runs"]} >= {"original", "migrated"}


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
