"""Records of the differences between two observed states of a job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from di_api.field_error import items, mapping
from di_api.phase import Phase
from di_api.profilings import numbers_of
from di_api.spec.coordinated import Role
from di_history.changes.snapshot import changer, creator, manifest_of, snapshot_of
from di_history.changes.times import millis
from di_history.packing import to_json
from di_history.records import (
    Entry,
    EntryKind,
    JobGone,
    JobSeen,
    Millis,
    Record,
    Revision,
    Sample,
)

Object = Mapping[str, Any]
_PHASES: Final = frozenset(phase.value for phase in Phase)
_NOTHING: Final[Object] = {}
_LATE: Final = 120_000


def job_changes(before: Object | None, after: Object, seen: Millis) -> list[Record]:
    """Return the records of what happened to a job between two observed states.

    Args:
        before: the job, or its snapshot, as last observed; None: the job is new here.
        after: the present job.
        seen: the present time, for changes without a time of their own.
    """
    old = before or _NOTHING
    uid, version = uid_of(after), version_of(after)
    if before is not None and version <= version_of(before):
        return []
    status, was = mapping(after.get("status")), mapping(old.get("status"))
    return [
        _job(after, seen),
        *_revision(old, after, seen),
        *_scalings(old, after, seen),
        *_phase(uid, was, status, version, seen),
        *_conditions(uid, was, status, version, seen),
        *_failures(uid, was, status, version, seen),
        *_restarts(uid, was, status, version, seen),
        *_allocation(uid, was, status, version, seen),
        *_sample(uid, was, status),
    ]


def job_gone(last: Object, at: Millis, *, not_before: Millis | None = None) -> list[Record]:
    """Return the records of a deletion at a time between `not_before` and `at`.

    Args:
        last: the job, or its snapshot, as last observed.
    """
    uid = uid_of(last)
    data: dict[str, Any] = {} if not_before is None else {"after": not_before}
    if _is_expired(last, at):
        data["expired"] = True
    return [
        JobGone(uid=uid, at=at),
        Entry(
            job=uid,
            key="deleted",
            kind=EntryKind.DELETED,
            at=at,
            version=version_of(last) + 1,
            data=data,
        ),
    ]


def _is_expired(job: Object, at: Millis) -> bool:
    """Return whether the operator deletes the job by then, for its ttlSecondsAfterFinished."""
    ttl = mapping(job.get("spec")).get("ttlSecondsAfterFinished")
    completed = millis(mapping(job.get("status")).get("completionTimestamp"))
    if completed is None or not isinstance(ttl, int) or isinstance(ttl, bool):
        return False
    return at >= completed + ttl * 1000


def gap(before: Object, after: Object, since: Millis, until: Millis) -> list[Record]:
    """Return a gap record if a job changed while it was not observed; empty if it did not."""
    if version_of(after) <= version_of(before):
        return []
    names = sorted(
        f"{part}.{key}"
        for part in ("spec", "status")
        for key in {*mapping(before.get(part)), *mapping(snapshot_of(after)[part])}
        if mapping(before.get(part)).get(key) != mapping(after.get(part)).get(key)
    )
    return [
        Entry(
            job=uid_of(after),
            key=f"gap/{version_of(before)}",
            kind=EntryKind.GAP,
            at=until,
            version=version_of(before),
            data={"from": since, "changed": names},
        )
    ]


def first_sight_gap(job: Object, seen: Millis) -> list[Record]:
    """Return a gap record if a job existed for longer than its first observation should take; else
    empty.
    """
    created = millis(mapping(job.get("metadata")).get("creationTimestamp"))
    if created is None or seen - created < _LATE:
        return []
    data = {"from": created, "changed": []}
    return [Entry(job=uid_of(job), key="gap/0", kind=EntryKind.GAP, at=seen, data=data)]


def uid_of(job: Object) -> str:
    """Return the UID of a job."""
    return str(mapping(job.get("metadata")).get("uid") or "")


def version_of(obj: Object) -> int:
    """Return the resourceVersion as a number; 0 if it is invalid."""
    text = str(mapping(obj.get("metadata")).get("resourceVersion") or "")
    return int(text) if text.isascii() and text.isdecimal() else 0


def _job(job: Object, seen: Millis) -> JobSeen:
    metadata, status = mapping(job.get("metadata")), mapping(job.get("status"))
    return JobSeen(
        uid=uid_of(job),
        namespace=str(metadata.get("namespace") or ""),
        name=str(metadata.get("name") or ""),
        owner=creator(job),
        created=millis(metadata.get("creationTimestamp")) or seen,
        phase=str(status.get("phase") or ""),
        completed=millis(status.get("completionTimestamp")),
        seen=seen,
        version=version_of(job),
        snapshot=to_json(snapshot_of(job)),
    )


def _revision(before: Object, after: Object, seen: Millis) -> Iterator[Record]:
    metadata = mapping(after.get("metadata"))
    number = _number(metadata.get("generation"))
    if number == _number(mapping(before.get("metadata")).get("generation")) and before:
        return
    if before.get("spec") == after.get("spec") and "deletionTimestamp" in metadata:
        # A deletion increments the generation too, and is no change of the spec.
        return
    who, at = changer(after, before)
    yield Revision(
        job=uid_of(after),
        number=number,
        at=at or seen,
        who=who,
        manifest=to_json(manifest_of(after)),
    )


def _scalings(before: Object, after: Object, seen: Millis) -> Iterator[Record]:
    old, new = _replicas(before), _replicas(after)
    who, at = changer(after, before)
    number = _number(mapping(after.get("metadata")).get("generation"))
    for task in old.keys() & new.keys():
        if old[task] != new[task]:
            yield Entry(
                job=uid_of(after),
                key=f"scaling/{number}/{task}",
                kind=EntryKind.SCALING,
                at=at or seen,
                version=version_of(after),
                data={"task": task, "before": old[task], "after": new[task], "who": who},
            )


def _replicas(job: Object) -> dict[str, int]:
    spec = mapping(job.get("spec"))
    tasks = [mapping(each) for each in items(spec.get("tasks"))]
    found = {
        str(task.get("name") or task.get("type") or ""): _number(task.get("replicas", 1))
        for task in tasks
    }
    # The replicas of a coordinator are listed one by one.
    if "coordinated" in spec:
        found |= {role.value: 0 for role in Role}
        for each in map(mapping, items(mapping(spec.get("coordinated")).get("replicas"))):
            role = str(each.get("role") or "")
            found[role] = found.get(role, 0) + 1
    return found


def _phase(uid: str, before: Object, after: Object, version: int, seen: Millis) -> Iterator[Record]:
    phase = str(after.get("phase") or "")
    if not phase or phase == before.get("phase"):
        return
    condition = _by_type(after).get(phase, _NOTHING)
    at = millis(condition.get("lastTransitionTime"))
    yield Entry(
        job=uid,
        # Its second says nothing: a job enters the same phase twice within one.
        key=f"phase/{version}",
        kind=EntryKind.PHASE,
        at=at or seen,
        version=version,
        data={
            "phase": phase,
            "before": str(before.get("phase") or ""),
            "reason": str(condition.get("reason") or ""),
            "message": str(condition.get("message") or ""),
        },
    )


def _conditions(
    uid: str, before: Object, after: Object, version: int, seen: Millis
) -> Iterator[Record]:
    old = _by_type(before)
    for kind, condition in _by_type(after).items():
        status = str(condition.get("status") or "")
        was = str(old.get(kind, _NOTHING).get("status") or "False")
        if kind in _PHASES or status == was:
            continue
        at = millis(condition.get("lastTransitionTime"))
        yield Entry(
            job=uid,
            key=f"condition/{kind}/{version}",
            kind=EntryKind.CONDITION,
            at=at or seen,
            version=version,
            data={
                "type": kind,
                "status": status,
                "reason": str(condition.get("reason") or ""),
                "message": str(condition.get("message") or ""),
            },
        )


def _failures(
    uid: str, before: Object, after: Object, version: int, seen: Millis
) -> Iterator[Record]:
    known = {each.get("uid") for each in map(mapping, items(before.get("failures")))}
    for failure in map(mapping, items(after.get("failures"))):
        pod_uid = failure.get("uid")
        if not isinstance(pod_uid, str) or pod_uid in known:
            continue
        yield Entry(
            job=uid,
            key=f"failure/{pod_uid}",
            kind=EntryKind.FAILURE,
            at=millis(failure.get("time")) or seen,
            version=version,
            data={
                "pod": str(failure.get("pod") or ""),
                "uid": pod_uid,
                "exitCode": failure.get("exitCode"),
                "reason": str(failure.get("reason") or ""),
            },
        )


def _restarts(
    uid: str, before: Object, after: Object, version: int, seen: Millis
) -> Iterator[Record]:
    old, new = _number(before.get("restarts")), _number(after.get("restarts"))
    if new <= old:
        return
    condition = _by_type(after).get(Phase.RESTARTING.value, _NOTHING)
    yield Entry(
        job=uid,
        key=f"restart/{new}",
        kind=EntryKind.RESTART,
        at=millis(condition.get("lastTransitionTime")) or seen,
        version=version,
        data={
            "restarts": new,
            "before": old,
            "reason": str(condition.get("reason") or ""),
            "message": str(condition.get("message") or ""),
        },
    )


def _allocation(
    uid: str, before: Object, after: Object, version: int, seen: Millis
) -> Iterator[Record]:
    old, new = _nodes(before.get("placement")), _nodes(after.get("placement"))
    if old == new:
        return
    yield Entry(
        job=uid,
        key=f"allocation/{version}",
        kind=EntryKind.ALLOCATION,
        at=millis(after.get("placementTime")) or seen,
        version=version,
        data={"before": old, "after": new},
    )


def _nodes(placement: object) -> dict[str, Any]:
    """Return the number of replicas per node, by task: its size does not grow with the replicas."""
    counts = {
        str(task): dict(Counter(filter(None, map(str, items(nodes)))))
        for task, nodes in mapping(placement).items()
    }
    return {task: nodes for task, nodes in counts.items() if nodes}


def _sample(uid: str, before: Object, after: Object) -> Iterator[Sample]:
    """Yield the numbers of a new report, with its time."""
    reported = mapping(after.get("progress")).get("reportedAt")
    if reported is None or reported == mapping(before.get("progress")).get("reportedAt"):
        return
    at, numbers = millis(reported), numbers_of(after)
    if at is not None and numbers:
        yield Sample(job=uid, at=at, values=numbers)


def _by_type(status: Object) -> dict[str, Object]:
    found = map(mapping, items(status.get("conditions")))
    return {str(each["type"]): each for each in found if each.get("type")}


def _number(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
