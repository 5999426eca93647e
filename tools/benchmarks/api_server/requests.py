"""What each kind of request costs the API server, ours beside the rival's.

Both run a job of four pods first, and their objects are the samples. Then no operator and no
kubelet runs, and one kind of request after the other is sent many times, ours and the rival's by
turns. The API server's processor time meanwhile, less what it uses when nothing is asked of it, is
the cost: with what Kubernetes' own controllers write because of it, such as the EndpointSlice of a
Service.
"""

from __future__ import annotations

import asyncio
import copy
import itertools
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, TypedDict

from di_api.names import OPERATOR_NAME
from di_kube.client import KubeClient
from di_kube.resources import EVENTS, PODS, SERVICES, Resource
from tests.waiting import wait_until_async
from tools.benchmarks import processes, samples
from tools.benchmarks.operator.throughput import API_SERVER
from tools.benchmarks.servers.stream import follow
from tools.benchmarks.session import DEADLINE, session
from tools.benchmarks.testbed import JOB_TYPES, OPERATOR, RIVAL, Testbed

Object = dict[str, Any]
Call = Callable[[], Awaitable[object]]
_SAMPLE: Final = "sample-000000"
_REPLICAS: Final = 4
_JOBS: Final = 25
"""Jobs whose status is written by turns."""
_AT_ONCE: Final = 8
_WATCHERS: Final = 100
_VARIABLES: Final = 10_000
_OF_CONTAINER: Final = 1000
_IDLE_SECONDS: Final = 3.0
_SETTLES: Final = 1.0
"""Seconds for which controllers may still react to the last request."""
_KEPT: Final = ("name", "labels", "annotations", "ownerReferences")
_ADMITTED: Final = "kube-api-access-"
"""The volume of each pod that admission adds."""


class RequestsResult(TypedDict):
    """`milliseconds` are of the API server's processor time for one request, by kind and candidate:
    medians of rounds. `bytes` are of the objects as it returns them. `strangers` is the part of the
    machine's processor time that was used when nothing was asked of the API server."""

    count: int
    rounds: int
    strangers: float
    milliseconds: Mapping[str, Mapping[str, float]]
    bytes: Mapping[str, Mapping[str, int]]


