"""Stored objects with UIDs and versions, and a kubelet moved by hand."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Self

from di_api.timestamps import format_time

Object = dict[str, Any]

START = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)


class KubeletModel:
    """The objects of a namespace by kind and name, and what the kubelet does with the pods."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Object] = {}
        self.deleted_pods: list[Object] = []
        self.now = START
        self.version = 1
        self.made = 0

    @property
    def pods(self) -> dict[str, Object]:
        """All pods by name."""
        return {name: body for (kind, name), body in self.objects.items() if kind == "Pod"}

    @property
    def uids(self) -> dict[str, str]:
        """The UIDs of all pods by name."""
        return {name: pod["metadata"]["uid"] for name, pod in self.pods.items()}

    @property
    def ending(self) -> list[str]:
        """The names of the pods that are being deleted."""
        return [name for name, pod in self.pods.items() if "deletionTimestamp" in pod["metadata"]]

    def put(self, body: Mapping[str, Any]) -> Object:
        """Store a new object, with UID and version."""
        stored = copy.deepcopy(dict(body))
        self.made += 1
        stored["metadata"]["uid"] = f"uid-{self.made}"
        if stored["kind"] == "Pod":
            stored.setdefault("status", {"phase": "Pending"})
        self.objects[stored["kind"], stored["metadata"]["name"]] = stored
        self._touch(stored)
        return stored

    def _touch(self, body: Object) -> None:
        self.version += 1
        body["metadata"]["resourceVersion"] = str(self.version)

    def delete_pod(self, name: str, *, force: bool = False) -> Self:
        """Delete as a user does: a running pod gets its grace period."""
        pod = self.objects["Pod", name]
        if force or pod["status"]["phase"] != "Running":
            self.deleted_pods.append(self.objects.pop(("Pod", name)))
            return self
        deadline = self.now + timedelta(seconds=30)
        pod["metadata"].setdefault("deletionTimestamp", format_time(deadline))
        pod["metadata"].setdefault("deletionGracePeriodSeconds", 30)
        self._touch(pod)
        return self

    def end(self, *pods: str) -> Self:
        """The kubelet confirms that deleted pods are gone; all pods unless named."""
        for name in pods or tuple(self.pods):
            assert self.objects["Pod", name]["metadata"]["deletionTimestamp"]
            del self.objects["Pod", name]
        return self

    def end_deleted(self) -> Self:
        """The kubelet ends all pods that are being deleted."""
        for name in self.ending:
            self.end(name)
        return self

    def run(self, *pods: str) -> Self:
        """Pods become ready; all of them unless named."""
        for name in pods or tuple(self.pods):
            statuses = self.pods[name]["status"].get("containerStatuses") or [{}]
            if "waiting" in statuses[0].get("state", {}) and "lastState" in statuses[0]:
                self.begin_again(name)
            elif "restartCount" in statuses[0]:
                self._set(name, {**_runs(), "containerStatuses": statuses})
            else:
                self._set(name, _runs())
        return self

    def succeed(self, *pods: str) -> Self:
        """Pods end with exit code 0; all of them unless named."""
        ended = {"exitCode": 0, "reason": "Completed", "finishedAt": format_time(self.now)}
        statuses = [{"name": "di-container", "state": {"terminated": ended}}]
        for name in pods or tuple(self.pods):
            self._set(name, {"phase": "Succeeded", "containerStatuses": statuses})
        return self

    def fail(self, *pods: str, code: int = 1, reason: str = "Error") -> Self:
        """A container of each of the pods ends with an error now."""
        ended = {"exitCode": code, "reason": reason, "finishedAt": format_time(self.now)}
        for name in pods:
            statuses = [{"name": "di-container", "state": {"terminated": dict(ended)}}]
            self._set(name, {"phase": "Failed", "containerStatuses": statuses})
        return self

    def crash(self, *pods: str, code: int = 1, reason: str = "Error") -> Self:
        """A container of each of the pods ends with an error; the kubelet pauses before it starts
        it again."""
        for name in pods:
            waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}
            self._go_on(name, waiting, code=code, reason=reason)
        return self

    def begin_again(self, *pods: str) -> Self:
        """The pause of the kubelet is over."""
        for name in pods:
            (container,) = self.pods[name]["status"]["containerStatuses"]
            restarts = container["restartCount"] + 1
            again = {**container, "restartCount": restarts, "state": {"running": {}}}
            self._set(name, {**_runs(), "containerStatuses": [again]})
        return self

    def restart(self, *pods: str, code: int = 1, reason: str = "Error") -> Self:
        """A container of each of the pods ends with an error, and runs again at once."""
        for name in pods:
            self.crash(name, code=code, reason=reason)
            self.begin_again(name)
        return self

    def _go_on(self, name: str, state: Object, *, code: int, reason: str) -> None:
        policy = self.pods[name]["spec"]["restartPolicy"]
        assert policy == "OnFailure", policy
        before = self.pods[name]["status"].get("containerStatuses") or [{}]
        ended = {"exitCode": code, "reason": reason, "finishedAt": format_time(self.now)}
        container = {
            "name": "di-container",
            "restartCount": before[0].get("restartCount", 0),
            "state": state,
            "lastState": {"terminated": ended},
        }
        self._set(name, {"phase": "Running", "containerStatuses": [container]})

    def lose(self, name: str, how: str) -> Self:
        """A pod ends in one of the ways that count differently."""
        target = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
        match how:
            case "failed":
                self.fail(name)
            case "evicted":
                self.evict(name)
            case "rejected":
                self.reject(name)
            case "failed by the node":
                self.fail(name, code=137)
                self.pods[name]["status"]["conditions"] = [target]
            case _:
                self.delete_pod(name, force=how == "gone")
        if how == "preempted":
            self.objects["Pod", name]["status"]["conditions"] = [target]
        return self

    def evict(self, name: str, *, own_limit: bool = False) -> Self:
        """The kubelet ends a pod, whose node lacks memory or which is over a limit of its own."""
        self.fail(name, code=137)
        status = self.pods[name]["status"]
        status |= {"reason": "Evicted", "message": "The node was low on resource: memory."}
        if own_limit:
            status["message"] = 'Usage of EmptyDir volume "s" exceeds the limit "50Mi".'
            return self
        target = {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"}
        status["conditions"] = [target]
        return self

    def reject(self, name: str, reason: str = "NodeAffinity") -> Self:
        """The kubelet refuses a pod before any container starts."""
        message = f"Pod was rejected: {reason}"
        times = {"startTime": format_time(self.now)}
        self._set(name, {"phase": "Failed", "reason": reason, "message": message, **times})
        return self

    def say(self, name: str, **status: Any) -> Self:
        """A pod's status is that of the scheduler or the kubelet."""
        self._set(name, {"phase": "Pending", **status})
        return self

    def _set(self, name: str, status: Object) -> None:
        self.objects["Pod", name]["status"] = status
        self._touch(self.objects["Pod", name])

    def refuse(self, name: str, words: str) -> Self:
        """The scheduler finds no node for a pod."""
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        conditions = [{**condition, "message": words}]
        self._set(name, {"phase": "Pending", "conditions": conditions})
        return self


def _runs() -> Object:
    """The status of a pod that is ready."""
    return {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
