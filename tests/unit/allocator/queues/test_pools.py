"""Admission in order, and shares, on the nodes that the asking jobs can use."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from di_operator.allocator.model.job import JobInfo, NodeList
from di_operator.allocator.model.node import Constraints, NodeInfo
from di_operator.allocator.policies.best_fit import FitPolicy
from di_operator.allocator.policies.binpack import BinpackPolicy
from di_operator.allocator.sharing.queues import read_queues
from tests.unit.allocator.worlds import by_key, counts, job, node, task

POLICIES = pytest.mark.parametrize("policy", [FitPolicy, BinpackPolicy])


def pool(name: str, count: int) -> dict[str, NodeInfo]:
    return {f"{name}{n}": node(f"{name}{n}", labels={"pool": name}, slot=4) for n in range(count)}


def kept(key: str, to: str, replicas: int, **options: Any) -> JobInfo:
    one = replace(task(replicas, minimum=1), constraints=Constraints(selector=(("pool", to),)))
    return job(key, one, **options)


@POLICIES
@pytest.mark.parametrize("arguments", [{"shares": {}}, {"queues": {"p": {"weight": 1}}}])
@pytest.mark.parametrize("idle", [0, 8])
def test_what_was_lent_of_a_pool_is_given_back_in_that_pool(
    policy: Any, arguments: dict[str, Any], idle: int
) -> None:
    jobs = by_key(kept("p/0", "a", 4, age=9), kept("p/1", "a", 4, age=8), kept("q/0", "a", 4))
    before = {
        "p/0": NodeList.of({"learner": ("a0",) * 4}),
        "p/1": NodeList.of({"learner": ("a1",) * 4}),
    }
    found = policy(**arguments).optimize(jobs, pool("a", 2) | pool("b", idle), before)

    assert counts(found) == {"p/0": 4, "p/1": 0, "q/0": 4}


@POLICIES
def test_a_job_that_waits_holds_back_only_jobs_of_its_pool(policy: Any) -> None:
    first = job("p/0", replace(kept("p/0", "a", 8).tasks[0], minimum=8), age=9)
    jobs = by_key(kept("p/r", "a", 4, age=10), first, kept("p/1", "a", 2), kept("p/2", "b", 2))
    before = {"p/r": NodeList.of({"learner": ("a0",) * 4})}
    found = policy(backfill=False).optimize(jobs, pool("a", 2) | pool("b", 1), before)

    assert counts(found) == {"p/r": 4, "p/0": 0, "p/1": 0, "p/2": 2}


@POLICIES
def test_a_guarantee_that_is_used_in_one_pool_is_none_in_the_next(policy: Any) -> None:
    queues = {"a": {"guarantee": {"slot": 4}}}
    of_a = (kept("a/x", "a", 4, age=9.0), kept("a/y", "b", 4, age=8.0))
    account = read_queues(queues).account("a", {})
    jobs = by_key(*(replace(each, account=account) for each in of_a), kept("b/z", "b", 4))
    answer = policy(queues=queues).optimize(jobs, pool("a", 1) | pool("b", 1), {})
    assert counts(answer) == {"a/x": 4, "a/y": 2, "b/z": 2}
