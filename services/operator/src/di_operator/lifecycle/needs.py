"""The objects that are read before a decision because no informer watches them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from di_kube.resources import Resource
from di_operator.lifecycle.failure.refused_creates import until_retry
from di_operator.lifecycle.job_types.choose import job_type_of
from di_operator.lifecycle.ladder import judge
from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.policies.companions import Wanted, unread_companions
from di_operator.lifecycle.policies.scheduling_objects import unread_objects
from di_operator.lifecycle.vocabulary.decision import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """The objects to read. Until they are read, no object of the job is created."""

    aggregator: bool = False
    """Whether the template of the AggregatorConfig is needed."""
    companions: tuple[Wanted, ...] = ()
    scheduling_objects: tuple[tuple[Resource, str], ...] = ()
    """Scheduling objects, by kind and name."""

    def __bool__(self) -> bool:
        """Return whether anything has to be read."""
        return self.aggregator or bool(self.companions or self.scheduling_objects)


NOTHING: Final = Needs()


def needs(snapshot: Snapshot, now: datetime, settings: Settings) -> Needs:
    """Return what the decision for a snapshot lacks; nothing while it creates no pods anyway."""
    companions = unread_companions(snapshot, settings)
    objects = unread_objects(snapshot, now, settings)
    if (companions or objects) and snapshot.missing and until_retry(snapshot, now) > 0:
        companions, objects = (), ()
    found = Needs(
        aggregator=snapshot.lacks_template, companions=companions, scheduling_objects=objects
    )
    if not found or not snapshot.is_active:
        # Most jobs need nothing, and are decided once.
        return NOTHING
    job_type = job_type_of(snapshot.job, snapshot.spec)
    return found if judge(job_type, snapshot, now, settings) is None else NOTHING
