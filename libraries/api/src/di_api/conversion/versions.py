"""Lossless conversion of DIJobs between the served API versions.

The older versions support only jobs with a coordinator, and few of their fields. Everything without
a field there, up to all of a job with tasks, is stored in an annotation. A client that changes
something else and writes the job back leaves it unchanged. The functions are pure and accept any
JSON value.

Rules for conversion webhooks: https://kubernetes.io/docs/tasks/extend-kubernetes/
custom-resources/custom-resource-definition-versioning/#webhook-conversion
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from di_api import names
from di_api.conversion.annotation import (
    LONGEST,
    MOST_ANNOTATIONS,
    TOO_LARGE,
    Carried,
    Oversized,
    is_too_large,
    may_be_ours,
    pack,
    unpack,
    unpacking_cost,
)
from di_api.phase import Phase

VERSIONS: Final = tuple(
    f"{names.GROUP}/{version}" for version in (names.VERSION, *names.COORDINATED_VERSIONS)
)
"""Values of apiVersion that a job can be converted from and to."""

_SHARED: Final = frozenset({"group", "cleanPodPolicy", "volumes"})
"""Fields of the spec that all versions have in the same place."""
_COORDINATED: Final = frozenset({"coordinator", "collector", "learner", "priorityClassName"})
"""Fields of `spec.coordinated` that the older versions have in the spec itself."""
_OBJECT: Final = (dict, Mapping)
"""Types of a JSON object. `dict` alone would do for a review, and is found three times as fast."""
_STATUS: Final = frozenset({"phase", "conditions", "replicaStatus"})
_CREATED: Final = "Created"
"""Phase name of the older versions for a job whose coordinator does not run yet."""
_RENAMED: Final[Mapping[object, str]] = {
    Phase.STARTING.value: _CREATED,
    _CREATED: Phase.STARTING.value,
}
"""Phases and condition types with different names in the versions, in both directions."""
_SHOWN_AS_CREATED: Final = frozenset(
    phase.value for phase in Phase if not (phase.is_up or phase.is_finished)
)


class ConversionFailed(ValueError):
    """The job cannot be converted; the message has the reason, without the job's name."""


def fields_of_older_versions() -> dict[str, frozenset[str]]:
    """Return the fields of the spec and of the status that the older versions have."""
    return {"spec": _SHARED | _COORDINATED, "status": _STATUS}


def convert(job: object, version: str) -> dict[str, Any]:
    """Return a new job: `job` in the form of `version`, one of VERSIONS; unchanged parts are
    shared.

    A job of the newest version that is too large for the annotation is returned without the excess,
    and cannot be written back in an older version.

    Raises:
        ConversionFailed: it is not a DIJob of one of VERSIONS, or one that was returned incomplete.
    """
    if version not in VERSIONS:
        raise ConversionFailed(f"there is no version {version[:80]!a}")
    if not isinstance(job, _OBJECT):
        raise ConversionFailed("a job must be an object")
    current = job.get("apiVersion")
    if current not in VERSIONS or job.get("kind") != names.KIND:
        raise ConversionFailed(f"only a {names.KIND} of {', '.join(VERSIONS)} can be converted")
    if version == current:
        return dict(job)
    if version == names.API_VERSION:
        return _newer(job)
    shown = _older(job) if current == names.API_VERSION else job
    return {**shown, "apiVersion": version}


def unpacked_bytes(job: object) -> int:
    """Return what unpacking a job's annotation costs when it is converted to the newest version, in
    bytes; 0 for a job of any other shape.
    """
    metadata = job.get("metadata") if isinstance(job, _OBJECT) else None
    annotations = metadata.get("annotations") if isinstance(metadata, _OBJECT) else None
    if not isinstance(annotations, _OBJECT):
        return 0
    return unpacking_cost(annotations.get(names.ANNOTATION_CONVERSION))


def with_unseen(job: Mapping[str, Any], old: Mapping[str, Any]) -> dict[str, Any]:
    """Return `job` with all fields that the older versions do not have taken from `old`.

    Both are of the newest version; `job` is what a client of an older version wants to write. The
    client has not seen these fields, so it cannot intend to change them, even if it drops the
    annotation, as a plain replace of a manifest does. The status is taken from `old` as a whole,
    because only writes to the status subresource change it.
    """
    result = {**job, **_joined(_shown(job), _unseen(old, None))}
    result.pop("status", None)
    return result | ({"status": old["status"]} if "status" in old else {})


