"""The coordinator and the replicas it asks for: as slots, and as requests for room."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from di_api.coordinated import coordinator_name
from di_api.names import LABEL_POD_NAME, LABEL_TASK_NAME
from di_api.spec import Coordinated, JobSpec, Replica, Role, Task, TaskType, Template
from di_operator.builders.containers import main_container
from di_operator.builders.replica import with_amounts
from di_operator.lifecycle.rules import Part
from di_operator.lifecycle.snapshot import Slot


def coordinated_of(spec: JobSpec) -> Coordinated:
    """Return what the spec of a job with a coordinator says about it."""
    assert spec.coordinated is not None, "the kind of a job is chosen by it"
    return spec.coordinated


def replicas_of(job: str, coordinated: Coordinated) -> tuple[Replica, ...]:
    """Return the coordinator, then what it asks for: the index of a slot is its place in here."""
    coordinator = Replica(name=coordinator_name(job), role=Role.COORDINATOR)
    return (coordinator, *coordinated.replicas)


def slots_of(
    job: str, spec: JobSpec, aggregator: Template | None
) -> tuple[tuple[Task, ...], tuple[Slot, ...]]:
    """Return one task for each role there is, and a slot for each replica.

    Without `aggregator` the template of that role is empty.
    """
    coordinated = coordinated_of(spec)
    replicas = replicas_of(job, coordinated)
    counts = Counter(replica.role for replica in replicas)
    tasks = {
        role: Task(
            name=role.value,
            type=TaskType.NONE,
            replicas=counts[role],
            template=coordinated.template(role) or (role is Role.AGGREGATOR and aggregator) or {},
        )
        for role in Role
        if counts[role]
    }
    slots = (
        Slot(
            name=replica.name,
            task=tasks[replica.role],
            part=Part.REPLICA if index else Part.COORDINATOR,
            index=index,
            labels={LABEL_TASK_NAME: replica.role.value, LABEL_POD_NAME: replica.name},
        )
        for index, replica in enumerate(replicas)
    )
    return tuple(tasks.values()), tuple(slots)


def requests_of(spec: JobSpec, pod: str) -> Mapping[str, Any]:
    """Return the containers of a pod; an aggregator's template is not known here."""
    coordinated = coordinated_of(spec)
    replica = next((each for each in coordinated.replicas if each.name == pod), None)
    template = coordinated.template(replica.role if replica else Role.COORDINATOR) or {}
    containers = [dict(each) for each in (template.get("spec") or {}).get("containers") or ()]
    main = main_container(containers)
    if main is not None and replica is not None:
        main["resources"] = with_amounts(main.get("resources") or {}, replica.resources)
    return {"containers": containers}
