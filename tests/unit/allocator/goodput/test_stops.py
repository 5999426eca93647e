"""Stops: a stop has its price, and the next plan does not undo it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from di_operator.allocator.model.job import JobInfo, NodeList
from di_operator.allocator.model.node import Constraints, NodeInfo
from di_operator.allocator.policies.goodput import GoodputPolicy
from tests.unit.allocator.worlds import by_key, counts, elastic, job, model, node, nodes, task

MODELS = (None, model(), model(noise=1000.0), model(alpha_n=2.0), model(step=1.0))


@st.composite
def some_nodes(draw: st.DrawFn) -> dict[str, NodeInfo]:
    sizes = draw(st.lists(st.sampled_from([1, 2, 4, 8]), min_size=1, max_size=5))
    kinds = draw(st.sampled_from(["", "xy"]))
    found = {}
    for row, gpus in enumerate(sizes):
        made = node(f"n{row}", labels={"zone": "ab"[row % 2]}, gpu=gpus, cpu=8)
        found[f"n{row}"] = replace(made, kind=draw(st.sampled_from(kinds)) if kinds else "")
    return found


@st.composite
def some_jobs(draw: st.DrawFn) -> dict[str, JobInfo]:
    found = {}
    for number in range(draw(st.integers(1, 7))):
        known = draw(st.sampled_from(MODELS))
        learner = task(1, minimum=1, maximum=draw(st.integers(1, 24)), gpu=1, cpu=0.5)
        if draw(st.booleans()):
            zone = (("zone", draw(st.sampled_from("ab"))),)
            learner = replace(learner, constraints=Constraints(selector=zone))
        tasks = [learner]
        if draw(st.booleans()):
            tasks.append(task(1, name="collector", minimum=1, maximum=3, cpu=1))
        found[f"j{number}"] = job(
            f"j{number}",
            *tasks,
            priority=draw(st.integers(0, 1)),
            age=draw(st.floats(0, 1e5)),
            attained=draw(st.floats(0, 1e6)),
            model=known,
            explored=draw(st.integers(1, 24)) if known else 0,
            remaining=draw(st.one_of(st.none(), st.floats(0, 1e9))),
        )
    return found


@settings(max_examples=60)
@given(jobs=some_jobs(), where=some_nodes(), data=st.data())
def test_no_stopped_job_is_started_again_seconds_later(
    jobs: dict[str, JobInfo], where: dict[str, NodeInfo], data: st.DataObject
) -> None:
    policy = GoodputPolicy()
    held = {key: NodeList() for key in jobs}
    for _ in range(4):
        # What jobs report, how old they are, and which of them exist changes between plans.
        changed = {
            key: replace(
                each,
                attained=each.attained + data.draw(st.floats(0, 1e6)),
                explored=each.explored + data.draw(st.integers(0, 8)) if each.model else 0,
                remaining=data.draw(st.one_of(st.none(), st.floats(0, 1e9))),
            )
            for key, each in jobs.items()
            if data.draw(st.integers(0, 5))
        }
        before = {key: held.get(key, NodeList()) for key in changed}
        after = policy.optimize(changed, where, before)
        held = policy.optimize(seconds_later(changed, after), where, after)
        stopped = [key for key, had in before.items() if had and not after[key]]
        assert not [key for key in stopped if held[key]]


def seconds_later(jobs: Mapping[str, JobInfo], held: Mapping[str, NodeList]) -> dict[str, JobInfo]:
    """The jobs after seven seconds on the nodes that they have."""
    return {
        key: replace(
            each,
            age=each.age + 7,
            attained=each.attained + 7 * len(held[key].task("learner")),
            remaining=None if each.remaining is None else max(0.0, each.remaining - 7),
        )
        for key, each in jobs.items()
    }


def test_a_fragmented_plan_is_replaced_by_the_next_one() -> None:
    # A plan for itself has capacity for `moves` only in pieces: it would stop it, and the next plan
    # would make `large` smaller and start `moves` again on the node of that.
    zone_a = Constraints(selector=(("zone", "a"),))
    learner = task(1, minimum=1, maximum=9, gpu=1)
    jobs = by_key(
        job(
            "first", replace(learner, constraints=zone_a), model=model(), explored=11, attained=2e5
        ),
        job("large", learner, model=model(), explored=15, attained=4e3),
        job("moves", replace(learner, constraints=zone_a), attained=6e4),
    )
    where = {
        name: node(name, labels={"zone": zone}, gpu=gpus)
        for name, zone, gpus in (("n0", "a", 2), ("n1", "b", 2), ("n2", "a", 8))
    }
    before = {
        "first": NodeList(),
        "large": NodeList.of({"learner": ("n2",) * 8}),
        "moves": NodeList.of({"learner": ("n0",)}),
    }
    found = GoodputPolicy().optimize(jobs, where, before)

    assert min(counts(found).values()) >= 1


def test_a_job_is_not_stopped_for_the_growth_of_a_shorter_one() -> None:
    quick = elastic("quick", maximum=4, remaining=1e3)
    long = elastic("long", maximum=4, remaining=1e9)
    before = {
        "quick": NodeList.of({"learner": ("n000",) * 3}),
        "long": NodeList.of({"learner": ("n000",)}),
    }
    found = GoodputPolicy().optimize(by_key(quick, long), nodes(1, gpu=4), before)

    assert min(counts(found).values()) >= 1


@pytest.mark.parametrize(
    ("unsaved", "learners"),
    [(0.0, {"urgent": 4, "runs": 0}), (20.0, {"urgent": 2, "runs": 2})],
    ids=["the gain is above the price", "the gain is below the price"],
)
def test_a_job_is_stopped_for_growth_only_above_its_price(
    unsaved: float, learners: dict[str, int]
) -> None:
    urgent = elastic("urgent", maximum=8, remaining=1e3, priority=1, age=1e4)
    running = elastic("runs", maximum=8, remaining=1e9, unsaved=unsaved, age=1e4)
    before = {key: NodeList.of({"learner": ("n000",) * 2}) for key in learners}
    found = GoodputPolicy().optimize(by_key(urgent, running), nodes(1, gpu=4), before)

    assert counts(found) == learners


@pytest.mark.parametrize(("unsaved", "runs_on"), [(0.0, False), (1e6, True)])
def test_a_job_that_would_lose_much_work_is_not_stopped(unsaved: float, runs_on: bool) -> None:
    # One slot, and a job that has just come, which counts for a little more.
    waiting = elastic("waits", maximum=1)
    options: dict[str, Any] = {"attained": 3000.0, "unsaved": unsaved}
    running = elastic("runs", maximum=1, **options)
    before = {"runs": NodeList.of({"learner": ("n000",)})}
    found = GoodputPolicy().optimize(by_key(waiting, running), nodes(1, gpu=1), before)

    assert bool(found["runs"]) is runs_on
