"""`amp-verify localize`: a script that fails in one part of its model, and how it is told."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from amp_migrate.verify.cli import main
from amp_migrate.verify.experiments.float32_parts import Cost, Localised, localize
from amp_migrate.verify.experiments.ladder import climb
from amp_migrate.verify.judge.evidence import Evidence
from amp_migrate.verify.judge.gates import Check, Status
from amp_migrate.verify.judge.statistics.speed import Memory, Speed
from amp_migrate.verify.judge.verdict import Assessment, Limits, Verdict, assess
from amp_migrate.verify.recorded.recording import Model, Trace
from amp_migrate.verify.recorder.part import Part
from amp_migrate.verify.reports import as_localized
from amp_migrate.verify.runs.pool import Pool
from amp_migrate.verify.runs.setup import Setup
from click.testing import CliRunner

Make = Callable[..., Trace]
MakeEvidence = Callable[..., Evidence]
MakeSetup = Callable[[Path, Path, Path], Setup]
Find = Callable[..., tuple[Assessment, Localised]]

RIGHT = Path(__file__).parents[1] / "scripts" / "fp16.py"

FRAGILE = """
class Fragile(nn.Module):
    def forward(self, x):
        return x * 2.0**20 * 2.0**-20


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Identity(), Fragile()

    def forward(self, x):
        return self.second(self.first(x))


