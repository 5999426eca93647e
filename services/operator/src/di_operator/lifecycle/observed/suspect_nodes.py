"""Nodes that several jobs avoid at the same time: their hardware is suspect.

A job avoids a node after a failure that one of its rules attributes to the node (`avoidNode`), or
after a node check. One job can be wrong about that. The state is that of the jobs' statuses, so a
new leader has it too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from di_api.field_error import mapping
from di_operator.lifecycle.observed.ledger import Ledger
from di_operator.lifecycle.observed.status import read_avoided

LEAST_JOBS: Final = 2
"""Number of jobs that have to avoid a node."""


class SuspectNodes:
    """Follows the jobs of all namespaces."""

    def __init__(self) -> None:
        self._by_job: dict[str, Mapping[str, datetime]] = {}
        self._counts: Mapping[str, int] = {}
        self._until: datetime | None = None
        """Time at which the counts change by themselves; None: not counted yet."""

    def follow(self, kind: str, job: Mapping[str, Any]) -> None:
        """Record a change of a job, as the cache reports it."""
        uid = str(mapping(job.get("metadata")).get("uid") or "")
        found = {} if kind == "DELETED" else avoided_by(mapping(job.get("status")))
        if self._by_job.get(uid, {}) == found:
            return
        if found:
            self._by_job[uid] = found
        else:
            del self._by_job[uid]
        self._until = None

    def jobs(self, now: datetime) -> Mapping[str, int]:
        """Return the suspect nodes, each with the number of jobs that avoid it."""
        if self._until is None or now >= self._until:
            counts: defaultdict[str, int] = defaultdict(int)
            ends = [datetime.max.replace(tzinfo=now.tzinfo)]
            for avoided in self._by_job.values():
                for node, until in avoided.items():
                    if now < until:
                        counts[node] += 1
                        ends.append(until)
            self._counts = {node: jobs for node, jobs in counts.items() if jobs >= LEAST_JOBS}
            self._until = min(ends)
        return self._counts


def avoided_by(status: Mapping[str, Any]) -> dict[str, datetime]:
    """Return the nodes that any replica of a job avoids, and until when."""
    found: dict[str, datetime] = {}
    entries = [
        (each.node, each.until) for _, avoid in Ledger.read(status).avoiding() for each in avoid
    ]
    for nodes in read_avoided(status.get("avoidedNodes")).values():
        entries += nodes.items()
    for node, until in entries:
        found[node] = max(until, found.get(node, until))
    return found
