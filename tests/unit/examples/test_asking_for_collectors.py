"""When the learner asks for collectors, and when it gives them back."""

from __future__ import annotations

import pytest
from di_cartpole.scaling import (
    EXTRA,
    NEARLY_SOLVED,
    WAITING,
    WARM_UP_GENERATIONS,
    Progress,
    wanted_change,
)


def progress(
    *,
    generation: int = WARM_UP_GENERATIONS,
    wait_fraction: float = WAITING,
    mean_return: float = 50.0,
    extra: int = 0,
) -> Progress:
    """A learner that waits too much and has measured for long enough."""
    return Progress(
        generation=generation, wait_fraction=wait_fraction, mean_return=mean_return, extra=extra
    )


@pytest.mark.parametrize(
    ("seen", "change"),
    [
        pytest.param(progress(), EXTRA, id="a learner that waits asks for more"),
        pytest.param(progress(generation=WARM_UP_GENERATIONS - 1), 0, id="not while warming up"),
        pytest.param(progress(wait_fraction=WAITING - 0.01), 0, id="not while it waits little"),
        pytest.param(progress(mean_return=NEARLY_SOLVED), 0, id="not when training nearly ends"),
        pytest.param(progress(extra=EXTRA), 0, id="not twice"),
        pytest.param(
            progress(extra=EXTRA, mean_return=NEARLY_SOLVED), -EXTRA, id="all are given back"
        ),
        pytest.param(
            progress(extra=EXTRA, mean_return=NEARLY_SOLVED, wait_fraction=1.0, generation=0),
            -EXTRA,
            id="given back even if it waits",
        ),
        pytest.param(
            progress(extra=EXTRA, mean_return=NEARLY_SOLVED - 1), 0, id="kept while needed"
        ),
    ],
)
def test_wanted_change(seen: Progress, change: int) -> None:
    assert wanted_change(seen) == change
