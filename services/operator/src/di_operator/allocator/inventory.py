"""From the API server's objects to what the allocator reckons with. Raw dicts in, no client."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

from di_api.spec import JobSpec, Priority, Task
from di_api.wording import reason_of
from di_operator.allocator.job import JobInfo, NodeList, TaskInfo
from di_operator.allocator.node import NodeInfo, Taint, read_constraints
from di_operator.allocator.profilings import Profilings
from di_operator.allocator.resources import PODS, UNIT, Resources, largest, read_resources, total
from di_operator.lifecycle.pods import is_finished

Object = Mapping[str, Any]

_CORDONED = Taint(key="node.kubernetes.io/unschedulable")
_NOT_READY = Taint(key="node.kubernetes.io/not-ready")


class Unreadable(NamedTuple):
    """An object that cannot be read, and why; the namespace of a node is empty."""

    kind: str
    namespace: str
    name: str
    reason: str

    @classmethod
    def of(cls, kind: str, found: Object, reason: str) -> Unreadable:
        """Name an object by its metadata."""
        metadata = found["metadata"]
        return cls(kind, metadata.get("namespace", ""), metadata["name"], reason)


def read_nodes(
    nodes: Iterable[Object], pods: Iterable[Object], *, ours: Callable[[Object], bool]
) -> tuple[dict[str, NodeInfo], dict[str, Unreadable]]:
    """Return the nodes, sorted by name, with what the pods of others leave free.

    `ours` says which pods the allocator places itself; their room is its own to give. A pod that
    has ended takes no room; one that is being deleted still does.

    The second value has the nodes and pods that cannot be read, by UID: such a node is left out,
    such a pod counts as one pod without requests.
    """
    unreadable: dict[str, Unreadable] = {}
    taken: dict[str, list[Resources]] = {}
    for pod in pods:
        node = (pod.get("spec") or {}).get("nodeName")
        if not node or is_finished(pod) or ours(pod):
            continue
        request: Resources = {PODS: UNIT}
        try:
            request = pod_request(pod["spec"])
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            unreadable[pod["metadata"]["uid"]] = Unreadable.of("Pod", pod, reason_of(error))
        taken.setdefault(node, []).append(request)
    found: dict[str, NodeInfo] = {}
    for node in sorted(nodes, key=lambda node: str(node["metadata"]["name"])):
        name = node["metadata"]["name"]
        try:
            found[name] = _node(node, total(taken.get(name, ())))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            unreadable[node["metadata"]["uid"]] = Unreadable.of("Node", node, reason_of(error))
    return found, unreadable


def read_task(task: Task) -> TaskInfo:
    """Return what the allocator needs of a task. Raises ValueError for an invalid quantity."""
    spec = task.template.get("spec") or {}
    return TaskInfo(
        name=task.name,
        type=task.type,
        replicas=task.replicas,
        minimum=task.replicas if task.min_replicas is None else task.min_replicas,
        maximum=task.replicas if task.max_replicas is None else task.max_replicas,
        resources=pod_request(spec),
        constraints=read_constraints(spec),
    )


def read_job(
    job: Object,
    spec: JobSpec,
    *,
    report: Profilings | None,
    held: NodeList,
    attained: float,
    now: datetime,
) -> JobInfo:
    """Return what policies may know of a DIJob that `held` nodes for `attained` replica-seconds.

    A report that is stale still says how fast the job is on what it has, so its learners keep
    their number at most: nobody knows whether more would be of any use. Raises ValueError for an
    invalid quantity in a template.
    """
    tasks = tuple(read_task(task) for task in spec.tasks)
    if report is not None and report.is_stale(now) and held:
        tasks = tuple(_not_above(task, len(held.task(task.name))) for task in tasks)
    metadata, status = job["metadata"], job.get("status") or {}
    created = datetime.fromisoformat(metadata["creationTimestamp"])
    return JobInfo(
        key=f"{metadata['namespace']}/{metadata['name']}",
        tasks=tasks,
        preemptible=spec.preemptible,
        gang=spec.scheduling.gang,
        priority=int(spec.priority is Priority.HIGH),
        # A clock that was set back makes no job younger than new.
        age=max(0.0, (now - created).total_seconds()),
        attained=attained,
        restarts=int(status.get("reschedules") or 0),
        model=report.model() if report else None,
        collecting=report.collecting() if report else None,
        explored=report.explored() if report else 0,
        remaining=report.remaining(now) if report else None,
    )


def _not_above(task: TaskInfo, count: int) -> TaskInfo:
    if task.comes_and_goes:
        return task
    return replace(task, maximum=max(task.minimum, min(count, task.maximum)))


def pod_request(spec: Object) -> dict[str, int]:
    """What a pod takes from its node, by the scheduler's rule.

    The containers together with the sidecars, or what an init container needs beside the
    sidecars that started before it, if that is more; plus the runtime's overhead; plus one pod.
    Requests of the pod itself take the place of its containers'.
    """
    running = total(_request(container) for container in spec.get("containers") or ())
    sidecars: dict[str, int] = {}
    peaks: list[Resources] = []
    for container in spec.get("initContainers") or ():
        request = _request(container)
        if container.get("restartPolicy") == "Always":
            sidecars = total((sidecars, request))
            peaks.append(sidecars)
        else:
            peaks.append(total((sidecars, request)))
    result = largest((total((running, sidecars)), *peaks))
    result |= _request(spec)
    result = total((result, read_resources(spec.get("overhead"))))
    result[PODS] = UNIT
    return result


def _request(container: Object) -> dict[str, int]:
    resources = container.get("resources") or {}
    # What has a limit only requests that much. The API server writes it so into pods, but not
    # into the pod template of a job.
    return read_resources({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def _node(node: Object, taken: Resources) -> NodeInfo:
    name = node["metadata"]["name"]
    allocatable = read_resources((node.get("status") or {}).get("allocatable"))
    return NodeInfo(
        name=name,
        total=allocatable,
        free={
            resource: max(0, amount - taken.get(resource, 0))
            for resource, amount in allocatable.items()
        },
        labels={**(node["metadata"].get("labels") or {}), "metadata.name": name},
        taints=tuple(_taints(node)),
    )


def _taints(node: Object) -> Iterable[Taint]:
    spec = node.get("spec") or {}
    found = {
        Taint(key=taint["key"], value=taint.get("value") or "", effect=taint["effect"])
        for taint in spec.get("taints") or ()
    }
    # The node controller turns these into taints, but seconds after the fact.
    if spec.get("unschedulable"):
        found.add(_CORDONED)
    conditions = (node.get("status") or {}).get("conditions") or ()
    if any(c.get("type") == "Ready" and c.get("status") != "True" for c in conditions):
        found.add(_NOT_READY)
    return sorted(found, key=lambda taint: (taint.key, taint.value, taint.effect))
