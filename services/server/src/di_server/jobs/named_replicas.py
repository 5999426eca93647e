"""Replicas to remove, by their names or those of their pods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from di_api.indexes.replicas import indexes
from di_api.names import pod_name
from di_api.stand_ins import StandIns, read_stand_ins, serving_pod
from di_api.validation import pods_per_replica
from di_server.problems import OutOfBounds


def named_replicas(
    job: Mapping[str, Any],
    tasks: Sequence[Mapping[str, Any]],
    names: Sequence[str],
    task: str | None,
) -> tuple[int, frozenset[int]]:
    """Return the index of the task whose replicas have these names, and the indexes of the
    replicas.

    `task` is the requested task, None: any.

    Raises:
        OutOfBounds: a name is not that of a wanted replica, two names mean the same one, or they
            belong to several tasks.
    """
    own = job["metadata"]["name"]
    stand_ins = read_stand_ins(own, job.get("status"))
    known = {
        name: (place, replica)
        for place, each in enumerate(tasks)
        if task in (None, each.get("name"))
        for replica in indexes(each["replicas"], each.get("vacant") or ())
        for name in _names(own, each, replica, stand_ins)
    }
    found = dict[tuple[int, int], str]()
    for name in names:
        if name not in known:
            whose = "this job" if task is None else f"task {task}"
            raise OutOfBounds(f"{whose} has no replica or pod {name}")
        if (before := found.get(known[name])) is not None:
            raise OutOfBounds(f"{before} and {name} are one replica, which is to be named once")
        found[known[name]] = name
    places = {place for place, _ in found}
    if len(places) != 1:
        among = ", ".join(str(tasks[place]["name"]) for place in sorted(places))
        raise OutOfBounds(f"names must be of one task, and are of {among}")
    return places.pop(), frozenset(replica for _, replica in found)


def _names(job: str, task: Mapping[str, Any], replica: int, stand_ins: StandIns) -> set[str]:
    size = pods_per_replica(task)
    first = replica * size
    pods = {pod_name(job, task["name"], first + place, size) for place in range(size)}
    served = serving_pod(job, task["name"], replica, stand_ins)
    return {pod_name(job, task["name"], replica), served, *pods}
