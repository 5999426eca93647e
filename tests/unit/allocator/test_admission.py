"""All or nothing, in order, tightly packed: the tables of `fit` and `binpack`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from di_operator.allocator.model.job import WAIT, JobInfo, NodeList
from di_operator.allocator.model.node import Constraints
from di_operator.allocator.policies.best_fit import FitPolicy
from di_operator.allocator.policies.binpack import BinpackPolicy
from tests.unit.allocator.worlds import amounts, by_key, counts, job, node, nodes, per_node, task


def gang(key: str, **options: object) -> JobInfo:
    return job(
        key,
        task(2, name="learner"),
        task(4, name="collector"),
        preemptible=False,
        gang=True,
        **options,
    )


@pytest.mark.proves("allocation.md#gangs", "dijob.md#spec/scheduling-gang")
@pytest.mark.parametrize(("slots", "together"), [((3, 3, 3), 1), ((5, 4, 4), 2)])
def test_five_gangs_run_in_order_as_many_as_fit_at_a_time(
    slots: tuple[int, ...], together: int
) -> None:
    capacity = {f"n{row}": node(f"n{row}", slot=count) for row, count in enumerate(slots)}
    jobs = by_key(*(gang(f"g{number}", age=10.0 - number) for number in range(5)))
    held: Mapping[str, NodeList] = {}
    seen = []
    while jobs:
        held = FitPolicy().optimize(jobs, capacity, {k: v for k, v in held.items() if k in jobs})
        running = [key for key, placed in held.items() if placed]
        seen.append(running)
        assert set(counts(held).values()) <= {0, 6}
        del jobs[running[0]]

    assert [key for keys in seen for key in keys[:1]] == ["g0", "g1", "g2", "g3", "g4"]
    assert max(len(keys) for keys in seen) == together


def test_a_job_takes_what_is_free_but_nothing_below_its_minimum() -> None:
    jobs = by_key(job("a", task(6, minimum=3, maximum=6)))
    four = FitPolicy().optimize(jobs, nodes(1, slot=4), {})
    two = FitPolicy().optimize(jobs, nodes(1, slot=2), four)

    assert counts(four) == {"a": 4}
    assert counts(two) == {"a": 0}


@pytest.mark.proves("roles.md#a-replica-of-several-pods/room-that-the-allocator-gives-gangs")
@pytest.mark.parametrize(("slots", "placed"), [(7, 6), (5, 3), (2, 0), (9, 9), (99, 9)])
@pytest.mark.parametrize("policy", [FitPolicy, BinpackPolicy])
def test_pods_of_a_replica_are_placed_all_or_none(
    policy: type[FitPolicy] | type[BinpackPolicy], slots: int, placed: int
) -> None:
    jobs = by_key(job("a", task(9, minimum=3, maximum=12, unit=3)))
    assert counts(policy().optimize(jobs, nodes(1, slot=slots), {})) == {"a": placed}


def test_half_a_replica_takes_no_capacity_from_others() -> None:
    jobs = by_key(job("a", task(6, minimum=3, maximum=6, unit=3)), job("b", task(2)))
    assert counts(FitPolicy().optimize(jobs, nodes(1, slot=5), {})) == {"a": 3, "b": 2}


def test_a_gang_waits_if_its_selector_fits_one_of_two_pods() -> None:
    fast = Constraints(selector=(("disk", "fast"),))
    wanted = replace(task(2), constraints=fast)
    capacity = {
        "a": node("a", labels={"disk": "fast"}, slot=1),
        "b": node("b", labels={"disk": "slow"}, slot=9),
    }
    jobs = by_key(job("x", wanted, preemptible=False, gang=True))

    assert FitPolicy().optimize(jobs, capacity, {}) == {"x": WAIT}


@pytest.mark.proves("dijob.md#spec/priority")
def test_a_gang_of_high_priority_goes_before_an_older_one() -> None:
    jobs = by_key(gang("low", age=9.0), gang("high", age=1.0, priority=1))

    assert counts(FitPolicy().optimize(jobs, nodes(1, slot=6), {})) == {"low": 0, "high": 6}


def test_without_backfill_no_job_overtakes_one_that_could_ever_fit() -> None:
    capacity = nodes(2, slot=3)
    jobs = by_key(
        job("runs", task(3), age=9.0),
        job("waits", task(4, minimum=4), preemptible=False, age=3.0),
        job("small", task(1), age=2.0),
    )
    held = {"runs": NodeList((("learner", ("n000",) * 3),))}
    impossible = jobs | {"waits": job("waits", task(7), preemptible=False, age=3.0)}

    assert counts(FitPolicy().optimize(jobs, capacity, held))["small"] == 1
    assert counts(FitPolicy(backfill=False).optimize(jobs, capacity, held))["small"] == 0
    assert counts(FitPolicy(backfill=False).optimize(impossible, capacity, held))["small"] == 1


@pytest.mark.proves("allocation.md#policies/fit", "allocation.md#fit-and-binpack")
def test_fit_takes_the_node_with_the_least_space_and_moves_no_running_job() -> None:
    capacity = {"wide": node("wide", slot=8), "tight": node("tight", slot=2)}
    jobs = by_key(job("a", task(2)))
    held = {"a": NodeList((("learner", ("wide", "wide")),))}

    assert list(FitPolicy().allocate(jobs["a"], capacity)) == ["tight", "tight"]
    assert FitPolicy().optimize(jobs, capacity, held) == held


WEIGHTS = {"cpu": 5.0, "memory": 1.0}


def small(count: int) -> JobInfo:
    return job("small", task(count, cpu=0.2, memory=0.1), age=1.0)


@pytest.mark.proves("allocation.md#policies/binpack", "allocation.md#fit-and-binpack")
def test_binpack_fills_one_node_before_the_next() -> None:
    answer = BinpackPolicy(weights=WEIGHTS).optimize(
        by_key(small(24)), nodes(2, cpu=4, memory=8), {}
    )

    assert sorted(per_node(answer["small"]).values()) == [4, 20]


def test_binpack_leaves_a_whole_node_for_a_large_pod() -> None:
    jobs = by_key(small(16), job("large", task(1, cpu=4, memory=1)))
    answer = BinpackPolicy(weights=WEIGHTS).optimize(jobs, nodes(2, cpu=4, memory=8), {})
    assert counts(answer) == {"small": 16, "large": 1}


@pytest.mark.proves("allocation.md#fit-and-binpack")
def test_the_weights_decide_which_resource_is_packed() -> None:
    # One node is fuller in processors, the other in memory.
    capacity = {
        "cpu": replace(node("cpu", cpu=4, memory=8), free=amounts(cpu=1, memory=8)),
        "memory": replace(node("memory", cpu=4, memory=8), free=amounts(cpu=4, memory=2)),
    }
    pod = job("a", task(1, cpu=1, memory=1))

    assert list(BinpackPolicy(weights={"cpu": 9}).allocate(pod, capacity)) == ["cpu"]
    assert list(BinpackPolicy(weights={"memory": 9}).allocate(pod, capacity)) == ["memory"]


@pytest.mark.parametrize("weight", [-1.0, float("nan"), "5", True])
def test_an_invalid_weight_is_refused(weight: object) -> None:
    with pytest.raises(ValueError, match="weights: cpu"):
        BinpackPolicy(weights={"cpu": weight})  # type: ignore[dict-item]


def test_a_resource_of_weight_0_still_limits_a_node() -> None:
    jobs = by_key(job("small", task(24, minimum=1, cpu=0.2, memory=0.1)))

    answer = BinpackPolicy(weights={"memory": 0}).optimize(jobs, nodes(2, cpu=4, memory=1), {})

    assert sorted(per_node(answer["small"]).values()) == [10, 10]
