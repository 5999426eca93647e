"""Records Events on jobs: best effort, rate limited, repeated ones aggregated into a count."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter, OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol, TypeAlias

import structlog

from di_kube.client import KubeClient
from di_kube.errors import AlreadyExists, ApiError, NotFound, Throttled, Unavailable
from di_kube.resources import EVENTS
from di_operator.builders.event import event_body
from di_operator.lifecycle.vocabulary.decision import JobEvent
from di_operator.process.clock import Clock

log = structlog.get_logger(__name__)

# Each event is one API write. In a burst of jobs the writes that create pods matter more, and the
# job's conditions carry the whole history, so events for phases get the rate that a person can
# read.
RATE = 5.0
BURST = 100
# Of a namespace. No person reads the events of more, and the rate above would pick some at random.
JOBS_A_SECOND = 10
# A burst shows by its later jobs, so Normal events wait for them: otherwise its first jobs would be
# the only ones with events. Less than the second in which jobs are counted, for those that come at
# once.
HELD_SECONDS = 0.5
# More distinct events than this can wait only if the API server accepts none; the limit bounds
# memory.
MAX_PENDING = 2000
# Recently sent events whose count can be increased without reading them first.
MAX_REMEMBERED = 4096
MAX_ATTEMPTS = 5
RETRY_PAUSE = 1.0

_Key: TypeAlias = tuple[str, ...]


class TokenBucket:
    """Rate limiter that allows a burst of `burst` calls and `rate` calls per second in the long
    run.
    """

    def __init__(self, *, rate: float, burst: int, clock: Clock) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._tokens = float(burst)
        self._at = clock.monotonic()

    def take(self) -> bool:
        """Take one token if one is available; return whether one was."""
        now = self._clock.monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate)
        self._at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


class RecentJobs:
    """Counts the jobs of each namespace that had an event within the last second."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._at: OrderedDict[tuple[str, str], float] = OrderedDict()
        self._of_namespaces: Counter[str] = Counter()

    def add(self, namespace: str, uid: str) -> int:
        """Count a job; return how many its namespace has now."""
        self._of_namespaces[namespace] += (namespace, uid) not in self._at
        self._at[namespace, uid] = self._clock.monotonic()
        self._at.move_to_end((namespace, uid))
        return self.of_namespace(namespace)

    def of_namespace(self, namespace: str) -> int:
        """Return how many jobs a namespace has now."""
        now = self._clock.monotonic()
        while self._at and next(iter(self._at.values())) <= now - 1.0:
            (ended, _), _ = self._at.popitem(last=False)
            self._of_namespaces[ended] -= 1
            if not self._of_namespaces[ended]:
                del self._of_namespaces[ended]
        return self._of_namespaces.get(namespace, 0)


class Observer(Protocol):
    """The metrics that the recorder updates."""

    def event(self, type_: str, result: str) -> None:
        """Count one event by type and result."""
        ...

    def anomaly(self, reason: str) -> None:
        """Count one Warning by reason, whether it was sent or not."""
        ...


@dataclass(slots=True, kw_only=True)
class _Pending:
    job: Mapping[str, Any]
    event: JobEvent
    first: datetime
    last: datetime
    due: float
    """When it is sent, by the monotonic clock; a Warning does not wait for it."""
    count: int = 1
    attempts: int = 0
    unsure: int = 0
    """The part of the count that was sent without a response: it may have arrived."""


@dataclass(slots=True, kw_only=True)
class _Sent:
    first: datetime
    count: int


