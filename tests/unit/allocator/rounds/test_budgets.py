"""How often all jobs are reconsidered, and what a namespace gains by many changes."""

from __future__ import annotations

from typing import Any

import pytest

from di_operator.allocator.model.job import WAIT, NodeList
from di_operator.allocator.observe.changes import News
from di_operator.allocator.rounds.budgets import (
    CHANGES,
    SECONDS_PER_CHANGE,
    ChangeBudgets,
    held_back,
    interval,
)
from tests.unit.allocator import worlds
from tests.unit.allocator.objects import job, pod, task

Object = dict[str, Any]


@pytest.mark.proves("allocation.md#how-often/between-two-reconsiderations-of-all-jobs")
def test_the_interval_grows_with_what_a_reconsideration_takes() -> None:
    assert interval(60.0, 0.0) == 5.0
    assert interval(60.0, 2.0) == 20.0
    assert interval(60.0, 100.0) == 60.0
    assert interval(1.0, 0.0) == 1.0


@pytest.mark.proves("allocation.md#how-often/changes-of-a-namespace-s-jobs")
def test_a_namespace_beyond_its_budget_recovers_and_others_are_not_concerned() -> None:
    budgets = ChangeBudgets()
    assert [budgets.spend("a", 0.0) for _ in range(CHANGES + 5)] == [True] * CHANGES + [False] * 5
    assert budgets.spend("b", 0.0)
    assert budgets.over(0.0) == {"a"}
    assert budgets.over(5 * SECONDS_PER_CHANGE) == set()
    assert budgets.spend("a", 6 * SECONDS_PER_CHANGE)


def test_a_namespace_that_never_stops_is_never_within_its_budget_again() -> None:
    budgets = ChangeBudgets()
    within = [budgets.spend("a", float(second)) for second in range(1000)]
    assert not any(within[3 * CHANGES :])
    # A debt has a bound, so a namespace that stops is forgiven in two minutes.
    assert budgets.over(1000 + CHANGES * SECONDS_PER_CHANGE) == set()


def test_jobs_of_a_namespace_beyond_its_budget_gain_nothing_from_others() -> None:
    learners = worlds.task(2, minimum=2, maximum=8)
    jobs = worlds.by_key(*(worlds.job(key, learners) for key in ("a/holds", "a/waits", "b/x")))
    held = {
        "a/holds": NodeList.of({"learner": ("n1", "n1", "n2")}),
        "a/waits": WAIT,
        "b/x": WAIT,
    }
    found = held_back(jobs, held, {"a"})
    assert found.keys() == {"a/holds", "b/x"}
    assert (found["a/holds"].tasks[0].minimum, found["a/holds"].tasks[0].maximum) == (2, 3)
    assert found["b/x"] == jobs["b/x"]
    assert held_back(jobs, held, ()) == jobs


def test_edits_and_deletions_count_and_arrivals_and_endings_do_not() -> None:
    news, body = News(monotonic=lambda: 0.0), job("x", task("learner"), phase="Pending")
    spent = []

    def deliver(kind: str, found: Object) -> bool:
        before = dict(news.budgets._paid)
        wants = news.on_job(kind, found)
        spent.append(before != news.budgets._paid)
        return wants

    assert deliver("ADDED", body)
    assert not deliver("MODIFIED", {**body, "status": {"phase": "Running"}})
    edited = {**body, "metadata": {**body["metadata"], "generation": 2}}
    assert deliver("MODIFIED", edited)
    ended = {**edited, "status": {"phase": "Failed", "completionTimestamp": "t"}}
    assert deliver("MODIFIED", ended)
    # Nothing is freed by it any more.
    assert not deliver("DELETED", ended)
    assert spent == [False, False, True, False, False]
    news.on_job("ADDED", body)
    assert deliver("DELETED", body)
    assert spent[-1]


def test_a_pod_that_is_refused_counts_once_however_often_it_is_edited() -> None:
    news = News(monotonic=lambda: 0.0)
    news.on_job("ADDED", job("x", task("learner")))
    refused = pod("x", "learner", "a", phase="Failed")
    refused["status"]["reason"] = "OutOfcpu"
    looks = []
    for _ in range(3):
        looks.append(news.on_pod("MODIFIED", refused))
        looks.append(news.everything)
        news.everything = False
    assert looks == [True, True, False, False, False, False]
    assert news.on_pod("DELETED", refused)
