"""What the allocator decides on, read from the cluster's objects. Raw dicts in, no client.

The allocator looks after jobs that are preemptible, and after gangs until the cluster's scheduler
has bound them. All other pods, ours and those of others, take room that is not its own to give.
Pods on their way out take room too, but nobody has to reckon with them for long.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import takewhile
from typing import Any

from di_api.coordinated import Coordinated, Role
from di_api.field_error import InvalidSpec
from di_api.model import CleanPodPolicy, JobSpec, Phase
from di_api.names import LABEL_JOB, LABEL_TASK_NAME
from di_operator.allocator.inventory import read_job, read_nodes
from di_operator.allocator.job import WAIT, JobInfo, NodeList
from di_operator.allocator.node import NodeInfo
from di_operator.allocator.profilings import InvalidProfilings, Profilings, load_profilings
from di_operator.allocator.room import Room
from di_operator.builders.replica import main_container, with_amounts
from di_operator.lifecycle.pods import is_finished
from di_operator.lifecycle.status import Status

Object = Mapping[str, Any]
ReadSpec = Callable[[Object], JobSpec]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
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

    def fits_now(self, key: str, wants: NodeList, others: Iterable[str]) -> bool:
        """Whether a job's missing replicas have room beside all pods there are.

        `others` are jobs whose missing replicas may be created at any time; their room is taken.
        """
        room = Room(self.now)
        for other in others:
            if other != key and not self._take_missing(room, other, self.held[other]):
                return False
        return self._take_missing(room, key, wants)

    def _take_missing(self, room: Room, key: str, wants: NodeList) -> bool:
        job, present = self.jobs[key], self.present[key]
        for task in job.tasks:
            for node, count in Counter(wants.task(task.name)).items():
                missing = count - present[task.name, node]
                if missing <= 0:
                    continue
                row = room.index.get(node)
                if row is None or not room.fits(task, row, missing):
                    return False
                room.take(task, row, missing)
        return True


def read_scene(
    *,
    jobs: Iterable[Object],
    departed: Iterable[Object] = (),
    pods: Iterable[Object],
    others: Iterable[Object],
    nodes: Iterable[Object],
    granted: Mapping[str, NodeList],
    read_spec: ReadSpec,
    now: datetime,
) -> Scene:
    """Read all objects. What cannot be read belongs to no scene: it is the lifecycle's to tell.

    Args:
        jobs: DIJobs of any kind.
        departed: DIJobs that do not exist any more, whose pods may.
        pods: pods of DIJobs; of their specs only `nodeName` is looked at.
        others: all other pods.
        nodes: the cluster's nodes.
        granted: by UID, what jobs were given in this life of the operator.
        read_spec: from a job to its spec; may raise InvalidSpec.
        now: the time, aware.
    """
    by_job: dict[str, list[Object]] = {}
    for pod in pods:
        if not is_finished(pod):
            by_job.setdefault(_job_key(pod), []).append(pod)
    # Of thousands of jobs that have ended nothing is to be known, and reading a spec takes time.
    specs = {
        key: (job, spec)
        for job in jobs
        if ((key := _key(job)) in by_job or asks_for_nodes(job)) and (spec := _spec(job, read_spec))
    }
    infos: dict[str, JobInfo] = {}
    held: dict[str, NodeList] = {}
    present: dict[str, Counter[tuple[str, str]]] = {}
    fixed: list[Object] = []
    passing: list[Object] = []
    for key, (job, spec) in specs.items():
        own = [_with_request(pod, spec) for pod in by_job.get(key, ())]
        staying = [pod for pod in own if "deletionTimestamp" not in pod["metadata"]]
        if _is_ours(job, spec, own):
            held[key] = _held(job, spec, granted)
            infos[key] = _info(job, spec, held[key], now)
            present[key] = Counter(map(_place_of, staying))
            passing += own
        elif _gives_way(job, spec):
            passing += own
        else:
            fixed += staying
            passing += [pod for pod in own if "deletionTimestamp" in pod["metadata"]]
    for job in departed:
        if (key := _key(job)) not in specs and (spec := _spec(job, read_spec)):
            passing += [_with_request(pod, spec) for pod in by_job.get(key, ())]
    everybody = [*others, *fixed]
    return Scene(
        jobs=infos,
        uids={key: specs[key][0]["metadata"]["uid"] for key in infos},
        held=held,
        present=present,
        nodes=read_nodes(nodes, everybody, ours=_nobody),
        now=read_nodes(nodes, [*everybody, *passing], ours=_nobody),
    )


def asks_for_nodes(job: Object) -> bool:
    """Whether the allocator may have to do with a job; looks at no more than a few fields."""
    spec = job.get("spec") or {}
    wants = spec.get("preemptible") or (spec.get("scheduling") or {}).get("gang")
    return bool(wants) and not (job.get("status") or {}).get("completionTimestamp")


def leave_room(scene: Scene) -> dict[str, NodeInfo]:
    """The nodes with what is free beside everything the jobs hold: what an arrival can have."""
    room = Room(scene.nodes)
    for key, held in scene.held.items():
        room.take_all(scene.jobs[key], held)
    return {
        node.name: replace(node, free=free)
        for node, free in zip(room.nodes, room.free, strict=True)
    }


def reduced(scene: Scene, key: str, wants: NodeList) -> NodeList:
    """What a job keeps of its nodes on the way to other ones.

    Learners train as one group: if it changes, nothing of the job goes on.
    """
    had = scene.held[key]
    kept: dict[str, tuple[str, ...]] = {}
    for task in scene.jobs[key].tasks:
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
    phase = Status.read(job.get("status")).phase
    finished = phase is not None and phase.is_finished
    cleaned = finished and spec.clean_pod_policy is not CleanPodPolicy.NONE
    return cleaned or spec.suspend or "deletionTimestamp" in job["metadata"]


def _is_ours(job: Object, spec: JobSpec, pods: list[Object]) -> bool:
    status = Status.read(job.get("status"))
    if "deletionTimestamp" in job["metadata"] or spec.suspend:
        return False
    if status.phase is not None and status.phase.is_finished:
        return False
    if spec.preemptible:
        return True
    bound = sum(1 for pod in pods if pod["spec"].get("nodeName"))
    waits = status.phase in (None, Phase.PENDING, Phase.STARTING)
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


def _with_request(pod: Object, spec: JobSpec) -> Object:
    """A pod with its task's template: the cache keeps no more of pods than decisions need."""
    node = (pod.get("spec") or {}).get("nodeName")
    if spec.coordinated is not None:
        return {**pod, "spec": {**_replica_spec(pod, spec.coordinated), "nodeName": node}}
    name = (pod["metadata"].get("labels") or {}).get(LABEL_TASK_NAME)
    template = next((task.template for task in spec.tasks if task.name == name), {})
    return {**pod, "spec": {**(template.get("spec") or {}), "nodeName": node}}


def _replica_spec(pod: Object, coordinated: Coordinated) -> dict[str, Any]:
    """The containers of a coordinated job's pod; an aggregator's template is not known here."""
    name = pod["metadata"]["name"]
    replica = next((each for each in coordinated.replicas if each.name == name), None)
    template = coordinated.template(replica.role if replica else Role.COORDINATOR) or {}
    containers = [dict(each) for each in (template.get("spec") or {}).get("containers") or ()]
    main = main_container(containers)
    if main is not None and replica is not None:
        main["resources"] = with_amounts(main.get("resources") or {}, replica.resources)
    return {"containers": containers}


def _place_of(pod: Object) -> tuple[str, str]:
    return pod["metadata"]["labels"][LABEL_TASK_NAME], pod["spec"].get("nodeName") or ""


def _key(job: Object) -> str:
    return f"{job['metadata']['namespace']}/{job['metadata']['name']}"


def _job_key(pod: Object) -> str:
    return f"{pod['metadata']['namespace']}/{(pod['metadata'].get('labels') or {}).get(LABEL_JOB)}"


def _nobody(_: Object) -> bool:
    return False
