"""Jobs on which a policy fails: found by bisection, and kept aside with growing delays. Pure.

One broken job must not affect others: these are decided on without it. The search is not repeated
while the job is aside, and it returns only after the policy succeeds on it alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from di_api.wording import describe
from di_operator.allocator.model.job import JobInfo, NodeList
from di_operator.allocator.model.node import NodeInfo
from di_operator.allocator.model.policy import Policy
from di_operator.allocator.withdrawals.delays import FIRST_DELAY, LONGEST_DELAY

CALLS: Final = 256
"""Maximum number of calls of the policy in one search; the next search finds the remaining jobs."""


@dataclass(frozen=True, slots=True)
class _Aside:
    why: str
    delay: timedelta
    until: datetime


class FailingJobs:
    """The jobs that are kept aside, by UID, and the time of the next search."""

    def __init__(self) -> None:
        self._aside: dict[str, _Aside] = {}
        # Jobs that returned: one that fails again continues with its delays.
        self._returned: dict[str, _Aside] = {}
        self._fruitless: _Aside | None = None

    def put(self, uid: str, why: str, now: datetime) -> None:
        """Keep a job aside; twice as long as the last time."""
        before = self._returned.pop(uid, None) or self._aside.get(uid)
        self._aside[uid] = _again(before, why, now)

    def why(self, uid: str) -> str | None:
        """Return why a job is aside; None: it is not."""
        found = self._aside.get(uid)
        return None if found is None else found.why

    def release(self, now: datetime) -> list[str]:
        """Return the jobs whose delay is over. They are not aside any more, and have to be tried
        alone.
        """
        due = [uid for uid, found in self._aside.items() if found.until <= now]
        for uid in due:
            self._returned[uid] = self._aside.pop(uid)
        for uid in [u for u, found in self._returned.items() if found.until + LONGEST_DELAY <= now]:
            del self._returned[uid]
        return due

    def forget(self, uid: str) -> None:
        """Record the deletion of a job."""
        self._aside.pop(uid, None)
        self._returned.pop(uid, None)

    def may_search(self, now: datetime) -> bool:
        """Return whether a search is allowed: one that found nothing is not repeated at once."""
        return self._fruitless is None or self._fruitless.until <= now

    def searched(self, found: Mapping[str, str], now: datetime) -> None:
        """Record the result of a search."""
        self._fruitless = None if found else _again(self._fruitless, "", now)


def _again(before: _Aside | None, why: str, now: datetime) -> _Aside:
    delay = FIRST_DELAY if before is None else min(2 * before.delay, LONGEST_DELAY)
    return _Aside(why, delay, now + delay)


def find_failing_jobs(
    policy: Policy,
    jobs: Mapping[str, JobInfo],
    nodes: Mapping[str, NodeInfo],
    held: Mapping[str, NodeList],
    *,
    among_others: bool = False,
) -> dict[str, str]:
    """Return the jobs without which the policy does not fail, and what it raised, by key.

    It is called after the policy has failed on all jobs together. It takes a few calls for each
    failing job, and none for the others. The result is empty when the policy fails without any
    job: the fault is its own. It is also empty when the policy fails on every job, unless there
    are others that it is not asked about (`among_others`).
    """
    calls = 0

    def error_of(keys: Sequence[str]) -> str | None:
        nonlocal calls
        calls += 1
        try:
            policy.optimize(
                {key: jobs[key] for key in keys}, nodes, {key: held[key] for key in keys}
            )
        except Exception as error:
            return f"the allocation policy fails on it: {describe(error)}"
        return None

    if not among_others and error_of(()) is not None:
        return {}
    found: dict[str, str] = {}
    left = [*jobs]
    while left and calls < CALLS and (error := error_of(left)) is not None:
        found |= _bisect(left, error, error_of, lambda: calls < CALLS)
        left = [key for key in left if key not in found]
    return found if left or among_others else {}


def _bisect(
    keys: Sequence[str],
    error: str,
    error_of: Callable[[Sequence[str]], str | None],
    may_go_on: Callable[[], bool],
) -> dict[str, str]:
    """Return the failing jobs behind an error that the policy raises on these together."""
    if len(keys) == 1:
        return {keys[0]: error}
    middle = len(keys) // 2
    found: dict[str, str] = {}
    for half in (keys[:middle], keys[middle:]):
        if not may_go_on():
            return found
        if (of_half := error_of(half)) is not None:
            found |= _bisect(half, of_half, error_of, may_go_on)
    if found:
        return found
    # They fail only together: the last job of the shortest failing prefix is blamed.
    passes, fails = middle, len(keys)
    while fails - passes > 1 and may_go_on():
        between = (passes + fails) // 2
        if (of_row := error_of(keys[:between])) is None:
            passes = between
        else:
            fails, error = between, of_row
    return {keys[fails - 1]: error}
