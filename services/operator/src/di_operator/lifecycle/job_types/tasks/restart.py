"""Failed pods: counted once, then replaced, until a limit is exceeded or a rule ends the job.

Counting and replacing are two reconciles. The first one only writes the status, with the UIDs of
the failed pods; the second one reads these UIDs and deletes the pods. A crash between the two
loses nothing and counts nothing twice. A pod whose container the kubelet restarts is only counted;
the status also has its known failures.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from datetime import datetime
from math import isinf

from di_api.phase import Phase
from di_operator.lifecycle.failure.backoff_limit import Count, PodSpec, count_failures, story_of
from di_operator.lifecycle.failure.losses import countable, is_counting
from di_operator.lifecycle.failure.restart_delay import pause_of
from di_operator.lifecycle.observed.pods import Pod, first_failed
from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.observed.verdict import Verdict, count_of, replaced


def judge_failures(
    snapshot: Snapshot, now: datetime, pod_spec: PodSpec, *, following: Container[str] = ()
) -> Verdict | None:
    """Count pods that failed since the last status: one restart for all of them together.

    Pods whose UIDs are in `following` are left out: they failed because a member of their group
    was lost.
    """
    ended = countable(snapshot, (pod for pod in snapshot.failed if pod.uid not in following))
    failed = (*ended, *snapshot.renewed)
    if not failed or snapshot.spec is None:
        return None
    is_rest = is_counting(snapshot)
    found = count_failures(
        snapshot,
        failed,
        pod_spec=pod_spec,
        now=now,
        is_rest=is_rest,
    )
    if found.end is not None:
        return Verdict(
            phase=Phase.FAILED,
            reason=found.end.reason,
            message=found.end.message,
            counted=tuple(ended),
        )
    if not found.weighing:
        return Verdict(phase=snapshot.status.phase or Phase.PENDING, ledger=found.ledger)
    return Verdict(
        phase=Phase.RESTARTING,
        message="; ".join(_told(snapshot, ended, found, is_rest=is_rest)),
        restarts=0 if is_rest else 1,
        counted=tuple(ended),
        events=found.events,
        force_write=bool(found.events),
        restarted=found.restarted,
        regrouped=snapshot.groups_of(pod.name for pod in failed),
        ledger=found.ledger,
    )


def _told(
    snapshot: Snapshot, ended: Sequence[Pod], found: Count, *, is_rest: bool
) -> Iterator[str]:
    if is_rest:
        yield f"{count_of(len(snapshot.failed), 'failed pod')} left to replace"
    else:
        failed = found.weighing
        yield f"{count_of(len(failed), 'pod')} failed, {_number(snapshot, failed, found)}"
        yield story_of(first_failed(failed))
    if snapshot.renewed and not found.restarted:
        yield f"{count_of(len(snapshot.renewed), 'pod')} restarted in place"
    if found.restarted:
        yield replaced(found.restarted)
    names = {pod.name for pod in ended}
    for slot in snapshot.slots:
        if slot.name in names and slot.task.backoff_limit is not None:
            pause = pause_of(found.ledger.record(slot.task.name, slot.key))
            if pause > 0:
                yield f"{slot.replica_name} is created again after {pause:.0f} s"
                return


def _number(snapshot: Snapshot, failed: Sequence[Pod], found: Count) -> str:
    """Return the number of this restart, by the limit that it counts for."""
    assert snapshot.spec is not None, "nothing is counted without it"
    names = {pod.name for pod in failed}
    tasks = {slot.task.name: slot.task for slot in snapshot.slots if slot.name in names}
    limits = {name: task.backoff_limit for name, task in tasks.items()}
    if None in limits.values():
        number = snapshot.status.job_restarts + 1
        return f"restart {number} of {snapshot.spec.backoff_limit}"
    name, limit = next((name, limit) for name, limit in limits.items() if limit is not None)
    number = found.ledger.task_restarts[name]
    bound = "" if isinf(limit) else f" of {limit:.0f}"
    return f"restart {number}{bound} of task {name}"