@dataclass(slots=True, kw_only=True)
class Side:
    """A candidate's samples, and the objects made of them.

    Attributes:
        job, pod, service, event: as they are created.
        pod_status: of a pod that runs.
        statuses: of a job that starts, runs and ends.
    """

    kind: str
    client: KubeClient
    namespace: str
    job: Object
    pod: Object
    pod_status: Object
    service: Object
    event: Object
    statuses: Sequence[Object]
    sizes: Mapping[str, int]
    _numbers: itertools.count[int] = field(default_factory=itertools.count)
    _made: dict[Resource, list[str]] = field(default_factory=dict)

    @property
    def jobs(self) -> Resource:
        return JOB_TYPES[self.kind].resource

    def creates(self, resource: Resource, sample: Object, count: int) -> list[Call]:
        """Requests that create so many copies; `deletes` and `updates` are of these."""
        names = [f"copy-{next(self._numbers):06d}" for _ in range(count)]
        self._made[resource] = names
        found: list[Call] = []
        for name in names:
            body = {**sample, "metadata": {**sample["metadata"], "name": name}}
            found.append(partial(self.client.create, resource, body, self.namespace))
        return found

    def deletes(self, resource: Resource) -> list[Call]:
        return [
            partial(self.client.delete, resource, name, self.namespace, grace_period_seconds=0)
            for name in self._made.pop(resource)
        ]

    def pod_statuses(self, message: str) -> list[Call]:
        """Requests of a kubelet for all pods; another message makes each of them a change."""
        patch = {"status": {**self.pod_status, "message": message}}
        return [
            partial(self.client.patch, PODS, name, patch, self.namespace, subresource="status")
            for name in self._made[PODS]
        ]

    async def job_statuses(self, names: Sequence[str], count: int) -> list[Call]:
        """Requests that write a job's statuses in turn, to one job after the other.

        Both replace it; ours leave out the spec.
        """
        found: list[Call] = []
        for name in names:
            job = await self.client.get(self.jobs, name, self.namespace)
            writes = [partial(self._write_status, job, status) for status in self.statuses]
            each = [writes[number % len(writes)] for number in range(count // len(names))]
            found.append(partial(_in_order, each))
        return found

    async def _write_status(self, job: Object, status: Object) -> None:
        name = job["metadata"]["name"]
        if self.kind == OPERATOR:
            kept = ("name", "namespace", "uid", "resourceVersion")
            written = await self.client.replace(
                self.jobs,
                name,
                {
                    **{key: job[key] for key in ("apiVersion", "kind")},
                    "metadata": {key: job["metadata"][key] for key in kept},
                    "status": status,
                },
                self.namespace,
                subresource="status",
                field_manager=OPERATOR_NAME,
            )
        else:
            written = await self.client.replace(
                self.jobs, name, {**job, "status": status}, self.namespace, subresource="status"
            )
        job |= written


async def measure(testbed: Testbed, logs: Path, *, count: int, rounds: int) -> RequestsResult:
    """Send `count` requests of each kind in each round; `logs` gets the samples."""
    found: dict[str, dict[str, list[float]]] = {}
    async with testbed.kubelet():
        sides = [await _sampled(testbed, kind, logs) for kind in (OPERATOR, RIVAL)]
    meter = Meter(testbed.pids[API_SERVER])
    strangers = await meter.rest()
    for number in range(rounds):
        for side in sides[:: -1 if number % 2 else 1]:
            async for what, milliseconds in _round(side, meter, count, number):
                found.setdefault(what, {}).setdefault(side.kind, []).append(milliseconds)
    return {
        "count": count,
        "rounds": rounds,
        "strangers": round(strangers, 3),
        "milliseconds": {
            what: {kind: samples.median(values) for kind, values in kinds.items()}
            for what, kinds in found.items()
        },
        "bytes": {what: {side.kind: side.sizes[what] for side in sides} for what in sides[0].sizes},
    }


class Meter:
    """The processor time of a process, less what it uses at rest."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._at_rest = 0.0

    async def rest(self) -> float:
        """Find out what it uses when nothing is asked of it.

        Returns the part of the machine's processor time that all programs use then.
        """
        before, began = processes.cpu_seconds(self._pid), time.monotonic()
        machine = processes.machine_seconds()
        await asyncio.sleep(_IDLE_SECONDS)
        used = processes.cpu_seconds(self._pid) - before
        self._at_rest = used / (time.monotonic() - began)
        busy, idle = (
            end - begin for end, begin in zip(processes.machine_seconds(), machine, strict=True)
        )
        return busy / max(busy + idle, 1e-9)

    async def cost(self, calls: Sequence[Call], requests: int) -> float:
        """Send all; returns milliseconds of processor time for each of so many requests."""
        todo = iter(calls)

        async def some() -> None:
            for call in todo:
                await call()

        before, began = processes.cpu_seconds(self._pid), time.monotonic()
        async with asyncio.TaskGroup() as group:
            for _ in range(_AT_ONCE):
                group.create_task(some())
        await asyncio.sleep(_SETTLES)
        used = processes.cpu_seconds(self._pid) - before
        return 1000 * (used - self._at_rest * (time.monotonic() - began)) / requests


async def _round(
    side: Side, meter: Meter, count: int, number: int
) -> AsyncIterator[tuple[str, float]]:
    """Yield the name of each kind of request and its cost."""
    made, cost = side.creates, meter.cost
    jobs = [f"{_SAMPLE}-{number}-{each}" for each in range(_JOBS)]
    for name in jobs:
        await side.client.create(side.jobs, _named(side.job, name), side.namespace)
    unwatched = await cost(await side.job_statuses(jobs, count), count)
    yield "status of a job", unwatched
    async with _watchers(side, side.jobs):
        watched = await cost(await side.job_statuses(jobs, count), count)
    yield "event of a job for one more watch", (watched - unwatched) / _WATCHERS
    large = f"{_SAMPLE}-large-{number}"
    await side.client.create(side.jobs, _large(side.job, large), side.namespace)
    few = max(count // 50, 1)
    calls = await side.job_statuses([large], few)
    yield f"status of a job of {_VARIABLES:,} variables", await cost(calls, few)
    await side.client.delete(side.jobs, large, side.namespace)

    yield "create a pod", await cost(made(PODS, side.pod, count), count)
    unwatched = await cost(side.pod_statuses("first"), count)
    yield "status of a pod (its kubelet)", unwatched
    async with _watchers(side, PODS):
        watched = await cost(side.pod_statuses("second"), count)
    yield "event of a pod for one more watch", (watched - unwatched) / _WATCHERS
    yield "delete a pod", await cost(side.deletes(PODS), count)
    yield "create a Service", await cost(made(SERVICES, side.service, count), count)
    yield "delete a Service", await cost(side.deletes(SERVICES), count)
    yield "create an Event", await cost(made(EVENTS, side.event, count), count)


@asynccontextmanager
async def _watchers(side: Side, resource: Resource) -> AsyncIterator[None]:
    """More watches of the namespace, whose events are read and dropped."""

    async def watch(begun: asyncio.Event) -> None:
        async for kind, _ in follow(side.client, resource, side.namespace):
            if kind == "BOOKMARK":
                begun.set()

    async with AsyncExitStack() as stack:
        tasks, begun = [], [asyncio.Event() for _ in range(_WATCHERS)]
        for each in begun:
            tasks.append(asyncio.create_task(watch(each)))
            stack.callback(tasks[-1].cancel)
        await asyncio.wait_for(asyncio.gather(*(each.wait() for each in begun)), DEADLINE)
        yield
    await asyncio.gather(*tasks, return_exceptions=True)


async def _sampled(testbed: Testbed, kind: str, logs: Path) -> Side:
    """Run one job and take its objects."""
    client, jobs = testbed.client, JOB_TYPES[kind].resource
    statuses: list[Object] = []

    async def note(namespace: str) -> None:
        async for _, job in follow(client, jobs, namespace):
            if job.get("metadata", {}).get("name") == _SAMPLE and job.get("status"):
                statuses.append(job["status"])

    async with session(testbed, kind, replicas=_REPLICAS) as trial:
        watch = asyncio.create_task(note(trial.namespace))
        await trial.create(_SAMPLE, _REPLICAS, run_for=5.0)
        seen = trial.follower.seen(_SAMPLE)
        await trial.follower.until(lambda: "Running" in seen.phases, DEADLINE, what="a sample")
        services: list[Object] = []

        async def has_service() -> bool:
            found, _ = await client.list(SERVICES, trial.namespace)
            services[:] = [one for one in found if _owner(one) == _SAMPLE]
            return bool(services)

        await wait_until_async(has_service, what="its Service")
        pods, _ = await client.list(
            PODS, trial.namespace, label_selector=f"{JOB_TYPES[kind].label}={_SAMPLE}"
        )
        await trial.until_finished(_SAMPLE)
        await trial.settled()
        job = await client.get(jobs, _SAMPLE, trial.namespace)
        events, _ = await client.list(EVENTS, trial.namespace)
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)
    found = {
        "job": job,
        "pod": pods[0],
        "Service": services[0],
        "Event": events[-1],
    }
    (logs / f"samples-{kind}.json").write_text(json.dumps(found, indent=2))
    sizes = {what: len(json.dumps(one, separators=(",", ":"))) for what, one in found.items()}
    pod = _sent(found["pod"])
    admitted = [one["name"] for one in pod["spec"]["volumes"] if one["name"].startswith(_ADMITTED)]
    pod["spec"]["volumes"] = _without(pod["spec"]["volumes"], admitted)
    for container in pod["spec"]["containers"]:
        container["volumeMounts"] = _without(container.get("volumeMounts") or [], admitted)
    service = _sent(found["Service"])
    for given in ("clusterIP", "clusterIPs"):
        if service["spec"].get(given) not in ("None", ["None"]):
            service["spec"].pop(given, None)
    return Side(
        kind=kind,
        client=client,
        namespace=trial.namespace,
        job=_sent(job),
        pod=pod,
        pod_status=found["pod"]["status"],
        service=service,
        event=_sent(found["Event"]),
        statuses=statuses,
        sizes=sizes,
    )


def _sent(found: Object) -> Object:
    """An object as it was sent, nearly: what the API server's defaults add is still in it."""
    body = copy.deepcopy(found)
    body.pop("status", None)
    body["metadata"] = {key: body["metadata"][key] for key in _KEPT if key in body["metadata"]}
    return body


def _without(mounted: Sequence[Object], names: Sequence[str]) -> list[Object]:
    return [one for one in mounted if one["name"] not in names]


def _owner(found: Object) -> str:
    owners = found["metadata"].get("ownerReferences") or [{"name": ""}]
    name: str = owners[0]["name"]
    return name


def _named(job: Object, name: str) -> Object:
    return {**job, "metadata": {**job["metadata"], "name": name}}


def _large(job: Object, name: str) -> Object:
    """The job with ten thousand variables in the template of its pods: no container of ours has
    more than 1,024."""
    body = copy.deepcopy(_named(job, name))
    for containers in _containers(body["spec"]):
        for number in range(_VARIABLES // _OF_CONTAINER):
            variables = [
                {"name": f"VARIABLE_{each:04d}", "value": str(each)}
                for each in range(_OF_CONTAINER)
            ]
            containers.append(
                {"name": f"more-{number}", "image": containers[0]["image"], "env": variables}
            )
    return body


def _containers(spec: Any) -> list[list[Object]]:
    """The containers of each template within a spec."""
    if isinstance(spec, list):
        return [found for each in spec for found in _containers(each)]
    if not isinstance(spec, dict):
        return []
    mine = [spec["containers"]] if "containers" in spec else []
    return [*mine, *(found for each in spec.values() for found in _containers(each))]


async def _in_order(calls: Sequence[Call]) -> None:
    for call in calls:
        await call()
