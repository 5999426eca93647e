"""What the allocator decides on, read from the cluster's objects. Raw dicts in, no client.

The allocator looks after jobs that are preemptible, and after gangs until the cluster's scheduler
has bound them. All other pods, ours and those of others, take room that is not its own to give.
Pods on their way out take room too, but nobody has to reckon with them for long.

Every job, node and pod is read in isolation: one that cannot be read is named in the snapshot, and
all others are in it. A job that cannot be read keeps what it has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import takewhile
from typing import Any

from di_api.field_error import InvalidSpec, mapping
from di_api.names import KIND, task_of_pod
from di_api.ownership import controller_uid
from di_api.phase import Phase
from di_api.spec import CleanPodPolicy, JobSpec
from di_api.wording import reason_of
from di_operator.allocator.free_capacity import FreeCapacity
from di_operator.allocator.inventory import Unreadable, read_job, read_nodes
from di_operator.allocator.job import WAIT, JobInfo, NodeList
from di_operator.allocator.node import NodeInfo
from di_operator.allocator.profilings import InvalidProfilings, Profilings, load_profilings
from di_operator.lifecycle.kinds.choose import kind_of
from di_operator.lifecycle.kinds.kind import Kind
from di_operator.lifecycle.pods import is_finished
from di_operator.lifecycle.status import Status

Object = Mapping[str, Any]
ReadSpec = Callable[[Object], JobSpec]


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulingSnapshot:
    """Jobs by `<namespace>/<name>`, nodes by name, and who is where."""

    jobs: Mapping[str, JobInfo]
    uids: Mapping[str, str]
    held: Mapping[str, NodeList]
    """What each job has been given, whether or not its pods are there yet."""
    present: Mapping[str, Counter[tuple[str, str]]]
    """The pods of each job that are not ending, by task and node."""
    nodes: Mapping[str, NodeInfo]
    """Free is what the jobs here can have: all but the room of everybody else."""
    now: Mapping[str, NodeInfo]
    """Free is what nobody takes at this moment."""
    unreadable: Mapping[str, Unreadable]
    """By UID: what is not in the snapshot, or of pods: whose room is not reckoned with."""

    def fits_now(self, key: str, wants: NodeList, others: Iterable[str]) -> bool:
        """Whether a job's missing replicas have room beside all pods there are.

        `others` are jobs whose missing replicas may be created at any time; their room is taken.
        """
        capacity = FreeCapacity(self.now)
        for other in others:
            if other != key and not self._take_missing(capacity, other, self.held[other]):
                return False
        return self._take_missing(capacity, key, wants)

    def _take_missing(self, capacity: FreeCapacity, key: str, wants: NodeList) -> bool:
        job, present = self.jobs[key], self.present[key]
        for task in job.tasks:
            for node, count in Counter(wants.task(task.name)).items():
                missing = count - present[task.name, node]
                if missing <= 0:
                    continue
                row = capacity.index.get(node)
                if row is None or not capacity.fits(task, row, missing):
                    return False
                capacity.take(task, row, missing)
        return True


def read_scheduling_snapshot(
    *,
    jobs: Iterable[Object],
    departed: Iterable[Object] = (),
    pods: Iterable[Object],
    others: Iterable[Object],
    nodes: Iterable[Object],
    granted: Mapping[str, NodeList],
    rejected: Mapping[str, str] | None = None,
    read_spec: ReadSpec,
    now: datetime,
) -> SchedulingSnapshot:
    """Read all objects. Whose spec is invalid is in no snapshot: it is the lifecycle's to tell.

    Args:
        jobs: DIJobs of any kind.
        departed: DIJobs that do not exist any more, whose pods may.
        pods: pods labelled as those of DIJobs; of the specs of those that are, only `nodeName` is
            looked at.
        others: all other pods.
        nodes: the cluster's nodes.
        granted: by UID, what jobs were given in this life of the operator.
        rejected: by UID, why a job is to be taken for one that cannot be read.
        read_spec: from a job to its spec; may raise InvalidSpec.
        now: the time, aware.
    """
    reading = _Reading(granted=granted, rejected=rejected or {}, read_spec=read_spec, now=now)
    by_owner: dict[str | None, list[Object]] = {}
    for pod in pods:
        if not is_finished(pod):
            by_owner.setdefault(controller_uid(pod), []).append(pod)
    for job in jobs:
        own = by_owner.get(job["metadata"]["uid"], ())
        # Of thousands of jobs that have ended nothing is to be known, and reading a spec takes
        # time.
        if own or asks_for_nodes(job):
            reading.read(job, own)
    for job in departed:
        reading.read_departed(job, by_owner.get(job["metadata"]["uid"], ()))
    # A label makes no pod a job's.
    everybody = [*others, *by_owner.get(None, ()), *reading.fixed]
    free, without = read_nodes(nodes, everybody, ours=_nobody)
    now_free, _ = read_nodes(nodes, [*everybody, *reading.passing], ours=_nobody)
    return SchedulingSnapshot(
        jobs=reading.infos,
        uids=reading.uids,
        held=reading.held,
        present=reading.present,
        nodes=free,
        now=now_free,
        unreadable=reading.unreadable | without,
    )


@dataclass(slots=True, kw_only=True)
class _Reading:
    """Jobs read so far, and the pods that take room beside theirs."""

    granted: Mapping[str, NodeList]
    rejected: Mapping[str, str]
    read_spec: ReadSpec
    now: datetime
    infos: dict[str, JobInfo] = field(default_factory=dict)
    uids: dict[str, str] = field(default_factory=dict)
    held: dict[str, NodeList] = field(default_factory=dict)
    present: dict[str, Counter[tuple[str, str]]] = field(default_factory=dict)
    fixed: list[Object] = field(default_factory=list)
    passing: list[Object] = field(default_factory=list)
    unreadable: dict[str, Unreadable] = field(default_factory=dict)

    def read(self, job: Object, pods: Iterable[Object]) -> None:
        """Add a job, or say why it is left out."""
        key, uid = _key(job), job["metadata"]["uid"]
        try:
            if (spec := _spec(job, self.read_spec)) is None:
                return
            kind = kind_of(job, spec)
            own = [_with_request(pod, job, spec, kind) for pod in pods]
            staying = [pod for pod in own if "deletionTimestamp" not in pod["metadata"]]
            if not _is_ours(job, spec, own) or uid in self.rejected:
                self._reckon_with(job, spec, own, staying)
                if uid in self.rejected:
                    self.unreadable[uid] = Unreadable.of(KIND, job, self.rejected[uid])
                return
            held = _held(job, spec, self.granted)
            info = _info(job, spec, held, self.now)
            present = Counter(_place_of(pod, job) for pod in staying)
        except Exception as error:
            # Whatever it is, it is one job; the next policy or field must not make it all of them.
            self.unreadable[uid] = Unreadable.of(KIND, job, reason_of(error))
            self.fixed += pods
            return
        self.infos[key], self.uids[key], self.held[key] = info, uid, held
        self.present[key] = present
        self.passing += own

    def read_departed(self, job: Object, pods: Iterable[Object]) -> None:
        """Add the pods of a job that does not exist any more."""
        try:
            if (spec := _spec(job, self.read_spec)) is not None:
                kind = kind_of(job, spec)
                self.passing += [_with_request(pod, job, spec, kind) for pod in pods]
        except Exception as error:
            uid = job["metadata"]["uid"]
            self.unreadable[uid] = Unreadable.of(KIND, job, reason_of(error))

    def _reckon_with(
        self, job: Object, spec: JobSpec, own: list[Object], staying: list[Object]
    ) -> None:
        if _gives_way(job, spec):
            self.passing += own
            return
        self.fixed += staying
        self.passing += [pod for pod in own if "deletionTimestamp" in pod["metadata"]]


def asks_for_nodes(job: Object) -> bool:
    """Whether the allocator may have to do with a job; looks at no more than a few fields."""
    spec, status = mapping(job.get("spec")), mapping(job.get("status"))
    wants = spec.get("preemptible") or mapping(spec.get("scheduling")).get("gang")
    return bool(wants) and not status.get("completionTimestamp")


def leave_capacity(snapshot: SchedulingSnapshot) -> dict[str, NodeInfo]:
    """The nodes with what is free beside everything the jobs hold: what an arrival can have."""
    capacity = FreeCapacity(snapshot.nodes)
    for key, held in snapshot.held.items():
        capacity.take_all(snapshot.jobs[key], held)
    return {
        node.name: replace(node, free=free)
        for node, free in zip(capacity.nodes, capacity.free, strict=True)
    }


def reduced(snapshot: SchedulingSnapshot, key: str, wants: NodeList) -> NodeList:
    """What a job keeps of its nodes on the way to other ones.

    Learners train as one group: if it changes, nothing of the job goes on.
    """
    had = snapshot.held[key]
    kept: dict[str, tuple[str, ...]] = {}
    for task in snapshot.jobs[key].tasks:
        before, after = had.task(task.name), wants.task(task.name)
        if not task.comes_and_goes and before != after:
            return WAIT
        # Replicas are known by their index: those before the first that moves are not touched.
        pairs = takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False))
        kept[task.name] = tuple(node for node, _ in pairs)
    return NodeList.of(kept)


def _spec(job: Object, read_spec: ReadSpec) -> JobSpec | None:
    try:
        return read_spec(job)
    except InvalidSpec:
        return None


def _gives_way(job: Object, spec: JobSpec) -> bool:
    """Whether the pods of a job are about to be deleted."""
    finished = Status.read(job.get("status")).is_finished
    cleaned = finished and spec.clean_pod_policy is not CleanPodPolicy.NONE
    return cleaned or spec.suspend or "deletionTimestamp" in job["metadata"]


def _is_ours(job: Object, spec: JobSpec, pods: list[Object]) -> bool:
    status = Status.read(job.get("status"))
    if "deletionTimestamp" in job["metadata"] or spec.suspend:
        return False
    if status.is_finished:
        return False
    if spec.preemptible:
        return True
    bound = sum(1 for pod in pods if pod["spec"].get("nodeName"))
    waits = status.is_waiting or status.phase is Phase.STARTING
    return spec.scheduling.gang and waits and bound < spec.replicas


def _held(job: Object, spec: JobSpec, granted: Mapping[str, NodeList]) -> NodeList:
    known = granted.get(job["metadata"]["uid"])
    if known is not None:
        return known
    placement = Status.read(job.get("status")).placement or {}
    return NodeList.of({task.name: placement.get(task.name, ()) for task in spec.tasks})


def _info(job: Object, spec: JobSpec, held: NodeList, now: datetime) -> JobInfo:
    status = Status.read(job.get("status"))
    return read_job(
        job, spec, report=_report(job), held=held, attained=status.attained(now), now=now
    )


def _report(job: Object) -> Profilings | None:
    raw = (job.get("status") or {}).get("profilings")
    try:
        return load_profilings(raw) if raw else None
    except InvalidProfilings:
        return None


def _with_request(pod: Object, job: Object, spec: JobSpec, kind: Kind) -> Object:
    """A pod with its template's spec: the cache keeps no more of pods than decisions need."""
    node = (pod.get("spec") or {}).get("nodeName")
    asked = kind.pod_spec(job["metadata"]["name"], spec, pod["metadata"]["name"])
    return {**pod, "spec": {**asked, "nodeName": node}}


def _place_of(pod: Object, job: Object) -> tuple[str, str]:
    return _task_of(pod, job), pod["spec"].get("nodeName") or ""


def _task_of(pod: Object, job: Object) -> str:
    # By the name, which nobody can change; the label is anybody's.
    return task_of_pod(job["metadata"]["name"], pod["metadata"]["name"])


def _key(job: Object) -> str:
    return f"{job['metadata']['namespace']}/{job['metadata']['name']}"


def _nobody(_: Object) -> bool:
    return False
