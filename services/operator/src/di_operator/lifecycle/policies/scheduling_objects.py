"""The objects that schedulers and the eviction API read: created before the pods, resized with the
job.

No informer watches them, since a cluster may serve none of their kinds. They are read by name,
before the first pods and from time to time, more often while the job waits. A deleted object is
created again, an edited one is restored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, Protocol

from di_api.field_error import mapping
from di_api.names import ANNOTATION_ASKED_AT
from di_api.phase import Phase
from di_api.spec import GangScheduler, JobSpec, Task, Template
from di_api.timestamps import format_time
from di_kube.resources import Resource
from di_operator.builders.disruption_budget import BUDGETS, DisruptionBudgetRecipe
from di_operator.builders.pod_group import KINDS, Gang, PodGroupRecipe
from di_operator.builders.provisioning import (
    REQUESTS,
    TEMPLATES,
    PodTemplateRecipe,
    Provisioned,
    ProvisioningRequestRecipe,
    waits_for_nodes,
)
from di_operator.lifecycle.failure.refused_creates import pause
from di_operator.lifecycle.failure.restart_delay import pauses_left
from di_operator.lifecycle.observed.plan import Plan, without_creations
from di_operator.lifecycle.observed.snapshot import Slot, Snapshot
from di_operator.lifecycle.observed.verdict import earliest
from di_operator.lifecycle.policies.dependencies import waiting_tasks
from di_operator.lifecycle.policy import Policy
from di_operator.lifecycle.vocabulary.actions import (
    CreateSchedulingObject,
    Creation,
    PatchSchedulingObject,
)
from di_operator.lifecycle.vocabulary.decision import Settings
from di_operator.lifecycle.vocabulary.reasons import Reason
from di_operator.lifecycle.vocabulary.timestamps import parse_time
from di_operator.resources import PODS, Resources, pod_request

NEXT_READ: Final = 15.0
"""Seconds until the objects of a job that does not run yet are read again: its scheduler reports
in them, and pods wait for one that was deleted.
"""
_REFUSED: Final = frozenset({Reason.UNSCHEDULABLE, Reason.VOLUME_NOT_BOUND})


class SchedulingRecipe(Protocol):
    """The input that such an object is built from."""

    def build(self) -> dict[str, Any]:
        """Build the body; each call returns a new one."""
        ...

    def changes(self, found: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the merge patch that restores the object; None if it needs none."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    resource: Resource
    name: str
    recipe: SchedulingRecipe
    may_lag: bool
    """Whether a difference from the wanted object is harmless for now."""


def scheduled_by(snapshot: Snapshot) -> tuple[Gang | None, Provisioned | None]:
    """Return the job's pod group, None if no scheduler binds its pods together; and the request
    for its nodes, None if none are requested.
    """
    if snapshot.spec is None:
        return None, None
    kind = KINDS.get(snapshot.spec.scheduling.gang_scheduler)
    gang = Gang(kind=kind, group=snapshot.name) if kind is not None else None
    return gang, _provisioned_of(snapshot)


def _provisioned_of(snapshot: Snapshot) -> Provisioned | None:
    """Return the ProvisioningRequest for a job's nodes; None if nodes are not requested."""
    if snapshot.spec is None or snapshot.spec.scheduling.provisioning_class_name is None:
        return None
    return Provisioned(
        request=snapshot.name, class_name=snapshot.spec.scheduling.provisioning_class_name
    )


def unread_objects(
    snapshot: Snapshot, now: datetime, settings: Settings
) -> tuple[tuple[Resource, str], ...]:
    """Return the objects, by kind and name, that have to be read before any object of the job is
    created.
    """
    if snapshot.spec is None or snapshot.scheduling_objects is not None:
        return ()
    wanted = _wanted(snapshot, snapshot.spec, now, settings, created=0)
    return tuple((each.resource, each.name) for each in wanted)


