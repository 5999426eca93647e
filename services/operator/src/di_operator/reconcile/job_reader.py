"""Reads everything that a decision about a job needs: from the caches, from other parts, and by
requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any, Final, Protocol

from di_api.names import LABEL_JOB
from di_api.spec import Template
from di_kube.client import KubeClient
from di_kube.errors import ApiError, NotFound
from di_kube.resources import AGGREGATOR_CONFIGS, DIJOBS, PODS, Resource
from di_operator.cluster.companions import Companions
from di_operator.cluster.executor import Writes
from di_operator.cluster.scheduling_objects import SchedulingObjects
from di_operator.cluster.settled_jobs import SettledJobs
from di_operator.cluster.uncached_reads import read_by_name
from di_operator.cluster.unlabelled_pods import Suspect, UnlabelledPods, is_labelled
from di_operator.kueue.queueing import Kueue
from di_operator.lifecycle.needs import Needs
from di_operator.lifecycle.observed.placement import Grant
from di_operator.lifecycle.observed.pods import Pod, PodReader
from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.observed.sources import Sources
from di_operator.lifecycle.observed.specs import SPEC_BYTES, SpecCache
from di_operator.lifecycle.observed.trial import Trial
from di_operator.lifecycle.read import read_snapshot
from di_operator.lifecycle.vocabulary.decision import Settings
from di_operator.process.concurrency import spread
from di_operator.process.controller import JobKey

# Pods that are read one by one before they count as lost. If more than these are missing at once,
# the rest is found when they are created again.
LOOKED_FOR = 64
# Pods that are read before other tasks of the event loop run; some milliseconds.
READ_AT_ONCE = 512


NOTHING_READ: Final[Mapping[str, Any]] = {}


class InformerState(Writes, Protocol):
    """The cached state of the cluster, own writes included."""

    def job(self, key: JobKey) -> Mapping[str, Any] | None:
        """Return the job of that name, None if there is none. `dict` of it reads all fields at
        once.
        """
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

    @property
    def settled(self) -> SettledJobs:
        """Finished jobs that a resync does not wake."""
        ...

    def recognise(self, resource: Resource, body: dict[str, Any]) -> Mapping[str, Any]:
        """Return the cached form of an object from a list."""
        ...

    def observe_all(
        self, resource: Resource, bodies: Iterable[Mapping[str, Any]], version: str
    ) -> bool:
        """Store objects from a list; return False if the cache is ahead of the list."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownElsewhere:
    """State of other parts of the operator, read again for each decision."""

    grant: Callable[[Mapping[str, Any]], Grant] | None = None
    """Returns the allocator's assignment of a job; None: there is no allocator."""
    reports_since: Callable[[], datetime | None] = lambda: None
    """Returns since when reports of jobs are possible; None: they are not possible now."""
    largest_node_memory: Callable[[], Decimal | None] = lambda: None
    """Returns the allocatable bytes of the largest node; None: unknown."""
    nodes: Callable[[], Container[str] | None] = lambda: None
    """Returns the names of the nodes; None: unknown."""
    suspect_nodes: Callable[[], Mapping[str, int]] = dict
    """Returns the nodes that several jobs avoid, each with the number of these jobs."""
    could_run: Callable[[Mapping[str, Any]], bool] = lambda _: False
    """Returns whether the nodes without any other pod could run a job; False if unknown."""
    kueue: Callable[[JobKey], Kueue | None]
    """Returns what is known of Kueue and a job's Workloads; None before the first answer."""
    deleted_pods: Callable[[str], Iterable[Mapping[str, Any]]] = lambda _: ()
    """Returns succeeded pods of a job, by its UID, that are gone and that no status has counted."""
    forget_deleted: Callable[[str, Iterable[str]], None] = lambda *_: None
    """Forgets such pods of a job, by UID."""
    unlabelled_pods: UnlabelledPods
    """Pods that the watch has lost."""
    trial: Callable[[Mapping[str, Any]], Trial | None] = lambda _: None
    """Returns the result of the dry runs of a job's pods; None: there were none."""
    try_pods: Callable[[JobKey], None] = lambda _: None
    """Starts these dry runs, beside the reconciler."""
    server_ca: Callable[[], str] | None = None
    """Returns the CA certificates for di-server that pods get; None: they need none."""
    job_secret_key: Callable[[], Awaitable[bytes | None]] | None = None
    """Waits for the key of job secrets and returns it, None if it cannot be read; None: jobs have
    no secret.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Unwatched:
    """Readers of objects that have no cache."""

    companions: Companions
    scheduling_objects: SchedulingObjects
    aggregator_config: tuple[str, str]
    """Namespace and name of the AggregatorConfig."""


class JobReader:
    """Builds the snapshot of a job; the only part of a reconcile that reads."""

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
        """`read_pod` must remember at least the pods of the largest job; `settings` are all except
        `server_ca` and `job_secret_key`.
        """
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
        """Return what is known of Kueue and the job's Workloads; None before the first answer."""
        return self._known.kueue(key)

    def pods(self, key: JobKey) -> Iterable[Pod]:
        """Return the pods of the job, and of others under its name."""
        return map(self._read_pod, self._informers.pods(key))

    def forget(self, uid: str) -> None:
        """Record that the object of that UID is gone."""
        self._informers.forget(uid)

    def forget_deleted(self, uid: str, pods: Iterable[Pod]) -> None:
        """Forget deleted pods of the job of that UID, which its status has counted."""
        self._known.forget_deleted(uid, (pod.uid for pod in pods))

    @property
    def unlabelled_pods(self) -> UnlabelledPods:
        """Return the pods that the watch has lost."""
        return self._known.unlabelled_pods

    async def lost_pods(
        self, key: JobKey, lost: Iterable[Suspect]
    ) -> Mapping[str, Mapping[str, Any]]:
        """Read pods that the watch has lost; return those that exist by the UID that was lost.

        The cache gets those that the watch selects. Raises ApiError if a read fails.
        """
        wanted = [(each.uid, PODS, each.name) for each in lost]
        found = await read_by_name(self._client, key.namespace, wanted)
        for pod in found.values():
            if is_labelled(pod):
                self._informers.observe(PODS, dict(pod), is_news=True)
        return found

    def record_settled(self, job: Mapping[str, Any], due: datetime | None) -> None:
        """Record that this version of a finished job needs nothing until `due`, None: for good."""
        self._informers.settled.record(job, due)

    def has_cheap_spec(self, job: Mapping[str, Any]) -> bool:
        """Return whether the job's spec is already parsed, or small enough to parse on the event
        loop.
        """
        return SPEC_BYTES not in job or self._specs.known(job) is not None

    async def examine(self, job: Mapping[str, Any]) -> None:
        """Parse a large spec in a thread, so that it does not block the event loop."""
        await asyncio.to_thread(self._specs.examine, job)

    async def read_ahead(self, key: JobKey) -> Mapping[str, Any] | None:
        """Read the pods of a large job in parts, so that other tasks run in between.

        Later changes are read with the snapshot. Returns the job, None if there is none.
        """
        begin = 0
        # Listed again for each part: a pod that is deleted meanwhile would be remembered for good.
        while len(pods := [*self._informers.pods(key)]) > max(begin, READ_AT_ONCE):
            for pod in pods[begin : begin + READ_AT_ONCE]:
                self._read_pod(pod)
            begin += READ_AT_ONCE
            await stand_back()
        return self.job(key)

    async def settings(self) -> Settings:
        """Return the operator's present settings."""
        known = self._known
        server_ca = known.server_ca() if known.server_ca is not None else None
        secret_key = await known.job_secret_key() if known.job_secret_key else None
        if (server_ca, secret_key) != (self._settings.server_ca, self._settings.job_secret_key):
            self._settings = replace(self._settings, server_ca=server_ca, job_secret_key=secret_key)
        return self._settings

    def _sources(self, job: Mapping[str, Any], key: JobKey) -> Sources:
        """Return what is known about a job without a request."""
        known = self._known
        return Sources(
            pods=self._informers.pods(key),
            deleted_pods=known.deleted_pods(job["metadata"]["uid"]),
            services=self._informers.services(key),
            configmaps=self._informers.configmaps(key),
            grant=known.grant(job) if known.grant is not None else None,
            reports_since=known.reports_since(),
            largest_node_memory=known.largest_node_memory(),
            nodes=known.nodes(),
            suspect_nodes=known.suspect_nodes(),
            could_run=lambda: known.could_run(job),
            notification_targets=self._settings.notification_targets,
            suspend_idle_jobs=self._settings.suspend_idle_jobs,
            scale_down_idle_jobs=self._settings.scale_down_idle_jobs,
            kueue=known.kueue(key),
            companions=self._unwatched.companions.known(job),
            scheduling_objects=self._unwatched.scheduling_objects.known(job),
            trial=known.trial(job),
        )

    def snapshot(
        self, job: Mapping[str, Any], key: JobKey, read: Mapping[str, Any] = NOTHING_READ
    ) -> Snapshot:
        """Return the job with everything known about it, and the results of `read`."""
        sources = self._sources(job, key)
        if read:
            sources = replace(sources, **read)
        return read_snapshot(job, sources, read=self._specs.examine, read_pod=self._read_pod)

    async def read(self, job: Mapping[str, Any], needed: Needs) -> Mapping[str, Any]:
        """Read what a decision needs; return fields of `Sources`.

        Raises ApiError if a request fails.
        """
        read: dict[str, Any] = {}
        if needed.aggregator:
            read["aggregator"] = await self._aggregator()
        if needed.companions:
            read["companions"] = await self._unwatched.companions.read(job, needed.companions)
        if needed.scheduling_objects:
            read["scheduling_objects"] = await self._unwatched.scheduling_objects.read(
                job, needed.scheduling_objects
            )
        return read

    def have_pods_tried(self, key: JobKey) -> None:
        """Have dry runs made of the pods of a job; the answer comes with a later snapshot."""
        self._known.try_pods(key)

    async def refresh(self, key: JobKey, uid: str) -> None:
        """Read the job from the API server into the cache."""
        try:
            job = await self._client.get(DIJOBS, key.name, key.namespace)
        except NotFound:
            self._informers.forget(uid)
        else:
            self._informers.observe(DIJOBS, job)

    async def missing_pods(self, snapshot: Snapshot, key: JobKey) -> list[dict[str, Any]]:
        """Read the pods that are missing in a snapshot; store and return those that exist.

        Pods can be invisible to every watch because their labels or their owner reference were
        removed.
        """
        missing = {slot.name for slot in snapshot.missing}
        listed, version = await self._client.list(
            PODS,
            key.namespace,
            label_selector=f"{LABEL_JOB}={key.name}",
            # The missing pods are kept whole, because they may need repair; the others are
            # thousands, and known.
            transform=lambda pod: pod if pod["metadata"]["name"] in missing else {},
        )
        listed = [pod for pod in listed if pod]
        names = {pod["metadata"]["name"] for pod in listed}
        unlisted = [slot.name for slot in snapshot.missing if slot.name not in names]
        found = [*listed, *await self._read_pods(unlisted[:LOOKED_FOR], key.namespace)]
        # The cache stores only what its watch selects, because the watch would never remove
        # anything else.
        seen = [self._informers.recognise(PODS, pod) for pod in listed if is_labelled(pod)]
        self._informers.observe_all(PODS, seen, version)
        return found

    async def _aggregator(self) -> Template | None:
        """Read the pod template of aggregators, which is rarely needed."""
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
    """Let all tasks run that became ready meanwhile: they queue behind the first pass."""
    for _ in range(2):
        await asyncio.sleep(0)
