"""Counts failed pods that are observed together, and checks the limits.

A reconcile counts at most one failure for the job, or for a task with a limit of its own. It
counts at most one for each replica, however many of its pods failed. In a task that restarts as a
whole, only the replica that failed first is counted. The other members of its process group fail
as a consequence, and it is chance whether they do so in the same reconcile.

The same holds for groups whose processes restart in place. No pod is replaced there, and each
other member may fail once without being counted until the next generation of the group is formed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from di_api.spec import FailureAction, FailureRule, Task
from di_api.status.groups import GroupState, GroupStatus
from di_operator.lifecycle.failure.memory_growth import Growth, growths
from di_operator.lifecycle.observed.ledger import (
    AVOIDED_FOR,
    MAX_AVOIDED,
    MAX_AVOIDED_OF_JOB,
    Avoided,
    Ledger,
    ReplicaRecord,
)
from di_operator.lifecycle.observed.pods import (
    Pod,
    ended_at,
    failure_text,
    first_failed,
    last_words,
    seconds_run,
)
from di_operator.lifecycle.observed.snapshot import Slot, Snapshot
from di_operator.lifecycle.observed.verdict import count_of, restarts_used
from di_operator.lifecycle.vocabulary.decision import JobEvent
from di_operator.lifecycle.vocabulary.failure_rules import matching_rule
from di_operator.lifecycle.vocabulary.reasons import Reason
from di_operator.lifecycle.vocabulary.rules import Part
from di_operator.lifecycle.vocabulary.timestamps import parse_time

PodSpec = Callable[[str], Mapping[str, Any]]
"""A function from a pod's name to its spec in the job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The reason why the job has failed."""

    reason: Reason | None
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """The result of counting the failed pods of one reconcile."""

    ledger: Ledger
    restarted: frozenset[str]
    """Tasks that restart as a whole."""
    weighing: tuple[Pod, ...]
    """Failures that count; empty if the pods only failed together with one that was counted."""
    events: tuple[JobEvent, ...]
    end: End | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A failed pod with its slot and the rule that matches it."""

    pod: Pod
    slot: Slot
    rule: FailureRule | None
    record: ReplicaRecord
    group: GroupStatus
    """The process group of its task, if members may fail together."""

    @property
    def is_in_place(self) -> bool:
        """Return whether the failed container is restarted in the pod."""
        return self.action is FailureAction.RESTART_IN_PLACE

    @property
    def failures(self) -> int:
        """Return the number of failures since the last status: a restarted container can fail
        repeatedly.
        """
        if not self.is_in_place:
            return 1
        return self.pod.failures - self.record.failures_of(self.pod.uid)

    @property
    def is_first_of_world(self) -> bool:
        """Return whether this is its first failure in place since the group was last formed."""
        latest = self.group.generation
        return self.is_in_place and latest > 0 and self.record.generation != latest

    @property
    def fell_with_world(self) -> bool:
        """Return whether its first failure since the last generation fell between two generations.

        Its kubelet may report that only after the next generation was formed.
        """
        if not self.is_first_of_world or self.group.state is not GroupState.FORMED:
            return self.is_first_of_world
        ended, formed = ended_at(self.pod), parse_time(self.group.since)
        return ended is not None and formed is not None and ended < formed

    @property
    def action(self) -> FailureAction:
        """Return the action of the matching rule."""
        return self.rule.action if self.rule is not None else FailureAction.RESTART

    @property
    def counts_for_job(self) -> bool:
        """Return whether it counts for the job's own limit."""
        return self.slot.task.backoff_limit is None and self.slot.part is not Part.REPLICA

    @property
    def key(self) -> tuple[str, str]:
        """Return its key in the ledger: task and replica."""
        return self.slot.task.name, self.slot.key


@dataclass(slots=True)
class _Changes:
    records: dict[tuple[str, str], ReplicaRecord] = field(default_factory=dict)
    events: list[JobEvent] = field(default_factory=list)
    ends: list[End] = field(default_factory=list)


def count_failures(
    snapshot: Snapshot,
    pods: Sequence[Pod],
    *,
    pod_spec: PodSpec,
    now: datetime,
    is_rest: bool,
) -> Count:
    """Count the pods that failed since the last status.

    With `is_rest` they are further pods of an incident that is already counted for the job: only
    their replicas count. Failures of replicas that a coordinator requested do not count for the
    job.
    """
    failed = _failed(snapshot, pods)
    restarted = _restarted(snapshot, failed)
    weighing = _weighing(failed, restarted)
    changes = _Changes()
    if (rule_end := _ended_by_rule(snapshot, failed)) is not None:
        changes.ends.append(rule_end)
    keeps = snapshot.spec is not None and (
        snapshot.spec.failure_policy is not None
        or any(each.slot.task.backoff_limit is not None for each in failed)
    )
    if keeps:
        for each in failed:
            _grow(snapshot, each, pod_spec, changes)
        for each in _counted(weighing, restarted):
            _count_replica(snapshot, each, now, changes)
        _note_in_place(snapshot, failed, changes)
        _avoid(snapshot, failed, now, changes)
    ledger = snapshot.status.ledger.with_records(changes.records)
    if not is_rest:
        ledger = _count_look(snapshot, weighing, ledger, changes, keeps=keeps)
    return Count(
        ledger=ledger,
        restarted=restarted,
        weighing=tuple(each.pod for each in weighing),
        events=tuple(changes.events),
        end=changes.ends[0] if changes.ends else None,
    )


