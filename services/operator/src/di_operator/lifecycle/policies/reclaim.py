"""Restores labels and annotations of a job's objects that were edited by hand.

Watches, Services and di-server select objects by label, and any user with write access to an
object can edit them. Ownership is decided by the controller reference alone. An object without it
is never adopted: nothing else distinguishes a pod of this job from one of an earlier job of the
same name, or from a forged one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from di_api.names import ANNOTATION_RANK, LABEL_IN_SERVICE
from di_kube.resources import PODS, Resource
from di_operator.builders.metadata import job_labels
from di_operator.lifecycle.observed.snapshot import Slot, Snapshot
from di_operator.lifecycle.observed.verdict import count_of
from di_operator.lifecycle.policies.deletion import is_terminating
from di_operator.lifecycle.policies.drain import has_left
from di_operator.lifecycle.policy import Policy, Repair
from di_operator.lifecycle.vocabulary.actions import Reclaim
from di_operator.lifecycle.vocabulary.decision import JobEvent, Settings
from di_operator.lifecycle.vocabulary.reasons import Reason

Object = Mapping[str, Any]


def reclaim(
    snapshot: Snapshot, resource: Resource, found: Object, slot: Slot | None
) -> Reclaim | None:
    """Return the patch that restores an object's labels and annotations; None if they are intact
    or the object is not the job's.

    ``slot`` is the slot of a pod.
    """
    labels, annotations = _marks(snapshot, slot)
    metadata = found["metadata"]
    if has_left(metadata):
        # The operator removed it, for a drain.
        labels.pop(LABEL_IN_SERVICE, None)
    lost = _difference(labels, metadata.get("labels") or {})
    changed = _difference(annotations, metadata.get("annotations") or {})
    # Ownership is checked last: of thousands of pods in each reconcile, hardly one was edited.
    if not (lost or changed) or is_terminating(found) or not snapshot.is_own(found):
        return None
    return Reclaim(
        resource=resource,
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        labels=lost,
        annotations=changed,
    )


def repair_pods(snapshot: Snapshot, settings: Settings) -> Repair:
    """Return the repair of labels and annotations of the wanted pods."""
    actions = tuple(
        action
        for slot in snapshot.slots
        if (pod := snapshot.held.get(slot.name)) is not None
        if (action := reclaim(snapshot, PODS, pod.raw, slot)) is not None
    )
    return Repair(actions=actions, events=restored_events(actions))


def restored_events(actions: Sequence[Reclaim]) -> tuple[JobEvent, ...]:
    """Return one event about all restored objects; its count grows."""
    if not actions:
        return ()
    first = actions[0]
    marks = ", ".join(sorted({*first.labels, *first.annotations}))
    message = f"{first.resource.kind} {first.name} was edited by hand, {marks} put back"
    if len(actions) > 1:
        message = f"{message} (and {count_of(len(actions) - 1, 'more object')})"
    return (JobEvent(reason=Reason.METADATA_RESTORED, message=message),)


def _marks(snapshot: Snapshot, slot: Slot | None) -> tuple[dict[str, str], dict[str, str]]:
    """Return the labels and annotations that decisions and other services rely on."""
    labels, annotations = job_labels(snapshot.job), dict[str, str]()
    if slot is None:
        return labels, annotations
    labels |= slot.labels
    pod = snapshot.held.get(slot.name)
    if pod is not None and pod.rank is not None:
        annotations[ANNOTATION_RANK] = str(pod.rank)
    return labels, annotations


def _difference(wanted: Mapping[str, str], found: Mapping[str, str]) -> dict[str, str]:
    if wanted.items() <= found.items():
        return {}
    return {key: value for key, value in wanted.items() if found.get(key) != value}


RECLAIM: Final = Policy(repair=repair_pods)
