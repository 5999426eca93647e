"""Changes of a task's `minReplicas` and `maxReplicas`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from di_api.field_error import items, mapping
from di_cli.edits.scaling import ScalingError, task_index

_MOST_DIGITS: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The change of a task; None removes a bound.

    Attributes:
        before, after: minimum and maximum.
        replicas: before and after, limited to the new bounds.
    """

    task: str
    before: tuple[int | None, int | None]
    after: tuple[int | None, int | None]
    replicas: tuple[int, int]
    patch: list[dict[str, Any]]


def limits(job: Mapping[str, Any], task: str | None, least: str, most: str) -> Limits:
    """Return the change for new bounds, as they were typed; its JSON patch fails with a conflict if
    the job has changed since it was read. Raises ScalingError.
    """
    tasks = [mapping(each) for each in items(mapping(job.get("spec")).get("tasks"))]
    names = [str(each.get("name") or each.get("type")) for each in tasks]
    index = task_index(tasks, names, task)
    low, high = _bound(least, "minReplicas"), _bound(most, "maxReplicas")
    if low is not None and high is not None and low > high:
        raise ScalingError(f"minReplicas {low} is above maxReplicas {high}")
    found = tasks[index]
    count = found.get("replicas", 1)
    has = count if isinstance(count, int) else 1
    wanted = max(has, low or 0)
    wanted = wanted if high is None else min(wanted, high)
    before = (_known(found.get("minReplicas")), _known(found.get("maxReplicas")))
    version = mapping(job.get("metadata")).get("resourceVersion")
    path = f"/spec/tasks/{index}"
    patch: list[dict[str, Any]] = [
        {"op": "replace", "path": "/metadata/resourceVersion", "value": version}
    ]
    for field, old, new in (("minReplicas", before[0], low), ("maxReplicas", before[1], high)):
        if new is not None:
            patch.append({"op": "add", "path": f"{path}/{field}", "value": new})
        elif old is not None:
            patch.append({"op": "remove", "path": f"{path}/{field}"})
    if wanted != has:
        patch.append({"op": "add", "path": f"{path}/replicas", "value": wanted})
    return Limits(
        task=names[index], before=before, after=(low, high), replicas=(has, wanted), patch=patch
    )


def _bound(text: str, name: str) -> int | None:
    text = text.strip()
    if not text:
        return None
    if not (text.isascii() and text.isdecimal()) or len(text) > _MOST_DIGITS or int(text) < 1:
        raise ScalingError(f"{name} is a number from 1 on, or nothing; not {text!r}")
    return int(text)


def _known(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