def _older(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return a job of the newest version in the older form, with the rest in its annotation."""
    result = {**job, **_shown(job)}
    annotations = _annotations(job.get("metadata"))
    carried = _unseen(job, annotations.get(names.ANNOTATION_CONVERSION))
    if carried is not None:
        result["metadata"] = {
            **(job.get("metadata") or {}),
            "annotations": _with_carried(annotations, carried),
        }
    return result


def _with_carried(annotations: dict[str, Any], carried: Carried) -> dict[str, Any]:
    """Return the annotations of a job with `carried` among them.

    Data that does not fit is left out, and the job is marked: an error would fail every list that
    contains the job. `_newer` refuses a marked job, so that a write loses nothing.
    """
    key = names.ANNOTATION_CONVERSION
    others = {each: text for each, text in annotations.items() if each != key}
    taken = sum(
        len(str(text).encode("utf-8", "replace")) for each in others.items() for text in each
    )
    free = MOST_ANNOTATIONS - taken - len(key)
    try:
        return {**others, key: pack(carried, min(LONGEST, free))}
    except Oversized as error:
        mark = f"{TOO_LARGE}{error}; read and write the job as {names.API_VERSION}"
        return {**(others if len(mark) <= free else {}), key: mark}


def _shown(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return spec and status in the older form, if they are objects."""
    result: dict[str, Any] = {}
    spec, status = job.get("spec"), job.get("status")
    if isinstance(spec, _OBJECT):
        coordinated = spec.get("coordinated")
        result["spec"] = _only(spec, _SHARED)
        if isinstance(coordinated, _OBJECT):
            result["spec"] |= _only(coordinated, _COORDINATED)
    if isinstance(status, _OBJECT):
        result["status"] = _renamed(_only(status, _STATUS))
        if _is_shown_as_created(status.get("phase")):
            result["status"]["phase"] = _CREATED
    return result


def _unseen(job: Mapping[str, Any], text: object) -> Carried | None:
    """Return the data that the older versions have no field for; None if they have fields for all
    of the job.

    `text` is the job's own value under the key of our annotation.
    """
    spec, status = job.get("spec"), job.get("status")
    carried: Carried = {}
    if isinstance(spec, _OBJECT):
        coordinated = spec.get("coordinated")
        rest = _without(spec, _SHARED)
        if isinstance(coordinated, _OBJECT):
            del rest["coordinated"]
            carried["coordinated"] = _without(coordinated, _COORDINATED)
        if rest or not isinstance(coordinated, _OBJECT):
            carried["spec"] = rest
    if isinstance(status, _OBJECT):
        rest = _without(status, _STATUS)
        if _is_shown_as_created(status.get("phase")):
            rest["phase"] = status["phase"]
        if rest:
            carried["status"] = rest
    # A text in our format would be mistaken for ours when the job is converted back.
    if carried in ({}, {"coordinated": {}}) and not may_be_ours(text):
        return None
    if text is not None:
        carried["annotation"] = text
    return carried


def _newer(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return a job of an older version in the newest form, with the annotation's data in place."""
    annotations = _annotations(job.get("metadata"))
    if is_too_large(annotations.get(names.ANNOTATION_CONVERSION)):
        message = f"the job is too large for this version; write it as {names.API_VERSION}"
        raise ConversionFailed(message)
    carried = unpack(annotations.get(names.ANNOTATION_CONVERSION))
    result = {**job, **_joined(job, carried), "apiVersion": names.API_VERSION}
    if carried is not None:
        del annotations[names.ANNOTATION_CONVERSION]
        if "annotation" in carried:
            annotations[names.ANNOTATION_CONVERSION] = carried["annotation"]
        metadata = _without(job["metadata"], frozenset({"annotations"}))
        result["metadata"] = metadata | ({"annotations": annotations} if annotations else {})
    return result


def _joined(job: Mapping[str, Any], carried: Carried | None) -> dict[str, Any]:
    """Return spec and status of a job of an older version in the newest form, with the fields of
    `carried`.

    A field of the older versions is never taken from `carried`, because it may have been changed
    since.
    """
    result: dict[str, Any] = {}
    spec, status = job.get("spec"), job.get("status")
    unseen: Carried = {} if carried is None else carried
    if isinstance(spec, _OBJECT):
        result["spec"] = _only(spec, _SHARED) | _without(unseen.get("spec", {}), _SHARED)
        coordinated = _only(spec, _COORDINATED)
        # A client that does not know the newest version can only mean a job with a coordinator.
        if coordinated or carried is None or "coordinated" in carried:
            more = _without(unseen.get("coordinated", {}), _COORDINATED)
            result["spec"]["coordinated"] = coordinated | more
    if isinstance(status, _OBJECT):
        # Without a status nothing is carried into it: a job that is created again has none.
        rest = unseen.get("status", {})
        result["status"] = _renamed(_only(status, _STATUS)) | _without(rest, _STATUS)
        if status.get("phase") == _CREATED and _is_shown_as_created(rest.get("phase")):
            result["status"]["phase"] = rest["phase"]
    return result


def _annotations(metadata: object) -> dict[str, Any]:
    if metadata is None:
        return {}
    if not isinstance(metadata, _OBJECT):
        raise ConversionFailed("metadata must be an object")
    annotations = metadata.get("annotations")
    if annotations is None:
        return {}
    if not isinstance(annotations, _OBJECT):
        raise ConversionFailed("metadata.annotations must be an object")
    return dict(annotations)


def _renamed(status: dict[str, Any]) -> dict[str, Any]:
    """Return `status` with the phase and condition types of the other versions."""
    if "phase" in status:
        status["phase"] = _other_name(status["phase"])
    conditions = status.get("conditions")
    if isinstance(conditions, list):
        status["conditions"] = [
            {**each, "type": _other_name(each["type"])}
            if isinstance(each, _OBJECT) and "type" in each
            else each
            for each in conditions
        ]
    return status


def _other_name(value: object) -> object:
    return _RENAMED.get(value, value) if isinstance(value, str) else value


def _is_shown_as_created(phase: object) -> bool:
    return isinstance(phase, str) and phase in _SHOWN_AS_CREATED


def _only(fields: Mapping[str, Any], keys: frozenset[str]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if key in keys}


def _without(fields: Mapping[str, Any], keys: frozenset[str]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if key not in keys}
