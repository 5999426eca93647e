"""Reconciles the Workloads of a job with the quota that it needs.

Each step depends only on the present Workloads and pods, so the next reconcile repairs a crash at
any write. The quota of a Workload is released only after the pods that use it are gone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import chain, count, islice
from typing import Any, Final

from di_api.names import CORE
from di_api.phase import Phase
from di_api.timestamps import format_time
from di_kube.resources import WORKLOADS
from di_operator.kueue.bodies import (
    WorkloadRecipe,
    adopted,
    annotations_of,
    digest_of,
    released,
    reported_finished,
    reported_ready,
    reported_unready,
    unfinalized,
)
from di_operator.kueue.multikueue import MultiKueueRole
from di_operator.kueue.portions import Portion, extra_pod_sets
from di_operator.kueue.queueing import Queueing
from di_operator.kueue.workload import State, Workload
from di_operator.lifecycle.observed.pods import Pod
from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.policies.deletion import delete
from di_operator.lifecycle.policies.kueue_admission import room_left, takes_room
from di_operator.lifecycle.policy import Policy
from di_operator.lifecycle.vocabulary.actions import Action, Create, Delete, Patch

WAITING_EXTRAS: Final = 4
"""Maximum number of waiting Workloads for further replicas of one task: more would add nothing for
Kueue.
"""


def queue_steps(snapshot: Snapshot, now: datetime) -> tuple[Action, ...]:
    """Return the next writes to the job's Workloads."""
    queueing = snapshot.queueing
    if queueing is None or queueing.obstacle is not None or snapshot.is_left_alone:
        return ()
    return tuple(_steps(snapshot, queueing, now))


def leftover_steps(workloads: Iterable[Workload], pods: Iterable[Pod]) -> tuple[Action, ...]:
    """Return the writes to Workloads of a deleted job, which hold its quota until its pods are
    gone. Workloads of other jobs are left to the garbage collector.
    """
    busy = {pod.owner.get("uid") for pod in pods if pod.owner and not pod.is_finished}
    return tuple(
        _unfinalize(each)
        for each in workloads
        if each.deleting and each.holds and each.owner not in busy
    )


def _steps(snapshot: Snapshot, queueing: Queueing, now: datetime) -> Iterator[Action]:
    yield from _predecessors(snapshot, queueing)
    busy = any(map(takes_room, snapshot.pods))
    if snapshot.is_deleted:
        if not busy:
            yield from _let_go(queueing)
    elif snapshot.status.is_finished:
        if not busy:
            yield from _after_the_end(snapshot, queueing, now)
    elif (core := queueing.core) is not None and core.owner is None and not core.deleting:
        yield _patch(core, adopted(core, snapshot.job))
    elif queueing.is_held or not queueing.has_queue:
        if not busy:
            yield from chain.from_iterable(map(_removal, queueing.workloads))
    elif core is None:
        # Names are free again once an earlier job's Workloads are gone. MultiKueue creates those
        # in a worker cluster.
        is_ours = queueing.side is not MultiKueueRole.WORKER
        if is_ours and queueing.problem is None and queueing.pod_sets and not queueing.old:
            yield _create_core(snapshot, queueing)
    else:
        yield from _of_core(snapshot, queueing, core, now, busy=busy)


def _of_core(
    snapshot: Snapshot, queueing: Queueing, core: Workload, now: datetime, *, busy: bool
) -> Iterator[Action]:
    if core.deleting or core.state is State.FINISHED:
        if not busy:
            yield from chain.from_iterable(map(_removal, queueing.workloads))
    elif core.state is State.ADMITTED and _was_sent_another(core, queueing):
        yield from _removal(core)
    elif core.state is State.ADMITTED:
        yield from _do_late_actions(core, queueing)
        # In the manager cluster MultiKueue reports whether the pods are ready.
        if queueing.side is not MultiKueueRole.MANAGER:
            yield from _report_ready(snapshot, core, now)
        for portion in queueing.portions:
            yield from _extras(snapshot, queueing, portion, now)
    else:
        # Without the core Workload no part of the job runs.
        for each in queueing.extras:
            if not (each.deleting and busy):
                yield from _removal(each)
        if busy:
            return
        if core.state is not State.EVICTED:
            yield from _renew(core, queueing)
        elif not queueing.extras:
            yield _patch_status(core, released(core, format_time(now)))