torch.manual_seed(3)
"""


@pytest.fixture
def find(pool_fp32: Callable[[str], Pool]) -> Find:
    """Localise what is wrong with `fp16.py` in which one text is replaced by another."""

    def found(*edits: str) -> tuple[Assessment, Localised]:
        text = RIGHT.read_text()
        for old, new in (edits[at : at + 2] for at in range(0, len(edits), 2)):
            assert old in text
            text = text.replace(old, new)
        pool = pool_fp32(text)
        evidence = climb(pool, timing_pairs=0)
        assessment = assess(evidence, Limits())
        return assessment, localize(pool, evidence, assessment, timing_pairs=3)

    return found


@pytest.mark.slow
def test_the_part_that_overflows_is_found_and_no_other(find: Find) -> None:
    assessment, found = find("torch.manual_seed(3)\n", FRAGILE, "nn.ReLU(),", "nn.ReLU(),\n    Block(),")
    assert assessment.cause == "precision"
    assert found.reason == ""
    assert [part.name for part in found.islands] == ["3.second"]
    assert found.lines == ('keep_fp32(model, "3.second")',)
    assert found.models[0].variable == "model"
    assert found.bfloat16 is True
    assert found.probes <= 5
    assert found.costs == (Cost(share=0.0, more_bytes=32 * 8 * 64 * 2),)


@pytest.mark.slow
def test_what_overflows_outside_every_model_is_not_charged_to_one(find: Find) -> None:
    assessment, found = find("model(x), y", "(model(x) * 2.0**20) @ (torch.eye(10).cuda() * 2.0**-20), y")
    assert assessment.cause == "precision"
    assert found.reason.startswith("not a part of a model: with all of them in float32 the script fails as well")
    assert found.islands == ()


SHRINKING = """
class Shrink(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return grad * 2.0**-60 * 2.0**60


class Shrinking(nn.Module):
    def forward(self, x):
        return Shrink.apply(x)


torch.manual_seed(3)
"""


@pytest.mark.slow
def test_small_gradients_are_kept_in_front_of_what_loses_them(find: Find) -> None:
    assessment, found = find("torch.manual_seed(3)\n", SHRINKING, "nn.ReLU(),", "nn.ReLU(),\n    Shrinking(),")
    assert {check.id for check in assessment.checks if check.status is Status.FAIL} >= {"G15"}
    assert found.reason == ""
    assert [part.name for part in found.islands] == ["0"]  # all up to the part gets float32 from it


def test_small_gradients_that_a_pinned_scale_loses_are_not_charged_to_a_part(
    make_evidence: MakeEvidence, nowhere: Pool
) -> None:
    assessment = assess(make_evidence(), Limits())
    lost = Check("G15", "small gradients are kept", Status.FAIL, "90% are zero")
    pinned = replace(next(each for each in assessment.checks if each.id == "G5"), status=Status.WARN)
    checks = tuple(pinned if each.id == "G5" else each for each in assessment.checks)
    failed = replace(assessment, verdict=Verdict.FAIL, checks=(*checks, lost))
    assert localize(nowhere, make_evidence(), failed, 3).reason.startswith("not a part of a model: small gradients")


@pytest.fixture
def nowhere(make_setup: MakeSetup, tmp_path: Path) -> Pool:
    """A pool that must not be asked for a run."""
    return Pool(
        make_setup(tmp_path / "no.py", tmp_path / "no.py", tmp_path), lambda result: pytest.fail("a run was made")
    )


def test_a_script_that_passes_is_not_run_again(make_evidence: MakeEvidence, nowhere: Pool) -> None:
    evidence = make_evidence()
    found = localize(nowhere, evidence, assess(evidence, Limits()), 3)
    assert found.reason.startswith("with mixed precision off it is the same program to the bit over 20 steps")


def test_an_edit_is_told_from_precision(make_evidence: MakeEvidence, make_trace: Make, nowhere: Pool) -> None:
    off = make_trace([1.5 * loss for loss in make_trace().losses])
    evidence = make_evidence(migrated=make_trace(off.losses, scale=1024.0), migrated_off=off)
    found = localize(nowhere, evidence, assess(evidence, Limits()), 3)
    assert found.reason.startswith("the edit, not precision")


def test_a_named_suspicion_is_told_instead(make_evidence: MakeEvidence, make_trace: Make, nowhere: Pool) -> None:
    evidence = make_evidence(migrated=make_trace(scale=1024.0, norm=1024.0))
    found = localize(nowhere, evidence, assess(evidence, Limits()), 3)
    assert found.reason.startswith("not a part of a model: gradients reach the optimizer without being unscaled")


def test_a_check_that_no_part_could_change_is_told_instead(
    make_evidence: MakeEvidence, make_trace: Make, nowhere: Pool
) -> None:
    migrated = make_trace(scale=1024.0)
    inside = tuple(replace(backward, autocast=True) for backward in migrated.backwards)
    evidence = make_evidence(migrated=replace(migrated, backwards=inside))
    found = localize(nowhere, evidence, assess(evidence, Limits()), 3)
    assert found.reason.startswith("not a part of a model: regions end before backward and step")


@pytest.mark.torch
def test_the_command_ends_with_the_verdict_and_writes_what_was_asked_for(
    make_evidence: MakeEvidence, make_trace: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evidence = make_evidence(migrated=make_trace(scale=1024.0, norm=1024.0))
    monkeypatch.setattr("amp_migrate.verify.commands.localize.climb", lambda pool, timing_pairs, thorough: evidence)
    files = [str(tmp_path / name) for name in ("out.json", "out.sarif")]
    arguments = ["localize", str(RIGHT), str(RIGHT), "--json", files[0], "--sarif", files[1], "--isolate", "never"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 1
    assert "must stay in float32: not a part of a model: gradients reach the optimizer" in result.stdout
    assert json.loads(Path(files[0]).read_text())["reason"].startswith("not a part of a model")
    assert json.loads(Path(files[1]).read_text())["runs"][0]["results"] == []


PART = Part(0, "net.3", "Square", True, 20, True, False, 0.7, 0.0, 0.0, 0.0, 10, 2**21)
FOUND = Localised(
    "",
    (PART,),
    (Cost(0.25, 2**21),),
    ('keep_fp32(model, "net.3")',),
    (replace(PART, name=""), PART),
    (Model("model", "/a/new.py", 31),),
    bfloat16=True,
    probes=4,
)


@pytest.fixture
def failed(make_evidence: MakeEvidence, make_trace: Make) -> Assessment:
    return assess(make_evidence(migrated=make_trace([float("nan")] * 20, scale=1024.0)), Limits())


def test_the_text_says_what_to_write_and_where(failed: Assessment) -> None:
    lines = as_localized.text(FOUND, failed).splitlines()
    assert lines[0].startswith("FAIL: losses are finite")
    assert lines[1] == "must stay in float32: 1 of 1 parts, found in 4 runs"
    measured = "infinite or NaN in half precision, at most 0.7 in float32"
    assert lines[2] == (
        f"  model.net.3 (Square): {measured}; costs 25.0% of the matrix operations, 2.00 MiB more of results"
    )
    assert lines[4:7] == [
        "before the first call, at new.py:31:",
        "    from amp_shim.policy import keep_fp32",
        '    keep_fp32(model, "net.3")',
    ]
    assert lines[7] == "bfloat16: passes without any of it"


def test_a_gpu_adds_time_and_memory(failed: Assessment) -> None:
    timed = Cost(0.25, 2**21, Speed(0.8, None, None, 10.0, 12.5, 0.01), Memory(2**30, 2**30 + 2**23, "peak_allocated"))
    text = as_localized.text(replace(FOUND, costs=(timed,)), failed)
    assert "2.00 MiB more of results, +2.50 ms per step, +8 MiB at the peak" in text


def test_a_model_that_must_stay_as_a_whole_is_told_so(failed: Assessment) -> None:
    whole = replace(FOUND, islands=(replace(PART, name=""),), lines=())
    text = as_localized.text(whole, failed)
    assert "no part alone is enough: leave model, called at new.py:31, outside the autocast region" in text
    assert "keep_fp32" not in text


def test_a_loss_is_a_part_that_amp_migrate_can_keep(failed: Assessment) -> None:
    loss = replace(PART, name="", module_class="AreaLoss", owner="AreaLoss", learns=False)
    text = as_localized.text(replace(FOUND, islands=(loss,), parts=(*FOUND.parts, loss), lines=()), failed)
    assert "must stay in float32: 1 of 2 parts" in text
    assert "written by amp-migrate --keep-float32 AreaLoss; or by hand\nleave model, called at new.py:31," in text


def test_json_has_every_part_that_was_looked_at(failed: Assessment) -> None:
    document = json.loads(as_localized.as_json(FOUND, failed))
    assert document["schema"] == "amp-migrate/localize/1"
    assert (document["verdict"], document["exit_code"], document["bfloat16"]) == ("FAIL", 1, True)
    assert document["islands"][0]["name"] == "net.3"
    assert document["islands"][0]["cost"] == {"share": 0.25, "more_bytes": 2**21, "speed": None, "memory": None}
    assert len(document["parts"]) == 2


def test_sarif_stands_at_the_line_that_calls_the_model(make_setup: MakeSetup, tmp_path: Path) -> None:
    setup = replace(make_setup(Path("/a/old.py"), Path("/a/new.py"), tmp_path), cwd=Path("/a"))
    document = json.loads(as_localized.as_sarif(FOUND, setup))
    (result,) = document["runs"][0]["results"]
    place = result["locations"][0]["physicalLocation"]
    assert place == {
        "artifactLocation": {"uri": "new.py", "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": 31},
    }
    assert (result["ruleId"], result["level"]) == ("amp-verify-island", "warning")
    assert result["message"]["text"].startswith("model.net.3 must stay in float32: infinite or NaN")


def test_sarif_stands_at_the_original_where_the_migrated_script_is_gone(make_setup: MakeSetup, tmp_path: Path) -> None:
    setup = replace(make_setup(Path("/a/sub/old.py"), tmp_path / "migrated/new.py", tmp_path), cwd=Path("/a"))
    (result,) = json.loads(as_localized.as_sarif(FOUND, setup))["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "sub/old.py", "uriBaseId": "%SRCROOT%"}
    }


def test_there_is_nothing_to_find_where_no_part_could_help(
    make_setup: MakeSetup, make_evidence: MakeEvidence, make_trace: Make, tmp_path: Path
) -> None:
    base = make_trace()
    scripts = (tmp_path / "old.py", tmp_path / "new.py")
    pool = Pool(make_setup(*scripts, tmp_path), lambda result: None)  # no run is made

    def reason(evidence: Evidence) -> str:
        return localize(pool, evidence, assess(evidence, Limits()), 0).reason

    assert reason(make_evidence()).startswith("with mixed precision off it is the same program")
    off = make_trace([loss * 1.2 for loss in base.losses])
    assert reason(make_evidence(migrated_off=off)).startswith("the edit, not precision")
    over = make_trace([loss * 1.5 for loss in base.losses], scale=1024.0)
    over = replace(over, steps=tuple(replace(step, autocast=True) for step in over.steps))
    assert "spans optimizer.step()" in reason(make_evidence(migrated=over))
    half = make_trace([loss * 1.5 for loss in base.losses], scale=1024.0)
    half = replace(half, backwards=tuple(replace(backward, half=("NllLoss",)) for backward in half.backwards))
    assert reason(make_evidence(migrated=half)).startswith("not a part of a model: loss functions in float32: NllLoss")
    assert pool.results == {}


@pytest.mark.parametrize(("id", "looked"), [("G4", True), ("G5", True), ("S", True), ("N", True), ("G6", False)])
def test_parts_are_looked_at_where_precision_could_be_the_cause(
    make_setup: MakeSetup,
    make_evidence: MakeEvidence,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    id: str,
    looked: bool,
) -> None:
    evidence = make_evidence()
    pool = Pool(make_setup(tmp_path / "old.py", tmp_path / "new.py", tmp_path), lambda result: None)
    monkeypatch.setattr(pool, "make", lambda runs: pool.results.update(dict.fromkeys(runs, evidence.original)))
    check = Check(id, "what is asked", Status.FAIL, "what was found")
    failed = replace(assess(evidence, Limits()), verdict=Verdict.FAIL, cause="precision", checks=(check,))
    reason = localize(pool, evidence, failed, 0).reason
    assert reason.startswith("no model could be followed" if looked else "not a part of a model: what is asked: what")
    assert bool(pool.results) is looked


def test_a_pass_has_nothing_that_must_stay(make_evidence: MakeEvidence) -> None:
    passed = assess(make_evidence(), Limits())
    assert as_localized.text(Localised(passed.sentence), passed) == f"{passed.word}: {passed.sentence}\n"
