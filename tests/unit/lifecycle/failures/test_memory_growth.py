"""Memory that replicas are given after OOM kills."""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal

import pytest

from di_api.timestamps import format_time
from di_operator.lifecycle.decide import decide
from tests.unit.lifecycle.cluster_model import ClusterModel, Crash, running
from tests.unit.lifecycle.failures.test_failure import (
    OOM,
    RANK_1,
    come_back,
    fail,
    grown,
    learners,
    oom,
    record,
    resources,
    with_memory,
)


@pytest.mark.proves(
    "dijob.md#spec-failurepolicy/growmemory-factor",
    "dijob.md#spec-failurepolicy/onreasons",
    "events.md#of-its-life/memorygrown",
)
def test_an_oom_killed_replica_gets_more_memory_in_its_next_pod() -> None:
    cluster = learners(OOM)
    before = cluster.pods[RANK_1]["metadata"]
    oom(cluster, RANK_1)
    come_back(cluster)
    after = cluster.pods[RANK_1]["metadata"]
    assert after["uid"] != before["uid"]
    assert after["annotations"]["diengine/rank"] == before["annotations"]["diengine/rank"]
    assert resources(cluster, RANK_1) == {
        "requests": {"memory": "8Gi"},
        "limits": {"memory": "8Gi", "cpu": "1"},
    }
    assert resources(cluster, "x-learner-0") == {"limits": {"memory": "4Gi", "cpu": "1"}}
    assert record(cluster, "learner", 1)["restarts"] == 1
    assert "0" not in cluster.status["replicaFailures"]["learner"]
    assert grown(cluster) == [f"container di-container of {RANK_1}: 4Gi -> 8Gi"]
    assert cluster.phase == "Running"


@pytest.mark.proves("dijob.md#spec-failurepolicy/growmemory-maxstep")
def test_memory_grows_by_at_most_max_step_until_the_replica_limit() -> None:
    cluster = learners(OOM)
    for memory in ("8Gi", "16Gi", "24Gi"):
        oom(cluster, RANK_1)
        come_back(cluster)
        assert resources(cluster, RANK_1)["limits"]["memory"] == memory
    oom(cluster, RANK_1)
    cluster.settle()
    assert cluster.phase == "Failed"
    failed = cluster.condition("Failed")
    assert failed["reason"] == "ReplicaBackoffLimit"
    assert failed["message"] == (
        f"replica {RANK_1} has used its 3 restarts (replicaBackoffLimit 3); pod {RANK_1} failed "
        "first: exit code 137 (OOMKilled)"
    )


def message_at_the_end_of_memory(cluster: ClusterModel) -> str:
    """Kill a replica that gets no more memory: its job has failed, and no pod is made."""
    oom(cluster, RANK_1)
    cluster.writes.clear()
    cluster.settle()
    failed = cluster.condition("Failed")
    assert (cluster.phase, failed["reason"]) == ("Failed", "OOMLimit")
    assert not [write for write in cluster.writes if write.startswith("create Pod")]
    return str(failed["message"])


@pytest.mark.proves(
    "dijob.md#spec-failurepolicy/growmemory-limit", "lifecycle.md#failure/growmemory-limit"
)
def test_an_oom_kill_at_the_memory_limit_fails_the_job() -> None:
    cluster = learners({**OOM, "growMemory": {"factor": 2, "limit": "12Gi"}})
    for memory in ("8Gi", "12Gi"):
        oom(cluster, RANK_1)
        come_back(cluster)
        assert resources(cluster, RANK_1)["requests"]["memory"] == memory
    assert message_at_the_end_of_memory(cluster).startswith(
        "container di-container was OOM-killed with 12Gi of memory, the most that growMemory allows"
    )


@pytest.mark.proves("lifecycle.md#failure/the-largest-node-s-memory-where")
def test_without_a_limit_memory_grows_up_to_the_largest_node() -> None:
    cluster = learners({**OOM, "growMemory": {"factor": 2}})
    cluster.largest_node_memory = Decimal(10 * 2**30)
    oom(cluster, RANK_1)
    come_back(cluster)
    assert resources(cluster, RANK_1)["requests"]["memory"] == "8Gi"
    assert message_at_the_end_of_memory(cluster).startswith(
        "container di-container was OOM-killed with 8Gi of memory, and the largest node has 10Gi, "
        "less than what comes next; pod"
    )


