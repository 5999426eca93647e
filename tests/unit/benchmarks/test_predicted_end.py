"""The replay that scores `status.expectedCompletion`, on one recorded workload."""

from __future__ import annotations

import pytest

from di_simulator.application import load_applications
from di_simulator.main import RECORDED
from tools.benchmarks.allocator.predicted_end import RESIZABLE, replay


@pytest.mark.extended
def test_four_of_five_predicted_ends_hold_on_an_unseen_workload() -> None:
    applications = load_applications(RECORDED / "traces")
    score, read = replay(RESIZABLE, "workloads-0.5/workload-1", applications)
    assert score.readings == len(read) > 1000
    # Nothing is random in it.
    assert 0.75 <= score.by_reading <= 0.85
