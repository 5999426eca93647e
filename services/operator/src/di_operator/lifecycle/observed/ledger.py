"""The failures that the status records: by replica, and by task with a limit of its own.

Records belong to replicas and not to pods, because they outlive the pods. A user can edit a
status: what cannot be read counts as absent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final

from di_api.field_error import mapping
from di_api.quantity import fault_of_amount, read_quantity
from di_api.timestamps import format_time
from di_operator.lifecycle.vocabulary.timestamps import parse_time

AVOIDED_FOR: Final = timedelta(hours=1)
"""How long a replica avoids a node. After a node check it is the whole task."""
MAX_AVOIDED: Final = 4
"""Maximum number of nodes that one replica avoids; the oldest are dropped."""
MAX_AVOIDED_OF_JOB: Final = 512
"""Maximum for all replicas of a job together, each counted separately: some 50 KB of its status.
Beyond it, a replica is replaced without avoiding its node.
"""

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Avoided:
    """A node that a replica must not run on."""

    node: str
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaRecord:
    """The failure record of one replica."""

    restarts: int = 0
    last_failure: datetime | None = None
    ignored_since: datetime | None = None
    """Time of the first of a sequence of failures that a rule ignores."""
    last_ignored: datetime | None = None
    """Time of the last of them."""
    memory: Mapping[str, str] = field(default_factory=dict)
    """Memory to which the requests and limits of each container have grown."""
    avoid: tuple[Avoided, ...] = ()
    pod: str = ""
    """UID of the pod in which a container was last restarted in place."""
    failures: int = 0
    """Number of known container failures in that pod."""
    generation: int = 0
    """Generation of the task's process group at the last of these failures."""

    @classmethod
    def read(cls, raw: object) -> ReplicaRecord:
        """Read an entry of the status, of any shape."""
        fields = mapping(raw)
        memory = {
            name: amount
            for name, amount in mapping(fields.get("memory")).items()
            if isinstance(amount, str) and not fault_of_amount(amount)
        }
        entries = fields.get("avoid")
        avoid = [
            Avoided(node=node, until=until)
            for each in (entries if isinstance(entries, list) else ())
            if isinstance(node := mapping(each).get("node"), str) and node
            if (until := parse_time(mapping(each).get("until"))) is not None
        ]
        return cls(
            restarts=count(fields.get("restarts")),
            last_failure=parse_time(fields.get("lastFailure")),
            ignored_since=parse_time(fields.get("ignoredSince")),
            last_ignored=parse_time(fields.get("lastIgnored")),
            memory=memory,
            avoid=tuple(avoid[-MAX_AVOIDED:]),
            pod=pod if isinstance(pod := fields.get("pod"), str) else "",
            failures=count(fields.get("failures")),
            generation=count(fields.get("generation")),
        )

    def failures_of(self, pod: str) -> int:
        """Return the number of known container failures in the pod with that UID."""
        return self.failures if pod == self.pod else 0

    def avoided(self, now: datetime) -> tuple[str, ...]:
        """Return the nodes that the replica avoids now."""
        return tuple(sorted({each.node for each in self.avoid if now < each.until}))

    def dump(self) -> dict[str, Any]:
        """Return the entry for the status."""
        entry: dict[str, Any] = {"restarts": self.restarts}
        if self.last_failure is not None:
            entry["lastFailure"] = format_time(self.last_failure)
        if self.ignored_since is not None and self.last_ignored is not None:
            entry["ignoredSince"] = format_time(self.ignored_since)
            entry["lastIgnored"] = format_time(self.last_ignored)
        if self.memory:
            entry["memory"] = dict(self.memory)
        if self.avoid:
            entry["avoid"] = [
                {"node": each.node, "until": format_time(each.until)} for each in self.avoid
            ]
        if self.pod:
            entry |= {"pod": self.pod, "failures": self.failures, "generation": self.generation}
        return entry


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """The failure records of a job."""

    job_restarts: int | None = None
    """Restarts that count for the job's own limit; None if all of its restarts do."""
    task_restarts: Mapping[str, int] = field(default_factory=dict)
    """Restarts of tasks that have a limit of their own."""
    replicas: Mapping[str, Object] = field(default_factory=dict)
    """Raw entries by task and replica: of thousands, only a few are parsed."""

    @classmethod
    def read(cls, status: Object) -> Ledger:
        """Read the records from a status."""
        replicas = mapping(status.get("replicaFailures"))
        return cls(
            job_restarts=count(status["jobRestarts"]) if "jobRestarts" in status else None,
            task_restarts={
                str(task): number
                for task, raw in mapping(status.get("taskRestarts")).items()
                if (number := count(raw))
            },
            replicas={str(task): raw for task, raw in replicas.items() if mapping(raw)},
        )

    def record(self, task: str, replica: str) -> ReplicaRecord:
        """Return the record of one replica."""
        raw = self.replicas.get(task, {}).get(replica)
        return ReplicaRecord.read(raw) if raw else ReplicaRecord()

    def with_records(self, records: Mapping[tuple[str, str], ReplicaRecord]) -> Ledger:
        """Return a ledger in which these records, by task and replica, replace the old ones."""
        replicas = {task: dict(raw) for task, raw in self.replicas.items()}
        for (task, replica), record in records.items():
            replicas.setdefault(task, {})[replica] = record.dump()
        return replace(self, replicas=replicas)

    def without(self, is_over: Callable[[ReplicaRecord, datetime], bool], now: datetime) -> Ledger:
        """Return a ledger without the records that have expired."""
        if not self.replicas:
            return self
        kept = {
            task: {
                key: raw
                for key, raw in records.items()
                if not is_over(ReplicaRecord.read(raw), now)
            }
            for task, records in self.replicas.items()
        }
        return replace(self, replicas={task: records for task, records in kept.items() if records})

    def with_restart_of_job(self) -> Ledger:
        """Return a ledger with one more restart for the job's own limit."""
        own = self.job_restarts
        return self if own is None else replace(self, job_restarts=own + 1)

    def grown(self, task: str) -> dict[str, str]:
        """Return the largest memory size of each container of a task in any replica."""
        most: dict[str, str] = {}
        for replica in self.replicas.get(task, {}):
            for name, amount in self.record(task, replica).memory.items():
                if name not in most or read_quantity(most[name]) < read_quantity(amount):
                    most[name] = amount
        return most

    def avoiding(self) -> Iterator[tuple[tuple[str, str], tuple[Avoided, ...]]]:
        """Yield the replicas (task and index) that avoid nodes, with the nodes, expired ones
        included.
        """
        for task, replicas in self.replicas.items():
            for replica, raw in replicas.items():
                if mapping(raw).get("avoid"):
                    yield (task, replica), self.record(task, replica).avoid

    def avoided(self) -> frozenset[tuple[str, Avoided]]:
        """Return pairs of a task and a node that one of its replicas avoids."""
        return frozenset((task, each) for (task, _), avoid in self.avoiding() for each in avoid)

    def dump(self) -> dict[str, Any]:
        """Return the fields of the status that are not empty."""
        return {
            **({} if self.job_restarts is None else {"jobRestarts": self.job_restarts}),
            **({"taskRestarts": dict(self.task_restarts)} if self.task_restarts else {}),
            **({"replicaFailures": dict(self.replicas)} if self.replicas else {}),
        }


def count(value: object) -> int:
    """Return a count from the status; 0 if the value is not a count."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
