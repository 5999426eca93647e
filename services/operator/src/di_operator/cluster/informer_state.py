"""The operator's view of the cluster: the watches, plus its own writes that the watches have not
shown yet.

A watch is always a little behind. From a watch alone, the reconcile after a create would not see
the pod and create it again, and the reconcile after a status patch would count the same failure
twice. So the response of every write is stored in the cache at once, where only a newer version
replaces it, and a deleted object is hidden until the watch reports the deletion. Fixed pod names
and the resourceVersion of status patches prevent the same mistakes right after a start, when the
operator does not know its predecessor's writes.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from itertools import chain
from sys import intern
from typing import Any

import orjson

from di_api.field_error import mapping
from di_api.names import (
    ANNOTATION_GRACE_SECONDS,
    ANNOTATION_JOB_SECRET,
    ANNOTATION_LEFT_SERVICE,
    ANNOTATION_RANK,
    ANNOTATION_REPLICA_ATTEMPT,
    ANNOTATION_RESTART_ATTEMPT,
    ANNOTATION_SERVER_CA,
    ANNOTATION_TASK_REPLICAS,
    LABEL_IN_SERVICE,
    LABEL_JOB,
    LABEL_OPERATOR,
    LABEL_POD_NAME,
    LABEL_REPLICA_LEADER,
    LABEL_STANDBY,
    LABEL_SWEEP,
    LABEL_TASK_NAME,
)
from di_api.ownership import controlling_job
from di_api.phase import Phase
from di_api.pods.main_container import ALL_CONTAINERS, CONTAINERS, phase_of
from di_api.validation import may_be_too_much, weight_error
from di_kube.cache import MODIFIED, WatchCache
from di_kube.compact import compact
from di_kube.packed import Packed, json_text
from di_kube.resources import CONFIGMAPS, DIJOBS, PODS, SERVICES, WORKLOADS, Resource
from di_operator.cluster.kept_containers import container_specs, container_statuses, start_time
from di_operator.cluster.pod_specs import node_in, of_others
from di_operator.cluster.settled_jobs import SettledJobs
from di_operator.lifecycle.observed.blockers import unprepared, unscheduled
from di_operator.lifecycle.observed.pod_cache import PodCache
from di_operator.lifecycle.observed.pod_state import SharedOwners, told_rank
from di_operator.lifecycle.observed.pods import (
    is_read_condition,
    refusal_of,
)
from di_operator.lifecycle.observed.specs import HEAVY, SPEC_BYTES, SPEC_ERROR
from di_operator.lifecycle.observed.stalled import (
    INIT_STATUSES,
    is_ignored,
    running_init_containers,
    scheduling_part,
)
from di_operator.lifecycle.observed.status import Status
from di_operator.process.controller import JobKey

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
INDEX_JOB = "job"
INDEX_PHASE = "phase"
INDEX_SWEEP = "sweep"
# Objects that we deleted and whose DELETED event is outstanding; far more than are ever under way.
MAX_HIDDEN = 10_000
# A job of a thousand pods causes a thousand events, each worth a reconcile over a thousand pods.
# Reconciles of large jobs are delayed to combine events: half a millisecond per pod, a fifth of a
# second at most.
SETTLE_ABOVE = 16
SETTLE_PER_POD = 0.0005
SETTLE_MAX = 0.2
# Pods mostly become ready, and end, one right after the other. So the event of a pod that is ahead
# of another one of its task is delayed further, to combine it with theirs: by a fifth of a second,
# and by a second at most in a job of many pods. That of the last pod to reach a stage is not.
AHEAD_PER_POD = 0.0125
AHEAD_MIN = 0.2
AHEAD_MAX = 1.0


_POD_METADATA = (
    *("name", "namespace", "uid", "resourceVersion", "ownerReferences"),
    *("deletionTimestamp", "deletionGracePeriodSeconds"),
)
# Labels that the operator restores when another client removes them.
_POD_LABELS = (
    *(LABEL_JOB, LABEL_OPERATOR, LABEL_TASK_NAME, LABEL_POD_NAME),
    *(LABEL_IN_SERVICE, LABEL_REPLICA_LEADER, LABEL_STANDBY),
)
_POD_NOTES = (
    *(ANNOTATION_RANK, ANNOTATION_TASK_REPLICAS),
    *(ANNOTATION_RESTART_ATTEMPT, ANNOTATION_REPLICA_ATTEMPT, ANNOTATION_SERVER_CA),
    *(ANNOTATION_LEFT_SERVICE, ANNOTATION_GRACE_SECONDS, ANNOTATION_JOB_SECRET),
)
_POD_STATUS = ("phase", "reason", "message", "nominatedNodeName")
# Parts of equal pods that are remembered to share them; pods of different jobs share little.
_SHARED_PARTS = 4096
_SHARED_OWNERS = 1024


def transform(body: dict[str, Any]) -> dict[str, Any]:
    """Remove fields of any object that no decision reads."""
    body["metadata"].pop("managedFields", None)
    return body


def transform_job(body: dict[str, Any]) -> Packed:
    """Pack the fields of a job that are read only when something happens to it, which is most of
    it.
    """
    body = transform(body)
    for shared in ("apiVersion", "kind"):
        if shared in body:
            body[shared] = _shared(body[shared])
    metadata = body["metadata"]
    if "namespace" in metadata:
        metadata["namespace"] = _shared(metadata["namespace"])
    if (annotations := metadata.get("annotations")) is not None:
        # The whole spec once more, as text.
        annotations.pop(_LAST_APPLIED, None)
    text = json_text(body.get("spec"))
    if len(text) > HEAVY:
        body[SPEC_BYTES] = len(text)
        spec = mapping(body.get("spec"))
        if may_be_too_much(text) and (error := weight_error(spec)) is not None:
            body[SPEC_ERROR] = error.message
            if not _goes_on(body):
                # The job never gets pods, or has had them: its lists and maps are dropped.
                body["spec"] = {key: each for key, each in spec.items() if not _is_nested(each)}
    return Packed(body, packed=("spec", "status"))


def _is_nested(value: object) -> bool:
    return isinstance(value, dict | list)


def _goes_on(job: Mapping[str, Any]) -> bool:
    """Return whether a job has started and has not ended."""
    status = Status.read(job.get("status"))
    return status.has_started and not status.is_finished


def transform_pod(body: dict[str, Any]) -> dict[str, Any]:
    """Keep the fields of a pod that decisions read: with fifty thousand pods every field counts."""
    metadata, spec, status = body["metadata"], body.get("spec") or {}, body.get("status") or {}
    is_pending = (status.get("phase") or "Pending") == "Pending"
    kept = {key: metadata[key] for key in _POD_METADATA if key in metadata}
    if "namespace" in kept:
        kept["namespace"] = _text(kept["namespace"])
    if "ownerReferences" in kept:
        kept["ownerReferences"] = _shared(kept["ownerReferences"])
    if "deletionTimestamp" in kept and metadata.get("finalizers"):
        kept["finalizers"] = metadata["finalizers"]
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    name = kept["name"]
    kept["labels"] = {
        # The label with its own name is the only one that no other pod shares.
        key: name if labels[key] == name else _text(labels[key])
        for key in _POD_LABELS
        if key in labels
    }
    kept["annotations"] = _shared(
        {key: annotations[key] for key in _POD_NOTES if key in annotations}
    )
    if controlling_job(body) is None:
        # A pod of another owner with our labels: it uses capacity as all others do.
        placed = of_others(body)
    else:
        placed = {
            **node_in(spec),
            **({"priority": spec["priority"]} if spec.get("priority") else {}),
            **container_specs(spec, told_rank(body), kept["annotations"]),
        }
        if is_pending and is_ignored(body) and "creationTimestamp" in metadata:
            kept["creationTimestamp"] = metadata["creationTimestamp"]
            placed |= scheduling_part(body)
    init = list(running_init_containers(body)) if is_pending else []
    return {
        "metadata": kept,
        "spec": _shared(placed),
        "status": _shared(
            {
                **{key: status[key] for key in _POD_STATUS if key in status},
                **start_time(status),
                "conditions": _conditions(status, has_failed=phase_of(body) == "Failed"),
                **{
                    key: container_statuses(status, key, goes_on=key == CONTAINERS)
                    for key in ALL_CONTAINERS
                    if status.get(key)
                },
                **_with_running(status, init),
            }
        ),
    }


def _shared(part: Any) -> Any:
    """Return an equal part that other pods share. This saves a third of the memory, and the same
    share of garbage collection while nothing happens.
    """
    if isinstance(part, str):
        return _text(part)
    return _parsed(compact(orjson.dumps(part)))


_text = lru_cache(maxsize=_SHARED_PARTS)(str)
_owner_of = SharedOwners(size=_SHARED_OWNERS)


@lru_cache(maxsize=_SHARED_PARTS)
def _parsed(text: bytes) -> Any:
    return orjson.loads(text)


def _conditions(status: Mapping[str, Any], *, has_failed: bool) -> list[Mapping[str, Any]]:
    kept: list[Mapping[str, Any]] = [
        {key: one[key] for key in ("type", "status", "reason") if key in one}
        for one in status.get("conditions") or ()
        if is_read_condition(one, has_failed=has_failed)
    ]
    waits_for = (unscheduled(status), unprepared(status))
    return [*kept, *(one for one in waits_for if one is not None)]


def _with_running(status: Mapping[str, Any], running: list[Any]) -> dict[str, Any]:
    """Return the statuses of init containers with those that run, if any runs."""
    if not running:
        return {}
    ended = container_statuses(status, INIT_STATUSES, goes_on=False)
    return {INIT_STATUSES: [*ended, *running]}


def transform_other_pod(body: dict[str, Any]) -> dict[str, Any]:
    """Keep the fields of another owner's pod that the allocator reads: its node and its
    resources.
    """
    metadata = body["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion")
    spec, status = of_others(body), {"phase": (body.get("status") or {}).get("phase")}
    name = spec.pop("nodeName", None)
    if refusal_of(body):
        status["conditions"] = [unscheduled(body["status"])]
    # Most of fifteen thousand pods are equal except for their node.
    return {
        "metadata": {key: metadata[key] for key in kept if key in metadata},
        "spec": {**_shared(spec), **({"nodeName": intern(name)} if name else {})},
        "status": _shared(status),
    }


def transform_node(body: dict[str, Any]) -> dict[str, Any]:
    """Remove the fields of a node that the allocator does not read; the list of images is most of
    it.
    """
    transform(body)
    status = body.get("status") or {}
    body["status"] = {key: status[key] for key in ("allocatable", "conditions") if key in status}
    return body


def index_phase(body: Mapping[str, Any]) -> Iterable[str]:
    """Index a job by its phase; a job without one is Pending."""
    yield str((body.get("status") or {}).get("phase") or "Pending")


def index_sweep(body: Mapping[str, Any]) -> Iterable[str]:
    """Index a job by the sweep that its label names; whether that controls it is checked later."""
    metadata = body["metadata"]
    sweep = mapping(metadata.get("labels")).get(LABEL_SWEEP)
    if isinstance(sweep, str):
        yield index_value(metadata["namespace"], sweep)


def index_job(body: Mapping[str, Any]) -> Iterable[str]:
    """Index an object by the job that controls it and by the one that its label names.

    Both are the same job unless another client edited the object: a pod without the label still
    belongs to the job, and a pod without an owner blocks a name that the job needs.
    """
    namespace = body["metadata"]["namespace"]
    return [index_value(namespace, name) for name in _jobs_of(body)]


def index_value(namespace: str, name: str) -> str:
    """Return the index value of `index_job` for a job."""
    return f"{namespace}/{name}"


class InformerState:
    """The cached jobs and their objects; calls `wake(key, delay)` for each job to reconcile.

    Attributes:
        settled: finished jobs that a resync does not wake.
        current: set once everything was read under the lease of this process.
    """

    def __init__(
        self,
        *,
        caches: Mapping[Resource, WatchCache],
        wake: Callable[[JobKey, float], None],
        read_pod: PodCache,
    ) -> None:
        """`read_pod` follows every change of a pod, own writes included."""
        self._caches = dict(caches)
        self._wake = wake
        self._read_pod = read_pod
        self._hidden: OrderedDict[str, None] = OrderedDict()
        self.settled = SettledJobs()
        self.current = asyncio.Event()
        self._absorbing = False
        for resource, cache in caches.items():
            cache.subscribe(self._listener(resource))
        caches[PODS].subscribe(read_pod.follow)

    def adopt(self, resource: Resource, cache: WatchCache) -> None:
        """Subscribe to a further resource, which not every cluster has."""
        self._caches[resource] = cache
        cache.subscribe(self._listener(resource))

    def drop(self, resource: Resource) -> None:
        """Unsubscribe from a resource that the cluster no longer has."""
        self._caches.pop(resource, None)

    def of_job(self, resource: Resource, key: JobKey) -> list[Mapping[str, Any]]:
        """Return the objects of an adopted resource indexed under a job."""
        return self._of_job(resource, key) if resource in self._caches else []

    def job(self, key: JobKey) -> Mapping[str, Any] | None:
        """Return the job of that name, None if there is none. `dict` of it reads all fields at
        once.
        """
        job = self._caches[DIJOBS].get(key.namespace, key.name)
        return None if job is None or job["metadata"]["uid"] in self._hidden else job

    def unfinished(self) -> Iterable[Mapping[str, Any]]:
        """Return the jobs that have not ended, in any order."""
        jobs = self._caches[DIJOBS]
        return chain.from_iterable(
            jobs.by_index(INDEX_PHASE, phase.value) for phase in Phase if not phase.is_finished
        )

    def pods(self, key: JobKey) -> Iterable[Mapping[str, Any]]:
        """Return the pods of the job, and of others under its name."""
        return self._of_job(PODS, key)

    def services(self, key: JobKey) -> Iterable[Mapping[str, Any]]:
        """Return the Services of the job, and of others under its name."""
        return self._of_job(SERVICES, key)

    def configmaps(self, key: JobKey) -> Iterable[Mapping[str, Any]]:
        """Return the ConfigMaps of the job, and of others under its name."""
        return self._of_job(CONFIGMAPS, key)

    def observe(self, resource: Resource, body: dict[str, Any], *, is_news: bool = False) -> None:
        """Store an object from the response of a write or read; takes ownership of `body`.

        Wakes no job, because the caller includes it in its decision. With `is_news` it does not:
        the object wakes its job as an event of the watch does, which will not bring it again.
        """
        if (cache := self._caches.get(resource)) is None:
            return  # it was dropped while the write was under way
        self._absorbing = not is_news
        try:
            cache.absorb(body)
        finally:
            self._absorbing = False

    def recognise(self, resource: Resource, body: dict[str, Any]) -> Mapping[str, Any]:
        """Return the cached form of an object from a list, for `observe_all`."""
        return self._caches[resource].recognise(body)

    def observe_all(
        self, resource: Resource, bodies: Iterable[Mapping[str, Any]], version: str
    ) -> bool:
        """Store objects from a list; return False if the watch is ahead of the list."""
        self._absorbing = True
        try:
            return self._caches[resource].absorb_list(bodies, version)
        finally:
            self._absorbing = False

    def forget(self, uid: str) -> None:
        """Record that the object of that UID is gone."""
        self._hidden[uid] = None
        if len(self._hidden) > MAX_HIDDEN:
            self._hidden.popitem(last=False)

    @property
    def hidden(self) -> frozenset[str]:
        """Return the UIDs of objects that are hidden as deleted and whose deletion no watch has
        reported.
        """
        return frozenset(self._hidden)

    def reveal(self, uids: Iterable[str]) -> None:
        """Show these objects again, which a comparison with the API server has confirmed.

        Without this a wrong 404 for an existing object (from a proxy, or a restored API server)
        would hide it until the operator restarts.
        """
        for uid in uids:
            if uid in self._hidden:
                del self._hidden[uid]
                # Of which job it is, no cache tells by its UID, and this is rare.
                self.settled.clear()

    def resync(self, now: datetime) -> None:
        """Wake every job that is not settled; the comparison with the API server before this wakes
        those of which the watches lost a change.
        """
        jobs = self._caches[DIJOBS].items()
        self._wake_jobs([*self.settled.others(jobs, now)])

    def wake_all(self) -> None:
        """Wake every job, because something changed that any of them may depend on."""
        self._wake_jobs(self._caches[DIJOBS].items())

    def _wake_jobs(self, jobs: Iterable[Mapping[str, Any]]) -> None:
        """Wake jobs, and every job that has left Workloads behind: their events may have arrived
        before it was known that their quota can be released.
        """
        for job in jobs:
            self._wake(JobKey(job["metadata"]["namespace"], job["metadata"]["name"]), 0.0)
        for workload in self._caches[WORKLOADS].items() if WORKLOADS in self._caches else ():
            for name in _jobs_of(workload):
                key = JobKey(workload["metadata"]["namespace"], name)
                if self.job(key) is None:
                    self._wake(key, 0.0)

    def _of_job(self, resource: Resource, key: JobKey) -> list[Mapping[str, Any]]:
        found = self._caches[resource].by_index(INDEX_JOB, index_value(*key))
        if not self._hidden:
            return found
        return [body for body in found if body["metadata"]["uid"] not in self._hidden]

    def _listener(self, resource: Resource) -> Callable[[str, Mapping[str, Any]], None]:
        def listen(kind: str, body: Mapping[str, Any]) -> None:
            uid = body["metadata"].get("uid", "")
            is_known_gone = kind == "DELETED" and uid in self._hidden
            if is_known_gone:
                del self._hidden[uid]
            # A job has more to do once it is gone.
            if not self._absorbing and (resource == DIJOBS or not is_known_gone):
                self._notify(kind, resource, body)

        return listen

    def _notify(self, kind: str, resource: Resource, body: Mapping[str, Any]) -> None:
        metadata = body["metadata"]
        if resource == DIJOBS:
            self._wake(JobKey(metadata["namespace"], metadata["name"]), 0.0)
            return
        if resource == PODS and kind == MODIFIED and self._read_pod.is_as_known(body):
            # A field that no decision reads, such as an annotation of a network plugin.
            return
        for name in _jobs_of(body):
            key = JobKey(metadata["namespace"], name)
            self._wake(key, self._settle(key, body) if resource == PODS else 0.0)

    def _settle(self, key: JobKey, pod: Mapping[str, Any]) -> float:
        """Return the seconds by which a job's reconcile is delayed after an event like this one of
        a pod.
        """
        count = self._caches[PODS].count(INDEX_JOB, index_value(*key))
        if "deletionTimestamp" not in pod["metadata"] and self._read_pod.is_ahead(pod):
            return min(AHEAD_MAX, max(AHEAD_MIN, count * AHEAD_PER_POD))
        return min(SETTLE_MAX, count * SETTLE_PER_POD) if count > SETTLE_ABOVE else 0.0


def _jobs_of(body: Mapping[str, Any]) -> Iterable[str]:
    """Return the names of the jobs that control an object, or that its label names."""
    owner = _owner_of(body)
    controlling = owner.get("name") if owner is not None else None
    labelled = (body["metadata"].get("labels") or {}).get(LABEL_JOB)
    if controlling == labelled and isinstance(labelled, str):
        return (labelled,)
    return [name for name in (controlling, labelled) if isinstance(name, str)]
