"""The operator of zero cost: the same writes on the same schedule, and no decision.

    python -m tools.benchmarks.ceiling NAMESPACE JOB.json

It shows how fast a job can go through this API server on this machine, whatever the operator is.
It has the operator's client with as many connections, its number of workers, its limits of
concurrent creates for one job and its budget of events; the bodies are known beforehand
(`script.py`, rehearsed on the job in JOB.json). It keeps no cache, compares nothing, survives
nothing.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import uvloop

from di_api.names import LABEL_JOB, LABEL_OPERATOR, OPERATOR_NAME
from di_kube.client import KubeClient
from di_kube.config import load_config
from di_kube.resources import DIJOBS, PODS, Resource
from di_operator.cluster.event_recorder import EventRecorder
from di_operator.process.clock import SystemClock
from di_operator.process.concurrency import CONNECTIONS, Writers, spread
from tools.benchmarks.follower import is_ready
from tools.benchmarks.script import Create, Delete, Script, Step, rehearse
from tools.benchmarks.servers.stream import follow

Object = dict[str, Any]
Shape = tuple[tuple[str, int], ...]
# The operator's default of DI_OPERATOR_WORKERS.
WORKERS = 32


@dataclass(slots=True, kw_only=True)
class Life:
    """A job under way."""

    job: Object
    script: Script
    version: str
    replicas: int
    todo: deque[Step] = field(default_factory=deque)
    active: bool = False
    ready: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)
    made: dict[tuple[Resource, str], Object] = field(default_factory=dict)
    """Metadata of created objects that are deleted later; two of them share a name."""

    @property
    def name(self) -> str:
        found: str = self.job["metadata"]["name"]
        return found


class Ceiling:
    """Follows jobs and pods of a namespace and plays the script of each job."""

    def __init__(self, client: KubeClient, namespace: str, recorder: EventRecorder) -> None:
        self._client = client
        self._namespace = namespace
        self._recorder = recorder
        self._lives: dict[str, Life] = {}
        self._scripts: dict[Shape, Script] = {}
        self._queue: asyncio.Queue[Life] = asyncio.Queue()
        self._writers = Writers(monotonic=time.monotonic)

    def rehearse(self, job: Object) -> Script:
        """The script for jobs like this one."""
        shape = _shape(job)
        found = self._scripts.get(shape)
        if found is None:
            found = self._scripts[shape] = rehearse(job)
        return found

    async def run(self) -> None:
        """Work for ever; ends with the first error of any part."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._recorder.run())
            for _ in range(WORKERS):
                group.create_task(self._work())
            group.create_task(self._watch(DIJOBS))
            group.create_task(self._watch(PODS))

    async def _watch(self, resource: Resource) -> None:
        ours = f"{LABEL_OPERATOR}={OPERATOR_NAME}" if resource == PODS else None
        stream = follow(self._client, resource, self._namespace, label_selector=ours)
        async for kind, body in stream:
            if kind == "ADDED" and resource == DIJOBS:
                self._appeared(body)
            elif kind == "MODIFIED" and resource == PODS:
                self._pod(body)

    def _appeared(self, job: Object) -> None:
        life = Life(
            job=job,
            script=self.rehearse(job),
            version=job["metadata"]["resourceVersion"],
            replicas=sum(replicas for _, replicas in _shape(job)),
        )
        self._lives[job["metadata"]["name"]] = life
        self._due(life, life.script.start)

    def _pod(self, pod: Object) -> None:
        metadata = pod["metadata"]
        life = self._lives[metadata["labels"][LABEL_JOB]]
        name = metadata["name"]
        if pod["status"]["phase"] == "Succeeded":
            if name not in life.ended:
                life.ended.add(name)
                self._ready(life, name)
                if len(life.ended) == life.replicas:
                    self._due(life, life.script.end)
        elif is_ready(pod):
            self._ready(life, name)

    def _ready(self, life: Life, name: str) -> None:
        if name not in life.ready:
            life.ready.add(name)
            if len(life.ready) == life.replicas:
                self._due(life, life.script.ready)

    def _due(self, life: Life, steps: Iterable[Step]) -> None:
        life.todo.extend(steps)
        if not life.active:
            life.active = True
            self._queue.put_nowait(life)

    async def _work(self) -> None:
        while True:
            life = await self._queue.get()
            while life.todo:
                await self._take(life, life.todo.popleft())
            life.active = False

    async def _take(self, life: Life, step: Step) -> None:
        for _, batch in groupby(step.objects, key=lambda one: (type(one), one.resource)):
            await spread(
                list(batch),
                partial(self._write, life),
                in_company=partial(self._writers.has_company, life.name),
            )
        if step.status is not None:
            with self._writers.writing(life.name):
                await self._write_status(life, step.status)
        for event in step.events:
            self._recorder.emit(life.job, event)

    async def _write(self, life: Life, write: Create | Delete) -> bool:
        with self._writers.writing(life.name):
            await self._act(life, write)
        return True

    async def _act(self, life: Life, write: Create | Delete) -> None:
        metadata = life.job["metadata"]
        name, uid = metadata["name"], metadata["uid"]
        if isinstance(write, Create):
            body = life.script.fill(write.text, name=name, uid=uid)
            made = (await self._client.create(write.resource, body, self._namespace))["metadata"]
            if write.resource != PODS:
                life.made[write.resource, made["name"]] = made
        else:
            made = life.made.pop((write.resource, write.name.replace(life.script.name, name)))
            await self._client.delete(
                write.resource,
                made["name"],
                self._namespace,
                uid=made["uid"],
                resource_version=made["resourceVersion"],
            )

    async def _write_status(self, life: Life, text: str) -> None:
        metadata = life.job["metadata"]
        name, uid = metadata["name"], metadata["uid"]
        body = {
            "apiVersion": DIJOBS.api_version,
            "kind": DIJOBS.kind,
            "metadata": {
                **{"name": name, "namespace": self._namespace},
                **{"uid": uid, "resourceVersion": life.version},
            },
            "status": life.script.fill(text, name=name, uid=uid),
        }
        written = await self._client.replace(
            DIJOBS,
            name,
            body,
            self._namespace,
            subresource="status",
            field_manager=OPERATOR_NAME,
        )
        life.version = written["metadata"]["resourceVersion"]


class _Unobserved:
    """The recorder's metrics, which nobody reads here."""

    def event(self, type_: str, result: str) -> None: ...

    def anomaly(self, reason: str) -> None: ...


def _shape(job: Object) -> Shape:
    """Return the parts of a job that decide its requests; all jobs have one template."""
    return tuple((task["name"], task["replicas"]) for task in job["spec"]["tasks"])


async def _serve(namespace: str, sample: Path) -> None:
    async with KubeClient(config=load_config(None), connections=CONNECTIONS) as client:
        recorder = EventRecorder(
            client=client, clock=SystemClock(), instance="ceiling", observer=_Unobserved()
        )
        ceiling = Ceiling(client, namespace, recorder)
        ceiling.rehearse(json.loads(sample.read_text()))
        gc.collect()
        gc.freeze()
        await ceiling.run()


if __name__ == "__main__":
    # The operator's own loop: what is compared is the deciding.
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(sys.argv[1], Path(sys.argv[2])))
