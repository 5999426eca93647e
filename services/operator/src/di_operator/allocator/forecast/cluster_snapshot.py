"""Input of an allocator round, from the running reader or from lists of the cluster's objects.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from di_api.ownership import controller_uid
from di_operator.allocator.forecast.what_if import Surroundings
from di_operator.allocator.grants.granting import Words, granted
from di_operator.allocator.model.policy import Policy
from di_operator.allocator.observe.changes import Changes
from di_operator.allocator.observe.cluster_reader import ClusterReader
from di_operator.allocator.observe.scheduling_snapshot import SchedulingSnapshot
from di_operator.lifecycle.observed.specs import read_spec

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The input of one round; `everything`: all jobs are reconsidered."""

    reader: ClusterReader
    changes: Changes
    words: Words
    now: datetime
    everything: bool
    over: frozenset[str]
    """Namespaces that have recently exceeded their budget of changes."""

    def read(self) -> SchedulingSnapshot:
        """Return the cluster as it is known now."""
        return self.reader.read(granted=granted(self.words), now=self.now)


def look_at(
    *,
    jobs: Iterable[Object],
    nodes: Iterable[Object],
    pods: Iterable[Object],
    policy: Policy | None,
    now: datetime,
    kind_label: str | None = None,
) -> Surroundings:
    """Return a cluster as it is listed, for trials of jobs. Pods of jobs that are missing from the
    list count as pods of other owners: the caller may not be permitted to read these jobs.
    """
    known = list(jobs)
    uids = {job["metadata"]["uid"] for job in known}
    own: list[Object] = []
    others: list[Object] = []
    for pod in pods:
        (own if controller_uid(pod) in uids else others).append(pod)
    changes = Changes.all(jobs=known, departed=(), nodes=nodes, pods=own, others=others)
    return Surroundings(changes, policy=policy, now=now, read_spec=read_spec, kind_label=kind_label)
