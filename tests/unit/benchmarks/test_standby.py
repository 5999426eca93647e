"""What is made of the times that a world took to be full again."""

from __future__ import annotations

from tools.benchmarks.standby import result, table


def test_the_spread_of_all_kills_is_told() -> None:
    found = result(1, [2.51, 2.2, 3.04])
    assert found == {
        "standby": 1,
        "kills": 3,
        "seconds_min": 2.2,
        "seconds_median": 2.5,
        "seconds_max": 3.0,
    }
    assert table([found]).splitlines()[-1] == "| 1 | 3 | 2.2 | 2.5 | 3.0 |"
