"""Nodes that are slower than the others."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from di_operator.cluster.informer_state import transform_pod
from di_operator.lifecycle.observed.check_reports import LONGEST_REPORT
from di_operator.lifecycle.policies.node_checks import MOST_AVOIDED, slow_nodes
from di_operator.lifecycle.vocabulary.reasons import Problem
from tests.unit.lifecycle.cluster_model import ClusterModel, Crash, job, task

PROBLEM = "NodeCheckFailed"


def checked(replicas: int = 4, **check: Any) -> ClusterModel:
    """A settled job of pods `x-train-N` on nodes `nN`, whose checks have not ended."""
    cluster = ClusterModel(job(task("train", replicas, nodeCheck=check))).settle()
    for index in range(replicas):
        cluster.pods[f"x-train-{index}"]["spec"]["nodeName"] = f"n{index}"
    return cluster


def tell(cluster: ClusterModel, said: Mapping[str, object]) -> None:
    """The checks of pods end; a number is their report, anything else is what they wrote."""
    for pod, words in said.items():
        message = json.dumps({"seconds": words}) if isinstance(words, int | float) else words
        state = {"terminated": {"exitCode": 0, "message": message}}
        raw = cluster.pods[pod]
        raw.setdefault("status", {})["initContainerStatuses"] = [
            {"name": "di-node-check", "state": state}
        ]


def told(*seconds: float) -> dict[str, object]:
    return {f"x-train-{index}": each for index, each in enumerate(seconds)}


def problem(cluster: ClusterModel) -> tuple[str, str, str] | None:
    """Status, reason and message of the condition, None without."""
    found = [c for c in cluster.status["conditions"] if c["type"] == PROBLEM]
    return (found[0]["status"], found[0]["reason"], found[0]["message"]) if found else None


def warnings(cluster: ClusterModel) -> list[str]:
    return [e.message for e in cluster.events if e.reason is Problem.NODE_CHECK_FAILED]


@pytest.mark.proves("dijob.md#node-checks", "events.md#of-problems/nodecheckfailed")
def test_a_node_is_slow_above_twice_the_median_time() -> None:
    cluster = checked(action="Notify")
    tell(cluster, told(1, 1, 1, 2.0))
    cluster.settle()
    assert problem(cluster) is None
    tell(cluster, told(1, 1, 1, 2.01))
    cluster.settle()
    message = "task train: node n3 took 2.01 s, the median of 4 nodes is 1 s"
    assert problem(cluster) == ("True", "SlowNodes", message)
    assert (warnings(cluster), len(cluster.pods)) == ([message], 4)
    assert "avoidedNodes" not in cluster.status


def test_no_node_is_reported_before_all_checks_have_ended() -> None:
    cluster = checked(action="Notify")
    tell(cluster, {"x-train-0": 1, "x-train-1": 1, "x-train-3": 9})
    cluster.settle()
    assert problem(cluster) is None
    tell(cluster, {"x-train-2": 1})
    cluster.settle()
    assert problem(cluster) is not None


def exchanged(*reports: Mapping[int, float | str]) -> dict[str, object]:
    """What pods said of exchanges, by partner: seconds, or why they failed."""
    said: dict[str, object] = {}
    for index, found in enumerate(reports):
        exchanges = [
            {"with": partner, ("failed" if isinstance(what, str) else "seconds"): what}
            for partner, what in found.items()
        ]
        said[f"x-train-{index}"] = json.dumps({"seconds": 1, "exchanges": exchanges})
    return said


def test_a_node_that_is_slow_or_fails_with_both_partners_is_avoided() -> None:
    cluster = checked()
    tell(cluster, exchanged({3: 0.5, 2: 0.1}, {2: 0.1, 3: 0.5}, {1: 0.1, 0: 0.1}, {0: 0.5, 1: 0.5}))
    cluster.settle()
    message = "task train: node n3 took 0.5 s to exchange data, the median of 4 nodes is 0.1 s"
    assert problem(cluster) == ("True", "SlowNodes", message)
    assert cluster.status["avoidedNodes"]["train"].keys() == {"n3"}
    cluster = checked()
    no = "TimeoutError"
    tell(cluster, exchanged({3: no, 2: 0.1}, {2: 0.1, 3: no}, {1: 0.1, 0: 0.1}, {0: no, 1: 0.9}))
    cluster.settle()
    assert cluster.status["avoidedNodes"]["train"].keys() == {"n3"}
    cluster = checked(3, action="Notify")
    tell(cluster, exchanged({2: no, 1: 0.1}, {2: no, 0: 0.1}, {0: no, 1: no}))
    cluster.settle()
    message = "task train: node n2 could not exchange data with 2 others, the median of 3 nodes "
    assert problem(cluster) == ("True", "SlowNodes", f"{message}is 0.1 s")
    assert "avoidedNodes" not in cluster.status


def odd(**report: object) -> dict[str, object]:
    """Three pods that exchanged data with each other, and the report of a fourth."""
    others = exchanged({1: 0.1, 2: 0.1}, {0: 0.1, 2: 0.1}, {0: 0.1, 1: 0.1})
    return {**others, "x-train-3": json.dumps({"seconds": 1, **report})}


NO = "TimeoutError"
PASSED = {
    "it passed with another partner": exchanged(
        {3: NO, 2: 0.1}, {2: 0.1, 3: 0.1}, {1: 0.1, 0: 0.1}, {0: NO, 1: 0.2}
    ),
    "half of the nodes cannot exchange data": exchanged(
        {3: NO, 2: NO}, {2: 0.1, 3: NO}, {1: 0.1, 0: NO}, {0: NO, 1: NO}
    ),
    "it failed twice with the same partner": odd(
        exchanges=[{"with": 0, "failed": "x"}, {"with": 0, "seconds": 9}]
    ),
    "it joined late": odd(exchanges=[], failed="the connection was closed"),
    "two nodes": told(1, 9),
    "half are slow": told(1, 1, 9, 9),
    "half of many are slow": told(1, 9, 1, 9, 1, 9),
}


@pytest.mark.parametrize("case", PASSED)
def test_no_node_is_reported_or_avoided_if(case: str) -> None:
    cluster = checked(len(PASSED[case]))
    tell(cluster, PASSED[case])
    cluster.settle()
    assert problem(cluster) is None
    assert "avoidedNodes" not in cluster.status


def test_no_exchange_at_all_is_reported_and_moves_no_pod() -> None:
    cluster = checked()
    no = "TimeoutError"
    tell(cluster, exchanged({3: no, 2: no}, {2: no, 3: no}, {1: no, 0: no}, {0: no, 1: no}))
    cluster.settle()
    message = "task train: no pod could exchange data with another "
    told = f"{message}(x-train-0: TimeoutError with pod 3)"
    assert (problem(cluster), warnings(cluster)) == (("True", "NoExchange", told), [told])
    assert "avoidedNodes" not in cluster.status
    cluster = checked(2)
    why = "the first pod was not there for 300 s (gaierror)"
    late = json.dumps({"seconds": 1, "exchanges": [], "failed": why})
    tell(cluster, {**exchanged({}), "x-train-1": late})
    cluster.settle()
    assert problem(cluster) == ("True", "NoExchange", f"{message}(x-train-1: {why})")


def test_the_slowest_node_is_reported_first() -> None:
    cluster = checked(7, action="Notify")
    fast = {0: 0.1, 1: 0.1}
    said = exchanged(fast, fast, fast, fast, fast, {0: 0.3, 1: 0.3}, {0: 0.1, 1: 9.0})
    slow = json.loads(str(said["x-train-5"])) | {"seconds": 4}
    tell(cluster, {**said, "x-train-5": json.dumps(slow), "x-train-6": 9})
    cluster.settle()
    found = problem(cluster)
    assert found is not None
    assert found[2] == (
        "task train: node n6 took 9 s, node n5 took 4 s, the median of 7 nodes is 1 s; "
        "node n5 took 0.3 s to exchange data, the median of 6 nodes is 0.1 s"
    )


@pytest.mark.parametrize(
    "exchanges",
    [
        *("x", {}, [1], [[]], [{"with": "1"}], [{"with": True, "seconds": 9}], [{"seconds": 9}]),
        *([{"with": -1, "seconds": 0.1}], [{"with": 1e400}], None),
    ],
)
def test_malformed_exchange_reports_are_ignored(exchanges: object) -> None:
    cluster = checked()
    odd = json.dumps({"seconds": 1, "exchanges": exchanges, "failed": ["x"]})
    tell(cluster, {**told(1, 1, 1), "x-train-3": odd})
    cluster.settle()
    assert problem(cluster) is None


def test_the_longest_report_of_the_default_check_fits() -> None:
    each = {"with": 4095, "failed": "ConnectionRefusedError", "seconds": 12.345678}
    whole = json.dumps({"seconds": 1.0, "exchanges": [each] * 5, "failed": "x" * 120})
    assert len(whole) <= LONGEST_REPORT


@given(st.dictionaries(st.text(max_size=3), st.floats(1e-9, 1e9), max_size=12))
def test_fewer_than_half_of_the_nodes_are_slow(times: dict[str, float]) -> None:
    slow = slow_nodes(times)
    assert 2 * len(slow) < max(len(times), 1)
    assert all(slow[node] >= max(times[n] for n in times if n not in slow) for node in slow)


def test_the_fastest_pod_of_a_node_counts() -> None:
    cluster = checked(5, action="Notify")
    cluster.pods["x-train-4"]["spec"]["nodeName"] = "n3"
    tell(cluster, told(1, 1, 1, 9, 1.5))
    cluster.settle()
    assert problem(cluster) is None


@pytest.mark.proves("dijob.md#spec-tasks/nodecheck-action", "dijob.md#node-checks")
def test_pods_leave_a_slow_node_and_avoid_it_for_an_hour() -> None:
    cluster = checked().run().settle()
    tell(cluster, told(1, 1, 1, 3))
    cluster.settle()
    assert cluster.status["avoidedNodes"]["train"].keys() == {"n3"}
    assert cluster.phase == "Rescheduling"
    assert (cluster.status["reschedules"], cluster.status["restarts"]) == (1, 0)
    assert [n for n, p in cluster.pods.items() if "deletionTimestamp" in p["metadata"]] == [
        "x-train-3"
    ]
    cluster.end("x-train-3").settle()
    assert avoided_by(cluster, "x-train-3") == ["n3"]
    # What was said stays until the new pod has told as well.
    assert problem(cluster) is not None
    cluster.pods["x-train-3"]["spec"]["nodeName"] = "n7"
    cluster.run("x-train-3")
    tell(cluster, {"x-train-3": 1})
    cluster.settle()
    assert cluster.phase == "Running"
    found = problem(cluster)
    assert found is not None
    assert (found[0], len(warnings(cluster))) == ("False", 1)
    assert cluster.status["reschedules"] == 1
    cluster.pass_time(3600).delete_pod("x-train-0", force=True).settle().settle()
    assert "avoidedNodes" not in cluster.status


def avoided_by(cluster: ClusterModel, pod: str) -> list[str]:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    affinity = cluster.pods[pod]["spec"]["affinity"]["nodeAffinity"][required]
    (term,) = affinity["nodeSelectorTerms"]
    assert {(f["key"], f["operator"]) for f in term["matchFields"]} == {("metadata.name", "NotIn")}
    return [value for field in term["matchFields"] for value in field["values"]]


@given(crash_after=st.integers(0, 8))
def test_an_operator_crash_moves_the_pods_once(crash_after: int) -> None:
    cluster = checked().run().settle()
    tell(cluster, told(1, 1, 1, 3))
    for _ in range(3):
        try:
            cluster.reconcile(crash_after=crash_after)
        except Crash:
            continue
    cluster.settle().end("x-train-3").settle()
    assert cluster.status["reschedules"] == 1
    assert cluster.status["avoidedNodes"]["train"].keys() == {"n3"}
    assert avoided_by(cluster, "x-train-3") == ["n3"]


def test_the_number_of_avoided_nodes_of_a_task_is_bounded() -> None:
    many = 4 * MOST_AVOIDED
    cluster = checked(many)
    tell(cluster, told(*(9.0 if index < MOST_AVOIDED + 3 else 1.0 for index in range(many))))
    cluster.settle()
    assert len(cluster.status["avoidedNodes"]["train"]) == MOST_AVOIDED


@pytest.mark.parametrize(
    "words",
    [
        *("", "1.5", "[]", '{"seconds": "1"}', '{"seconds": true}', '{"seconds": -1}'),
        *('{"seconds": 0}', '{"seconds": NaN}', '{"seconds": 1e999}', "[" * 4096, '{"s": 1}'),
    ],
)
def test_a_check_without_a_report_is_reported_and_moves_no_pod(words: str) -> None:
    cluster = checked()
    tell(cluster, {**told(1, 1, 1, 9), "x-train-1": words})
    cluster.settle()
    message = "task train: the check of pod x-train-1 did not say how long it took"
    assert problem(cluster) == ("True", "NoReport", message)
    assert "avoidedNodes" not in cluster.status


@pytest.mark.parametrize(
    "written", [[], "x", {"train": []}, {"train": {"n0": 5}}, {"no": {"n0": ""}}]
)
def test_malformed_avoided_nodes_are_ignored(written: object) -> None:
    cluster = checked().patch_status({"avoidedNodes": written}).settle()
    assert not cluster.ending


def test_the_cache_keeps_messages_of_node_checks_only() -> None:
    cluster = checked()
    tell(cluster, {"x-train-0": "x" * 4096})
    pod = cluster.pods["x-train-0"]
    state = {"terminated": {"exitCode": 0, "reason": "Completed", "message": "secret"}}
    pod["status"]["initContainerStatuses"].append({"name": "other", "state": state})
    kept = transform_pod(pod)["status"]["initContainerStatuses"]
    assert [each.get("name") for each in kept] == ["di-node-check", None]
    assert kept[0]["state"]["terminated"]["message"] == "x" * LONGEST_REPORT
    assert "message" not in kept[1]["state"]["terminated"]
