"""An API server in memory with watches that lag, graceful deletion and finalizers."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import Any, TypeVar

import orjson
from typing_extensions import override

from di_api.spec import GangScheduler
from di_api.timestamps import format_time
from di_kube.cache import ADDED, BOOKMARK, DELETED, MODIFIED
from di_kube.errors import Invalid, Unavailable
from di_kube.pages import Version
from di_kube.resources import (
    CONFIGMAPS,
    DIJOB_TASKS,
    DIJOBS,
    DISWEEPS,
    PODS,
    SERVICES,
    WORKLOADS,
    Resource,
)
from di_kube.selectors import Selects, read_label_selector
from di_kube.wire import JSON_PATCH
from di_local.api.patches import patched
from di_local.api.refused import Refused
from di_operator.builders.disruption_budget import BUDGETS
from di_operator.builders.pod_group import KINDS
from di_operator.builders.provisioning import REQUESTS, TEMPLATES
from tests.unit.operator.fake_api import FakeApi, Object
from tests.unit.operator.virtual_time import VirtualClock

NAMESPACE = "ns"
CLAIMS = Resource(
    group="", version="v1", plural="persistentvolumeclaims", kind="PersistentVolumeClaim"
)
RESOURCES = {
    resource.kind: resource
    for resource in (
        *(DIJOBS, PODS, SERVICES, CONFIGMAPS, BUDGETS, WORKLOADS, DIJOB_TASKS, DISWEEPS),
        *(REQUESTS, TEMPLATES, KINDS[GangScheduler.VOLCANO].resource, CLAIMS),
    )
}
WITH_AGE = (PODS, DIJOBS, DISWEEPS)
WITH_GENERATION = (DIJOBS, DIJOB_TASKS, DISWEEPS)
DEFAULT_GRACE = 30
FINALIZER = "example.com/held"
"""Finalizer of another client."""
T = TypeVar("T")


def copied(body: Object) -> Object:
    """Return a deep copy of an object, in a fraction of the time of `deepcopy`."""
    copy: Object = orjson.loads(orjson.dumps(body))
    return copy


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of one object.

    Attributes:
        at: the virtual time at which watches show it.
        version: the resource version of the object since then.
        old, new: the object before and after; None: there was none, there is none.
        last: the new object, or the old one if it was deleted.
    """

    at: float
    version: int
    old: Object | None
    new: Object | None
    last: Object

    def event(self, selects: Selects) -> tuple[str, Object] | None:
        """Return the event of a watch of selected objects, None without one.

        A watch that no longer selects an object shows it as deleted, with its last selected state.
        """
        was, is_now = (each is not None and selects(each) for each in (self.old, self.new))
        if is_now:
            return MODIFIED if was else ADDED, copied(self.last)
        if not was:
            return None
        assert self.old is not None
        body = copied(self.old)
        body["metadata"]["resourceVersion"] = str(self.version)
        return DELETED, body


@dataclass(frozen=True, slots=True, kw_only=True)
class Journey:
    """How a request gets to the API server and its response back, in seconds.

    Attributes:
        there: until the request is executed.
        back: from then until its response arrives.
        patience: when the client gives up; the request is executed all the same.
    """

    there: float
    back: float
    patience: float


