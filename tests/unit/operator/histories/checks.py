"""What must hold in each history: nothing is left to do, and successes are counted truly."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

from di_api.indexes.replicas import indexes as replica_indexes
from di_api.names import KIND, LABEL_OPERATOR, OPERATOR_NAME, pod_name
from di_api.ownership import controller_uid, sweep_uid
from di_api.phase import has_finished
from di_kube.resources import DIJOB_TASKS, DIJOBS, PODS, WORKLOADS
from di_kube.selectors import read_label_selector
from di_operator.builders.configmap import transform_configmap
from di_operator.builders.pinning import Binding, node_of
from di_operator.cluster.informer_state import index_job, index_value, transform_job, transform_pod
from di_operator.job_tasks.steps import Step, steps
from di_operator.kueue.queueing import NOT_WATCHED, Kueue
from di_operator.lifecycle.decide import decide
from di_operator.lifecycle.needs import Needs, needs
from di_operator.lifecycle.observed.completed import read_completed
from di_operator.lifecycle.observed.pods import Pod, is_finished
from di_operator.lifecycle.observed.sources import Sources
from di_operator.lifecycle.observed.specs import SpecCache
from di_operator.lifecycle.policies.companions import seen_of
from di_operator.lifecycle.policies.scheduling_objects import object_key
from di_operator.lifecycle.read import read_snapshot
from di_operator.lifecycle.vocabulary.actions import (
    Action,
    Create,
    CreateCompanion,
    CreateSchedulingObject,
    DryRun,
    Replace,
)
from di_operator.lifecycle.vocabulary.decision import Settings
from di_operator.lifecycle.vocabulary.reasons import Problem, Reason
from tests.unit.operator.fake_api import Object
from tests.unit.operator.histories.api import NAMESPACE
from tests.unit.operator.histories.garbage import ORPHAN
from tests.unit.operator.histories.nodes import SLOTS, crowded, is_of_others, pods_on
from tests.unit.operator.histories.operator import CONFIG
from tests.unit.operator.histories.queue import pods_with_quota
from tests.unit.operator.histories.schedulers import COMPANION_KINDS
from tests.unit.operator.histories.world import UNREADABLE, World

SETTINGS: Final = Settings(
    service_domain=CONFIG.service_domain,
    server_url=CONFIG.server_url,
    coordinated_server_url=CONFIG.coordinated_server_url,
    companion_kinds=COMPANION_KINDS,
)
IS_WATCHED: Final = read_label_selector(f"{LABEL_OPERATOR}={OPERATOR_NAME}")
COUNTED_WITHIN: Final = 1.0
"""Seconds after which the operator has seen a success: a watch is half a second behind at most."""
REPORTED_WITHIN: Final = 3.0
"""Seconds after which each status shows what pods do: that of a sweep follows those of its jobs,
which follow their pods, each half a second behind at most and not at once."""
LONGEST_UNREST: Final = 30.0
"""Seconds after which it is checked what is left to do, although pods still change."""


def left_to_do(world: World, job: Object, *, is_polled: bool = False) -> str:
    """Return what a decision about a job on the true state would do or write; empty if nothing.
    Only a poll (`is_polled`) shows that objects are missing that no watch shows.

    An object without the operator's label is missing: no watch shows it, so the operator finds and
    repairs it only if the job needs it. Pods are found that lose it while the operator runs.
    """
    services, configmaps = (
        [body for body in _of_job(world, job, kind) if IS_WATCHED(body)]
        for kind in ("Service", "ConfigMap")
    )
    sources = Sources(
        pods=_pods(world, job),
        services=services,
        configmaps=map(transform_configmap, configmaps),
        kueue=_kueue(world, job),
        **world.operator.known(job),
    )
    snapshot = read_snapshot(dict(transform_job(job)), sources, read=SpecCache(size=4).examine)
    needed = needs(snapshot, world.clock.now(), SETTINGS)
    snapshot = replace(snapshot, **_unwatched(world, needed))
    decision = decide(snapshot, world.clock.now(), SETTINGS)
    actions = [
        action
        for action in (*decision.actions, *decision.late_actions)
        if is_polled or not isinstance(action, CreateSchedulingObject | CreateCompanion)
    ]
    left = [*map(_described, actions)]
    left += [f"event {event.reason}" for event in decision.events]
    if decision.status is not None:
        left += _differences(job.get("status") or {}, decision.status)
    return "; ".join(left)


def _of_job(world: World, job: Object, kind: str) -> list[Object]:
    """Return the objects of a kind that a job controls, or that name it."""
    value = index_value(NAMESPACE, job["metadata"]["name"])
    return [body for body in world.api.all(kind) if value in index_job(body)]


def _pods(world: World, job: Object) -> list[Object]:
    return [
        transform_pod(body) for body in _of_job(world, job, PODS.kind) if _is_visible(world, body)
    ]


def _is_visible(world: World, pod: Object) -> bool:
    """Return whether an operator that runs can know of a pod."""
    return IS_WATCHED(pod) or pod["metadata"]["uid"] not in world.invisible


def _unwatched(world: World, needed: Needs) -> Object:
    """Return what reads of unwatched objects find, as fields of the snapshot."""
    found: Object = {}
    if needed.scheduling_objects:
        found["scheduling_objects"] = {
            object_key(resource, name): body
            for resource, name in needed.scheduling_objects
            if (body := world.api.stored(resource.kind).get(name)) is not None
        }
    if needed.companions:
        found["companions"] = {
            each.index: seen_of(body)
            for each in needed.companions
            if (body := world.api.stored(each.recipe.companion["kind"]).get(each.name)) is not None
        }
    return found


def _of_job_tasks(world: World, job: Object) -> tuple[Step, ...]:
    """Return what is to be written to DIJobTasks, or by their request; empty if nothing."""
    tasks = _of_job(world, job, DIJOB_TASKS.kind)
    return steps(job, tasks, _pods(world, job), read_pod=Pod.read)


def _kueue(world: World, job: Object) -> Kueue:
    if not world.is_queued:
        return Kueue(obstacle=NOT_WATCHED)
    workloads = [body for body in _of_job(world, job, "Workload") if IS_WATCHED(body)]
    flavors = world.api.stored("ResourceFlavor")
    return Kueue(obstacle=None, workloads=tuple(workloads), flavor=flavors.get)


def _described(action: Action) -> str:
    match action:
        case Create() | Replace() | DryRun():
            return f"{action.label} {action.body['metadata']['name']}"
        case _:
            return f"{action.label} {action.name}"


def _differences(old: Object, new: Any) -> list[str]:
    """Return the fields of the status that would change; the time of an update is none."""
    old, new = _without_update_times(old), _without_update_times(new)
    return [
        f"status.{key}: {old.get(key)} -> {new.get(key)}"
        for key in sorted({*old, *new})
        if old.get(key) != new.get(key)
    ]


def _without_update_times(status: Any) -> Object:
    conditions = [
        {key: value for key, value in each.items() if key != "lastUpdateTime"}
        for each in status.get("conditions", ())
    ]
    return {**status, "conditions": conditions}


class Watcher:
    """Follows all changes of a history, and collects what must not happen.

    Attributes:
        faults: what has happened all the same.
    """

    def __init__(self, world: World, *, is_undisturbed: bool) -> None:
        """`is_undisturbed`: the operator runs throughout, its requests pass and no rule makes it
        run an index again, so none that has succeeded is.
        """
        self._world = world
        self._is_undisturbed = is_undisturbed
        self.faults: list[str] = []
        self._succeeded: dict[str, float] = {}
        """Times at which programs ended well, before their pod was to be deleted; by UID."""
        self._ever_succeeded: set[tuple[str, str]] = set()
        """The UIDs of jobs and the names of their pods that did."""
        self._jobs: dict[str, str] = {}
        """UIDs of the jobs of pods; by UID."""
        self._latest: dict[str, tuple[str, float]] = {}
        """UID of the latest pod by name, and when its deletion was requested."""
        self._late_pods = set[str]()
        """UIDs of pods that late requests created."""
        self._contested = set[str]()
        """UIDs of pods that one of two leaders created, which the other did not know of."""
        self._pods_changed = 0.0
        world.api.follow = self._follow

    def _follow(self, kind: str, old: Object | None, new: Object | None) -> None:
        self._trace(kind, old, new)
        if kind == PODS.kind and old is None and new is not None and self._world.api.is_late:
            self._late_pods.add(new["metadata"]["uid"])
        if self._world.is_queued and kind in (PODS.kind, WORKLOADS.kind):
            self._check_quota()
        if kind == PODS.kind:
            self._pods_changed = self._world.clock.monotonic()
        if kind == PODS.kind and new is not None:
            self._follow_pod(old, new)
        if kind == DIJOBS.kind and new is not None:
            for fault in self._false_successes(old, new):
                self.blame(fault)

    def _follow_pod(self, old: Object | None, new: Object) -> None:
        now, metadata = self._world.clock.monotonic(), new["metadata"]
        name, uid = metadata["name"], metadata["uid"]
        if is_of_others(name):
            return
        if old is None:
            if any("managedBy" in job["spec"] for job in self._world.api.stored(KIND).values()):
                self.blame(f"{name} of a job that another cluster runs")
            if self._is_undisturbed:
                self._check_new(name)
            if node := self._overcommitted(new):
                self.blame(f"{name} is created on node {node}, which has no free slot")
            if self._world.is_contested:
                self._contested.add(uid)
            self._latest[name] = uid, now
            self._jobs[uid] = metadata["ownerReferences"][0]["uid"]
            return
        is_deleted = "deletionTimestamp" in metadata
        if is_deleted and "deletionTimestamp" not in old["metadata"]:
            self._latest[name] = uid, now
        if not is_deleted and new["status"]["phase"] == "Succeeded" != old["status"]["phase"]:
            self._succeeded[uid] = now
            self._ever_succeeded.add((self._jobs[uid], name))

    def _overcommitted(self, pod: Object) -> str:
        """Return the node of a new pod if the allocator has too many pods there; else empty.

        The scheduler binds other pods there at any time, and late requests create pods, as does an
        operator that does not lead any more: the new leader has given the nodes by then.
        """
        world = self._world
        if world.allocation is None or world.is_contested or world.api.is_late:
            return ""
        there = pods_on(world.api, node := node_of(pod["spec"]))
        is_direct = world.allocation.binding is Binding.DIRECT
        is_all_placed = all(
            (is_direct or "affinity" in each["spec"])
            and (IS_WATCHED(each) and controller_uid(each))
            and each["metadata"]["uid"] not in self._contested
            for each in there
        )
        return node if node and is_all_placed and len(there) > SLOTS else ""

    def _check_new(self, name: str) -> None:
        uid, deleted = self._latest.get(name, ("", 0.0))
        succeeded = self._succeeded.get(uid)
        if succeeded is not None and deleted - succeeded > COUNTED_WITHIN:
            self.blame(f"{name} runs again, which succeeded at {succeeded:.3f}")

    def _check_quota(self) -> None:
        """Check that no pod takes capacity without quota.

        An orphan is not the operator's, nor is what becomes one. A pod that a late request creates
        is deleted at once.
        """
        left = {
            job["metadata"]["uid"]
            for job in self._world.api.stored(KIND).values()
            if ORPHAN in job["metadata"].get("finalizers", ())
        }
        using = Counter(
            (job, name.split("-")[1])
            for name, pod in self._world.pods.items()
            if not is_finished(pod)
            and (job := controller_uid(pod))
            and job not in left
            and pod["metadata"]["uid"] not in self._late_pods
            and _is_visible(self._world, pod)
        )
        quotas = pods_with_quota(self._world.api)
        for (job, task), count in using.items():
            if count > (quota := quotas[job, task]):
                self.blame(f"{count} pods of {task} of {job} with quota for {quota}")

    def _false_successes(self, old: Object | None, new: Object) -> Iterator[str]:
        status, spec = new.get("status") or {}, new["spec"]
        tasks = {task["name"]: task for task in spec.get("tasks", ())}
        for name, indexes in read_completed(status.get("completedIndexes")).items():
            for index in self._without_success(new, tasks[name], indexes):
                yield f"index {index} of {name} counts as succeeded and did not succeed"
        was = ((old or {}).get("status") or {}).get("phase")
        if status.get("phase") != "Succeeded" or was == "Succeeded":
            return
        if "managedBy" in spec:
            # Its pods are in another cluster.
            return
        if spec["backoffLimit"] == UNREADABLE:
            # How many replicas are wanted is then unknown: the job ends with the pods it has.
            return
        if spec.get("preemptible") or "failurePolicy" in spec or "successPolicy" in spec:
            return
        if any("onCompletion" in task for task in tasks.values()):
            return
        for name, task in tasks.items():
            size = task.get("podsPerReplica", 1)
            # The job does not wait for its elastic tier.
            count = task["minReplicas"] if "elastic" in task else task["replicas"]
            if self._world.is_queued:
                # Replicas that were never admitted do not keep the job from its success.
                count = min(count, status.get("admitted", {}).get(name, 0))
            replicas = replica_indexes(count, task.get("vacant", ()))
            wanted = (each * size + place for each in replicas for place in range(size))
            for index in self._without_success(new, task, wanted):
                yield f"the job succeeded without index {index} of {name}"

    def _without_success(self, job: Object, task: Object, indexes: Iterable[int]) -> Iterator[int]:
        """Return the indexes of a task of a job that never succeeded."""
        metadata, status = job["metadata"], job.get("status") or {}
        size = task.get("podsPerReplica", 1)
        promoted = (status.get("standIns") or {}).get(task["name"], {})
        for index in indexes:
            name = pod_name(metadata["name"], task["name"], index, size)
            names = {name, promoted.get(str(index))}
            if not any((metadata["uid"], name) in self._ever_succeeded for name in names):
                yield index

    def blame(self, fault: str) -> None:
        """Add a fault to those of the history and to its trace, once."""
        if fault not in self.faults:
            self.faults.append(fault)
            self._world.note(f"FAULT: {fault}")

    async def rest(self, *, is_polled: bool = False) -> None:
        """Check that nothing is left to do once no pod changes any more, and that the operator has
        reported no defect.
        """
        latest = self._world.clock.monotonic() + LONGEST_UNREST
        while (
            seconds := min(latest, self._pods_changed + REPORTED_WITHIN)
            - self._world.clock.monotonic()
        ) > 0:
            await asyncio.sleep(seconds)
        for job in self._world.api.all(KIND):
            if left := left_to_do(self._world, job, is_polled=is_polled):
                name, now = job["metadata"]["name"], self._world.clock.monotonic()
                self.blame(f"left to do for {name} at {now:.3f}: {left}")
        for job in self._world.api.all(KIND) if self._world.is_scalable else ():
            for step in _of_job_tasks(self._world, job):
                self.blame(f"left to do for DIJobTasks: {step}")
        for node in crowded(self._world.api) if self._world.allocation is not None else ():
            self.blame(f"node {node} has too many pods")
        for name, pod in self._world.pods.items():
            if _is_visible(self._world, pod) and not (IS_WATCHED(pod) or is_of_others(name)):
                self.blame(f"{name} has lost its label")
        for event in self._world.events:
            if event.reason is Problem.RECONCILE_FAILED:
                self.blame(f"the operator failed: {event.message}")
            if event.reason is Reason.SCALE_REFUSED and "the task may have" not in event.message:
                self.blame(f"a request of a DIJobTask was refused: {event.message}")

    def check_end(self) -> None:
        """Check that no job waits for anything after its programs have ended."""
        for name, job in self._world.api.stored(KIND).items():
            is_stopped = sweep_uid(job) is not None and job["spec"].get("suspend")
            if not has_finished(job) and not is_stopped:
                self.blame(f"job {name} has not ended: {job.get('status')}")

    def _trace(self, kind: str, old: Object | None, new: Object | None) -> None:
        body = new or old
        assert body is not None
        name = body["metadata"]["name"]
        if old is None or new is None:
            self._world.note(f"{kind} {name} {'created' if old is None else 'removed'}")
            return
        before, after = _shown(old), _shown(new)
        changed = [f"{key} {value}" for key, value in after.items() if value != before.get(key)] + [
            f"no {key}" for key in before if key not in after
        ]
        self._world.note(f"{kind} {name}: {', '.join(changed) or 'edited'}")


def _shown(body: Object) -> dict[str, Any]:
    """Return the fields of an object whose changes the trace shows."""
    metadata, status = body["metadata"], body.get("status") or {}
    shown = ("deletionTimestamp", "finalizers", "labels")
    fields = {key: metadata[key] for key in shown if key in metadata}
    if fields.get("labels"):
        fields["labels"] = [*fields["labels"]]
    if body.get("kind") == "Node" or "allocatable" in status:
        fields["spec"] = body.get("spec")
    if status.get("placement"):
        fields["placement"] = status["placement"]
    if admission := status.get("admission"):
        fields["quota"] = {each["name"]: each["count"] for each in admission["podSetAssignments"]}
    if body.get("kind") == "Workload":
        conditions = status.get("conditions", ())
        fields["is"] = [each["type"] for each in conditions if each["status"] == "True"]
    if metadata.get("generation"):
        fields["generation"] = metadata["generation"]
    for key in ("phase", "completedIndexes", "restarts"):
        if key in status:
            fields[key] = status[key]
    if body.get("kind") != DIJOBS.kind and status.get("conditions"):
        fields["ready"] = status["conditions"][0]["status"]
    return fields
