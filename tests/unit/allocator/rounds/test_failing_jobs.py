"""Which jobs are set aside when a policy fails, at what cost, and for how long."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta

import pytest

from di_operator.allocator.model.job import WAIT, JobInfo, NodeList
from di_operator.allocator.model.node import NodeInfo
from di_operator.allocator.rounds.failing_jobs import CALLS, FailingJobs, find_failing_jobs
from tests.unit.allocator import worlds
from tests.unit.allocator.objects import NOW


class Picky:
    """A policy that fails on certain sets of jobs, and counts how often it is asked."""

    def __init__(self, fails: Callable[[set[str]], object]) -> None:
        self._fails = fails
        self.calls = 0

    def allocate(self, job: JobInfo, nodes: Mapping[str, NodeInfo]) -> NodeList:
        return WAIT

    def optimize(
        self,
        jobs: Mapping[str, JobInfo],
        nodes: Mapping[str, NodeInfo],
        previous: Mapping[str, NodeList],
    ) -> dict[str, NodeList]:
        assert jobs.keys() == previous.keys()
        self.calls += 1
        if self._fails({*jobs}):
            raise OverflowError("cannot bear it")
        return {}


def search(policy: Picky, number: int) -> dict[str, str]:
    jobs = {f"j{at:03}": worlds.job(f"j{at:03}", worlds.task(1)) for at in range(number)}
    return find_failing_jobs(policy, jobs, {}, dict.fromkeys(jobs, WAIT))


def with_any(*bad: str) -> Picky:
    return Picky(lambda jobs: jobs & {*bad})


@pytest.mark.parametrize("bad", ["j000", "j511", "j999"])
def test_one_failing_job_among_a_thousand_takes_a_few_calls_to_find(bad: str) -> None:
    policy = with_any(bad)
    assert search(policy, 1000) == {
        bad: "the allocation policy fails on it: OverflowError: cannot bear it"
    }
    assert policy.calls < 30


def test_several_failing_jobs_are_all_found() -> None:
    bad = {f"j{at:03}" for at in range(0, 200, 40)}
    policy = with_any(*bad)
    assert search(policy, 200).keys() == bad
    assert policy.calls < 100


def test_of_jobs_that_fail_only_together_one_is_named() -> None:
    assert search(Picky(lambda jobs: {"j002", "j090"} <= jobs), 100).keys() == {"j090"}
    both = Picky(lambda jobs: "j050" in jobs or {"j002", "j003"} <= jobs)
    assert search(both, 100).keys() == {"j003", "j050"}


def test_a_policy_that_fails_on_every_job_blames_none() -> None:
    policy = Picky(lambda jobs: True)
    assert (search(policy, 1000), policy.calls) == ({}, 1)
    assert search(Picky(bool), 20) == {}


def test_a_search_among_many_failing_jobs_ends() -> None:
    policy = Picky(lambda jobs: any(int(key[1:]) % 2 for key in jobs))
    found = search(policy, 1000)
    assert policy.calls <= CALLS + 1
    assert found
    assert all(int(key[1:]) % 2 for key in found)


def test_a_job_that_fails_again_is_aside_for_twice_as_long() -> None:
    jobs, now, delays = FailingJobs(), NOW, []
    for _ in range(8):
        jobs.put("uid", "why", now)
        assert (jobs.why("uid"), jobs.release(now)) == ("why", [])
        began = now
        while not jobs.release(now):
            now += timedelta(seconds=1)
        assert jobs.why("uid") is None
        delays.append(round((now - began).total_seconds()))
    assert delays == [15, 30, 60, 120, 240, 480, 600, 600]


def test_a_job_that_is_borne_for_ten_minutes_begins_with_the_first_delay() -> None:
    jobs = FailingJobs()
    jobs.put("uid", "why", NOW)
    assert jobs.release(NOW + timedelta(seconds=15)) == ["uid"]
    late = NOW + timedelta(seconds=616)
    jobs.release(late)
    jobs.put("uid", "why", late)
    assert jobs.release(late + timedelta(seconds=15)) == ["uid"]


def test_a_search_that_finds_nothing_is_repeated_after_growing_delays() -> None:
    jobs = FailingJobs()
    assert jobs.may_search(NOW)
    jobs.searched({}, NOW)
    assert not jobs.may_search(NOW + timedelta(seconds=14))
    later = NOW + timedelta(seconds=15)
    assert jobs.may_search(later)
    jobs.searched({}, later)
    assert not jobs.may_search(later + timedelta(seconds=29))
    jobs.searched({"key": "why"}, later)
    assert jobs.may_search(later)
