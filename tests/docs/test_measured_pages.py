"""The published figures are those that were measured, and what measures them can fail."""

from __future__ import annotations

import json
import os
import random
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"
STEP = """
import torch

model = torch.nn.Linear(2, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
"""


def measured(name: str) -> Any:
    return json.loads((BENCHMARKS / "results" / name).read_text(encoding="utf-8"))


def test_the_tables_of_speed_are_made_of_the_latest_measurement() -> None:
    made = runpy.run_path(str(BENCHMARKS / "codemod_table.py"))["generated"](measured("codemod.json"))
    for path, text in made.items():
        assert path.read_text(encoding="utf-8") == text, "run benchmarks/codemod_table.py"


def test_the_page_of_real_code_is_made_of_the_latest_runs() -> None:
    made = runpy.run_path(str(BENCHMARKS / "field_table.py"))["page"](measured("field.json")["runs"])
    assert (ROOT / "docs/field-results.md").read_text(encoding="utf-8") == made, "run benchmarks/field_table.py"


def test_the_page_of_real_apex_scripts_is_made_of_the_latest_runs() -> None:
    made = runpy.run_path(str(BENCHMARKS / "apex_field.py"))["page"](measured("apex_field.json")["runs"])
    assert (ROOT / "docs/apex-field.md").read_text(encoding="utf-8") == made, "run benchmarks/apex_field.py"


def test_the_page_of_the_shim_is_made_of_the_latest_measurements() -> None:
    results = (measured(name) for name in ("shim-field.json", "apex-reference-cpu.json", "shim-host.json"))
    made = runpy.run_path(str(BENCHMARKS / "shim_table.py"))["page"](*results)
    assert (ROOT / "docs/shim-field.md").read_text(encoding="utf-8") == made, "run benchmarks/shim_table.py"


def test_the_page_of_mutants_is_made_of_the_latest_measurement() -> None:
    results = (measured(name) for name in ("mutants.json", "proved.json"))
    made = runpy.run_path(str(BENCHMARKS / "mutate_results.py"))["page"](*results)
    assert (ROOT / "docs/mutants.md").read_text(encoding="utf-8") == made, "run benchmarks/mutate_results.py --table"


def test_what_the_proof_catches_and_lets_through_is_measured_widely_enough() -> None:
    operators = runpy.run_path(str(BENCHMARKS / "mutate_results.py"))["OPERATORS"]
    mutants, proved = measured("mutants.json"), measured("proved.json")
    caught = [each["caught"] for each in mutants["mutants"] if operators[each["operator"]][1]]
    assert mutants["results"] >= 200
    assert len(caught) >= 2000
    assert sum(caught) >= 0.99 * len(caught)
    assert len(proved["fp16"]["repositories"]) >= 60
    assert [each for row in proved.values() for each in row["changed again"]] == []


def test_files_that_were_proved_and_refused_are_counted(tmp_path: Path) -> None:
    kept = tmp_path / "repository/fp16"
    (kept / "written/inner").mkdir(parents=True)
    (kept / "written/train.py").touch()
    (kept / "written/inner/engine.py").touch()
    said = {
        "a.py": ["3:0: AMP002 error: internal: the result is another program: `x` stands where `y` does [please]"],
        "b.py": ["1:1: AMP290 note: kept on amp_shim instead of native AMP: internal: in the result, x [please]"],
        "c.py": ["0:0: AMP002 error: file left as it was, because a.py is and the two belong together"],
        "d.py": ["1:1: AMP290 note: kept on amp_shim instead of native AMP: it has two losses"],
    }
    (kept / "said.json").write_text(json.dumps(said), encoding="utf-8")
    (kept / "again.json").write_text('["train.py"]', encoding="utf-8")
    made = runpy.run_path(str(BENCHMARKS / "proved_results.py"))
    found = made["gather"]([tmp_path])
    assert found["fp16"] == {
        "repositories": ["repository"],
        "written": 2,
        "refused": {"the result is another program: ... stands where ... does": 1, "in the result, x": 1},
        "run again": 1,
        "changed again": ["repository/train.py"],
    }
    assert "| fp16 | 1 | 2 | 2 | 1 | 1 |" in made["section"](found)


def test_every_operator_makes_mutants_of_a_script_that_parse() -> None:
    made = runpy.run_path(str(BENCHMARKS / "mutate_results.py"))
    text = (ROOT / "fixtures/fp32_char_transformer/expected/fp16/train.py").read_text(encoding="utf-8")
    found = list(made["mutants"](text, 200, random.Random(0)))
    assert {"drop a statement", "drop `update()`", "do not scale the loss"} <= {operator for operator, _, _ in found}
    for _, _, mutant in found:
        assert mutant != text
        compile(mutant, "", "exec")


@pytest.mark.torch
def test_the_page_of_random_programs_is_made_of_the_latest_run() -> None:
    made = runpy.run_path(str(BENCHMARKS / "fuzz_programs.py"))["page"](measured("random_programs.json"))
    assert (ROOT / "docs/random-programs.md").read_text(encoding="utf-8") == made, "run benchmarks/fuzz_programs.py"


def test_the_shim_did_what_apex_did() -> None:
    found = measured("apex-reference-cpu.json")["comparisons"]
    assert {each["level"] for each in found} == {"O0", "O1", "O2", "O3"}
    assert all(each["same_scales"] and each["same_skips"] for each in found)
    assert all(each["loss_difference"] == 0 for each in found if each["level"] != "O1")
    assert any(each["skipped"] for each in found)


