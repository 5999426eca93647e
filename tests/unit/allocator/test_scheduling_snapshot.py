"""What the allocator sees of a cluster, and what of its answer can be had at once."""

from __future__ import annotations

from typing import Any

import pytest

from di_api.validation import load_leniently as load
from di_operator.allocator.grants.granting import reduced
from di_operator.allocator.model.job import WAIT, NodeList
from di_operator.allocator.model.resources import PODS, UNIT
from di_operator.allocator.observe.inventory import Unreadable
from di_operator.allocator.placement.current_free_capacity import PresentRoom
from di_operator.builders.pinning import pin
from di_operator.lifecycle.observed.specs import read_spec
from tests.unit.allocator.objects import (
    GANG,
    SLOT,
    free,
    job,
    left,
    node,
    other,
    placed,
    pod,
    snapshot,
    task,
)

Object = dict[str, Any]


def test_pods_of_others_and_of_fixed_jobs_take_capacity() -> None:
    fixed = job("fixed", task("learner", 2), preemptible=False)
    found = snapshot(fixed, pods=[pod("fixed", "learner", "b")] * 2, others=[other("a")])
    assert found.jobs == {}
    assert free(found.nodes) == {"a": 3, "b": 2}


def test_the_capacity_of_preemptible_jobs_is_free_to_the_policy() -> None:
    running = job("x", task("learner", 2), status={"placement": {"learner": ["a", "a"]}})
    found = snapshot(running, pods=[pod("x", "learner", "a")] * 2)
    assert free(found.nodes) == {"a": 4, "b": 4}
    assert free(found.now) == {"a": 2, "b": 4}
    assert found.held["rl/x"] == placed(learner="a a")
    assert left(found) == {"a": 2, "b": 4}


def test_a_grant_counts_before_the_status_shows_it() -> None:
    waiting = job("x", task("learner", 2), phase="Pending")
    found = snapshot(waiting, granted={"uid-x": placed(learner="b b")})
    assert found.held["rl/x"] == placed(learner="b b")
    assert left(found) == {"a": 4, "b": 2}


@pytest.mark.parametrize(
    ("body", "pods"),
    [
        (job("x", task("learner"), phase="Failed"), [pod("x", "learner", "a")]),
        (
            job("x", task("learner"), suspend=True, status={"placement": {"learner": ["a"]}}),
            [pod("x", "learner", "a")],
        ),
        (
            job("x", task("learner"), metadata={"deletionTimestamp": "2026-01-01T12:00:00Z"}),
            [pod("x", "learner", "a")],
        ),
        (job("x", task("learner"), preemptible=False), [pod("x", "learner", "a", ending=True)]),
    ],
    ids=["of a job that ended", "of a suspended job", "of a deleted job", "being deleted"],
)
def test_terminating_pods_take_capacity_only_at_present(body: Object, pods: list[Object]) -> None:
    found = snapshot(body, pods=pods)
    assert found.jobs == {}
    assert free(found.nodes)["a"] == 4
    assert free(found.now)["a"] == 3


def test_an_unbound_pod_takes_capacity_where_it_is_pinned() -> None:
    running = job("x", task("learner", 2), status={"placement": {"learner": ["a", "a"]}})
    unbound = pod("x", "learner", "") | {"spec": {"affinity": pin("a")}}
    foreign = other("")
    foreign["spec"] |= {"affinity": pin("b")}
    found = snapshot(running, pods=[pod("x", "learner", "a"), unbound], others=[foreign])
    assert (free(found.nodes), free(found.now)) == ({"a": 4, "b": 4}, {"a": 2, "b": 4})
    assert found.present["rl/x"] == {("learner", "a"): 2}


def test_pods_that_are_not_cleaned_up_keep_their_capacity() -> None:
    ended = job("x", task("learner"), phase="Failed", cleanPodPolicy="None")
    assert free(snapshot(ended, pods=[pod("x", "learner", "a")]).nodes)["a"] == 3


def test_ended_pods_take_no_capacity() -> None:
    running = job("x", task("learner"), preemptible=False)
    found = snapshot(running, pods=[pod("x", "learner", "a", phase="Succeeded")])
    assert free(found.now)["a"] == 4


def test_a_gang_is_in_the_snapshot_until_it_has_pods() -> None:
    waiting = job("x", task("learner", 2), phase="Pending", **GANG)
    assert snapshot(waiting).jobs["rl/x"].gang
    for phase in ("Pending", "Starting", "Restarting", "Running"):
        begun = job("x", task("learner", 2), phase=phase, **GANG)
        assert snapshot(begun, pods=[pod("x", "learner", "")]).jobs == {}


