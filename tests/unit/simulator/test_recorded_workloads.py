"""What docs/explanation/allocation.md says of `goodput` on the recorded workloads of load 1."""

from __future__ import annotations

import time
from statistics import mean

import pytest

from di_simulator.application import load_applications
from di_simulator.main import RECORDED
from di_simulator.results import Summary
from di_simulator.simulation import Setting, run
from tools.benchmarks.allocator.jct import PUBLISHED

pytestmark = pytest.mark.extended

POLLUX = mean(PUBLISHED.values())


def summaries(*, known: bool) -> list[Summary]:
    applications = load_applications(RECORDED / "traces")
    return [
        run(
            Setting(workload=path, policy="goodput", remaining_known=known),
            applications,
            stopwatch=time.process_time,
        ).summary
        for path in sorted((RECORDED / "workloads").glob("*.csv"))
    ]


@pytest.fixture(scope="module")
def unknown() -> list[Summary]:
    return summaries(known=False)


@pytest.fixture(scope="module")
def known() -> list[Summary]:
    return summaries(known=True)


def test_jobs_complete_sooner_than_under_pollux(
    unknown: list[Summary], known: list[Summary]
) -> None:
    assert mean(each.average for each in unknown) <= 0.94 * POLLUX
    assert mean(each.average for each in known) <= 0.90 * POLLUX


def test_known_remaining_work_shortens_the_longest_completions(
    unknown: list[Summary], known: list[Summary]
) -> None:
    assert mean(each.p99 for each in known) <= 0.90 * mean(each.p99 for each in unknown)
    assert mean(each.makespan for each in known) <= 1.02 * mean(each.makespan for each in unknown)
