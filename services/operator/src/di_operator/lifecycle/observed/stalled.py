"""Startup steps of a pod that take too long although its status reports no problem.

| the pod | the step | since |
|---|---|---|
| has no node, and no scheduler says why | to be considered by its scheduler | it was created |
| its volumes or its network are not ready | to be prepared by its node | its condition says so |
| an init container of it runs | what that container does | it was started |

Every pod passes the first two within seconds, so a step is reported only once it has lasted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from di_api.timestamps import format_time
from di_operator.lifecycle.observed.blockers import MAX_TEXT, Blocker, unprepared
from di_operator.lifecycle.vocabulary.reasons import Reason
from di_operator.lifecycle.vocabulary.timestamps import parse_time

Object = Mapping[str, Any]

PATIENCE: Final = 60
"""Seconds that a step may take before it is reported: more than scheduling, attaching a disk or
starting a network agent needs.
"""
INIT_STATUSES: Final = "initContainerStatuses"
_DEFAULT_SCHEDULER: Final = "default-scheduler"
# Fields of a pod that no scheduler has considered: the scheduler's name and possible obstacles.
_SCHEDULING: Final = ("schedulerName", "resourceClaims")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stalled:
    """The startup step that a pod is at."""

    since: datetime
    blocker: Blocker
    """The report for this step."""

    def left(self, now: datetime) -> float:
        """Return the seconds until it is reported."""
        return PATIENCE - (now - self.since).total_seconds()


def find_stalled(raw: Object) -> Stalled | None:
    """Return the startup step that a pod is at; None if there is none, or no time is
    known for it.
    """
    if _phase(raw) != "Pending":
        return None
    # A cache keeps this time for pods that no scheduler has considered, and drops the condition of
    # scheduled ones.
    since = parse_time(raw["metadata"].get("creationTimestamp"))
    if since is not None and is_ignored(raw):
        spec = raw.get("spec") or {}
        scheduler = spec.get("schedulerName") or _DEFAULT_SCHEDULER
        what = f"its scheduler, {scheduler}, has not considered it"
        return _stalled(since, Reason.UNSCHEDULABLE, what, _of_claims(spec))
    status = raw.get("status") or {}
    since = parse_time((unprepared(status) or {}).get("lastTransitionTime"))
    if since is not None:
        what = "its volumes or its network (ContainerCreating) have not been ready on its node"
        advice = f"kubectl describe pod {raw['metadata']['name']} says why"
        return _stalled(since, Reason.CONTAINER_CREATING, what, advice)
    for container in running_init_containers(raw):
        since = parse_time(container["state"]["running"].get("startedAt"))
        if since is not None:
            what = f"init container {container.get('name', '')} has been running"
            return _stalled(since, Reason.INIT_CONTAINER_RUNNING, what)
    return None


def is_ignored(raw: Object) -> bool:
    """Return whether a pod waits for a node and no scheduler has reported on it."""
    if _phase(raw) != "Pending" or "deletionTimestamp" in raw["metadata"]:
        return False
    conditions = (raw.get("status") or {}).get("conditions") or ()
    is_told = any(each.get("type") == "PodScheduled" for each in conditions)
    return not is_told and not (raw.get("spec") or {}).get("nodeName")


def scheduling_part(raw: Object) -> dict[str, Any]:
    """Return the part of an unconsidered pod's spec that `find_stalled` reads."""
    spec = raw.get("spec") or {}
    return {key: spec[key] for key in _SCHEDULING if key in spec}


def running_init_containers(raw: Object) -> Iterator[Object]:
    """Yield the statuses of running init containers that block the others, for a cache to keep."""
    if _phase(raw) != "Pending":
        return
    specs = (raw.get("spec") or {}).get("initContainers") or ()
    sidecars = {each.get("name") for each in specs if each.get("restartPolicy") == "Always"}
    for container in (raw.get("status") or {}).get(INIT_STATUSES) or ():
        running = (container.get("state") or {}).get("running")
        # A sidecar blocks the others until it has started.
        is_up = container.get("name") in sidecars and container.get("started") is not False
        if running is not None and not is_up:
            kept = {"startedAt": running["startedAt"]} if "startedAt" in running else {}
            yield {"name": container.get("name", ""), "state": {"running": kept}}


def _stalled(since: datetime, reason: Reason, what: str, advice: str = "") -> Stalled:
    message = f"{what} since {format_time(since)}{'; ' if advice else ''}{advice}"
    return Stalled(since=since, blocker=Blocker(reason=reason, message=message[:MAX_TEXT]))


def _of_claims(spec: Object) -> str:
    claims = ", ".join(map(_claim, spec.get("resourceClaims") or ()))
    return f"the ResourceClaims that it needs have to exist: {claims}" if claims else ""


def _claim(claim: Object) -> str:
    template = claim.get("resourceClaimTemplateName")
    return f"of template {template}" if template else str(claim.get("resourceClaimName") or "")


def _phase(raw: Object) -> str:
    return (raw.get("status") or {}).get("phase") or "Pending"
