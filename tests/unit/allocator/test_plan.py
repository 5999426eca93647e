"""What an answer changes, what is refused of it, and why a job can never run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from di_operator.allocator.grants.checked_plan import Change, make_plan
from di_operator.allocator.grants.shortage import find_shortage
from di_operator.allocator.model.free_capacity import FreeCapacity
from di_operator.allocator.model.job import WAIT, JobInfo, NodeList
from di_operator.allocator.model.node import Constraints, Taint
from di_operator.allocator.placement.replica_indexes import with_indexes_kept
from tests.unit.allocator.worlds import amounts, job, node, nodes, task

ROOM = nodes(2, slot=4)
SCALE = Change.SCALE


def on(*names: str, collectors: tuple[str, ...] = ()) -> NodeList:
    return NodeList.of({"learner": names, **({"collector": collectors} if collectors else {})})


FLEXIBLE = job("a", task(2, minimum=1, maximum=4))
TEAM = job("a", task(1), task(1, name="collector", minimum=0, maximum=4))


PAIRS = job("a", task(4, minimum=2, maximum=4, unit=2))
ELASTIC = job("a", task(2, minimum=1, maximum=4, elastic=True))


@pytest.mark.parametrize(
    ("one", "before", "after", "change"),
    [
        (FLEXIBLE, WAIT, on("n000"), Change.START),
        (FLEXIBLE, on("n000"), WAIT, Change.STOP),
        (FLEXIBLE, on("n000"), on("n000", "n000"), Change.RESTART),
        (FLEXIBLE, on("n000"), on("n001"), Change.RESTART),
        (FLEXIBLE, on("n000", "n001"), on("n001", "n000"), None),
        (FLEXIBLE, on("n000"), on("n000"), None),
        (FLEXIBLE, WAIT, WAIT, None),
        # Collectors, replicas that are groups of their own, and members of an elastic group.
        (TEAM, on("n000", collectors=("n000",)), on("n000", collectors=("n000", "n001")), SCALE),
        (PAIRS, on(*["n000"] * 2), on(*["n000"] * 4), SCALE),
        (ELASTIC, on("n000"), on("n000", "n000"), SCALE),
    ],
)
def test_a_change_is_a_start_stop_restart_or_scale(
    one: JobInfo, before: NodeList, after: NodeList, change: Change | None
) -> None:
    plan = make_plan({"a": after}, {"a": one}, ROOM, {"a": before})

    assert plan.changes.get("a") == change
    assert not plan.refused


@pytest.mark.parametrize(
    ("one", "wants", "problem"),
    [
        (FLEXIBLE, on(*["n000"] * 5), "task learner: 5 is not within 1..4"),
        (FLEXIBLE, on("n009"), "there is no node n009"),
        (FLEXIBLE, NodeList((("learner", ("n000",)), ("cook", ("n000",)))), "it has no task cook"),
        (FLEXIBLE, NodeList((("cook", ("n000",)),)), "it has no task cook"),
        (PAIRS, on(*["n000"] * 3), "task learner: 3 is not a multiple of 2"),
    ],
)
def test_an_invalid_answer_is_refused_and_the_job_keeps_its_nodes(
    one: JobInfo, wants: NodeList, problem: str
) -> None:
    held = {"a": on("n001", "n001")}
    plan = make_plan({"a": wants}, {"a": one}, ROOM, held)

    assert plan.refused == {"a": problem}
    assert plan.allocations == held
    assert not plan.changes


@pytest.mark.parametrize(
    ("unit", "had", "wants", "found"),
    [
        (1, "b", "a b", "b a"),
        (1, "b a", "a b b", "b a b"),
        (1, "b b a", "a b", "b a"),
        (1, "b a", "a a", "a a"),
        (1, "a a b", "b b", "b b"),
        (1, "", "b a", "b a"),
        (2, "b b a a", "a a b b", "b b a a"),
        (2, "a b", "a a b b", "a b a b"),
        (2, "b b", "a a b b", "b b a a"),
    ],
)
def test_a_replica_that_stays_keeps_its_index(unit: int, had: str, wants: str, found: str) -> None:
    one = job("x", task(unit, maximum=4 * unit, unit=unit))
    given = with_indexes_kept(one, on(*had.split()), on(*wants.split()))
    assert given == on(*found.split())


def test_a_job_that_is_not_preemptible_is_neither_moved_nor_resized() -> None:
    rigid = job("a", task(2), preemptible=False)
    held = {"a": on("n000", "n000")}

    moved = make_plan({"a": on("n001", "n001")}, {"a": rigid}, ROOM, held)
    started = make_plan({"a": on("n001")}, {"a": rigid}, ROOM, {})

    assert moved.allocations == held
    assert moved.refused == {"a": "it is not preemptible, and would be moved"}
    assert started.refused == {"a": "task learner: 1 is not within 2..2"}
    assert started.allocations == {"a": WAIT}


def test_a_new_job_does_not_displace_a_running_one() -> None:
    jobs = {"a": replace(FLEXIBLE, key="a"), "b": replace(FLEXIBLE, key="b")}
    full = on("n000", "n000", "n000", "n000")

    plan = make_plan({"a": full, "b": full}, jobs, ROOM, {"b": full})

    assert plan.allocations == {"a": WAIT, "b": full}
    assert plan.refused == {"a": "its nodes have not that much room"}


def test_a_job_that_the_answer_omits_keeps_its_nodes_while_they_exist() -> None:
    held = {"a": on("n001")}
    plan = make_plan({}, {"a": FLEXIBLE}, ROOM, {"a": on("gone")})

    assert make_plan({}, {"a": FLEXIBLE}, ROOM, held).allocations == held
    assert plan.allocations == {"a": WAIT}
    assert plan.changes == {"a": Change.STOP}


def test_a_job_that_fits_has_no_shortage() -> None:
    assert find_shortage(job("a", task(8, minimum=8)), FreeCapacity(ROOM)) is None


def test_a_shortage_names_the_closest_nodes() -> None:
    room = {
        "small": node("small", cpu=2, memory=8),
        "large": node("large", cpu=4, memory=8),
        "busy": replace(node("busy", cpu=8, memory=8), free=amounts(cpu=1, memory=8)),
    }
    large = job("a", task(1, name="learner", cpu=4.5, memory=2))
    shortage = find_shortage(large, FreeCapacity(room))

    assert shortage is not None
    assert shortage.task == "learner"
    assert shortage.message == (
        "task learner needs 1 replica, there is room for 0 on 3 of 3 nodes;"
        " closest to one more: large lacks 0.5 cpu, busy lacks 3.5 cpu, small lacks 2.5 cpu"
    )


def test_a_shortage_counts_only_nodes_that_admit_the_job() -> None:
    room = {
        "kept": replace(node("kept", slot=9), taints=(Taint(key="kept"),)),
        "open": node("open", slot=1),
    }
    wide = find_shortage(job("a", task(2)), FreeCapacity(room))
    picky = replace(task(1), constraints=Constraints(selector=(("zone", "z"),)))
    nowhere = find_shortage(job("a", picky), FreeCapacity(room))

    assert wide is not None
    assert "room for 1 on 1 of 2 nodes" in wide.message
    assert nowhere is not None
    assert "none of 2 nodes admits its pods" in nowhere.message


def test_tasks_that_fit_only_one_by_one_are_a_shortage() -> None:
    shortage = find_shortage(job("a", task(8), task(1, name="collector")), FreeCapacity(ROOM))

    assert shortage is not None
    assert "not together" in shortage.message
