"""When jobs that wait will start: after the end of which jobs the policy gives them nodes. Pure.

The jobs that hold nodes end in the order in which they are expected to; after each end the policy
is asked about all that are left, as it will be then. Only jobs of the allocator's own end here: the
room that others leave is not foretold, and neither is who comes meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from di_api.expected_completion import ExpectedCompletion
from di_operator.allocator.admission.in_order import in_order
from di_operator.allocator.grants.checked_plan import make_plan
from di_operator.allocator.grants.granting import Words, targets
from di_operator.allocator.model.job import JobInfo, NodeList
from di_operator.allocator.observe.scheduling_snapshot import SchedulingSnapshot

FIRST: Final = 16
"""Jobs of the queue that are told when they will start: what is further back nobody knows."""
ENDS: Final = 16
"""Ends that are gone through; each asks the policy about all jobs."""

Ask = Callable[[Mapping[str, JobInfo], Mapping[str, NodeList]], Mapping[str, NodeList] | None]
"""What a policy answers about jobs that hold nodes; None: it failed."""


def expected_starts(
    snapshot: SchedulingSnapshot, words: Words, *, ask: Ask, is_over: Callable[[], bool]
) -> dict[str, ExpectedCompletion]:
    """By UID: when the first of the queue start, as far as that can be told.

    Args:
        snapshot: as the policy has just seen it.
        words: what was decided from it.
        ask: the policy, on nodes as they are in the snapshot.
        is_over: whether the time for it is used up; asked before each end.
    """
    held = targets(words, snapshot)
    jobs = dict(snapshot.jobs)
    # One that was refused waits for something else than room.
    queue = [
        job.key for job in in_order(jobs) if not held[job.key] and job.key not in snapshot.refused
    ]
    waiting = dict.fromkeys(queue[:FIRST])
    ends = sorted(
        (end.expected, key) for key, end in snapshot.ends.items() if key in jobs and held[key]
    )
    found: dict[str, ExpectedCompletion] = {}
    latest: ExpectedCompletion | None = None
    for _, key in ends[:ENDS]:
        if not waiting or is_over():
            break
        # Nothing starts before the ends that come first, whose order is not certain.
        latest = _later(latest, snapshot.ends[key])
        del jobs[key], held[key]
        answer = ask(jobs, held)
        if answer is None:
            break
        held = dict(make_plan(answer, jobs, snapshot.nodes, held).allocations)
        for started in [each for each in waiting if held[each]]:
            del waiting[started]
            found[snapshot.uids[started]] = latest
    return found


def _later(before: ExpectedCompletion | None, end: ExpectedCompletion) -> ExpectedCompletion:
    if before is None:
        return end
    return ExpectedCompletion(
        earliest=max(before.earliest, end.earliest),
        expected=max(before.expected, end.expected),
        latest=max(before.latest, end.latest),
    )
