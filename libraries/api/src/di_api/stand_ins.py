"""`status.standIns`: the standby pods that were promoted to replicas.

Only the operator writes it. A pod's name and environment cannot change, so this field is the only
record of a promoted pod's place; what other pods get is derived from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from di_api.field_error import mapping
from di_api.names import pod_name, standby_name
from di_api.spec.bounds import MAX_PODS

FIELD: Final = "standIns"
"""Field name in the status of a job."""

StandIns: TypeAlias = Mapping[str, Mapping[int, str]]
"""Names of pods by task and local index. No pod appears twice, and no task is empty."""


def read_stand_ins(job: str, status: object) -> dict[str, dict[int, str]]:
    """Return the promoted pods in the status of the job with this name. Invalid entries, and pods
    that cannot stand in there, are left out.
    """
    found: dict[str, dict[int, str]] = {}
    for task, places in mapping(mapping(status).get(FIELD)).items():
        if read := _places(job, str(task), mapping(places)):
            found[str(task)] = read
    return found


def as_status(stand_ins: StandIns) -> dict[str, dict[str, str]]:
    """Return the form that `read_stand_ins` parses."""
    return {
        task: {str(index): places[index] for index in sorted(places)}
        for task, places in sorted(stand_ins.items())
    }


def serving_pod(job: str, task: str, index: int, stand_ins: StandIns) -> str:
    """Return the name of the pod that serves at a local index of a task of single pods."""
    return stand_ins.get(task, {}).get(index) or pod_name(job, task, index)


def standby_number(job: str, task: str, pod: str) -> int | None:
    """Return the number of the task's standby pod with this name; None if there is none."""
    prefix = standby_name(job, task, 0)[:-1]
    number = pod.removeprefix(prefix)
    if not pod.startswith(prefix) or not _is_number(number) or str(int(number)) != number:
        return None
    return int(number)


def _places(job: str, task: str, raw: Mapping[str, Any]) -> dict[int, str]:
    read: dict[str, int] = {}
    for index, pod in raw.items():
        if not (isinstance(index, str) and _is_number(index) and isinstance(pod, str)):
            continue
        if standby_number(job, task, pod) is not None:
            read.setdefault(pod, int(index))
    return {index: pod for pod, index in read.items()}


def _is_number(text: str) -> bool:
    """Return whether the text is an index below MAX_PODS."""
    return text.isascii() and text.isdecimal() and len(text) < 6 and int(text) < MAX_PODS
