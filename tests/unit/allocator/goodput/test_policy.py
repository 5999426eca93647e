"""The goodput policy: who grows, who waits, who is left alone, and what collectors get."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from di_operator.allocator.goodput.params import Collecting
from di_operator.allocator.grants.checked_plan import Change, make_plan
from di_operator.allocator.model.job import WAIT, JobInfo, NodeList
from di_operator.allocator.policies.goodput import GoodputPolicy
from tests.unit.allocator.worlds import by_key, counts, elastic, job, model, node, nodes, task


def decide(
    jobs: Mapping[str, JobInfo],
    count: int = 16,
    previous: Mapping[str, NodeList] | None = None,
    **arguments: Any,
) -> dict[str, NodeList]:
    return GoodputPolicy(**arguments).optimize(jobs, nodes(count, gpu=4), previous or {})


@pytest.mark.proves("allocation.md#policies/goodput")
def test_a_job_alone_grows_until_more_replicas_stop_helping() -> None:
    noisy = decide(by_key(elastic("a", model=model(noise=1e5))))
    quiet = decide(by_key(elastic("a", model=model(noise=0.5))))

    assert len(noisy["a"]) > len(quiet["a"]) >= 1


@pytest.mark.proves("allocation.md#goodput/has-just-begun")
def test_a_job_that_has_not_reported_starts_on_one_node_at_most() -> None:
    assert counts(decide(by_key(elastic("a", model=None, explored=0)))) == {"a": 4}


@pytest.mark.proves("allocation.md#goodput/growth")
def test_a_job_grows_by_a_factor_of_what_it_has_measured() -> None:
    scaling = model(noise=1e6, alpha_n=0.001, beta_n=1e-6)

    sizes = [
        len(decide(by_key(elastic("a", model=scaling, explored=explored)))["a"])
        for explored in (1, 4, 16)
    ]

    assert sizes == [4, 16, 64]
    assert len(decide(by_key(elastic("a", model=scaling, explored=4)), growth=2.0)["a"]) == 8


@pytest.mark.parametrize(("count", "sizes"), [(64, {1: 64}), (70, {1: 64, 0: 6})])
def test_64_gpus_go_to_as_many_jobs_and_the_rest_waits(count: int, sizes: dict[int, int]) -> None:
    jobs = by_key(*(elastic(f"j{number:02d}") for number in range(count)))

    assert Counter(counts(decide(jobs)).values()) == sizes


@pytest.mark.proves("allocation.md#goodput/priority-weight")
def test_a_job_of_high_priority_gets_more() -> None:
    jobs = by_key(elastic("a"), elastic("b", priority=1), *(elastic(f"j{n}") for n in range(12)))
    found = counts(decide(jobs))

    assert found["b"] > found["a"]


@pytest.mark.proves("allocation.md#goodput/decay", "allocation.md#goodput/decay-after")
def test_a_job_with_much_work_done_yields_to_a_new_one() -> None:
    scaling = model(noise=1e5)
    had = {"new": 0.0, "old": 1e6, "older": 2e6, **{f"j{n}": 3600.0 for n in range(5)}}
    jobs = by_key(*(elastic(k, model=scaling, attained=work) for k, work in had.items()))

    assert counts(decide(jobs, 4))["new"] > counts(decide(jobs, 4))["old"] > 0
    assert len(set(counts(decide(jobs, 4, decay=0.0)).values())) == 1


@pytest.mark.proves("allocation.md#goodput/fairness")
def test_less_fairness_leaves_more_to_jobs_that_gain_more() -> None:
    gains, gains_little = model(noise=1e6, alpha_n=0.001), model(noise=1e5, alpha_n=0.5)
    jobs = by_key(
        *(elastic(f"a{number}", model=gains) for number in range(2)),
        *(elastic(f"b{number}", model=gains_little) for number in range(2)),
    )

    assert counts(decide(jobs, 3)) == {"a0": 4, "a1": 4, "b0": 2, "b1": 2}
    assert counts(decide(jobs, 3, fairness=1.0)) == {"a0": 2, "a1": 2, "b0": 4, "b1": 4}


@pytest.mark.proves(
    "allocation.md#goodput/restart-seconds", "allocation.md#goodput/horizon-seconds"
)
def test_a_small_gain_is_not_worth_a_restart() -> None:
    jobs = by_key(*(elastic(f"j{number}", model=model(noise=1e4)) for number in range(8)))
    settled = decide(jobs)
    slightly = {
        key: replace(each, model=model(noise=1e4 * (1.02 if key == "j0" else 1.0)))
        for key, each in jobs.items()
    }

    assert decide(slightly, previous=settled) == settled


def test_a_slow_restore_requires_a_larger_gain() -> None:
    held = {"a": NodeList((("learner", ("n000",) * 4),))}
    scaling = model(noise=1e6, alpha_n=0.01, beta_n=1e-6)

    def size(restoring: float, **arguments: Any) -> int:
        wants = elastic("a", model=scaling, maximum=8, restoring=restoring)
        return len(decide(by_key(wants), 2, held, **arguments)["a"])

    assert [size(0.0), size(30.0), size(60.0)] == [8, 8, 4]
    # What takes pods their time is not less for it.
    assert size(1.0, restart_seconds=60.0) == 4


def test_a_reported_restore_time_counts_as_a_minute_at_most() -> None:
    held = {"a": NodeList((("learner", tuple(f"n{n // 4:03d}" for n in range(16))),))}
    others = [elastic(f"j{n}", model=model(noise=1e5)) for n in range(3)]

    def found(restoring: float) -> dict[str, NodeList]:
        claims = elastic("a", model=model(noise=1e5), restoring=restoring)
        return decide(by_key(claims, *others), 4, held)

    assert found(1e300) == found(60.0)
    assert all(counts(found(1e300)).values())


def test_when_a_job_ends_the_others_grow() -> None:
    jobs = by_key(*(elastic(f"j{number}", model=model(noise=1e5)) for number in range(16)))
    before = decide(jobs)
    left = dict(list(jobs.items())[:4])
    held = {key: before[key] for key in left}

    assert sum(map(len, decide(left, previous=held).values())) > sum(map(len, held.values()))


def test_only_the_jobs_of_a_removed_node_move() -> None:
    jobs = by_key(*(elastic(f"j{n}", minimum=4, maximum=4) for n in range(3)))
    before = decide(jobs, 4)
    gone = set(before["j1"])
    rest = {name: each for name, each in nodes(4, gpu=4).items() if name not in gone}

    after = GoodputPolicy().optimize(jobs, rest, before)

    assert counts(after) == {"j0": 4, "j1": 4, "j2": 4}
    assert after["j0"] == before["j0"]
    assert after["j2"] == before["j2"]
    assert not gone & set(after["j1"])


def test_fixed_jobs_come_first_and_stay() -> None:
    rigid = job("rigid", task(6, gpu=1), preemptible=False, age=1.0)
    held = {"a": NodeList((("learner", ("n000",) * 4),))}
    first = decide(by_key(rigid, elastic("a", maximum=8)), 2, held)
    later = decide(by_key(rigid, *(elastic(f"j{n}") for n in range(9))), 2, first)

    assert len(first["rigid"]) == 6
    assert len(first["a"]) == 2
    assert later["rigid"] == first["rigid"]


@pytest.mark.proves(
    "allocation.md#goodput/silent-has-run-for-silence-seconds-on",
    "allocation.md#goodput/silence-seconds",
)
def test_a_job_without_reports_gets_at_most_its_request() -> None:
    silent = job("s", task(3, minimum=1, maximum=16, gpu=1), attained=1e5)

    assert counts(decide(by_key(silent))) == {"s": 3}


def test_the_size_of_a_job_without_reports_does_not_alternate() -> None:
    asking = job("s", task(48, minimum=1, maximum=64, gpu=1))
    reporting = [elastic(f"j{n}", model=model(noise=1e6)) for n in range(4)]
    held: Mapping[str, NodeList] = {}
    sizes: list[int] = []
    for _ in range(60):
        silent = replace(asking, attained=sum(sizes) * 60.0)
        held = decide(by_key(silent, *reporting), previous=held)
        sizes.append(len(held["s"]))

    # As a newcomer, and once it is silent.
    assert sum(before != after for before, after in pairwise(sizes)) <= 2


@pytest.mark.proves("allocation.md#goodput/silent-has-run-for-silence-seconds-on")
def test_each_further_replica_without_reports_counts_less() -> None:
    silent = job("s", task(64, minimum=1, maximum=64, gpu=1), attained=1e5)
    scaling = model(noise=1e6, alpha_n=0.001, beta_n=1e-6)
    reporting = elastic("r", model=scaling, maximum=64, attained=1e5)

    found = counts(decide(by_key(silent, reporting), 8))

    assert 1 <= found["s"] < found["r"]


def test_short_jobs_go_first_if_all_remaining_work_is_known() -> None:
    short, long = elastic("short", remaining=1e4), elastic("long", remaining=1e9)
    jobs = by_key(short, long, *(elastic(f"j{n}", remaining=1e6) for n in range(4)))
    swapped = jobs | by_key(replace(short, remaining=1e9), replace(long, remaining=1e4))

    assert counts(decide(jobs, 2))["short"] > counts(decide(jobs, 2))["long"]
    assert counts(decide(swapped, 2))["short"] < counts(decide(swapped, 2))["long"]


def test_a_restart_pays_longer_while_no_job_comes_or_ends() -> None:
    held = {"a": NodeList((("learner", ("n000",) * 4),))}
    scaling = model(noise=1e6, alpha_n=1.0, beta_n=1e-6)

    def size(*, age: float, remaining: float) -> int:
        job = elastic("a", model=scaling, maximum=8, age=age, remaining=remaining)
        return len(decide(by_key(job), 2, held)["a"])

    assert size(age=360.0, remaining=1e9) == 8
    # The next may come as soon as the last one did, and before long this one itself has ended.
    assert size(age=10.0, remaining=1e9) == 4
    assert size(age=360.0, remaining=10.0) == 4


def test_a_job_without_remaining_work_counts_as_half_done() -> None:
    others = [elastic(f"j{n}", remaining=1e6) for n in range(5)]
    young = by_key(elastic("a", attained=10.0), *others)
    old = by_key(elastic("a", attained=1e8), *others)

    assert counts(decide(young, 2))["a"] > counts(decide(old, 2))["a"]


def test_one_report_of_remaining_work_leaves_fair_shares() -> None:
    said = by_key(elastic("a", remaining=1e4), elastic("b"), elastic("c"))
    unsaid = {key: replace(each, remaining=None) for key, each in said.items()}

    assert decide(said, 4) == decide(unsaid, 4)


def test_a_minimum_does_not_make_a_bid_smaller() -> None:
    scaling = model(noise=1e6, alpha_n=0.001, beta_n=1e-6)
    rigid = elastic("rigid", model=scaling, minimum=8, remaining=1e4)
    jobs = by_key(rigid, *(elastic(f"j{n}", model=scaling, remaining=1e8) for n in range(4)))

    assert counts(decide(jobs, 3))["rigid"] >= 8


@pytest.mark.proves("allocation.md#goodput/its-minimum-is-above-a-fair-share")
def test_jobs_whose_minimum_is_above_a_fair_share_take_turns() -> None:
    def found(attained: float) -> dict[str, int]:
        had = elastic("had", minimum=8, maximum=8, attained=attained)
        others = (elastic(f"j{n}", model=model(noise=1e5), attained=1e5) for n in range(4))
        held = {"had": NodeList((("learner", ("n000",) * 4 + ("n001",) * 4),))}
        return counts(decide(by_key(had, *others), 3, held))

    assert found(attained=0.0)["had"] == 8
    assert found(attained=1e8)["had"] == 0


def test_a_job_that_fits_nowhere_waits_and_blocks_no_other() -> None:
    large = job("large", task(1, minimum=1, maximum=4, gpu=9))
    found = decide(by_key(large, elastic("a"), elastic("b", minimum=99, maximum=99)))

    assert found["large"] == found["b"] == WAIT
    assert len(found["a"]) > 0


def test_an_arriving_job_starts_on_the_free_capacity() -> None:
    room = {"a": node("a", gpu=0), "b": node("b", gpu=2)}

    placed = GoodputPolicy().allocate(elastic("x", model=None, explored=0), room)

    assert list(placed) == ["b", "b"]


# ------------------------------------------------------------------- collectors
COLLECTING = Collecting(rate=100.0, samples_per_step=1.0)


def learners_and_collectors(
    key: str = "t", *, collectors: tuple[int, int] = (1, 40), **options: Any
) -> JobInfo:
    low, high = collectors
    learner = task(1, minimum=1, maximum=4, gpu=1, cpu=1)
    collector = task(low, name="collector", minimum=low, maximum=high, cpu=1)
    defaults: dict[str, Any] = {
        "model": model(noise=0.0),
        "explored": 4,
        "collecting": COLLECTING,
    }
    return job(key, learner, collector, **defaults | options)


def place(one: JobInfo, cpus: float, previous: Mapping[str, NodeList] | None = None) -> NodeList:
    room = {"gpu": node("gpu", gpu=4, cpu=4), "cpu": node("cpu", gpu=0, cpu=cpus)}
    return GoodputPolicy().optimize({one.key: one}, room, previous or {})[one.key]


def test_a_job_has_fewer_learners_if_its_collector_can_use_no_other_node() -> None:
    collector = task(1, name="collector")
    collector = replace(
        collector, constraints=replace(collector.constraints, barred=frozenset({"n001"}))
    )
    one, room = job("a", task(3, minimum=1, maximum=5), collector), nodes(2, slot=3)
    answer = GoodputPolicy().optimize({"a": one}, room, {})
    assert dict(answer["a"].tasks) == {"learner": ("n000", "n000"), "collector": ("n000",)}
    assert GoodputPolicy().optimize({"a": one}, room, answer) == answer


def test_collectors_grow_to_the_knee_and_no_further() -> None:
    slow = place(learners_and_collectors(collecting=Collecting(rate=100.0)), 60)
    fast = place(learners_and_collectors(collecting=Collecting(rate=400.0)), 60)

    assert 1 < len(fast.task("collector")) < len(slow.task("collector")) < 40


def test_collectors_of_several_tasks_grow_in_the_order_of_the_spec() -> None:
    alone = learners_and_collectors(collectors=(2, 40))
    learner, collector = alone.tasks
    wanted = len(place(alone, 60).task("collector"))
    rollout = replace(collector, name="rollout", minimum=1, maximum=wanted - 2)
    tools = replace(collector, name="tools", minimum=1, maximum=40)

    placed = place(replace(alone, tasks=(learner, rollout, tools)), 60)

    assert wanted > 5
    assert (len(placed.task("rollout")), len(placed.task("tools"))) == (wanted - 2, 2)
    assert placed.task("learner") == place(alone, 60).task("learner")


def test_more_uses_of_a_step_need_fewer_collectors() -> None:
    once = place(learners_and_collectors(), 60)
    often = place(
        learners_and_collectors(collecting=Collecting(rate=100.0, samples_per_step=4.0)), 60
    )

    assert len(often.task("collector")) < len(once.task("collector"))


def test_collectors_change_without_touching_the_learners() -> None:
    before = place(learners_and_collectors(), 60)
    after = place(learners_and_collectors(), 5, {"t": before})
    plan = make_plan(
        {"t": after},
        {"t": learners_and_collectors()},
        {"gpu": node("gpu", gpu=4, cpu=4), "cpu": node("cpu", gpu=0, cpu=5)},
        {"t": before},
    )

    assert after.task("learner") == before.task("learner")
    assert len(after.task("collector")) < len(before.task("collector"))
    assert plan.changes == {"t": Change.SCALE}


def test_a_job_whose_other_tasks_do_not_fit_holds_no_gpu() -> None:
    assert place(learners_and_collectors(collectors=(20, 20)), 5) == WAIT


def test_collectors_go_to_the_job_that_gains_most() -> None:
    hungry, fed = (
        learners_and_collectors("hungry"),
        learners_and_collectors("fed", collecting=Collecting(rate=800.0)),
    )
    room = {"gpu": node("gpu", gpu=8, cpu=8), "cpu": node("cpu", gpu=0, cpu=8)}

    found = GoodputPolicy().optimize(by_key(hungry, fed), room, {})

    assert len(found["hungry"].task("collector")) > len(found["fed"].task("collector"))


def test_a_task_without_measurements_gets_its_replicas() -> None:
    evaluator = task(3, name="evaluator", minimum=1, maximum=9, cpu=1)
    one = job("e", task(1, gpu=1), evaluator, model=model(), explored=4)

    assert len(place(one, 60).task("evaluator")) == 3
    assert len(place(one, 1).task("evaluator")) == 3


@pytest.mark.parametrize("gpus", [1, 8])
def test_nodes_of_several_sizes_are_all_used(gpus: int) -> None:
    room = {
        **nodes(3, gpu=4),
        "odd": node("odd", gpu=gpus),
    }
    many = (elastic(f"j{number}", model=model(noise=1e5)) for number in range(5))
    jobs = by_key(elastic("one", maximum=1), *many)

    found = GoodputPolicy().optimize(jobs, room, {})

    assert sum(map(len, found.values())) >= 12
    assert "odd" in {name for placed in found.values() for name in placed}


@pytest.mark.parametrize("collectors", [2, 3])
def test_a_new_learner_takes_only_what_it_needs_from_collectors(
    collectors: int,
) -> None:
    wanted = task(collectors, name="collector", minimum=1, slot=1)
    old, room = job("old", task(1, slot=1), wanted, age=60.0), nodes(2, slot=2)
    had = GoodputPolicy().optimize(by_key(old), room, {})
    assert counts(had) == {"old": 1 + collectors}

    both = GoodputPolicy().optimize(by_key(old, job("new", task(1, slot=1))), room, had)
    assert counts(both) == {"old": 3, "new": 1}
    assert both["old"].task("learner") == had["old"].task("learner")
    assert collectors == 3 or both["old"] == had["old"]
