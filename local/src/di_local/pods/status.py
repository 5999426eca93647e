"""The status of a pod, in the form of a kubelet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Object = dict[str, Any]
NODE = "this-machine"


@dataclass(slots=True)
class Container:
    """The state of one container."""

    name: str
    image: str
    is_init: bool
    state: Object = field(default_factory=lambda: waiting("PodInitializing"))
    last: Object | None = None
    ready: bool = False
    restarts: int = 0

    @property
    def code(self) -> int | None:
        """Return its final exit code; None while it runs or can restart."""
        ended = self.state.get("terminated")
        return None if ended is None else ended["exitCode"]

    def status(self) -> Object:
        """Return its entry in the pod's status."""
        return {
            "name": self.name,
            "image": self.image,
            "imageID": "",
            "ready": self.ready,
            "started": "running" in self.state,
            "restartCount": self.restarts,
            "state": self.state,
            **({"lastState": self.last} if self.last else {}),
        }


def waiting(reason: str, message: str = "") -> Object:
    """Return the state of a container that does not run yet."""
    return {"waiting": {"reason": reason, **({"message": message} if message else {})}}


def terminated(code: int, *, began: str, ended: str, message: str) -> Object:
    """Return the state of a container that has ended."""
    return {
        "terminated": {
            "exitCode": code,
            "reason": "Completed" if code == 0 else "Error",
            "startedAt": began,
            "finishedAt": ended,
            **({"message": message} if message else {}),
        }
    }


def unschedulable(why: str) -> Object:
    """Return the status of a pod that cannot be started here."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return {"phase": "Pending", "conditions": [{**condition, "message": why}]}


def pod_status(
    containers: Sequence[Container], *, before: Mapping[str, Any], address: str, now: str
) -> Object:
    """Return the status of a pod with these containers, the successor of `before`."""
    init = [each for each in containers if each.is_init]
    main = [each for each in containers if not each.is_init]
    phase = _phase(init, main)
    is_ready = phase == "Running" and all(each.ready for each in main)
    initialized = all(each.code == 0 for each in init)
    conditions = {
        "PodScheduled": True,
        "Initialized": initialized,
        "ContainersReady": is_ready,
        "Ready": is_ready,
    }
    return {
        "phase": phase,
        "startTime": before.get("startTime") or now,
        "hostIP": "127.0.0.1",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": [
            _condition(kind, state, before.get("conditions") or (), now)
            for kind, state in conditions.items()
        ],
        **({"initContainerStatuses": [each.status() for each in init]} if init else {}),
        "containerStatuses": [each.status() for each in main],
    }


def _phase(init: Sequence[Container], main: Sequence[Container]) -> str:
    if any(each.code for each in init):
        return "Failed"
    if all(each.code is not None for each in main):
        return "Failed" if any(each.code for each in main) else "Succeeded"
    # While all containers are about to start, the pod has not started; a restarted one has.
    started = any(each.restarts or "waiting" not in each.state or each.last for each in main)
    return "Running" if started else "Pending"


def _condition(kind: str, state: bool, before: Sequence[Object], now: str) -> Object:
    text = str(state)
    since = next(
        (
            each["lastTransitionTime"]
            for each in before
            if (each["type"], each["status"]) == (kind, text)
        ),
        now,
    )
    return {"type": kind, "status": text, "lastTransitionTime": since}
