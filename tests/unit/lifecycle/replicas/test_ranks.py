"""Ranks: kept for life, the lowest free one for a new pod, and lists that always resolve."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace

import pytest

from di_operator.builders.nodes import MAX_VARIABLE, NodeLists
from di_operator.lifecycle.decide import decide
from di_operator.lifecycle.policies.ranks import assign_ranks
from di_operator.lifecycle.vocabulary.actions import Create
from di_operator.lifecycle.write_errors import NodeListsRefused, on_error
from tests.unit.lifecycle.cluster_model import ClusterModel, job, running, task
from tests.unit.lifecycle.kubelet_model import Object


def fqdn(pod: str) -> str:
    return f"{pod}.di-x.rl.svc.cluster.local"


def ranks(cluster: ClusterModel) -> dict[str, int]:
    return {name: int(cluster.env(name)["DI_RANK"]) for name in cluster.pods}


def shrunk_and_gone(name: str, replicas: int, **tasks: int) -> ClusterModel:
    """A job some of whose pods were scaled away and have ended."""
    cluster = running(*(task(kind, count) for kind, count in tasks.items()))
    cluster.scale(name, replicas).settle()
    cluster.end_deleted()
    return cluster.run().settle()


@pytest.mark.proves("lifecycle.md#ranks-and-node-lists")
def test_a_new_job_is_ranked_in_task_order_then_by_index() -> None:
    cluster = running(task("collector", 2), task("learner", 2), task("evaluator"))
    assert ranks(cluster) == {
        "x-collector-0": 0,
        "x-collector-1": 1,
        "x-learner-0": 2,
        "x-learner-1": 3,
        "x-evaluator-0": 4,
    }


@pytest.mark.proves("lifecycle.md#ranks-and-node-lists")
def test_a_new_pod_takes_the_lowest_free_rank() -> None:
    cluster = shrunk_and_gone("collector", 1, collector=3, learner=1)
    cluster.scale("learner", 3).settle()
    assert ranks(cluster) == {
        "x-collector-0": 0,
        "x-learner-0": 3,
        "x-learner-1": 1,
        "x-learner-2": 2,
    }


def test_a_hole_is_written_localhost() -> None:
    shrunk = shrunk_and_gone("collector", 1, collector=4, learner=2).scale("learner", 3)
    shrunk.settle()
    assert shrunk.env("x-learner-2")["DI_NODES"].split(",") == [
        fqdn("x-collector-0"),
        fqdn("x-learner-2"),
        "localhost",
        "localhost",
        fqdn("x-learner-0"),
        fqdn("x-learner-1"),
    ]


def test_a_rank_is_not_free_while_its_pod_is_still_ending() -> None:
    cluster = running(task("collector", 2), task("learner", 1)).scale("collector", 1)
    cluster.settle().scale("learner", 2).settle()
    assert ranks(cluster)["x-learner-1"] == 3


def test_a_succeeded_pod_is_no_longer_in_the_node_list() -> None:
    cluster = running().succeed("x-collector-1").fail("x-learner-0").settle()
    env = cluster.env("x-learner-0")
    assert env["DI_NODES"].split(",")[2] == "localhost"
    assert env["DI_COLLECTOR_NODES"].split(",")[1] == "localhost"
    assert env["DI_NODES"].split(",")[int(env["DI_RANK"])] == fqdn("x-learner-0")


def test_a_rank_annotation_that_makes_no_sense_reserves_nothing() -> None:
    cluster = running()
    for name, text in (("x-learner-0", "99999999999"), ("x-collector-0", "two")):
        cluster.pods[name]["metadata"]["annotations"]["diengine/rank"] = text
    assert assign_ranks(cluster.snapshot()) == {
        "x-learner-0": 0,
        "x-collector-0": 1,
        "x-collector-1": 2,
        "x-collector-2": 3,
    }


def test_a_hundred_replicas_have_their_lists_in_the_environment() -> None:
    cluster = ClusterModel(job(task("learner"), task("collector", 99)))
    decision = cluster.decide()
    assert not any(action.label == "CreateConfigMap" for action in decision.actions)


@pytest.mark.proves("lifecycle.md#ranks-and-node-lists")
def test_above_a_hundred_replicas_the_lists_come_by_file() -> None:
    cluster = ClusterModel(job(task("learner"), task("collector", 100)))
    actions = cluster.decide().actions
    labels = [action.label for action in actions]
    bodies = {a.label: a.body for a in actions if isinstance(a, Create)}
    configmap, pod = bodies["CreateConfigMap"], bodies["CreatePod"]
    env = {e["name"]: e.get("value") for e in pod["spec"]["containers"][0]["env"]}
    sources = {e["name"]: e.get("valueFrom") for e in pod["spec"]["containers"][0]["env"]}
    assert labels.index("CreateConfigMap") < labels.index("CreatePod")
    assert len(configmap["data"]["nodes"].split(",")) == 101
    assert configmap["data"]["tasks.learner"] == fqdn("x-learner-0")
    assert env["DI_NODES_FILE"] == "/etc/diengine/nodes/nodes"
    assert env["DI_COLLECTOR_NODES_FILE"] == "/etc/diengine/nodes/tasks.collector"
    assert sources["DI_NODES"] == {"configMapKeyRef": {"name": "di-x", "key": "nodes"}}
    assert sources["DI_LEARNER_NODES"] == {
        "configMapKeyRef": {"name": "di-x", "key": "tasks.learner"}
    }
    assert pod["spec"]["volumes"] == [{"name": "di-nodes", "configMap": {"name": "di-x"}}]


def parsed(env: dict[str, str]) -> dict[str, object]:
    """What DI-engine's parser for Kubernetes makes of a pod's variables, by its own rules."""
    nodes = env["DI_NODES"].split(",")
    return {"address": nodes[int(env["DI_RANK"])], "head": nodes[0], "count": len(nodes)}


@pytest.mark.proves("lifecycle.md#ranks-and-node-lists")
@pytest.mark.parametrize("pods", [150, 1000])
def test_the_lists_of_a_large_job_are_variables_too(pods: int) -> None:
    cluster = ClusterModel(job(task("learner"), task("collector", pods - 1)))
    cluster.settle()
    assert len(cluster.pods) == pods
    head = fqdn("x-learner-0")
    for name in (*list(cluster.pods)[:3], f"x-collector-{pods - 2}"):
        env = cluster.env(name)
        assert parsed(env) == {"address": fqdn(name), "head": head, "count": pods}
        assert env["DI_COLLECTOR_NODES"].split(",")[-1] == fqdn(f"x-collector-{pods - 2}")


@pytest.mark.proves("lifecycle.md#ranks-and-node-lists")
def test_pods_added_across_the_border_find_themselves() -> None:
    cluster = running(task("learner"), task("collector", 98))
    cluster.scale("collector", 120).settle()
    for name in ("x-collector-97", "x-collector-98", "x-collector-119"):
        assert parsed(cluster.env(name))["address"] == fqdn(name)
    cluster.scale("collector", 60).settle()
    cluster.end_deleted()
    cluster.scale("collector", 70).settle()
    assert parsed(cluster.env("x-collector-69"))["address"] == fqdn("x-collector-69")


def test_a_list_that_no_variable_can_hold_is_in_its_file_alone() -> None:
    long = "n" * 100
    lists = NodeLists(by_rank=(long,) * 2000, by_task={"a": (long,) * 10})
    env = lists.large_environment("di-x")
    assert env.keys() == {"DI_A_NODES", "DI_NODES_FILE", "DI_A_NODES_FILE"}
    # Linux counts the name and the zero, too.
    fits = (MAX_VARIABLE - len("DI_NODES=") - 1) // (len(long) + 1)
    for count, is_there in ((fits, True), (fits + 1, False)):
        lists = NodeLists(by_rank=(long,) * count, by_task={})
        assert ("DI_NODES" in lists.large_environment("di-x")) == is_there
        size = len(f"DI_NODES={','.join(lists.by_rank)}\0")
        assert (size <= MAX_VARIABLE) == is_there


def test_the_file_is_brought_up_to_date_before_a_new_pod_reads_it() -> None:
    cluster = ClusterModel(job(task("learner"), task("collector", 100)))
    cluster.reconcile()
    cluster.scale("collector", 101).reconcile()
    actions = cluster.decide().actions
    cluster.reconcile()
    assert [action.label for action in actions] == ["ReplaceConfigMap", "CreatePod"]
    nodes = cluster.objects["ConfigMap", "di-x"]["data"]["nodes"].split(",")
    assert nodes[101] == fqdn("x-collector-100")


def test_the_lists_are_put_together_once_for_a_write(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[NodeLists] = []
    put_together = NodeLists.files

    def noted(lists: NodeLists) -> dict[str, str]:
        calls.append(lists)
        return put_together(lists)

    monkeypatch.setattr(NodeLists, "files", noted)
    cluster = ClusterModel(job(task("learner"), task("collector", 100)))
    cluster.reconcile()
    assert len(calls) == 1
    cluster.scale("collector", 101).settle()
    assert len(calls) == 2


def test_the_file_is_digested_when_it_comes_and_not_at_a_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = running(task("learner"), task("collector", 100))
    snapshot = cluster.snapshot()
    monkeypatch.delattr(hashlib, "sha256")
    assert decide(snapshot, cluster.now, cluster.settings).actions == ()


def spoil_nothing(cluster: ClusterModel) -> None:
    cluster.succeed("x-collector-7")


def drop(cluster: ClusterModel) -> None:
    del cluster.objects["ConfigMap", "di-x"]


def garble(cluster: ClusterModel) -> None:
    cluster.objects["ConfigMap", "di-x"]["data"]["nodes"] = "nowhere"


@pytest.mark.proves("events.md#of-its-life/nodelistsrestored")
@pytest.mark.parametrize(("spoil", "writes"), [(drop, 1), (garble, 1), (spoil_nothing, 0)])
def test_the_file_is_put_back_for_pods_that_run(
    spoil: Callable[[ClusterModel], None], writes: int
) -> None:
    cluster = running(task("learner"), task("collector", 100))
    before = dict(cluster.objects["ConfigMap", "di-x"]["data"])
    cluster.events.clear()
    cluster.writes.clear()
    spoil(cluster)
    cluster.settle()
    assert cluster.objects["ConfigMap", "di-x"]["data"] == before
    assert len([write for write in cluster.writes if "ConfigMap" in write]) == writes
    assert [e.reason for e in cluster.events] == ["NodeListsRestored"] * writes


def test_a_file_of_an_earlier_version_is_not_judged() -> None:
    cluster = running(task("learner"), task("collector", 100))
    del cluster.objects["ConfigMap", "di-x"]["metadata"]["annotations"]
    assert cluster.decide().actions == ()


def test_the_file_goes_with_the_service_when_the_job_ends() -> None:
    cluster = ClusterModel(job(task("learner"), task("collector", 100)))
    cluster.reconcile()
    cluster.succeed()
    for _ in range(4):
        cluster.reconcile()
    assert cluster.phase == "Succeeded"
    assert ("ConfigMap", "di-x") not in cluster.objects


def long_names(*tasks: Object) -> ClusterModel:
    """A job in a cluster whose names fill the lists with some 125 pods, for which there is room."""
    cluster = ClusterModel(job(*tasks))
    cluster.settings = replace(cluster.settings, service_domain="d" * 4000)
    return cluster


def test_a_running_job_reports_node_lists_that_grow_too_long() -> None:
    cluster = long_names(task("collector", 110)).settle().run().settle()
    before, lists = cluster.pods, cluster.objects["ConfigMap", "di-x"]["data"]
    cluster.scale("collector", 140).settle()
    assert cluster.phase == "Rescheduling"
    assert cluster.condition("Rescheduling")["reason"] == "NodeListsTooLong"
    assert (cluster.pods, cluster.objects["ConfigMap", "di-x"]["data"]) == (before, lists)
    (warning,) = [event for event in cluster.events if event.type == "Warning"]
    assert warning.reason == "NodeListsTooLong"
    assert "of 140 pods take 1126778 bytes of the 1048576" in warning.message
    assert "lower the replicas" in warning.message
    cluster.scale("collector", 111).settle().run().settle()
    assert cluster.phase == "Running"
    assert cluster.pods.keys() - before.keys() == {"x-collector-110"}
    assert cluster.status["restarts"] == 0


@pytest.mark.proves("events.md#of-its-life/nodeliststoolong")
def test_a_new_job_whose_lists_are_too_long_waits_without_pods() -> None:
    cluster = long_names(task("collector", 140)).settle()
    assert cluster.phase == "Pending"
    assert cluster.condition("Pending")["reason"] == "NodeListsTooLong"
    assert not cluster.pods


def test_lists_that_the_api_server_refuses_end_no_job() -> None:
    cluster = running(task("collector", 110))
    fault = NodeListsRefused(message="data: Too long")
    decision = on_error(cluster.snapshot(), fault, cluster.now)
    assert decision.status is not None
    assert decision.status["phase"] == "Running"
    (event,) = decision.events
    assert (event.type, event.reason) == ("Warning", "NodeListsTooLong")
