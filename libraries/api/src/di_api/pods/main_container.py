"""How a replica stands: its main container decides, whatever its other containers do.

All that judges a pod asks here, and not the pod's phase: the kubelet's phase waits until every
container has ended, so a sidecar that runs on would hide the end of the program. Pods may be of any
shape.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from di_api.field_error import items, mapping
from di_api.names import DI_CONTAINER

Object = Mapping[str, Any]
ContainerT = TypeVar("ContainerT", bound=Object)

CONTAINERS: Final = "containerStatuses"
"""Field of a pod's status: the containers that run until the pod ends."""
ALL_CONTAINERS: Final = ("initContainerStatuses", CONTAINERS)
"""The same, and before it that of the init containers, in the order in which they start."""
ENDED: Final = ("Succeeded", "Failed")
"""Phases of a pod, or of its replica, that has ended."""


def main_container(containers: Sequence[ContainerT]) -> ContainerT | None:
    """Return the container that is the program: `di-container`, or else the first."""
    named = (each for each in containers if each.get("name") == DI_CONTAINER)
    return next(named, containers[0] if containers else None)


def main_status(pod: Object) -> Object | None:
    """Return the status of a pod's main container; None: it has none (yet)."""
    statuses = _statuses(pod)
    if not statuses:
        return None
    main = main_container([mapping(each) for each in items(mapping(pod.get("spec")).get(_SPECS))])
    if main is None or "name" not in main:
        # A spec that was not kept: of several the name is known all the same.
        return main_container(statuses)
    if len(statuses) == 1 and "name" not in statuses[0]:
        return statuses[0]
    return next((each for each in statuses if each.get("name") == main["name"]), None)


def phase_of(pod: Object) -> str:
    """Return the phase of the replica: the pod's, or how its main container has ended for good.

    An end of the pod as a whole comes first: the kubelet gives it a reason (an eviction, a
    deadline), the control plane the condition DisruptionTarget. What the program makes of its
    SIGTERM then is neither success nor failure. While all containers have ended and the phase does
    not show it yet, that reason is still to come.
    """
    status = mapping(pod.get("status"))
    phase = str(status.get("phase") or "Pending")
    if not status.get(CONTAINERS) or not _has_several(pod):
        return phase
    ended = main_end(pod)
    if ended is None or phase == "Succeeded":
        return phase
    if phase == "Failed":
        return phase if ended.get("exitCode") != 0 or _ended_as_a_whole(status) else "Succeeded"
    if not _others_go_on(pod):
        return phase
    return "Succeeded" if ended.get("exitCode") == 0 else "Failed"


def main_end(pod: Object) -> Object | None:
    """Return how the main container has ended for good; None: it has not."""
    status = main_status(pod)
    if status is None or not (ended := _end_of(status)):
        return None
    has_ended = mapping(pod.get("status")).get("phase") in ENDED
    return ended if has_ended or _stays_ended(pod, status) else None


def ended_beside_main(pod: Object) -> tuple[Object, Object] | None:
    """Return the first other container that has ended for good while the main one goes on, and how.

    None: there is none. Init containers end before the main container starts, and are none of them.
    """
    status = mapping(pod.get("status"))
    if status.get("phase") in ENDED or not status.get(CONTAINERS) or not _has_several(pod):
        return None
    main = main_status(pod)
    if main is not None and _end_of(main):
        return None
    for each in _statuses(pod):
        if each is not main and (ended := _end_of(each)) and _stays_ended(pod, each):
            return each, ended
    return None


def has_begun(pod: Object) -> bool:
    """Return whether any container of a pod shows that it ran, init containers included.

    One that the kubelet gives up before it ran has an end without times.
    """
    for each in all_statuses(pod):
        state = mapping(each.get("state"))
        ended = mapping(state.get("terminated"))
        if "running" in state or (ended and ended.get("finishedAt", "") is not None):
            return True
        if each.get("restartCount") or mapping(each.get("lastState")).get("terminated"):
            return True
    return False


def was_rejected(pod: Object) -> bool:
    """Return whether a pod failed before any of its containers ran, whatever the reason's name.

    Its kubelet refused it, or ended it while it waited: that says nothing about its program.
    """
    return mapping(pod.get("status")).get("phase") == "Failed" and not has_begun(pod)


def main_first(pod: Object) -> Iterator[Object]:
    """Yield the statuses of all containers of a pod, that of the main container first."""
    main = main_status(pod)
    if main is not None:
        yield main
    yield from (each for each in all_statuses(pod) if each is not main)


def all_statuses(pod: Object) -> Iterator[Object]:
    """Yield the statuses of all containers of a pod, those of init containers first."""
    status = mapping(pod.get("status"))
    for kind in ALL_CONTAINERS:
        yield from map(mapping, items(status.get(kind)))


_SPECS: Final = "containers"


def _has_several(pod: Object) -> bool:
    return len(items(mapping(pod.get("spec")).get(_SPECS))) > 1


def _statuses(pod: Object) -> list[Object]:
    return [mapping(each) for each in items(mapping(pod.get("status")).get(CONTAINERS))]


def _end_of(status: Object) -> Object:
    return mapping(mapping(status.get("state")).get("terminated"))


def _stays_ended(pod: Object, status: Object) -> bool:
    """Whether the kubelet does not start a container again that has ended."""
    spec = mapping(pod.get("spec"))
    containers = map(mapping, items(spec.get(_SPECS)))
    own = next((each for each in containers if each.get("name") == status.get("name")), {})
    match own.get("restartPolicy") or spec.get("restartPolicy"):
        case "Never":
            return "restartPolicyRules" not in own
        case "OnFailure":
            return _end_of(status).get("exitCode") == 0
        case _:
            return False


def _ended_as_a_whole(status: Object) -> bool:
    return bool(status.get("reason")) or any(
        mapping(each).get("type") == "DisruptionTarget" and mapping(each).get("status") == "True"
        for each in items(status.get("conditions"))
    )


def _others_go_on(pod: Object) -> bool:
    ended = sum(bool(_end_of(each)) for each in _statuses(pod))
    return ended < len(items(mapping(pod.get("spec")).get(_SPECS)))