def story_of(first: Pod) -> str:
    """Return a message with the pod that failed first, its failure, and its log tail."""
    words = last_words(first)
    told = f"pod {first.name} failed first: {failure_text(first)}"
    return f"{told}; its last lines: {words}" if words else told


def ran_long(snapshot: Snapshot, pod: Pod) -> bool:
    """Return whether a pod ran long enough to reset the count of its replica."""
    policy = snapshot.spec.failure_policy if snapshot.spec is not None else None
    enough = policy.reset_after_seconds if policy is not None else None
    ran = seconds_run(pod)
    return enough is not None and ran is not None and ran >= enough


def _failed(snapshot: Snapshot, pods: Sequence[Pod]) -> list[Failed]:
    policy = snapshot.spec.failure_policy if snapshot.spec is not None else None
    wanted, groups = {pod.name: pod for pod in pods}, snapshot.status.groups
    return [
        Failed(
            pod=pod,
            slot=slot,
            rule=matching_rule(policy, slot.task.name, pod.signs),
            record=snapshot.status.ledger.record(slot.task.name, slot.key),
            group=groups.get(slot.task.name) or GroupStatus(members={}),
        )
        for slot in snapshot.slots
        if (pod := wanted.get(slot.name)) is not None
    ]


def _first(failed: Sequence[Failed]) -> Failed:
    first = first_failed([each.pod for each in failed])
    return next(each for each in failed if each.pod is first)


def _restarted(snapshot: Snapshot, failed: Sequence[Failed]) -> frozenset[str]:
    if any(each.action is FailureAction.RESTART_JOB for each in failed):
        return frozenset(task.name for task in snapshot.tasks)
    replaced = [each.pod.name for each in failed if not each.is_in_place]
    return snapshot.fixed_groups(replaced) | {
        each.slot.task.name for each in failed if each.action is FailureAction.RESTART_TASK
    }


def _weighing(failed: Sequence[Failed], restarted: frozenset[str]) -> list[Failed]:
    """Return the failures that count, without those that only followed another one in
    their group.
    """
    anew = [each for each in failed if each.slot.task.name in restarted]
    others = [each for each in failed if each.slot.task.name not in restarted]
    weighing = [each for each in others if not each.is_first_of_world]
    ending = [each for each in others if each.is_first_of_world and not each.fell_with_world]
    firsts = [
        _first([each for each in ending if each.slot.task.name == task])
        for task in sorted({each.slot.task.name for each in ending})
    ]
    return [*anew, *weighing, *firsts]


def _counted(failed: Sequence[Failed], restarted: frozenset[str]) -> list[Failed]:
    """Return the failures that count for their replicas."""
    groups: dict[tuple[str, str], list[Failed]] = {}
    for each in failed:
        task, replica = each.key
        groups.setdefault((task, "" if task in restarted else replica), []).append(each)
    return [_first(group) for group in groups.values()]


def _ended_by_rule(snapshot: Snapshot, failed: Sequence[Failed]) -> End | None:
    ending = [each for each in failed if each.action is FailureAction.FAIL_JOB]
    if not ending or snapshot.spec is None or snapshot.spec.failure_policy is None:
        return None
    first = _first(ending)
    number = next(
        index for index, rule in enumerate(snapshot.spec.failure_policy.rules) if rule is first.rule
    )
    message = f"failurePolicy.rules[{number}] ends the job; {story_of(first.pod)}"
    return End(reason=Reason.POD_FAILURE_POLICY, message=message)


def _present(snapshot: Snapshot, key: tuple[str, str], changes: _Changes) -> ReplicaRecord:
    return changes.records.get(key) or snapshot.status.ledger.record(*key)


def _grow(snapshot: Snapshot, each: Failed, pod_spec: PodSpec, changes: _Changes) -> None:
    if each.rule is None or each.rule.grow_memory is None:
        return
    record = _present(snapshot, each.key, changes)
    memory = dict(record.memory)
    policy, largest = each.rule.grow_memory, snapshot.largest_node_memory
    for growth in growths(each.pod, pod_spec(each.pod.name), memory, policy, largest):
        if growth.new is None:
            changes.ends.append(_out_of_memory(each.pod, growth))
        else:
            memory[growth.container] = growth.new
            what = f"container {growth.container} of {each.pod.name}"
            message = f"{what}: {growth.old} -> {growth.new}"
            changes.events.append(JobEvent(reason=Reason.MEMORY_GROWN, message=message))
    if memory != record.memory:
        changes.records[each.key] = replace(record, memory=memory)


