"""The containers whose logs are read, and the reasons why others have none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from di_api.field_error import items, mapping
from di_api.pods.main_container import all_statuses
from di_cli.logs.read import container_of
from di_cli.views.pods import name_of, state_of

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Source:
    """A container of a pod.

    Attributes:
        pod: its name.
        container: its name.
        run: UID, container and restart count. Each run of a container has its own log.
        has_begun: whether the run has a log.
        is_one_of_many: whether lines name the container too.
        state: of the pod, such as ErrImagePull.
    """

    pod: str
    container: str
    run: tuple[str, str, int]
    has_begun: bool
    is_one_of_many: bool
    state: str

    @property
    def label(self) -> str:
        """Prefix of its lines."""
        return f"{self.pod}/{self.container}" if self.is_one_of_many else self.pod


def containers_of(pod: Object) -> list[str]:
    """The names of a pod's containers, in the order in which they run: init containers first."""
    spec = mapping(pod.get("spec"))
    return [
        str(mapping(each).get("name"))
        for kind in ("initContainers", "containers")
        for each in items(spec.get(kind))
    ]


def sources_of(
    pods: Iterable[Object], *, container: str = "", all_containers: bool = False
) -> list[Source]:
    """The containers that are meant of these pods: all of them, those of the name, or each pod's
    program. Pods that do not have the container are left out."""
    found: list[Source] = []
    for pod in pods:
        names = containers_of(pod)
        if not all_containers:
            names = [container_of(pod)] if not container else [container] * (container in names)
        found += (_source(pod, name, is_one_of_many=all_containers) for name in names)
    return found


def _source(pod: Object, container: str, *, is_one_of_many: bool) -> Source:
    status = mapping(pod.get("status"))
    uid = str(mapping(pod.get("metadata")).get("uid"))
    shown = next((each for each in all_statuses(pod) if each.get("name") == container), None)
    if shown is None:
        has_begun = status.get("phase") in ("Running", "Succeeded", "Failed")
        restarts = 0
    else:
        # One that waits to be started again has the log of its last run.
        has_begun = "waiting" not in mapping(shown.get("state")) or bool(shown.get("lastState"))
        restarts = int(shown.get("restartCount") or 0)
    return Source(
        pod=name_of(pod),
        container=container,
        run=(uid, container, restarts),
        has_begun=has_begun,
        is_one_of_many=is_one_of_many,
        state=state_of(pod),
    )
