"""Objects that schedulers and evictions go by: they stand before a job's pods, and follow its size.

Nobody watches them, since a cluster may serve none of their kinds: they are looked at by name,
before the first pods and from time to time, more often while the job waits. One that was deleted
is made again, one that was edited is put right.
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

NEXT_LOOK: Final = 15.0
"""Seconds until what is there for a job that does not run yet is looked at again: what its
scheduler says in it is news, and pods wait for one that somebody has deleted."""
_REFUSED: Final = frozenset({Reason.UNSCHEDULABLE, Reason.VOLUME_NOT_BOUND})


class SchedulingRecipe(Protocol):
    """What such an object is built from."""

    def build(self) -> dict[str, Any]:
        """The body, anew with each call."""
        ...

    def changes(self, found: Mapping[str, Any]) -> dict[str, Any] | None:
        """The merge patch that makes the object as it is to be; None if it is."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    resource: Resource
    name: str
    recipe: SchedulingRecipe
    may_lag: bool
    """Whether it does no harm now if the object is not quite as it is to be."""


def scheduled_by(snapshot: Snapshot) -> tuple[Gang | None, Provisioned | None]:
    """Return the group that the pods of a job are members of, None if no scheduler binds them
    together; and the request for their nodes, None if nodes are not requested.
    """
    if snapshot.spec is None:
        return None, None
    kind = KINDS.get(snapshot.spec.scheduling.gang_scheduler)
    gang = Gang(kind=kind, group=snapshot.name) if kind is not None else None
    return gang, _provisioned_of(snapshot)


def _provisioned_of(snapshot: Snapshot) -> Provisioned | None:
    """The request that makes room for a job's pods; None: nodes are not asked for."""
    if snapshot.spec is None or snapshot.spec.scheduling.provisioning_class_name is None:
        return None
    return Provisioned(
        request=snapshot.name, class_name=snapshot.spec.scheduling.provisioning_class_name
    )


def unread_objects(
    snapshot: Snapshot, now: datetime, settings: Settings
) -> tuple[tuple[Resource, str], ...]:
    """The objects, by kind and name, that have to be read before anything is made for a job."""
    if snapshot.spec is None or snapshot.scheduling_objects is not None:
        return ()
    wanted = _wanted(snapshot, snapshot.spec, now, settings, created=0)
    return tuple((each.resource, each.name) for each in wanted)


def with_scheduling_objects(
    snapshot: Snapshot, plan: Plan, now: datetime, settings: Settings
) -> Plan:
    """Put before all that a plan makes the objects for schedulers that are not there, or not right.

    Nothing is made before they have been looked at, and before those of an earlier job are gone.
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
        requeue = earliest(requeue, NEXT_LOOK)
    if plan.created and (no_nodes := _waits_for_nodes(snapshot)) is not None:
        return replace(
            plan, creations=tuple(steps), created=0, waiting=no_nodes, requeue_after=requeue
        )
    return replace(plan, creations=(*steps, *plan.creations), requeue_after=requeue)


def _waits_for_nodes(snapshot: Snapshot) -> str | None:
    """Why a job makes no pods yet. One that has some has had its nodes."""
    room, found = _provisioned_of(snapshot), snapshot.scheduling_objects
    if room is None or found is None or snapshot.live:
        return None
    why = waits_for_nodes(found.get(object_key(REQUESTS, room.request)))
    return None if why is None else f"waiting for {REQUESTS.kind} {room.request}: {why}"


def object_key(resource: Resource, name: str) -> str:
    """What an object is found by in a snapshot."""
    return f"{resource.kind}/{name}"


def _step(snapshot: Snapshot, wanted: _Wanted, found: Mapping[str, Any] | None) -> Creation | None:
    if found is None or not snapshot.is_own(found):
        # Whose the name is, the API server's answer shows.
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
    """The request for the nodes of all that a job needs, also of tasks that wait for others; what
    its pods are like comes before it."""
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
        # A scheduler asks for the minimum when it binds a pod. Pods that succeed one by one would
        # else be as many writes.
        may_lag=is_settled,
    )


def _is_to_be_asked(snapshot: Snapshot, now: datetime) -> bool:
    """Whether pods are refused, and it is long ago that their scheduler was asked to look again:
    a minute at last, if they wait for long."""
    if not any(pod.blocker is not None and pod.blocker.reason in _REFUSED for pod in snapshot.live):
        return False
    group, since = snapshot.pod_group, snapshot.status.transitioned
    notes = mapping(mapping((group or {}).get("metadata")).get("annotations"))
    asked = parse_time(notes.get(ANNOTATION_ASKED_AT))
    waited = (now - since).total_seconds() if since is not None else 0.0
    return asked is None or (now - asked).total_seconds() >= max(NEXT_LOOK, pause(waited))


def _members(snapshot: Snapshot, now: datetime) -> list[Slot]:
    """The slots whose pods are there to be bound together, or are made as soon as their names are
    free: a scheduler waits until all of them are.

    Without those that wait for another task, or for a pause to be over, which nobody knows the end
    of; and without those that have succeeded, which no scheduler counts.
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
    """What pods ask for together; nothing where a template says what is no quantity."""
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
    """The class that all templates name, if it is one."""
    named = {
        (task.template_of(0).get("spec") or {}).get("priorityClassName") for task in snapshot.tasks
    }
    return named.pop() if len(named) == 1 else None


SCHEDULING_OBJECTS: Final = Policy(prepare=with_scheduling_objects)