TWO_TASKS = (task("learner", 1), task("collector", 2))
HALF = {"learner": {"Succeeded": 1}, "collector": {"Running": 2}}


@pytest.mark.parametrize(
    ("gang", "pods", "room"),
    [
        (job("x", task("learner", 3), phase="Starting", **GANG), [], 5),
        (job("x", task("learner", 3), phase="Starting", **GANG), ["a", "", ""], 5),
        (job("x", task("learner", 3), phase="Pending", **GANG), ["a", "b"], 5),
        (job("x", task("learner", 3), phase="Starting", **GANG), ["a", "b", "b"], 5),
        (job("x", task("learner", 3), phase="Restarting", **GANG), [], 5),
        (job("x", task("learner", 3), phase="Rescheduling", **GANG), ["a", "a"], 5),
        (job("x", *TWO_TASKS, phase="Pending", **GANG), ["a"], 5),
        (job("x", *TWO_TASKS, phase="Starting", status={"taskStatus": HALF}, **GANG), [], 6),
        (job("x", task("learner", 3), phase="Running", suspend=True, **GANG), [], 8),
        (job("x", task("learner", 3), phase="Failed", **GANG), [], 8),
    ],
    ids=[
        "no pod is there yet",
        "one of three is bound",
        "one of three is not made yet",
        "all are bound",
        "all are created again",
        "one is replaced",
        "a task waits for another",
        "a task has succeeded",
        "it is suspended",
        "it has ended",
    ],
)
def test_a_gang_keeps_its_capacity_until_all_pods_are_bound(
    gang: Object, pods: list[str], room: int
) -> None:
    found = snapshot(gang, pods=[pod("x", "learner", name) for name in pods])
    assert found.jobs == {}
    assert sum(free(found.nodes).values()) == room
    assert sum(free(found.now).values()) == room


def test_a_pinned_pod_of_a_gang_counts_as_bound_once_it_is() -> None:
    gang = job("x", task("learner", 2), phase="Starting", **GANG)
    unbound = pod("x", "learner", "") | {"spec": {"affinity": pin("a")}}
    for pods in ([], [unbound, unbound], [pod("x", "learner", "a"), unbound]):
        assert sum(free(snapshot(gang, pods=pods).nodes).values()) == 6


def test_preemptible_jobs_give_way_to_the_rest_of_a_gang() -> None:
    gang = job("x", task("learner", 2), phase="Starting", **GANG)
    parts: Object = {"others": [other("a")]}
    parts["pods"] = [pod("x", "learner", "b"), pod("y", "learner", "a")]
    status = {"placement": {"learner": ["a"]}}
    moves = snapshot(gang, job("y", task("learner"), status=status), **parts)
    assert left(moves) == {"a": 1, "b": 3}
    status = {"placement": {"learner": ["a", "a", "a", "b", "b", "b"]}}
    moves = snapshot(gang, job("y", task("learner", 6), status=status), **parts)
    assert free(moves.nodes) == {"a": 2, "b": 3}
    waits = job("z", task("learner", 6), phase="Pending", **GANG)
    granted = {"uid-z": placed(learner="a a a b b b")}
    assert free(snapshot(gang, waits, granted=granted, **parts).nodes) == {"a": 3, "b": 3}


def test_an_invalid_new_job_is_left_out_and_a_running_one_is_not() -> None:
    new, old = (job(x, task("learner", 0), phase=p) for x, p in (("x", ""), ("y", "Running")))
    found = snapshot(new, old)
    assert found.jobs.keys() == {"rl/y"}
    assert found.unreadable == {}


def test_a_job_with_a_malformed_spec_is_left_out() -> None:
    unreadable = job("x", task("learner", replicas="two"))  # type: ignore[arg-type]  # text
    assert snapshot(unreadable, job("y", task("learner"))).jobs.keys() == {"rl/y"}


@pytest.mark.parametrize("is_deleted", [False, True])
def test_pods_of_a_job_with_a_malformed_field_take_their_capacity(is_deleted: bool) -> None:
    status = {"phase": "Running", "placement": {"learner": ["a", "a"]}}
    bad = job("x", task("learner", 2), status=status, backoffLimit="many")
    present, departed = ([], [bad]) if is_deleted else ([bad], [])
    found = snapshot(*present, pods=[pod("x", "learner", "a")] * 2, departed=departed)
    assert found.jobs == {}
    assert free(found.now) == {"a": 2, "b": 4}
    assert free(found.nodes) == {"a": 4 if is_deleted else 2, "b": 4}
    assert found.unreadable == {}