@pytest.mark.parametrize(("limit", "largest"), [("64Gi", 4 * 2**30), (None, None)])
def test_the_node_size_does_not_bound_growth_with_a_limit_or_if_unknown(
    limit: str | None, largest: int | None
) -> None:
    growth = {"factor": 2} | ({"limit": limit} if limit else {})
    cluster = learners({**OOM, "growMemory": growth})
    cluster.largest_node_memory = Decimal(largest) if largest else None
    oom(cluster, RANK_1)
    come_back(cluster)
    assert resources(cluster, RANK_1)["requests"]["memory"] == "8Gi"
    assert cluster.phase == "Running"


def test_exit_code_137_without_the_reason_is_not_an_oom_kill() -> None:
    # Whoever sends SIGKILL has it; also where the rule is about the code.
    cluster = learners({**OOM, "onReasons": [], "onExitCodes": {"operator": "In", "values": [137]}})
    fail(cluster, RANK_1, code=137)
    come_back(cluster)
    assert resources(cluster, RANK_1) == {"limits": {"memory": "4Gi", "cpu": "1"}}
    assert grown(cluster) == []
    assert record(cluster, "learner", 1) == {
        "restarts": 1,
        "lastFailure": record(cluster, "learner", 1)["lastFailure"],
    }


@pytest.mark.parametrize("crash_after", range(1, 6))
def test_an_oom_kill_that_is_seen_twice_counts_once(crash_after: int) -> None:
    cluster = learners(OOM)
    oom(cluster, RANK_1)
    old = [*cluster.pods.values()]
    with suppress(Crash):
        cluster.reconcile(crash_after=crash_after)
    # A list shows what the watch has shown already, and the other way round.
    for pods in (old, None):
        status = decide(cluster.snapshot(pods), cluster.now, cluster.settings).status
        assert status is None or status["restarts"] == 1
    come_back(cluster)
    assert (record(cluster, "learner", 1)["restarts"], cluster.status["restarts"]) == (1, 1)
    assert resources(cluster, RANK_1)["limits"]["memory"] == "8Gi"
    assert len(grown(cluster)) <= 1


@pytest.mark.parametrize("crash_after", range(1, 9))
def test_counts_memory_and_avoided_nodes_survive_a_crash_at_any_write(crash_after: int) -> None:
    rule = {**OOM, "avoidNode": True}
    cluster = learners(rule)
    for name in ("x-learner-0", RANK_1):
        cluster.pods[name]["spec"]["nodeName"] = "bad"
    oom(cluster, RANK_1)
    with suppress(Crash):
        cluster.reconcile(crash_after=crash_after)
    for _ in range(crash_after):
        with suppress(Crash):
            cluster.reconcile(crash_after=1)
    come_back(cluster)
    found = record(cluster, "learner", 1)
    assert (found["restarts"], found["memory"]) == (1, {"di-container": "8Gi"})
    assert [each["node"] for each in found["avoid"]] == ["bad"]
    assert resources(cluster, RANK_1)["limits"]["memory"] == "8Gi"
    assert (cluster.status["restarts"], cluster.phase) == (1, "Running")


def test_an_oom_killed_init_container_gets_more_memory() -> None:
    made = with_memory("learner", 2, "4Gi")
    made["template"]["spec"]["initContainers"] = [
        {"name": "prepare", "image": "p", "resources": {"limits": {"memory": "512Mi"}}}
    ]
    cluster = running(made, failurePolicy={"rules": [OOM]})
    ended = {"exitCode": 137, "reason": "OOMKilled", "finishedAt": format_time(cluster.now)}
    statuses = [{"name": "prepare", "state": {"terminated": ended}}]
    cluster.say(RANK_1, phase="Failed", initContainerStatuses=statuses)
    come_back(cluster)
    (init,) = cluster.pods[RANK_1]["spec"]["initContainers"]
    assert init["resources"]["limits"]["memory"] == "1Gi"
    assert resources(cluster, RANK_1) == {"limits": {"memory": "4Gi", "cpu": "1"}}
