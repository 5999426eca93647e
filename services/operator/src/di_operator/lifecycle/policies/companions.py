"""The companions of a job: objects that exist before its pods, and as long as the job.

No informer watches them: a cluster may allow any object kind, and their later state concerns only
the user. They are read by name instead, before the first pods and from time to time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from di_api.companions import with_job_name
from di_api.field_error import mapping
from di_kube.resources import Resource
from di_operator.builders.companion import CompanionRecipe
from di_operator.lifecycle.observed.plan import Plan, without_creations
from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.policy import Policy
from di_operator.lifecycle.vocabulary.actions import CreateCompanion
from di_operator.lifecycle.vocabulary.decision import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A companion that the spec requests."""

    index: int
    """Its index in the spec."""
    resource: Resource | None
    """The REST resource; None if this operator does not create the kind."""
    kind: str
    name: str
    recipe: CompanionRecipe


def wanted_companions(snapshot: Snapshot, settings: Settings) -> Iterator[Wanted]:
    """Yield the companions of a job, without those whose name cannot be read."""
    companions = snapshot.spec.companions if snapshot.spec is not None else ()
    if not companions:
        return
    kinds = {(kind.api_version, kind.kind): kind.resource for kind in settings.companion_kinds}
    for index, companion in enumerate(companions):
        api_version, kind = str(companion.get("apiVersion")), str(companion.get("kind"))
        name = mapping(companion.get("metadata")).get("name")
        if not isinstance(name, str) or not name:
            continue
        group, _, version = api_version.rpartition("/")
        plural = kinds.get((api_version, kind))
        yield Wanted(
            index=index,
            resource=None
            if plural is None
            else Resource(group=group, version=version, plural=plural, kind=kind),
            kind=f"{kind} ({api_version})",
            name=with_job_name(name, snapshot.name),
            recipe=CompanionRecipe(job=snapshot.job, companion=companion),
        )


def unread_companions(snapshot: Snapshot, settings: Settings) -> tuple[Wanted, ...]:
    """Return the companions that have to be read before anything is created for the job."""
    if snapshot.companions is not None or snapshot.spec is None or not snapshot.spec.companions:
        return ()
    return tuple(wanted_companions(snapshot, settings))


def with_companions(snapshot: Snapshot, plan: Plan, now: datetime, settings: Settings) -> Plan:
    """Return the plan with the missing companions as its first creations.

    Nothing is created before the companions have been read, and before those of an earlier job are
    gone: their data is not this job's. One that is being deleted counts as present: the job's own
    pods may be what keeps it, and it is created again once it is gone.
    """
    if snapshot.spec is None or not snapshot.spec.companions or plan.pause > 0:
        return plan
    wanted = tuple(wanted_companions(snapshot, settings))
    if not wanted:
        return plan
    if snapshot.companions is None:
        return without_creations(plan, "waiting for the job's companions to be read")
    missing: list[CreateCompanion] = []
    for each in wanted:
        found = snapshot.companions.get(each.index)
        if found is not None and snapshot.is_predecessor(found):
            why = f"waiting for {each.kind} {each.name} of an earlier job to be gone"
            return without_creations(plan, why)
        if found is not None and snapshot.is_own(found):
            continue
        if each.resource is None and snapshot.has_started:
            # It was created while the kind was allowed; an administrator has removed the kind
            # since.
            continue
        missing.append(
            CreateCompanion(
                index=each.index,
                resource=each.resource,
                kind=each.kind,
                name=each.name,
                recipe=each.recipe,
            )
        )
    return replace(plan, creations=(*missing, *plan.creations))


def seen_of(found: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields of a companion that are kept: its identity and its owner."""
    metadata = found["metadata"]
    kept = ("name", "uid", "ownerReferences")
    return {"metadata": {key: metadata[key] for key in kept if key in metadata}}


COMPANIONS: Final = Policy(prepare=with_companions)
