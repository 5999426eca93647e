"""What of a job's topology Kueue is asked for, and what it cannot do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from di_api.spec import Colocate, Topology
from di_operator.kueue.portions import PodSet
from di_operator.kueue.topology import domains_of, with_requests
from di_operator.kueue.workload import Workload

ZONE = "topology.kubernetes.io/zone"


def pod_set(task: str, count: int, *, of_leaders: bool = False) -> PodSet:
    return PodSet(task=task, of_leaders=of_leaders, count=count, template={})


def requests(*pod_sets: PodSet, **topology: Any) -> tuple[Mapping[str, Any], str]:
    """What is asked of each podSet, and the reason why Kueue cannot do it."""
    found, problem = with_requests(pod_sets, [Topology(**topology)])
    asked = {each.name: each.body()["topologyRequest"] for each in found if each.topology}
    return asked, problem.message if problem else ""


def test_each_task_has_a_domain() -> None:
    both = pod_set("learner", 1), pod_set("rollout", 4)
    assert requests(*both, tasks=("rollout",), required=ZONE) == (
        {"rollout": {"required": ZONE}},
        "",
    )
    asked, _ = requests(*both, tasks=("rollout", "learner"), preferred=ZONE)
    assert asked == {"learner": {"preferred": ZONE}, "rollout": {"preferred": ZONE}}


def test_two_tasks_share_a_domain_if_one_is_a_single_pod() -> None:
    together = {"tasks": ("learner", "rollout"), "colocate": Colocate.TASKS, "required": ZONE}
    asked, why = requests(pod_set("learner", 1), pod_set("rollout", 4), **together)
    assert why == ""
    assert asked["learner"] == asked["rollout"]
    assert asked["learner"] == {"required": ZONE, "podSetGroupName": "topology-0-learner"}
    _, why = requests(pod_set("learner", 2), pod_set("rollout", 4), **together)
    assert "requires it of 2 of learner, 4 of rollout" in why


def test_leaders_with_their_own_template_join_their_tasks_domain() -> None:
    pod_sets = pod_set("rollout", 1, of_leaders=True), pod_set("rollout", 3)
    asked, _ = requests(*pod_sets, tasks=("rollout",), required=ZONE)
    assert asked["rollout-leader"] == {"required": ZONE, "podSetGroupName": "topology-0-rollout"}


def test_a_task_may_have_the_name_of_another_tasks_leaders() -> None:
    pod_sets = pod_set("work", 3), pod_set("work-leader", 2)
    assert requests(*pod_sets, tasks=("work",), required=ZONE) == (
        {"work": {"required": ZONE}},
        "",
    )


def test_colocation_by_replica_can_only_be_preferred() -> None:
    by_replica = {"tasks": ("rollout",), "colocate": Colocate.REPLICA}
    assert requests(pod_set("rollout", 4), **by_replica, preferred=ZONE) == ({}, "")
    asked, why = requests(pod_set("rollout", 4), **by_replica, required=ZONE)
    assert [asked, why] == [
        {},
        "in a queue of Kueue colocate Replica can be preferred, not required",
    ]


def test_domains_are_those_that_kueue_has_assigned() -> None:
    def core(**more: Any) -> Workload:
        raw: dict[str, Any] = {
            "metadata": {"name": "x-core", "namespace": "rl", "uid": "u", "resourceVersion": "1"},
            "spec": {"podSets": [{"name": "rollout", "topologyRequest": {"required": ZONE}}]},
            "status": {"admission": {"podSetAssignments": [{"name": "rollout", **more}]}},
        }
        return Workload.read(raw)

    leaders = [pod_set("rollout", 1, of_leaders=True)]
    assigned = domains_of(core(topologyAssignment={"levels": [ZONE]}), leaders)
    assert assigned.leaders == {"rollout": "rollout-leader"}
    assert assigned.workload == "x-core"
    assert assigned.pod_sets == {"rollout": {"kueue.x-k8s.io/podset-required-topology": ZONE}}
    assert domains_of(core(), []).pod_sets == {}
    assert domains_of(None, []).pod_sets == {}
