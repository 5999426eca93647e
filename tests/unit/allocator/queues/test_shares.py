"""Shares between namespaces: who is entitled to what, and that policies give it within a period."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from di_operator.allocator.goodput.sizes import Bounds, sizes
from di_operator.allocator.model.job import WAIT, JobInfo, NodeList
from di_operator.allocator.model.policy import Policy
from di_operator.allocator.sharing.fair_shares import (
    DEFAULT_AGEING,
    Claim,
    Shares,
    entitle,
    fill_by_weight,
    read_shares,
)
from tests.unit.allocator.test_policy_properties import POLICIES, check, settled, some_nodes
from tests.unit.allocator.worlds import GPU, by_key, counts, job, nodes, task

NAMESPACES = "abc"
THREE_TO_ONE = Shares(weights={"a": 3}, default=1.0, ageing=3600.0)


def wants(key: str, least: int = 1, most: int = 64, **options: Any) -> JobInfo:
    """A job without a model that has run on up to 64 GPUs."""
    defaults: dict[str, Any] = {"explored": 64}
    return job(key, task(most, minimum=least, maximum=most, gpu=1), **defaults | options)


def by_namespace(answer: Mapping[str, NodeList]) -> dict[str, int]:
    found = Counter[str]()
    for key, placed in answer.items():
        found[key.partition("/")[0]] += len(placed)
    return dict(found)


@pytest.mark.parametrize(
    ("wanted", "rooms"),
    [
        ({"a": 100.0, "b": 100.0}, {"a": 48.0, "b": 16.0}),
        ({"a": 100.0, "b": 4.0}, {"a": 60.0, "b": 4.0}),
        ({"a": 8.0, "b": 100.0}, {"a": 8.0, "b": 56.0}),
        ({"a": 8.0, "b": 4.0}, {"a": 8.0, "b": 4.0}),
        ({"a": 12.0, "b": 100.0, "c": 100.0}, {"a": 12.0, "b": 26.0, "c": 26.0}),
        ({"a": 0.0, "b": 100.0}, {"a": 0.0, "b": 64.0}),
        ({}, {}),
    ],
)
def test_unwanted_shares_are_divided_among_the_others(
    wanted: dict[str, float], rooms: dict[str, float]
) -> None:
    assert fill_by_weight(wanted, THREE_TO_ONE, 64.0) == rooms


weights = st.fixed_dictionaries({}, optional={name: st.integers(1, 9) for name in NAMESPACES})


@pytest.mark.proves(
    "teams.md#feature-by-feature/weights",
    "teams-queues.md#what-to-set/weight",
    "allocation.md#shares-of-namespaces",
)
@given(
    st.dictionaries(st.sampled_from(NAMESPACES), st.floats(0, 1e6)),
    weights,
    st.floats(0, 1e6),
)
def test_no_namespace_has_more_by_weight_than_an_unsatisfied_one(
    wanted: dict[str, float], given_weights: dict[str, float], amount: float
) -> None:
    shares = Shares(weights=given_weights, default=2.0, ageing=1.0)
    rooms = fill_by_weight(wanted, shares, amount)

    assert sum(rooms.values()) == pytest.approx(min(amount, sum(wanted.values())))
    levels = {name: room / shares.of(name) for name, room in rooms.items()}
    for name, want in wanted.items():
        assert rooms[name] <= want
        if rooms[name] < want:
            assert levels[name] == pytest.approx(max(levels.values()))


def claim(key: str, least: float, *, age: float, holds: bool = False, had: float = 0.0) -> Claim:
    return Claim(
        job=wants(key, least=int(least), age=age, attained=had), least={GPU: least}, holds=holds
    )


SLOT = DEFAULT_AGEING


@pytest.mark.parametrize(
    ("claims", "turns"),
    [
        ([claim("a/x", 6, age=0.5 * SLOT)], ""),
        ([claim("a/x", 6, age=1.5 * SLOT)], "a/x"),
        ([claim("a/x", 6, age=2.5 * SLOT)], ""),
        ([claim("a/x", 5, age=1.5 * SLOT)], ""),
        ([claim("a/x", 11, age=1.5 * SLOT)], ""),
        ([claim("a/x", 6, age=1.5 * SLOT), claim("a/y", 7, age=1.5 * SLOT)], "a/x"),
        ([claim("a/x", 6, age=1.5 * SLOT), claim("b/y", 7, age=3.5 * SLOT)], "b/y"),
        ([claim("a/x", 6, age=1.5 * SLOT), claim("b/y", 7, age=1.5 * SLOT, holds=True)], "b/y"),
        (
            [claim("a/x", 6, age=3.5 * SLOT, had=6 * 3 * SLOT), claim("b/y", 7, age=1.5 * SLOT)],
            "b/y",
        ),
    ],
    ids=[
        "not in the first slot",
        "but in the second",
        "and not in the third",
        "nor if its namespace has as much",
        "nor if there is never so much",
        "one of a namespace at a time",
        "who has waited longer goes first",
        "who is at it goes on",
        "what it has had does not count as waited",
    ],
)
def test_jobs_larger_than_their_share_take_turns(claims: list[Claim], turns: str) -> None:
    shares = Shares(weights={}, default=1.0, ageing=SLOT)
    due = entitle({"a": {GPU: 100.0}, "b": {GPU: 100.0}}, claims, shares, {GPU: 10.0})

    assert due.turns == frozenset(turns.split())
    expected = {"a": 5.0, "b": 5.0}
    if turns:
        (taken,) = [claim for claim in claims if claim.job.key == turns]
        other = "b" if taken.job.namespace == "a" else "a"
        expected = {taken.job.namespace: 0.0, other: 10.0 - taken.least[GPU]}
    assert due.rooms == {name: {GPU: amount} for name, amount in expected.items()}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"shares": {"a": 0}}, "shares: a: 0: must be a number above 0"),
        ({"shares": {"a": "3"}}, "shares: a: '3': must be a number above 0"),
        ({"shares": {"a": True}}, "shares: a: True: must be a number above 0"),
        ({"shares": {"a": float("inf")}}, "shares: a: inf: must be a number above 0"),
        ({"shares": 3}, "shares: 3: must map namespaces to weights"),
        ({"default_share": -1}, "default_share: -1: must be a number above 0"),
        ({"ageing_seconds": 0}, "ageing_seconds: 0: must be a number above 0"),
    ],
)
@pytest.mark.parametrize("policy", POLICIES)
def test_invalid_shares_are_refused(policy: str, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        POLICIES[policy](**arguments)


def test_a_policy_without_shares_has_none() -> None:
    assert read_shares(None, 1.0, 3600.0) is None
    assert read_shares({}, 1.0, 3600.0) == Shares(weights={}, default=1.0, ageing=3600.0)


def made(name: str, given_weights: Mapping[str, float], **arguments: Any) -> Policy:
    return POLICIES[name](shares=given_weights, **arguments)


@pytest.mark.parametrize("name", POLICIES)
def test_lent_capacity_is_returned_in_the_next_period(name: str) -> None:
    policy, room = made(name, {"a": 3}), nodes(16, gpu=1)
    early = by_key(wants("b/x", 4, 8, age=9.0), wants("b/y", 2, 8, age=8.0))
    alone = settled(policy, early, room)
    assert by_namespace(alone) == {"b": 16}

    both = policy.optimize(by_key(wants("a/z", age=1.0), *early.values()), room, alone)
    assert by_namespace(both) == {"a": 12, "b": 4}
    assert settled(policy, by_key(wants("a/z", age=1.0), *early.values()), room) == settled(
        policy, early | by_key(wants("a/z", age=1.0)), room
    )


@pytest.mark.parametrize("name", ["fit", "binpack"])
def test_a_namespace_that_loses_a_large_job_starts_a_smaller_one(name: str) -> None:
    policy, room = made(name, {}), nodes(12, gpu=1)
    early = by_key(wants("a/large", 8, 8, age=9.0), wants("c/x", 4, 4, age=3.0))
    alone = settled(policy, early, room)
    late = by_key(
        wants("a/small", 2, 2, age=1.0), wants("b/x", 4, 4, age=8.0), wants("c/y", 2, 4, age=5.0)
    )
    answer = policy.optimize(early | late, room, alone)

    assert counts(answer) == {"a/large": 0, "a/small": 2, "b/x": 4, "c/x": 4, "c/y": 2}
    assert policy.optimize(early | late, room, answer) == answer


SMALL = by_key(wants("a/x", 1, 8, age=9.0))
BEGUN = {"a/x": NodeList.of({"learner": ("n000",)})}


@pytest.mark.parametrize("name", ["fit", "binpack"])
def test_a_small_job_grows_once_that_doubles_it(name: str) -> None:
    policy = made(name, {})
    assert len(policy.optimize(SMALL, nodes(8, gpu=1), BEGUN)["a/x"]) == 8
    assert len(policy.optimize(SMALL, nodes(3, gpu=1), BEGUN)["a/x"]) == 3
    two = {"a/x": NodeList.of({"learner": ("n000", "n001")})}
    # One more is not worth a restart, unless it is the last.
    assert policy.optimize(SMALL, nodes(3, gpu=1), two) == two
    last = by_key(wants("a/x", 1, 3))
    assert len(policy.optimize(last, nodes(3, gpu=1), two)["a/x"]) == 3


@pytest.mark.parametrize("name", ["fit", "binpack"])
def test_a_small_job_grows_to_its_share_of_lent_capacity(name: str) -> None:
    policy, room = made(name, {}), nodes(8, gpu=1)
    others = by_key(*(wants(f"b/x{at}", 1, 1, age=float(at)) for at in range(7)))
    lent = {f"b/x{at}": NodeList.of({"learner": (f"n00{at + 1}",)}) for at in range(7)}
    answer = policy.optimize(SMALL | others, room, BEGUN | lent)

    assert by_namespace(answer) == {"a": 4, "b": 4}
    # The youngest have made way.
    assert not any(answer[f"b/x{at}"] for at in range(3))
    assert policy.optimize(SMALL | others, room, answer) == answer


@pytest.mark.parametrize("name", ["fit", "binpack"])
def test_a_running_job_borrows_nothing_while_another_waits(name: str) -> None:
    jobs = SMALL | by_key(wants("b/large", 8, 8))
    answer = made(name, {"a": 0.01}).optimize(jobs, nodes(8, gpu=1), BEGUN)

    assert counts(answer) == {"a/x": 1, "b/large": 0}


@pytest.mark.parametrize("name", ["fit", "binpack"])
def test_no_job_gives_way_in_vain(name: str) -> None:
    policy = made(name, {})
    small = by_key(*(wants(f"a/x{at}", 1, 1, age=float(at)) for at in range(4)))
    alone = settled(policy, small, nodes(2, gpu=2))
    # Two a replica, as much as its part; but a gang keeps a GPU of each node.
    pair = job("b/x", task(1, gpu=2))
    gang = job("c/g", task(2, gpu=1), preemptible=False, gang=True)
    taken = {"c/g": NodeList.of({"learner": ("n000", "n001")})}
    held = {"c/g": taken["c/g"], "a/x3": alone["a/x3"], "a/x2": alone["a/x0"]}
    jobs = {key: small[key] for key in ("a/x3", "a/x2")} | by_key(pair, gang)

    assert policy.optimize(jobs, nodes(2, gpu=2), held) == held | {"b/x": WAIT}


def test_sizes_are_of_whole_replicas() -> None:
    assert sizes(Bounds(per_node=8, minimum=3, maximum=30, unit=3)) == (0, 3, 6, 15, 24)
    assert sizes(Bounds(per_node=8, minimum=6, maximum=8, unit=3), also=7) == (0, 6)
    assert sizes(Bounds(per_node=1, minimum=2, maximum=3, unit=2)) == (0, 2)


@pytest.mark.parametrize("name", ["fit", "binpack"])
def test_a_share_is_taken_in_whole_replicas(name: str) -> None:
    policy = POLICIES[name](shares={})
    jobs = by_key(*(job(f"{key}/x", task(9, minimum=3, maximum=9, unit=3)) for key in "ab"))
    answer = policy.optimize(jobs, nodes(1, slot=11), {})
    assert sorted(counts(answer).values()) in ([3, 3], [3, 6])


@pytest.mark.parametrize("arguments", [{}, {"shares": {}}])
@pytest.mark.parametrize(
    "bounds", [{"least": 6, "most": 8}, {"least": 1, "most": 2}, {"attained": 1e9, "explored": 0}]
)
def test_a_size_outside_the_new_bounds_is_changed(
    arguments: dict[str, Any], bounds: dict[str, Any]
) -> None:
    had = {"a/x": NodeList.of({"learner": ("n000",) * 5})}
    changed = by_key(wants("a/x", **bounds))
    answer = POLICIES["goodput"](**arguments).optimize(changed, nodes(4, gpu=8), had)

    check(answer, changed, nodes(4, gpu=8), had)
    assert len(answer["a/x"]) not in (0, 5)


@pytest.mark.parametrize("name", POLICIES)
def test_capacity_of_fixed_jobs_is_not_shared(name: str) -> None:
    gang = job("b/g", task(8, gpu=1), preemptible=False, gang=True)
    policy, room = made(name, {}), nodes(16, gpu=1)
    held = policy.optimize(by_key(gang), room, {})
    jobs = by_key(gang, wants("a/x", 1), wants("b/x", 1))

    assert counts(policy.optimize(jobs, room, held)) == {"b/g": 8, "a/x": 4, "b/x": 4}


@pytest.mark.parametrize("name", POLICIES)
def test_a_namespace_without_a_weight_has_the_default(name: str) -> None:
    jobs = by_key(wants("a/x"), wants("b/x"), wants("c/x"))
    answer = made(name, {"a": 2}, default_share=3).optimize(jobs, nodes(16, gpu=1), {})

    assert by_namespace(answer) == {"a": 4, "b": 6, "c": 6}


@st.composite
def tenants(draw: st.DrawFn) -> dict[str, JobInfo]:
    found = {}
    for number in range(draw(st.integers(2, 7))):
        least = draw(st.integers(1, 4))
        key = f"{draw(st.sampled_from(NAMESPACES))}/j{number}"
        found[key] = wants(
            key,
            least,
            draw(st.integers(least, 24)),
            age=draw(st.floats(0, 3000)),
            attained=draw(st.floats(0, 3000)),
            priority=draw(st.integers(0, 1)),
        )
    return found


def wanted_by(
    name: str, jobs: Mapping[str, JobInfo], held: Mapping[str, NodeList], room: int
) -> dict[str, float]:
    """What each namespace wants, as the documents say it."""
    wanted = dict.fromkeys(sorted({each.namespace for each in jobs.values()}), 0.0)
    for namespace in wanted:
        own = {key: each for key, each in jobs.items() if each.namespace == namespace}
        for key, each in own.items():
            runs = name != "goodput" and held.get(key)
            wanted[namespace] += len(held[key]) if runs else each.tasks[0].maximum
    return {namespace: min(float(room), want) for namespace, want in wanted.items()}


def next_step(wanting: JobInfo, has: int, room: int) -> list[int]:
    """From one size to the next, if there is one."""
    (learner,) = wanting.tasks
    bounds = Bounds(per_node=1, minimum=learner.minimum, maximum=min(learner.maximum, room))
    return [size - has for size in sizes(bounds) if size > has][:1]


@pytest.mark.parametrize("name", POLICIES)
@given(jobs=tenants(), room=st.integers(4, 24), given_weights=weights, first=st.sampled_from("ab"))
def test_an_unsatisfied_namespace_lacks_less_than_a_step(
    name: str,
    jobs: dict[str, JobInfo],
    room: int,
    given_weights: dict[str, float],
    first: str,
) -> None:
    # A restart has its price, and not everybody pays it for one GPU more.
    arguments: dict[str, Any] = {"restart_seconds": 0} if name == "goodput" else {}
    policy, capacity = made(name, given_weights, **arguments), nodes(room, gpu=1)
    early = {key: each for key, each in jobs.items() if each.namespace == first}
    held = settled(policy, early, capacity)
    answer = policy.optimize(jobs, capacity, held)

    check(answer, jobs, capacity, held)
    shares = Shares(weights=given_weights, default=1.0, ageing=1.0)
    has = by_namespace(answer)
    parts = fill_by_weight(wanted_by(name, jobs, held, room), shares, room)
    for namespace, part in parts.items():
        own = [each for each in jobs.values() if each.namespace == namespace]
        if name == "goodput":
            steps = [step for each in own for step in next_step(each, len(answer[each.key]), room)]
        else:
            steps = [each.tasks[0].minimum for each in own if not answer[each.key]]
        if steps:
            assert has[namespace] > part - max(steps)


@pytest.mark.parametrize("name", ["fit", "binpack"])
@settings(max_examples=40)
@given(jobs=tenants(), room=some_nodes(), given_weights=weights)
def test_no_job_moves_without_a_change(
    name: str, jobs: dict[str, JobInfo], room: Any, given_weights: dict[str, float]
) -> None:
    policy = made(name, given_weights)
    before = settled(policy, jobs, room)

    assert policy.optimize(jobs, room, before) == before


@pytest.mark.parametrize(
    ("count", "gpus", "found"),
    [
        (
            2,
            8,
            "c/j0:4-21 2023, a/j1:1-16 560, c/j2:1-11 354, b/j3:1-6 2657, a/j4:3-5 2909,"
            " b/j5:2-20 2951",
        ),
        (
            3,
            8,
            "c/j0:1-18 1313, a/j1:4-21 599, c/j2:4-10 2992, b/j3:1-23 2796, a/j4:2-20 1540,"
            " c/j5:3-3 2396, b/j6:2-3 2609",
        ),
        (5, 2, "b/j0:1-7 665, b/j1:4-13 1398, c/j2:1-22 1633"),
    ],
)
def test_the_present_choice_stays_among_equally_good_ones(
    count: int, gpus: int, found: str
) -> None:
    jobs = {}
    for at, text in enumerate(found.split(", ")):
        key, bounds, had = re.split("[: ]", text)
        least, most = map(int, bounds.split("-"))
        jobs[key] = wants(key, least, most, age=float(-at), attained=float(had))
    policy, room = made("goodput", {}), nodes(count, gpu=gpus)
    before = settled(policy, jobs, room)

    assert policy.optimize(jobs, room, before) == before


@pytest.mark.parametrize("name", POLICIES)
@settings(max_examples=25)
@given(least=st.lists(st.integers(1, 10), min_size=2, max_size=4), given_weights=weights)
def test_no_job_starves(name: str, least: list[int], given_weights: dict[str, float]) -> None:
    policy, capacity = made(name, given_weights), nodes(10, gpu=1)
    jobs = by_key(*(wants(f"{'abcd'[at]}/x", size, 10) for at, size in enumerate(least)))
    answer: Mapping[str, NodeList] = {}
    step = SLOT / 6
    starts = Counter[str]()
    for _ in range(6 * 2 * 2 * len(least)):
        before, answer = answer, policy.optimize(jobs, capacity, answer)
        check(answer, jobs, capacity, before)
        starts.update(key for key, placed in answer.items() if placed and not before.get(key))
        jobs = {
            key: replace(
                each, age=each.age + step, attained=each.attained + step * len(answer[key])
            )
            for key, each in jobs.items()
        }

    assert all(each.attained > 0 for each in jobs.values())
    # At most one a slot; `goodput` lets jobs take turns of its own as well.
    assert name == "goodput" or max(starts.values()) <= 4 * len(least)


@pytest.mark.parametrize(
    ("age", "attained", "least", "waited"),
    [(100.0, 60.0, 2, 70.0), (100.0, 0.0, 2, 100.0), (10.0, 60.0, 2, 0.0), (100.0, 60.0, 0, 40.0)],
)
def test_a_job_has_waited_while_it_did_not_run_at_its_least_size(
    age: float, attained: float, least: int, waited: float
) -> None:
    one = wants("a/x", least, age=age, attained=attained)
    assert Claim(job=one, least={}, holds=False).waited == waited