def _let_go(queueing: Queueing) -> Iterator[Action]:
    return (_unfinalize(each) for each in queueing.workloads if each.deleting and each.holds)


def _predecessors(snapshot: Snapshot, queueing: Queueing) -> Iterator[Action]:
    busy = {
        pod.owner.get("uid")
        for pod in snapshot.predecessors
        if pod.owner is not None and takes_room(pod)
    }
    for each in queueing.old:
        if each.owner in busy:
            continue  # Its pods end first.
        yield from _removal(each)


def _after_the_end(snapshot: Snapshot, queueing: Queueing, now: datetime) -> Iterator[Action]:
    core = queueing.core
    if core is not None and core.state is not State.FINISHED:
        condition = snapshot.status.condition or {}
        yield _patch_status(
            core,
            reported_finished(
                core,
                format_time(now),
                succeeded=snapshot.status.phase is Phase.SUCCEEDED,
                message=str(condition.get("message") or ""),
            ),
        )
    elif core is not None and core.holds:
        yield _unfinalize(core)
    yield from chain.from_iterable(map(_removal, queueing.extras))


def _create_core(snapshot: Snapshot, queueing: Queueing) -> Create:
    recipe = WorkloadRecipe(
        job=snapshot.job,
        name=f"{snapshot.name}-{CORE}",
        task=None,
        standing=queueing.standing,
        pod_sets=queueing.pod_sets,
        sent=queueing.sent,
    )
    return Create(resource=WORKLOADS, recipe=recipe)


def _was_sent_another(core: Workload, queueing: Queueing) -> bool:
    """Return whether the spec differs from the one that was sent to another cluster with the core.

    Admission refuses such a change once the job's status shows the dispatch, a second or two after
    Kueue sent it. The core of an earlier version has no digest.
    """
    return bool(core.sent and queueing.sent) and core.sent != queueing.sent


def _renew(core: Workload, queueing: Queueing) -> Iterator[Action]:
    """Bring a core to the job's present request; one that has reserved quota is created again."""
    if not queueing.pod_sets or queueing.side is MultiKueueRole.WORKER:
        return
    is_same = core.digest == digest_of(queueing.pod_sets) and not _was_sent_another(core, queueing)
    if not is_same and core.state is State.RESERVED:
        yield from _removal(core)
        return
    if is_same:
        yield from _do_late_actions(core, queueing)
        return
    recipe = {
        "metadata": {"annotations": annotations_of(queueing.pod_sets, queueing.sent)},
        "spec": {
            **queueing.standing.spec(is_core=True),
            "podSets": [each.body() for each in queueing.pod_sets],
        },
    }
    yield _patch(core, recipe)


def _do_late_actions(workload: Workload, queueing: Queueing) -> Iterator[Action]:
    """Write changes of the job's queue and priority; a queue only while no quota is held.

    Workloads that MultiKueue created stay as in the manager cluster.
    """
    if queueing.side is MultiKueueRole.WORKER:
        return
    standing = queueing.standing.spec(is_core=workload.is_core)
    changed: dict[str, Any] = {}
    if workload.priority != standing["priority"]:
        changed["priority"] = standing["priority"]
    if workload.state is State.QUEUED:
        if workload.queue != standing["queueName"]:
            changed["queueName"] = standing["queueName"]
        if workload.priority_class != queueing.standing.priority_class:
            changed["priorityClassRef"] = standing.get("priorityClassRef")
    if changed:
        yield _patch(workload, {"spec": changed})


def _report_ready(snapshot: Snapshot, core: Workload, now: datetime) -> Iterator[Action]:
    """Report whether all pods are ready: Kueue may evict a job whose pods take too long."""
    needed = [slot for slot in snapshot.slots if slot.is_core]
    there = {pod.name for pod in snapshot.ready} | snapshot.done
    ready = bool(needed) and all(slot.name in there for slot in needed)
    if ready and not core.pods_ready:
        yield _patch_status(core, reported_ready(core, format_time(now)))
    elif core.pods_ready and not ready:
        yield _patch_status(core, reported_unready(core, format_time(now)))


