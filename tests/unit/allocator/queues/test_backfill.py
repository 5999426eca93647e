"""Who may start while a large job waits, and that it is not delayed by that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from di_operator.allocator.admission.backfill import Backfill, read_backfill
from di_operator.allocator.model.job import JobInfo, NodeList
from di_operator.allocator.observe.inventory import read_job
from di_operator.allocator.policies.best_fit import FitPolicy
from di_operator.allocator.policies.binpack import BinpackPolicy
from di_operator.lifecycle.observed.specs import read_spec
from tests.unit.allocator.objects import NOW
from tests.unit.allocator.objects import job as manifest
from tests.unit.allocator.objects import task as declared
from tests.unit.allocator.test_policy_properties import check
from tests.unit.allocator.worlds import by_key, counts, job, nodes, task

PARENTS = {"fit": FitPolicy, "binpack": BinpackPolicy}


def small(key: str, slots: int = 1, **options: Any) -> JobInfo:
    return job(key, task(slots), **options)


@pytest.mark.parametrize("name", PARENTS)
@pytest.mark.parametrize("given_value", ["all", 1, None, "Reserve"])
def test_an_invalid_backfill_argument_is_refused(name: str, given_value: Any) -> None:
    with pytest.raises(ValueError, match=r'^backfill: .*: must be true, false or "reserve"$'):
        PARENTS[name](backfill=given_value)


def test_a_backfill_argument_is_compared_by_value() -> None:
    assert read_backfill("".join(list("reserve"))) is Backfill.RESERVE


def held(**placed: str) -> dict[str, NodeList]:
    return {key: NodeList.of({"learner": tuple(at.split())}) for key, at in placed.items()}


@pytest.mark.parametrize("name", PARENTS)
@pytest.mark.parametrize(
    ("backfill", "slots", "starts"),
    # The second large job reserves nothing; one that never fits keeps nobody waiting.
    [(True, 4, 2), ("reserve", 4, 1), (False, 4, 0), (False, 9, 2)],
)
def test_backfill_decides_what_starts_behind_a_job_that_waits(
    name: str, backfill: Any, slots: int, starts: int
) -> None:
    running = held(x="n000 n000 n000", y="n001 n001 n001")
    large = (job(f"big{at}", task(1, slot=slots), age=9.0 - at) for at in range(2))
    jobs = by_key(
        small("x", 3, ends=60.0), small("y", 3), *large, *(small(f"s{at}") for at in range(2))
    )
    answer = PARENTS[name](backfill=backfill).optimize(jobs, nodes(2, slot=4), running)
    assert {key: answer[key] for key in running} == running
    assert sum(len(answer[key]) for key in ("s0", "s1")) == starts
    assert not answer["big0"]
    assert not answer["big1"]


@pytest.mark.proves("teams-queues.md#a-large-job-in-a-stream-of-small-ones")
@pytest.mark.parametrize("name", PARENTS)
def test_the_nodes_that_come_free_first_are_reserved(name: str) -> None:
    policy, room = PARENTS[name](backfill="reserve"), nodes(3, slot=4)
    running = held(x="n000 n000 n000", y="n001 n001 n001", z="n002 n002 n002")
    jobs = by_key(
        small("x", 3, ends=900.0),
        small("y", 3, ends=60.0),
        small("z", 3),
        job("big", task(1, slot=4), age=9.0),
        *(small(f"s{at}", age=float(-at)) for at in range(3)),
    )
    answer = policy.optimize(jobs, room, running)

    # One slot is free on each node; that of the second one is kept.
    assert answer["big"] == NodeList()
    assert sorted([*answer["s0"], *answer["s1"], *answer["s2"]]) == ["n000", "n002"]
    rest = {key: each for key, each in jobs.items() if key != "y"}
    after = policy.optimize(rest, room, {key: answer[key] for key in rest})
    assert set(after["big"]) == {"n001"}


@pytest.mark.proves(
    "teams-queues.md#a-large-job-in-a-stream-of-small-ones", "teams.md#feature-by-feature/backfill"
)
@pytest.mark.parametrize("name", PARENTS)
def test_a_job_that_ends_before_the_reservation_may_use_it(name: str) -> None:
    policy, room = PARENTS[name](backfill="reserve"), nodes(1, slot=4)
    running = held(x="n000 n000")
    big = job("big", task(1, slot=4), age=9.0)
    for longest, ends, starts in (
        (60.0, 90.0, 2),
        (60.0, 60.0, 2),
        (90.0, 60.0, 0),
        (None, 60.0, 0),
        (60.0, None, 0),
    ):
        jobs = by_key(small("x", 2, ends=ends), big, small("s", 2, longest=longest))
        assert counts(policy.optimize(jobs, room, running))["s"] == starts


@pytest.mark.parametrize("name", PARENTS)
@pytest.mark.parametrize(("longest", "starts"), [(90.0, 1), (91.0, 0)])
def test_a_reservation_waits_for_as_many_ends_as_it_needs(
    name: str, longest: float, starts: int
) -> None:
    """Two of the jobs with slots have to end: the later of them after 90 seconds."""
    running = held(x="n000", y="n000", z="n000", other="n000")
    jobs = by_key(
        small("x", ends=90.0),
        small("y", ends=60.0),
        small("z", ends=99.0),
        job("other", task(1, cpu=1), ends=30.0),
        job("big", task(1, slot=3), age=9.0),
        small("s", longest=longest),
    )
    room = nodes(1, slot=4, cpu=4)
    answer = PARENTS[name](backfill="reserve").optimize(jobs, room, running)
    assert counts(answer)["s"] == starts


@pytest.mark.parametrize("name", PARENTS)
def test_where_no_end_is_known_the_node_with_the_least_missing_is_reserved(name: str) -> None:
    running = held(x="n000 n000 n000 n000 n000 n000", y="n001 n001")
    big = job("big", task(1, slot=8), age=9.0)
    for size, starts in ((2, 1), (4, 0)):
        jobs = by_key(small("x", 6), small("y", 2), big, job("s", task(1, slot=size)))
        answer = PARENTS[name](backfill="reserve").optimize(jobs, nodes(2, slot=8), running)
        assert counts(answer)["s"] == starts


@pytest.mark.parametrize("name", PARENTS)
def test_what_is_missing_is_compared_as_a_part_of_what_is_needed(name: str) -> None:
    """An eighth of the slots is more than a 16th of the processors."""
    running = held(x="n000", y="n001 n001 n001 n001")
    big = job("big", task(1, slot=8, cpu=64), age=9.0)
    for slots, starts in ((7, 1), (8, 0)):
        jobs = by_key(small("x"), job("y", task(4, cpu=1)), big, job("s", task(1, slot=slots)))
        room = nodes(2, slot=8, cpu=64)
        answer = PARENTS[name](backfill="reserve").optimize(jobs, room, running)
        assert counts(answer)["s"] == starts


@pytest.mark.parametrize("name", PARENTS)
def test_a_job_that_never_fits_reserves_nothing(name: str) -> None:
    jobs = by_key(job("huge", task(1, slot=9), age=9.0), small("s", 4))
    answer = PARENTS[name](backfill="reserve").optimize(jobs, nodes(1, slot=4), {})

    assert counts(answer) == {"huge": 0, "s": 4}


@pytest.mark.parametrize("name", PARENTS)
def test_an_arrival_does_not_start_before_the_waiting_jobs_are_known(name: str) -> None:
    assert not PARENTS[name](backfill="reserve").allocate(small("s"), nodes(1, slot=4))
    assert PARENTS[name]().allocate(small("s"), nodes(1, slot=4))


def starts_after(policy: Any, running: int, size: int, rounds: int) -> int | None:
    """In which round a job of that size starts, while every round brings small ones, each of which
    runs for three rounds; those that ran first end one a round."""
    room = nodes(2, slot=4)
    first = by_key(*(small(f"r{at}", ends=60.0 * (at + 1)) for at in range(running)))
    answer: Mapping[str, NodeList] = policy.optimize(first, room, {})
    jobs = first | by_key(job("big", task(size), age=1e4))
    begun = dict.fromkeys((key for key, placed in answer.items() if placed), 0)
    for number in range(1, rounds):
        jobs |= by_key(*(small(f"s{number}-{at}", age=1e3 - number) for at in range(2)))
        ended = {f"r{number - 1}"} | {
            key for key, since in begun.items() if key.startswith("s") and number - since >= 3
        }
        jobs = {
            key: replace(each, ends=each.ends and each.ends - 60.0)
            for key, each in jobs.items()
            if key not in ended
        }
        before = {key: placed for key, placed in answer.items() if key in jobs}
        answer = policy.optimize(jobs, room, before)
        check(answer, jobs, room, before)
        for key, placed in answer.items():
            if placed:
                begun.setdefault(key, number)
        if answer["big"]:
            return number
    return None


@pytest.mark.parametrize("name", PARENTS)
@settings(max_examples=30)
@given(running=st.integers(1, 8), size=st.integers(1, 8))
def test_a_reservation_starts_the_first_waiting_job_without_delay(
    name: str, running: int, size: int
) -> None:
    # So many of those that ran have to end first; later jobs make no difference.
    soonest = max(1, running + size - 8)
    assert starts_after(PARENTS[name](backfill="reserve"), running, size, 12) == soonest


@pytest.mark.proves("teams-queues.md#a-large-job-in-a-stream-of-small-ones")
@pytest.mark.parametrize("name", PARENTS)
def test_without_a_reservation_a_large_job_starves(name: str) -> None:
    assert starts_after(PARENTS[name](), 8, 8, 40) is None


def test_the_end_and_the_deadline_are_read_from_the_job() -> None:
    expected = {
        "earliest": "2026-01-01T12:01:00Z",
        "expected": "2026-01-01T12:02:00Z",
        "latest": "2026-01-01T12:05:00Z",
    }
    one = manifest(
        "x",
        declared("learner"),
        status={"expectedCompletion": expected},
        activeDeadlineSeconds=600,
    )
    known = read_job(one, read_spec(one), report=None)
    found = known.at(NOW, held=NodeList(), attained=0.0)
    assert (found.ends, found.longest) == (300.0, 600)
    two = manifest("y", declared("learner"))
    found = read_job(two, read_spec(two), report=None).at(NOW, held=NodeList(), attained=0.0)
    assert (found.ends, found.longest) == (None, None)
