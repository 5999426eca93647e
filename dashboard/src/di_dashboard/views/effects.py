"""What an action would do, said before it is done, and after."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from di_api.field_error import mapping
from di_cli.edits.scaling import Scaling
from di_dashboard.history import counts_of


class Action(StrEnum):
    """What can be done to a job."""

    SCALE = "scale"
    SUSPEND = "suspend"
    RESUME = "resume"
    DELETE = "delete"


def possible(job: Mapping[str, Any]) -> list[Action]:
    """What makes sense for a job as it is."""
    spec, status = mapping(job.get("spec")), mapping(job.get("status"))
    if mapping(job.get("metadata")).get("deletionTimestamp"):
        return []
    if status.get("completionTimestamp"):
        return [Action.DELETE]
    found = [Action.RESUME if spec.get("suspend") else Action.SUSPEND, Action.DELETE]
    return found if mapping(spec.get("coordinated")) else [Action.SCALE, *found]


def effect(action: Action, job: Mapping[str, Any], pods: int, scaling: Scaling | None) -> str:
    """What will happen, in one or two sentences; `pods` are those that the job has now."""
    name = str(mapping(job.get("metadata")).get("name"))
    have = f"{pods} pod{'s' if pods != 1 else ''}"
    match action:
        case Action.SCALE:
            if scaling is None:
                return ""
            difference = scaling.after - scaling.before
            change = (
                "nothing changes"
                if not difference
                else f"{abs(difference)} replica{'s' if abs(difference) != 1 else ''} "
                f"{'more' if difference > 0 else 'fewer'}"
            )
            return f"{scaling.task} {scaling.before} -> {scaling.after}: {change}."
        case Action.SUSPEND:
            return (
                f"{have} of {name} get SIGTERM and end within their grace period. The job stays, "
                "and waits until it is resumed; what is in no checkpoint is lost."
            )
        case Action.RESUME:
            return f"{name} asks for its {_wanted(job)} again, as soon as there is room."
        case Action.DELETE:
            return (
                f"{name} and its {have} go, with their logs. The manifest and what the job "
                "reported go as well. This cannot be taken back."
            )


def done(action: Action, name: str, scaling: Scaling | None) -> str:
    """What was done, as the API server has accepted it."""
    match action:
        case Action.SCALE:
            told = f": {scaling.task} {scaling.before} -> {scaling.after}" if scaling else ""
            return f"{name} scaled{told}"
        case Action.SUSPEND:
            return f"{name} suspended: its pods are told to end"
        case Action.RESUME:
            return f"{name} resumed: its pods are made as there is room"
        case Action.DELETE:
            return f"{name} deleted: its pods have their grace period to end"


def _wanted(job: Mapping[str, Any]) -> str:
    count = sum(counts_of(job).values())
    return f"{count} replica{'s' if count != 1 else ''}" if count else "pods"
