"""How often `--seeds` answers PASS and FAIL, by simulation: the table in docs/verdict.md.

    python benchmarks/operating_curve.py

Values of the original are normal with a standard deviation of 1 between seeds; the migrated script's correlate with
them and are worse by a shift. The rule is that of `amp_migrate.verify.convergence`, with its further looks.
"""

from __future__ import annotations

import math

import numpy
from amp_migrate.verify.judge.convergence import EXTRA_SEEDS, LEVEL, SPREADS
from amp_migrate.verify.judge.interval import quantile

TRIALS = 20_000
CORRELATION = 0.9
SHIFTS = (0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0)
LOOKS = (5, 8, 10)


def answers(shift: float, generator: numpy.random.Generator) -> tuple[float, float]:
    """Shares of PASS and of FAIL."""
    original = generator.normal(size=(TRIALS, LOOKS[-1] + EXTRA_SEEDS))
    own = math.sqrt(1 - CORRELATION**2) * generator.normal(size=(TRIALS, LOOKS[-1]))
    differences = CORRELATION * original[:, : LOOKS[-1]] + own + shift - original[:, : LOOKS[-1]]
    extra = original[:, LOOKS[-1] :]
    open_, passed, failed = numpy.ones(TRIALS, bool), 0, 0
    for count in LOOKS:
        seen = differences[:, :count]
        half = quantile(LEVEL, count - 1) * seen.std(1, ddof=1) / math.sqrt(count)
        margin = SPREADS * numpy.concatenate([original[:, :count], extra], axis=1).std(1, ddof=1)
        passes, fails = seen.mean(1) + half < margin, seen.mean(1) - half > margin
        passed += int((open_ & passes).sum())
        failed += int((open_ & fails).sum())
        open_ &= ~(passes | fails)
    return passed / TRIALS, failed / TRIALS


def main() -> None:
    """Print the table's two rows."""
    generator = numpy.random.default_rng(0)
    found = [answers(shift, generator) for shift in SHIFTS]
    print("| true difference | " + " | ".join(f"{shift:g}" for shift in SHIFTS) + " |")
    print("| PASS / FAIL | " + " | ".join(f"{passed:.3f} / {failed:.3f}" for passed, failed in found) + " |")


if __name__ == "__main__":
    main()
