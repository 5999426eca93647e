"""The records of a job: plain values, equal in SQLite and PostgreSQL.

Times are milliseconds since 1970. Every record has a key that is derived from what happened, never
from the observer or its time, so two replicas, or a repeated observation, write it once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeAlias

Millis: TypeAlias = int


class EntryKind(StrEnum):
    """Kind of an entry in a job's timeline."""

    PHASE = "phase"
    """The job entered a phase: `phase`, `before`, `reason`, `message`."""
    RESTART = "restart"
    """Failed pods were replaced: `restarts`, the number of restarts by then."""
    FAILURE = "failure"
    """A pod failed: `pod`, `uid`, `exitCode`, `reason`."""
    SCALING = "scaling"
    """The replicas of a task changed in the spec: `task`, `before`, `after`, `who`."""
    ALLOCATION = "allocation"
    """The nodes of the job's replicas changed: `before`, `after`, by task."""
    CONDITION = "condition"
    """A condition that is not a phase changed: `type`, `status`, `reason`, `message`."""
    EVENT = "event"
    """An Event on the job or on a pod of it: `type`, `reason`, `message`, `object`, `count`."""
    DELETED = "deleted"
    """The job was deleted. `after`: the earliest time, if it was not observed. `expired`: its
    ttlSecondsAfterFinished was over. Objects do not have the user who deleted them.
    """
    GAP = "gap"
    """The job was not observed from `from` until the time of the entry. `changed`: fields that
    differ afterwards; intermediate values are known only from Events.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSeen:
    """A job as last observed.

    Attributes:
        version: its resourceVersion; a lower one never replaces a higher one.
        snapshot: input of the next comparison, as JSON.
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
    """A deleted job."""

    uid: str
    at: Millis


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """A revision of a job's spec: its number is the job's generation.

    Attributes:
        who: the field manager that wrote it.
        manifest: the job in a form that can be created again, as JSON.
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
        key: unique in the job.
        version: resourceVersion of the object that showed it. It orders the entries of one second,
            which is as exact as most times are. The same key with a higher version replaces the
            entry, as a repeated Event does.
    """

    job: str
    key: str
    kind: EntryKind
    at: Millis
    version: int = 0
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """A pod on a node, with a time range.

    Attributes:
        until: absent while it is there.
        outcome: `Running`, `Succeeded`, `Failed` or `Deleted`.
        version: a lower one never replaces a higher one.
        kind: value of the node's price label; empty: not known.
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
    kind: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The numbers that a job reported at one time, by name."""

    job: str
    at: Millis
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedLog:
    """The log tail of a container.

    Attributes:
        attempt: number of previous restarts.
        text: its last bytes, None if they could not be read.
        cut: whether the log has more before them.
        final: whether the container had ended; otherwise a final record replaces this one.
        failed: whether it ended with a failure: such logs are deleted last.
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
    """The location of a whole log, beside its `EndedLog`.

    Attributes:
        key: of the object; empty: there is none.
        size: bytes of the log.
        cut: whether the log has more after them.
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
"""Accepts records of jobs of a namespace."""
