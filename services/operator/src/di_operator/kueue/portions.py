"""What of a job is admitted as one, and what comes and goes by itself.

The core is what the job cannot do without. Each replica beyond it is a Workload of its own: it is
admitted when there is quota left, and evicted before any core.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from di_api.spec import JobSpec, Role, Task, Template

HEADROOM: Final = 2
"""Replicas of a task of a preemptible job that are asked for beyond those it has: the allocator
grows into what is admitted. What it leaves is held for nothing, so they are few."""
MAX_POD_SETS: Final = 18
"""Of one Workload, by the rules of Kueue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Portion:
    """A group of equal replicas: how many belong to the core, and how many may come beside."""

    task: Task
    base: int
    """Replicas in the core."""
    least: int
    """Replicas that the core may be admitted with."""
    extras: int
    """Replicas beyond the core that are asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSet:
    """A podSet of a Workload."""

    task: str
    """Whose pods they are."""
    of_leaders: bool = False
    """Whether they are the leaders of replicas, where these differ from the other pods."""
    count: int
    template: Template
    least: int | None = None
    """Pods that are enough to begin with, if that is fewer."""
    topology: Mapping[str, Any] | None = None
    """What is asked of their domains."""

    @property
    def name(self) -> str:
        """Its name. Another task may have that of leaders: then Kueue takes neither."""
        return f"{self.task}-leader" if self.of_leaders else self.task

    def body(self) -> dict[str, Any]:
        """As Kueue has it."""
        metadata = self.template.get("metadata") or {}
        kept = {key: metadata[key] for key in ("labels", "annotations") if metadata.get(key)}
        body: dict[str, Any] = {
            "name": self.name,
            "count": self.count,
            "template": {"metadata": kept, "spec": self.template.get("spec") or {}},
        }
        if self.least is not None:
            body["minCount"] = self.least
        if self.topology is not None:
            body["topologyRequest"] = dict(self.topology)
        return body


def portions_of(
    spec: JobSpec, tasks: Iterable[Task], *, placed: Mapping[str, int] | None, whole: bool
) -> tuple[Portion, ...]:
    """Divide a job; `tasks` are those of the spec, or the roles that a coordinator asks for.

    `placed` are the replicas of each task that the allocator has placed. None: nobody allocates,
    and preemptible jobs are like all others. Where the job goes to a cluster as one (`whole`), all
    is core.
    """
    if whole:
        return tuple(
            Portion(task=task, base=task.replicas, least=task.replicas, extras=0) for task in tasks
        )
    if spec.preemptible and placed is not None:
        return tuple(_of_allocated(task, placed.get(task.name, 0)) for task in tasks)
    return tuple(_portion(spec, task) for task in tasks)


def _of_allocated(task: Task, placed: int) -> Portion:
    """What Kueue has admitted is all that the allocator is given."""
    base = task.min_replicas or task.replicas
    most = max(base, task.max_replicas or task.replicas)
    extras = min(most, max(placed, base) + HEADROOM) - base
    return Portion(task=task, base=base, least=base, extras=extras)


def _portion(spec: JobSpec, task: Task) -> Portion:
    if spec.coordinated is not None:
        base = 1 if task.name == Role.COORDINATOR.value else 0
        return Portion(task=task, base=base, least=base, extras=task.replicas - base)
    if task.elastic is not None:
        base = min(task.min_replicas or task.replicas, task.replicas)
        return Portion(task=task, base=base, least=base, extras=task.replicas - base)
    least = min(task.min_replicas or task.replicas, task.replicas)
    return Portion(task=task, base=task.replicas, least=least, extras=0)


def core_pod_sets(portions: Iterable[Portion]) -> tuple[PodSet, ...]:
    """The podSets of the core, at most one of which may be admitted in part."""
    return tuple(_with_one_variable(_core_pod_sets(portions)))


def extra_pod_sets(task: Task) -> tuple[PodSet, ...]:
    """The podSets of one replica beyond the core."""
    size = task.pods_per_replica
    leader, other = task.elastic_templates
    return tuple(_by_template(task.name, leader, other, 1, size - 1))


def _core_pod_sets(portions: Iterable[Portion]) -> Iterator[PodSet]:
    for portion in portions:
        if not portion.base:
            continue
        task, size = portion.task, portion.task.pods_per_replica
        others = portion.base * (size - 1) + task.standby
        pod_sets = [
            *_by_template(task.name, task.leader_template, task.template, portion.base, others)
        ]
        if len(pod_sets) == 1 and portion.least < portion.base:
            least = portion.least * size + task.standby
            yield PodSet(
                task=task.name, count=pod_sets[0].count, template=task.template, least=least
            )
        else:
            yield from pod_sets


def _by_template(
    task: str, leader: Template, other: Template, leaders: int, others: int
) -> Iterator[PodSet]:
    if leader is other or not others:
        yield PodSet(task=task, count=leaders + others, template=leader)
        return
    yield PodSet(task=task, of_leaders=True, count=leaders, template=leader)
    yield PodSet(task=task, count=others, template=other)


def _with_one_variable(pod_sets: Iterable[PodSet]) -> Iterator[PodSet]:
    found = False
    for each in pod_sets:
        if each.least is not None and found:
            yield replace(each, least=None)
        else:
            found = found or each.least is not None
            yield each
