"""Division of a job into a core, which is admitted as one, and replicas that are admitted one by
one.

The core is what the job needs to run. Each further replica is a Workload of its own: Kueue admits
it when quota is left, and evicts it before any core.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from di_api.spec import JobSpec, Role, Task, Template

HEADROOM: Final = 2
"""Extra replicas that a task of a preemptible job requests beyond those it has. The allocator grows
into what is admitted. Quota that it leaves unused is reserved for nothing, so the number is small.
"""
MAX_POD_SETS: Final = 18
"""Maximum number of podSets of one Workload, by the rules of Kueue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Portion:
    """A group of equal replicas: how many belong to the core, and how many extra ones there
    can be.
    """

    task: Task
    base: int
    """Replicas in the core."""
    least: int
    """Minimum number of replicas with which the core can be admitted."""
    extras: int
    """Requested replicas beyond the core."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSet:
    """A podSet of a Workload."""

    task: str
    """Task of the pods."""
    of_leaders: bool = False
    """Whether the pods are the leaders of replicas, if these differ from the other pods."""
    count: int
    template: Template
    least: int | None = None
    """Minimum number of pods for partial admission; None: all are needed."""
    topology: Mapping[str, Any] | None = None
    """Topology request for the pods."""

    @property
    def name(self) -> str:
        """Return the podSet's name. If another task has the name of these leaders, Kueue rejects
        both.
        """
        return f"{self.task}-leader" if self.of_leaders else self.task

    def body(self) -> dict[str, Any]:
        """Return the podSet as Kueue's API has it."""
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
    """Divide a job into portions; `tasks` are those of the spec, or the roles that a coordinator
    requests.

    `placed` is the number of replicas of each task that the allocator has placed. None: there is no
    allocator, and preemptible jobs are like all others. If the whole job goes to one cluster
    (`whole`), everything belongs to the core.
    """
    if whole:
        return tuple(
            Portion(task=task, base=task.replicas, least=task.replicas, extras=0) for task in tasks
        )
    if spec.preemptible and placed is not None:
        return tuple(_of_allocated(task, placed.get(task.name, 0)) for task in tasks)
    return tuple(_portion(spec, task) for task in tasks)


def _of_allocated(task: Task, placed: int) -> Portion:
    """Return the portion of a preemptible job's task; the allocator can use all that Kueue
    admitted.
    """
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
    """Return the podSets of the core; at most one of them allows partial admission."""
    return tuple(_with_one_variable(_core_pod_sets(portions)))


def extra_pod_sets(task: Task) -> tuple[PodSet, ...]:
    """Return the podSets of one replica beyond the core."""
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
