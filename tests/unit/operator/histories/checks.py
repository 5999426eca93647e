"""What must hold in each history: nothing is left to do, and successes are counted truly."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from di_api.names import pod_name
from di_kube.resources import DIJOBS, PODS
from di_operator.builders.configmap import transform_configmap
from di_operator.cluster.informer_state import transform_job, transform_pod
from di_operator.kueue.queueing import NOT_WATCHED, Kueue
from di_operator.lifecycle.decide import decide
from di_operator.lifecycle.observed.completed import read_completed
from di_operator.lifecycle.observed.sources import Sources
from di_operator.lifecycle.observed.specs import SpecCache
from di_operator.lifecycle.read import read_snapshot
from di_operator.lifecycle.vocabulary.actions import Action, Create, DryRun, Replace
from di_operator.lifecycle.vocabulary.decision import Settings
from di_operator.lifecycle.vocabulary.reasons import Problem
from tests.unit.operator.fake_api import Object
from tests.unit.operator.histories.operator import CONFIG
from tests.unit.operator.histories.world import JOB, World

SETTINGS: Final = Settings(
    service_domain=CONFIG.service_domain,
    server_url=CONFIG.server_url,
    coordinated_server_url=CONFIG.coordinated_server_url,
)
COUNTED_WITHIN: Final = 1.0
"""Seconds after which the operator has seen a success: a watch is half a second behind at most."""


def left_to_do(world: World) -> str:
    """Return what a decision on the true state would do or write; empty if nothing."""
    job = world.job
    if job is None:
        return ""
    api = world.api
    sources = Sources(
        pods=map(transform_pod, api.all("Pod")),
        services=api.all("Service"),
        configmaps=map(transform_configmap, api.all("ConfigMap")),
        kueue=Kueue(obstacle=NOT_WATCHED),
    )
    snapshot = read_snapshot(dict(transform_job(job)), sources, read=SpecCache(size=4).examine)
    decision = decide(snapshot, world.clock.now(), SETTINGS)
    actions = (*decision.actions, *decision.late_actions)
    found = [*map(_described, actions)]
    found += [f"event {event.reason}" for event in decision.events]
    if decision.status is not None:
        found += _differences(job.get("status") or {}, decision.status)
    return "; ".join(found)


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
        self._ever_succeeded: set[str] = set()
        self._latest: dict[str, tuple[str, float]] = {}
        """UID of the latest pod by name, and when its deletion was requested."""
        world.api.follow = self._follow

    def _follow(self, kind: str, old: Object | None, new: Object | None) -> None:
        self._trace(kind, old, new)
        if kind == PODS.kind and new is not None:
            self._follow_pod(old, new)
        if kind == DIJOBS.kind and new is not None:
            for fault in self._false_successes(old, new):
                self.blame(fault)

    def _follow_pod(self, old: Object | None, new: Object) -> None:
        now, metadata = self._world.clock.monotonic(), new["metadata"]
        name, uid = metadata["name"], metadata["uid"]
        if old is None:
            if self._is_undisturbed:
                self._check_new(name)
            self._latest[name] = uid, now
            return
        is_deleted = "deletionTimestamp" in metadata
        if is_deleted and "deletionTimestamp" not in old["metadata"]:
            self._latest[name] = uid, now
        if not is_deleted and new["status"]["phase"] == "Succeeded" != old["status"]["phase"]:
            self._succeeded[uid] = now
            self._ever_succeeded.add(name)

    def _check_new(self, name: str) -> None:
        uid, deleted = self._latest.get(name, ("", 0.0))
        succeeded = self._succeeded.get(uid)
        if succeeded is not None and deleted - succeeded > COUNTED_WITHIN:
            self.blame(f"{name} runs again, which succeeded at {succeeded:.3f}")

    def _false_successes(self, old: Object | None, new: Object) -> Iterator[str]:
        status, spec = new.get("status") or {}, new["spec"]
        tasks = {task["name"]: task for task in spec.get("tasks", ())}
        for name, indexes in read_completed(status.get("completedIndexes")).items():
            for index in self._without_success(tasks[name], indexes):
                yield f"index {index} of {name} counts as succeeded and did not succeed"
        was = ((old or {}).get("status") or {}).get("phase")
        if status.get("phase") != "Succeeded" or was == "Succeeded":
            return
        if "failurePolicy" in spec or "successPolicy" in spec:
            return
        for name, task in tasks.items():
            count = task["replicas"] * task.get("podsPerReplica", 1)
            for index in self._without_success(task, range(count)):
                yield f"the job succeeded without index {index} of {name}"

    def _without_success(self, task: Object, indexes: Iterable[int]) -> Iterator[int]:
        """Return the indexes of a task that never succeeded."""
        size = task.get("podsPerReplica", 1)
        for index in indexes:
            if pod_name(JOB, task["name"], index, size) not in self._ever_succeeded:
                yield index

    def blame(self, fault: str) -> None:
        """Add a fault to those of the history and to its trace, once."""
        if fault not in self.faults:
            self.faults.append(fault)
            self._world.note(f"FAULT: {fault}")

    def rest(self) -> None:
        """Check that nothing is left to do, and that the operator has reported no defect."""
        if left := left_to_do(self._world):
            self.blame(f"left to do at {self._world.clock.monotonic():.3f}: {left}")
        for event in self._world.events:
            if event.reason is Problem.RECONCILE_FAILED:
                self.blame(f"the operator failed: {event.message}")

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
    fields = {key: metadata[key] for key in ("deletionTimestamp", "finalizers") if key in metadata}
    if metadata.get("generation"):
        fields["generation"] = metadata["generation"]
    for key in ("phase", "completedIndexes", "restarts"):
        if key in status:
            fields[key] = status[key]
    if body.get("kind") != DIJOBS.kind and status.get("conditions"):
        fields["ready"] = status["conditions"][0]["status"]
    return fields
