"""The parts of a job that the next comparison needs, and those that a revision keeps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from di_api.changed_by import changed_by
from di_api.field_error import items, mapping
from di_history.changes.times import millis
from di_history.records import Millis

_STATUS: Final = (
    *("phase", "conditions", "restarts", "reschedules", "failures", "placement", "placementTime"),
    *("progress", "completionTimestamp"),
)
_METADATA: Final = ("name", "namespace", "uid", "resourceVersion", "generation")
_SPEC: Final = "f:spec"
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"

Object = Mapping[str, Any]


def snapshot_of(job: Object) -> dict[str, Any]:
    """Return only the fields that `job_changes` compares."""
    metadata, status = mapping(job.get("metadata")), mapping(job.get("status"))
    return {
        "metadata": {
            **{key: metadata[key] for key in _METADATA if key in metadata},
            "managedFields": [
                {"manager": who, "time": time, "fieldsV1": {_SPEC: {}}}
                for who, time in _spec_writers(job)
            ],
        },
        "spec": job.get("spec"),
        "status": {key: status[key] for key in _STATUS if key in status},
    }


def manifest_of(job: Object) -> dict[str, Any]:
    """Return the job in a form that can be created again: without status and the API server's
    fields.
    """
    metadata = mapping(job.get("metadata"))
    kept = {key: metadata[key] for key in ("name", "namespace", "labels") if key in metadata}
    annotations = {
        key: value
        for key, value in mapping(metadata.get("annotations")).items()
        if key != _LAST_APPLIED and not key.startswith("diengine/")
    }
    if annotations:
        kept["annotations"] = annotations
    return {
        "apiVersion": job.get("apiVersion"),
        "kind": job.get("kind"),
        "metadata": kept,
        "spec": job.get("spec"),
    }


def spec_writer(job: Object, before: Object) -> tuple[str, Millis | None]:
    """Return the last writer of the spec, and the time, from managedFields.

    The times are whole seconds: of two writers in the same second, it is the one without an entry
    `before`.
    """
    known = set(_spec_writers(before))
    best: tuple[Millis, bool, str] | None = None
    for who, time in _spec_writers(job):
        at = millis(time)
        found = (at or 0, (who, time) not in known, who)
        if at is not None and (best is None or found[:2] >= best[:2]):
            best = found
    return (best[2], best[0]) if best else ("", None)


def changer(job: Object, before: Object) -> tuple[str, Millis | None]:
    """Return the author of the last change of the spec, and the time: the user, if the job names
    one, and the program.
    """
    program, at = spec_writer(job, before)
    user = changed_by(job)
    return (f"{user} ({program})" if user and program else user or program), at


def _spec_writers(job: Object) -> Iterator[tuple[str, str]]:
    """Yield the writers with fields of the spec, and their times."""
    for entry in map(mapping, items(mapping(job.get("metadata")).get("managedFields"))):
        if not entry.get("subresource") and _SPEC in mapping(entry.get("fieldsV1")):
            yield str(entry.get("manager") or ""), str(entry.get("time") or "")


def creator(job: Object) -> str:
    """Return the first field manager of the job, which created it as far as its fields show."""
    found = [
        (at, str(entry.get("manager") or ""))
        for raw in items(mapping(job.get("metadata")).get("managedFields"))
        if not (entry := mapping(raw)).get("subresource")
        and (at := millis(entry.get("time"))) is not None
    ]
    return min(found)[1] if found else ""
