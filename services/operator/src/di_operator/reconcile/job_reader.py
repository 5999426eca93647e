"""Reads everything that a decision about a job needs: the caches, what others know, the rest by
requests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any, Final, Protocol

from di_api.names import LABEL_JOB, LABEL_OPERATOR, OPERATOR_NAME
from di_api.spec import Template
from di_kube.client import KubeClient
from di_kube.errors import ApiError, NotFound
from di_kube.resources import AGGREGATOR_CONFIGS, DIJOBS, PODS, Resource
from di_operator.cluster.companions import Companions
from di_operator.cluster.executor import Writes
from di_operator.cluster.scheduling_objects import SchedulingObjects
from di_operator.kueue.queueing import Kueue
from di_operator.lifecycle.needs import Needs
from di_operator.lifecycle.observed.placement import Grant
from di_operator.lifecycle.observed.pods import Pod, PodReader
from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.observed.sources import Sources
from di_operator.lifecycle.observed.specs import SPEC_BYTES, SpecCache
from di_operator.lifecycle.read import read_snapshot
from di_operator.lifecycle.vocabulary.decision import Settings
from di_operator.process.concurrency import spread
from di_operator.process.controller import JobKey

# Pods that are read one by one before they are counted for lost. Of more than these at once the
# rest is met when they are made again.
LOOKED_FOR = 64
# Pods read before others get their turn; some milliseconds.
READ_AT_ONCE = 512


NOTHING_READ: Final[Mapping[str, Any]] = {}


class InformerState(Writes, Protocol):
    """What is known of the cluster, own writes included."""

    def job(self, key: JobKey) -> Mapping[str, Any] | None:
        """Return the job of that name, None if there is none; `dict` of it reads all at once."""
        ...

    def pods(self, key: JobKey) -> Iterable[Mapping[str, Any]]:
        """Return the pods of the job, and of others under its name."""
        ...

    def services(self, key: JobKey) -> Iterable[Mapping[str, Any]]:
        """Return the Services of the job, and of others under its name."""
        ...

    def configmaps(self, key: JobKey) -> Iterable[Mapping[str, Any]]:
        """Return the ConfigMaps of the job, and of others under its name."""
        ...

    def recognise(self, resource: Resource, body: dict[str, Any]) -> Mapping[str, Any]:
        """Return what is kept of an object that a list showed."""
        ...

    def observe_all(
        self, resource: Resource, bodies: Iterable[Mapping[str, Any]], version: str
    ) -> bool:
        """Take in what a list of some objects showed; False if more than that is known."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownElsewhere:
    """What other parts of the operator know, each asked again for each decision."""

    grant: Callable[[Mapping[str, Any]], Grant] | None = None
    """The allocator's assignment of a job; None: there is no allocator."""
    reports_since: Callable[[], datetime | None] = lambda: None
    """Since when reports of jobs can come; None: they cannot."""
    largest_node_memory: Callable[[], Decimal | None] = lambda: None
    """Bytes that the largest node has for pods; None: not known."""
    kueue: Callable[[JobKey], Kueue | None]
    """What is known of Kueue and a job's Workloads; None: nothing yet."""
    server_ca: Callable[[], str] | None = None
    """The authorities that pods know di-server by; None: they need none."""
    job_secret_key: Callable[[], Awaitable[bytes | None]] | None = None
    """Waits for the key of jobs' secrets, None if it cannot be read; None: jobs have no secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unwatched:
    """Readers of objects that no cache holds."""

    companions: Companions
    scheduling_objects: SchedulingObjects
    aggregator_config: tuple[str, str]
    """Namespace and name of the AggregatorConfig."""


class JobReader:
    """Makes snapshots of jobs; the only part of a reconcile that reads."""

    def __init__(
        self,
        *,
        client: KubeClient,
        informers: InformerState,
        known: KnownElsewhere,
        unwatched: Unwatched,
        specs: SpecCache,
        read_pod: PodReader,
        settings: Settings,
    ) -> None:
        """`read_pod` remembers the pods of the largest job at least; `settings` are all but
        `server_ca` and `job_secret_key`."""
        self._client = client
        self._informers = informers
        self._known = known
        self._unwatched = unwatched
        self._specs = specs
        self._read_pod = read_pod
        self._settings = settings

    def job(self, key: JobKey) -> Mapping[str, Any] | None:
        """Return the job of that name, None if there is none."""
        return self._informers.job(key)

    def kueue(self, key: JobKey) -> Kueue | None:
        """What is known of Kueue and the job's Workloads; None: nothing yet."""
        return self._known.kueue(key)

    def pods(self, key: JobKey) -> Iterable[Pod]:
        """The pods of the job, and of others under its name."""
        return map(self._read_pod, self._informers.pods(key))

    def forget(self, uid: str) -> None:
        """Take in that the object of that UID is gone."""
        self._informers.forget(uid)

    def is_read(self, job: Mapping[str, Any]) -> bool:
        """Whether nothing about a job's spec takes long."""
        return SPEC_BYTES not in job or self._specs.known(job) is not None

    async def examine(self, job: Mapping[str, Any]) -> None:
        """Read a heavy spec beside the event loop, which others need meanwhile."""
        await asyncio.to_thread(self._specs.examine, job)

    async def read_ahead(self, key: JobKey) -> Mapping[str, Any] | None:
        """Read the pods of a large job in parts, so that others get their turn in between.

        What is new since then is read with the snapshot. Returns the job, None if there is none.
        """
        for count, pod in enumerate(self._informers.pods(key), 1):
            self._read_pod(pod)
            if count % READ_AT_ONCE == 0:
                await stand_back()
        return self.job(key)

    async def settings(self) -> Settings:
        """The operator's options as they are now."""
        known = self._known
        return replace(
            self._settings,
            server_ca=known.server_ca() if known.server_ca is not None else None,
            job_secret_key=await known.job_secret_key() if known.job_secret_key else None,
        )

    def _sources(self, job: Mapping[str, Any], key: JobKey) -> Sources:
        """What is known about a job now, without a request."""
        known = self._known
        return Sources(
            pods=self._informers.pods(key),
            services=self._informers.services(key),
            configmaps=self._informers.configmaps(key),
            grant=known.grant(job) if known.grant is not None else None,
            reports_since=known.reports_since(),
            largest_node_memory=known.largest_node_memory(),
            notification_targets=self._settings.notification_targets,
            kueue=known.kueue(key),
            companions=self._unwatched.companions.known(job),
            scheduling_objects=self._unwatched.scheduling_objects.known(job),
        )

    def snapshot(
        self, job: Mapping[str, Any], key: JobKey, read: Mapping[str, Any] = NOTHING_READ
    ) -> Snapshot:
        """The job with what is known about it now, and what was `read` for it."""
        sources = replace(self._sources(job, key), **read)
        return read_snapshot(job, sources, read=self._specs.examine, read_pod=self._read_pod)

    async def read(self, job: Mapping[str, Any], needed: Needs) -> Mapping[str, Any]:
        """Read what a decision needs; returns fields of its sources.

        Raises ApiError if that is not possible now.
        """
        read: dict[str, Any] = {}
        if needed.aggregator:
            read["aggregator"] = await self._aggregator()
        if needed.companions:
            read["companions"] = await self._unwatched.companions.look(job, needed.companions)
        if needed.scheduling_objects:
            read["scheduling_objects"] = await self._unwatched.scheduling_objects.look(
                job, needed.scheduling_objects
            )
        return read

    async def refresh(self, key: JobKey, uid: str) -> None:
        """Read the job from the API server."""
        try:
            job = await self._client.get(DIJOBS, key.name, key.namespace)
        except NotFound:
            self._informers.forget(uid)
        else:
            self._informers.observe(DIJOBS, job)

    async def missing_pods(self, snapshot: Snapshot, key: JobKey) -> list[dict[str, Any]]:
        """Read the pods that are missing in a snapshot; takes in those that exist.

        Some may be out of sight of every watch, because their labels or their owner were removed.
        """
        missing = {slot.name for slot in snapshot.missing}
        listed, version = await self._client.list(
            PODS,
            key.namespace,
            label_selector=f"{LABEL_JOB}={key.name}",
            # Whole, as it may have to be put right; the others are thousands, and known.
            transform=lambda pod: pod if pod["metadata"]["name"] in missing else {},
        )
        listed = [pod for pod in listed if pod]
        names = {pod["metadata"]["name"] for pod in listed}
        unlisted = [slot.name for slot in snapshot.missing if slot.name not in names]
        found = [*listed, *await self._read_pods(unlisted[:LOOKED_FOR], key.namespace)]
        # The cache keeps what the watch selects, and nothing that the watch would never bury.
        seen = [
            self._informers.recognise(PODS, pod)
            for pod in listed
            if pod["metadata"]["labels"].get(LABEL_OPERATOR) == OPERATOR_NAME
        ]
        self._informers.observe_all(PODS, seen, version)
        return found

    async def _aggregator(self) -> Template | None:
        """Read the template of aggregators, for the few moments when one is made."""
        namespace, name = self._unwatched.aggregator_config
        try:
            found = await self._client.get(AGGREGATOR_CONFIGS, name, namespace)
        except NotFound:
            return None
        template: Template = found["spec"]["aggregator"]["template"]
        return template

    async def _read_pods(self, names: Sequence[str], namespace: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        errors: list[ApiError] = []

        async def read(name: str) -> bool:
            try:
                found.append(await self._client.get(PODS, name, namespace))
            except NotFound:
                pass
            except ApiError as error:
                errors.append(error)
            return not errors

        await spread(names, read)
        if errors:
            raise errors[0]
        return found


async def stand_back() -> None:
    """Let everybody have a turn who became ready meanwhile: they queue behind the first pass."""
    for _ in range(2):
        await asyncio.sleep(0)
