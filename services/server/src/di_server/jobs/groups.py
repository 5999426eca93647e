"""Members of a process group, from a job's status."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from di_api.defaults import with_defaults
from di_api.field_error import InvalidSpec, mapping
from di_api.names import pod_fqdn
from di_api.spec import FailurePolicy
from di_api.spec.reading import read
from di_api.stand_ins import read_stand_ins, serving_pod
from di_api.status.groups import GroupState, GroupStatus, has_group, read_groups
from di_api.validation.size import pods_per_replica
from di_server.model.tasks import check_has_tasks, place_of
from di_server.problems import OutOfBounds


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRequest:
    """A request for the group of a task."""

    task: str
    known: int | None = None
    """The generation that the caller has."""
    wait: float = 0.0
    """Seconds to wait for another one, LONGEST_WAIT at most."""

    def is_news(self, status: GroupStatus) -> bool:
        """Return whether there is a world that the caller does not have.

        Not only a later one: a status that was deleted counts from the beginning.
        """
        return status.state is GroupState.FORMED and status.generation != self.known


def group_of(job: Mapping[str, Any], task: str) -> GroupStatus:
    """Return the group of a task.

    Raises:
        OutOfBounds: there is no such task, or its pods have no group.
    """
    check_has_tasks(job)
    _group(job, task)
    return read_groups(job.get("status")).get(task) or GroupStatus(members={})


def described(job: Mapping[str, Any], task: str, service_domain: str) -> dict[str, Any]:
    """Return the data of the response; a rank is the index among the members. Raises as
    `group_of`.
    """
    status = group_of(job, task)
    name, namespace = job["metadata"]["name"], job["metadata"]["namespace"]
    stand_ins = read_stand_ins(name, job.get("status"))
    members = []
    for rank, index in enumerate(status.world):
        pod = serving_pod(name, task, index, stand_ins)
        address = pod_fqdn(pod, name, namespace, service_domain)
        members.append({"index": index, "rank": rank, "pod": pod, "address": address})
    return {
        "generation": status.generation,
        "state": status.state.value,
        "worldSize": len(members) * _group(job, task).get("processesPerReplica", 1),
        "masterAddress": members[0]["address"] if members else "",
        "members": members,
    }


def _group(job: Mapping[str, Any], task: str) -> Mapping[str, Any]:
    tasks = with_defaults(job["spec"]).get("tasks") or []
    found = tasks[place_of(tasks, task)]
    group, pods = found.get("processGroup"), pods_per_replica(found)
    if has_group(
        task, has_process_group=group is not None, pods_per_replica=pods, policy=_policy(job)
    ):
        return mapping(group)
    if pods > 1:
        raise OutOfBounds(
            f"task {task} has no process group of its own: each of its replicas is one, of "
            f"{pods} pods, which are told of each other in their environment"
        )
    raise OutOfBounds(
        f"task {task} has no process group; it needs a processGroup, if an empty one, or a "
        "rule of the failurePolicy with RestartInPlace"
    )


def _policy(job: Mapping[str, Any]) -> FailurePolicy | None:
    try:
        return read(FailurePolicy, mapping(job["spec"].get("failurePolicy")), "spec.failurePolicy")
    except InvalidSpec:
        # The operator cannot parse it either: it forms no group.
        return None
