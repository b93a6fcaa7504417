"""What is compared with what, where some of the runs did not end well."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from amp_migrate.verify.judge.evidence import Evidence
from amp_migrate.verify.judge.statistics import early
from amp_migrate.verify.recorded.recording import Trace
from amp_migrate.verify.runs.process import RunResult

Make = Callable[..., Trace]
MakeEvidence = Callable[..., Evidence]


def crashed(result: RunResult) -> RunResult:
    return replace(result, trace=replace(result.trace, stopped=False))


def with_runs(evidence: Evidence, name: str, runs: tuple[RunResult, ...]) -> Evidence:
    return replace(evidence, floors=runs) if name == "floors" else replace(evidence, oracles=runs)


@pytest.mark.parametrize("name", ["floors", "oracles"])
def test_a_rounding_of_which_one_run_crashed_is_no_part_of_the_noise_floor(
    name: str, make_evidence: MakeEvidence, make_trace: Make
) -> None:
    evidence = make_evidence()
    assert evidence.noise == pytest.approx([2e-3] * 20)
    runs: tuple[RunResult, ...] = getattr(evidence, name)
    without = with_runs(evidence, name, (runs[0], crashed(runs[1])))
    assert len(without.floor_windows) == 1
    assert without.noise == pytest.approx([1e-3] * 20)
    assert with_runs(evidence, name, tuple(map(crashed, runs))).noise == ()


def test_a_repeat_that_crashed_is_no_noise(make_evidence: MakeEvidence, make_trace: Make) -> None:
    far = make_trace([loss * 2 for loss in make_trace().losses])
    evidence = make_evidence([far])
    assert evidence.own_noise == pytest.approx(1.0)
    assert replace(evidence, repeats=tuple(map(crashed, evidence.repeats))).own_noise == 0.0
    assert make_evidence().own_noise == 0.0


def test_own_noise_alone_is_no_bound(make_evidence: MakeEvidence, make_trace: Make) -> None:
    far = make_trace([loss * 2 for loss in make_trace().losses])
    evidence = make_evidence([far])
    assert evidence.noise == pytest.approx([1.0] * 20)
    assert replace(evidence, oracles=tuple(map(crashed, evidence.oracles))).noise == ()


def test_a_pair_of_which_one_run_crashed_has_no_window(make_evidence: MakeEvidence) -> None:
    evidence = make_evidence()
    good, bad = evidence.original, crashed(evidence.original)
    assert len(evidence.windows) == 1
    further = replace(evidence, further=((good, good), (good, bad), (bad, good)))
    assert [window.s for window in further.windows] == [pytest.approx(5e-4), 0.0]
    assert replace(further, reference=None).windows == ()


def test_norms_are_those_of_the_reference_and_their_bound_is_that_of_the_oracles(
    make_evidence: MakeEvidence, make_trace: Make
) -> None:
    evidence = make_evidence(reference=make_trace(norm=2.0))
    assert [ratio.gradient for ratio in evidence.norm_ratios] == [0.5] * 6
    assert evidence.norm_bound == early.NORM_TOLERANCE
    assert replace(evidence, reference=None).norm_ratios == ()