class WatchedApi(FakeApi):
    """An API server with pods that end gracefully and with watches.

    Attributes:
        journey: returns how the next request travels; None: its response arrives at once.
        losing: the share of events that watches lose without a sign of it.
        has_lost: whether they have lost any.
        is_late: a request is executed whose client has given up or ended before.
        lag: the most seconds by which a watch is behind.
        follow: called with (kind, old, new) after each change.
    """

    def __init__(self, clock: VirtualClock, random: Random) -> None:
        super().__init__()
        self.lag = 0.0
        self.losing = 0.0
        self.has_lost = self.is_late = False
        self.journey: Callable[[], Journey | None] = lambda: None
        self.follow: Callable[[str, Object | None, Object | None], None] = lambda *_: None
        self._clock = clock
        self._random = random
        self._changes: dict[str, list[Change]] = defaultdict(list)
        self._news = asyncio.Event()
        self._cuts = 0
        self._travelling: set[asyncio.Task[Any]] = set()
        self._awaited: set[asyncio.Task[Any]] = set()

    # --- what other clients do ---

    def stored(self, kind: str) -> dict[str, Object]:
        """Return the objects of a kind by name, which must not be modified."""
        return {name: body for (each, _, name), body in self.objects.items() if each == kind}

    def all(self, kind: str) -> list[Object]:
        """Return copies of all objects of a kind."""
        return [copied(body) for body in self.stored(kind).values()]

    @override
    def put(self, resource: Resource, namespace: str, body: Object) -> Object:
        name = body["metadata"]["name"]
        old = self.objects.get((resource.kind, namespace, name))
        body = copied(body)
        if old is not None and _without_version(old) == _without_version(body):
            return body
        if old is None and resource in WITH_AGE:
            body["metadata"].setdefault("creationTimestamp", format_time(self._clock.now()))
        if old is None and resource == PODS:
            body.setdefault("status", {"phase": "Pending"})
        if resource in WITH_GENERATION:
            generation = 1
            if old is not None:
                generation = old["metadata"]["generation"] + (old["spec"] != body["spec"])
            body["metadata"]["generation"] = generation
        stored = super().put(resource, namespace, body)
        self._record(resource.kind, old, stored)
        metadata = body["metadata"]
        if resource != PODS and "deletionTimestamp" in metadata and not metadata.get("finalizers"):
            return self.remove(resource.kind, name)
        return copied(stored)

    def request_deletion(self, kind: str, name: str, grace: int | None = None) -> Object:
        """Delete an object as the API server does: pods gracefully, and nothing with a finalizer
        before that is removed.
        """
        body = copied(self.objects[kind, NAMESPACE, name])
        if kind == PODS.kind:
            return self._delete_pod(body, grace)
        if body["metadata"].get("finalizers"):
            body["metadata"].setdefault("deletionTimestamp", format_time(self._clock.now()))
            return self.put(RESOURCES[kind], NAMESPACE, body)
        return self.remove(kind, name)

    def remove(self, kind: str, name: str, namespace: str = NAMESPACE) -> Object:
        """Remove an object. What it owns is left to the garbage collector."""
        old = self.objects.pop((kind, namespace, name))
        self._record(kind, old, None)
        return copied(old)

    def remove_finalizers(self) -> None:
        """Remove the finalizer of other clients, and the objects that only it held."""
        for (kind, namespace, name), stored in list(self.objects.items()):
            if FINALIZER not in stored["metadata"].get("finalizers", ()):
                continue
            body = copied(stored)
            metadata = body["metadata"]
            metadata["finalizers"].remove(FINALIZER)
            self.put(RESOURCES[kind], namespace, body)
            # A pod that still has its grace period is removed by its kubelet.
            is_ended = not metadata.get("deletionGracePeriodSeconds")
            if kind == PODS.kind and "deletionTimestamp" in metadata and is_ended:
                self.remove(kind, name)

    def cut_watches(self) -> None:
        """Break all streams; each cache opens another one from its last version."""
        self._cuts += 1
        self._wake()

    # --- what the operator calls ---

    @override
    async def get(
        self, resource: Resource, name: str, namespace: str = "", *, timeout: float | None = None
    ) -> Object:
        reading = super().get(resource, name, namespace, timeout=timeout)
        return copied(await self._send(resource, reading))

    @override
    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str = "",
        transform: Callable[[Object], Object] = lambda body: body,
    ) -> tuple[list[Object], str]:
        reading = super().list(
            resource,
            namespace,
            label_selector=label_selector or "",
            field_selector=field_selector,
            transform=lambda body: transform(copied(body)),
        )
        return await self._send(resource, reading)

    async def list_versions(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        transform: Callable[[Version], Object],
    ) -> tuple[Sequence[Object], str]:
        """List the versions of a collection."""

        def read(body: Object) -> Object:
            fields = {
                key: body["metadata"][key] for key in ("name", "namespace", "resourceVersion")
            }
            return transform(Version(**fields))

        return await self.list(resource, namespace, label_selector=label_selector, transform=read)

    @override
    async def create(
        self, resource: Resource, body: Object, namespace: str = "", **options: Any
    ) -> Object:
        return await self._send(resource, super().create(resource, body, namespace, **options))

    @override
    async def patch(
        self, resource: Resource, name: str, patch: Object, namespace: str = "", **options: Any
    ) -> Object:
        if options.pop("content_type", None) == JSON_PATCH:
            return await self._send(resource, self._edit(resource, name, patch, namespace))
        return await self._send(
            resource, super().patch(resource, name, patch, namespace, **options)
        )

    async def _edit(self, resource: Resource, name: str, operations: Any, namespace: str) -> Object:
        """Execute a JSON patch; the resourceVersion that it has written is a precondition."""
        found = copied(await super().get(resource, name, namespace))
        try:
            body = patched(found, operations)
        except Refused as error:
            raise Invalid(kind=resource.kind, name=name, code=422, message=error.message) from error
        return await super().replace(resource, name, body, namespace)

    @override
    async def replace(
        self, resource: Resource, name: str, body: Object, namespace: str = "", **options: Any
    ) -> Object:
        return await self._send(
            resource, super().replace(resource, name, body, namespace, **options)
        )

    @override
    async def delete(
        self, resource: Resource, name: str, namespace: str = "", **options: Any
    ) -> Object:
        return await self._send(resource, super().delete(resource, name, namespace, **options))

    @override
    def delete_found(
        self, resource: Resource, namespace: str, name: str, grace: int | None
    ) -> Object:
        return self.request_deletion(resource.kind, name, grace)

    async def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        resource_version: str,
        label_selector: str | None = None,
        send_initial_events: bool = False,
        opened: Callable[[], None] = lambda: None,
        **_: Any,
    ) -> AsyncGenerator[tuple[str, Object], None]:
        """Watch a collection until the stream is cut."""
        changes, cuts = self._changes[resource.kind], self._cuts
        selects = read_label_selector(label_selector or "")
        opened()
        version = int(resource_version or 0)
        if send_initial_events:
            version = next(self._versions)
            for body in self.all(resource.kind):
                if selects(body):
                    yield ADDED, body
            end = {"k8s.io/initial-events-end": "true"}
            yield BOOKMARK, {"metadata": {"resourceVersion": str(version), "annotations": end}}
        position = sum(change.version <= version for change in changes)
        while True:
            news = self._news
            if position == len(changes):
                await news.wait()
            else:
                change = changes[position]
                await asyncio.sleep(max(0.0, change.at - self._clock.monotonic()))
                position += 1
                event = change.event(selects) if cuts == self._cuts else None
                if event is not None and self.losing and self._random.random() < self.losing:
                    self.has_lost = True
                elif event is not None:
                    yield event
            if cuts != self._cuts:
                raise Unavailable(kind=resource.kind, message="the stream was cut")

    async def _send(self, resource: Resource, request: Coroutine[Any, Any, T]) -> T:
        """Send a request, which is executed even if its client gives up or ends before."""
        journey = self.journey()
        if journey is None:
            return await request
        travel = asyncio.create_task(self._travel(request, journey))
        self._travelling.add(travel)
        self._awaited.add(travel)
        travel.add_done_callback(self._arrived)
        try:
            done, _ = await asyncio.wait([travel], timeout=journey.patience)
        finally:
            self._awaited.discard(travel)
        if not done:
            raise Unavailable(kind=resource.kind, reason="Timeout")
        return travel.result()

    async def _travel(self, request: Coroutine[Any, Any, T], journey: Journey) -> T:
        try:
            await asyncio.sleep(journey.there)
        except asyncio.CancelledError:
            request.close()
            raise
        self.is_late = asyncio.current_task() not in self._awaited
        try:
            response = await request
        finally:
            self.is_late = False
        await asyncio.sleep(journey.back)
        return response

    def _arrived(self, travel: asyncio.Task[Any]) -> None:
        self._travelling.discard(travel)
        if not travel.cancelled():
            travel.exception()  # which a client that has given up does not read

    def _delete_pod(self, pod: Object, grace: int | None) -> Object:
        metadata, phase = pod["metadata"], pod["status"].get("phase")
        if grace is None:
            grace = DEFAULT_GRACE
        has_started = phase == "Running" or bool(pod["spec"].get("nodeName"))
        if phase in ("Succeeded", "Failed") or not has_started:
            grace = 0
        if "deletionTimestamp" in metadata and grace >= metadata["deletionGracePeriodSeconds"]:
            return pod
        end = self._clock.now() + timedelta(seconds=grace)
        metadata |= {"deletionTimestamp": format_time(end), "deletionGracePeriodSeconds": grace}
        stored = self.put(PODS, NAMESPACE, pod)
        if grace or metadata.get("finalizers"):
            return stored
        return self.remove(PODS.kind, metadata["name"])

    def _record(self, kind: str, old: Object | None, new: Object | None) -> None:
        last = new or old
        assert last is not None
        if new is None:
            last = copied(last)
            last["metadata"]["resourceVersion"] = str(next(self._versions))
        changes = self._changes[kind]
        at = self._clock.monotonic() + self._random.uniform(0.0, self.lag)
        at = max(at, changes[-1].at if changes else 0.0)
        version = int(last["metadata"]["resourceVersion"])
        changes.append(Change(at=at, version=version, old=old, new=new, last=last))
        self._wake()
        self.follow(kind, old, new)

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


def _without_version(body: Object) -> Object:
    metadata = {
        key: value
        for key, value in body["metadata"].items()
        if key not in ("resourceVersion", "namespace")
    }
    return {**body, "metadata": metadata}
