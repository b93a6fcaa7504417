"""The verdict and its numbers as JSON, for CI. Every field is measured; what was not measured is null."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable
from typing import Any

from amp_migrate.report.plain import encodable
from amp_migrate.verify.judge.statistics import early
from amp_migrate.verify.judge.statistics.convergence import Convergence
from amp_migrate.verify.judge.statistics.early import NormRatio
from amp_migrate.verify.judge.statistics.speed import Memory, Speed
from amp_migrate.verify.recorded.recording import Range
from amp_migrate.verify.reports.outcome import Outcome
from amp_migrate.verify.runs.setup import Setup

SCHEMA = "amp-migrate/verify/1"


def render(outcome: Outcome) -> str:
    """The JSON text. A number that JSON cannot write (an infinite S, a NaN loss) is a string."""
    return json.dumps(_plain(_document(outcome)), indent=2, ensure_ascii=False) + "\n"


def _document(outcome: Outcome) -> dict[str, Any]:
    evidence, assessment = outcome.evidence, outcome.assessment
    windows = evidence.windows
    return {
        "schema": SCHEMA,
        "date": outcome.date or None,
        "command": outcome.command or None,
        "verdict": assessment.verdict.name,
        "exit_code": assessment.verdict.value,
        "confidence": "converged" if assessment.convergence else "early",
        "sentence": assessment.sentence,
        "suspicion": assessment.suspicion,
        "cause": assessment.cause,
        "advice": assessment.advice,
        "power": list(assessment.power),
        "checks": [vars(check) for check in assessment.checks],
        "early": {
            "S": early.in_noise(windows[0], evidence.noise) if windows else None,
            "further_S": [early.in_noise(window, evidence.noise) for window in windows[1:]],
            "bound": early.FLOOR_FACTOR,
            "noise": list(evidence.noise),
            "differences": list(windows[0].differences) if windows else [],
            "norm_bound_log": evidence.norm_bound,
            "norms": [_norms(ratio) for ratio in evidence.norm_ratios],
        },
        "convergence": [_convergence(one) for one in assessment.convergence],
        "speed": _speed(assessment.speed),
        "tf32": dict(zip(("on", "off"), map(_speed, assessment.tf32), strict=False)) or None,
        "memory": _memory(assessment.memory),
        "events": {
            "skips": list(evidence.migrated.trace.skips),
            "scales": [scale.value for scale in evidence.migrated.trace.scales],
        },
        "losses": {
            "original": list(evidence.original.trace.losses),
            "migrated": list(evidence.migrated.trace.losses),
        },
        "census": [
            {"operation": row.operation, "original": dict(row.original), "migrated": dict(row.migrated)}
            for row in outcome.census
        ],
        "ranges": ranges(evidence.ranges, outcome.setup),
        "environment": dict(outcome.environment),
        "runs": [
            {
                "name": result.run.name,
                "arm": result.run.arm.value,
                "seed_index": result.run.seed_index,
                "command": list(result.command),
                "returncode": result.returncode,
                "stopped": result.trace.stopped,
                "seconds": round(result.seconds, 3),
                "folder": str(result.folder),
            }
            for result in evidence.all
        ],
        "not_checked": list(assessment.not_checked),
    }


def ranges(found: Iterable[Range], setup: Setup) -> list[dict[str, Any]]:
    """The ranges of what a script computes in float32, for `amp-migrate --profile`; files as seen from `cwd`."""
    return [{**vars(each), "file": os.path.relpath(each.file, setup.cwd)} for each in found]


def _convergence(one: Convergence) -> dict[str, Any]:
    metric = {"metric": one.metric.name, "higher_is_better": one.metric.higher_is_better}
    return {**vars(one), **metric, "status": one.status.value}


def _norms(ratio: NormRatio) -> dict[str, Any]:
    return {
        "step": ratio.index,
        "gradient": ratio.gradient,
        "before_clipping": ratio.clipped,
        "update": ratio.update,
    }


def _speed(speed: Speed | None) -> dict[str, Any] | None:
    return None if speed is None else {**vars(speed), "noisy": speed.noisy}


def _memory(memory: Memory | None) -> dict[str, Any] | None:
    return None if memory is None else {**vars(memory), "ratio": memory.ratio}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
