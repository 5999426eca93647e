"""Plans: the new list of a job's replicas, and the changes of a request."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from di_api.annotations import annotation_patch
from di_api.changed_by import change_note
from di_api.coordinated import SUFFIX_ALPHABET, SUFFIX_LENGTH, replica_name
from di_api.names import GPU_RESOURCE
from di_api.spec import MAX_REPLICAS, Replica, Role
from di_server.coordination.checks import check_open
from di_server.coordination.gpus import split
from di_server.coordination.requests import Demand, RoleDemand
from di_server.model.job import Job
from di_server.problems import OutOfBounds


@dataclass(frozen=True, slots=True)
class Plan:
    """The complete new list, and the replicas that are added or removed."""

    replicas: tuple[Replica, ...]
    touched: tuple[Replica, ...]


class NameGenerator:
    """Generates names that are unique in the job."""

    def __init__(self, job: Job, rng: Random) -> None:
        self._job = job.ref.name
        self._rng = rng
        self._taken = {each.name for each in job.replicas}

    def new(self, role: Role) -> str:
        """Return a name for a new replica."""
        while True:
            suffix = "".join(self._rng.choices(SUFFIX_ALPHABET, k=SUFFIX_LENGTH))
            name = replica_name(self._job, role, suffix)
            if name not in self._taken:
                self._taken.add(name)
                return name


def add(job: Job, asked: Demand, names: NameGenerator, *, node_gpus: int) -> Plan:
    """Return the plan that appends the requested replicas; `node_gpus` is the usual number of GPUs
    of a node, 0 if unknown.

    Raises:
        NotNow: the job cannot be changed.
        OutOfBounds: more than MAX_REPLICAS, or no template for them.
    """
    check_open(job)
    parts = _parts(asked.learners, node_gpus)
    for role, wanted in ((Role.COLLECTOR, asked.collectors), (Role.LEARNER, asked.learners)):
        if wanted.replicas and not job.has_template(role):
            raise OutOfBounds(f"the job has no {role} template, so it can have no {role}s")
    # Counted before they are created: the refusal of a large demand must be cheap.
    pods = asked.learners.replicas * (1 + len(parts) if parts else 1)
    total = len(job.replicas) + asked.collectors.replicas + pods
    if total > MAX_REPLICAS:
        raise OutOfBounds(
            f"a job has at most {MAX_REPLICAS} replicas, aggregators and the pods of each "
            f"learner counted; this would be {total}"
        )
    made = (*_collectors(asked.collectors, names), *_learners(asked.learners, parts, names))
    return Plan((*job.replicas, *made), made)


def remove(job: Job, asked: Demand) -> Plan:
    """Return the plan that removes the newest replicas, all if there are fewer; a learner with all
    its parts.

    Raises:
        NotNow: the job cannot be changed.
    """
    check_open(job)
    left = {Role.COLLECTOR: asked.collectors.replicas, Role.LEARNER: asked.learners.replicas}
    gone: set[str] = set()
    for each in reversed(job.replicas):
        kind = Role.LEARNER if each.role is Role.AGGREGATOR else each.role
        if left.get(kind, 0) > 0:
            left[kind] -= 1
            gone.add(each.name)
    return _partition(job, gone)


def replace(job: Job, failed: Collection[str], names: NameGenerator) -> Plan:
    """Return the plan that replaces failed replicas in their places; unknown names are ignored.

    A process group cannot take a member back, and its members know their master by name: when one
    ddp learner has failed, all of its aggregator's are replaced.

    Raises:
        NotNow: the job cannot be changed.
    """
    check_open(job)
    broken = {each.aggregator for each in job.replicas if each.name in failed and each.aggregator}
    new_names = {each: names.new(Role.AGGREGATOR) for each in job.aggregators if each in failed}
    made: list[Replica] = []
    replicas: list[Replica] = []
    for each in job.replicas:
        group = each.aggregator
        if each.name in failed or (group and (group in broken or group in failed)):
            new = dataclasses.replace(
                each,
                name=new_names.get(each.name) or names.new(each.role),
                generation=each.generation + 1,
                aggregator=new_names.get(group, group) if group else None,
            )
            made.append(new)
            replicas.append(new)
        else:
            replicas.append(each)
    return Plan(tuple(replicas), tuple(made))


def is_done(job: Job, plan: Plan) -> bool:
    """Return whether the job already has the replicas that the plan adds, and none that it
    removes.
    """
    there = {each.name for each in job.replicas}
    wanted = {each.name for each in plan.replicas}
    return all((each.name in there) == (each.name in wanted) for each in plan.touched)


def patch(job: Job, plan: Plan, who: str = "") -> Sequence[dict[str, Any]]:
    """Return the JSON patch (RFC 6902) that writes the plan, and the author `who` if known; it
    fails with a conflict if the job has changed since it was read.
    """
    return [
        # The version is set and not tested: a failed test is a 422 like that of an invalid request,
        # a wrong version a 409.
        {"op": "replace", "path": "/metadata/resourceVersion", "value": job.version},
        {
            "op": "add",
            "path": "/spec/coordinated/replicas",
            "value": [each.dump() for each in plan.replicas],
        },
        *annotation_patch(job.raw, change_note(job.raw["metadata"].get("generation"), who)),
    ]


def _parts(learners: RoleDemand, node_gpus: int) -> tuple[int, ...]:
    """Return the GPUs of each ddp learner of one learner; empty for a learner that needs no
    aggregator.
    """
    return split(learners.gpus, node_gpus) if learners.replicas and learners.gpus > 1 else ()


def _collectors(wanted: RoleDemand, names: NameGenerator) -> Iterator[Replica]:
    for _ in range(wanted.replicas):
        yield _replica(Role.COLLECTOR, wanted, names)


def _learners(wanted: RoleDemand, parts: Sequence[int], names: NameGenerator) -> Iterator[Replica]:
    for _ in range(wanted.replicas):
        if not parts:
            yield _replica(Role.LEARNER, wanted, names)
            continue
        aggregator = names.new(Role.AGGREGATOR)
        yield Replica(name=aggregator, role=Role.AGGREGATOR)
        for gpus in parts:
            yield Replica(
                name=names.new(Role.DDP_LEARNER),
                role=Role.DDP_LEARNER,
                resources={**wanted.resources, GPU_RESOURCE: gpus},
                aggregator=aggregator,
            )


def _replica(role: Role, wanted: RoleDemand, names: NameGenerator) -> Replica:
    return Replica(name=names.new(role), role=role, resources=wanted.resources)


def _partition(job: Job, gone: Collection[str]) -> Plan:
    kept: list[Replica] = []
    removed: list[Replica] = []
    for each in job.replicas:
        leaves = each.name in gone or (each.aggregator is not None and each.aggregator in gone)
        (removed if leaves else kept).append(each)
    return Plan(tuple(kept), tuple(removed))
