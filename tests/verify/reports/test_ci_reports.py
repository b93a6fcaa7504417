"""The reports that CI servers read: JUnit XML, GitHub's summary and annotations."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from amp_migrate.report.finding import Finding, Kind
from amp_migrate.verify.judge.evidence import Evidence
from amp_migrate.verify.judge.gates import Check, Status
from amp_migrate.verify.judge.verdict import Limits, Verdict, assess
from amp_migrate.verify.recorded.recording import Failure, Trace
from amp_migrate.verify.reports import as_github, as_html, as_json, as_junit, as_pull_request, as_text
from amp_migrate.verify.reports.outcome import Outcome
from amp_migrate.verify.runs.kinds import Arm
from amp_migrate.verify.runs.setup import Setup
from amp_migrate.verify.runs.target import Target

Make = Callable[..., Trace]
MakeEvidence = Callable[..., Evidence]


@pytest.fixture
def outcome_of(tmp_path: Path) -> Callable[[Evidence], Outcome]:
    text = "for x in data:\n    loss = model(x)\n    loss.backward()\n"
    for name in ("old.py", "new.py"):
        (tmp_path / name).write_text(text, encoding="utf-8")

    def made(evidence: Evidence) -> Outcome:
        setup = Setup(
            scripts={Arm.ORIGINAL: Target(tmp_path / "old.py"), Arm.MIGRATED: Target(tmp_path / "new.py")},
            arguments=(),
            python="python",
            cwd=tmp_path,
            copy_cwd=True,
            scratch=tmp_path / "scratch",
            shim=tmp_path,
            device="auto",
            steps=20,
            timing_steps=100,
            timeout=600,
            jobs=2,
        )
        return Outcome(setup, evidence, assess(evidence, Limits()))

    return made


OutcomeOf = Callable[[Evidence], Outcome]


def failed_bitwise(make_evidence: MakeEvidence, make_trace: Make) -> Evidence:
    return make_evidence(migrated_off=make_trace([loss * 1.2 for loss in make_trace().losses]))


def suite_of(outcome: Outcome) -> ElementTree.Element:
    suite = ElementTree.fromstring(as_junit.render(outcome)).find("testsuite")
    assert suite is not None
    return suite


def test_junit_has_a_case_per_check(make_evidence: MakeEvidence, outcome_of: OutcomeOf) -> None:
    outcome = outcome_of(make_evidence())
    suite = suite_of(outcome)
    assert suite.get("tests") == str(len(outcome.assessment.checks))
    assert [suite.get(key) for key in ("failures", "errors", "skipped")] == ["0", "0", "0"]
    names = [case.get("name", "") for case in suite.iter("testcase")]
    assert names[0] == "G1 both scripts ended well"


def test_junit_tells_failures_errors_and_what_was_skipped_apart(
    make_evidence: MakeEvidence, make_trace: Make, outcome_of: OutcomeOf
) -> None:
    failed = suite_of(outcome_of(failed_bitwise(make_evidence, make_trace)))
    assert failed.get("failures") == "1"
    message = failed.find("testcase/failure")
    assert message is not None
    assert "first difference" in message.get("message", "")
    vacuous = make_evidence(migrated=make_trace(census=()), migrated_off=None, reference=None)
    assert suite_of(outcome_of(vacuous)).get("errors") == "1"
    crashed = make_evidence(original=make_trace([], stopped=False), migrated_off=None, reference=None)
    suite = suite_of(outcome_of(crashed))
    assert [suite.get(key) for key in ("failures", "errors")] == ["0", "1"]


def test_the_summary_is_a_table_that_names_the_verdict(
    make_evidence: MakeEvidence, make_trace: Make, outcome_of: OutcomeOf
) -> None:
    text = as_github.markdown(outcome_of(failed_bitwise(make_evidence, make_trace)))
    assert text.startswith("### amp-verify: ")
    assert "old.py: FAIL\n" in text
    assert "\n\nAMP off, the same program: first difference: backward pass 0: 2 and 2.4" in text
    assert "| :x: E | AMP off, the same program | first difference" in text
    assert "**precision or edit? the edit" in text


def test_a_cell_cannot_break_the_table(make_evidence: MakeEvidence, make_trace: Make, outcome_of: OutcomeOf) -> None:
    broken = make_trace([], stopped=False, failure=Failure("ValueError", "a | b\n<c>", "new.py:2"))
    text = as_github.markdown(outcome_of(make_evidence(migrated=broken, migrated_off=None, reference=None)))
    assert "a \\| b &lt;c&gt;" in text


@pytest.mark.parametrize(
    "text",
    ["\x1b]0;owned\x07", "\n::error::owned", "##[error]x", "<script>alert(1)</script>", "a\x00\ud800b\ufffe", "]]>"],
)
def test_what_a_script_says_is_text_in_every_report(
    make_evidence: MakeEvidence, make_trace: Make, outcome_of: OutcomeOf, text: str
) -> None:
    broken = make_trace([], stopped=False, failure=Failure("ValueError", text, "new.py:2"))
    outcome = outcome_of(make_evidence(migrated=broken, migrated_off=None, reference=None))
    assert suite_of(outcome).find("testcase") is not None
    json.loads(as_json.render(outcome).encode())
    outcome = replace(outcome, findings=(replace(MOVED, message=text, hint=text),), command=text)
    asked = as_pull_request.render(outcome)
    assert "<script>" not in as_html.render(outcome) + as_github.markdown(outcome) + asked.partition("## To repeat")[0]
    for report in (as_junit.render(outcome), as_github.annotation(outcome), as_text.render(outcome), asked):
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]", report)
        assert not re.search(r"^\s*::(?!error file=)|##\w*\[", report, re.MULTILINE)


def test_the_annotation_stands_at_the_line_that_raised(
    make_evidence: MakeEvidence, make_trace: Make, outcome_of: OutcomeOf
) -> None:
    broken = make_trace([], stopped=False, failure=Failure("ValueError", "bad", "new.py:2"))
    outcome = outcome_of(make_evidence(migrated=broken, migrated_off=None, reference=None))
    assert as_github.annotation(outcome).startswith("::error file=new.py,line=2,title=amp-verify MIGRATED FAILED::")


def test_the_annotation_of_differing_training_stands_at_the_backward_pass(
    make_evidence: MakeEvidence, make_trace: Make, outcome_of: OutcomeOf
) -> None:
    outcome = outcome_of(failed_bitwise(make_evidence, make_trace))
    assert as_github.annotation(outcome).startswith("::error file=new.py,line=3,title=amp-verify FAIL::")
    scripts = {**outcome.setup.scripts, Arm.MIGRATED: Target(outcome.setup.scratch / "new.py")}
    made_here = replace(outcome, setup=replace(outcome.setup, scripts=scripts))
    assert as_github.annotation(made_here).startswith("::error file=old.py,line=3,")


def test_only_a_github_job_is_told(make_evidence: MakeEvidence, outcome_of: OutcomeOf, tmp_path: Path) -> None:
    summary = tmp_path / "summary.md"
    outcome = outcome_of(make_evidence())
    assert as_github.tell(outcome, {"GITHUB_STEP_SUMMARY": str(summary)}) == ""
    assert not summary.exists()
    job = {"GITHUB_STEP_SUMMARY": str(summary), "GITHUB_ACTIONS": "true"}
    assert as_github.tell(outcome, job) == ""  # a pass has no annotation
    as_github.tell(outcome, job)
    assert summary.read_text().count("### amp-verify") == 2


@pytest.mark.parametrize(
    ("status", "tag", "mark"),
    [
        (Status.PASS, "system-out", "white_check_mark"),
        (Status.WARN, "system-out", "warning"),
        (Status.FAIL, "failure", "x"),
        (Status.VACUOUS, "error", "warning"),
        (Status.INCONCLUSIVE, "skipped", "grey_question"),
        (Status.NOT_ASSESSED, "skipped", "heavy_minus_sign"),
    ],
)
def test_what_a_check_found_in_both_reports(
    make_evidence: MakeEvidence, outcome_of: OutcomeOf, status: Status, tag: str, mark: str
) -> None:
    outcome = outcome_of(make_evidence())
    check = Check("N", "norms", status, "far apart")
    outcome = replace(outcome, assessment=replace(outcome.assessment, checks=(check,)))
    case = suite_of(outcome).find("testcase")
    assert case is not None
    assert case.get("name") == "N norms"
    assert [(child.tag, child.get("message") or child.text) for child in case] == [(tag, "far apart")]
    assert f"| :{mark}: N | norms | far apart |\n" in as_github.markdown(outcome)


def test_a_missed_performance_gate_is_a_failure_of_its_own(make_evidence: MakeEvidence, outcome_of: OutcomeOf) -> None:
    outcome = outcome_of(make_evidence())
    slow = assess(outcome.evidence, Limits(min_speedup=1.1))
    suite = suite_of(replace(outcome, assessment=slow))
    case = suite.findall("testcase")[-1]
    failure = case.find("failure")
    assert failure is not None
    assert (case.get("name"), failure.get("message")) == ("performance gate", slow.sentence)
    assert [suite.get(key) for key in ("failures", "tests")] == ["1", str(len(slow.checks) + 1)]
    assert suite_of(outcome).get("tests") == str(len(slow.checks))


@pytest.mark.parametrize(
    ("verdict", "severity"),
    [
        (Verdict.FAIL, "error"),
        (Verdict.INCONCLUSIVE, "warning"),
        (Verdict.VACUOUS, "warning"),
        (Verdict.ORIGINAL_FAILED, "error"),
        (Verdict.MIGRATED_FAILED, "error"),
        (Verdict.TOO_SLOW, "error"),
    ],
)
def test_what_shows_nothing_is_only_a_warning(
    make_evidence: MakeEvidence, outcome_of: OutcomeOf, verdict: Verdict, severity: str
) -> None:
    outcome = outcome_of(make_evidence())
    outcome = replace(outcome, assessment=replace(outcome.assessment, verdict=verdict))
    name = "old.py" if verdict is Verdict.ORIGINAL_FAILED else "new.py"
    assert as_github.annotation(outcome).startswith(f"::{severity} file={name},line=3,")


MOVED = Finding("train.py", 9, 5, "AMP501", Kind.MIGRATED, "step wrapped in `autocast`")
STAYED = Finding("train.py", 30, 1, "AMP590", Kind.LEFT, "two losses | one scale", "write `scaler.scale(a)` by hand")


def test_a_job_s_summary_says_what_would_have_been_seen(make_evidence: MakeEvidence, outcome_of: OutcomeOf) -> None:
    text = as_github.markdown(outcome_of(make_evidence()))
    assert "\n- would have been seen: with it on, losses off by " in text
    assert "\n- not checked: speed and memory" in text


def test_a_pull_requests_text_says_what_moves_what_stays_and_why_and_shows_the_evidence(
    make_evidence: MakeEvidence, outcome_of: OutcomeOf
) -> None:
    command = "amp-verify run train.py --synthetic-data"
    outcome = replace(outcome_of(make_evidence()), findings=(MOVED, STAYED), command=command)
    text = as_pull_request.render(outcome)
    assert "/old.py` in mixed precision by `torch.amp`\n\n**PASS**: " in text
    assert "## What moves\n\n- `train.py:9:5`: step wrapped in `autocast` (AMP501).\n" in text
    assert "## What stays, and why\n\n- `train.py:30:1`: two losses \\| one scale (AMP590). Write " in text
    assert "no evidence" not in text
    checks = [line for line in text.splitlines() if line.startswith("| :")]
    assert len(checks) == len(outcome.assessment.checks)
    assert "\nWould have been seen:\n\n- with mixed precision off, any other bit in 20 losses" in text
    assert "\nNot checked:\n\n- " in text
    assert text.endswith(f"## To repeat it\n\n```console\n$ {command}\n```\n")


def test_a_pull_requests_text_of_a_failure_says_that_it_is_no_evidence(
    make_evidence: MakeEvidence, make_trace: Make, outcome_of: OutcomeOf
) -> None:
    text = as_pull_request.render(outcome_of(failed_bitwise(make_evidence, make_trace)))
    assert "**FAIL**: " in text
    assert "\nThis is no evidence that training stays the same.\n" in text
    assert "precision or edit? the edit" in text
    assert "## What" not in text  # both scripts were given: nothing was moved here
    broken = make_trace([], stopped=False, failure=Failure("ValueError", "bad", "new.py:2"))
    crashed = as_pull_request.render(outcome_of(make_evidence(migrated=broken, migrated_off=None, reference=None)))
    assert "## Evidence" not in crashed