def test_the_page_of_verified_examples_is_made_of_the_latest_runs() -> None:
    made = runpy.run_path(str(BENCHMARKS / "examples_table.py"))["page"](measured("verify_examples.json"))
    assert (ROOT / "docs/examples-verified.md").read_text(encoding="utf-8") == made, "run benchmarks/examples_table.py"


def test_no_example_is_judged_to_train_otherwise() -> None:
    found = measured("verify_examples.json")["verified"]
    assert len({each["script"] for each in found}) >= 10
    blamed = [each["script"] for each in found if each["verdict"] in ("", "FAIL", "MIGRATED_FAILED")]
    assert blamed == []


@pytest.mark.slow
def test_an_example_is_verified_with_its_data_and_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    names = runpy.run_path(str(BENCHMARKS / "verify_examples.py"))
    text = (ROOT / "tests/verify/scripts/fp32.py").read_text(encoding="utf-8")
    (tmp_path / "net").mkdir()
    (tmp_path / "net/main.py").write_text(f"open('data.txt')\n{text}", encoding="utf-8")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    example = names["Example"]("net/main.py", "--steps 8", prepare=lambda folder: (folder / "data.txt").touch())
    found = names["verified"](tmp_path, example, "bf16", "cpu", scratch)
    assert (found.verdict, found.dtype, found.arguments) == ("PASS", "bf16", "--steps 8")
    missing = names["verified"](tmp_path, names["Example"]("net/other.py"), "fp16", "cpu", scratch)
    assert missing.verdict == ""
    assert "other.py" in missing.sentence


APEX_STEP = """
from apex import amp
def train(model, optimizer, x):
    with amp.scale_loss(model(x).mean(), optimizer) as scaled:
        scaled.backward()
"""


def test_steps_of_apex_are_counted_by_function(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(APEX_STEP + APEX_STEP.replace("train", "again"))
    (tmp_path / "other.py").write_text(APEX_STEP.replace("apex", "mxnet"))
    (tmp_path / "wrapped.py").write_text(
        "from apex import FP16_Optimizer\nFP16_Optimizer(a)\noptimizer.backward(loss)\n"
    )
    found = list(runpy.run_path(str(BENCHMARKS / "apex_field.py"))["steps"](tmp_path))
    assert sorted(found) == [("train.py", ".again"), ("train.py", ".train"), ("wrapped.py", "")]


def test_imports_of_what_apex_has_deleted_are_counted(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import apex, apex as a, torch\nfrom apex import amp, optimizers\nfrom apex.parallel import *\n"
        "from .apex import amp\napex.amp.init()\na.RNN.LSTM(1, 1)\napex.normalization.FusedLayerNorm(1)\n"
    )
    (tmp_path / "gone.py").write_text("from amp_shim import amp\nimport apex.contrib\n")
    found = list(runpy.run_path(str(BENCHMARKS / "apex_field.py"))["dead_imports"](tmp_path))
    assert sorted(found) == [
        "train.py:1 apex.RNN",
        "train.py:1 apex.amp",
        "train.py:2 apex.amp",
        "train.py:3 apex.parallel",
    ]


def test_nothing_wrong_was_written_on_real_code() -> None:
    runs = measured("field.json")["runs"]
    assert len({run["repository"] for run in runs}) >= 15
    assert [run["repository"] for run in runs if run["broken"] or run["unstable"]] == []
    # In another dtype, files may be refused because a second run would change them; they stay as they were.
    assert [run["repository"] for run in runs if run["dtype"] == "fp16" and run["crashes"]] == []


PROGRAM = """
import runpy, sys
sys.argv = {arguments!r}
{code}
runpy.run_path({arguments[0]!r}, run_name="__main__")
"""


def field(folder: Path, output: Path, code: str = "") -> tuple[int, Any]:
    """Run field.py on a folder, after some code."""
    arguments = [str(BENCHMARKS / "field.py"), str(folder), "--dtype", "fp16", "--output", str(output)]
    command = [sys.executable, "-c", PROGRAM.format(arguments=arguments, code=code)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert output.exists(), done.stderr
    (run,) = json.loads(output.read_text(encoding="utf-8"))["runs"]
    return done.returncode, run


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "train.py").write_text(STEP)
    (folder / "left.py").write_text(STEP.replace("loss.backward()", "print(loss.backward())"))
    return folder


def test_real_code_is_migrated_on_a_copy_and_counted_twice(repository: Path, tmp_path: Path) -> None:
    code, run = field(repository, tmp_path / "out.json")
    assert (code, run["files"], run["changed"], run["plain"], run["scaled"]) == (0, 2, 1, 2, 1)
    assert run["codes"]["AMP501 migrated"] == 1
    assert sum(run["reasons"].values()) == 1
    assert (run["crashes"], run["broken"], run["unstable"]) == ([], [], [])
    assert (repository / "train.py").read_text() == STEP


BREAK = """
import subprocess
original = subprocess.run
def run(command, **options):
    done = original(command, **options)
    if "--check" not in command and "--format" in command:
        from pathlib import Path
        path = Path(command[-1]) / "train.py"
        path.write_text({text!r})
    return done
subprocess.run = run
"""


@pytest.mark.parametrize(("text", "fault"), [("def (\n", "broken"), (STEP, "unstable")])
def test_a_wrong_result_is_a_fault(repository: Path, tmp_path: Path, text: str, fault: str) -> None:
    code, run = field(repository, tmp_path / "out.json", BREAK.format(text=text))
    assert (code, run[fault]) == (1, ["train.py"])