class EventRecorder:
    """Collects events from reconciles and sends them in one task.

    Reconciles never wait for an event. Warnings are always accepted: one Event for each job and
    reason, whose count grows. Normal events with equal messages are aggregated, and sent after
    HELD_SECONDS. They are dropped when the rate limit is exceeded, and while more than
    JOBS_A_SECOND jobs of their namespace have some.
    """

    def __init__(
        self, *, client: KubeClient, clock: Clock, instance: str, observer: Observer
    ) -> None:
        self._client = client
        self._clock = clock
        self._instance = instance
        self._observer = observer
        self._budget = TokenBucket(rate=RATE, burst=BURST, clock=clock)
        self._recent = RecentJobs(clock=clock)
        self._warnings: OrderedDict[_Key, _Pending] = OrderedDict()
        self._normal: OrderedDict[_Key, _Pending] = OrderedDict()
        self._sent: OrderedDict[_Key, _Sent] = OrderedDict()
        self._wake = asyncio.Event()
        self._draining = False

    def emit(self, job: Mapping[str, Any], event: JobEvent) -> None:
        """Queue an event on `job`."""
        warning = event.type == "Warning"
        if warning:
            self._observer.anomaly(event.reason)
        key = _key(job, event)
        now = self._clock.now()
        pending = self._warnings if warning else self._normal
        waiting = pending.get(key)
        if waiting is not None:
            waiting.event, waiting.last = event, now
            waiting.count += 1
            return
        if not warning and self._recent.add(*_identity(job)) > JOBS_A_SECOND:
            self._observer.event(event.type, "over_budget")
            return
        if len(self._warnings) + len(self._normal) >= MAX_PENDING:
            self._observer.event(event.type, "queue_full")
            return
        # Keep the metadata only: the specs of two thousand large jobs would exceed the memory.
        about = {"metadata": job["metadata"]}
        due = self._clock.monotonic() + HELD_SECONDS
        pending[key] = _Pending(job=about, event=event, first=now, last=now, due=due)
        self._wake.set()

    async def run(self) -> None:
        """Send events until `drain` has been called and all are sent."""
        while True:
            while (found := self._next()) is not None:
                await self._deliver(*found)
            if self._draining:
                return
            first = next(iter(self._normal.values()), None)
            seconds = None if first is None else first.due - self._clock.monotonic()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), seconds)
            self._wake.clear()

    def drain(self) -> None:
        """Let `run` return once the accepted events are sent, without holding them any longer."""
        self._draining = True
        self._wake.set()

    def _next(self) -> tuple[_Key, _Pending] | None:
        """Take the next event that is due."""
        if self._warnings:
            return self._warnings.popitem(last=False)
        while self._normal:
            key, item = next(iter(self._normal.items()))
            if item.due > self._clock.monotonic() and not self._draining:
                return None
            del self._normal[key]
            namespace, _ = _identity(item.job)
            if self._recent.of_namespace(namespace) <= JOBS_A_SECOND and self._budget.take():
                return key, item
            self._observer.event(item.event.type, "over_budget")
        return None

    async def _deliver(self, key: _Key, item: _Pending) -> None:
        try:
            await self._send(key, item)
        except (Throttled, Unavailable) as error:
            item.attempts += 1
            if item.event.type != "Warning" or item.attempts >= MAX_ATTEMPTS:
                self._drop(item, error)
                return
            item.unsure = item.unsure or item.count
            newer = self._warnings.get(key)
            if newer is None:
                self._warnings[key] = item
            else:
                newer.count += item.count
                newer.first = item.first
                newer.unsure = item.unsure
            await self._clock.sleep(max(RETRY_PAUSE, error.retry_after or 0.0))
        except ApiError as error:
            # The namespace is being deleted, or events are forbidden: a retry cannot succeed.
            self._drop(item, error)
        else:
            self._observer.event(item.event.type, "sent")

    def _drop(self, item: _Pending, error: ApiError) -> None:
        self._observer.event(item.event.type, "error")
        log.warning("event dropped", reason=item.event.reason, error=str(error))

    async def _send(self, key: _Key, item: _Pending) -> None:
        namespace, _ = _identity(item.job)
        name = _name(item.job, key)
        known = self._sent.get(key)
        if known is not None:
            try:
                await self._grow(namespace, name, key, item, known)
            except NotFound:
                # Events expire after an hour; the next one starts a new series.
                del self._sent[key]
            else:
                return
        body = self._body(name, item, first=item.first, count=item.count)
        try:
            await self._client.create(EVENTS, body, namespace)
        except AlreadyExists:
            # Written by an earlier leader: its count is continued.
            found = await self._client.get(EVENTS, name, namespace)
            count = found.get("count") or 1
            if item.unsure == count and found.get("reportingInstance") == self._instance:
                # Not from an earlier leader: it is ours, its response was lost, and the count
                # includes it.
                count = 0
            earlier = _Sent(first=_first_seen(found, item.first), count=count)
            await self._grow(namespace, name, key, item, earlier)
        else:
            self._remember(key, _Sent(first=item.first, count=item.count))

    async def _grow(
        self, namespace: str, name: str, key: _Key, item: _Pending, known: _Sent
    ) -> None:
        body = self._body(name, item, first=known.first, count=known.count + item.count)
        changed = {field: body[field] for field in ("count", "lastTimestamp", "message")}
        await self._client.patch(EVENTS, name, changed, namespace)
        self._remember(key, _Sent(first=known.first, count=known.count + item.count))

    def _body(self, name: str, item: _Pending, *, first: datetime, count: int) -> dict[str, Any]:
        return event_body(
            job=item.job,
            type=item.event.type,
            reason=str(item.event.reason),
            message=item.event.message,
            name=name,
            first=first,
            last=item.last,
            count=count,
            instance=self._instance,
        )

    def _remember(self, key: _Key, sent: _Sent) -> None:
        self._sent[key] = sent
        self._sent.move_to_end(key)
        if len(self._sent) > MAX_REMEMBERED:
            self._sent.popitem(last=False)


def _identity(job: Mapping[str, Any]) -> tuple[str, str]:
    """Return the namespace and the UID of a job."""
    metadata = job["metadata"]
    return str(metadata["namespace"]), str(metadata["uid"])


def _key(job: Mapping[str, Any], event: JobEvent) -> _Key:
    _, uid = _identity(job)
    if event.type == "Warning":
        return (uid, event.type, event.reason)
    return (uid, event.type, event.reason, event.message)


def _name(job: Mapping[str, Any], key: _Key) -> str:
    """Return a name that is equal for equal events, so that a repeated event after a crash creates
    no second one.
    """
    digest = hashlib.sha256("\0".join(key).encode()).hexdigest()
    return f"{job['metadata']['name']}.{digest[:16]}"


def _first_seen(event: Mapping[str, Any], default: datetime) -> datetime:
    try:
        first = datetime.fromisoformat(str(event.get("firstTimestamp")))
    except ValueError:
        return default
    return first if first.tzinfo else first.replace(tzinfo=UTC)
