"""Preemptible jobs share simulated GPU nodes beside the real one, installed as users install it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from di_cluster.simulated import NODE_LABEL
from tests.e2e.conftest import GPUS, NODES
from tests.e2e.gpu_jobs import GPU, SIMULATED, learners, report, settled
from tests.e2e.jobs import job, task
from tests.e2e.kubectl import Kubectl, Object
from tests.e2e.pods import condition, pods_of, wait_for_phase
from tests.waiting import DEADLINE, wait_until


def restarts(kubectl: Kubectl, name: str, namespace: str) -> int:
    status: Object = kubectl.get("dijob", name, namespace=namespace)["status"]
    return int(status["restarts"])


def two_that_report(kubectl: Kubectl, namespace: str) -> None:
    """The jobs `a` and `b`, both of which gain from every GPU, and have said so."""
    for name in "ab":
        kubectl.apply(learners(name, namespace))
    # Of a job that has not said how fast it is nobody knows whether it can use a second node.
    settled(kubectl, "ab", namespace, lambda sizes: max(sizes.values()) <= GPUS)
    report(kubectl, "ab", namespace)


def test_jobs_share_the_gpus_as_they_come_and_go(
    kubectl: Kubectl, namespace: str, gpu_nodes: list[str]
) -> None:
    everything = NODES * GPUS
    two_that_report(kubectl, namespace)
    # Equal jobs, equal shares, even if the first report was acted upon before the second came.
    shared = settled(kubectl, "ab", namespace, lambda sizes: {*sizes.values()} == {everything // 2})
    assert not shared["a"] & shared["b"]

    # One more arrives: it starts small, and the others make room.
    kubectl.apply(learners("c", namespace))
    settled(kubectl, "abc", namespace, lambda sizes: sum(sizes.values()) == everything)
    # How fast it grows at the cost of the others is weighed against their restarts.
    report(kubectl, "c", namespace)

    # One ends: what it had goes to the others.
    kubectl("--namespace", namespace, "delete", "dijob", "b", "--wait=false")
    rest = settled(kubectl, "ac", namespace, lambda sizes: sum(sizes.values()) == everything)

    # A node goes: whoever was there moves, and nobody counts it as a failure.
    lost = next(iter(rest["a"]))
    kubectl("delete", "node", lost)
    after = settled(
        kubectl,
        "ac",
        namespace,
        lambda sizes: everything // 2 <= sum(sizes.values()) <= everything - GPUS,
    )
    assert lost not in {*after["a"], *after["c"]}
    assert [restarts(kubectl, name, namespace) for name in "ac"] == [0, 0]


def test_a_job_that_can_never_fit_says_so(
    kubectl: Kubectl, namespace: str, gpu_nodes: list[str]
) -> None:
    greedy = learners("greedy", namespace)
    limits = greedy["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["resources"]["limits"]
    limits[GPU] = str(GPUS + 1)
    kubectl.apply(greedy)

    message = _wait_for(kubectl, "greedy", "Unschedulable", namespace)
    assert f"lacks 1 {GPU}" in message
    assert not pods_of(kubectl, "greedy", namespace=namespace)


@contextmanager
def cluster_object(kubectl: Kubectl, body: Object) -> Iterator[None]:
    """An object of the whole cluster, for a while."""
    kubectl.apply(body)
    try:
        yield
    finally:
        kubectl("delete", body["kind"], body["metadata"]["name"], "--wait=false")


def test_pods_of_more_priority_get_room_and_a_drain_loses_no_job(
    kubectl: Kubectl, namespace: str, gpu_nodes: list[str]
) -> None:
    # Another test has taken one away.
    everything = GPUS * len(kubectl.items("nodes", SIMULATED, namespace=namespace))
    two_that_report(kubectl, namespace)
    settled(kubectl, "ab", namespace, lambda sizes: sum(sizes.values()) == everything)

    pod = learners("none", namespace)["spec"]["tasks"][0]["template"]["spec"]
    pod["containers"][0]["resources"]["limits"][GPU] = str(GPUS)
    ordinary = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "ordinary", "namespace": namespace},
        "spec": {**pod, "priorityClassName": namespace},
    }
    # The scheduler ends nobody for it: the room is the allocator's to make.
    above = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": namespace},
        "value": 7,
        "preemptionPolicy": "Never",
    }
    with cluster_object(kubectl, above):
        kubectl.apply(ordinary)
        kubectl(
            *("--namespace", namespace, "wait", "pod/ordinary", "--for=condition=Ready"),
            *(f"--timeout={DEADLINE:.0f}s",),
            seconds=DEADLINE + 60,
        )
        held = kubectl.get("pod", "ordinary", namespace=namespace)["spec"]["nodeName"]
        rest = settled(
            kubectl, "ab", namespace, lambda sizes: sum(sizes.values()) <= everything - GPUS
        )
        assert held not in {*rest["a"], *rest["b"]}

    drained = [next(iter(rest[name])) for name in "ab"]
    try:
        kubectl("drain", *drained, "--timeout=240s", seconds=300)
        after = settled(
            kubectl, "ab", namespace, lambda sizes: sum(sizes.values()) <= everything - 3 * GPUS
        )
        assert not {*drained} & {*after["a"], *after["b"]}
        assert [restarts(kubectl, name, namespace) for name in "ab"] == [0, 0]
    finally:
        kubectl("uncordon", *drained)


def test_a_job_runs_with_a_volume_that_waits_for_its_first_consumer(
    kubectl: Kubectl, namespace: str, gpu_nodes: list[str], python_image: str, tmp_path: Path
) -> None:
    real = f"--selector={NODE_LABEL[0]}!={NODE_LABEL[1]}"
    (node,) = kubectl.items("nodes", real, namespace=namespace)
    name = node["metadata"]["name"]
    tmp_path.chmod(0o777)
    in_all = {"apiVersion": "storage.k8s.io/v1", "metadata": {"name": namespace}}
    waits = {
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    size, modes = {"storage": "1Gi"}, ["ReadWriteOnce"]
    there = {
        "key": "kubernetes.io/hostname",
        "operator": "In",
        "values": [name],
    }
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": namespace},
        "spec": {
            "storageClassName": namespace,
            "capacity": size,
            "accessModes": modes,
            "hostPath": {"path": str(tmp_path)},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [there]}]}},
        },
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "work", "namespace": namespace},
        "spec": {
            "storageClassName": namespace,
            "accessModes": modes,
            "resources": {"requests": size},
        },
    }
    learner = task(
        "learner", image=python_image, program="open('/data/done', 'w').write('by the learner')"
    )
    (container,) = learner["template"]["spec"]["containers"]
    container["volumeMounts"] = [{"name": "work", "mountPath": "/data"}]
    work = {"name": "work", "persistentVolumeClaim": {"claimName": "work"}}
    body = job("a", namespace=namespace, tasks=[learner], preemptible=True, volumes=[work])
    with (
        cluster_object(kubectl, {**in_all, "kind": "StorageClass", **waits}),
        cluster_object(kubectl, volume),
    ):
        kubectl.apply(claim)
        kubectl.apply(body)
        wait_for_phase(kubectl, "a", "Succeeded", namespace=namespace)
        assert (tmp_path / "done").read_text() == "by the learner"
        claimed = kubectl.get("persistentvolumeclaim", "work", namespace=namespace)
        assert claimed["status"]["phase"] == "Bound"


@pytest.mark.proves("README.md#when-something-is-wrong/the-job-stays-pending")
def test_a_job_whose_only_node_is_taken_says_that_it_waits(
    kubectl: Kubectl, namespace: str, gpu_nodes: list[str]
) -> None:
    """The last one here: what others see of the nodes while its jobs go is nothing they expect."""
    node = kubectl.items("nodes", SIMULATED, namespace=namespace)[0]["metadata"]["name"]
    for name, replicas in (("first", GPUS), ("next", 1)):
        body = learners(name, namespace)
        (learner,) = body["spec"]["tasks"]
        learner |= {"replicas": replicas, "minReplicas": replicas, "maxReplicas": replicas}
        learner["template"]["spec"]["nodeSelector"]["kubernetes.io/hostname"] = node
        kubectl.apply(body)
        if name == "first":
            wait_for_phase(kubectl, name, "Running", namespace=namespace)
    _wait_for(kubectl, "next", "WaitingForNodes", namespace)
    assert not pods_of(kubectl, "next", namespace=namespace)


def _wait_for(kubectl: Kubectl, name: str, reason: str, namespace: str) -> str:
    """Wait until a job is Pending for a reason; the message that goes with it."""

    def told() -> str:
        found = condition(kubectl.get("dijob", name, namespace=namespace), "Pending")
        assert (found["status"], found["reason"]) == ("True", reason), found
        return str(found["message"])

    return wait_until(told, what=f"{name} to be {reason}", every=0.5)
