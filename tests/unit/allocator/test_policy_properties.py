"""What every policy keeps to, whatever jobs and nodes there are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from di_operator.allocator.grants.checked_plan import make_plan
from di_operator.allocator.model.job import WAIT, JobInfo, NodeList, TaskInfo
from di_operator.allocator.model.node import Constraints, NodeInfo
from di_operator.allocator.model.policy import Policy
from di_operator.allocator.policies.best_fit import FitPolicy
from di_operator.allocator.policies.binpack import BinpackPolicy
from di_operator.allocator.policies.goodput import GoodputPolicy
from tests.unit.allocator.worlds import GPU, counts, job, model, node, task, used

POLICIES: Mapping[str, type[FitPolicy] | type[BinpackPolicy] | type[GoodputPolicy]] = {
    "fit": FitPolicy,
    "binpack": BinpackPolicy,
    "goodput": GoodputPolicy,
}
MODELS = [
    None,
    model(),
    model(alpha_n=2.0),
    model(noise=1000.0),
    model(step=1.0, beta_n=0.5),
]


@st.composite
def some_nodes(draw: st.DrawFn) -> dict[str, NodeInfo]:
    sizes = draw(st.lists(st.sampled_from([1, 2, 4, 8]), min_size=1, max_size=8))
    kinds = draw(st.sampled_from(["", "xy", "xyz"]))
    found = {}
    for row, gpus in enumerate(sizes):
        name = f"n{row}"
        made = node(name, labels={"zone": "ab"[row % 2]}, gpu=gpus, cpu=8, pods=20)
        made = replace(made, kind=draw(st.sampled_from(kinds)) if kinds else "")
        taken = draw(st.integers(0, gpus))
        found[name] = replace(made, free={**made.free, GPU: made.total[GPU] - taken * 1000})
    return found


def in_units(one: TaskInfo, unit: int) -> TaskInfo:
    """The task with so many pods in place of each."""
    return replace(
        one,
        unit=unit,
        replicas=one.replicas * unit,
        minimum=one.minimum * unit,
        maximum=one.maximum * unit,
    )


@st.composite
def a_job(draw: st.DrawFn, key: str) -> JobInfo:
    preemptible = draw(st.booleans())
    low = draw(st.integers(1, 3))
    high = draw(st.integers(low, 40))
    learner = task(
        draw(st.integers(low, high)) if preemptible else low,
        minimum=low,
        maximum=high,
        gpu=draw(st.sampled_from([1, 1, 1, 2])),
        cpu=draw(st.sampled_from([0.5, 1])),
        pods=1,
    )
    if draw(st.booleans()):
        zone = draw(st.sampled_from("ab"))
        learner = replace(learner, constraints=Constraints(selector=(("zone", zone),)))
    tasks = [learner]
    if draw(st.booleans()):
        least = draw(st.integers(1, 2))
        wanted = least + draw(st.integers(0, 3))
        tasks.append(
            task(wanted, name="collector", minimum=least, maximum=wanted + 2, cpu=1, pods=1)
        )
    known = draw(st.sampled_from(MODELS))
    return job(
        key,
        *(in_units(each, draw(st.sampled_from([1, 1, 2, 3]))) for each in tasks),
        preemptible=preemptible,
        gang=draw(st.booleans()),
        priority=draw(st.integers(0, 1)),
        age=draw(st.floats(0, 1e5)),
        attained=draw(st.floats(0, 1e6)),
        model=known,
        by_kind={
            kind: draw(st.sampled_from(MODELS[1:]))
            for kind in draw(st.sampled_from(["", "", "x", "xy"]))
        },
        explored=draw(st.integers(0, 40)) if known else 0,
        remaining=draw(st.one_of(st.none(), st.floats(0, 1e9))),
    )


@st.composite
def some_jobs(draw: st.DrawFn) -> dict[str, JobInfo]:
    return {f"j{n}": draw(a_job(f"j{n}")) for n in range(draw(st.integers(0, 7)))}


def check(
    answer: Mapping[str, NodeList],
    jobs: Mapping[str, JobInfo],
    nodes: Mapping[str, NodeInfo],
    previous: Mapping[str, NodeList],
) -> None:
    assert set(answer) == set(jobs)
    for name, taken in used(jobs, answer).items():
        assert all(amount <= nodes[name].free.get(key, 0) for key, amount in taken.items())
    for key, placed in answer.items():
        for wanted in jobs[key].tasks:
            count = len(placed.task(wanted.name))
            if placed and jobs[key].preemptible:
                assert wanted.minimum <= count <= wanted.maximum
            elif placed:
                assert count == wanted.replicas
            assert count % wanted.unit == 0
            assert all(wanted.constraints.admit(nodes[name]) for name in placed.task(wanted.name))
        if previous.get(key) and not jobs[key].preemptible:
            assert placed == previous[key]
    plan = make_plan(answer, jobs, nodes, previous)
    assert not plan.refused
    assert {key: by_task(placed) for key, placed in plan.allocations.items()} == {
        key: by_task(placed) for key, placed in answer.items()
    }


def by_task(placed: NodeList) -> dict[str, list[str]]:
    """The nodes in no order: which replica is on which of them is not the policy's to say."""
    return {name: sorted(nodes) for name, nodes in placed.tasks}


