"""What is counted of mutants in scripts of the field, and the right variants beside them."""

from __future__ import annotations

import ast
import json
import runpy
from pathlib import Path
from typing import Any

import pytest
from fault_table import page
from faults.operators import mutants
from faults.rights import rights
from field_faults import Case, gathered, section, sentence

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks/results"
MIGRATED = """
import torch

model, criterion = Net().cuda(), torch.nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda")
for images, labels in loader:
    optimizer.zero_grad()
    with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        outputs = model(images)
        loss = criterion(outputs, labels)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
with torch.no_grad():
    for images, labels in loader:
        with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
            outputs = model(images)
        print(outputs.argmax(1))
"""
FULL = (
    MIGRATED.replace('scaler = torch.amp.GradScaler("cuda")\n', "")
    .replace("scaler.scale(loss).backward()", "loss.backward()")
    .replace("    scaler.step(optimizer)\n    scaler.update()\n", "    optimizer.step()\n")
    .replace("float16", "bfloat16")
)


def measured(name: str) -> Any:
    return json.loads((RESULTS / name).read_text(encoding="utf-8"))


def case(outcome: str, kind: str = "precision", line: int = 1, **more: Any) -> Case:
    named = {"script": "a+b/train.py", "arguments": "", "dtype": "fp16", "kind": kind, "operator": "region lost"}
    runs = {"verdict": "PASS", "check": "", "runs": "all", "steps": 30, "parameters": 100, "seconds": 1.0}
    return {
        **named,
        "line": line,
        "number": 0,
        "outcome": outcome,
        "said": ["evaluation: not looked at"],
        **runs,
        **more,
    }


def test_the_page_is_made_of_the_latest_measurements() -> None:
    made = page(measured("fault_detection.json")["cases"], measured("field_faults.json"), measured("field_times.json"))
    assert (ROOT / "docs/fault-detection.md").read_text(encoding="utf-8") == made, "run benchmarks/fault_table.py"


def test_the_readme_has_the_figures_with_what_was_missed() -> None:
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert sentence(measured("field_faults.json")) in readme


def test_enough_was_measured_in_enough_scripts() -> None:
    cases = measured("field_faults.json")
    right = [each for each in cases if each["kind"] in ("", "right")]
    assert len({each["script"] for each in cases}) >= 40
    assert len(right) >= 100
    assert len(cases) - len(right) >= 300
    assert [each for each in cases if each["outcome"] == "missed" and "words" not in each] == []


@pytest.mark.parametrize(("text", "least"), [(MIGRATED, 13), (FULL, 7)])
def test_right_variants_are_other_programs_of_the_same_meaning(text: str, least: int) -> None:
    found = list(rights(text))
    assert len({each.text for each in found}) == len(found) >= least
    for each in found:
        calls = [node for node in ast.walk(ast.parse(each.text)) if isinstance(node, ast.Call)]
        names = [ast.unparse(call.func).rpartition(".")[2] for call in calls]
        assert each.text != text
        assert names.count("backward") == 1
        assert names.count("step") == 1
        assert names.count("zero_grad") == 1


def test_mutants_keep_to_the_lines_that_a_run_reaches() -> None:
    lines = frozenset({7})
    found = [each for each in mutants(MIGRATED, lines, 30) if each.kind in ("statement lost", "number changed")]
    assert not found
    everywhere = frozenset(range(1, 40))
    assert {each.kind for each in mutants(MIGRATED, everywhere, 30)} >= {"statement lost", "late", "precision"}


def test_the_newest_of_a_case_counts_and_a_review_only_where_it_was_missed() -> None:
    old, new = case("missed"), case("found")
    review = {**old, "words": "one region less"}
    assert [each["outcome"] for each in gathered([("a", [old]), ("b", [new])], [review])] == ["found"]
    assert [each["commit"] for each in gathered([("a", [old]), ("b", [new])], [])] == ["b"]
    assert gathered([("a", [old])], [review])[0]["words"] == "one region less"
    lines = list(section(gathered([("a", [old, case("found", line=2)]), ("b", [new])], [])))
    assert lines[1].startswith("- of the other 2, 2 found (100.0%)")
    assert lines[3].startswith("- this is after mending: before, 1 were passed")


def test_declared_is_only_what_the_very_verdict_says() -> None:
    review = {**case("missed"), "words": "evaluates another model", "declared": "evaluation"}
    found = gathered([("a", [case("missed")])], [review])[0]
    assert (found["outcome"], found["line_of_the_verdict"]) == ("declared", "evaluation: not looked at")
    with pytest.raises(ValueError, match="no line that begins with: speed"):
        gathered([("a", [case("missed")])], [{**review, "declared": "speed"}])


def test_no_effect_is_no_part_of_what_was_to_be_found() -> None:
    cases = [case("found"), case("missed", line=2), case("no effect", line=3), case("right", kind="")]
    cases += [case("found", kind="late", line=4, operator="learning rate 10 % higher after 40%")]
    cases += [case("missed", kind="number changed", line=5, operator="float off by 10.0%")]
    sized = list(section(cases))
    assert "| 10 % | 2 | 0 | 1 | 0 | 1 |" in sized
    lines = list(section(cases[:4]))
    assert not any("off by" in line for line in lines)
    assert lines[0] == "- 3 mutants of 1 scripts; 1 of them change nothing in any run"
    assert lines[1] == "- of the other 2, 1 found (50.0%), 0 declared as not looked at, 1 missed"
    assert "| precision | 3 | 1 | 1 | 0 | 1 |" in lines
    assert "- region lost in `a+b/train.py` (fp16, line 2): not looked into" in lines


def test_every_script_of_the_field_is_named_once_with_its_words() -> None:
    scripts = runpy.run_path(str(ROOT / "benchmarks/faults/field_scripts.py"))["SCRIPTS"]
    assert len({(each.name, each.arguments) for each in scripts}) == len(scripts)
