"""Of a job, what the next sight of it is compared with, and what a revision keeps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from di_api.field_error import items, mapping
from di_history.changes.times import millis
from di_history.records import Millis

_STATUS: Final = (
    *("phase", "conditions", "restarts", "reschedules", "failures", "placement", "placementTime"),
    *("progress", "completionTimestamp"),
)
_METADATA: Final = ("name", "namespace", "uid", "resourceVersion", "generation")
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"

Object = Mapping[str, Any]


def snapshot_of(job: Object) -> dict[str, Any]:
    """The fields that `job_changes` compares, and no others."""
    metadata, status = mapping(job.get("metadata")), mapping(job.get("status"))
    return {
        "metadata": {key: metadata[key] for key in _METADATA if key in metadata},
        "spec": job.get("spec"),
        "status": {key: status[key] for key in _STATUS if key in status},
    }


def manifest_of(job: Object) -> dict[str, Any]:
    """The job as somebody could create it anew: without status and what the API server adds."""
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


def spec_writer(job: Object) -> tuple[str, Millis | None]:
    """Who wrote the spec last, and when, as managedFields have it."""
    best: tuple[Millis, str] | None = None
    for raw in items(mapping(job.get("metadata")).get("managedFields")):
        entry = mapping(raw)
        at = millis(entry.get("time"))
        if entry.get("subresource") or "f:spec" not in mapping(entry.get("fieldsV1")):
            continue
        if at is not None and (best is None or at >= best[0]):
            best = at, str(entry.get("manager") or "")
    return (best[1], best[0]) if best else ("", None)


def creator(job: Object) -> str:
    """The first manager of the job: who created it, as far as its fields still say so."""
    found = [
        (at, str(entry.get("manager") or ""))
        for raw in items(mapping(job.get("metadata")).get("managedFields"))
        if not (entry := mapping(raw)).get("subresource")
        and (at := millis(entry.get("time"))) is not None
    ]
    return min(found)[1] if found else ""
