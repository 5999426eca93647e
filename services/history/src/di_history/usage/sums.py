"""Sums of the time that pods and GPUs were held, by group and month."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, NamedTuple, TypeVar

from di_history.records import Millis
from di_history.usage.states import Span, State
from di_history.usage.useful import NO_REPORTS, USE_OF, Reports, Spent, Track, Use

K = TypeVar("K")

HOUR: Final = 3_600_000
_DECEMBER: Final = 12
_OF_RUNNING: Final = (Use.WAITING, Use.STALE, Use.LOST)
"""The uses that `Spent` has, in its order."""


class By(StrEnum):
    """The property that groups pods."""

    JOB = "job"
    NAMESPACE = "namespace"
    NODE = "node"
    TASK = "task"
    USER = "user"
    QUEUE = "queue"
    SWEEP = "sweep"


class Held(NamedTuple):
    """A pod on a node, within the window.

    Attributes:
        job: UID of its job.
        kind: value of the node's price label; empty: not known.
    """

    job: str
    node: str
    task: str
    kind: str
    gpus: int
    since: Millis
    until: Millis

    @property
    def gpu_time(self) -> int:
        """Return the milliseconds of all its GPUs."""
        return self.gpus * (self.until - self.since)


@dataclass(slots=True, kw_only=True)
class Job:
    """A job with the properties that group its pods; an empty one is not known, or absent.

    Attributes:
        roles: type of each task, by its name.
        spans: its known states, as returned by `di_history.usage.states.spans`.
        track: what was computed from both; None: nothing yet.
    """

    namespace: str
    name: str
    user: str = ""
    queue: str = ""
    sweep: str = ""
    roles: Mapping[str, str] = field(default_factory=dict)
    spans: Sequence[Span] = ()
    reports: Reports = NO_REPORTS
    track: Track | None = None

    def spent(self, held: Held) -> Spent:
        """Return what the running time of a pod was spent on, for one GPU."""
        if self.track is None:
            self.track = Track(self.spans, self.reports)
        return self.track.spent(self.roles.get(held.task, held.task), held.since, held.until)


_GROUPS: Final[Mapping[By, Callable[[Held, Job], str]]] = {
    By.JOB: lambda _, job: f"{job.namespace}/{job.name}",
    By.NAMESPACE: lambda _, job: job.namespace,
    By.NODE: lambda held, _: held.node,
    By.TASK: lambda held, _: held.task,
    By.USER: lambda _, job: job.user,
    By.QUEUE: lambda _, job: f"{job.namespace}/{job.queue}" if job.queue else "",
    By.SWEEP: lambda _, job: f"{job.namespace}/{job.sweep}" if job.sweep else "",
}


@dataclass(slots=True, kw_only=True)
class Usage:
    """The time that pods and GPUs of a group were held, in milliseconds of one pod or one GPU.

    Attributes:
        by_state: the GPUs' time; its sum is `gpu_time`.
        by_kind: the same by the value of the nodes' price label.
        of_running: the part of the running time that was not training.
    """

    jobs: set[str] = field(default_factory=set)
    pods: int = 0
    pod_time: int = 0
    gpu_time: int = 0
    by_state: defaultdict[State, int] = field(default_factory=lambda: defaultdict(int))
    by_kind: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    of_running: defaultdict[Use, int] = field(default_factory=lambda: defaultdict(int))

    def add(self, held: Held, job: Job) -> None:
        """Add the time of one pod."""
        gpus, first, last = held.gpus, held.since, held.until
        self.jobs.add(held.job)
        self.pods += 1
        self.pod_time += last - first
        total = gpus * (last - first)
        if not total:
            return
        self.gpu_time += total
        self.by_kind[held.kind] += total
        left, by_state = total, self.by_state
        # Written out: the answers about a month spend most of their time here.
        for since, until, state in job.spans:
            if since >= last:
                break
            if until <= first:
                continue
            amount = ((until if until < last else last) - (since if since > first else first)) * (
                gpus
            )
            left -= amount
            by_state[state] += amount
        by_state[State.NOT_KNOWN] += left
        if job.reports.at:
            for use, time in zip(_OF_RUNNING, job.spent(held), strict=True):
                if time:
                    self.of_running[use] += round(time * gpus)

    def by_use(self) -> dict[Use, int]:
        """Return the GPUs' time by its use; the sum is `gpu_time`."""
        found = dict.fromkeys(Use, 0)
        for state, time in self.by_state.items():
            found[USE_OF[state]] += time
        for use, time in self.of_running.items():
            found[use] += time
            found[Use.TRAINING] -= time
        return found

    def cost(self, prices: Mapping[str, float]) -> float:
        """Return the price of the GPU time on nodes with a price."""
        return sum(
            time / HOUR * prices[kind] for kind, time in self.by_kind.items() if kind in prices
        )

    def unpriced(self, prices: Mapping[str, float]) -> int:
        """Return the GPU time on nodes without a price."""
        return sum(time for kind, time in self.by_kind.items() if kind not in prices)


def usage(held: Iterable[Held], by: By, jobs: Mapping[str, Job]) -> dict[str, Usage]:
    """Return the usage of each group: most GPU time first, then by name.

    Args:
        jobs: by UID, all that `held` has.
    """
    found: dict[str, Usage] = {}
    of_group = _GROUPS[by]
    for each in held:
        job = jobs[each.job]
        name = of_group(each, job)
        if (group := found.get(name)) is None:
            group = found[name] = Usage()
        group.add(each, job)
    return dict(sorted(found.items(), key=lambda pair: (-pair[1].gpu_time, pair[0])))


def joined(groups: Iterable[Usage]) -> Usage:
    """Return the usage of groups that have no pod in common."""
    found = Usage()
    for each in groups:
        found.jobs |= each.jobs
        found.pods += each.pods
        found.pod_time += each.pod_time
        found.gpu_time += each.gpu_time
        _add(found.by_state, each.by_state)
        _add(found.by_kind, each.by_kind)
        _add(found.of_running, each.of_running)
    return found


def _add(sums: defaultdict[K, int], more: Mapping[K, int]) -> None:
    for key, time in more.items():
        sums[key] += time


def total(held: Iterable[Held], jobs: Mapping[str, Job]) -> Usage:
    """Return the usage of all these pods together."""
    found = Usage()
    for each in held:
        found.add(each, jobs[each.job])
    return found


def clipped(held: Iterable[Held], since: Millis, until: Millis) -> list[Held]:
    """Return the parts of placements that are within a window."""
    return [
        each
        if since <= each.since and each.until <= until
        else each._replace(since=max(each.since, since), until=min(each.until, until))
        for each in held
        if each.since < until and each.until > since
    ]


def months(since: Millis, until: Millis) -> Iterator[tuple[str, Millis, Millis]]:
    """Yield the calendar months (UTC) of a window, such as `2026-03`, with their ends in it."""
    while since < until:
        at = datetime.fromtimestamp(since / 1000, UTC)
        year, month = (at.year + 1, 1) if at.month == _DECEMBER else (at.year, at.month + 1)
        following = round(datetime(year, month, 1, tzinfo=UTC).timestamp() * 1000)
        yield f"{at:%Y-%m}", since, min(following, until)
        since = following
