"""Reading the API server's count of requests."""

from __future__ import annotations

from collections import Counter

from tests.benchmarks import counters
from tests.benchmarks.counters import Request

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


def test_a_kind_of_write_that_did_not_happen_is_not_listed() -> None:
    before = counters.parse(METRICS)
    assert counters.writes(before - before) == {}


def test_the_operator_is_not_charged_for_the_kubelets_writes() -> None:
    assert counters.of_operator(counters.parse(METRICS)) == {
        Request("POST", "pods"): 10,
        Request("PATCH", "dijobs/status"): 6,
    }


def test_a_total_is_the_sum_of_all_samples_of_that_name_only() -> None:
    metrics = 'a_total{x="1"} 3\na_total{x="2"} 4.0\na_total_created{x="1"} 1e9\na_total 1\n'
    assert counters.total(metrics, "a_total") == 8
