"""The process groups of a job: what the status says of them, and what their pods are told.

The status comes first. Files are made of what it says, so that a world which anybody was told of
is the same after a crash.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from di_api.group_status import GroupState, GroupStatus, has_group, pod_of
from di_api.names import group_file_key, pod_fqdn, pod_name
from di_api.spec import ProcessGroup, Task
from di_operator.lifecycle.decision import JobEvent
from di_operator.lifecycle.membership import Terms, next_step, time_left
from di_operator.lifecycle.reasons import Reason
from di_operator.lifecycle.snapshot import Snapshot
from di_operator.lifecycle.verdict import Groups, Verdict, count_of, earliest


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """What becomes of one group now."""

    task: Task
    before: GroupStatus | None
    after: GroupStatus
    left: float | None
    """Seconds until it has to be looked at."""


def tell_groups(snapshot: Snapshot, verdict: Verdict, now: datetime) -> Verdict:
    """Add to a verdict what becomes of the job's groups; a job that has ended keeps its last ones.

    Jobs without a group are left as they are.
    """
    if snapshot.spec is None or verdict.phase.is_finished:
        return verdict
    steps = list(_steps(snapshot, now))
    if not steps:
        return verdict
    return replace(
        verdict,
        groups=Groups(
            status={step.task.name: step.after.as_status() for step in steps},
            events=tuple(_formed(step) for step in steps if _has_formed(step)),
        ),
        requeue_after=earliest(verdict.requeue_after, *(step.left for step in steps)),
    )


def group_files(snapshot: Snapshot, service_domain: str) -> dict[str, str]:
    """The files that tell the pods of groups what the status says, by name."""
    found = snapshot.status.groups
    return {
        group_file_key(task.name): _file(snapshot, task.name, group, found, service_domain)
        for task, group in _groups(snapshot)
    }


def grouped_tasks(snapshot: Snapshot) -> frozenset[str]:
    """The tasks whose pods are told who belongs to them."""
    return frozenset(task.name for task, _ in _groups(snapshot))


def least_members(task: Task, replicas: int) -> int:
    """How many members of a group there have to be."""
    return task.min_replicas or max(1, replicas)


def _file(
    snapshot: Snapshot,
    task: str,
    group: ProcessGroup,
    found: Mapping[str, GroupStatus],
    service_domain: str,
) -> str:
    status = found.get(task) or GroupStatus(members={})
    world = [*status.world]
    master = pod_name(snapshot.name, task, world[0]) if world else ""
    told: dict[str, Any] = {
        "generation": status.generation,
        "state": status.state.value,
        "worldSize": len(world) * group.processes_per_replica,
        "masterAddress": master
        and pod_fqdn(master, snapshot.name, snapshot.namespace, service_domain),
        "members": world,
    }
    return f"{json.dumps(told)}\n"


def _groups(snapshot: Snapshot) -> Iterator[tuple[Task, ProcessGroup]]:
    if snapshot.spec is None:
        return
    policy = snapshot.spec.failure_policy
    for task in snapshot.spec.tasks:
        group = task.process_group
        if has_group(task.name, has_process_group=group is not None, policy=policy):
            yield task, group or ProcessGroup()


def _steps(snapshot: Snapshot, now: datetime) -> Iterator[_Step]:
    for task, group in _groups(snapshot):
        before = snapshot.status.groups.get(task.name)
        slots = [slot for slot in snapshot.slots if slot.task.name == task.name]
        done = {pod.uid for pod in snapshot.succeeded}
        if before is not None and not done.isdisjoint(map(pod_of, before.members.values())):
            # The program has come to its end in one pod, and does so in the others.
            yield _Step(task=task, before=before, after=before, left=None)
            continue
        up = {
            pod.name: pod.incarnation
            for pod in snapshot.live
            if pod.phase == "Running" and not pod.is_down
        }
        held = {pod.name for pod in snapshot.succeeded}
        wanted = sum(slot.name not in held for slot in slots)
        terms = Terms(
            wanted=wanted,
            least=least_members(task, wanted),
            last_call=group.last_call_seconds,
            deadline=group.deadline_seconds,
        )
        running = {slot.index: up[slot.name] for slot in slots if slot.name in up}
        after = next_step(before, running, terms, now)
        if after is not None:
            left = time_left(after, terms, now)
            yield _Step(task=task, before=before, after=after, left=left)


def _has_formed(step: _Step) -> bool:
    before = step.before.generation if step.before is not None else 0
    return step.after.state is GroupState.FORMED and step.after.generation > before


def _formed(step: _Step) -> JobEvent:
    members = count_of(len(step.after.members), "member")
    message = f"task {step.task.name}: generation {step.after.generation} with {members}"
    return JobEvent(reason=Reason.GROUP_FORMED, message=message)
