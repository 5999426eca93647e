"""Objects of a job that somebody took the operator's marks from: they are put back.

Labels are how watches, Services and di-server find an object, the controller reference says whose
it is, and all of them can be edited by hand. An object the job controls gets its labels back. One
that nobody controls, with the labels of this job, is adopted as controllers of Kubernetes do, if
the job can have made it: it has been started, and is not younger than the object. Whatever is
left over from an earlier job of the same name, or another controls, is never touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from di_api.names import (
    ANNOTATION_RANK,
    LABEL_JOB,
    LABEL_OPERATOR,
    LABEL_POD_NAME,
    LABEL_TASK_NAME,
    OPERATOR_NAME,
)
from di_api.ownership import has_controller
from di_operator.builders.metadata import job_labels, owner_reference
from di_operator.lifecycle.actions import Reclaim
from di_operator.lifecycle.decision import JobEvent
from di_operator.lifecycle.deletion import is_terminating
from di_operator.lifecycle.snapshot import Slot, Snapshot
from di_operator.lifecycle.timestamps import parse_time
from di_operator.lifecycle.verdict import count_of

Object = Mapping[str, Any]


def reclaim(snapshot: Snapshot, kind: str, found: Object, slot: Slot | None) -> Reclaim | None:
    """What puts the marks of an object back; None if it has them, or is not to be had.

    ``found`` is the whole object as the API server returned it, ``slot`` what a pod is for.
    """
    if is_terminating(found):
        return None
    if snapshot.is_own(found):
        return _restored(snapshot, kind, found, slot)
    if not _is_orphan(snapshot, found):
        return None
    owners = found["metadata"].get("ownerReferences") or ()
    others = [owner for owner in owners if owner.get("uid") != snapshot.uid]
    labels, annotations = _marks(snapshot, slot)
    return _action(
        kind,
        found,
        labels=labels,
        annotations=annotations,
        owners=(*others, owner_reference(snapshot.job)),
    )


def reclaim_seen(snapshot: Snapshot) -> tuple[Reclaim, ...]:
    """What puts back the marks of the pods that fill a slot."""
    return tuple(
        action
        for slot in snapshot.slots
        if (pod := snapshot.held.get(slot.name)) is not None and not pod.terminating
        if (action := _restored(snapshot, "Pod", pod.raw, slot)) is not None
    )


def restored_events(actions: Sequence[Reclaim]) -> tuple[JobEvent, ...]:
    """Tell what was put back; one event, whose count grows."""
    if not actions:
        return ()
    first = actions[0]
    marks = sorted({*first.labels, *first.annotations})
    what = "the owner reference" if first.owners else ", ".join(marks)
    message = f"{first.kind} {first.name} was edited by hand, {what} put back"
    if len(actions) > 1:
        message = f"{message} (and {count_of(len(actions) - 1, 'more object')})"
    return (JobEvent(type="Warning", reason="MetadataRestored", message=message),)


def _restored(snapshot: Snapshot, kind: str, found: Object, slot: Slot | None) -> Reclaim | None:
    labels, annotations = _marks(snapshot, slot)
    metadata = found["metadata"]
    lost = _difference(labels, metadata.get("labels") or {})
    changed = _difference(annotations, metadata.get("annotations") or {})
    if not lost and not changed:
        return None
    return _action(kind, found, labels=lost, annotations=changed)


def _is_orphan(snapshot: Snapshot, found: Object) -> bool:
    metadata = found["metadata"]
    labels = metadata.get("labels") or {}
    born = parse_time(metadata.get("creationTimestamp"))
    since = parse_time(snapshot.job["metadata"].get("creationTimestamp"))
    return (
        snapshot.status.has_started
        and not has_controller(found)
        and labels.get(LABEL_OPERATOR) == OPERATOR_NAME
        and labels.get(LABEL_JOB) == snapshot.name
        and born is not None
        and since is not None
        and born >= since
    )


def _marks(snapshot: Snapshot, slot: Slot | None) -> tuple[dict[str, str], dict[str, str]]:
    """The labels and annotations that decisions and other services rest on."""
    labels, annotations = job_labels(snapshot.job), dict[str, str]()
    if slot is None:
        return labels, annotations
    labels[LABEL_TASK_NAME] = slot.task.name
    if slot.replica is not None:
        labels[LABEL_POD_NAME] = slot.name
    pod = snapshot.held.get(slot.name)
    if pod is not None and pod.rank is not None:
        annotations[ANNOTATION_RANK] = str(pod.rank)
    return labels, annotations


def _difference(wanted: Mapping[str, str], found: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in wanted.items() if found.get(key) != value}


def _action(
    kind: str,
    found: Object,
    *,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    owners: Iterable[Object] = (),
) -> Reclaim:
    metadata = found["metadata"]
    return Reclaim(
        kind=kind,
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        resource_version=metadata["resourceVersion"],
        labels=labels,
        annotations=annotations,
        owners=tuple(owners),
    )
