"""A cluster in memory: an API server with versions and preconditions, a kubelet moved by hand."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Self

from di_api import names
from di_kube.resources import DIJOBS, PODS, WORKLOADS, Resource
from di_operator.builders.configmap import transform_configmap
from di_operator.cluster.informer_state import transform_pod
from di_operator.kueue.queueing import Kueue
from di_operator.lifecycle.decide import Decision, JobEvent, Settings, decide
from di_operator.lifecycle.needs import needs
from di_operator.lifecycle.observed.placement import Grant
from di_operator.lifecycle.observed.pods import Pod, has_succeeded
from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.observed.sources import Sources
from di_operator.lifecycle.observed.specs import SpecCache
from di_operator.lifecycle.observed.status import with_owned
from di_operator.lifecycle.policies.scheduling_objects import object_key
from di_operator.lifecycle.read import read_snapshot
from di_operator.lifecycle.vocabulary.actions import (
    Action,
    Create,
    CreateCompanion,
    CreateSchedulingObject,
    Delete,
    DryRun,
    Patch,
    PatchSchedulingObject,
    Reclaim,
    Replace,
)
from di_operator.lifecycle.vocabulary.rules import Seen
from di_operator.lifecycle.write_errors import (
    CompanionRefused,
    Fault,
    NameTaken,
    SchedulingObjectRefused,
    gravest,
    on_error,
)
from di_server.jobs.profilings import Report, status_patch
from tests.schemas import dropped, status_schema
from tests.unit.lifecycle.kubelet_model import START, KubeletModel, Object

SETTINGS = Settings(
    service_domain="svc.cluster.local",
    server_url="http://di-server.di-system.svc.cluster.local:8081",
    coordinated_server_url="http://di-server.di-system:8080",
)


def task(name: str, replicas: int = 1, **fields: Any) -> Object:
    """A task of a named type, or of type none under another name."""
    named = name in ("learner", "collector", "evaluator")
    return {
        "name": name,
        "type": name if named else "none",
        "replicas": replicas,
        "template": {"spec": {"containers": [{"name": "di-container", "image": "train:1"}]}},
        **fields,
    }


def job(*tasks: Object, name: str = "x", uid: str = "uid-x", **spec: Any) -> Object:
    """A job as the API server returns it; the defaults are left to the operator."""
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {
            "name": name,
            "namespace": "rl",
            "uid": uid,
            "generation": 1,
            "resourceVersion": "1",
        },
        "spec": {"tasks": list(tasks) or [task("learner"), task("collector", 3)], **spec},
    }


class Crash(Exception):
    """The operator died here."""


class ClusterModel(KubeletModel):
    """One job with all it owns, and the kubelet's and users' hands on it."""

    def __init__(self, body: Object) -> None:
        super().__init__()
        self.job = body
        self.settings = SETTINGS
        self.writes: list[str] = []
        self.dry_runs: list[str] = []
        self.events: list[JobEvent] = []
        self.phases: list[str] = []
        self.refuse_pods: Fault | None = None
        self.refuse_companions: Fault | None = None
        self.refuse_scheduling_objects: Fault | None = None
        self.looks = 0
        self.deleted_job = False
        self.most_live = 0
        self.examine = SpecCache(size=8).examine
        self.grant: Grant | None = None
        self.aggregator: Object | None = None
        self.reports_since: datetime | None = START
        self.largest_node_memory: Decimal | None = None
        self.nodes: frozenset[str] | None = None
        self.could_run = False
        self.suspect_nodes: dict[str, int] = {}
        self.notification_targets: frozenset[str] | None = None
        self.suspend_idle_jobs = False
        self.scale_down_idle_jobs = False

    # --- what tests look at ---

    @property
    def status(self) -> Object:
        """The job's status as it stands."""
        status: Object = self.job.get("status", {})
        return status

    @property
    def phase(self) -> str | None:
        """The job's phase as it stands."""
        return self.status.get("phase")

    @property
    def counts(self) -> tuple[int, int]:
        """Restarts and reschedules."""
        return self.status["restarts"], self.status["reschedules"]

    def condition(self, kind: str) -> Object:
        """The condition of a type."""
        return next(c for c in self.status["conditions"] if c["type"] == kind)

    def env(self, pod: str) -> dict[str, str]:
        """The variables of a pod's first container, as a kubelet gives them to it now."""
        container = self.objects["Pod", pod]["spec"]["containers"][0]
        return {variable["name"]: self._value(variable) for variable in container["env"]}

    def _value(self, variable: Object) -> str:
        if "value" in variable:
            return str(variable["value"])
        source = variable["valueFrom"]["configMapKeyRef"]
        return str(self.objects["ConfigMap", source["name"]]["data"][source["key"]])

    # --- the operator ---

    def snapshot(
        self,
        pods: list[Object] | None = None,
        companions: dict[int, Object] | None = None,
        scheduling_objects: dict[str, Object] | None = None,
    ) -> Snapshot:
        """What the operator reads; ``pods`` is a view that may be older than the truth."""
        by_kind: dict[str, list[Object]] = {"Pod": [], "Service": [], "ConfigMap": []}
        for (kind, _), body in self.objects.items():
            by_kind.setdefault(kind, []).append(copy.deepcopy(body))
        return read_snapshot(
            copy.deepcopy(self.job),
            Sources(
                pods=map(transform_pod, by_kind["Pod"]) if pods is None else pods,
                deleted_pods=[
                    transform_pod(pod)
                    for pod in copy.deepcopy(self.deleted_pods)
                    if has_succeeded(Pod.read(pod))
                ],
                services=by_kind["Service"],
                configmaps=map(transform_configmap, by_kind["ConfigMap"]),
                grant=self.grant,
                aggregator=self.aggregator,
                reports_since=self.reports_since,
                largest_node_memory=self.largest_node_memory,
                nodes=self.nodes,
                could_run=lambda: self.could_run,
                suspect_nodes=self.suspect_nodes,
                notification_targets=self.notification_targets,
                suspend_idle_jobs=self.suspend_idle_jobs,
                scale_down_idle_jobs=self.scale_down_idle_jobs,
                companions=companions,
                scheduling_objects=scheduling_objects,
                kueue=self.kueue(),
            ),
            read=self.examine,
        )

    def kueue(self) -> Kueue | None:
        """What the operator knows of Kueue: nothing, in most clusters."""
        return None

    def look(self) -> Snapshot:
        """The same with what has to be read for the decision."""
        snapshot = self.snapshot()
        needed = needs(snapshot, self.now, self.settings)
        if needed.companions:
            self.looks += 1
            wanted = {
                each.index: self.objects.get((each.resource.kind, each.name))
                for each in needed.companions
                if each.resource is not None
            }
            found = {index: copy.deepcopy(one) for index, one in wanted.items() if one is not None}
            snapshot = replace(snapshot, companions=found)
        if needed.scheduling_objects:
            self.looks += 1
            named = (
                (object_key(*each), (each[0].kind, each[1])) for each in needed.scheduling_objects
            )
            there = {k: copy.deepcopy(self.objects[at]) for k, at in named if at in self.objects}
            snapshot = replace(snapshot, scheduling_objects=there)
        return snapshot

    def decide(self) -> Decision:
        """What the operator would do now."""
        return decide(self.snapshot(), self.now, self.settings)

    def reconcile(self, *, crash_after: int | None = None) -> Decision:
        """Decide, act, write the status, emit; dies after ``crash_after`` writes."""
        snapshot = self.look()
        # This operator counts them now, and the one after a crash knows nothing of them.
        self.deleted_pods.clear()
        decision = decide(snapshot, self.now, self.settings)
        left = [crash_after]
        faults = self._run(decision.actions, left)
        if faults:
            decision = on_error(snapshot, gravest(faults), self.now)
            self._run(decision.actions, left)
        if decision.status is not None:
            present = snapshot.job.get("status", {})
            status = with_owned(present, decision.status)
            if status != present:
                self._put_status(status)
                self._spend(left)
        self.events.extend(decision.events)
        self._run(decision.late_actions, left)
        if decision.is_last:
            self._require_nothing_next(decision)
        return decision

    def _require_nothing_next(self, decision: Decision) -> None:
        """Fail if a decision that was announced as the last one is followed by another one."""
        after = decide(self.look(), self.now, self.settings)
        found = (after.actions, after.status, after.events, after.late_actions, after.requeue_after)
        assert found == ((), None, (), (), decision.requeue_after)

    def die_after(self, writes: int) -> Self:
        """Reconcile until the operator dies after so many writes, or has nothing left to write."""
        while writes > 0:
            before = len(self.writes)
            with suppress(Crash):
                self.reconcile(crash_after=writes)
            writes -= max(1, len(self.writes) - before)
        return self

    def settle(self, limit: int = 30) -> Self:
        """Reconcile until nothing is left to write; time passes where the operator asks for it.

        Only short delays are waited for: those until something becomes visible or is retried.
        """
        for _ in range(limit):
            decision = self.reconcile()
            if not decision.actions and not decision.late_actions and decision.status is None:
                if decision.requeue_after is None or decision.requeue_after > 5:
                    return self
                self.now += timedelta(seconds=decision.requeue_after)
        raise AssertionError(f"no fixed point after {limit} reconciles: {decision}")

    def patch_status(self, patch: Mapping[str, Any]) -> Self:
        """Merge into the status as the API server does, and refuse what it would drop."""
        return self._put_status(_merged(self.job.get("status", {}), patch))

    def _put_status(self, status: Mapping[str, Any]) -> Self:
        lost = dropped(status_schema("dijobs-crd.yaml"), status)
        assert not lost, f"the CRD lacks {', '.join(lost)}"
        before = self.job.get("status", {})
        self.writes.append("status")
        self.job["status"] = copy.deepcopy(dict(status))
        self._touch(self.job)
        if status.get("phase") not in (None, before.get("phase")):
            self.phases.append(status["phase"])
        return self

    def _run(self, actions: tuple[Action, ...], left: list[int | None]) -> list[Fault]:
        for action in actions:
            fault = self._act(action)
            if fault is not None:
                return [fault]
            self._spend(left)
        return []

    def _spend(self, left: list[int | None]) -> None:
        if left[0] is not None:
            left[0] -= 1
            if left[0] <= 0:
                raise Crash

    def _act(self, action: Action) -> Fault | None:
        match action:
            case Create(resource=resource, body=body):
                return self._create(resource, body)
            case DryRun(body=body):
                self.dry_runs.append(body["metadata"]["name"])
                return self.refuse_pods
            case CreateCompanion():
                return self._create_companion(action)
            case CreateSchedulingObject() | PatchSchedulingObject():
                return self._write_scheduling_object(action)
            case Replace(body=body):
                self._replace_configmap(body)
            case Reclaim(resource=resource, name=name):
                self.writes.append(f"reclaim {resource.kind} {name}")
                metadata = self.objects[resource.kind, name]["metadata"]
                metadata |= _merged(
                    {key: metadata.get(key) for key in ("labels", "annotations")},
                    {"labels": action.labels, "annotations": action.annotations},
                )
                self._touch(self.objects[resource.kind, name])
            case Patch():
                self.patch(action)
            case Delete(resource=resource, name=name) if resource == DIJOBS:
                self.writes.append("delete DIJob")
                self.deleted_job = True
            case Delete(resource=resource, name=name) if resource == PODS:
                found = self.objects.get(("Pod", name))
                if found is not None and found["metadata"]["uid"] == action.uid:
                    assert found["metadata"]["resourceVersion"] == action.resource_version
                    self.writes.append(f"delete Pod {name}")
                    self.delete_pod(name, force=action.grace_period_seconds == 0)
            case Delete(resource=resource) if resource == WORKLOADS:
                self.delete_workload(action)
            case Delete(resource=resource, name=name):
                self.writes.append(f"delete {resource.kind} {name}")
                del self.objects[resource.kind, name]
        return None

    def _write_scheduling_object(
        self, action: CreateSchedulingObject | PatchSchedulingObject
    ) -> Fault | None:
        if isinstance(action, PatchSchedulingObject):
            present = self.objects[action.resource.kind, action.name]
            assert present["metadata"]["resourceVersion"] == action.resource_version
            self.writes.append(f"patch {action.resource.kind} {action.name}")
            present |= _merged(present, action.patch)
            self._touch(present)
            return None
        if self.refuse_scheduling_objects is not None:
            return self.refuse_scheduling_objects
        fault = self._create(action.resource, action.body)
        if isinstance(fault, NameTaken):
            seen = Seen.SCHEDULING_OBJECT_REFUSED
            return SchedulingObjectRefused(seen=seen, message=fault.message)
        return None

    def _replace_configmap(self, body: Mapping[str, Any]) -> None:
        key = ("ConfigMap", body["metadata"]["name"])
        present = self.objects[key]["metadata"]
        assert present["resourceVersion"] == body["metadata"]["resourceVersion"]
        self.writes.append("replace ConfigMap")
        self.objects[key] = copy.deepcopy(dict(body))
        self.objects[key]["metadata"]["uid"] = present["uid"]
        self._touch(self.objects[key])

    def patch(self, action: Patch) -> None:
        """Merge into an object that is as it was seen."""
        is_job = action.resource == DIJOBS
        found = self.job if is_job else self.objects[action.resource.kind, action.name]
        assert found["metadata"]["resourceVersion"] == action.resource_version, action
        assert found["metadata"]["uid"] == action.uid, action
        self.writes.append(f"patch {action.resource.kind} {action.name}")
        merged = _merged(found, action.body)
        if is_job and merged["spec"] != found["spec"]:
            merged["metadata"]["generation"] += 1
        found.clear()
        found.update(merged)
        self._touch(found)

    def delete_workload(self, action: Delete) -> None:
        """Delete a Workload, which its finalizers may hold."""
        raise NotImplementedError

    def _create(self, resource: Resource, body: Mapping[str, Any]) -> Fault | None:
        key = (body["kind"], body["metadata"]["name"])
        if (found := self.objects.get(key)) is not None:
            owners = found["metadata"].get("ownerReferences") or [{}]
            ours = owners[0].get("uid") == self.job["metadata"]["uid"]
            return None if ours else NameTaken(resource=resource, found=copy.deepcopy(found))
        if key[0] == "Pod" and self.refuse_pods is not None:
            return self.refuse_pods
        self.writes.append(f"create {key[0]} {key[1]}")
        self.put(body)
        self.most_live = max(self.most_live, len(self.pods) - len(self.ending))
        return None

    def _create_companion(self, action: CreateCompanion) -> Fault | None:
        if action.resource is None:
            return CompanionRefused(seen=Seen.COMPANION_KIND_MISSING, message=action.words)
        if self.refuse_companions is not None:
            return self.refuse_companions
        fault = self._create(action.resource, action.body)
        if isinstance(fault, NameTaken):
            return CompanionRefused(seen=Seen.COMPANION_NAME_TAKEN, message=action.words)
        return fault

    # --- the users ---

    def report(self, **profilings: Any) -> Self:
        """di-server takes a report of the job."""
        patch = status_patch(self.job, [Report(profilings, lambda _: None)], self.now).patch
        if patch is not None:
            self.job["status"] = _merged(self.job["status"], patch["status"])
            self._touch(self.job)
        return self

    def edit(self, **spec: Any) -> Self:
        """A user changes the spec."""
        self.job["spec"].update(spec)
        self.job["metadata"]["generation"] += 1
        self._touch(self.job)
        return self

    def scale(self, name: str, replicas: int) -> Self:
        """A user changes the replicas of a task."""
        tasks = [
            {**task, "replicas": replicas} if task["name"] == name else task
            for task in self.job["spec"]["tasks"]
        ]
        self.edit(tasks=tasks)
        return self

    def place(self, **nodes: str) -> Self:
        """The allocator gives each task its nodes, named in one word: ``learner="a b"``."""
        self.grant = Grant(placement={task: tuple(names.split()) for task, names in nodes.items()})
        return self

    def pass_time(self, seconds: float) -> Self:
        """Let the clock go on."""
        self.now += timedelta(seconds=seconds)
        return self

    def wait(self, seconds: float) -> Self:
        """Let the clock go on, and do all that is due then; not a second passes beside it."""
        self.pass_time(seconds)
        for _ in range(30):
            decision = self.reconcile()
            if not decision.actions and decision.status is None:
                return self
        raise AssertionError(f"no fixed point: {decision}")


def running(*tasks: Object, **spec: Any) -> ClusterModel:
    """A cluster whose job has just reached Running."""
    cluster = ClusterModel(job(*tasks, **spec))
    cluster.settle()
    cluster.run()
    cluster.settle()
    assert cluster.phase == "Running"
    return cluster


def _merged(value: Any, patch: Any) -> Any:
    if not isinstance(patch, Mapping):
        return copy.deepcopy(patch)
    result = dict(value) if isinstance(value, Mapping) else {}
    for key, change in patch.items():
        if change is None:
            result.pop(key, None)
        else:
            result[key] = _merged(result.get(key), change)
    return result
