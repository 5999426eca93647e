"""The affinity of pods that are to be near each other, and their gate where Kueue sends them."""

from __future__ import annotations

from typing import Any

import pytest

from di_api.spec import Colocate, Task, TaskType, Topology
from di_operator.builders.metadata import job_labels
from di_operator.builders.topology import GATE, Domains, near, replica_label, topology_of

JOB = {"metadata": {"name": "x", "namespace": "rl", "uid": "uid-x"}}
RACK, ZONE = "example.com/rack", "topology.kubernetes.io/zone"
TASK = Task(name="rollout", type=TaskType.NONE, replicas=4, template={}, pods_per_replica=2)
TOGETHER = Topology(tasks=("rollout", "trainer"), colocate=Colocate.TASKS, required=ZONE)
BY_REPLICA = Topology(tasks=("rollout",), colocate=Colocate.REPLICA, preferred=RACK)


def affinity(spec: dict[str, Any], *topology: Topology, index: int = 3) -> dict[str, Any]:
    found: dict[str, Any] = near(spec, job_labels(JOB), TASK, index, topology)["affinity"]
    return found


def selector(tasks: list[str], **more: str) -> dict[str, Any]:
    return {
        "matchLabels": {"diengine/job": "x", "diengine/operator": "di-operator", **more},
        "matchExpressions": [{"key": "diengine/task-name", "operator": "In", "values": tasks}],
    }


@pytest.mark.proves("dijob.md#spec/scheduling-topology", "dijob.md#spec/required")
def test_pods_of_several_tasks_are_to_be_where_any_of_them_are() -> None:
    assert affinity({}, TOGETHER) == {
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": ZONE, "labelSelector": selector(["rollout", "trainer"])}
            ]
        }
    }


@pytest.mark.proves("dijob.md#spec/colocate")
def test_pods_of_a_replica_know_each_other_by_a_label() -> None:
    assert replica_label(TASK, 3, [BY_REPLICA]) == {"diengine/replica-index": "1"}
    assert replica_label(TASK, 3, [TOGETHER]) == {}
    (term,) = affinity({}, BY_REPLICA)["podAffinity"][
        "preferredDuringSchedulingIgnoredDuringExecution"
    ]
    assert term["podAffinityTerm"] == {
        "topologyKey": RACK,
        "labelSelector": selector(["rollout"], **{"diengine/replica-index": "1"}),
    }


def test_what_the_template_asks_for_stays() -> None:
    when = "requiredDuringSchedulingIgnoredDuringExecution"
    own = {"topologyKey": RACK, "labelSelector": {}}
    theirs = {"nodeAffinity": {}, "podAffinity": {when: [own]}}
    found = affinity({"affinity": theirs}, TOGETHER)
    assert found["nodeAffinity"] == {}
    assert [each["topologyKey"] for each in found["podAffinity"][when]] == [RACK, ZONE]
    assert theirs["podAffinity"] == {when: [own]}, "the template belongs to the cache"


@pytest.mark.proves(
    "teams.md#topology/task-the-default", "dijob.md#spec/tasks-list-of-task-names-up-to-64"
)
def test_a_task_has_those_that_name_it() -> None:
    assert topology_of(TASK, [TOGETHER, BY_REPLICA]) == (TOGETHER, BY_REPLICA)
    trainer = Task(name="trainer", type=TaskType.LEARNER, replicas=1, template={})
    assert topology_of(trainer, [TOGETHER, BY_REPLICA]) == (TOGETHER,)


def test_pods_wait_at_a_gate_where_kueue_sends_them() -> None:
    pod: dict[str, Any] = {
        "metadata": {"labels": {"a": "b"}, "annotations": {}},
        "spec": {"schedulingGates": [{"name": "mine"}]},
    }
    asked = {"kueue.x-k8s.io/podset-required-topology": ZONE}
    domains = Domains(workload="x-core", pod_sets={"rollout": asked})
    found = domains.gated(pod, TASK, 1)
    assert found["spec"]["schedulingGates"] == [{"name": "mine"}, {"name": GATE}]
    assert found["metadata"] == {
        "labels": {"a": "b", "kueue.x-k8s.io/podset": "rollout"},
        "annotations": {"kueue.x-k8s.io/workload": "x-core", **asked},
    }
    assert Domains().gated(pod, TASK, 1) is pod
    pod_sets: dict[str, dict[str, str]] = {"rollout": {}, "rollout-leader": {}}

    def names(leaders: dict[str, str]) -> list[str]:
        domains = Domains(workload="x-core", pod_sets=pod_sets, leaders=leaders)
        labels = [domains.gated(pod, TASK, at)["metadata"]["labels"] for at in (0, 1)]
        return [each["kueue.x-k8s.io/podset"] for each in labels]

    assert names({"rollout": "rollout-leader"}) == ["rollout-leader", "rollout"]
    # The other one is a task of that name.
    assert names({}) == ["rollout", "rollout"]
