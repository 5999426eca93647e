"""The coordinator and the replicas that it requests, as slots."""

from __future__ import annotations

from collections import Counter

from di_api.coordinated import coordinator_name
from di_api.names import LABEL_POD_NAME, LABEL_TASK_NAME
from di_api.spec import Coordinated, JobSpec, Replica, Role, Task, TaskType, Template
from di_operator.lifecycle.job_types.coordinator.requests import coordinated_of
from di_operator.lifecycle.observed.snapshot import Slot
from di_operator.lifecycle.vocabulary.rules import Part


def replicas_of(job: str, coordinated: Coordinated) -> tuple[Replica, ...]:
    """Return the coordinator and the requested replicas; a slot's index is its position here."""
    coordinator = Replica(name=coordinator_name(job), role=Role.COORDINATOR)
    return (coordinator, *coordinated.replicas)


def slots_of(
    job: str, spec: JobSpec, aggregator: Template | None
) -> tuple[tuple[Task, ...], tuple[Slot, ...]]:
    """Return one task for each role, and a slot for each replica.

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
