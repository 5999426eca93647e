"""Queues of namespaces: what is refused, that quotas hold, and that guarantees are kept."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from di_operator.allocator.admission.guarantees import bar_gangs
from di_operator.allocator.grants.checked_plan import make_plan
from di_operator.allocator.model.job import WAIT, JobInfo, NodeList
from di_operator.allocator.model.node import Constraints
from di_operator.allocator.policies.best_fit import FitPolicy
from di_operator.allocator.sharing.queues import MOST, NO_QUEUES, queues_of, read_queues
from di_operator.allocator.sharing.quotas import Allowance, asked_by
from tests.unit.allocator.queues.test_shares import by_namespace, wants
from tests.unit.allocator.test_policy_properties import (
    POLICIES,
    a_job,
    check,
    settled,
    some_nodes,
)
from tests.unit.allocator.worlds import GPU, amounts, by_key, counts, job, node, nodes, task

Queued = Mapping[str, Mapping[str, Any]]


def queued(jobs: Mapping[str, JobInfo], given_queues: Queued) -> dict[str, JobInfo]:
    """The jobs as the allocator reads them where namespaces have these settings."""
    queues = read_queues(given_queues)
    return {
        key: replace(each, account=queues.account(each.namespace, {})) for key, each in jobs.items()
    }


def usage(jobs: Mapping[str, JobInfo], answer: Mapping[str, NodeList]) -> dict[str, Counter[str]]:
    """What each namespace has of each resource."""
    found: dict[str, Counter[str]] = {}
    for key, placed in answer.items():
        counts = {name: len(placed.task(name)) for name, _ in placed.tasks}
        found.setdefault(jobs[key].namespace, Counter()).update(asked_by(jobs[key], counts))
    return found


@pytest.mark.parametrize(
    ("queues", "message"),
    [
        (3, "queues: 3: must map namespaces to their settings"),
        (
            {f"n{number}": {"weight": 1} for number in range(MOST + 1)},
            "queues: 257 namespaces: there may be 256 at most",
        ),
        ({"No": {"weight": 1}}, "queues: No: must be the name of a namespace"),
        ({"a": {}}, "queues: a: {}: must have some of weight, guarantee, quota"),
        ({"a": {"weight": 0}}, "queues: a: weight: 0: must be a number above 0"),
        ({"a": {"weight": True}}, "queues: a: weight: True: must be a number above 0"),
        ({"a": {"weight": "3"}}, "queues: a: weight: '3': must be a number above 0"),
        ({"a": {"weight": float("inf")}}, "queues: a: weight: inf: must be a number above 0"),
        ({"a": 3}, "queues: a: 3: must have some of weight, guarantee, quota"),
        ({"a": {"quota": {}}}, "queues: a: quota: {}: must map resources to amounts"),
        ({"a": {"quota": {"cpu": None}}}, "queues: a: quota: cpu: None: must be a quantity"),
        (
            {"a": {"qouta": {"cpu": 1}}},
            "queues: a: qouta: there is no such key; there are weight, guarantee, quota",
        ),
        ({"a": {"quota": 4}}, "queues: a: quota: 4: must map resources to amounts"),
        ({"a": {"quota": {"cpu": "much"}}}, "queues: a: quota: cpu: 'much': must be a quantity"),
        ({"a": {"quota": {"cpu": True}}}, "queues: a: quota: cpu: True: must be a quantity"),
        ({"a": {"quota": {"cpu": -1}}}, "queues: a: quota: cpu: -1: must not be negative"),
        (
            {"a": {"guarantee": {GPU: 4}, "quota": {GPU: 3}}},
            f"queues: a: guarantee: {GPU}: is more than the quota",
        ),
    ],
)
@pytest.mark.parametrize("policy", POLICIES)
def test_invalid_queue_settings_are_refused_with_their_place(
    policy: str, queues: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        POLICIES[policy](queues=queues)


@pytest.mark.parametrize("policy", POLICIES)
def test_weights_of_both_shares_and_queues_are_refused(policy: str) -> None:
    with pytest.raises(
        ValueError, match=r"^shares: weights are those of queues, where there are any$"
    ):
        POLICIES[policy](shares={"a": 1}, queues={"b": {"weight": 2}})


def test_a_policy_without_queues_has_none() -> None:
    assert queues_of(None) is NO_QUEUES
    assert queues_of(FitPolicy()) == NO_QUEUES
    assert not NO_QUEUES
    many = read_queues({f"n{number}": {"weight": 1} for number in range(MOST)})
    assert len(many.weights) == MOST
    assert many.account("n0", {}) is None
    assert queues_of(FitPolicy(queues={"a": {"weight": 2}})).weights == {"a": 2}


@pytest.mark.parametrize("name", POLICIES)
def test_a_namespace_has_at_most_its_quota_in_an_empty_cluster(name: str) -> None:
    queues = {"a": {"quota": {GPU: 4}}}
    policy, room = POLICIES[name](queues=queues), nodes(16, gpu=1)
    jobs = queued(by_key(wants("a/x"), wants("a/y")), queues)

    assert by_namespace(settled(policy, jobs, room)) == {"a": 4}


@pytest.mark.proves("teams-queues.md#what-to-set/quota")
@pytest.mark.parametrize("name", POLICIES)
def test_every_resource_of_a_quota_is_bounded(name: str) -> None:
    queues = {"a": {"quota": {"cpu": 3, GPU: 8}}}
    policy, room = POLICIES[name](queues=queues), nodes(1, gpu=16, cpu=64)
    one = job("a/x", task(16, minimum=1, gpu=1, cpu=0.5), explored=64)
    jobs = queued(by_key(one), queues)

    has = usage(jobs, settled(policy, jobs, room))["a"]
    assert has == amounts(gpu=4 if name == "goodput" else 6, cpu=2 if name == "goodput" else 3)


@pytest.mark.parametrize("name", POLICIES)
def test_a_lowered_quota_holds_in_the_next_period(name: str) -> None:
    room, jobs = nodes(16, gpu=1), by_key(wants("a/x", 1, 8), wants("b/x", 1, 8))
    fixed = gang("a/g", 2, age=9.0)
    before = settled(POLICIES[name](), jobs | by_key(fixed), room)
    assert len(before["a/x"]) >= 7
    queues = {"a": {"quota": {GPU: 6}}}
    lowered = queued(jobs | by_key(fixed), queues)

    answer = POLICIES[name](queues=queues).optimize(lowered, room, before)
    check(answer, lowered, room, before)
    assert answer["a/g"] == before["a/g"]
    found = by_namespace(answer)
    assert found["a"] == 6
    # What is free then, others may have.
    assert found["b"] >= len(before["b/x"])


def test_a_job_that_began_small_grows_within_its_quota() -> None:
    queues = {"a": {"weight": 1, "quota": {GPU: 5}}}
    jobs = queued(by_key(wants("a/x", 1, 8, age=9.0), wants("a/y", 2, 2)), queues)
    begun = {"a/x": NodeList.of({"learner": ("n000",)})}
    answer = FitPolicy(queues=queues).optimize(jobs, nodes(8, gpu=1), begun)
    assert counts(answer) == {"a/x": 3, "a/y": 2}
    check(answer, jobs, nodes(8, gpu=1), begun)


def test_a_job_waiting_for_its_quota_delays_no_other() -> None:
    queues = {"a": {"quota": {GPU: 2}}}
    jobs = queued(by_key(wants("a/x", 4, 4, age=9.0), wants("b/x", 4, 4)), queues)
    answer = FitPolicy(queues=queues, backfill=False).optimize(jobs, nodes(4, gpu=1), {})

    assert by_namespace(answer) == {"a": 0, "b": 4}


yes = st.booleans()
resources = st.fixed_dictionaries({}, optional={GPU: st.integers(1, 12), "cpu": st.integers(1, 9)})


@st.composite
def some_queues(draw: st.DrawFn) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for name in "abc":
        quota = draw(resources)
        part = st.integers(0, 3)
        guarantee = {key: most * draw(part) // 3 for key, most in quota.items()}
        queue: dict[str, Any] = {}
        if quota:
            queue["quota"] = quota
        if draw(yes) and guarantee:
            queue["guarantee"] = guarantee
        if draw(yes):
            queue["weight"] = draw(st.integers(1, 4))
        if queue:
            found[name] = queue
    return found


@st.composite
def some_jobs(draw: st.DrawFn) -> dict[str, JobInfo]:
    keys = [
        f"{draw(st.sampled_from('abc'))}/j{number}" for number in range(draw(st.integers(1, 6)))
    ]
    return {key: draw(a_job(key)) for key in keys}


def one_kind(found: Mapping[str, Any]) -> dict[str, Any]:
    """Nodes of one kind: with several `goodput` has no queues."""
    return {name: replace(node, kind="") for name, node in found.items()}


@pytest.mark.proves("teams.md#feature-by-feature/quota", "teams-queues.md#what-to-set/quota")
@pytest.mark.parametrize("name", POLICIES)
@given(
    jobs=some_jobs(),
    room=some_nodes(),
    given_queues=some_queues(),
    ended=st.sets(st.integers(0, 5)),
)
def test_no_namespace_exceeds_its_quota_as_jobs_come_and_go(
    name: str,
    jobs: dict[str, JobInfo],
    room: dict[str, Any],
    given_queues: dict[str, dict[str, Any]],
    ended: set[int],
) -> None:
    policy, room = POLICIES[name](queues=given_queues), one_kind(room)
    jobs = queued(jobs, given_queues)
    quotas = {key: queue.quota for key, queue in read_queues(given_queues).by_namespace.items()}
    answer: dict[str, NodeList] = {}
    for left in (jobs, {k: j for at, (k, j) in enumerate(jobs.items()) if at not in ended}, jobs):
        before = {key: placed for key, placed in answer.items() if key in left}
        answer = policy.optimize(left, room, before)
        check(answer, left, room, before)
        for namespace, has in usage(left, answer).items():
            assert all(has[key] <= most for key, most in quotas.get(namespace, {}).items())


class Greedy:
    """A policy that does not look at quotas: the first node, as many as possible."""

    def allocate(self, job: JobInfo, nodes: Mapping[str, Any]) -> NodeList:
        return NodeList.of({each.name: (next(iter(nodes)),) * each.maximum for each in job.tasks})

    def optimize(
        self, jobs: Mapping[str, JobInfo], nodes: Mapping[str, Any], _held: Mapping[str, NodeList]
    ) -> dict[str, NodeList]:
        return {key: self.allocate(each, nodes) for key, each in jobs.items()}


def test_quotas_bound_any_answer_and_learners_shrink_last() -> None:
    queues = {"a": {"quota": {"cpu": 6}}}
    two = job(
        "a/x",
        task(2, minimum=1, maximum=3, cpu=1),
        task(2, name="collector", minimum=1, maximum=8, cpu=1),
    )
    jobs = queued(by_key(two, job("a/y", task(1, cpu=1)), job("b/x", task(8, cpu=1))), queues)
    room = nodes(1, cpu=64)
    plan = make_plan(Greedy().optimize(jobs, room, {}), jobs, room, {})

    has = plan.allocations["a/x"]
    assert (len(has.task("learner")), len(has.task("collector"))) == (3, 3)
    assert plan.allocations["a/y"] == WAIT
    assert len(plan.allocations["b/x"]) == 8
    assert not plan.refused
    again = make_plan(Greedy().optimize(jobs, room, {}), jobs, room, plan.allocations)
    assert again.allocations == plan.allocations


@pytest.mark.proves(
    "teams.md#feature-by-feature/guarantee",
    "teams.md#feature-by-feature/reclaim",
    "teams-queues.md#what-to-set/guarantee",
)
@pytest.mark.parametrize("name", POLICIES)
@given(
    count=st.integers(1, 5),
    early=st.integers(1, 6),
    guarantee=st.integers(0, 8),
    quota=st.integers(0, 8),
    weight=st.integers(1, 8),
)
def test_a_guarantee_is_returned_within_one_period(
    name: str, *, count: int, early: int, guarantee: int, quota: int, weight: int
) -> None:
    queues: Queued = {
        "a": {"guarantee": {GPU: guarantee}, "quota": {GPU: guarantee + quota}},
        "b": {"weight": weight},
    }
    arguments: dict[str, Any] = {"restart_seconds": 0} if name == "goodput" else {}
    policy, room = POLICIES[name](queues=queues, **arguments), nodes(8, gpu=1)
    first = by_key(*(wants(f"b/x{at}", 1, 8, age=10.0 + at) for at in range(early)))
    held = settled(policy, first, room)
    assert sum(map(len, held.values())) == 8
    # Of one GPU each: what is guaranteed is not a matter of sizes then.
    late = by_key(*(wants(f"a/x{at}", 1, 1, age=float(at)) for at in range(count)))
    jobs = queued(first | late, queues)
    answer = policy.optimize(jobs, room, held)

    check(answer, jobs, room, held)
    assert by_namespace(answer)["a"] >= min(guarantee, count)
    # And nothing is kept idle that a job wants.
    waits = [key for key, placed in answer.items() if not placed]
    free = 8 - sum(map(len, answer.values()))
    assert not free or all(
        by_namespace(answer)["a"] == guarantee + quota for key in waits if key.startswith("a/")
    )
    assert not free or not any(key.startswith("b/") for key in waits)


@pytest.mark.parametrize("name", POLICIES)
def test_guarantees_beyond_the_capacity_are_scaled_down(name: str) -> None:
    queues: Queued = {
        "a": {"guarantee": {GPU: 12}},
        "b": {"guarantee": {GPU: 4}},
        "c": {"weight": 9},
    }
    policy, room = POLICIES[name](queues=queues), nodes(8, gpu=1)
    jobs = by_key(*(wants(f"{n}/x{at}", 1, 1) for n in "abc" for at in range(16)))

    answer = policy.optimize(queued(jobs, queues), room, {})
    assert by_namespace(answer) == {"a": 6, "b": 2, "c": 0}


@pytest.mark.parametrize("name", POLICIES)
def test_a_turn_does_not_take_the_guarantees_of_others(name: str) -> None:
    queues = {"a": {"guarantee": {GPU: 2}}}
    policy, room = POLICIES[name](queues=queues), nodes(8, gpu=1)
    small = by_key(*(wants(f"a/x{at}", 1, 1) for at in range(2)))
    for least, expected in ((6, {"a": 2, "b": 6}), (7, {"a": 2, "b": 0})):
        large = wants("b/large", least, least, age=1.5 * 3600)
        answer = policy.optimize(queued(small | by_key(large), queues), room, {})
        assert by_namespace(answer) == expected


def test_a_job_within_its_quota_is_unchanged() -> None:
    given_queues = {"a": {"quota": {GPU: 4}}}
    (one,) = queued(by_key(wants("a/x", 1, 4)), given_queues).values()
    allowance = Allowance()

    assert allowance.within(one) is one
    assert allowance.shortage(one) == ""
    allowance.take(one, NodeList.of({"learner": ("n",)}))
    bounded = allowance.within(one)
    assert bounded is not None
    assert bounded.tasks[0].maximum == 3


def gang(key: str, gpus: int, **options: Any) -> JobInfo:
    return job(key, task(gpus, gpu=1), preemptible=False, gang=True, **options)


@pytest.mark.parametrize("name", POLICIES)
def test_a_gang_leaves_the_guarantees_of_others(name: str) -> None:
    queues = {"a": {"guarantee": {GPU: 4}, "quota": {GPU: 8}}}
    policy, room = POLICIES[name](queues=queues), nodes(8, gpu=1)
    read, besides = read_queues(queues), {"a": amounts(gpu=1)}

    def seen(*jobs: JobInfo, held: Mapping[str, NodeList] | None = None) -> dict[str, JobInfo]:
        found = queued(by_key(*jobs), queues)
        return bar_gangs(found, held or {}, room, read, besides)

    # One of what is guaranteed is elsewhere: three have to be left.
    jobs = seen(gang("b/large", 6, age=9.0), gang("b/small", 3, age=8.0), gang("c/next", 3))
    answer = policy.optimize(jobs, room, {})
    assert counts(answer) == {"b/large": 0, "b/small": 3, "c/next": 0}
    # Its own gangs have it; and who runs goes on, whatever is guaranteed since.
    jobs = seen(*jobs.values(), gang("a/x", 3, age=1.0), held=answer)
    answer = policy.optimize(jobs, room, answer)
    assert counts(answer) == {"b/large": 0, "b/small": 3, "c/next": 0, "a/x": 3}


@pytest.mark.parametrize(
    ("guarantee", "elsewhere", "gpus", "is_barred"),
    [(4, 0, 4, False), (4, 0, 5, True), (4, 1, 5, False), (2, 3, 8, False)],
)
def test_a_gang_may_take_exactly_what_is_not_guaranteed_to_others(
    guarantee: int, elsewhere: int, gpus: int, is_barred: bool
) -> None:
    queues = {"a": {"guarantee": {GPU: guarantee}}, "b": {"quota": {GPU: 9}}}
    jobs = queued(by_key(gang("b/x", gpus)), queues)
    besides = {"a": amounts(gpu=elsewhere)}
    account = bar_gangs(jobs, {}, nodes(8, gpu=1), read_queues(queues), besides)["b/x"].account
    assert account is not None
    assert (bool(account.barred), account.quota) == (is_barred, amounts(gpu=9))


@pytest.mark.parametrize(
    ("running", "is_barred"),
    [({}, True), ({"a/x": ("b",) * 2}, True), ({"a/x": ("b",) * 4}, False)],
    ids=["nothing", "too little elsewhere", "all of it elsewhere"],
)
def test_a_gang_leaves_guarantees_on_the_nodes_that_it_can_use(
    running: Mapping[str, tuple[str, ...]], is_barred: bool
) -> None:
    pools = {name: node(name, labels={"pool": name}, gpu=8) for name in "ab"}
    in_a = Constraints(selector=(("pool", "a"),))
    of_a = job("b/x", replace(task(7, gpu=1), constraints=in_a), preemptible=False, gang=True)
    held = {key: NodeList.of({"learner": names}) for key, names in running.items()}
    queues = read_queues({"a": {"guarantee": {GPU: 4}}})
    found = bar_gangs(by_key(of_a, wants("a/x", 1, 8)), held, pools, queues, {})
    account = found["b/x"].account

    assert bool(account and account.barred) is is_barred


def test_a_gang_that_fits_no_node_is_not_barred() -> None:
    queues = read_queues({"a": {"guarantee": {GPU: 4}}})
    large = job("b/x", task(1, gpu=9), preemptible=False, gang=True)
    assert bar_gangs(by_key(large), {}, nodes(8, gpu=1), queues, {}) == by_key(large)


def test_guarantees_bar_no_running_gang_no_preemptible_job_and_no_other_resource() -> None:
    of_cpu = job("c/z", task(1, cpu=1), preemptible=False, gang=True)
    jobs = by_key(gang("b/x", 8), wants("b/y", 8, 8), of_cpu)
    held = {"b/x": NodeList.of({"learner": ("n000",) * 8})}
    queues = read_queues({"a": {"guarantee": {GPU: 9}}})
    assert bar_gangs(jobs, held, nodes(8, gpu=1), queues, {}) == jobs


def test_a_quota_is_used_to_its_end_in_whole_replicas_beside_other_pods() -> None:
    queues = read_queues({"a": {"quota": {GPU: 6, "cpu": 2}}})

    def counted(one: JobInfo) -> JobInfo:
        return replace(one, account=queues.account("a", amounts(gpu=1)))

    units = Allowance().within(
        counted(job("a/x", task(6, minimum=3, maximum=6, unit=3, gpu=1, cpu=0)))
    )
    assert units is not None
    assert units.tasks[0].replicas == 3
    exact = counted(wants("a/x", 5, 8))
    five, eight = (NodeList.of({"learner": ("n000",) * count}) for count in (5, 8))
    assert Allowance().within(exact) is not None
    assert Allowance().allows(exact, five)
    assert Allowance().cut(exact, eight, eight) == five
    assert Allowance().cut(counted(gang("a/g", 8)), eight, eight) == eight
    large = counted(job("a/z", task(1, gpu=6, cpu=2)))
    assert Allowance().shortage(large) == (
        f"the quota of namespace a: it has 1 of its 6 {GPU}, and the job needs 6"
    )