def with_scheduling_objects(
    snapshot: Snapshot, plan: Plan, now: datetime, settings: Settings
) -> Plan:
    """Return the plan with the missing or changed scheduling objects as its first writes.

    Nothing is created before they have been read, and before those of an earlier job are gone.
    """
    if snapshot.spec is None or plan.pause > 0:
        return plan
    wanted = tuple(_wanted(snapshot, snapshot.spec, now, settings, created=plan.created))
    if not wanted:
        return plan
    if snapshot.scheduling_objects is None:
        return without_creations(plan, "waiting for the objects for schedulers to be read")
    steps: list[Creation] = []
    for each in wanted:
        found = snapshot.scheduling_objects.get(object_key(each.resource, each.name))
        if found is not None and snapshot.is_predecessor(found):
            kind = each.resource.kind
            why = f"waiting for {kind} {each.name} of an earlier job to be gone"
            return without_creations(plan, why)
        if (step := _step(snapshot, each, found)) is not None:
            steps.append(step)
    requeue = plan.requeue_after
    if snapshot.status.phase is not Phase.RUNNING:
        requeue = earliest(requeue, NEXT_READ)
    if plan.created and (no_nodes := _waits_for_nodes(snapshot)) is not None:
        return replace(
            plan, creations=tuple(steps), created=0, waiting=no_nodes, requeue_after=requeue
        )
    return replace(plan, creations=(*steps, *plan.creations), requeue_after=requeue)


def _waits_for_nodes(snapshot: Snapshot) -> str | None:
    """Return why a job creates no pods yet. A job that has pods already got its nodes."""
    room, found = _provisioned_of(snapshot), snapshot.scheduling_objects
    if room is None or found is None or snapshot.live:
        return None
    why = waits_for_nodes(found.get(object_key(REQUESTS, room.request)))
    return None if why is None else f"waiting for {REQUESTS.kind} {room.request}: {why}"


def object_key(resource: Resource, name: str) -> str:
    """Return the key of an object in a snapshot."""
    return f"{resource.kind}/{name}"


def _step(snapshot: Snapshot, wanted: _Wanted, found: Mapping[str, Any] | None) -> Creation | None:
    if found is None or not snapshot.is_own(found):
        # The API server's answer shows the owner of a name that is taken.
        return CreateSchedulingObject(
            resource=wanted.resource, name=wanted.name, recipe=wanted.recipe
        )
    patch = None if wanted.may_lag else wanted.recipe.changes(found)
    if patch is None:
        return None
    return PatchSchedulingObject(
        resource=wanted.resource,
        namespace=snapshot.namespace,
        name=wanted.name,
        uid=found["metadata"]["uid"],
        resource_version=found["metadata"]["resourceVersion"],
        owner=snapshot.uid,
        patch=patch,
    )


def _wanted(
    snapshot: Snapshot, spec: JobSpec, now: datetime, settings: Settings, *, created: int
) -> Iterator[_Wanted]:
    if spec.scheduling.gang_scheduler is not GangScheduler.NONE:
        yield _pod_group(snapshot, spec, now, settings, created=created)
    if (class_name := spec.scheduling.provisioning_class_name) is not None:
        yield from _nodes(snapshot, class_name)
    for task in spec.tasks:
        if task.max_unavailable is not None:
            yield _disruption_budget(snapshot, task, task.max_unavailable)


def _nodes(snapshot: Snapshot, class_name: str) -> Iterator[_Wanted]:
    """Yield the request for all the nodes that a job needs, those of waiting tasks included; its
    pod templates come before it.
    """
    counts = Counter(slot.task.name for slot in snapshot.slots if slot.is_core)
    for task in snapshot.tasks:
        if counts[task.name]:
            template = PodTemplateRecipe(
                job=snapshot.job, task=task.name, template=task.template_of(0)
            )
            yield _Wanted(resource=TEMPLATES, name=template.name, recipe=template, may_lag=True)
    recipe = ProvisioningRequestRecipe(job=snapshot.job, class_name=class_name, counts=counts)
    yield _Wanted(resource=REQUESTS, name=recipe.name, recipe=recipe, may_lag=True)


