"""The process groups of a job: their state in the status, and the files that their pods read.

The status is written first, and the files are made from it. So a group that any pod has read of is
still the same after a crash.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from di_api.names import group_file_key, pod_fqdn
from di_api.spec import ProcessGroup, Task
from di_api.status.groups import GroupState, GroupStatus, has_group, read_member
from di_operator.lifecycle.observed.membership import Terms, next_step, time_left
from di_operator.lifecycle.observed.pods import Pod
from di_operator.lifecycle.observed.snapshot import Slot, Snapshot
from di_operator.lifecycle.observed.verdict import Groups, Verdict, count_of, earliest
from di_operator.lifecycle.policy import Policy, Report
from di_operator.lifecycle.vocabulary.conditions import Aside
from di_operator.lifecycle.vocabulary.decision import JobEvent
from di_operator.lifecycle.vocabulary.reasons import Problem, Reason

REASON_DEADLINE: Final = "DeadlinePassed"
_ENOUGH: Final = Aside(
    type=Problem.INSUFFICIENT_REPLICAS,
    value=False,
    reason="EnoughReplicas",
    message="no process group is short of members",
)
_NO_GROUPS: Final = Report(conditions=(_ENOUGH,))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """The next state of one group."""

    task: Task
    before: GroupStatus | None
    after: GroupStatus
    left: float | None
    """Seconds until it has to be reconciled."""


def tell_groups(snapshot: Snapshot, verdict: Verdict, now: datetime) -> Verdict:
    """Add the next state of the job's groups to a verdict; a finished job keeps the last one.

    Jobs without a group are left as they are.
    """
    if snapshot.spec is None or verdict.phase.is_finished:
        return verdict
    steps = list(_steps(snapshot, verdict.restarted, now))
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


def report_groups(snapshot: Snapshot, verdict: Verdict, now: datetime) -> Report:
    """Return the groups after the transition, and the condition InsufficientReplicas."""
    written = snapshot.status.raw.get("groups")
    groups = written if verdict.groups is None else verdict.groups.status
    if groups is None:
        return _NO_GROUPS
    return Report(
        conditions=(_members(snapshot),),
        fields={"groups": groups} if groups else {},
        is_urgent=groups != written,
    )


def _members(snapshot: Snapshot) -> Aside:
    short = [
        (task, group)
        for task, group in snapshot.status.groups.items()
        if group.state is GroupState.INSUFFICIENT
    ]
    if not short:
        return _ENOUGH
    task, group = short[0]
    wanted = snapshot.desired
    least = (_least_members(each, wanted[task]) for each in snapshot.tasks if each.name == task)
    message = (
        f"the process group of task {task} had {len(group.members)} of at least "
        f"{next(least, 1)} "
        "members when its time was up; it waits for more"
    )
    return Aside(
        type=Problem.INSUFFICIENT_REPLICAS, value=True, reason=REASON_DEADLINE, message=message
    )


def group_files(snapshot: Snapshot, service_domain: str) -> dict[str, str]:
    """Return the files with the state of groups for their pods, by file name."""
    found = snapshot.status.groups
    return {
        group_file_key(task.name): _file(snapshot, task, group, found, service_domain)
        for task, group in _groups(snapshot)
    }


def grouped_tasks(snapshot: Snapshot) -> frozenset[str]:
    """Return the tasks whose pods get a list of the members of their group."""
    return frozenset(task.name for task, _ in _groups(snapshot))


def _least_members(task: Task, replicas: int) -> int:
    """Return the minimum number of members of a group."""
    return task.min_replicas or max(1, replicas)


def _file(
    snapshot: Snapshot,
    task: Task,
    group: ProcessGroup,
    found: Mapping[str, GroupStatus],
    service_domain: str,
) -> str:
    status = found.get(task.name) or GroupStatus(members={})
    world = [*status.world]
    # A group may have thousands; without standby pods only the first address is needed.
    asked = world if task.standby else world[:1]
    pods = (snapshot.serving(task.name, index) for index in asked)
    addresses = [pod_fqdn(pod, snapshot.name, snapshot.namespace, service_domain) for pod in pods]
    told: dict[str, Any] = {
        "generation": status.generation,
        "state": status.state.value,
        "worldSize": len(world) * group.processes_per_replica,
        "masterAddress": addresses[0] if world else "",
        "members": world,
    }
    if task.standby:
        # With standby pods, the name of a pod does not show its place.
        told["addresses"] = addresses
    return f"{json.dumps(told)}\n"


def _groups(snapshot: Snapshot) -> Iterator[tuple[Task, ProcessGroup]]:
    if snapshot.spec is None:
        return
    policy = snapshot.spec.failure_policy
    for task in snapshot.spec.tasks:
        group = task.process_group
        if has_group(
            task.name,
            has_process_group=group is not None,
            pods_per_replica=task.pods_per_replica,
            policy=policy,
        ):
            yield task, group or ProcessGroup()


def _steps(snapshot: Snapshot, restarted: Set[str], now: datetime) -> Iterator[_Step]:
    """Yield the next state of each group; all pods of the tasks in `restarted` are about to be
    replaced.
    """
    for task, group in _groups(snapshot):
        before = snapshot.status.groups.get(task.name)
        slots = [slot for slot in snapshot.slots if slot.task.name == task.name]
        done = snapshot.completed_indexes.get(task.name, frozenset())
        members = before.members if before is not None else {}
        ended = not done.isdisjoint(members)
        if before is not None and ended and task.name not in restarted:
            # The program has finished in one pod, and the others finish too.
            yield _Step(task=task, before=before, after=before, left=None)
            continue
        wanted = sum(slot.index not in done for slot in slots)
        terms = Terms(
            wanted=wanted,
            least=_least_members(task, wanted),
            last_call=group.last_call_seconds,
            deadline=group.deadline_seconds,
        )
        running = {} if task.name in restarted else _running(snapshot, slots, members)
        after = next_step(before, running, terms, now)
        if after is not None:
            left = time_left(after, terms, now)
            yield _Step(task=task, before=before, after=after, left=left)


def _running(
    snapshot: Snapshot, slots: Iterable[Slot], members: Mapping[int, str]
) -> dict[int, str]:
    """Return the running processes by local index: the pod and its number of failures."""
    live, counted = {pod.name: pod for pod in snapshot.live}, snapshot.status.counted
    found: dict[int, str] = {}
    for slot in slots:
        pod, member = live.get(slot.name), members.get(slot.index)
        if pod is None:
            continue
        # A lagging watch may show a member before it joined, or its predecessor: no new group is
        # formed for that.
        if member is not None and (pod.uid in counted or _is_past(pod, member)):
            found[slot.index] = member
        elif pod.phase == "Running" and not pod.is_down:
            found[slot.index] = pod.incarnation
    return found


def _is_past(pod: Pod, member: str) -> bool:
    """Return whether a pod is a member, or is shown in its state before it became one."""
    uid, failures = read_member(member)
    return pod.uid == uid and pod.failures <= failures and pod.phase in ("Pending", "Running")


def _has_formed(step: _Step) -> bool:
    before = step.before.generation if step.before is not None else 0
    return step.after.state is GroupState.FORMED and step.after.generation > before


def _formed(step: _Step) -> JobEvent:
    members = count_of(len(step.after.members), "member")
    message = f"task {step.task.name}: generation {step.after.generation} with {members}"
    return JobEvent(reason=Reason.GROUP_FORMED, message=message)


PROCESS_GROUPS: Final = Policy(amend=tell_groups, report=report_groups)
