"""The patch that restarts the pods of a job, or of one of its tasks."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from di_api.field_error import items, mapping
from di_api.phase import Phase
from di_api.timestamps import parse_time

Object = Mapping[str, Any]


class RestartError(ValueError):
    """There is nothing to restart; `remedy` is the alternative, with `{job}`."""

    def __init__(self, message: str, *, remedy: str) -> None:
        self.remedy = remedy
        super().__init__(message)


def restarting(job: Object, task: str | None, now: datetime) -> list[dict[str, Any]]:
    """Return the JSON patch for a restart; it fails with a conflict if the job has changed since it
    was read.

    `task` None is the whole job. Raises RestartError.
    """
    metadata, spec = mapping(job.get("metadata")), mapping(job.get("spec"))
    phase = mapping(job.get("status")).get("phase")
    if metadata.get("deletionTimestamp"):
        raise RestartError("it is being deleted", remedy="di list")
    if phase in (Phase.SUCCEEDED, Phase.FAILED):
        raise RestartError(
            f"it is {phase}, and what is over is not started again",
            remedy="di get {job} -o yaml > job.yaml; di delete {job}; di submit job.yaml",
        )
    if spec.get("suspend") is True:
        raise RestartError(
            "it is suspended and has no pods; they are created when it is resumed",
            remedy="di resume {job}",
        )
    path = _path(spec, task)
    return [
        {
            "op": "replace",
            "path": "/metadata/resourceVersion",
            "value": metadata.get("resourceVersion"),
        },
        {"op": "add", "path": path, "value": _text(now, _at(job, path))},
    ]


def asks_for(job: Object, patch: list[dict[str, Any]]) -> bool:
    """Return whether a job has the values of a patch: a cluster with an older version drops
    them.
    """
    *_, wanted = patch
    return bool(_at(job, wanted["path"]) == wanted["value"])


def _at(job: Object, path: str) -> Any:
    found: Any = job
    for part in path.strip("/").split("/"):
        found = items(found)[int(part)] if part.isdecimal() else mapping(found).get(part)
    return found


def _path(spec: Object, task: str | None) -> str:
    if task is None:
        return "/spec/restartedAt"
    if spec.get("coordinated") is not None:
        raise RestartError(
            "a job with a coordinator has no tasks: it restarts as a whole",
            remedy="di restart {job}",
        )
    tasks = [mapping(each) for each in items(spec.get("tasks"))]
    names = [str(each.get("name") or each.get("type")) for each in tasks]
    if task not in names:
        known = ", ".join(names) or "none"
        raise RestartError(
            f"the job has no task {task}; its tasks are {known}", remedy="di describe {job}"
        )
    return f"/spec/tasks/{names.index(task)}/restartedAt"


def _text(now: datetime, before: object) -> str:
    """Return the time, always later than the previous value, so that the text is new."""
    last = parse_time(before)
    if last is not None:
        now = max(now, last + timedelta(microseconds=1))
    return now.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
