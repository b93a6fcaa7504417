"""What must stay in float32, for a person, as JSON, and as SARIF beside the line that calls the model."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

from amp_migrate.report.finding import Finding, Kind
from amp_migrate.report.forms import sarif
from amp_migrate.report.report import Report
from amp_migrate.verify.experiments import islands
from amp_migrate.verify.experiments.attempts import classes
from amp_migrate.verify.experiments.float32_parts import Cost, Localised
from amp_migrate.verify.judge.verdict import Assessment, Verdict
from amp_migrate.verify.recorded.recording import Model
from amp_migrate.verify.recorder.part import Part
from amp_migrate.verify.runs.kinds import Arm
from amp_migrate.verify.runs.setup import Setup

SCHEMA = "amp-migrate/localize/1"
CODE = "amp-verify-island"
IMPORT = "from amp_shim.policy import keep_fp32"


def text(found: Localised, assessment: Assessment) -> str:
    """The verdict and the parts, a line each."""
    return "".join(f"{line}\n" for line in _lines(found, assessment))


def _lines(found: Localised, assessment: Assessment) -> Iterator[str]:
    yield f"{assessment.word}: {assessment.sentence}"
    if found.reason:
        if assessment.verdict is Verdict.FAIL:
            yield f"must stay in float32: {found.reason}"
    else:
        parts = sum(1 for part in found.parts if not part.is_model)
        yield f"must stay in float32: {len(found.islands)} of {parts} parts, found in {found.probes} runs"
        for part, cost in zip(found.islands, found.costs, strict=True):
            yield f"  {_name(found, part)} ({part.module_class}): {islands.evidence(part)}; costs {_cost(cost)}"
        yield ""
        yield from _advice(found)
    if found.bfloat16 is not None:
        yield "bfloat16: passes without any of it" if found.bfloat16 else "bfloat16: does not help"


def _advice(found: Localised) -> Iterator[str]:
    if kept := classes(found.islands, found.parts):
        yield f"written by amp-migrate {' '.join(f'--keep-float32 {name}' for name in kept)}; or by hand"
    whole = [found.models[part.model] for part in found.islands if not part.name]
    if whole:
        alone = "no part alone is enough: " if any(part.is_model for part in found.islands) else ""
        names = " and ".join(model.variable for model in whole)
        yield f"{alone}leave {names}, called at {_places(whole)}, outside the autocast region"
    if found.lines:
        models = [found.models[ordinal] for ordinal in sorted({part.model for part in found.islands if part.name})]
        yield f"before the first call, at {_places(models)}:"
        yield f"    {IMPORT}"
        yield from (f"    {line}" for line in found.lines)


def _places(models: Iterable[Model]) -> str:
    return " and ".join(f"{os.path.basename(model.path)}:{model.line}" for model in models)


def _name(found: Localised, part: Part) -> str:
    variable = found.models[part.model].variable
    return f"{variable}.{part.name}" if part.name else variable


def _cost(cost: Cost) -> str:
    words = [f"{cost.share:.1%} of the matrix operations", f"{cost.more_bytes / 2**20:.2f} MiB more of results"]
    if cost.speed is not None:
        words.append(f"{cost.speed.migrated_ms - cost.speed.original_ms:+.2f} ms per step")
    if cost.memory is not None:
        words.append(f"{(cost.memory.migrated - cost.memory.original) / 2**20:+.0f} MiB at the peak")
    return ", ".join(words)


def as_json(found: Localised, assessment: Assessment) -> str:
    """All that was measured. `null` is what was not."""
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "verdict": assessment.verdict.name,
        "exit_code": assessment.verdict.value,
        "sentence": assessment.sentence,
        "reason": found.reason,
        "islands": [
            {**asdict(part), "cost": asdict(cost)} for part, cost in zip(found.islands, found.costs, strict=True)
        ],
        "lines": list(found.lines),
        "bfloat16": found.bfloat16,
        "probes": found.probes,
        "models": [asdict(model) for model in found.models],
        "parts": [asdict(part) for part in found.parts],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def as_sarif(found: Localised, setup: Setup) -> str:
    """A result for each island, at the line that calls its model; at the script where only its migration has one."""
    return sarif.render(Report(tuple(_finding(found, part, setup) for part in found.islands), 1, (), written=False))


def _finding(found: Localised, part: Part, setup: Setup) -> Finding:
    model = found.models[part.model]
    path, line = model.path, model.line
    if setup.made_here:
        path, line = str(setup.scripts[Arm.ORIGINAL].file), 0
    relative = os.path.relpath(path, setup.cwd)
    return Finding(
        path=path if relative.startswith(os.pardir) else relative.replace(os.sep, "/"),
        line=line,
        column=0,
        code=CODE,
        kind=Kind.HAZARD,
        message=f"{_name(found, part)} must stay in float32: {islands.evidence(part)}",
        hint="; ".join(found.lines) if part.name else "Leave the model outside the autocast region",
    )
