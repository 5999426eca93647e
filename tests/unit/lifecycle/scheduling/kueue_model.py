"""The cluster in memory with a Kueue in it, moved by hand: who has how much quota."""

from __future__ import annotations

import copy
from typing import Any, Self

from typing_extensions import override

from di_api.names import LABEL_QUEUE
from di_api.timestamps import format_time
from di_operator.kueue.queueing import NOT_SERVED, Kueue
from di_operator.lifecycle.vocabulary.actions import Delete, Patch
from tests.unit.lifecycle.cluster_model import ClusterModel, job, task
from tests.unit.lifecycle.kubelet_model import Object

FLAVOR = {"spec": {"nodeLabels": {"pool": "gpu"}, "tolerations": [{"key": "gpu"}]}}


def queued(body: Object, queue: str = "team", **labels: str) -> Object:
    """A job as the webhook lets it in: suspended by its queue."""
    body["metadata"]["labels"] = {LABEL_QUEUE: queue, **labels}
    body["metadata"]["annotations"] = {"diengine/suspended-by": "queue"}
    body["spec"]["suspend"] = True
    return body


class QueuedCluster(ClusterModel):
    """A job with a queue; `admit` and `evict_workload` are Kueue's hands.

    After each write it is asked whether the pods that there are have been admitted.
    """

    def __init__(self, body: Object) -> None:
        super().__init__(body)
        self.served = True
        self.flavors: dict[str, Object] = {"default": FLAVOR}
        self.classes: dict[str, int] = {}

    @override
    def kueue(self) -> Kueue:
        if not self.served:
            return Kueue(obstacle=NOT_SERVED)
        return Kueue(
            obstacle=None,
            workloads=tuple(copy.deepcopy(list(self.workloads.values()))),
            flavor=self.flavors.get,
            priority=self.classes.get,
        )

    # --- what tests look at ---

    @property
    def workloads(self) -> dict[str, Object]:
        """All Workloads by name."""
        return {name: body for (kind, name), body in self.objects.items() if kind == "Workload"}

    def states(self) -> dict[str, str]:
        """In a word each: gone, held back, finished, evicted, admitted, queued."""
        return {name: _state(body) for name, body in self.workloads.items()}

    def held(self, task: str) -> int:
        """How many pods of a task have quota, admitted or still to be given back."""
        return sum(
            assigned["count"]
            for body in self.workloads.values()
            if not _is(body, "Finished")
            for assigned in (_status(body).get("admission") or {}).get("podSetAssignments", ())
            if assigned["name"] == task
        )

    def using(self, task: str) -> int:
        """How many pods of a task take room."""
        return sum(
            pod["metadata"]["labels"]["diengine/task-name"] == task
            and pod["status"]["phase"] not in ("Succeeded", "Failed")
            for pod in self.pods.values()
        )

    # --- Kueue ---

    def admit(self, name: str, **counts: int) -> Self:
        """Kueue admits a Workload: all pods, or so many of a podSet."""
        body = self.workloads[name]
        assert _state(body) in ("queued", "reserved"), _state(body)
        assignments = [
            {
                "name": each["name"],
                "count": counts.get(each["name"], each["count"]),
                "flavors": {"cpu": "default"},
                **({"topologyAssignment": {"levels": []}} if "topologyRequest" in each else {}),
            }
            for each in body["spec"]["podSets"]
        ]
        _status(body)["admission"] = {"clusterQueue": "main", "podSetAssignments": assignments}
        self.say_of(name, QuotaReserved=True, Admitted=True, Evicted=False)
        return self

    def reserve(self, name: str) -> Self:
        """It has quota, and waits for a check."""
        self.admit(name)
        self.say_of(name, Admitted=False)
        return self

    def evict_workload(self, name: str, reason: str = "Preempted") -> Self:
        """Kueue asks for the quota of a Workload back."""
        assert _state(self.workloads[name]) == "admitted"
        self.say_of(name, reason, Evicted=True)
        return self

    def say_of(self, name: str, reason: str = "Said", message: str = "so", **values: bool) -> Self:
        """Set conditions of a Workload."""
        body = self.workloads[name]
        conditions = {each["type"]: each for each in _status(body).get("conditions", ())}
        for kind, value in values.items():
            conditions[kind] = {
                "type": kind,
                "status": str(value),
                "reason": reason,
                "message": message,
                "lastTransitionTime": format_time(self.now),
            }
        _status(body)["conditions"] = list(conditions.values())
        self._touch(body)
        return self

    def delete_by_hand(self, name: str) -> Self:
        """Somebody deletes a Workload."""
        body = self.workloads[name]
        body["metadata"].setdefault("deletionTimestamp", format_time(self.now))
        self._touch(body)
        self._bury(name)
        return self

    @override
    def delete_workload(self, action: Delete) -> None:
        body = self.workloads[action.name]
        assert body["metadata"]["resourceVersion"] == action.resource_version
        self.writes.append(f"delete Workload {action.name}")
        self.delete_by_hand(action.name)

    @override
    def patch(self, action: Patch) -> None:
        super().patch(action)
        if action.resource.kind == "Workload":
            self._bury(action.name)

    def _bury(self, name: str) -> None:
        metadata = self.workloads[name]["metadata"]
        if "deletionTimestamp" in metadata and not metadata.get("finalizers"):
            del self.objects["Workload", name]

    # --- what must hold ---

    @override
    def _touch(self, body: Object) -> None:
        super()._touch(body)
        if getattr(self, "served", False):
            self.check()

    def check(self) -> None:
        """No pod without admission."""
        for each in self.job["spec"].get("tasks", ()):
            name = each["name"]
            assert self.using(name) <= self.held(name), f"{name}: {self.states()} {[*self.pods]}"


def _status(body: Object) -> Object:
    status: Object = body.setdefault("status", {})
    return status


def _is(body: Object, kind: str) -> bool:
    conditions: list[dict[str, Any]] = _status(body).get("conditions") or []
    return any(each["type"] == kind and each["status"] == "True" for each in conditions)


def _state(body: Object) -> str:
    if _is(body, "Finished"):
        return "finished"
    if not _status(body).get("admission"):
        return "queued"
    if _is(body, "Evicted"):
        return "evicted"
    return "admitted" if _is(body, "Admitted") else "reserved"


CORE = "x-core"


def work(replicas: int = 3, **fields: Any) -> dict[str, Any]:
    return task("work", replicas, **fields)


def tiered(replicas: int = 5, core: int = 2) -> dict[str, Any]:
    return work(replicas, minReplicas=core, elastic={})


def submitted(
    *tasks: dict[str, Any], labels: dict[str, str] | None = None, **spec: Any
) -> QueuedCluster:
    cluster = QueuedCluster(queued(job(*tasks or (work(),), **spec), **(labels or {})))
    return cluster.settle()


def admitted(*tasks: dict[str, Any], **spec: Any) -> QueuedCluster:
    cluster = submitted(*tasks, **spec).admit(CORE)
    up(cluster)
    return cluster


def up(cluster: QueuedCluster) -> None:
    """All that can be made is made, and runs."""
    cluster.settle().run().settle()
