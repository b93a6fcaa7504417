"""How often `--seeds` answers PASS and FAIL, by simulation: the table in docs/verdict.md.

    python benchmarks/operating_curve.py

What rounding makes of the original is normal with a standard deviation of 1; what it makes of the migrated script is
normal too, of the same spread (bfloat16) or an eighth of it (float16), and off by a shift. The rule is that of
`amp_migrate.verify.judge.statistics.convergence`, with its further looks, for one metric that gains far more than the
margin.
"""

from __future__ import annotations

import math

import numpy
from amp_migrate.verify.judge.statistics.convergence import BY_CHANCE, LEVEL, SPREADS, STRICT_SPREADS
from amp_migrate.verify.judge.statistics.interval import chi_square, half_of, quantile

TRIALS = 20_000
SHIFTS = (0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 7.0, 10.0, 15.0, 20.0, 30.0)
LOOKS = (5, 8, 10)


def answers(shift: float, spread: float, spreads: float, generator: numpy.random.Generator) -> tuple[float, float]:
    """Shares of PASS and of FAIL."""
    errors = generator.normal(size=(TRIALS, LOOKS[-1]))
    differences = spread * generator.normal(size=(TRIALS, LOOKS[-1])) + shift
    open_, passed, failed = numpy.ones(TRIALS, bool), 0, 0
    for count in LOOKS:
        seen, noise = differences[:, :count], numpy.sqrt((errors[:, :count] ** 2).mean(1))
        half = quantile(LEVEL, count - 1) * seen.std(1, ddof=1) / math.sqrt(count)
        lower, upper = (spreads * noise * math.sqrt(count / chi_square(p, count)) for p in (LEVEL, 1 - LEVEL))
        far = numpy.abs(seen.mean(1))
        beyond = numpy.maximum((seen > upper[:, None]).sum(1), (seen < -upper[:, None]).sum(1))
        fails = (far - half > upper) | (beyond >= half_of(count, BY_CHANCE))
        passes = (far + half <= lower) & ~fails
        passed += int((open_ & passes).sum())
        failed += int((open_ & fails).sum())
        open_ &= ~(passes | fails)
    return passed / TRIALS, failed / TRIALS


def main() -> None:
    """Print the table's rows."""
    generator = numpy.random.default_rng(0)
    print("| true difference | " + " | ".join(f"{shift:g}" for shift in SHIFTS) + " |")
    for spreads in (SPREADS, STRICT_SPREADS):
        for name, spread in (("bfloat16", 1.0), ("float16", 1 / 8)):
            found = [answers(shift, spread, spreads, generator) for shift in SHIFTS]
            cells = " | ".join(f"{passed:.3f} / {failed:.3f}" for passed, failed in found)
            print(f"| PASS / FAIL, {name}, margin {spreads:g} | {cells} |")


if __name__ == "__main__":
    main()
