"""Addresses of a job's replicas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from di_api.defaults import with_defaults
from di_api.names import ANNOTATION_RANK, DI_CONTAINER, DI_PORT, DI_PORT_NAME, LABEL_TASK_NAME
from di_api.ownership import is_controlled_by
from di_api.validation import pods_per_replica
from di_server.model.pod import is_leaving
from di_server.model.tasks import check_has_tasks, place_of
from di_server.rest.tagged import Tagged
from di_service.settings import Address

MAX_RANKS: Final = 65_536
"""Maximum rank in a list: no job is nearly as large, and a rank that was edited by hand must not
make the list endless.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodsRequest:
    """A request for the pods of a task."""

    task: str
    known: frozenset[str]
    """Tags (ETags) of the lists that the caller has."""
    wait: float = 0.0
    """Seconds to wait for a new list, LONGEST_WAIT at most."""

    def is_news(self, found: Tagged) -> bool:
        """Return whether the caller does not have this list."""
        return found.tag not in self.known


def addresses(job: Mapping[str, Any], pods: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return `ip:port` by rank, "" if nothing listens: no pod, no IP yet, terminating or ended.

    The list is as long as the number of pods, or longer while a pod of a higher rank still runs.
    """
    found = {rank: _address(pod) for rank, pod in _by_rank(job, pods).items()}
    tasks = with_defaults(job["spec"]).get("tasks") or []
    wanted = sum(task["replicas"] * pods_per_replica(task) for task in tasks)
    length = max(min(wanted, MAX_RANKS), max(found, default=-1) + 1)
    return [found.get(rank, "") for rank in range(length)]


def pods_of(
    job: Mapping[str, Any], pods: Iterable[Mapping[str, Any]], task: str
) -> list[dict[str, str | int]]:
    """Return name, rank and `ip:port` of the listening pods of a task, by rank.

    Raises:
        OutOfBounds: the job has no such task, or no tasks.
    """
    check_has_tasks(job)
    place_of(with_defaults(job["spec"]).get("tasks") or [], task)
    return [
        {"pod": pod["metadata"]["name"], "rank": rank, "address": address}
        for rank, pod in sorted(_by_rank(job, pods).items())
        if (pod["metadata"].get("labels") or {}).get(LABEL_TASK_NAME) == task
        if (address := _address(pod))
    ]


def _by_rank(
    job: Mapping[str, Any], pods: Iterable[Mapping[str, Any]]
) -> dict[int, Mapping[str, Any]]:
    return {
        rank: pod
        for pod in pods
        if is_controlled_by(pod, job["metadata"]["uid"])
        if not is_leaving(pod)
        if (rank := _rank(pod)) is not None
    }


def _rank(pod: Mapping[str, Any]) -> int | None:
    text = (pod["metadata"].get("annotations") or {}).get(ANNOTATION_RANK, "")
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        return None
    rank = int(text)
    return rank if rank < MAX_RANKS else None


def _address(pod: Mapping[str, Any]) -> str:
    ip = (pod.get("status") or {}).get("podIP")
    if not ip:
        return ""
    return str(Address(host=ip, port=_port(pod)))


def _port(pod: Mapping[str, Any]) -> int:
    for container in pod["spec"]["containers"]:
        if container["name"] == DI_CONTAINER:
            for port in container.get("ports") or ():
                if port.get("name") == DI_PORT_NAME:
                    number: int = port["containerPort"]
                    return number
    return DI_PORT
