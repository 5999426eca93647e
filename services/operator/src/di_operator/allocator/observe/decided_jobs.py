"""The jobs that the allocator decides on, and their selection. Raw dicts in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from di_api.ownership import is_managed_elsewhere
from di_api.spec import CleanPodPolicy, JobSpec
from di_operator.allocator.model.job import NodeList
from di_operator.allocator.observe.gangs import was_let_go
from di_operator.allocator.observe.inventory import KnownJob
from di_operator.allocator.observe.own_pods import OwnPods
from di_operator.lifecycle.observed.ledger import Avoided
from di_operator.lifecycle.observed.status import Status

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidedJob:
    """A job that the allocator decides on, as it was read."""

    known: KnownJob
    generation: object
    status: Status
    placed: NodeList
    """The nodes in its status."""
    present: Counter[tuple[str, str]]
    priority: int
    """The highest Kubernetes priority of its pods."""
    avoided: frozenset[tuple[str, Avoided]]
    """By task: nodes where a replica failed and is not restarted."""

    @property
    def pods(self) -> Mapping[str, int]:
        """Return, by task, how many pods exist and are not ending, or have succeeded."""
        found = Counter(self.status.succeeded)
        for (task, _), count in self.present.items():
            found[task] += count
        return found


def gives_way(job: Object, spec: JobSpec, status: Status) -> bool:
    """Return whether the pods of a job are about to be deleted."""
    cleaned = status.is_finished and spec.clean_pod_policy is not CleanPodPolicy.NONE
    return cleaned or spec.suspend or "deletionTimestamp" in job["metadata"]


def is_ours(job: Object, spec: JobSpec, status: Status, own: OwnPods) -> bool:
    """Return whether the allocator decides on a job: it is preemptible, or a gang without pods."""
    if "deletionTimestamp" in job["metadata"] or spec.suspend or status.is_finished:
        return False
    if is_managed_elsewhere(job):
        return False
    return spec.preemptible or (spec.scheduling.gang and not was_let_go(status, own))
