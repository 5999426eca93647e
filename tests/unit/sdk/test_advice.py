"""How many collectors, by what the learner waits and what is stale."""

from __future__ import annotations

from typing import Any

import pytest

from di_orchestrator import wanted_collectors


@pytest.mark.proves(
    "sdk.md#how-many-collectors",
    "sdk.md#reference/di-wanted-collectors-collectors-int",
    "allocation.md#what-a-job-reports/policylag-stalefrac-staledropped",
)
@pytest.mark.parametrize(
    ("collectors", "more", "wanted"),
    [
        pytest.param(4, {"waiting": 0.19}, None, id="it waits little"),
        pytest.param(4, {"waiting": 0.2}, 5, id="it waits"),
        pytest.param(4, {"waiting": 0.4}, 7, id="as many more as it would use"),
        pytest.param(4, {"waiting": 0.9}, 8, id="at most twice as many at once"),
        pytest.param(4, {"waiting": 1.0}, 8, id="it only waits"),
        pytest.param(0, {"waiting": 1.0}, 2, id="there is none yet"),
        pytest.param(4, {"waiting": 0.4, "stale": 0.03}, None, id="more would be stale"),
        pytest.param(4, {"waiting": 0.4, "stale": 0.02}, 7, id="hardly any is stale"),
        pytest.param(8, {"waiting": 0.0, "stale": 0.25}, 6, id="two bring what is thrown away"),
        pytest.param(4, {"waiting": 0.0, "stale": 0.25}, None, id="not a whole one is too many"),
        pytest.param(8, {"waiting": 0.5, "stale": 0.25}, 6, id="stale goes before waiting"),
        pytest.param(2, {"waiting": 0.0, "stale": 1.0}, 1, id="one stays"),
        pytest.param(4, {"waiting": 0.4, "most": 5}, 5, id="within the most"),
        pytest.param(4, {"waiting": 0.4, "most": 4}, None, id="at the most"),
        pytest.param(8, {"waiting": 0.0, "stale": 0.5, "least": 6}, 6, id="within the least"),
        pytest.param(2, {"waiting": 0.0, "least": 3}, 3, id="below the least"),
    ],
)
def test_the_wanted_number_of_collectors(
    collectors: int, more: dict[str, Any], wanted: int | None
) -> None:
    assert wanted_collectors(collectors, **more) == wanted


@pytest.mark.parametrize(
    ("collectors", "more"),
    [(-1, {"waiting": 0.0}), (1, {"waiting": 1.1}), (1, {"waiting": 0.0, "stale": -0.1})],
)
def test_a_share_out_of_range_is_refused(collectors: int, more: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="a count, and shares of 1"):
        wanted_collectors(collectors, **more)


@pytest.mark.parametrize("rate", [1.0, 3.0, 7.5, 40.0])
def test_repeated_advice_converges_to_a_busy_learner(rate: float) -> None:
    """A learner that uses as much as `rate` collectors bring; what is beyond becomes stale."""
    collectors = 1
    for _ in range(20):
        waiting, stale = max(1 - collectors / rate, 0.0), max(1 - rate / collectors, 0.0)
        wanted = wanted_collectors(collectors, waiting=waiting, stale=stale)
        if wanted is None:
            break
        collectors = wanted
    else:
        pytest.fail("it never comes to rest")
    assert 0.8 * rate <= collectors <= rate + 1
