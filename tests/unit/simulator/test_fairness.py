"""Figures of how tenants fared, from simulations that are written down by hand."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from di_simulator.fairness import jain, jain_by_round, reclaim_seconds
from di_simulator.plots import draw_queues
from di_simulator.results import JobResult, Result, Summary

SUMMARY = Summary(
    workload="w",
    policy="p",
    jobs=3,
    average=0.0,
    p50=0.0,
    p99=0.0,
    makespan=0.0,
    restarts=0.0,
    utilisation=0.0,
    decision_mean=0.0,
    decision_max=0.0,
)


def one(name: str, submitted: float) -> JobResult:
    return JobResult(
        name=name, application="x", submitted=submitted, completed=300.0, restarts=0, gpu_seconds=0
    )


RESULT = Result(
    summary=SUMMARY,
    jobs=(one("b/x", 0.0), one("a/y", 70.0), one("a/z", 190.0)),
    timeline=(
        (60.0, {"n": ("b/x", "b/x", "b/x", "b/x")}),
        (120.0, {"n": ("b/x", "b/x", "b/x", "b/x")}),
        (180.0, {"n": ("b/x", "b/x", "a/y", "a/y")}),
        (240.0, {"n": ("b/x", "a/y", "a/y", "a/z")}),
    ),
    wanted=tuple(Counter(a=most, b=8) for most in (0, 4, 4, 3)),
    nodes={"n": 4},
)


def test_jains_index_is_1_for_equal_parts_and_1_of_n_for_one_tenant() -> None:
    assert jain([3, 3, 3]) == 1
    assert jain([3, 0, 0]) == pytest.approx(1 / 3)
    assert jain([0, 0]) == 1


def test_fairness_counts_unsatisfied_tenants_by_weight() -> None:
    assert jain_by_round(RESULT, {"a": 1, "b": 1}) == [None, 0.5, 1.0, None]
    weighted = jain_by_round(RESULT, {"a": 3, "b": 1})[2]
    assert weighted == pytest.approx((2 / 3 + 2) ** 2 / (2 * (4 / 9 + 4)))


def test_the_reclaim_time_counts_jobs_below_the_guarantee() -> None:
    # The first of a waits from 70 to 180; when the second one comes a has its two.
    assert reclaim_seconds(RESULT, {"a": 2}) == [110.0]
    assert reclaim_seconds(RESULT, {"a": 3}) == [110.0, 50.0]
    assert reclaim_seconds(RESULT, {}) == []


def test_the_queues_are_drawn_as_png(tmp_path: Path) -> None:
    draw_queues({"without": RESULT, "with": RESULT}, {"a": 3, "b": 1}, tmp_path / "queues.png")
    assert (tmp_path / "queues.png").read_bytes().startswith(b"\x89PNG")
