"""Expected starts of waiting jobs: the job end after which the policy gives them nodes. Pure.

The jobs that hold nodes are assumed to end in the order of their expected ends. After each end the
policy decides on all remaining jobs. Only jobs of the allocator end here. Capacity that other pods
release and jobs that arrive later are not predicted.
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
"""Number of waiting jobs at the head of the queue that get an expected start."""
ENDS: Final = 16
"""Maximum number of job ends that are simulated; each asks the policy about all jobs."""

Ask = Callable[[Mapping[str, JobInfo], Mapping[str, NodeList]], Mapping[str, NodeList] | None]
"""The policy's answer about jobs that hold nodes; None: it failed."""


def expected_starts(
    snapshot: SchedulingSnapshot, words: Words, *, ask: Ask, is_over: Callable[[], bool]
) -> dict[str, ExpectedCompletion]:
    """Return the expected start of the first jobs in the queue, by UID, as far as it can be
    predicted.

    Args:
        snapshot: the input that the policy has just decided on.
        words: the decisions made from it.
        ask: the policy, on nodes as they are in the snapshot.
        is_over: returns whether the time for it is used up; called before each end.
    """
    held = targets(words, snapshot)
    jobs = dict(snapshot.jobs)
    # A job that was refused does not wait for free capacity.
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
        # No start comes before the preceding ends, whose order is not certain.
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
