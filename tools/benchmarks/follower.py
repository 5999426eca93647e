"""A bystander's view: when which job and its pods were seen in which state."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

from di_kube.client import KubeClient
from di_kube.resources import PODS, Resource
from tests.waiting import wait_until_async
from tools.benchmarks.servers.stream import follow
from tools.benchmarks.workloads import DIJOB, JobType

Object = dict[str, Any]


@dataclass(slots=True)
class Seen:
    """One job; moments are seconds of the monotonic clock.

    `pods` has the moment each pod appeared, `ready` that of each pod's readiness, `phases` that
    of the first sight of each phase.
    """

    pods: dict[str, float] = field(default_factory=dict)
    ready: dict[str, float] = field(default_factory=dict)
    phases: dict[str, float] = field(default_factory=dict)


class Follower:
    """Watches jobs and pods of one namespace; use it as an async context manager.

    It keeps moments only, not objects: it shares the machine with what it measures.
    """

    def __init__(self, client: KubeClient, namespace: str, *, job_type: JobType = DIJOB) -> None:
        self._client = client
        self._namespace = namespace
        self._job_type = job_type
        self._tasks: list[asyncio.Task[None]] = []
        self.jobs: dict[str, Seen] = {}
        self.finished: dict[str, float] = {}
        """When each finished job was seen so, in that order."""
        self.on_finished: Callable[[], None] = lambda: None

    async def __aenter__(self) -> Self:
        for resource, note in ((self._job_type.resource, self._on_job), (PODS, self._on_pod)):
            begun = asyncio.Event()
            self._tasks.append(asyncio.create_task(self._follow(resource, note, begun)))
            await asyncio.wait_for(begun.wait(), 20)
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def seen(self, name: str) -> Seen:
        """What was seen of a job so far."""
        found = self.jobs.get(name)
        if found is None:
            found = self.jobs[name] = Seen()
        return found

    async def until(self, predicate: Callable[[], bool], deadline: float, *, what: str) -> None:
        """Wait for something seen.

        Raises:
            AssertionError: it was not after `deadline` seconds.
            ApiError: a watch has failed for good.
        """
        await wait_until_async(lambda: self._check() and predicate(), deadline, what=what)

    def _check(self) -> bool:
        """Raise what ended a watch, lest everybody waits for its news in vain."""
        for task in self._tasks:
            if task.done():
                task.result()
        return True

    async def _follow(
        self, resource: Resource, note: Callable[[str, Object], None], begun: asyncio.Event
    ) -> None:
        async for kind, body in follow(self._client, resource, self._namespace):
            if kind == "BOOKMARK":
                begun.set()
            else:
                note(kind, body)

    def _on_job(self, _: str, body: Object) -> None:
        phase = self._job_type.phase(body)
        if phase is None:
            return
        name = body["metadata"]["name"]
        now = time.monotonic()
        self.seen(name).phases.setdefault(phase, now)
        if phase in ("Succeeded", "Failed") and name not in self.finished:
            self.finished[name] = now
            self.on_finished()

    def _on_pod(self, kind: str, body: Object) -> None:
        metadata = body["metadata"]
        job = (metadata.get("labels") or {}).get(self._job_type.label)
        if job is None:
            return
        name = metadata["name"]
        seen = self.seen(job)
        if kind == "ADDED":
            seen.pods.setdefault(name, time.monotonic())
        elif name not in seen.ready and is_ready(body):
            seen.ready[name] = time.monotonic()


def is_ready(pod: Object) -> bool:
    """Whether the pod's condition Ready is True."""
    return any(
        one["type"] == "Ready" and one["status"] == "True"
        for one in (pod.get("status") or {}).get("conditions") or ()
    )
