"""Where the replicas of a job listen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from di_api.defaults import with_defaults
from di_api.names import ANNOTATION_RANK, DI_CONTAINER, DI_PORT, DI_PORT_NAME
from di_api.ownership import is_controlled_by
from di_api.validation import pods_per_replica
from di_server.model.pod import is_leaving

MAX_RANKS: Final = 65_536
"""No job is nearly as large; a rank edited by hand must not make the list endless."""


def addresses(job: Mapping[str, Any], pods: Iterable[Mapping[str, Any]]) -> list[str]:
    """`ip:port` by rank, "" where nothing listens: no pod, no IP yet, ending or ended.

    As long as the job is to have pods, longer while a pod of a higher rank still runs.
    """
    found = {
        rank: _address(pod)
        for pod in pods
        if is_controlled_by(pod, job["metadata"]["uid"])
        if not is_leaving(pod)
        if (rank := _rank(pod)) is not None
    }
    tasks = with_defaults(job["spec"]).get("tasks") or []
    wanted = sum(task["replicas"] * pods_per_replica(task) for task in tasks)
    length = max(min(wanted, MAX_RANKS), max(found, default=-1) + 1)
    return [found.get(rank, "") for rank in range(length)]


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
    host = f"[{ip}]" if ":" in ip else ip
    return f"{host}:{_port(pod)}"


def _port(pod: Mapping[str, Any]) -> int:
    for container in pod["spec"]["containers"]:
        if container["name"] == DI_CONTAINER:
            for port in container.get("ports") or ():
                if port.get("name") == DI_PORT_NAME:
                    number: int = port["containerPort"]
                    return number
    return DI_PORT