@pytest.mark.parametrize("pods", [0, 1, 2])
def test_a_job_that_is_left_out_keeps_the_nodes_of_missing_pods(pods: int) -> None:
    status = {"phase": "Running", "placement": {"learner": ["a", "a"]}}
    there = [pod("x", "learner", "a")] * pods
    bad = job("x", task("learner", 2), status=status, backoffLimit="many")
    unreadable = snapshot(bad, pods=there)
    set_aside = snapshot(
        job("x", task("learner", 2), status=status), pods=there, rejected={"uid-x": "it fails"}
    )
    for found in (unreadable, set_aside):
        assert found.jobs == {}
        assert free(found.nodes) == free(found.now) == {"a": 2, "b": 4}


def test_pods_of_a_job_that_this_process_never_knew_close_their_node_for_now() -> None:
    found = snapshot(job("y", task("learner"), phase="Pending"), pods=[pod("x", "learner", "a")])
    assert free(found.nodes) == {"a": 4, "b": 4}
    assert free(found.now) == {"a": 0, "b": 4}


def test_pods_of_a_job_with_malformed_tasks_count_as_pods() -> None:
    bad = job("x", task("learner", replicas="two"))  # type: ignore[arg-type]  # text
    found = snapshot(bad, pods=[pod("x", "learner", "a")])
    assert [one.name for one in found.unreadable.values()] == ["x"]
    assert found.nodes["a"].free[PODS] == found.nodes["b"].free[PODS] - UNIT


def test_an_unreadable_job_is_named_and_the_others_are_read() -> None:
    def reading(body: Any) -> Any:
        if body["metadata"]["name"] == "bad":
            raise ZeroDivisionError("no such thing")
        return read_spec(body)

    jobs = [job(name, task("learner")) for name in ("bad", "good")]
    pods = [pod("bad", "learner", "a"), pod("good", "learner", "b")]
    found = snapshot(*jobs, pods=pods, read_spec=reading)
    assert found.jobs.keys() == {"rl/good"}
    assert found.present["rl/good"].total() == 1
    assert found.unreadable == {"uid-bad": Unreadable("DIJob", "rl", "bad", "no such thing")}


