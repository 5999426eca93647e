"""Room that is kept for pods of others that wait: a table of looks, and what follows from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from di_operator.allocator.model.job import JobInfo, TaskInfo
from di_operator.allocator.observe.changes import Changes
from di_operator.allocator.observe.cluster_reader import ClusterReader
from di_operator.allocator.observe.gangs import without
from di_operator.allocator.observe.inventory import read_node
from di_operator.allocator.observe.reservations import (
    MOST,
    UNTOUCHED,
    Holder,
    WaitingPod,
    reserve,
)
from di_operator.allocator.policies.best_fit import FitPolicy
from di_operator.builders.pinning import pin
from di_operator.lifecycle.observed.specs import read_spec
from tests.unit.allocator.objects import (
    NOW,
    SLOT,
    free,
    job,
    node,
    numbered,
    placed,
    pod,
    snapshot,
    task,
)

Object = dict[str, Any]
REFUSED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}


def waiting(slots: int, priority: int = 0, name: str = "web", **spec: Any) -> Object:
    """A foreign pod that its scheduler has refused."""
    container = {"resources": {"requests": {SLOT: str(slots)}}}
    return {
        "metadata": {"name": name, "namespace": "web", "uid": f"uid-{name}"},
        "spec": {"containers": [container], "priority": priority, **spec},
        "status": {"phase": "Pending", "conditions": [REFUSED]},
    }


def holder(priority: int, **slots: int) -> Holder:
    """A job that has so many slots of each node."""
    one = TaskInfo(name="w", replicas=1, minimum=0, maximum=9, resources={SLOT: 1000, "pods": 1000})
    nodes = [name for name, count in slots.items() for _ in range(count)]
    info = JobInfo(key=f"rl/{priority}", tasks=(one,), preemptible=True, age=0.0)
    return Holder(priority=priority, job=info, held=placed(w=" ".join(nodes)))


@dataclass(frozen=True, kw_only=True)
class Row:
    pods: tuple[Object, ...]
    holders: tuple[Holder, ...] = ()
    kept: dict[str, int] = field(default_factory=dict)
    """Slots by node. Both nodes, a and b, have four."""


TABLE = {
    "what jobs of less priority have is kept": Row(
        pods=(waiting(2, 5),), holders=(holder(0, a=4, b=4),), kept={"a": 2}
    ),
    "what jobs of the same priority have is not": Row(
        pods=(waiting(2, 5),), holders=(holder(5, a=4, b=4),)
    ),
    "what jobs of more priority have is not": Row(
        pods=(waiting(2, 5),), holders=(holder(5, a=3), holder(9, b=4))
    ),
    "nor what a job has that gives up nothing": Row(
        pods=(waiting(2, 5),), holders=(holder(UNTOUCHED, a=4, b=3),)
    ),
    "only those below make room": Row(
        pods=(waiting(2, 5),), holders=(holder(9, a=3), holder(0, a=1, b=4)), kept={"b": 2}
    ),
    "where least is taken from jobs": Row(
        pods=(waiting(2, 5),), holders=(holder(0, a=4, b=3),), kept={"b": 2}
    ),
    "what fits on no empty node keeps nothing": Row(
        pods=(waiting(5, 5),), holders=(holder(0, a=4, b=4),)
    ),
    "and it does not stop the next one": Row(
        pods=(waiting(5, 6, "x"), waiting(2, 5, "y")), holders=(holder(0, a=4, b=4),), kept={"a": 2}
    ),
    "where it may not go nothing is kept": Row(
        pods=(waiting(2, 5, affinity=pin("b")),), holders=(holder(0, a=1, b=4),), kept={"b": 2}
    ),
    "a node it can have nowhere": Row(pods=(waiting(2, 5, nodeSelector={"disk": "ssd"}),)),
    "a second one gets what the first leaves": Row(
        pods=(waiting(3, 5, "x"), waiting(3, 5, "y")),
        holders=(holder(0, a=4, b=4),),
        kept={"a": 3, "b": 3},
    ),
    "the one of more priority comes first": Row(
        pods=(waiting(3, 5, "x", affinity=pin("a")), waiting(2, 6, "y", affinity=pin("a"))),
        holders=(holder(0, a=4, b=4),),
        kept={"a": 2},
    ),
    "each is kept from its own priority on": Row(
        pods=(waiting(1, 9, "x", affinity=pin("a")), waiting(1, 3, "y", affinity=pin("a"))),
        holders=(holder(5, a=4),),
        kept={"a": 1},
    ),
}


@pytest.mark.parametrize("row", TABLE.values(), ids=TABLE)
def test_capacity_is_kept_for_waiting_pods_of_others(row: Row) -> None:
    nodes = {name: read_node(node(name, 4)) for name in "ab"}
    kept = reserve(map(WaitingPod.read, row.pods), nodes, row.holders)
    assert {name: taken[SLOT] // 1000 for name, taken in kept.items()} == row.kept
    expected = {name: 4 - row.kept.get(name, 0) for name in "ab"}
    assert free(without(nodes, kept)) == expected


def test_capacity_is_kept_for_a_limited_number_of_pods() -> None:
    nodes = {"a": read_node(node("a", 99))}
    pods = [WaitingPod.read(waiting(1, 5, str(number))) for number in range(MOST + 1)]
    assert reserve(pods, nodes, [])["a"][SLOT] == MOST * 1000


def running(**status: Any) -> Object:
    body = job("x", task("learner", 4, minReplicas=1, maxReplicas=4), status=status)
    return body | {"spec": body["spec"] | {"preemptible": True}}


def learners(priority: int = 0) -> list[Object]:
    found = [pod("x", "learner", "b") for _ in range(4)]
    return [one | {"spec": {**one["spec"], "priority": priority}} for one in found]


WHERE = {"placement": {"learner": ["b"] * 4}}


def test_only_a_pod_of_higher_priority_shrinks_a_job() -> None:
    for priority, left in ((1, 2), (0, 4)):
        others = [waiting(2, priority, affinity=pin("b"))]
        found = snapshot(running(**WHERE), pods=learners(), others=others)
        assert free(found.nodes)["b"] == left
        answer = FitPolicy().optimize(found.jobs, found.nodes, found.held)
        assert list(answer["rl/x"]).count("b") <= left
        assert len(answer["rl/x"]) >= 1


def test_the_priority_of_a_job_is_that_of_its_pods() -> None:
    others = [waiting(2, 1, affinity=pin("b"))]
    found = snapshot(running(**WHERE), pods=learners(1), others=others)
    assert free(found.nodes)["b"] == 4


@pytest.mark.parametrize(
    "status",
    [
        {"phase": "Pending"},
        {"phase": "Pending", "conditions": [REFUSED], "nominatedNodeName": "b"},
        {"phase": "Failed", "conditions": [REFUSED]},
    ],
    ids=["its scheduler has not looked yet", "room is being made", "it has ended"],
)
def test_no_capacity_is_kept_for_a_pod_that_needs_none(status: Object) -> None:
    other = waiting(2, 5, affinity=pin("b")) | {"status": status}
    assert free(snapshot(running(**WHERE), pods=learners(), others=[other]).nodes)["b"] == 4


def test_a_gang_with_granted_nodes_keeps_them() -> None:
    gang = job("g", task("learner", 4), preemptible=False, scheduling={"gang": True})
    granted = {"uid-g": placed(learner="a a a a")}
    starting = gang | {"status": {"phase": "Pending"}}
    others = [waiting(2, 5, affinity=pin("a"))]
    found = snapshot(starting, granted=granted, others=others)
    assert set(found.jobs) == {"rl/g"}
    assert free(found.nodes)["a"] == 4


def test_capacity_for_a_pod_that_would_fit_is_kept_for_a_minute() -> None:
    reader = ClusterReader(read_spec)
    body, others = running(**WHERE), waiting(2, 5, affinity=pin("b"))
    pods = numbered(learners())
    reader.take(
        Changes.all(jobs=[body], departed=[], nodes=[node("b", 4)], pods=pods, others=[others])
    )

    def kept(after: float) -> bool:
        found = reader.read(granted={}, now=NOW + timedelta(seconds=after))
        return free(found.nodes)["b"] == 2

    # However long it takes until the room is there.
    assert kept(0)
    assert kept(1000)
    for one in pods[:2]:
        reader.remove_pod(one)
    assert kept(1001)
    assert kept(1060)
    assert not kept(1061)
    # Another pod took the capacity.
    reader.put_pod(pods[0])
    assert kept(1062)

    bound = {**others, "spec": {**others["spec"], "nodeName": "b"}, "status": {"phase": "Running"}}
    reader.remove_pod(pods[0])
    reader.put_other(bound)
    found = reader.read(granted={}, now=NOW)
    assert (free(found.nodes)["b"], free(found.now)["b"]) == (2, 0)
    reader.remove_other(bound)
    assert free(reader.read(granted={}, now=NOW).nodes)["b"] == 4


def test_an_unreadable_waiting_pod_is_named() -> None:
    broken = waiting(2, 5)
    broken["spec"]["containers"][0]["resources"]["requests"][SLOT] = "many"
    assert {one.name for one in snapshot(others=[broken]).unreadable.values()} == {"web"}


def fixed(**spec: Any) -> Object:
    """A job of one learner that is not preemptible; its pod takes one slot."""
    made = task("learner", 1)
    made["template"]["spec"]["nodeSelector"] = {"metadata.name": "b"}
    return job("f", made, phase="Starting", preemptible=False, **spec)


def refused(priority: int = 0) -> Object:
    made = pod("f", "learner", "")
    made["status"] = {"phase": "Pending", "conditions": [REFUSED]}
    made["spec"] = {"priority": priority}
    return made


@pytest.mark.parametrize(
    ("spec", "priority", "left"),
    [
        ({"priority": "high"}, 0, 3),
        ({}, 0, 4),
        # As a pod of another owner.
        ({}, 1, 3),
        ({"priority": "high"}, -1, 4),
        # The rest of a gang has a reservation of its own.
        ({"priority": "high", "scheduling": {"gang": True}}, 0, 3),
    ],
    ids=["high", "normal", "class of its own", "lower class of its own", "a gang"],
)
def test_a_refused_pod_of_a_job_gets_room_from_jobs_of_lower_priority(
    spec: Object, priority: int, left: int
) -> None:
    found = snapshot(running(**WHERE), fixed(**spec), pods=[*learners(), refused(priority)])
    assert free(found.nodes)["b"] == left
    answer = FitPolicy().optimize(found.jobs, found.nodes, found.held)
    assert list(answer["rl/x"]).count("b") <= left


def test_a_high_job_gets_no_room_from_another_of_high_priority() -> None:
    high = running(**WHERE)
    high = high | {"spec": high["spec"] | {"priority": "high"}}
    found = snapshot(high, fixed(priority="high"), pods=[*learners(), refused()])
    assert free(found.nodes)["b"] == 4


def test_room_for_a_job_is_given_back_when_its_pod_is_bound_or_it_ends() -> None:
    reader = ClusterReader(read_spec)
    body, high = running(**WHERE), fixed(priority="high")
    pods = numbered([*learners(), refused()])
    reader.take(
        Changes.all(jobs=[body, high], departed=[], nodes=[node("b", 5)], pods=pods, others=[])
    )

    def left() -> int:
        return free(reader.read(granted={}, now=NOW).nodes)["b"]

    assert left() == 4
    bound = pods[-1] | {"spec": {"nodeName": "b"}, "status": {"phase": "Running"}}
    reader.put_pod(bound)
    assert left() == 4
    reader.put_pod(pods[-1])
    reader.remove_pod(pods[-1])
    reader.remove_job(high)
    assert left() == 5
