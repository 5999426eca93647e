"""Pools of nodes: jobs share what they can use, whatever else is free in the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from di_operator.allocator.grants.checked_plan import make_plan
from di_operator.allocator.model.job import Account, JobInfo, NodeList
from di_operator.allocator.model.node import Constraints, NodeInfo, Taint, Toleration
from di_operator.allocator.policies.goodput import GoodputPolicy
from tests.unit.allocator.worlds import amounts, by_key, counts, elastic, job, node


def pool_nodes(name: str, count: int, gpu: int = 4, kind: str = "") -> dict[str, NodeInfo]:
    return {
        f"{name}{number}": replace(
            node(f"{name}{number}", labels={"pool": name}, gpu=gpu), kind=kind
        )
        for number in range(count)
    }


def kept_to(found: JobInfo, *pools: str) -> JobInfo:
    """The job, whose pods select one of these pools."""
    (learner,) = found.tasks
    (only,) = pools
    return replace(
        found, tasks=(replace(learner, constraints=Constraints(selector=(("pool", only),))),)
    )


def decide(
    jobs: Mapping[str, JobInfo],
    nodes: Mapping[str, NodeInfo],
    previous: Mapping[str, NodeList] | None = None,
    **arguments: Any,
) -> dict[str, NodeList]:
    return GoodputPolicy(**arguments).optimize(jobs, nodes, previous or {})


@pytest.mark.parametrize("idle", [0, 1, 8])
def test_jobs_of_a_pool_share_it_whatever_is_idle_elsewhere(idle: int) -> None:
    jobs = by_key(*(kept_to(elastic(key, maximum=4), "a") for key in "xy"))
    nodes = pool_nodes("a", 1) | pool_nodes("b", idle)

    assert counts(decide(jobs, nodes)) == {"x": 2, "y": 2}


@pytest.mark.parametrize("idle", [0, 1, 8])
def test_a_job_that_grew_alone_makes_way_for_another_of_its_pool(idle: int) -> None:
    first, second = (kept_to(elastic(key, maximum=4), "a") for key in "xy")
    nodes = pool_nodes("a", 1) | pool_nodes("b", idle)
    alone = decide(by_key(first), nodes)

    assert counts(alone) == {"x": 4}
    assert counts(decide(by_key(first, second), nodes, alone)) == {"x": 2, "y": 2}


def test_a_taint_that_no_job_tolerates_makes_a_pool() -> None:
    taint = Taint(key="team", value="b", effect="NoSchedule")
    closed = {n: replace(each, taints=(taint,)) for n, each in pool_nodes("b", 8).items()}
    jobs = by_key(*(elastic(key, maximum=4) for key in "xy"))

    assert counts(decide(jobs, pool_nodes("a", 1) | closed)) == {"x": 2, "y": 2}


def test_a_job_that_can_use_two_pools_leaves_one_to_those_confined_to_it() -> None:
    jobs = by_key(*(kept_to(elastic(key, maximum=4), "a") for key in "xy"), elastic("z"))
    found = decide(jobs, pool_nodes("a", 1) | pool_nodes("b", 3))

    assert counts(found) == {"x": 2, "y": 2, "z": 12}


def test_a_tolerant_job_uses_both_pools_at_once() -> None:
    taint = Taint(key="team", value="b", effect="NoSchedule")
    closed = {n: replace(each, taints=(taint,)) for n, each in pool_nodes("b", 2).items()}
    tolerant = elastic("z")
    (learner,) = tolerant.tasks
    constraints = Constraints(tolerations=(Toleration(operator="Exists"),))
    tolerant = replace(tolerant, tasks=(replace(learner, constraints=constraints),))
    found = decide(by_key(elastic("x", maximum=2), tolerant), pool_nodes("a", 2) | closed)

    assert counts(found) == {"x": 2, "z": 12}
    assert {name[0] for name in found["z"]} == {"a", "b"}


def test_pools_within_a_type_of_node_have_their_own_budgets() -> None:
    jobs = by_key(*(kept_to(elastic(key, maximum=4), "a") for key in "xy"), elastic("z", maximum=8))
    nodes = (
        pool_nodes("a", 1, kind="slow")
        | pool_nodes("b", 2, kind="slow")
        | pool_nodes("c", 1, kind="fast")
    )
    found = decide(jobs, nodes)

    assert {key: counts(found)[key] for key in "xy"} == {"x": 2, "y": 2}
    assert counts(found)["z"] == 8


@pytest.mark.parametrize(
    "arguments", [{"shares": {"p": 1, "q": 1}}, {"queues": {"p": {"weight": 1}}}]
)
def test_namespaces_share_the_pool_that_their_jobs_can_use(arguments: dict[str, Any]) -> None:
    jobs = by_key(
        *(kept_to(elastic(f"p/{n}", maximum=4), "a") for n in range(3)),
        kept_to(elastic("q/0", maximum=4), "a"),
    )
    found = counts(decide(jobs, pool_nodes("a", 2) | pool_nodes("b", 8), **arguments))

    assert found["q/0"] == 4
    assert sum(found.values()) == 8


def test_a_quota_counts_what_a_namespace_has_in_all_pools() -> None:
    account = Account(quota=amounts(gpu=4))
    jobs = by_key(
        *(kept_to(elastic(f"p/{pool}", maximum=4, account=account), pool) for pool in "ab")
    )
    found = counts(decide(jobs, pool_nodes("a", 1) | pool_nodes("b", 1)))

    assert sum(found.values()) == 4


def test_a_quota_with_a_scope_bounds_sizes_before_a_job_gives_its_nodes() -> None:
    """Each of these pods has the scope: the quota counts them under a name of its own."""
    account, running = Account(quota={"gpu of the scope": 0}), elastic("v/x", maximum=8)
    (one,) = elastic("p/x", maximum=8).tasks
    scoped = replace(one, scoped={"gpu of the scope": 1000})
    first = job("p/x", scoped, account=account, priority=1)
    nodes = pool_nodes("a", 2)
    had = {"v/x": NodeList.of({one.name: tuple(name for name in nodes for _ in range(4))})}
    found = GoodputPolicy().optimize(by_key(running, first), nodes, had)

    assert counts(found) == {"v/x": 8, "p/x": 0}


def test_a_guarantee_that_is_met_in_one_pool_takes_nothing_in_another() -> None:
    queues = {"p": {"guarantee": {"nvidia.com/gpu": 4}}, "q": {"weight": 1}}
    account = Account(guarantee=amounts(gpu=4))
    jobs = by_key(
        kept_to(elastic("p/a", maximum=4, account=account), "a"),
        kept_to(elastic("p/b", maximum=4, account=account), "b"),
        kept_to(elastic("q/b", maximum=4), "b"),
    )
    found = counts(decide(jobs, pool_nodes("a", 1) | pool_nodes("b", 1), queues=queues))

    assert found == {"p/a": 4, "p/b": 2, "q/b": 2}


@settings(max_examples=30)
@given(
    sizes=st.lists(st.integers(1, 3), min_size=2, max_size=3),
    jobs=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 16)), min_size=1, max_size=8),
)
def test_disjoint_pools_are_decided_as_clusters_of_their_own(
    sizes: list[int], jobs: list[tuple[int, int]]
) -> None:
    names = "abc"[: len(sizes)]
    nodes = {name: pool_nodes(name, count) for name, count in zip(names, sizes, strict=True)}
    found = {
        name: by_key(
            *(
                kept_to(elastic(f"j{number}", maximum=most), name)
                for number, (at, most) in enumerate(jobs)
                if names[at % len(names)] == name
            )
        )
        for name in names
    }
    together = decide(
        {key: each for part in found.values() for key, each in part.items()},
        {key: each for part in nodes.values() for key, each in part.items()},
    )

    for name in names:
        assert decide(found[name], nodes[name]).items() <= together.items()


def test_a_job_that_can_use_two_pools_moves_for_one_that_can_use_one() -> None:
    wide = elastic("z", maximum=8, minimum=8)
    nodes = pool_nodes("a", 1) | pool_nodes("b", 2)
    before = {"z": NodeList.of({"learner": ("a0",) * 4 + ("b0",) * 4})}
    found = decide(by_key(wide, kept_to(elastic("x", maximum=4), "a")), nodes, before)

    assert counts(found) == {"x": 4, "z": 8}
    assert set(found["z"]) == {"b0", "b1"}


def test_a_plan_of_several_pools_is_taken_as_it_is() -> None:
    jobs = by_key(*(kept_to(elastic(f"{p}{n}", maximum=4), p) for p, n in product("ab", range(3))))
    nodes = pool_nodes("a", 1) | pool_nodes("b", 2)
    answer = decide(jobs, nodes)

    assert not make_plan(answer, jobs, nodes, {}).refused
    assert sum(counts(answer).values()) == 12
