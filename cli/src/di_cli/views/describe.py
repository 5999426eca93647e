"""Detailed view of one job."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from di_api.field_error import items, mapping
from di_api.status.shards import read_shard_counts
from di_api.timestamps import parse_time
from di_cli.views.jobs import bar, gpus_of, row
from di_cli.views.times import age, local

TASKS: Final = ("TASK", "TYPE", "REPLICAS", "BOUNDS", "PODS", "GPUS EACH", "IMAGE")
CONDITIONS: Final = ("CONDITION", "NOW", "SINCE", "AGO", "REASON", "MESSAGE")
_LONGEST: Final = 160

Object = Mapping[str, Any]


def head(job: Object, now: datetime) -> list[str]:
    """Return the lines before the tables."""
    found = row(job, now)
    spec, status = mapping(job.get("spec")), mapping(job.get("status"))
    message = _message(status, found.phase)
    ready, wanted = found.ready
    started = parse_time(status.get("startTime"))
    facts = {
        "Job": f"{found.namespace}/{found.name}",
        "Phase": f"{found.phase}{f' ({found.reason})' if found.reason else ''}",
        "Message": message,
        "Ready": f"{ready} of {wanted} pods",
        "Progress": bar(found.progress),
        **{f"Shards {each.name}": str(each) for each in read_shard_counts(status, now)},
        "Restarts": f"{found.restarts} of {spec.get('backoffLimit', 3)}",
        "Reschedules": str(found.reschedules) if found.reschedules else "",
        "Priority": str(spec.get("priority") or ""),
        "Preemptible": "yes" if spec.get("preemptible") else "",
        "Code": code_of(spec),
        "Tracking": found.tracking,
        "Created": f"{local(found.created)} ({found.age} ago)" if found.created else "",
        "Started": f"{local(started)} ({age(status.get('startTime'), now)} ago)" if started else "",
        "Ended": local(found.ended),
    }
    shown = {key: value for key, value in facts.items() if value}
    width = max(map(len, shown))
    return [f"{key.ljust(width)}  {value}" for key, value in shown.items()]


def code_of(spec: Object) -> str:
    """Return the hash and the git commit of a job's own code; empty without code."""
    code = mapping(spec.get("code"))
    revision = code.get("revision")
    return f"{str(code.get('sha256', ''))[:12]}{f', git {revision}' if revision else ''}"


def tasks(job: Object) -> list[tuple[str, ...]]:
    """Return a row for each task."""
    status = mapping(mapping(job.get("status")).get("taskStatus"))
    return [
        _task(task, status) for task in map(mapping, items(mapping(job.get("spec")).get("tasks")))
    ]


def conditions(job: Object, now: datetime) -> list[tuple[str, ...]]:
    """Return a row for each condition, the last to change first.

    Of those of one second it is the one that is true: their times have no fractions.
    """
    found = [mapping(each) for each in items(mapping(job.get("status")).get("conditions"))]
    found.sort(
        key=lambda each: (str(each.get("lastTransitionTime") or ""), each.get("status") == "True"),
        reverse=True,
    )
    return [
        (
            str(each.get("type") or ""),
            "yes" if each.get("status") == "True" else "",
            local(parse_time(each.get("lastTransitionTime"))),
            age(each.get("lastTransitionTime"), now),
            str(each.get("reason") or ""),
            _cut(str(each.get("message") or "")),
        )
        for each in found
    ]


def _task(task: Object, status: Object) -> tuple[str, ...]:
    name = str(task.get("name") or task.get("type") or "")
    pods = mapping(status.get(name))
    pod_spec = mapping(mapping(task.get("template")).get("spec"))
    containers = [mapping(each) for each in items(pod_spec.get("containers"))]
    return (
        name,
        str(task.get("type") or ""),
        str(task.get("replicas", 1)),
        _bounds(task),
        ", ".join(f"{count} {phase}" for phase, count in sorted(pods.items())),
        str(gpus_of(pod_spec)),
        str(containers[0].get("image") or "") if containers else "",
    )


def _bounds(task: Object) -> str:
    low, high = (task.get(key) for key in ("minReplicas", "maxReplicas"))
    return "" if low is None and high is None else f"{low or 1}..{high or ''}"


def _message(status: Object, phase: str) -> str:
    for each in map(mapping, items(status.get("conditions"))):
        if each.get("type") == phase:
            return " ".join(str(each.get("message") or "").split())
    return ""


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."