def _out_of_memory(pod: Pod, growth: Growth) -> End:
    why = "the most that growMemory allows"
    if growth.largest_node is not None:
        why = f"and the largest node has {growth.largest_node}, less than what comes next"
    message = (
        f"container {growth.container} was OOM-killed with {growth.old} of memory, {why}; "
        f"{story_of(pod)}"
    )
    return End(reason=Reason.OOM_LIMIT, message=message)


def _count_replica(snapshot: Snapshot, each: Failed, now: datetime, changes: _Changes) -> None:
    policy = snapshot.spec.failure_policy if snapshot.spec is not None else None
    limit = policy.replica_backoff_limit if policy is not None else None
    record = _present(snapshot, each.key, changes)
    used = 0 if ran_long(snapshot, each.pod) else record.restarts
    if limit is not None and used + each.failures > limit:
        message = (
            f"replica {each.slot.replica_name} has used its {used} restarts "
            f"(replicaBackoffLimit {limit}); {story_of(each.pod)}"
        )
        changes.ends.append(End(reason=Reason.REPLICA_BACKOFF_LIMIT, message=message))
    changes.records[each.key] = replace(record, restarts=used + each.failures, last_failure=now)


def _note_in_place(snapshot: Snapshot, failed: Sequence[Failed], changes: _Changes) -> None:
    """Record the known failures of pods that still run, so that each is handled once."""
    for each in failed:
        if each.is_in_place:
            changes.records[each.key] = replace(
                _present(snapshot, each.key, changes),
                pod=each.pod.uid,
                failures=each.pod.failures,
                generation=each.group.generation,
            )


def _avoid(snapshot: Snapshot, failed: Sequence[Failed], now: datetime, changes: _Changes) -> None:
    avoiding = [
        each for each in failed if each.rule is not None and each.rule.avoid_node and each.pod.node
    ]
    room = MAX_AVOIDED_OF_JOB - _still_avoided(snapshot, now, changes) if avoiding else 0
    for each in avoiding[: max(0, room)]:
        record = _present(snapshot, each.key, changes)
        kept = [old for old in record.avoid if now < old.until and old.node != each.pod.node]
        avoid = (*kept, Avoided(node=each.pod.node, until=now + AVOIDED_FOR))[-MAX_AVOIDED:]
        changes.records[each.key] = replace(record, avoid=avoid)


def _still_avoided(snapshot: Snapshot, now: datetime, changes: _Changes) -> int:
    """Return how many nodes all replicas avoid, after removal of the expired entries."""
    total = 0
    for key, avoid in snapshot.status.ledger.avoiding():
        kept = tuple(each for each in avoid if now < each.until)
        if kept != avoid:
            changes.records[key] = replace(_present(snapshot, key, changes), avoid=kept)
        total += len(kept)
    return total


def _count_look(
    snapshot: Snapshot,
    failed: Sequence[Failed],
    ledger: Ledger,
    changes: _Changes,
    *,
    keeps: bool,
) -> Ledger:
    job_limit = snapshot.spec.backoff_limit if snapshot.spec is not None else 0
    tasks = {each.slot.task.name: each.slot.task for each in failed}
    restarts = dict(ledger.task_restarts)
    for name, task in tasks.items():
        if task.backoff_limit is not None:
            of_task = [each for each in failed if each.slot.task.name == name]
            restarts[name] = 1 + _used_by_task(snapshot, task, of_task, changes)
    others = [each for each in failed if each.counts_for_job]
    used = snapshot.status.job_restarts
    if others and used >= job_limit:
        told = f"{count_of(len(others), 'pod')} failed, {restarts_used(used, job_limit)}"
        message = f"{told}; {story_of(_first(others).pod)}"
        changes.ends.append(End(reason=None, message=message))
    if others:
        ledger = ledger.with_restart_of_job()
    elif failed and keeps and ledger.job_restarts is None:
        # From now on they are fewer than all restarts, and need a field of their own.
        ledger = replace(ledger, job_restarts=used)
    return replace(ledger, task_restarts=restarts)


def _used_by_task(
    snapshot: Snapshot, task: Task, failed: Sequence[Failed], changes: _Changes
) -> int:
    """Return the restarts that a task with its own limit has used before this one."""
    afresh = all(ran_long(snapshot, each.pod) for each in failed)
    used = 0 if afresh else snapshot.status.ledger.task_restarts.get(task.name, 0)
    if task.backoff_limit is not None and used >= task.backoff_limit:
        message = (
            f"task {task.name} has used its {used} restarts (backoffLimit "
            f"{task.backoff_limit:.0f}); {story_of(_first(failed).pod)}"
        )
        changes.ends.append(End(reason=Reason.TASK_BACKOFF_LIMIT, message=message))
    return used
