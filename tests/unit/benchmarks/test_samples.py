"""Numbers made of many."""

from __future__ import annotations

import pytest

from tests.benchmarks import samples


@pytest.mark.parametrize(
    ("percent", "expected"), [(50, 50), (99, 99), (99.5, 100), (100, 100), (1, 1), (0, 1)]
)
def test_a_percentile_is_a_value_that_was_measured(percent: float, expected: float) -> None:
    assert samples.percentile(list(range(100, 0, -1)), percent) == expected


def test_the_99th_percentile_of_few_values_is_the_largest() -> None:
    assert samples.percentile([3.0, 1.0, 2.0], 99) == 3.0


def test_no_values_have_no_percentile() -> None:
    with pytest.raises(ValueError, match="no values"):
        samples.percentile([], 50)


def test_a_spread_is_in_milliseconds() -> None:
    assert samples.spread([0.001, 0.002, 0.0301]) == {
        "count": 3,
        "p50": 2.0,
        "p99": 30.1,
        "max": 30.1,
    }


def test_an_even_run_has_equal_rates() -> None:
    moments = [100 + number / 10 for number in range(1, 21)]
    assert samples.rates(moments, 100.0, 4) == [10.0, 10.0, 10.0, 10.0]


def test_a_run_that_slows_down_shows_it() -> None:
    assert samples.rates([1.0, 2.0, 4.0, 6.0], 0.0, 2) == [1.0, 0.5]


def test_fewer_moments_than_stretches_have_no_rates() -> None:
    assert samples.rates([1.0], 0.0, 5) == []
