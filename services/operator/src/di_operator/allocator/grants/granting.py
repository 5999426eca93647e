"""The steps from a policy's answers to the grants in the status of jobs. Pure.

A policy's answer is granted at once where the capacity is free. Where pods of other jobs still
hold it, these jobs give up their nodes first, and the grant follows when the pods are gone: a
kubelet refuses a pod that comes too early. For each job, with the earlier decision (`wants`), what
the job has of it by the last grant or its status (`held`), and the policy's answer, if any:

| answered | `wants` now | the missing capacity is free | the job is granted |
|---|---|---|---|
| no, and nothing was decided yet | | | no change |
| no | as before | | as below |
| yes, and it fits | the answer | | as below |
| yes, and it does not fit | `held` if that fits, else nothing | | as below |
| | nothing | | nothing, with the reason |
| | `held` | | `held` |
| | other nodes | yes | `wants` |
| | other nodes | no | what stays of `held` during the change, see `reduced` |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import takewhile
from types import MappingProxyType
from typing import Final, TypeAlias

from di_operator.allocator.admission.in_order import in_order
from di_operator.allocator.grants.checked_plan import Change, make_plan
from di_operator.allocator.grants.shortage import find_shortage
from di_operator.allocator.model.free_capacity import FreeCapacity
from di_operator.allocator.model.job import WAIT, JobInfo, NodeList
from di_operator.allocator.observe.scheduling_snapshot import SchedulingSnapshot
from di_operator.allocator.placement.current_free_capacity import PresentRoom
from di_operator.allocator.sharing.quotas import Allowance
from di_operator.allocator.sizing.batch_size import advised_batch
from di_operator.lifecycle.observed.placement import Grant
from di_operator.lifecycle.vocabulary.reasons import Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """The decision about a job: its target nodes, its current grant, and the reason shown to it."""

    wants: NodeList
    has: NodeList
    grant: Grant


Words: TypeAlias = Mapping[str, Word]
"""Decisions by the UID of the job."""

NOTHING_SAID: Final[Words] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """All decisions from now on, and the difference from the previous ones.

    All are by key. `told` has the jobs whose grant has changed. `changes` has the effect of the
    answer on jobs, and `refused` the reason why a job's part of it was rejected.
    """

    words: Words
    told: tuple[str, ...]
    changes: Mapping[str, Change]
    refused: Mapping[str, str]


def granted(words: Words) -> dict[str, NodeList]:
    """Return the nodes that jobs have been granted, by UID."""
    return {uid: word.has for uid, word in words.items()}


def targets(words: Words, snapshot: SchedulingSnapshot) -> dict[str, NodeList]:
    """Return, by key, the nodes each job has or is about to have."""
    return {
        key: words[uid].wants if uid in words else snapshot.held[key]
        for key, uid in snapshot.uids.items()
    }


def step(
    words: Words,
    snapshot: SchedulingSnapshot,
    answer: Mapping[str, NodeList],
    *,
    whole: bool,
    explain: bool,
) -> Step:
    """Process a policy's answer, and grant the decided nodes as far as their capacity is free.

    A `whole` answer is about all jobs: a job that it leaves out keeps what it holds. Any other
    answer is about the jobs that arrived since, and decisions about other jobs stand. With
    `explain` the reason of waiting jobs is computed again.

    A job that is in no snapshot any more is dropped. It is a gang that was released, or a job that
    ended or was suspended.
    """
    decided = {
        key: snapshot.held[key] if key in snapshot.cut else words[uid].wants
        for key, uid in snapshot.uids.items()
        if uid in words
    }
    changes: Mapping[str, Change] = {}
    refused: Mapping[str, str] = {}
    if answer or whole:
        previous = snapshot.held if whole else targets(words, snapshot)
        plan = make_plan(answer, snapshot.jobs, snapshot.nodes, previous)
        decided, changes, refused = dict(plan.allocations), plan.changes, plan.refused
    given = _grant(words, snapshot, decided, explain=explain)
    return Step(
        words=given,
        told=tuple(
            key
            for key, uid in snapshot.uids.items()
            if uid in given and (uid not in words or words[uid].grant != given[uid].grant)
        ),
        changes=changes,
        refused=refused,
    )


class _Empty:
    """The nodes without the jobs that the allocator decides on, and without any pod at all.

    Pods of others end at some time: only capacity that the empty nodes lack is missing
    permanently.
    """

    def __init__(self, snapshot: SchedulingSnapshot) -> None:
        nodes = snapshot.nodes
        self.of_jobs = FreeCapacity(nodes)
        self.of_pods = FreeCapacity(
            {n: replace(each, free=each.total) for n, each in nodes.items()}
        )


def _grant(
    words: Words,
    snapshot: SchedulingSnapshot,
    decided: Mapping[str, NodeList],
    *,
    explain: bool,
) -> dict[str, Word]:
    room, empty = PresentRoom(snapshot), _Empty(snapshot)
    allowance = Allowance()
    for key, nodes in decided.items():
        if snapshot.jobs[key].account is not None:
            allowance.take(snapshot.jobs[key], nodes)
    given: dict[str, Word] = {}
    for job in in_order(snapshot.jobs):
        key, uid = job.key, snapshot.uids[job.key]
        wants, held, before = decided.get(key), snapshot.held[key], words.get(uid)
        if wants is None:
            continue
        has = wants
        if wants and wants != held and not room.take(key, wants):
            has = reduced(snapshot, key, wants)
        if has or explain or before is None or before.has:
            told = before.grant.batch_size if before is not None and before.has == has else None
            grant = _say(snapshot, empty, allowance, key=key, has=has, told=told)
            given[uid] = Word(wants=wants, has=has, grant=grant)
        else:
            given[uid] = Word(wants=wants, has=has, grant=before.grant)
    return given


def _say(
    snapshot: SchedulingSnapshot,
    empty: _Empty,
    allowance: Allowance,
    *,
    key: str,
    has: NodeList,
    told: int | None,
) -> Grant:
    job = snapshot.jobs[key]
    reason: Reason | None = None
    message = ""
    if not has:
        reason, message = _why_not(job, snapshot.refused.get(key), empty, allowance)
    if not job.preemptible:
        return Grant(reason=reason, message=message)
    placement = dict(has.tasks)
    names = (node for nodes in placement.values() for node in nodes)
    # A node that a job still holds may have been deleted.
    kinds = {name: node.kind for name in names if (node := snapshot.nodes.get(name)) and node.kind}
    batch = advised_batch(job, has, snapshot.nodes, before=told)
    return Grant(placement=placement, reason=reason, message=message, kinds=kinds, batch_size=batch)


def _why_not(
    job: JobInfo, refused: str | None, empty: _Empty, allowance: Allowance
) -> tuple[Reason, str]:
    if job.account is not None and job.account.barred:
        return Reason.WAITING_FOR_NODES, job.account.barred
    if over := allowance.shortage(job):
        return Reason.QUEUE_QUOTA_EXCEEDED, over
    if refused is not None:
        # The missing capacity may be that of the nodes that are not tried now.
        return Reason.REFUSED_BY_SCHEDULER, refused
    if shortage := find_shortage(job, empty.of_pods):
        return Reason.UNSCHEDULABLE, shortage.message
    if shortage := find_shortage(job, empty.of_jobs):
        waits = "waiting for nodes that other jobs and pods have"
        return Reason.WAITING_FOR_NODES, f"{waits}: {shortage.message}"
    return Reason.WAITING_FOR_NODES, "waiting for nodes that other jobs have"


def reduced(snapshot: SchedulingSnapshot, key: str, wants: NodeList) -> NodeList:
    """Return what a job keeps of its nodes during the change to other ones.

    Learners are one group. A group of fixed size that only grows in place continues until all of
    the new size fits. For any other change of such a group the job keeps nothing. An elastic group
    keeps the members that stay; without any the job keeps nothing. What is given up is never kept
    for long: two jobs that each need the other's nodes would wait forever.
    """
    had = snapshot.held[key]
    kept: dict[str, tuple[str, ...]] = {}
    for task in snapshot.jobs[key].tasks:
        before, after = had.task(task.name), wants.task(task.name)
        # Replicas are known by their index: those before the first that moves stay.
        pairs = takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False))
        nodes = tuple(node for node, _ in pairs)
        stays = task.comes_and_goes or nodes == before
        if not stays or (task.is_one_group and not nodes):
            return WAIT
        kept[task.name] = nodes[: len(nodes) - len(nodes) % task.unit]
    return NodeList.of(kept)
