"""The reason why a pod does not run, from what the scheduler and the kubelet report in its status.

A pod that runs, or is about to, has none. A table maps the waiting reasons of containers; a reason
that is not in the table is passed on in the kubelet's own words. `stalled.py` covers pods whose
status reports no problem but which take too long.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from di_api.pods.main_container import ALL_CONTAINERS, ended_beside_main
from di_operator.lifecycle.observed.in_place import ON_THE_WAY
from di_operator.lifecycle.vocabulary.reasons import Reason

Object = Mapping[str, Any]

MAX_TEXT: Final = 512
"""Maximum number of characters kept of others' messages; a registry may return a whole page."""

_WAITING: Final[Mapping[str, Reason]] = {
    # Both are one reason here: the kubelet alternates between them with every attempt.
    "ErrImagePull": Reason.IMAGE_PULL_BACK_OFF,
    "ImagePullBackOff": Reason.IMAGE_PULL_BACK_OFF,
    "ErrImageNeverPull": Reason.ERR_IMAGE_NEVER_PULL,
    "InvalidImageName": Reason.INVALID_IMAGE_NAME,
    "CreateContainerConfigError": Reason.CREATE_CONTAINER_CONFIG_ERROR,
    "CrashLoopBackOff": Reason.CRASH_LOOP_BACK_OFF,
}
BLOCKED_REASONS: Final = frozenset(
    {
        *_WAITING.values(),
        *(Reason.CONTAINER_WAITING, Reason.VOLUME_NOT_BOUND, Reason.CONTAINER_CREATING),
        *(Reason.SCHEDULING_GATED, Reason.UNSCHEDULABLE, Reason.INIT_CONTAINER_RUNNING),
        *(Reason.SIDECAR_ENDED, Reason.NODE_NOT_FOUND),
    }
)
"""Reasons that a phase has only while a pod cannot run."""
_SCHEDULED: Final = "PodScheduled"
# Kubernetes 1.29 and newer sets it. It is False from when the kubelet accepts the pod, and True
# before the first image is pulled.
_PREPARED: Final = "PodReadyToStartContainers"
_ENDED: Final = ("exitCode", "reason")
# The scheduler's message contains it only for a claim that is missing or unbound.
_OF_CLAIMS: Final = "persistentvolumeclaim"
# The scheduler's terms for nodes whose resources other pods use.
_IN_USE: Final = re.compile(r"\bInsufficient [a-z]|\bToo many pods\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocker:
    """The reason why a pod does not run, as the job's reason and as a message."""

    reason: Reason
    message: str
    what: str = "cannot run"
    """The state of the pods, to follow their number in a message."""

    @property
    def lacks_capacity(self) -> bool:
        """Return whether the scheduler finds too little free capacity on nodes for the pod."""
        return self.reason is Reason.UNSCHEDULABLE and _IN_USE.search(self.message) is not None


def find_blocker(pod: Object) -> Blocker | None:
    """Return what keeps a pod from running or from being ready; None if no cause is known."""
    status = pod.get("status") or {}
    for kind in ALL_CONTAINERS:
        for container in status.get(kind) or ():
            waiting = (container.get("state") or {}).get("waiting")
            if waiting and (reason := waiting.get("reason") or "") not in ON_THE_WAY:
                return _of_container(container, reason, waiting.get("message") or "")
    return _of_scheduling(unscheduled(status)) or _of_sidecar(pod)


def waiting_part(container: Object) -> Object | None:
    """Return the part of a container's status that `find_blocker` reads, for a cache; None if
    nothing.
    """
    waiting = (container.get("state") or {}).get("waiting") or {}
    if (waiting.get("reason") or "") in ON_THE_WAY:
        return None
    ended = (container.get("lastState") or {}).get("terminated")
    message = (waiting.get("message") or "")[:MAX_TEXT]
    kept = {key: container[key] for key in ("name", "restartCount") if key in container}
    kept["state"] = {"waiting": {"reason": waiting["reason"], "message": message}}
    if ended:
        kept["lastState"] = {"terminated": {key: ended[key] for key in _ENDED if key in ended}}
    return kept


def unscheduled(status: Object) -> Object | None:
    """Return the condition with which the scheduler explains why the pod has no node, reduced to
    the fields that are read.
    """
    conditions: Iterable[Object] = status.get("conditions") or ()
    for one in conditions:
        if one.get("type") == _SCHEDULED and one.get("status") == "False":
            kept = {key: one[key] for key in ("type", "status", "reason") if key in one}
            return {**kept, "message": (one.get("message") or "")[:MAX_TEXT]}
    return None


def unprepared(status: Object) -> Object | None:
    """Return the condition that shows how long the node has been preparing volumes and network.

    None once they are ready. A pod that has ended has them no more, and needs none.
    """
    if (status.get("phase") or "Pending") != "Pending":
        return None
    for one in status.get("conditions") or ():
        if one.get("type") == _PREPARED and one.get("status") == "False":
            kept = ("type", "status", "lastTransitionTime")
            return {key: one[key] for key in kept if key in one}
    return None


def _of_container(container: Object, waiting: str, message: str) -> Blocker:
    name = f"container {container.get('name', '')}"
    reason = _WAITING.get(waiting, Reason.CONTAINER_WAITING)
    ended = (container.get("lastState") or {}).get("terminated")
    if reason is Reason.CRASH_LOOP_BACK_OFF and ended:
        # The kubelet's message has the back-off and the pod, but not the cause.
        why = f" ({ended['reason']})" if ended.get("reason", "Error") != "Error" else ""
        times = container.get("restartCount") or 0
        text = f"{name} ended with exit code {ended.get('exitCode')}{why}, restarts: {times}"
    else:
        text = f"{name}: {waiting}: {message}" if message else f"{name}: {waiting}"
    return Blocker(reason=reason, message=text[:MAX_TEXT])


def _of_sidecar(pod: Object) -> Blocker | None:
    if (found := ended_beside_main(pod)) is None:
        return None
    container, ended = found
    why = f" ({ended['reason']})" if ended.get("reason", "Error") not in ("Error", "") else ""
    name, code = container.get("name", ""), ended.get("exitCode")
    return Blocker(
        reason=Reason.SIDECAR_ENDED,
        message=f"container {name} ended with exit code {code}{why}, the main container runs on",
        what="not complete",
    )


def _of_scheduling(condition: Object | None) -> Blocker | None:
    if condition is None:
        return None
    message = condition.get("message") or "the scheduler does not say why"
    if condition.get("reason") == "SchedulingGated":
        return Blocker(reason=Reason.SCHEDULING_GATED, message=message)
    of_claims = _OF_CLAIMS in message.lower()
    return Blocker(
        reason=Reason.VOLUME_NOT_BOUND if of_claims else Reason.UNSCHEDULABLE, message=message
    )
