"""Running jobs that ask for another number of replicas, under `fit` and `binpack`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from di_operator.allocator.grants.checked_plan import Change, make_plan
from di_operator.allocator.model.job import Account, JobInfo, NodeList, TaskInfo
from di_operator.allocator.policies.best_fit import FitPolicy
from di_operator.allocator.policies.binpack import BinpackPolicy
from tests.unit.allocator.worlds import amounts, by_key, counts, job, nodes, task

POLICIES = pytest.mark.parametrize("policy", [FitPolicy, BinpackPolicy])


def asks(key: str, learners: int = 1, collectors: int = 1, **options: Any) -> JobInfo:
    return job(
        key,
        task(learners, minimum=1, maximum=9),
        task(collectors, name="collector", minimum=1, maximum=9),
        **options,
    )


def has(learners: int, collectors: int) -> NodeList:
    return NodeList.of({"learner": ("n000",) * learners, "collector": ("n000",) * collectors})


def sizes(answer: Mapping[str, NodeList], key: str = "p/x") -> tuple[int, int]:
    return len(answer[key].task("learner")), len(answer[key].task("collector"))


def change(
    policy: Any, found: JobInfo, before: NodeList, slots: int
) -> tuple[tuple[int, int], Change | None]:
    where, jobs, held = nodes(1, slot=slots), by_key(found), {found.key: before}
    answer = policy().optimize(jobs, where, held)
    plan = make_plan(answer, jobs, where, held)
    assert not plan.refused
    return sizes(answer), plan.changes.get(found.key)


@POLICIES
@pytest.mark.parametrize(
    ("asked", "before", "slots", "expected"),
    [
        ((1, 6), (1, 2), 9, ((1, 6), Change.SCALE)),
        ((1, 3), (1, 2), 9, ((1, 3), Change.SCALE)),
        ((1, 6), (1, 2), 5, ((1, 4), Change.SCALE)),
        ((1, 6), (1, 2), 3, ((1, 2), None)),
        ((4, 1), (2, 1), 5, ((4, 1), Change.RESTART)),
        ((4, 1), (1, 1), 3, ((2, 1), Change.RESTART)),
        ((6, 1), (3, 1), 6, ((3, 1), None)),
        ((1, 2), (1, 5), 9, ((1, 2), Change.SCALE)),
        ((2, 1), (4, 1), 9, ((2, 1), Change.RESTART)),
    ],
    ids=[
        "collectors to all",
        "collectors by one",
        "collectors as far as it is free",
        "nothing is free",
        "learners to all",
        "learners to twice as many",
        "learners not by a little",
        "fewer collectors",
        "fewer learners",
    ],
)
def test_a_running_job_gets_the_replicas_it_asks_for(
    policy: Any,
    asked: tuple[int, int],
    before: tuple[int, int],
    slots: int,
    expected: tuple[tuple[int, int], Change | None],
) -> None:
    assert change(policy, asks("p/x", *asked), has(*before), slots) == expected


@POLICIES
def test_members_of_an_elastic_group_grow_without_a_restart(policy: Any) -> None:
    group: TaskInfo = task(6, minimum=1, maximum=9, elastic=True)
    before = NodeList.of({"learner": ("n000",) * 2})
    found = change(policy, job("p/x", group), before, 5)
    assert found == ((5, 0), Change.SCALE)


@POLICIES
def test_a_job_that_waits_comes_before_one_that_grows(policy: Any) -> None:
    jobs = by_key(asks("p/x", 1, 9, age=9), asks("p/waits"))
    answer = policy().optimize(jobs, nodes(1, slot=8), {"p/x": has(1, 2)})
    assert (sizes(answer), sizes(answer, "p/waits")) == ((1, 5), (1, 1))


@POLICIES
@pytest.mark.parametrize("backfill", [False, "reserve"])
def test_a_job_does_not_grow_past_one_that_is_not_overtaken(policy: Any, backfill: Any) -> None:
    large = job("p/large", task(8, minimum=8))
    jobs = by_key(asks("p/x", 1, 9, age=9, ends=10.0), large)
    answer = policy(backfill=backfill).optimize(jobs, nodes(1, slot=8), {"p/x": has(1, 2)})
    assert sizes(answer) == (1, 2)


@POLICIES
def test_a_job_that_its_nodes_do_not_let_grow_keeps_what_it_has(policy: Any) -> None:
    """By shares it is entitled to three replicas of two devices, but two nodes of three devices
    take one each."""
    grows = job("a/x", task(3, minimum=1, maximum=3, gpu=2))
    waits = job("b/gang", task(2, gpu=2), preemptible=False, gang=True)
    held = {"a/x": NodeList.of({"learner": ("n000",)})}
    answer = policy(shares={"a": 1}).optimize(by_key(grows, waits), nodes(2, gpu=3), held)
    assert counts(answer) == {"a/x": 1, "b/gang": 0}


@POLICIES
def test_jobs_grow_within_the_quota_of_their_namespace(policy: Any) -> None:
    account = Account(quota=amounts(slot=8))
    jobs = by_key(asks("p/x", 1, 4, age=9, account=account), asks("p/y", 1, 4, account=account))
    held = {"p/x": has(1, 1), "p/y": has(1, 1)}
    answer = policy().optimize(jobs, nodes(1, slot=20), held)
    assert (sizes(answer), sizes(answer, "p/y")) == ((1, 4), (1, 2))


@POLICIES
def test_quota_that_a_job_cannot_grow_by_is_left_to_the_next(policy: Any) -> None:
    """Three learners more would be a restart for less than twice as many."""
    account = Account(quota=amounts(slot=12))
    learners = job("p/x", task(9, minimum=1, maximum=9), age=9, account=account)
    jobs = by_key(learners, asks("p/y", 1, 6, account=account))
    held = {"p/x": NodeList.of({"learner": ("n000",) * 5}), "p/y": has(1, 2)}
    answer = policy().optimize(jobs, nodes(1, slot=11), held)
    assert (sizes(answer), sizes(answer, "p/y")) == ((5, 0), (1, 5))


@POLICIES
def test_a_running_gang_keeps_no_other_job_from_growing(policy: Any) -> None:
    gang = job("p/gang", task(1), preemptible=False, gang=True, age=99)
    jobs = by_key(gang, asks("p/x", 1, 4))
    held = {"p/gang": NodeList.of({"learner": ("n000",)}), "p/x": has(1, 1)}
    assert sizes(policy().optimize(jobs, nodes(1, slot=9), held)) == (1, 4)


@POLICIES
def test_by_shares_of_two_resources_only_jobs_below_their_size_restart(policy: Any) -> None:
    """A job that has all that it asks for stays where it is, though another node is fuller."""
    jobs = by_key(
        job("a/grows", task(4, minimum=1, maximum=4, gpu=1)),
        job("a/stays", task(1, gpu=1)),
        job("b/cpu", task(1, cpu=1)),
    )
    held = {
        "a/grows": NodeList.of({"learner": ("n000", "n000")}),
        "a/stays": NodeList.of({"learner": ("n001",)}),
        "b/cpu": NodeList.of({"learner": ("n001",)}),
    }
    room = nodes(2, gpu=4, cpu=4)
    answer = policy(shares={"a": 1}).optimize(jobs, room, held)
    assert counts(answer) == {"a/grows": 4, "a/stays": 1, "b/cpu": 1}
    assert {key: answer[key] for key in ("a/stays", "b/cpu")} == {
        key: held[key] for key in ("a/stays", "b/cpu")
    }


@POLICIES
def test_a_gang_whose_node_is_gone_leaves_its_quota_to_others(policy: Any) -> None:
    account = Account(quota=amounts(slot=4))
    gang = job("p/gang", task(3), preemptible=False, gang=True, account=account)
    jobs = by_key(gang, job("p/x", task(4), age=9, account=account))
    held = {"p/gang": NodeList.of({"learner": ("gone",) * 3})}
    answer = policy().optimize(jobs, nodes(1, slot=9), held)
    assert counts(answer) == {"p/gang": 0, "p/x": 4}
