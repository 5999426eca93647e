"""The inputs of a decision about a job besides the job itself."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

from di_api.spec import Template
from di_operator.kueue.queueing import Kueue
from di_operator.lifecycle.observed.placement import Grant
from di_operator.lifecycle.observed.trial import Trial

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The state of the cluster at one moment.

    Pods, Services and ConfigMaps of other owners may be among them: the controller reference
    decides, so the list may have too many objects but never too few.
    """

    pods: Iterable[Object] = ()
    deleted_pods: Iterable[Object] = ()
    """Pods that succeeded and are gone, and that no status has counted yet."""
    services: Iterable[Object] = ()
    configmaps: Iterable[Object] = ()
    grant: Grant | None = None
    """The allocator's assignment, None without an allocator."""
    reports_since: datetime | None = None
    """Time since which reports of jobs can arrive; None while they cannot."""
    largest_node_memory: Decimal | None = None
    """Bytes that the largest node has for pods; None if unknown."""
    nodes: Container[str] | None = None
    """Names of the cluster's nodes; None if unknown."""
    could_run: Callable[[], bool] = lambda: False
    """Returns whether the nodes could run the job if they had no other pods; False if unknown."""
    suspect_nodes: Mapping[str, int] = field(default_factory=dict)
    """Nodes that several jobs avoid, each with the number of these jobs."""
    notification_targets: frozenset[str] | None = None
    """Targets that jobs may notify; None if notifications are off."""
    suspend_idle_jobs: bool = False
    """Whether the operator may suspend jobs by their idlePolicy."""
    scale_down_idle_jobs: bool = False
    """Whether the operator may scale down jobs by their idlePolicy."""
    kueue: Kueue | None = None
    """State of Kueue and of the job's Workloads; None if not read yet."""
    aggregator: Template | None = None
    """The template in the AggregatorConfig; None if it was not read or does not exist."""
    companions: Mapping[int, Object] | None = None
    """Objects with the names of the job's companions, by index in the spec; None if they were not
    read lately.
    """
    scheduling_objects: Mapping[str, Object] | None = None
    """Scheduling objects by `Kind/name`; None if not read lately."""
    trial: Trial | None = None
    """The result of dry runs for this spec; None if unknown."""


NO_SOURCES = Sources()