def settled(
    policy: Policy, jobs: Mapping[str, JobInfo], nodes: Mapping[str, NodeInfo]
) -> dict[str, NodeList]:
    answer: dict[str, NodeList] = {}
    for _ in range(6):
        answer = policy.optimize(jobs, nodes, answer)
    return answer


@pytest.mark.parametrize("name", POLICIES)
@settings(max_examples=25)
@given(jobs=some_jobs(), nodes=some_nodes(), ended=st.sets(st.integers(0, 6)))
def test_answers_fit_within_bounds_and_move_no_fixed_job(
    name: str, jobs: dict[str, JobInfo], nodes: dict[str, NodeInfo], ended: set[int]
) -> None:
    policy = POLICIES[name]()
    first = policy.optimize(jobs, nodes, {})
    check(first, jobs, nodes, {})
    rest = {key: each for key, each in jobs.items() if int(key[1:]) not in ended}
    held = {key: placed for key, placed in first.items() if key in rest}
    check(policy.optimize(rest, nodes, held), rest, nodes, held)


@pytest.mark.parametrize("name", POLICIES)
@settings(max_examples=20)
@given(jobs=some_jobs(), nodes=some_nodes())
def test_an_answer_depends_on_neither_order_nor_history(
    name: str, jobs: dict[str, JobInfo], nodes: dict[str, NodeInfo]
) -> None:
    policy = POLICIES[name]()
    answer = policy.optimize(jobs, nodes, {})
    backwards = dict(reversed(jobs.items()))

    assert policy.optimize(jobs, nodes, {}) == answer
    assert counts(POLICIES[name]().optimize(backwards, nodes, {})) == counts(answer)


@pytest.mark.parametrize("name", POLICIES)
@settings(max_examples=20)
@given(jobs=some_jobs(), nodes=some_nodes())
def test_no_job_moves_without_a_change(
    name: str, jobs: dict[str, JobInfo], nodes: dict[str, NodeInfo]
) -> None:
    policy = POLICIES[name]()
    answer = settled(policy, jobs, nodes)

    assert policy.optimize(jobs, nodes, answer) == answer


@pytest.mark.parametrize("name", POLICIES)
@settings(max_examples=20)
@given(single=a_job("x"), nodes=some_nodes())
def test_an_arriving_job_gets_free_capacity_or_nothing(
    name: str, single: JobInfo, nodes: dict[str, NodeInfo]
) -> None:
    placed = POLICIES[name]().allocate(single, nodes)

    check({"x": placed}, {"x": single}, nodes, {})


@pytest.mark.parametrize("name", POLICIES)
def test_all_jobs_wait_without_nodes(name: str) -> None:
    jobs = {"a": job("a", task(1, gpu=1)), "b": job("b", task(2, gpu=1), preemptible=False)}

    assert POLICIES[name]().optimize(jobs, {}, {}) == {"a": WAIT, "b": WAIT}


@settings(max_examples=25)
@given(jobs=some_jobs(), nodes=some_nodes())
def test_goodput_keeps_the_learners_of_a_job_on_one_kind_of_node(
    jobs: dict[str, JobInfo], nodes: dict[str, NodeInfo]
) -> None:
    answer = settled(GoodputPolicy(), jobs, nodes)

    for key, placed in answer.items():
        if placed and jobs[key].preemptible:
            assert len({nodes[name].kind for name in placed.task("learner")}) == 1
