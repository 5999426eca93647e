"""What is kept of a job: plain values, alike in SQLite and PostgreSQL.

Times are milliseconds since 1970. Every record has a key that follows from what happened, never
from who saw it or when: two replicas, or one that sees it again, write it once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeAlias

Millis: TypeAlias = int


class EntryKind(StrEnum):
    """What an entry of a job's timeline tells of."""

    PHASE = "phase"
    """The job entered a phase: `phase`, `before`, `reason`, `message`."""
    RESTART = "restart"
    """Pods that failed are replaced: `restarts`, how many there were then."""
    FAILURE = "failure"
    """A pod failed: `pod`, `uid`, `exitCode`, `reason`."""
    SCALING = "scaling"
    """The replicas of a task changed in the spec: `task`, `before`, `after`, `who`."""
    ALLOCATION = "allocation"
    """The allocator placed the job elsewhere: `before`, `after`, nodes by task."""
    CONDITION = "condition"
    """A condition that is no phase turned: `type`, `status`, `reason`, `message`."""
    EVENT = "event"
    """An Event on the job or on a pod of it: `type`, `reason`, `message`, `object`, `count`."""
    DELETED = "deleted"
    """The job was deleted. `after`: not before then, if nobody looked."""
    GAP = "gap"
    """Nobody looked from `from` until the time of the entry. `changed`: fields that differ
    afterwards; what came and went between is not known but from Events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSeen:
    """A job as it was seen last.

    Attributes:
        version: its resourceVersion; a lower one never replaces a higher one.
        snapshot: what the next sight of it is compared with, as JSON.
    """

    uid: str
    namespace: str
    name: str
    owner: str
    created: Millis
    phase: str
    completed: Millis | None
    seen: Millis
    version: int
    snapshot: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JobGone:
    """A job that was deleted."""

    uid: str
    at: Millis


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """A spec of a job: its number is the job's generation.

    Attributes:
        who: the field manager that wrote it.
        manifest: the job as it could be created anew, as JSON.
    """

    job: str
    number: int
    at: Millis
    who: str
    manifest: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of a job's timeline.

    Attributes:
        key: of it in the job.
        version: the same key with a higher one replaces it, as an Event that is counted again does.
    """

    job: str
    key: str
    kind: EntryKind
    at: Millis
    version: int = 0
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """A pod on a node, for a time.

    Attributes:
        until: absent while it is there.
        outcome: `Running`, `Succeeded`, `Failed` or `Deleted`.
        version: a lower one never replaces a higher one.
    """

    pod_uid: str
    job: str
    namespace: str
    pod: str
    task: str
    rank: int | None
    node: str
    gpus: int
    since: Millis
    until: Millis | None
    outcome: str
    reason: str
    exit_code: int | None
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What a job reported of itself at one time: numbers by name."""

    job: str
    at: Millis
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedLog:
    """The end of what a container wrote.

    Attributes:
        attempt: how often the container had been restarted.
        text: its last bytes, None if they could not be read.
        cut: whether there was more before.
        final: whether the container had ended; one that had not is replaced by one that has.
        failed: whether it ended badly: its log is the last to be given up.
        note: why there is no text.
    """

    job: str
    pod_uid: str
    pod: str
    container: str
    attempt: int
    at: Millis
    text: bytes | None
    cut: bool = False
    final: bool = True
    failed: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeLog:
    """Where all of a log is that has an `EndedLog`.

    Attributes:
        key: of the object; empty: there is none.
        size: bytes of the log.
        cut: whether there was more after them.
        note: why there is no object.
    """

    job: str
    pod_uid: str
    container: str
    attempt: int
    key: str
    size: int
    cut: bool
    note: str


Record: TypeAlias = JobSeen | JobGone | Revision | Entry | Placement | Sample | EndedLog | WholeLog
Put: TypeAlias = Callable[[str, Iterable[Record]], None]
"""Takes records of jobs of a namespace."""
