from __future__ import annotations

import math

import pytest
from amp_migrate.verify.judge.statistics.interval import chi_square, half_interval, half_of, quantile


def test_the_interval_is_that_of_student() -> None:
    # 4.3027 is the 97.5 % quantile of Student's t with two degrees of freedom, 2.9200 the 95 % quantile.
    assert half_interval([1.0, 2.0, 3.0]) == pytest.approx(4.3027 / math.sqrt(3), rel=1e-4)
    assert half_interval([1.0, 2.0, 3.0], 0.95) == pytest.approx(2.9200 / math.sqrt(3), rel=1e-4)
    assert half_interval([1.0, 3.0]) == pytest.approx(12.7062, rel=1e-4)
    assert half_interval([5.0, 5.0]) == 0.0


@pytest.mark.parametrize("values", [[], [1.0]])
def test_fewer_than_two_values_say_nothing(values: list[float]) -> None:
    assert half_interval(values) == math.inf


@pytest.mark.parametrize(
    ("level", "degrees", "expected"),
    # NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2.
    [
        (0.90, 1, 3.078),
        (0.999, 1, 318.313),
        (0.99, 4, 3.747),
        (0.975, 7, 2.365),
        (0.95, 30, 1.697),
        (0.999, 100, 3.174),
    ],
)
def test_quantiles_are_those_of_the_tables(level: float, degrees: int, expected: float) -> None:
    assert quantile(level, degrees) == pytest.approx(expected, rel=2e-4)


@pytest.mark.parametrize(
    ("level", "degrees", "value"),
    [(0.95, 1, 3.841459), (0.05, 5, 1.145476), (0.95, 5, 11.070498), (0.983, 10, 21.648309), (0.5, 100, 99.334129)],
)
def test_quantiles_of_chi_square_are_those_of_the_tables(level: float, degrees: int, value: float) -> None:
    assert chi_square(level, degrees) == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize(("count", "needed"), [(0, 1), (3, 4), (4, 5), (5, 5), (8, 8), (10, 9), (16, 13)])
def test_so_many_on_one_side_of_the_median_are_no_chance(count: int, needed: int) -> None:
    assert half_of(count, 1 / 32) == needed
