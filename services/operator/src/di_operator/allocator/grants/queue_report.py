"""Usage of queues: what each namespace has of its weight, guarantee and quota. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from di_operator.allocator.model.resources import UNIT, total
from di_operator.allocator.observe.scheduling_snapshot import SchedulingSnapshot
from di_operator.allocator.sharing.queues import Queues
from di_operator.allocator.sharing.quotas import asked_by


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueState:
    """One resource of one namespace, in thousandths of the base unit.

    Attributes:
        weight: None: the default weight.
        guarantee: None: none for this resource.
        quota: None: none for this resource.
        used: by all jobs of the namespace.
    """

    namespace: str
    resource: str
    weight: float | None
    guarantee: int | None
    quota: int | None
    used: int

    @property
    def borrowed(self) -> int:
        """Return what it has beyond its guarantee, which others can reclaim; 0 without a
        guarantee.
        """
        return 0 if self.guarantee is None else max(0, self.used - self.guarantee)


def queue_states(queues: Queues, snapshot: SchedulingSnapshot) -> list[QueueState]:
    """Return the resources that any queue names, for each namespace that has a queue, in order."""
    named = [*queues.by_namespace.values()]
    resources = sorted({name for queue in named for name in (*queue.guarantee, *queue.quota)})
    used = {name: dict(snapshot.besides.get(name, {})) for name in queues.by_namespace}
    for key, held in snapshot.held.items() if resources else ():
        job = snapshot.jobs[key]
        if job.namespace in used:
            counts = {name: len(nodes) for name, nodes in held.tasks}
            used[job.namespace] = total((used[job.namespace], asked_by(job, counts)))
    return [
        QueueState(
            namespace=namespace,
            resource=resource,
            weight=queue.weight,
            guarantee=queue.guarantee.get(resource),
            quota=queue.quota.get(resource),
            used=used[namespace].get(resource, 0),
        )
        for namespace, queue in sorted(queues.by_namespace.items())
        for resource in resources
    ]


def by_amount(states: Iterable[QueueState]) -> dict[tuple[str, str, str], float]:
    """Return the amounts in base units, by namespace, resource and type of amount."""
    return {
        (state.namespace, state.resource, name): value / UNIT
        for state in states
        for name, value in (
            ("guarantee", state.guarantee),
            ("quota", state.quota),
            ("used", state.used),
            ("borrowed", state.borrowed),
        )
        if value is not None
    }
