"""Texts for the effect of an action, before and after."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from di_api.field_error import items, mapping
from di_cli.edits.limits import Limits
from di_cli.edits.scaling import Scaling
from di_dashboard.history.seen import counts_of


class Action(StrEnum):
    """An action on a job."""

    SCALE = "scale"
    LIMITS = "limits"
    SUSPEND = "suspend"
    RESUME = "resume"
    DELETE = "delete"


Edit = Scaling | Limits
"""The change of a task."""


def possible(job: Mapping[str, Any]) -> list[Action]:
    """Return the actions that are possible for a job in its state."""
    spec, status = mapping(job.get("spec")), mapping(job.get("status"))
    if mapping(job.get("metadata")).get("deletionTimestamp"):
        return []
    if status.get("completionTimestamp"):
        return [Action.DELETE]
    found = [Action.RESUME if spec.get("suspend") else Action.SUSPEND, Action.DELETE]
    return found if mapping(spec.get("coordinated")) else [Action.SCALE, Action.LIMITS, *found]


def limits_of(job: Mapping[str, Any], task: str) -> tuple[str, str]:
    """Return the bounds of a task as input text; empty if there is none."""
    for each in map(mapping, items(mapping(job.get("spec")).get("tasks"))):
        if task == str(each.get("name") or each.get("type")):
            least, most = each.get("minReplicas"), each.get("maxReplicas")
            return str(least or ""), str(most or "")
    return "", ""


def effect(action: Action, job: Mapping[str, Any], pods: int, edit: Edit | None) -> str:
    """Return the effect in one or two sentences; `pods` is the job's present number of pods."""
    name = str(mapping(job.get("metadata")).get("name"))
    have = f"{pods} pod{'s' if pods != 1 else ''}"
    match action:
        case Action.SCALE | Action.LIMITS:
            return _effect(edit)
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


def done(action: Action, name: str, edit: Edit | None) -> str:
    """Return the text for an accepted action."""
    match action:
        case Action.SCALE | Action.LIMITS:
            return _done(name, edit)
        case Action.SUSPEND:
            return f"{name} suspended: its pods are told to end"
        case Action.RESUME:
            return f"{name} resumed: its pods are made as there is room"
        case Action.DELETE:
            return f"{name} deleted: its pods have their grace period to end"


def _effect(edit: Edit | None) -> str:
    match edit:
        case None:
            return ""
        case Scaling():
            difference = edit.after - edit.before
            change = (
                "nothing changes"
                if not difference
                else f"{abs(difference)} replica{'s' if abs(difference) != 1 else ''} "
                f"{'more' if difference > 0 else 'fewer'}"
            )
            return f"{edit.task} {edit.before} -> {edit.after}: {change}."
        case Limits():
            has, wanted = edit.replicas
            change = f"its {has} replica{'s' if has != 1 else ''} stay{'s' if has == 1 else ''}"
            if has != wanted:
                change = f"its replicas {has} -> {wanted}, since {has} would be out of that"
            return f"{_bounds(edit)}: {change}."


def _done(name: str, edit: Edit | None) -> str:
    match edit:
        case None:
            return f"{name} changed"
        case Scaling():
            return f"{name} scaled: {edit.task} {edit.before} -> {edit.after}"
        case Limits():
            return f"{name} has other limits: {_bounds(edit)}"


def _bounds(edit: Limits) -> str:
    pairs = zip(("minReplicas", "maxReplicas"), edit.before, edit.after, strict=True)
    words = [f"{name} {_said(old)} -> {_said(new)}" for name, old, new in pairs if old != new]
    return f"{edit.task} {', '.join(words) or 'keeps its limits'}"


def _said(bound: int | None) -> str:
    return "none" if bound is None else str(bound)


def _wanted(job: Mapping[str, Any]) -> str:
    count = sum(counts_of(job).values())
    return f"{count} replica{'s' if count != 1 else ''}" if count else "pods"
