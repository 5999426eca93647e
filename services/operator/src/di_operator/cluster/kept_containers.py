"""Reduces a pod's containers to what decisions read; equal pods share it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from di_api.names import ANNOTATION_RANK, ENV_RANK
from di_api.pods.main_container import main_container
from di_operator.lifecycle.observed.blockers import waiting_part
from di_operator.lifecycle.observed.check_reports import report_of
from di_operator.lifecycle.observed.in_place import has_failed
from di_operator.lifecycle.observed.pods import MAX_LAST_WORDS

_ENDED = ("exitCode", "reason", "finishedAt")
_RESTARTS = ("restartPolicy", "restartPolicyRules")


def container_specs(
    spec: Mapping[str, Any], rank: int | None, notes: Mapping[str, str]
) -> dict[str, Any]:
    """Return what is kept of a pod's spec: how many containers it has, and of several, by name,
    which one is the main one and whether the kubelet starts them again.

    `rank` is the one in the environment of the first; it is kept only if it is disputed.
    """
    containers = spec.get("containers") or ()
    kept: list[dict[str, Any]] = [{}] * len(containers)
    if len(containers) > 1:
        main = main_container(containers)
        for place, each in enumerate(containers):
            own = {key: each[key] for key in _RESTARTS if key in each}
            if "name" in each and (own or each is main):
                kept[place] = {"name": each["name"], **own}
    if rank is not None and notes.get(ANNOTATION_RANK) != str(rank):
        kept[0] = {**kept[0], "env": [{"name": ENV_RANK, "value": str(rank)}]}
    policy = spec.get("restartPolicy")
    several = {"restartPolicy": policy} if policy and len(containers) > 1 else {}
    return {**several, "containers": kept}


def start_time(status: Mapping[str, Any]) -> dict[str, Any]:
    """Return when the kubelet took a pod up, while that says more than its containers do."""
    keeps = status.get("phase") in ("Pending", "Failed") and "startTime" in status
    return {"startTime": status["startTime"]} if keeps else {}


def container_statuses(
    status: Mapping[str, Any], kind: str, *, goes_on: bool
) -> list[Mapping[str, Any]]:
    """Return the statuses of those that have ended or are kept from running, and where the pod
    `goes_on` after their failures those that failed; of all others there is nothing to say.

    In a pod that failed also those that ran when its node was lost.
    """
    kept: list[Mapping[str, Any]] = []
    for one in status.get(kind) or ():
        if goes_on and has_failed(one):
            kept.append(_started_again(one))
        elif ended := (one.get("state") or {}).get("terminated"):
            if (report := report_of(one)) is not None:
                kept.append(_check_of(one, ended, report))
            else:
                found = _failure_of(one, ended) if ended.get("exitCode") else _end_of(ended)
                # By its name the main container is told from the others.
                named = {"name": one["name"]} if goes_on and "name" in one else {}
                kept.append({**found, **named})
        elif waiting := waiting_part(one):
            kept.append(waiting)
        elif "running" in (one.get("state") or {}) and status.get("phase") == "Failed":
            kept.append({"state": {"running": {}}})
    return kept


def _end_of(ended: Mapping[str, Any]) -> dict[str, Any]:
    return {"state": {"terminated": {key: ended[key] for key in _ENDED if key in ended}}}


def _check_of(status: Mapping[str, Any], ended: Mapping[str, Any], report: str) -> dict[str, Any]:
    """Of a check of the pod's node its name and what it said."""
    kept = _failure_of(status, ended)
    kept["state"]["terminated"]["message"] = report
    return {**kept, "name": status["name"]}


def _failure_of(status: Mapping[str, Any], ended: Mapping[str, Any]) -> dict[str, Any]:
    """Of a container that failed also its name, how long it ran and what it said last."""
    kept = _end_of(ended)
    state = kept["state"]["terminated"]
    if "startedAt" in ended:
        state["startedAt"] = ended["startedAt"]
    if message := ended.get("message"):
        state["message"] = message[-MAX_LAST_WORDS:]
    return {**kept, **({"name": status["name"]} if "name" in status else {})}


def _started_again(status: Mapping[str, Any]) -> dict[str, Any]:
    """Of a container that is started again how it failed the last time, and how often it has."""
    state = status.get("state") or {}
    kept: dict[str, Any] = {key: status[key] for key in ("name", "restartCount") if key in status}
    if ended := state.get("terminated"):
        kept |= _failure_of(status, ended)
    elif "waiting" in state:
        kept |= waiting_part(status) or {"state": {"waiting": {}}}
    if last := (status.get("lastState") or {}).get("terminated"):
        kept["lastState"] = _failure_of({}, last)["state"]
    return kept
