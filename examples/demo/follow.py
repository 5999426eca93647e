"""Following one job through the API until it has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from di_api.phase import Phase
from di_kube.client import KubeClient
from di_kube.config import KubeConfig
from di_kube.errors import ApiError, Gone
from di_kube.resources import EVENTS, Resource
from examples.demo.records import record_of

Job = dict[str, Any]


@dataclass(slots=True)
class View:
    """What was last shown of a job; a new look yields a line for each thing that changed."""

    phase: str = ""
    ready: str = ""
    counts: dict[str, int] = field(default_factory=dict)
    trouble: str = ""
    value: float = 0.0
    history: list[str] = field(default_factory=list)

    def changes(self, job: Job) -> Iterator[str]:
        """Describe in lines what is new in this version of the job."""
        status = job.get("status", {})
        phase = status.get("phase", "")
        counts = _counts(job)
        for kind, count in counts.items():
            before = self.counts.get(kind, count)
            # What an ended job has no more it did not give back.
            if count != before and not _has_ended(job):
                yield f"{kind}s: {before} -> {count} (the job asked di-server)"
        self.counts = counts
        ready = ""
        if "replicas" in status:
            ready = f"{status.get('readyReplicas', 0)}/{status['replicas']} pods ready"
        if phase and phase != self.phase:
            self.history.append(_phase_line(status, phase))
        if phase and (phase, ready) != (self.phase, self.ready):
            self.phase, self.ready = phase, ready
            yield f"{phase:<12} {ready}".rstrip()
        trouble = _trouble(status, phase)
        if trouble and trouble != self.trouble:
            yield trouble
        self.trouble = trouble
        record = record_of(status.get("profilings", {}))
        if record and record.value >= self.value + record.notable:
            self.value = record.value
            yield record.sentence()

    def standing(self) -> Iterator[str]:
        """Describe what has not changed for a while; nothing of a job that was never looked at."""
        if self.phase:
            yield f"still {self.phase}, {self.ready}".rstrip(", ")


def _trouble(status: Job, phase: str) -> str:
    """Why the job is in its phase, where that is not the phase's own reason."""
    for condition in status.get("conditions", []):
        if condition["type"] == phase and not condition["reason"].startswith("Job"):
            return f"{condition['reason']}: {condition['message']}"
    return ""


def _counts(job: Job) -> dict[str, int]:
    """How many replicas of each kind are asked for; of a job with a coordinator, are there."""
    spec = job["spec"]
    if "tasks" in spec:
        return {t.get("name") or t["type"]: t.get("replicas", 1) for t in spec["tasks"]}
    found = job.get("status", {}).get("replicaStatus", {})
    return {role.lower(): counts.get("active", 0) for role, counts in found.items()}


async def follow(
    config: KubeConfig,
    *,
    resource: Resource,
    namespace: str,
    name: str,
    show: Callable[[str], None],
    seconds: float,
) -> tuple[Job, list[str]]:
    """Watch a job until it has succeeded or failed; returns it and a line for each phase seen.

    `resource` says in which version the job is looked at.

    Raises:
        TimeoutError: it has not ended after `seconds`.
        ApiError: the API server refuses to show the job.
    """
    view = View()
    async with asyncio.timeout(seconds), KubeClient(config=config) as client:
        while True:
            job = await client.get(resource, name, namespace)
            # The watch ends after a minute, in which much may have been shown, or nothing.
            for line in list(view.changes(job)) or view.standing():
                show(line)
            if _has_ended(job):
                return job, view.history
            try:
                stream = client.watch(
                    resource,
                    namespace,
                    resource_version=job["metadata"]["resourceVersion"],
                    field_selector=f"metadata.name={name}",
                    timeout_seconds=60,
                )
                async for kind, seen in stream:
                    if kind == "BOOKMARK":
                        continue
                    for line in view.changes(seen):
                        show(line)
                    if _has_ended(seen):
                        return seen, view.history
            except Gone:
                continue


def _has_ended(job: Job) -> bool:
    phase = job.get("status", {}).get("phase")
    return phase in (Phase.SUCCEEDED, Phase.FAILED)


async def events(config: KubeConfig, *, namespace: str, uid: str) -> list[str]:
    """The events of the job with this UID, oldest first, a line each; none if they cannot be read.

    An earlier job of the same name has left its events, which are not of interest.
    """
    async with KubeClient(config=config) as client:
        try:
            found, _ = await client.list(
                EVENTS, namespace, field_selector=f"involvedObject.uid={uid}"
            )
        except ApiError:
            return []
    found.sort(key=lambda event: event.get("firstTimestamp") or event["metadata"]["name"])
    return [f"{event['reason']}: {event['message']}" for event in found]


def _phase_line(status: Job, phase: str) -> str:
    """When a phase began, and the message of its condition."""
    for condition in status.get("conditions", []):
        if condition["type"] == phase:
            return f"{condition['lastTransitionTime']}  {phase:<12} {condition['message']}"
    return f"{'':20}  {phase}"
