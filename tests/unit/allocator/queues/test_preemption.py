"""Preemption by priority under `fit` and `binpack`: who makes way, and for which jobs."""

from __future__ import annotations

from typing import Any

import pytest

from di_operator.allocator.model.job import JobInfo, NodeList
from di_operator.allocator.policies.best_fit import FitPolicy
from di_operator.allocator.policies.binpack import BinpackPolicy
from tests.unit.allocator.worlds import by_key, counts, job, nodes, task

POLICIES = pytest.mark.parametrize("policy", [FitPolicy, BinpackPolicy])


def low(key: str, replicas: int, *, minimum: int | None = None, **options: Any) -> JobInfo:
    return job(key, task(replicas, minimum=minimum), **options)


def high(key: str, replicas: int, **options: Any) -> JobInfo:
    return low(key, replicas, priority=1, **options)


def on(*names: str) -> NodeList:
    return NodeList.of({"learner": names})


TWO = nodes(2, slot=4)
FULL = {"p/old": on(*["n000"] * 4), "p/new": on(*["n001"] * 4)}


@POLICIES
@pytest.mark.parametrize("options", [{}, {"gang": True}, {"preemptible": False, "gang": True}])
def test_a_high_job_takes_from_the_youngest_job_of_lower_priority(
    policy: Any, options: dict[str, Any]
) -> None:
    jobs = by_key(low("p/old", 4, age=9), low("p/new", 4, age=5), high("p/high", 4, **options))
    found = policy().optimize(jobs, TWO, FULL)

    assert counts(found) == {"p/old": 4, "p/new": 0, "p/high": 4}
    assert found["p/old"] == FULL["p/old"]
    assert policy().optimize(jobs, TWO, found) == found


@POLICIES
def test_a_job_takes_nothing_from_others_of_its_priority(policy: Any) -> None:
    for priority in (0, 1):
        jobs = by_key(
            low("p/old", 4, priority=priority),
            low("p/new", 4, priority=priority),
            low("p/more", 4, priority=priority, age=99),
        )
        assert counts(policy().optimize(jobs, TWO, FULL)) == {"p/old": 4, "p/new": 4, "p/more": 0}


@POLICIES
def test_no_job_makes_way_in_vain(policy: Any) -> None:
    jobs = by_key(low("p/old", 4), low("p/new", 4), high("p/high", 9))

    assert counts(policy().optimize(jobs, TWO, FULL)) == {"p/old": 4, "p/new": 4, "p/high": 0}


@POLICIES
def test_no_job_makes_way_for_one_that_fits_without(policy: Any) -> None:
    jobs = by_key(low("p/old", 4), high("p/high", 6, minimum=4))

    assert counts(policy().optimize(jobs, TWO, {"p/old": FULL["p/old"]})) == {
        "p/old": 4,
        "p/high": 4,
    }


@POLICIES
def test_a_job_that_is_not_preemptible_never_makes_way(policy: Any) -> None:
    jobs = by_key(low("p/old", 4, preemptible=False), low("p/new", 4), high("p/high", 8))

    assert counts(policy().optimize(jobs, TWO, FULL)) == {"p/old": 4, "p/new": 4, "p/high": 0}


@POLICIES
def test_a_job_that_made_way_starts_on_what_is_left(policy: Any) -> None:
    jobs = by_key(low("p/old", 4, age=9), low("p/new", 4, minimum=1), high("p/high", 2))

    assert counts(policy().optimize(jobs, TWO, FULL)) == {"p/old": 4, "p/new": 2, "p/high": 2}


@POLICIES
@pytest.mark.parametrize(("namespace", "expected"), [("p", 4), ("q", 0)])
def test_with_shares_a_high_job_takes_from_its_own_namespace(
    policy: Any, namespace: str, expected: int
) -> None:
    # A gang: of preemptible jobs each namespace has its part by the shares alone.
    gang = high(f"{namespace}/high", 4, preemptible=False, gang=True)
    jobs = by_key(low("p/old", 4), low("p/new", 4), gang)
    found = counts(policy(shares={"p": 1}).optimize(jobs, TWO, FULL))

    assert found[gang.key] == expected