def _disruption_budget(snapshot: Snapshot, task: Task, most: int) -> _Wanted:
    pods = sum(slot.is_core and slot.task.name == task.name for slot in snapshot.slots)
    recipe = DisruptionBudgetRecipe(job=snapshot.job, task=task.name, available=max(0, pods - most))
    return _Wanted(resource=BUDGETS, name=recipe.name, recipe=recipe, may_lag=False)


def _pod_group(
    snapshot: Snapshot, spec: JobSpec, now: datetime, settings: Settings, *, created: int
) -> _Wanted:
    kind = KINDS[spec.scheduling.gang_scheduler]
    members = _members(snapshot, now)
    live = {pod.name for pod in snapshot.live}
    is_complete = all(slot.name in live for slot in members)
    recipe = PodGroupRecipe(
        job=snapshot.job,
        kind=kind,
        members=max(1, len(members)),
        is_complete=is_complete,
        asked_at=format_time(now)
        if kind.is_asked and is_complete and _is_to_be_asked(snapshot, now)
        else None,
        resources=_requests(members),
        queue=spec.scheduling.queue,
        priority_class=settings.priority_class(spec) or _priority_class(snapshot),
    )
    at_work = {pod.name for pod in snapshot.live if pod.phase == "Running"}
    is_settled = created == 0 and all(slot.name in at_work for slot in members)
    return _Wanted(
        resource=kind.resource,
        name=snapshot.name,
        recipe=recipe,
        # A scheduler reads the minimum when it binds a pod. Otherwise pods that succeed one by one
        # would each cause a write.
        may_lag=is_settled,
    )


def _is_to_be_asked(snapshot: Snapshot, now: datetime) -> bool:
    """Return whether pods are refused and the scheduler has not been triggered lately: the
    interval grows to a minute.
    """
    if not any(pod.blocker is not None and pod.blocker.reason in _REFUSED for pod in snapshot.live):
        return False
    group, since = snapshot.pod_group, snapshot.status.transitioned
    notes = mapping(mapping((group or {}).get("metadata")).get("annotations"))
    asked = parse_time(notes.get(ANNOTATION_ASKED_AT))
    waited = (now - since).total_seconds() if since is not None else 0.0
    return asked is None or (now - asked).total_seconds() >= max(NEXT_READ, pause(waited))


def _members(snapshot: Snapshot, now: datetime) -> list[Slot]:
    """Return the slots whose pods exist, or are created as soon as their names are free: a
    scheduler waits for all of them.

    Pods that wait for another task or for a delay are left out, as their start is unknown. So are
    succeeded pods, which no scheduler counts.
    """
    waits, done = waiting_tasks(snapshot), snapshot.done
    paused = pauses_left(snapshot, now)
    live = {pod.name for pod in snapshot.live}
    return [
        slot
        for slot in snapshot.slots
        if slot.is_core
        and slot.name not in done
        and (slot.name in live or (slot.task.name not in waits and slot.name not in paused))
    ]


def _requests(members: list[Slot]) -> Resources:
    """Return the sum of the pods' requests; empty if a template has an invalid quantity."""
    result: dict[str, int] = {}
    known: dict[int, tuple[Template, Resources]] = {}
    for slot in members:
        template = slot.task.template_of(slot.index)
        if id(template) not in known:
            try:
                known[id(template)] = template, pod_request(template.get("spec") or {})
            except ValueError:
                return {}
        for name, amount in known[id(template)][1].items():
            if name != PODS:
                result[name] = result.get(name, 0) + amount
    return result


def _priority_class(snapshot: Snapshot) -> str | None:
    """Return the PriorityClass that all templates have in common, None without one."""
    named = {
        (task.template_of(0).get("spec") or {}).get("priorityClassName") for task in snapshot.tasks
    }
    return named.pop() if len(named) == 1 else None


SCHEDULING_OBJECTS: Final = Policy(prepare=with_scheduling_objects)
