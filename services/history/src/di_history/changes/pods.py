"""Records of the differences between two observed states of a pod."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from di_api.field_error import items, mapping
from di_api.names import (
    ANNOTATION_RANK,
    GPU_RESOURCE,
    LABEL_REPLICA_TYPE,
    LABEL_TASK_NAME,
)
from di_api.ownership import controller_uid
from di_api.pods.main_container import ENDED, main_end, phase_of
from di_api.quantity import parse_quantity
from di_history.changes.jobs import version_of
from di_history.changes.times import millis
from di_history.records import Millis, Placement

Object = Mapping[str, Any]
_LABELS: Final = (LABEL_TASK_NAME, LABEL_REPLICA_TYPE)
_STATUS: Final = ("phase", "reason", "startTime", "containerStatuses", "initContainerStatuses")
_CONTAINER: Final = ("name", "restartPolicy", "restartPolicyRules")
_METADATA: Final = (
    *("name", "namespace", "uid", "resourceVersion", "ownerReferences", "creationTimestamp"),
    "deletionTimestamp",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogWanted:
    """A container whose log must be read now, because its pod may soon be deleted.

    Attributes:
        attempt: number of previous restarts.
        previous: whether its successor already runs.
        final: whether it has ended; else it is about to.
        failed: whether it ended with a failure.
    """

    job: str
    namespace: str
    pod: str
    pod_uid: str
    container: str
    attempt: int
    previous: bool
    final: bool
    failed: bool


def trimmed(pod: dict[str, Any]) -> dict[str, Any]:
    """Keep the fields that this module reads: most of a pod is its spec."""
    metadata, spec, status = (mapping(pod.get(key)) for key in ("metadata", "spec", "status"))
    labels, annotations = (mapping(metadata.get(key)) for key in ("labels", "annotations"))
    return {
        "metadata": {
            **{key: metadata[key] for key in _METADATA if key in metadata},
            "labels": {key: labels[key] for key in _LABELS if key in labels},
            "annotations": {
                key: annotations[key] for key in (ANNOTATION_RANK,) if key in annotations
            },
        },
        "spec": {
            "nodeName": spec.get("nodeName"),
            "gpus": _gpus(spec),
            **{key: spec[key] for key in ("restartPolicy",) if key in spec},
            "containers": [_kept_container(each) for each in items(spec.get("containers"))],
        },
        "status": {
            **{key: status[key] for key in _STATUS if key in status},
            "conditions": [each for each in items(status.get("conditions")) if _is_kept(each)],
        },
    }


def placement_changes(before: Object | None, after: Object, seen: Millis) -> list[Placement]:
    """Return the placement of a pod if it is new: on a node, ended there, or terminating.

    Args:
        before, after: as returned by `trimmed`; `before` is None if the pod is new here.
        seen: the present time, for changes without a time of their own.
    """
    found = _placement(after, seen)
    if found is None or (before is not None and _told(before) == _told(after)):
        return []
    return [found]


def placement_gone(last: Object, seen: Millis) -> list[Placement]:
    """Return the end of a deleted pod; empty if it had no placement."""
    found = _placement(last, seen)
    if found is None:
        return []
    if found.until is not None:
        return [found]
    finished = millis(_last_end(last).get("finishedAt"))
    # A later version than the stored one, even if the watch reports the deletion with the previous
    # version.
    return [replace(found, until=finished or seen, outcome="Deleted", version=found.version + 1)]


def logs_wanted(before: Object | None, after: Object) -> list[LogWanted]:
    """Return the containers that have ended since `before`, or are about to."""
    job = controller_uid(after)
    if job is None or not mapping(after.get("spec")).get("nodeName"):
        return []
    known = set(_endings(before)) if before is not None else set()
    metadata = mapping(after.get("metadata"))
    return [
        LogWanted(
            job=job,
            namespace=str(metadata.get("namespace") or ""),
            pod=str(metadata.get("name") or ""),
            pod_uid=str(metadata.get("uid") or ""),
            container=ending.container,
            attempt=ending.attempt,
            previous=ending.previous,
            final=ending.final,
            failed=ending.failed,
        )
        for ending in dict.fromkeys(_endings(after))
        if ending not in known
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ending:
    container: str
    attempt: int
    previous: bool
    final: bool
    failed: bool


def _endings(pod: Object) -> Iterator[_Ending]:
    """Yield containers that have ended, were replaced, or run in a terminating pod."""
    leaving = mapping(pod.get("metadata")).get("deletionTimestamp") is not None
    for status in map(mapping, items(mapping(pod.get("status")).get("containerStatuses"))):
        name, restarts = str(status.get("name") or ""), _count(status.get("restartCount"))
        state, last = mapping(status.get("state")), mapping(status.get("lastState"))
        if "terminated" in state:
            failed = mapping(state["terminated"]).get("exitCode") != 0
            yield _Ending(
                container=name, attempt=restarts, previous=False, final=True, failed=failed
            )
        elif leaving and "running" in state:
            yield _Ending(
                container=name, attempt=restarts, previous=False, final=False, failed=False
            )
        if "terminated" in last and restarts and "terminated" not in state:
            failed = mapping(last["terminated"]).get("exitCode") != 0
            yield _Ending(
                container=name, attempt=restarts - 1, previous=True, final=True, failed=failed
            )


def _placement(pod: Object, seen: Millis) -> Placement | None:
    job = controller_uid(pod)
    metadata, status = mapping(pod.get("metadata")), mapping(pod.get("status"))
    node = mapping(pod.get("spec")).get("nodeName")
    if job is None or not node:
        return None
    labels = mapping(metadata.get("labels"))
    phase, ended = phase_of(pod), _last_end(pod)
    return Placement(
        pod_uid=str(metadata.get("uid") or ""),
        job=job,
        namespace=str(metadata.get("namespace") or ""),
        pod=str(metadata.get("name") or ""),
        task=str(next((labels[key] for key in _LABELS if key in labels), "")),
        rank=_rank(mapping(metadata.get("annotations")).get(ANNOTATION_RANK)),
        node=str(node),
        gpus=_count(mapping(pod.get("spec")).get("gpus")),
        since=millis(status.get("startTime")) or millis(metadata.get("creationTimestamp")) or seen,
        until=(millis(ended.get("finishedAt")) or seen) if phase in ENDED else None,
        outcome=phase if phase in ENDED else "Running",
        reason=str(status.get("reason") or ended.get("reason") or "") if phase in ENDED else "",
        exit_code=_exit_code(ended) if phase in ENDED else None,
        version=version_of(pod),
    )


def _told(pod: Object) -> tuple[object, ...]:
    status = mapping(pod.get("status"))
    return (
        mapping(pod.get("spec")).get("nodeName"),
        status.get("startTime"),
        phase if (phase := phase_of(pod)) in ENDED else None,
    )


def _last_end(pod: Object) -> Object:
    """Return the end of the main container; else of the one that failed first or ended last."""
    if (main := main_end(pod)) is not None:
        return main
    ends = [
        mapping(mapping(each.get("state")).get("terminated"))
        for each in map(mapping, items(mapping(pod.get("status")).get("containerStatuses")))
        if "terminated" in mapping(each.get("state"))
    ]
    ends.sort(key=lambda end: str(end.get("finishedAt") or ""))
    failed = [end for end in ends if end.get("exitCode")]
    return failed[0] if failed else ends[-1] if ends else {}


def _is_kept(condition: object) -> bool:
    """Whether a condition decides if a pod was ended as a whole."""
    return mapping(condition).get("type") == "DisruptionTarget"


def _kept_container(container: object) -> Object:
    """What decides whether its end is that of the pod."""
    return {key: mapping(container)[key] for key in _CONTAINER if key in mapping(container)}


def _gpus(spec: Object) -> int:
    total = 0
    for container in map(mapping, items(spec.get("containers"))):
        amount = mapping(mapping(container.get("resources")).get("limits")).get(GPU_RESOURCE)
        try:
            total += int(parse_quantity(amount)) if amount is not None else 0
        except (ValueError, ArithmeticError):
            continue
    return total


def _rank(value: object) -> int | None:
    text = str(value)
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 8 else None


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _exit_code(ended: Object) -> int | None:
    code = ended.get("exitCode")
    return code if isinstance(code, int) and not isinstance(code, bool) else None
