"""Lines and tables from results."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from tools.benchmarks import page, plots, report, throughput
from tools.benchmarks.report import Target
from tools.benchmarks.testbed import CEILING, OPERATOR
from tools.benchmarks.throughput import Run

MANY = {"count": 4, "p50": 10.0, "p99": 20.0, "max": 30.0}


def run(candidate: str, rate: float, **changes: Any) -> Run:
    """A run of which only some numbers matter."""
    values: dict[str, Any] = {
        "candidate": candidate,
        "workload": "200 x 4",
        "jobs": 200,
        "pods": 800,
        "seconds": 200 / rate,
        "jobs_per_second": rate,
        "pods_per_second": 4 * rate,
        "writes": {"POST pods": 4.0, "PATCH dijobs/status": 3.0},
        "writes_per_job": 9.4,
        "all_writes": {},
        "cpu_ms_per_job": {"candidate": 4.0, "kube-apiserver": 30.0, "etcd": 6.0},
        "strangers": 0.01,
        "peak_memory_mib": 70.0,
        "memory_mib": [60.0, 70.0],
        "rates": [rate, rate],
        "running_seen": 200,
        "last_job_has_its_pods": 2.0,
        "create_to_pods_ms": MANY,
        "ready_to_running_ms": MANY,
        "load_average": 0.5,
    }
    return Run(**{**values, **changes})


def results(**changes: Any) -> dict[str, Any]:
    """What a whole run keeps."""
    runs = [dataclasses.asdict(run(OPERATOR, 27.0)), dataclasses.asdict(run(CEILING, 30.0))]
    compared = {"runs": runs, "shares": [0.9]}
    alone = {
        "jobs": 4,
        "running_seen": 4,
        "create_to_pods_ms": MANY,
        "ready_to_running_ms": MANY,
        "writes": {},
        "writes_per_job": 12.0,
    }
    return {
        "machine": {"processors": 2, "memory_gib": 24, "python": "3.11.7", "kernel": "6.1"},
        "node": {"pods_per_second": 700.0, "cpu_ms_per_pod": 0.5},
        "jobs_of_4": compared,
        "jobs_of_64": compared,
        "job_of_1000": compared,
        "latency": {
            "ceiling_alone": alone,
            "alone": alone,
            "rate": 15.0,
            "among_others": alone,
            "beside_large": {"replicas": 1000, "small": alone},
            "ceiling_beside_large": {"replicas": 1000, "small": alone},
        },
        "tenants": {"backlog": 10_000, "small": alone},
        "many_jobs": {
            **compared,
            "idle": {"peak_memory_mib": 150.0, "calls_per_second": 0.6, "cpu_share": 0.012},
        },
        "admission": {"latency_ms": MANY},
        "rest_scaling": {
            "acknowledged_ms": MANY,
            "pods_there_ms": MANY,
            "server_memory_mib": 100.0,
        },
        "coordinators": {
            "rate": 500,
            "list_ms": MANY,
            "create_ms": MANY,
            "created_pods_ms": MANY,
        },
        "members": {
            "members": 1000,
            "seen_by_all_ms": MANY,
            "seen_by_all_after_kill_ms": MANY,
        },
        **changes,
    }


def test_a_quick_run_is_one_line_of_medians() -> None:
    runs = [run(OPERATOR, 26.0), run(CEILING, 30.0), run(OPERATOR, 28.0)]
    assert report.quick_line(runs) == (
        "27.0 jobs/s, 90% of the ceiling, 9.4 writes a job, 4.0 CPU ms a job"
    )


def test_a_share_is_taken_within_its_round() -> None:
    runs = [run(OPERATOR, 9.0), run(CEILING, 10.0), run(CEILING, 100.0), run(OPERATOR, 80.0)]
    assert throughput.shares(runs) == [0.9, 0.8]


@pytest.mark.parametrize(
    ("value", "at_least", "met"),
    [(9.9, False, "yes"), (10.0, False, "yes"), (10.1, False, "**no**"), (9.9, True, "**no**")],
)
def test_a_target_is_met_up_to_its_bound(value: float, at_least: bool, met: str) -> None:
    assert Target(what="x", value=value, bound=10, at_least=at_least).cells()[-1] == met


def test_every_target_is_in_the_table() -> None:
    table = report.tables(results())
    for words in (
        "| 200 jobs x 4: share of the ceiling | ≥ 90% | 90% | yes |",
        "| writes a job in that burst | ≤ 10 | 9.4 | yes |",
        "| writes besides pods, a 64-pod job | ≤ 10 | 5.4 | yes |",
        "| same, beside one of 1,000 pods that starts, p50 | ≤ 150 ms | 10 ms | yes |",
        "| a job beside 10,000 of another tenant: to its 4 pods, p50 | ≤ 1000 ms | 10 ms | yes |",
        "| idle among them: API calls | ≤ 1 a s | 0.6 a s | yes |",
        "| same, of a core | ≤ 2% | 1.2% | yes |",
        "| jobs seen Running, of all in every workload | ≥ 100% | 100% | yes |",
        "| coordinators list replicas, 500/s, p99 | ≤ 20 ms | 20 ms | yes |",
        "| admission, 200/s, p50 | ≤ 3 ms | 10 ms | **no** |",
        "| a change seen by 1,000 members that wait, p99 | ≤ 200 ms | 20 ms | yes |",
    ):
        assert words in table


def test_a_phase_that_was_not_run_has_no_rows() -> None:
    found = {"admission": {"latency_ms": MANY}}
    assert [target.what for target in report.targets(found)] == [
        "admission, 200/s, p50",
        "same, p99",
    ]
    assert "jobs/s" not in report.tables(found)


def test_a_job_that_nobody_saw_running_misses_the_target() -> None:
    blind = [dataclasses.asdict(run(OPERATOR, 27.0, running_seen=150))]
    found = report.targets({"job_of_1000": {"runs": blind, "shares": [1.0]}})
    assert [t.value for t in found if t.what.startswith("jobs seen Running")] == [75.0]


def test_a_disturbed_run_says_so() -> None:
    runs = [dataclasses.asdict(run(kind, 5.0, strangers=0.4)) for kind in (OPERATOR, CEILING)]
    found = results(jobs_of_4={"runs": runs, "shares": [1.0]})
    assert "Other programs used up to 40% of the machine" in report.tables(found)
    assert "Other programs" not in report.tables(results())


def test_only_what_is_between_the_marks_is_replaced() -> None:
    text = f"# Title\n{page.BEGIN}\nold\n{page.END}\nmore\n"
    assert page.replace(text, "new") == f"# Title\n{page.BEGIN}\nnew\n{page.END}\nmore\n"


def test_a_page_without_marks_is_left_alone() -> None:
    with pytest.raises(ValueError, match="marks"):
        page.replace("# Title\n", "new")


def test_rate_and_memory_are_drawn_over_the_jobs_done() -> None:
    rate, memory = (axes.lines[0].get_xydata() for axes in plots.many_jobs(results()).axes)
    assert np.array_equal(rate, [[100, 27.0], [200, 27.0]])
    assert np.array_equal(memory, [[100, 60.0], [200, 70.0]])
