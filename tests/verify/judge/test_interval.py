from __future__ import annotations

import math

import pytest
from amp_migrate.verify.judge.interval import half_interval


def test_the_interval_is_that_of_student() -> None:
    # 4.3027 is the 97.5 % quantile of Student's t with two degrees of freedom, 2.9200 the 95 % quantile.
    assert half_interval([1.0, 2.0, 3.0]) == pytest.approx(4.3027 / math.sqrt(3), rel=1e-4)
    assert half_interval([1.0, 2.0, 3.0], 0.95) == pytest.approx(2.9200 / math.sqrt(3), rel=1e-4)
    assert half_interval([1.0, 3.0]) == pytest.approx(12.7062, rel=1e-4)
    assert half_interval([5.0, 5.0]) == 0.0


@pytest.mark.parametrize("values", [[], [1.0]])
def test_fewer_than_two_values_say_nothing(values: list[float]) -> None:
    assert half_interval(values) == math.inf