def _extras(
    snapshot: Snapshot, queueing: Queueing, portion: Portion, now: datetime
) -> Iterator[Action]:
    """Request further replicas, a few at a time, and release those that are evicted or not needed.

    Kueue evicts a Workload, and the operator chooses the replica: all replicas are alike. So an
    evicted Workload is deleted once the existing pods fit into the quota of the others.
    """
    found = queueing.extras_of(portion.task.name)
    staying = [each for each in found if not _is_to_go(each)]
    # The last ones come first, and waiting ones before those with quota.
    by_need = sorted(staying, key=lambda each: each.state is State.QUEUED)
    kept = by_need[: portion.extras]
    spare = _spare(snapshot, queueing, portion)
    for each in (each for each in found if each not in kept):
        if not each.state.holds_quota:
            yield from _removal(each)
        elif spare > 0:
            spare -= 1
            if each.state is State.EVICTED and not each.deleting:
                yield _patch_status(each, released(each, format_time(now)))
            else:
                yield from _removal(each)
    for each in kept:
        yield from _do_late_actions(each, queueing)
    yield from _report_extras(snapshot, portion, kept, now)
    waiting = sum(each.state is State.QUEUED for each in kept)
    yield from _ask_for_more(snapshot, queueing, portion, waiting=waiting)


def _spare(snapshot: Snapshot, queueing: Queueing, portion: Portion) -> int:
    """Return how many replicas beyond the core can release their quota, given the existing pods."""
    size = portion.task.pods_per_replica
    return max(0, room_left(snapshot, queueing, portion) // size)


def _report_extras(
    snapshot: Snapshot, portion: Portion, kept: Iterable[Workload], now: datetime
) -> Iterator[Action]:
    """Report pods as ready on as many Workloads as there are ready extra replicas."""
    name, size = portion.task.name, portion.task.pods_per_replica
    there = {pod.name for pod in snapshot.ready} | snapshot.done
    ready = Counter(slot.replica for slot in snapshot.slots if slot.name in there)
    up = sum(pods >= size for (task, _), pods in ready.items() if task == name) - portion.base
    admitted = [each for each in kept if each.state is State.ADMITTED]
    lacking = up - sum(each.pods_ready for each in admitted)
    silent = [each for each in admitted if not each.pods_ready]
    for each in silent[: max(0, lacking)]:
        yield _patch_status(each, reported_ready(each, format_time(now)))


def _ask_for_more(
    snapshot: Snapshot, queueing: Queueing, portion: Portion, *, waiting: int
) -> Iterator[Action]:
    task = portion.task
    found = queueing.extras_of(task.name)
    lacking = portion.extras - len(found)
    is_bound = portion.base > 0 or any(each.assigned for each in found)
    # The first Workload of a role finds the flavor that the others then use.
    most = WAITING_EXTRAS if is_bound else 1
    wanted = max(0, min(most - waiting, lacking))
    if not wanted or not task.template:
        return
    taken = {each.name for each in found}
    names = (f"{snapshot.name}-{task.name}-x{number}" for number in count())
    for name in islice((each for each in names if each not in taken), wanted):
        recipe = WorkloadRecipe(
            job=snapshot.job,
            name=name,
            task=task.name,
            standing=queueing.standing,
            pod_sets=extra_pod_sets(queueing.fitted(task)),
        )
        yield Create(resource=WORKLOADS, recipe=recipe)


def _is_to_go(workload: Workload) -> bool:
    return workload.deleting or workload.state in (State.EVICTED, State.FINISHED)


def _removal(workload: Workload) -> Iterator[Delete | Patch]:
    """Delete a Workload, then remove its finalizer: in two reconciles, so that each write is
    observed.
    """
    if not workload.deleting:
        yield delete(WORKLOADS, workload.raw)
    elif workload.holds:
        yield _unfinalize(workload)


def _unfinalize(workload: Workload) -> Patch:
    return _patch(workload, unfinalized(workload))


def _patch(workload: Workload, patch: Mapping[str, Any], subresource: str | None = None) -> Patch:
    return Patch(
        resource=WORKLOADS,
        namespace=workload.namespace,
        name=workload.name,
        uid=workload.uid,
        resource_version=workload.resource_version,
        patch=patch,
        subresource=subresource,
    )


def _patch_status(workload: Workload, patch: Mapping[str, Any]) -> Patch:
    return _patch(workload, patch, "status")


WORKLOADS_OF_QUEUE: Final = Policy(late_actions=queue_steps)
