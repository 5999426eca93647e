"""What published figures are made of: counts of requests, spreads, rates and what a watch saw."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tools.benchmarks import counters, samples
from tools.benchmarks.counters import Request
from tools.benchmarks.follower import Seen, is_ready
from tools.benchmarks.throughput import ready_to_running

METRICS = """\
# HELP apiserver_request_total [STABLE] Counter of apiserver requests
# TYPE apiserver_request_total counter
apiserver_request_total{code="201",component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="",verb="POST",version="v1"} 8
apiserver_request_total{code="409",component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="",verb="POST",version="v1"} 2
apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="status",verb="PATCH",version="v1"} 1.6e+01
apiserver_request_total{code="200",component="apiserver",dry_run="",group="diengine.opendilab.org",resource="dijobs",scope="resource",subresource="status",verb="PATCH",version="v2alpha1"} 6
apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="pods",scope="cluster",subresource="",verb="WATCH",version="v1"} 3
apiserver_request_slo_duration_seconds_count{resource="pods",verb="POST"} 99
"""  # noqa: E501 - as the API server prints it


def test_requests_are_counted_by_verb_and_subresource_whatever_their_code() -> None:
    assert counters.parse(METRICS) == Counter(
        {
            Request("POST", "pods"): 10,
            Request("PATCH", "pods/status"): 16,
            Request("PATCH", "dijobs/status"): 6,
            Request("WATCH", "pods"): 3,
        }
    )


def test_writes_leave_out_reads_and_come_most_frequent_first() -> None:
    assert [str(request) for request in counters.writes(counters.parse(METRICS))] == [
        "PATCH pods/status",
        "POST pods",
        "PATCH dijobs/status",
    ]


def test_the_operator_is_not_charged_for_the_kubelets_writes() -> None:
    assert counters.of_operator(counters.parse(METRICS)) == {
        Request("POST", "pods"): 10,
        Request("PATCH", "dijobs/status"): 6,
    }


def test_a_total_is_the_sum_of_all_samples_of_that_name_only() -> None:
    metrics = 'a_total{x="1"} 3\na_total{x="2"} 4.0\na_total_created{x="1"} 1e9\na_total 1\n'
    assert counters.total(metrics, "a_total") == 8


@pytest.mark.parametrize(
    ("percent", "expected"), [(50, 50), (99, 99), (99.5, 100), (100, 100), (1, 1), (0, 1)]
)
def test_a_percentile_is_a_value_that_was_measured(percent: float, expected: float) -> None:
    assert samples.percentile(list(range(100, 0, -1)), percent) == expected


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


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"conditions": [{"type": "Ready", "status": "True"}]}, True),
        ({"conditions": [{"type": "Ready", "status": "False"}]}, False),
        ({"conditions": [{"type": "Initialized", "status": "True"}]}, False),
        ({}, False),
        (None, False),
    ],
)
def test_a_pod_is_ready_when_its_condition_says_so(status: Any, expected: bool) -> None:
    assert is_ready({"status": status}) is expected


def test_running_counts_from_the_last_pods_readiness() -> None:
    seen = Seen(ready={"a": 1.0, "b": 3.0}, phases={"Starting": 0.5, "Running": 3.25})
    assert ready_to_running([seen]) == [0.25]


def test_a_job_never_seen_running_has_no_such_time() -> None:
    assert ready_to_running([Seen(ready={"a": 1.0}, phases={"Succeeded": 2.0})]) == []


def test_watches_that_overtake_each_other_give_no_negative_time() -> None:
    assert ready_to_running([Seen(ready={"a": 2.0}, phases={"Running": 1.9})]) == [0.0]
