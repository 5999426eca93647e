"""A step on a pod's way to running that lasts, although nothing is said to be wrong.

| the pod | the step is | since |
|---|---|---|
| has no node, and no scheduler says why | to be considered by its scheduler | it was created |
| its volumes or its network are not ready | to be prepared by its node | its condition says so |
| an init container of it runs | what that container does | it was started |

Every pod goes through the first two within seconds, so they are reported once they have lasted.
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
"""Seconds for which a step may last before it is reported. To be scheduled, to attach a disk or to
start a network's agent takes less."""
INIT_STATUSES: Final = "initContainerStatuses"
_DEFAULT_SCHEDULER: Final = "default-scheduler"
# Of a pod that no scheduler has considered: which one is to, and what may keep it back.
_SCHEDULING: Final = ("schedulerName", "resourceClaims")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stalled:
    """The step that a pod is at."""

    since: datetime
    blocker: Blocker
    """What is reported of it."""

    def left(self, now: datetime) -> float:
        """Seconds until it is reported."""
        return PATIENCE - (now - self.since).total_seconds()


def find_stalled(raw: Object) -> Stalled | None:
    """Return the step that a pod is at; None: it is at none of them, or has no time for it."""
    if _phase(raw) != "Pending":
        return None
    # A cache keeps that time of a pod that is ignored, and no condition of one that is scheduled.
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
    """Whether a pod waits for a node, and no scheduler has said anything about it."""
    if _phase(raw) != "Pending" or "deletionTimestamp" in raw["metadata"]:
        return False
    conditions = (raw.get("status") or {}).get("conditions") or ()
    is_told = any(each.get("type") == "PodScheduled" for each in conditions)
    return not is_told and not (raw.get("spec") or {}).get("nodeName")


def scheduling_part(raw: Object) -> dict[str, Any]:
    """What `find_stalled` reads of the spec of a pod that no scheduler has considered."""
    spec = raw.get("spec") or {}
    return {key: spec[key] for key in _SCHEDULING if key in spec}


def running_init_containers(raw: Object) -> Iterator[Object]:
    """Yield the statuses of the init containers that the others wait for, for a cache to keep."""
    if _phase(raw) != "Pending":
        return
    specs = (raw.get("spec") or {}).get("initContainers") or ()
    sidecars = {each.get("name") for each in specs if each.get("restartPolicy") == "Always"}
    for container in (raw.get("status") or {}).get(INIT_STATUSES) or ():
        running = (container.get("state") or {}).get("running")
        # A sidecar is waited for until it has started.
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
