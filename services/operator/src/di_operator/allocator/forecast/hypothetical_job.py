"""A job that does not exist yet, as it would be stored: the subject of a forecast. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import count
from typing import Any, Final

from di_api.conversion.versions import convert
from di_api.defaults import with_defaults
from di_api.field_error import InvalidSpec, mapping
from di_api.names import API_VERSION, KIND, pod_name
from di_api.spec import JobSpec, Priority
from di_api.validation import load_leniently, validate_job
from di_operator.allocator.model.job import JobInfo, TaskInfo
from di_operator.allocator.model.node import read_constraints
from di_operator.allocator.model.resources import Resources, pod_request
from di_operator.allocator.observe.inventory import read_job

Object = Mapping[str, Any]

COORDINATOR: Final = "coordinator"
"""Task of the only pod with which a job with a coordinator starts."""
_UNSCHEDULED: Final[Object] = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "no node fits",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A job under trial.

    Attributes:
        job: the object as it would be stored, under a name that no other job has.
        spec: its parsed spec.
    """

    job: Object
    spec: JobSpec

    @classmethod
    def of(cls, manifest: Object, *, namespace: str, now: datetime, taken: set[str]) -> Trial:
        """Return a manifest of any version as it would be admitted. A manifest with `suspend` is
        tried as if it were resumed.

        Args:
            manifest: the job; defaults are filled in as at its creation.
            namespace: its namespace if the manifest names none.
            now: aware.
            taken: names of jobs in its namespace.

        Raises InvalidSpec for a job that admission would refuse, ConversionFailed for an object
        that is not a job.
        """
        stored = convert(manifest, API_VERSION)
        metadata = mapping(stored.get("metadata"))
        name = str(metadata.get("name") or metadata.get("generateName") or "trial")
        asked = mapping(stored.get("spec"))
        spec = {**with_defaults(asked), "suspend": False}
        free = name if name not in taken else next(_others(name, taken))
        job = {
            **stored,
            "metadata": {
                **metadata,
                "name": name,
                "namespace": metadata.get("namespace") or namespace,
                "uid": f"trial of {free}",
                "generation": 1,
                "creationTimestamp": now.isoformat(),
            },
            "spec": spec,
            "status": {},
        }
        if errors := validate_job(job):
            raise InvalidSpec(tuple(errors))
        job["metadata"] = {**job["metadata"], "name": free}
        return cls(job=job, spec=load_leniently(spec))

    @property
    def uid(self) -> str:
        """Return a UID that no job of the cluster has."""
        return str(self.job["metadata"]["uid"])

    @property
    def key(self) -> str:
        """Return `<namespace>/<name>`."""
        return f"{self.job['metadata']['namespace']}/{self.job['metadata']['name']}"

    @property
    def asks_allocator(self) -> bool:
        """Return whether an allocator, if one is enabled, decides on the job."""
        return self.spec.preemptible or self.spec.scheduling.gang

    @property
    def is_high(self) -> bool:
        """Return whether the job has the highest priority."""
        return self.spec.priority is Priority.HIGH

    def raised(self) -> Trial:
        """Return the same job with high priority."""
        return Trial(
            job={**self.job, "spec": {**self.job["spec"], "priority": Priority.HIGH.value}},
            spec=replace(self.spec, priority=Priority.HIGH),
        )

    def refused_pods(self) -> list[Object]:
        """Return the pods of its tasks as they are once the cluster's scheduler finds no node."""
        name, size = str(self.job["metadata"]["name"]), count(1)
        names = [
            pod_name(name, task.name, index, task.pods_per_replica)
            for task in self.spec.tasks
            for index in range(task.pods)
        ]
        return [
            {
                "metadata": {
                    "name": each,
                    "namespace": self.job["metadata"]["namespace"],
                    "uid": f"{self.uid} {next(size)}",
                    "ownerReferences": [
                        {"apiVersion": API_VERSION, "kind": KIND, "uid": self.uid}
                        | {"name": name, "controller": True}
                    ],
                },
                "spec": {},
                "status": {"phase": "Pending", "conditions": [_UNSCHEDULED]},
            }
            for each in names
        ]

    def info(self) -> JobInfo:
        """Return what the job requests; for a job with a coordinator only that pod.

        Raises ValueError for an invalid quantity.
        """
        info = read_job(self.job, self.spec, report=None).info
        if self.spec.coordinated is None:
            return info
        pod = mapping(self.spec.coordinated.coordinator.template).get("spec") or {}
        return replace(info, tasks=(_one(COORDINATOR, pod_request(pod), pod),))


def _one(name: str, resources: Resources, pod: Object) -> TaskInfo:
    return TaskInfo(
        name=name,
        replicas=1,
        minimum=1,
        maximum=1,
        resources=resources,
        constraints=read_constraints(pod),
    )


def _others(name: str, taken: set[str]) -> Iterator[str]:
    return (each for number in count(2) if (each := f"{name}-{number}") not in taken)