@pytest.mark.parametrize("amount", ["10GB", "", "1.5.2"])
def test_an_invalid_quantity_leaves_out_only_its_job(amount: str) -> None:
    bad = job("bad", task("learner"))
    container = bad["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
    container["resources"] = {"requests": {"memory": amount}}
    found = snapshot(bad, job("good", task("learner")), read_spec=lambda body: load(body["spec"]))
    assert found.jobs.keys() == {"rl/good"}
    assert [one.name for one in found.unreadable.values()] == ["bad"]


def test_a_job_set_aside_keeps_its_capacity_and_has_a_reason() -> None:
    running = job("x", task("learner", 2), status={"placement": {"learner": ["a", "a"]}})
    pods = [pod("x", "learner", "a")] * 2
    found = snapshot(running, pods=pods, rejected={"uid-x": "the policy fails on it"})
    assert found.jobs == {}
    assert free(found.nodes) == {"a": 2, "b": 4}
    assert [one.reason for one in found.unreadable.values()] == ["the policy fails on it"]


def test_a_pod_with_only_a_jobs_labels_is_a_foreign_pod() -> None:
    running = job("x", task("learner"), status={"placement": {"learner": ["a"]}})
    stranger = pod("x", "learner", "b")
    del stranger["metadata"]["ownerReferences"]
    stranger["spec"]["containers"] = [{"resources": {"requests": {SLOT: "3"}}}]
    found = snapshot(running, pods=[pod("x", "learner", "a"), stranger])
    assert found.present["rl/x"].total() == 1
    assert free(found.nodes) == {"a": 4, "b": 1}


def test_an_unreadable_node_is_named_and_left_out() -> None:
    bad = node("c", 4)
    bad["status"]["allocatable"][SLOT] = "many"
    found = snapshot(job("x", task("learner")), nodes=[bad])
    assert found.nodes.keys() == found.now.keys() == {"a", "b"}
    assert [one.name for one in found.unreadable.values()] == ["c"]


def test_an_unreadable_foreign_pod_counts_as_a_pod() -> None:
    bad = other("a")
    bad["spec"]["containers"][0]["resources"]["requests"][SLOT] = "many"
    found = snapshot(others=[bad, other("b")])
    assert free(found.nodes) == {"a": 4, "b": 3}
    assert found.nodes["a"].free["pods"] == 98_000
    assert [one.kind for one in found.unreadable.values()] == ["Pod"]


def test_the_specs_of_ended_jobs_are_not_read() -> None:
    ended = {"completionTimestamp": "2026-01-01T11:30:00Z"}
    jobs = [job(f"j{n}", task("learner"), phase="Succeeded", status=ended) for n in range(3)]
    read: list[str] = []

    def reading(body: Any) -> Any:
        read.append(body["metadata"]["name"])
        return read_spec(body)

    pods = [pod("j0", "learner", "a", phase="Succeeded"), pod("j1", "learner", "a")]
    snapshot(*jobs, job("x", task("learner")), pods=pods, read_spec=reading)
    assert sorted(read) == ["j1", "x"]


def test_the_attained_service_is_read_from_the_status() -> None:
    running = job(
        "x",
        task("learner", 2),
        status={
            "placement": {"learner": ["a", "a"]},
            "placementTime": "2026-01-01T11:59:00Z",
            "replicaSeconds": 1000,
        },
    )
    assert snapshot(running).jobs["rl/x"].attained == 1120


def test_a_grant_waits_for_terminating_pods() -> None:
    leaving = [pod("old", "learner", "b", ending=True)] * 3
    found = snapshot(
        job("x", task("learner", 4), phase="Pending"),
        pods=leaving,
        departed=[job("old", task("learner", 3))],
    )
    assert free(found.nodes)["b"] == 4
    room = PresentRoom(found)
    assert not room.take("rl/x", placed(learner="b b"))
    assert room.take("rl/x", placed(learner="b a"))


def test_a_grant_waits_for_the_pod_of_an_index_that_the_job_gives_up() -> None:
    found = snapshot(
        job("x", task("learner", 3, minReplicas=1)),
        pods=[pod("x", "learner", node) for node in "aac"],
        granted={"uid-x": placed(learner="a a c")},
        nodes=[node("c", 2)],
    )
    room = PresentRoom(found)
    # The first two indexes move to the node that the last one leaves.
    assert not room.take("rl/x", placed(learner="c c"))
    assert room.take("rl/x", placed(learner="a c c"))


def test_a_grant_leaves_the_capacity_of_earlier_grants() -> None:
    first = job("x", task("learner", 3), phase="Pending")
    second = job("y", task("learner", 2), phase="Pending")
    found = snapshot(first, second, granted={"uid-x": placed(learner="a a a")})
    room = PresentRoom(found)
    # A move that fails leaves the job what it was granted.
    assert not room.take("rl/x", placed(learner="b b b b b"))
    assert not room.take("rl/y", placed(learner="a a"))
    assert room.take("rl/y", placed(learner="a b"))


@pytest.mark.parametrize(
    ("had", "wants", "keeps"),
    [
        ({"learner": "a"}, {"learner": "b"}, WAIT),
        ({"learner": "a"}, {"learner": "a a"}, {"learner": "a"}),
        ({"learner": "a a"}, {"learner": "a b"}, WAIT),
        (
            {"learner": "a", "collector": "a b b"},
            {"learner": "a", "collector": "a a b b"},
            {"learner": "a", "collector": "a"},
        ),
        (
            {"learner": "a", "collector": "a b"},
            {"learner": "a", "collector": "b"},
            {"learner": "a"},
        ),
    ],
    ids=[
        "learners move",
        "learners grow where they are",
        "one of two learners moves",
        "collectors change",
        "the first collector moves",
    ],
)
def test_replicas_that_stay_run_on_while_a_job_waits(
    had: dict[str, str], wants: dict[str, str], keeps: dict[str, str] | NodeList
) -> None:
    tasks = [task("learner"), task("collector", 3, minReplicas=1)]
    found = snapshot(
        job("x", *tasks),
        granted={"uid-x": NodeList.of({k: tuple(v.split()) for k, v in had.items()})},
    )
    kept = reduced(found, "rl/x", placed(**wants))
    if isinstance(keeps, NodeList):
        assert kept == keeps
    else:
        assert {name: " ".join(nodes) for name, nodes in kept.tasks if nodes} == keeps
