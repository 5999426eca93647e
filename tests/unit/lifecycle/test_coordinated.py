"""Jobs with a coordinator: its pod alone tells the phase, the others are what it asked for."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from di_kube.resources import PODS
from di_operator.lifecycle.write_errors import NameTaken, QuotaExceeded, TemplateRefused
from tests.unit.lifecycle.cluster_model import ClusterModel, Crash, job

Object = dict[str, Any]
TEMPLATE = {"spec": {"containers": [{"name": "di-container", "image": "train:1"}]}}
FIRST, SECOND = "x-collector-bbbbb", "x-collector-ccccc"
AGGREGATOR, MASTER = "x-aggregator-bbbbb", "x-ddp-learner-bbbbb"


def replica(name: str, role: str = "collector", **fields: Any) -> Object:
    return {"name": name, "role": role, **fields}


def coordinated(*replicas: Object, **spec: Any) -> ClusterModel:
    body = job(**spec)
    del body["spec"]["tasks"]
    roles = {role: {"template": TEMPLATE} for role in ("coordinator", "collector", "learner")}
    body["spec"]["coordinated"] = {**roles, "replicas": list(replicas)}
    return ClusterModel(body)


def ask(cluster: ClusterModel, *replicas: Object) -> None:
    """The server writes what the coordinator asks for."""
    cluster.edit(coordinated={**cluster.job["spec"]["coordinated"], "replicas": list(replicas)})


def running(*replicas: Object, **spec: Any) -> ClusterModel:
    cluster = coordinated(*replicas, **spec).settle().run().settle()
    assert cluster.phase == "Running"
    return cluster


def services(cluster: ClusterModel) -> list[str]:
    return sorted(name for kind, name in cluster.objects if kind == "Service")


@pytest.mark.proves(
    "lifecycle.md#jobs-with-a-coordinator/starting",
    "lifecycle.md#jobs-with-a-coordinator/running",
    "lifecycle.md#jobs-with-a-coordinator/succeeded-failed",
)
def test_the_phase_follows_the_coordinator() -> None:
    cluster = coordinated().settle()
    assert list(cluster.pods) == services(cluster) == ["x-coordinator"]
    cluster.run("x-coordinator").settle().succeed("x-coordinator").settle()
    assert cluster.phases == ["Starting", "Running", "Succeeded"]
    assert cluster.condition("Succeeded")["message"] == "the coordinator succeeded"


@pytest.mark.proves("lifecycle.md#jobs-with-a-coordinator/succeeded-failed")
def test_a_failed_coordinator_fails_the_job_at_once() -> None:
    cluster = running(replica(FIRST), backoffLimit=3).fail("x-coordinator", code=3)
    cluster.settle()
    assert cluster.phase == "Failed"
    assert cluster.condition("Failed")["message"] == "the coordinator failed: exit code 3"
    assert cluster.status["restarts"] == 0


def test_a_requested_replica_gets_its_service_first() -> None:
    cluster = running()
    cluster.writes.clear()
    ask(cluster, replica(FIRST), replica("x-learner-bbbbb", "learner"))
    cluster.settle()
    assert cluster.writes == [
        f"create Service {FIRST}",
        "create Service x-learner-bbbbb",
        f"create Pod {FIRST}",
        "create Pod x-learner-bbbbb",
        "status",
    ]
    assert cluster.phases == ["Starting", "Running"]


def test_a_request_right_after_the_start_is_served() -> None:
    cluster = coordinated().settle()
    ask(cluster, replica(FIRST))
    cluster.reconcile()
    assert FIRST in cluster.pods


def test_a_replica_no_longer_requested_goes_with_its_service() -> None:
    cluster = running(replica(FIRST), replica(SECOND))
    ask(cluster, replica(SECOND))
    cluster.settle().end(FIRST).settle()
    assert sorted(cluster.pods) == services(cluster) == [SECOND, "x-coordinator"]
    assert cluster.status["taskStatus"]["collector"] == {"Running": 1}


@pytest.mark.proves("events.md#of-its-life/replicasreplaced")
def test_a_failed_collector_counts_once_and_is_replaced_at_once() -> None:
    cluster = running(replica(FIRST))
    old = cluster.uids[FIRST]
    cluster.fail(FIRST, code=9)
    began = cluster.now
    cluster.settle()
    assert cluster.now == began
    assert cluster.uids[FIRST] != old
    assert (cluster.status["restarts"], cluster.phase) == (1, "Running")
    [event] = [event for event in cluster.events if event.reason == "ReplicasReplaced"]
    assert event.message == f"1 replica failed, {FIRST} first: exit code 9"
    assert cluster.condition("Running")["message"] == "the coordinator is ready"


def test_a_succeeded_replica_that_is_deleted_is_replaced_at_once() -> None:
    cluster = running(replica(FIRST)).succeed(FIRST).settle()
    cluster.delete_pod(FIRST).reconcile()
    assert FIRST in cluster.pods


@pytest.mark.parametrize("crash_after", range(1, 8))
def test_a_failure_is_counted_once_whenever_the_operator_dies(crash_after: int) -> None:
    cluster = running(replica(FIRST), replica(SECOND)).fail(FIRST)
    with suppress(Crash):
        cluster.reconcile(crash_after=crash_after)
        cluster.reconcile(crash_after=crash_after)
    cluster.settle()
    assert cluster.status["restarts"] == 1
    assert sorted(cluster.pods) == [FIRST, SECOND, "x-coordinator"]
    assert cluster.writes.count(f"create Pod {FIRST}") == 2
    assert cluster.writes.count(f"create Pod {SECOND}") == 1


def test_a_repeatedly_failed_collector_is_replaced_with_backoff() -> None:
    cluster = running(replica(FIRST))
    pauses = []
    for _ in range(8):
        cluster.fail(FIRST)
        began = cluster.now
        while FIRST not in cluster.pods or cluster.pods[FIRST]["status"]["phase"] == "Failed":
            decision = cluster.reconcile()
            if not decision.actions and decision.status is None:
                assert decision.requeue_after is not None
                cluster.pass_time(decision.requeue_after)
        pauses.append((cluster.now - began).total_seconds())
        cluster.run(FIRST)
    assert pauses == [0, 2, 4, 8, 16, 32, 60, 60]


def test_a_deleted_collector_is_replaced() -> None:
    cluster = running(replica(FIRST)).delete_pod(FIRST).settle().end(FIRST).settle()
    assert FIRST in cluster.pods
    assert (cluster.status["reschedules"], cluster.phase) == (1, "Running")


def test_a_collector_that_has_succeeded_stays() -> None:
    cluster = running(replica(FIRST)).succeed(FIRST).settle()
    assert cluster.pods[FIRST]["status"]["phase"] == "Succeeded"
    assert cluster.phase == "Running"


@pytest.mark.proves("lifecycle.md#jobs-with-a-coordinator/rescheduling")
@pytest.mark.parametrize("how", ["evicted", "deleted", "vanished"])
def test_a_lost_coordinator_is_replaced(how: str) -> None:
    cluster = running(replica(FIRST))
    match how:
        case "evicted":
            cluster.evict("x-coordinator")
        case "deleted":
            cluster.delete_pod("x-coordinator").settle()
            cluster.end("x-coordinator")
        case _:
            del cluster.objects["Pod", "x-coordinator"]
    cluster.settle().run("x-coordinator").settle()
    assert cluster.phases[2:] == ["Rescheduling", "Starting", "Running"]
    lost = cluster.condition("Rescheduling")["message"]
    why = {"evicted": " (Evicted: The node was low on resource: memory.; exit code 137)"}
    assert lost == f"the coordinator was lost{why.get(how, '')}, another one takes its place"
    assert (cluster.status["reschedules"], cluster.status["restarts"]) == (1, 0)


def test_a_deleted_service_is_made_again() -> None:
    cluster = running(replica(FIRST))
    del cluster.objects["Service", FIRST]
    cluster.settle()
    assert services(cluster) == [FIRST, "x-coordinator"]


@pytest.mark.proves(
    "dijob.md#jobs-with-a-coordinator/status-replicastatus", "dijob.md#status/replicastatus"
)
def test_pods_are_counted_by_role() -> None:
    cluster = running(replica(FIRST), replica(SECOND), replica("x-learner-bbbbb", "learner"))
    cluster.succeed(SECOND).pass_time(20).settle()
    counts = cluster.status["replicaStatus"]
    assert counts["Coordinator"] == {"active": 1, "succeeded": 0, "failed": 0}
    assert counts["Collector"] == {"active": 1, "succeeded": 1, "failed": 0}
    assert counts["Learner"] == {"active": 1, "succeeded": 0, "failed": 0}
    assert counts["Aggregator"] == {"active": 0, "succeeded": 0, "failed": 0}
    cluster.succeed("x-coordinator").settle()
    assert cluster.status["replicaStatus"]["Collector"] == {
        "active": 0,
        "succeeded": 2,
        "failed": 0,
    }


@pytest.mark.parametrize(
    ("policy", "kept"),
    [("Running", ["x-coordinator"]), ("All", []), ("None", [FIRST, "x-coordinator"])],
)
def test_clean_up_follows_the_policy_and_takes_every_service(policy: str, kept: list[str]) -> None:
    cluster = running(replica(FIRST), cleanPodPolicy=policy).succeed("x-coordinator")
    cluster.settle()
    if "deletionTimestamp" in cluster.pods.get(FIRST, {"metadata": {}})["metadata"]:
        cluster.end(FIRST)
    assert (sorted(cluster.pods), services(cluster)) == (kept, [])


@pytest.mark.proves("events.md#of-its-life/aggregatorconfigmissing")
def test_aggregators_wait_for_their_config_and_nothing_else_does() -> None:
    cluster = running()
    ddp = replica(MASTER, "ddp-learner", aggregator=AGGREGATOR, resources={"nvidia.com/gpu": 2})
    ask(cluster, replica(AGGREGATOR, "aggregator"), ddp, replica(FIRST))
    cluster.settle()
    assert sorted(cluster.pods) == [FIRST, "x-coordinator", MASTER]
    assert cluster.events[-1].reason == "AggregatorConfigMissing"
    assert cluster.reconcile().requeue_after == 10
    cluster.aggregator = {"spec": {"containers": [{"name": "agg", "image": "agg:1"}]}}
    cluster.settle()
    assert cluster.objects["Pod", AGGREGATOR]["spec"]["containers"][0]["image"] == "agg:1"
    assert cluster.env(MASTER)["WORLD_SIZE"] == "2"


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (QuotaExceeded(message="no quota"), "QuotaExceeded"),
        (TemplateRefused(message="bad"), "InvalidTemplate"),
        (
            NameTaken(resource=PODS, found={"metadata": {"name": FIRST, "uid": "other"}}),
            "PodNameConflict",
        ),
    ],
)
def test_a_refused_collector_is_reported_and_changes_no_phase(fault: Any, reason: str) -> None:
    cluster = running()
    ask(cluster, replica(FIRST))
    cluster.refuse_pods = fault
    cluster.reconcile()
    assert (cluster.events[-1].reason, cluster.phase) == (reason, "Running")
    cluster.refuse_pods = None
    cluster.settle()
    assert FIRST in cluster.pods


def test_a_refused_coordinator_fails_the_job() -> None:
    cluster = coordinated()
    cluster.refuse_pods = TemplateRefused(message="bad image")
    cluster.settle()
    assert cluster.phase == "Failed"
    assert cluster.condition("Failed")["message"] == "bad image"


def test_a_suspended_job_comes_back_with_all_it_had() -> None:
    cluster = running(replica(FIRST)).edit(suspend=True).settle().end().settle()
    assert (cluster.phase, list(cluster.pods)) == ("Pending", [])
    cluster.edit(suspend=False).settle().run().settle()
    assert (cluster.phase, sorted(cluster.pods)) == ("Running", [FIRST, "x-coordinator"])


def test_objects_of_an_earlier_job_go_first() -> None:
    cluster = coordinated(replica(FIRST))
    version = "diengine.opendilab.org/v1alpha1"
    owner = {"apiVersion": version, "kind": "DIJob", "name": "x", "uid": "old", "controller": True}
    metadata = {"name": "x-coordinator", "namespace": "rl", "ownerReferences": [owner]}
    for kind in ("Pod", "Service"):
        cluster.put({"kind": kind, "metadata": metadata, "status": {"phase": "Running"}})
    cluster.settle()
    assert cluster.phase == "Pending"
    cluster.end("x-coordinator").settle()
    assert cluster.phase == "Starting"
    assert sorted(cluster.pods) == services(cluster) == [FIRST, "x-coordinator"]


WANTED = st.lists(
    st.sampled_from([FIRST, SECOND, "x-collector-ddddd", "x-learner-bbbbb"]), unique=True
)


HANDS = st.sampled_from(["fail", "delete", "run", "none"])


@given(st.lists(st.tuples(WANTED, HANDS, st.integers(1, 6)), max_size=5))
def test_the_pods_match_the_request_after_any_history(
    steps: list[tuple[list[str], str, int]],
) -> None:
    cluster = running()
    for wanted, hand, crash_after in steps:
        ask(cluster, *(replica(name, name.split("-")[1]) for name in wanted))
        with suppress(Crash):
            cluster.reconcile(crash_after=crash_after)
        for name, pod in list(cluster.pods.items()):
            if name == "x-coordinator" or "deletionTimestamp" in pod["metadata"]:
                continue
            match hand:
                case "fail":
                    cluster.fail(name)
                case "delete":
                    cluster.delete_pod(name)
                case "run":
                    cluster.run(name)
                case _:
                    pass
        for _ in range(10):
            cluster.settle(60)
            cluster.end_deleted()
            # Past every pause between attempts.
            cluster.pass_time(700)
        cluster.settle(60)
        names = sorted([*wanted, "x-coordinator"])
        assert sorted(cluster.pods) == services(cluster) == names
        assert cluster.phase == "Running"
