"""When jobs that wait for nodes are foretold to start, and how far that is thought about."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from itertools import count
from typing import Any

from di_api.expected_completion import ExpectedCompletion
from di_operator.allocator.forecast.expected_starts import ENDS, FIRST, expected_starts
from di_operator.allocator.grants.granting import NOTHING_SAID
from di_operator.allocator.model.job import JobInfo, NodeList
from di_operator.allocator.observe.scheduling_snapshot import SchedulingSnapshot
from di_operator.allocator.policies.best_fit import FitPolicy
from tests.unit.allocator.objects import NOW, job, pod, snapshot, task


def end(minutes: float, spread: float = 1.0) -> ExpectedCompletion:
    return ExpectedCompletion(
        earliest=NOW + timedelta(minutes=minutes - spread),
        expected=NOW + timedelta(minutes=minutes),
        latest=NOW + timedelta(minutes=minutes + spread),
    )


def held(name: str, node: str, *, ends: ExpectedCompletion | None = None) -> dict[str, Any]:
    """A job on four slots of a node, all that it has."""
    status: dict[str, Any] = {"placement": {"learner": [node] * 4}}
    if ends is not None:
        status["expectedCompletion"] = ends.dump()
    return job(name, task("learner", 4), status=status)


def waiting(name: str, replicas: int = 4) -> dict[str, Any]:
    return job(name, task("learner", replicas, minReplicas=replicas), phase="Pending")


class Asked:
    """The policy `fit`, and how often it was asked."""

    def __init__(self, seen: SchedulingSnapshot) -> None:
        self.times = 0
        self._seen = seen

    def __call__(
        self, jobs: Mapping[str, JobInfo], has: Mapping[str, NodeList]
    ) -> Mapping[str, NodeList] | None:
        self.times += 1
        return FitPolicy().optimize(jobs, self._seen.nodes, has)


def starts(*jobs: dict[str, Any], asks: int = 99) -> tuple[Mapping[str, ExpectedCompletion], int]:
    pods = [
        pod(each["metadata"]["name"], "learner", node)
        for each in jobs
        for node in each["status"].get("placement", {}).get("learner", ())
    ]
    seen = snapshot(*jobs, pods=pods)
    asked = Asked(seen)
    found = expected_starts(seen, NOTHING_SAID, ask=asked, is_over=lambda: asked.times >= asks)
    return found, asked.times


def test_a_waiting_job_starts_after_the_end_that_frees_its_nodes() -> None:
    found, asked = starts(
        held("x", "a", ends=end(30)), held("y", "b", ends=end(10)), waiting("v"), waiting("w", 8)
    )
    assert found == {"uid-v": end(10)}
    assert asked == 2


def test_a_job_that_needs_two_ends_starts_after_the_later_one() -> None:
    wide, narrow = end(10, spread=9), end(11, spread=1)
    found, _ = starts(held("x", "a", ends=wide), held("y", "b", ends=narrow), waiting("w", 8))
    assert found == {
        "uid-w": ExpectedCompletion(
            earliest=narrow.earliest, expected=narrow.expected, latest=wide.latest
        )
    }


def test_no_start_is_expected_without_expected_ends() -> None:
    assert starts(held("x", "a"), held("y", "b"), waiting("w")) == ({}, 0)
    # Nor is the policy asked if no job waits.
    assert starts(held("x", "a", ends=end(3)), held("y", "b", ends=end(4))) == ({}, 0)


def test_a_time_limit_returns_the_starts_found_so_far() -> None:
    jobs = (held("x", "a", ends=end(3)), held("y", "b", ends=end(4)), waiting("v"), waiting("w"))
    assert {*starts(*jobs)[0]} == {"uid-v", "uid-w"}
    assert starts(*jobs, asks=1) == ({"uid-v": end(3)}, 1)
    assert starts(*jobs, asks=0) == ({}, 0)


def test_starts_consider_a_limited_number_of_jobs_and_ends() -> None:
    numbers = count()
    seen = snapshot(
        *(held(f"x{n}", "a", ends=end(n)) for n in range(ENDS + 5)),
        *(waiting(f"w{n:03}") for n in range(FIRST + 5)),
    )

    def gives_one_more(jobs: Mapping[str, JobInfo], has: Mapping[str, NodeList]) -> Any:
        next(numbers)
        return {}

    assert expected_starts(seen, NOTHING_SAID, ask=gives_one_more, is_over=lambda: False) == {}
    assert next(numbers) == ENDS


def test_a_policy_that_fails_is_not_asked_again() -> None:
    seen = snapshot(held("x", "a", ends=end(3)), held("y", "b", ends=end(4)), waiting("w"))
    asked = count()

    def fails(jobs: Mapping[str, JobInfo], has: Mapping[str, NodeList]) -> None:
        next(asked)

    assert expected_starts(seen, NOTHING_SAID, ask=fails, is_over=lambda: False) == {}
    assert next(asked) == 1
