"""What a decision about a job may read beside the job itself."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
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
    """All that is known at one moment.

    Objects of others may be among the pods, Services and ConfigMaps: ownership is judged by the
    controller reference, so there may be too many of them, never too few.
    """

    pods: Iterable[Object] = ()
    services: Iterable[Object] = ()
    configmaps: Iterable[Object] = ()
    grant: Grant | None = None
    """The allocator's assignment, None without an allocator."""
    reports_since: datetime | None = None
    """Since when reports of jobs can come; None: they cannot."""
    largest_node_memory: Decimal | None = None
    """Bytes that the largest node has for pods; None: not known."""
    nodes: Container[str] | None = None
    """Names of the cluster's nodes; None: not known."""
    notification_targets: frozenset[str] | None = None
    """The targets that jobs may name; None: nothing is notified."""
    kueue: Kueue | None = None
    """What is known of Kueue and the job's Workloads; None: nothing yet."""
    aggregator: Template | None = None
    """The template of the AggregatorConfig; None: it was not read, or does not exist."""
    companions: Mapping[int, Object] | None = None
    """The objects of the names of the job's companions, by their place in the spec; None: they were
    not read lately."""
    scheduling_objects: Mapping[str, Object] | None = None
    """The objects for schedulers, by kind and name (`Kind/name`); None: not read lately."""
    trial: Trial | None = None
    """The answer to dry runs of pods of this spec; None: not known."""


NO_SOURCES = Sources()
