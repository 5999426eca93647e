"""What a benchmark counts, and when it misses a target."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Any

import pytest

from tools.benchmarks import counters, page, report, samples, throughput
from tools.benchmarks.counters import Request
from tools.benchmarks.follower import Seen, is_ready
from tools.benchmarks.report import Target
from tools.benchmarks.testbed import CEILING, OPERATOR
from tools.benchmarks.throughput import Run, ready_to_running

MANY = {"count": 4, "p50": 10.0, "p99": 20.0, "max": 30.0}


def run(candidate: str, rate: float, **changes: Any) -> Run:
    """A run of 200 jobs of 4 pods at a rate."""
    values: dict[str, Any] = {
        **{"candidate": candidate, "workload": "200 x 4", "jobs": 200, "pods": 800},
        **{"seconds": 200 / rate, "jobs_per_second": rate, "pods_per_second": 4 * rate},
        **{"writes": {"POST pods": 4.0, "PATCH dijobs/status": 3.0}, "writes_per_job": 9.4},
        **{"all_writes": {}, "strangers": 0.01, "load_average": 0.5, "rates": [rate, rate]},
        "cpu_ms_per_job": {"candidate": 4.0, "kube-apiserver": 30.0, "etcd": 6.0},
        **{"peak_memory_mib": 70.0, "memory_mib": [60.0, 70.0], "running_seen": 200},
        **{"last_job_has_its_pods": 2.0, "create_to_pods_ms": MANY, "ready_to_running_ms": MANY},
    }
    return Run(**{**values, **changes})


def test_the_operators_writes_are_counted_without_the_kubelets() -> None:
    labels = 'component="apiserver",dry_run="",group="",scope="resource",version="v1"'
    metrics = "".join(
        f'apiserver_request_total{{code="{code}",{labels},resource="{resource}",'
        f'subresource="{subresource}",verb="{verb}"}} {count}\n'
        for code, resource, subresource, verb, count in (
            ("201", "pods", "", "POST", "8"),
            ("409", "pods", "", "POST", "2"),
            ("200", "pods", "status", "PATCH", "1.6e+01"),
            ("200", "dijobs", "status", "PATCH", "6"),
            ("200", "pods", "", "WATCH", "3"),
        )
    )
    counted = counters.parse(metrics)
    assert counted == Counter(
        {
            **{Request("POST", "pods"): 10, Request("PATCH", "pods/status"): 16},
            **{Request("PATCH", "dijobs/status"): 6, Request("WATCH", "pods"): 3},
        }
    )
    assert counters.of_operator(counted) == {
        **{Request("POST", "pods"): 10, Request("PATCH", "dijobs/status"): 6}
    }


@pytest.mark.parametrize(
    ("percent", "expected"), [(50, 50), (99, 99), (99.5, 100), (100, 100), (1, 1), (0, 1)]
)
def test_a_percentile_is_a_measured_value(percent: float, expected: float) -> None:
    assert samples.percentile(list(range(100, 0, -1)), percent) == expected
    with pytest.raises(ValueError, match="no values"):
        samples.percentile([], percent)


def test_a_pod_is_ready_by_its_condition_alone() -> None:
    conditions = [("Ready", "True"), ("Ready", "False"), ("Initialized", "True")]
    statuses: list[Any] = [{"conditions": [{"type": k, "status": v}]} for k, v in conditions]
    assert [is_ready({"status": each}) for each in (*statuses, {}, None)] == [True, *[False] * 4]


def test_the_time_to_running_starts_with_the_last_ready_pod() -> None:
    seen = Seen(ready={"a": 1.0, "b": 3.0}, phases={"Starting": 0.5, "Running": 3.25})
    assert ready_to_running([seen]) == [0.25]
    assert ready_to_running([Seen(ready={"a": 1.0}, phases={"Succeeded": 2.0})]) == []
    assert ready_to_running([Seen(ready={"a": 2.0}, phases={"Running": 1.9})]) == [0.0]


def test_a_share_of_the_ceiling_is_taken_within_its_round() -> None:
    runs = [run(OPERATOR, 9.0), run(CEILING, 10.0), run(CEILING, 100.0), run(OPERATOR, 80.0)]
    assert throughput.shares(runs) == [0.9, 0.8]


@pytest.mark.parametrize(
    ("value", "at_least", "met"),
    [(9.9, False, "yes"), (10.0, False, "yes"), (10.1, False, "**no**"), (9.9, True, "**no**")],
)
def test_a_target_is_met_up_to_its_bound(value: float, at_least: bool, met: str) -> None:
    assert Target(what="x", value=value, bound=10, at_least=at_least).cells()[-1] == met


def test_only_the_phases_that_ran_have_targets() -> None:
    found = {"admission": {"latency_ms": MANY}}
    assert [target.what for target in report.targets(found)] == [
        *("admission, 200/s, p50", "same, p99")
    ]


def test_a_job_that_never_ran_misses_the_target() -> None:
    blind = [dataclasses.asdict(run(OPERATOR, 27.0, running_seen=150))]
    found = report.targets({"job_of_1000": {"runs": blind, "shares": [1.0]}})
    assert [t.value for t in found if t.what.startswith("jobs seen Running")] == [75.0]


def test_a_page_is_replaced_between_its_marks_only() -> None:
    text = f"# Title\n{page.BEGIN}\nold\n{page.END}\nmore\n"
    assert page.replace(text, "new") == f"# Title\n{page.BEGIN}\nnew\n{page.END}\nmore\n"
    with pytest.raises(ValueError, match="marks"):
        page.replace("# Title\n", "new")
