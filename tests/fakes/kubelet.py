"""A node without containers: pods bound to it run, become ready and end as annotations tell.

Tests of controllers need pods that live and die on cue, hundreds a second; a real kubelet starts
a few. Everything the API server decides (binding, grace periods, status rules) stays real.

| annotation on the pod | meaning |
|---|---|
| fake/ready-after | seconds from Running to Ready (default 0) |
| fake/run-for | seconds from Running to the end (default: never ends) |
| fake/exit-code | exit code of every container at the end (default 0) |
| fake/reason | reason in the containers' terminated state (default Completed or Error) |
| fake/stop-after | seconds a deleted pod takes to stop, at most its grace period (default 0) |

As a process of its own: `python -m tests.fakes.kubelet [KUBECONFIG]`.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import secrets
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

from di_kube.cache import DELETED, WatchCache
from di_kube.client import KubeClient
from di_kube.config import load_config
from di_kube.errors import AlreadyExists, ApiError, Conflict, NotFound, Throttled, Unavailable
from di_kube.resources import LEASES, NODES, PODS
from di_kube.wire import Object
from di_operator.builders.pinning import node_of
from tests.waiting import wait_until_async

READY_AFTER = "fake/ready-after"
RUN_FOR = "fake/run-for"
EXIT_CODE = "fake/exit-code"
REASON = "fake/reason"
STOP_AFTER = "fake/stop-after"
NODE = "fake-node"
"""The name of the node when the kubelet is a process of its own."""

_LEASE_NAMESPACE = "kube-node-lease"
# Controllers mark the pods of a node unready when its lease is older than some 10 s.
_HEARTBEAT = 2.0
# A scheduler that runs needs some 10 ms; binding at once would only cost it conflicts. When it
# falls behind its own rate limit, we help.
_SCHEDULER_TIME = 0.5
_SCHEDULER = "default-scheduler"


class FakeKubelet:
    """One fake node; use it as an async context manager.

    Args:
        client: an open client; give it to nobody else when the load is measured.
        namespace: whose pods to run; None means all.
        node: name of the node; a fresh one by default.
        heart: another client for the node's heartbeat; behind the statuses of thousands of pods
            it would come too late, and Kubernetes would take the node for lost.
        extended: further resources that the node says it has, such as GPUs.
        taint: key of a NoSchedule taint: only pods that tolerate it come here.
        others: names of further nodes that are there and Ready; only `run_on` brings pods there.
        labels: of the nodes, beside that of their name.
    """

    def __init__(
        self,
        client: KubeClient,
        *,
        namespace: str | None = None,
        node: str | None = None,
        heart: KubeClient | None = None,
        extended: Mapping[str, str] | None = None,
        taint: str | None = None,
        others: Sequence[str] = (),
        labels: Mapping[str, str] = {},
    ) -> None:
        self._labels = dict(labels)
        self._extended = dict(extended or {})
        self._client = client
        self._heart = heart or client
        self._taints = [{"key": taint, "effect": "NoSchedule"}] if taint else []
        self.node = node or f"fake-{secrets.token_hex(3)}"
        self._others = tuple(others)
        self.cache = WatchCache(
            client,
            PODS,
            namespace=namespace,
            transform=_transform,
            clock=time.monotonic,
            rng=random.Random(),
        )
        self.cache.subscribe(self._on_event)
        self._lives: dict[str, asyncio.Task[None]] = {}
        self._reports: set[asyncio.Task[None]] = set()
        self._leaving: set[str] = set()
        self._bound: set[str] = set()
        self._daemons: list[asyncio.Task[None]] = []
        self._addresses = itertools.count(1)

    async def __aenter__(self) -> Self:
        await self._register(self.node, self._taints)
        for other in self._others:
            await self._register(other, [{"key": "fake/other", "effect": "NoSchedule"}])
        self._daemons = [asyncio.create_task(self.cache.run()), asyncio.create_task(self._beat())]
        await self.cache.synced.wait()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        tasks = [*self._daemons, *self._lives.values(), *self._reports]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for node in (self.node, *self._others):
            with suppress(NotFound):
                await self._client.delete(NODES, node)

    def vanish(self) -> None:
        """Lose the node: no heartbeat, no answer to anything. Its Node object goes at the end."""
        for task in (*self._daemons, *self._lives.values(), *self._reports):
            task.cancel()

    async def finish(
        self,
        namespace: str,
        name: str,
        exit_code: int = 0,
        reason: str | None = None,
        *,
        only: str | None = None,
    ) -> None:
        """End a running pod now, whatever its annotations say; `only` that of this UID."""
        pod = await self._client.get(PODS, name, namespace)
        uid = pod["metadata"]["uid"]
        if only not in (None, uid):
            return
        # One that is deleted meanwhile goes all the same.
        life = None if uid in self._leaving else self._lives.pop(uid, None)
        if life is not None:
            life.cancel()
        await self._write_status(pod, _ended(pod, exit_code, reason))

    async def make_ready(self, namespace: str, name: str) -> None:
        """Wait until a pod runs, and report it as ready, whatever its annotations say."""

        async def running() -> Object | None:
            pod = await self._client.get(PODS, name, namespace)
            return pod if _phase(pod) == "Running" else None

        pod = await wait_until_async(running, what=f"{name} to run")
        assert pod is not None
        await self._write_status(pod, _running(pod, pod["status"]["podIP"], ready=True))

    async def run_on(self, node: str, namespace: str, name: str, *, said: str) -> None:
        """Run an unbound pod on another node, after a first init container that
        ended well with a last word. Nothing there stops it: its grace period has to be 0.
        """
        pod = await self._client.get(PODS, name, namespace)
        await self._bind_to(node, pod)
        ended = {"terminated": {**_end(0, None), "message": said}}
        check = _containers({"spec": {"containers": pod["spec"]["initContainers"][:1]}}, ended)
        status = _running(pod, self._next_address(), ready=True)
        await self._write_status(pod, {**status, "initContainerStatuses": check})

    async def restart(self, namespace: str, name: str, exit_code: int = 1) -> None:
        """End the containers of a running pod now, and start them again in it."""
        pod = await self._client.get(PODS, name, namespace)
        await self._write_status(pod, _restarted(pod, exit_code))

    def _on_event(self, kind: str, pod: Object) -> None:
        uid = pod["metadata"]["uid"]
        if kind == DELETED:
            self._leaving.discard(uid)
            self._bound.discard(uid)
            life = self._lives.pop(uid, None)
            if life is not None:
                life.cancel()
        elif pod["metadata"].get("deletionTimestamp"):
            if uid not in self._leaving and self._is_ours(pod):
                self._leaving.add(uid)
                self._begin(uid, self._leave(pod))
        elif _phase(pod) not in ("Pending", "Running"):
            return
        elif not pod["spec"].get("nodeName"):
            if uid not in self._lives and self._may_run(pod):
                self._begin(uid, self._bind(pod))
        elif self._is_ours(pod) and uid not in self._bound:
            self._bound.add(uid)
            self._begin(uid, self._live(pod))
        elif self._is_ours(pod) and _is_taken_for_lost(pod):
            self._start(self._report_ready(pod))

    def _may_run(self, pod: Object) -> bool:
        """Whether the node has all kinds of what the pod asks for, and is not ruled out by label or
        taint, nor the pod one that only a scheduler can place. Pods of another scheduler are that
        one's alone.
        """
        affinity = pod["spec"].get("affinity") or {}
        if pod["spec"].get("schedulingGates") or "podAffinity" in affinity:
            return False
        if node_of(pod["spec"]):
            # Whether it goes there, and nowhere else, the scheduler alone is to say.
            return False
        if pod["spec"].get("schedulerName", _SCHEDULER) != _SCHEDULER:
            return False
        tolerated = {each.get("key") for each in pod["spec"].get("tolerations") or ()}
        if not tolerated.issuperset(taint["key"] for taint in self._taints):
            return False
        selector = pod["spec"].get("nodeSelector") or {}
        labels = {"kubernetes.io/hostname": self.node} | self._labels
        if any(selector.get(key, value) != value for key, value in labels.items()):
            return False
        asked = {
            kind
            for container in pod["spec"]["containers"]
            for kind in (container.get("resources") or {}).get("requests") or {}
        }
        # The scheduler alone counts devices, and sees that of a group all fit or none goes.
        is_counted = "schedulingGroup" in pod["spec"]
        return asked <= {"cpu", "memory", "ephemeral-storage"} and not is_counted

    def _is_ours(self, pod: Object) -> bool:
        return bool(pod["spec"].get("nodeName") == self.node)

    def _begin(self, uid: str, story: Any) -> None:
        earlier = self._lives.get(uid)
        if earlier is not None:
            earlier.cancel()
        self._lives[uid] = asyncio.create_task(story)

    def _start(self, story: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(story)
        self._reports.add(task)
        task.add_done_callback(self._reports.discard)

    async def _report_ready(self, pod: Object) -> None:
        """Report again a pod that the node controller marked unready: a busy machine renews the
        node's lease late, and a kubelet that lives reports its pods again."""
        conditions = [
            {**each, "status": "True"} if each["type"] == "Ready" else each
            for each in pod["status"]["conditions"]
        ]
        await self._write_status(pod, {"conditions": conditions})

    async def _live(self, pod: Object) -> None:
        """From its binding to the end; a pod met half-way goes on from there."""
        if _phase(pod) == "Pending":
            delay = _seconds(pod, READY_AFTER) or 0.0
            address = self._next_address()
            await self._write_status(pod, _running(pod, address, ready=delay == 0))
            if delay:
                await asyncio.sleep(delay)
                await self._write_status(pod, _running(pod, address, ready=True))
        run_for = _seconds(pod, RUN_FOR)
        if run_for is not None:
            await asyncio.sleep(run_for)
            notes = _annotations(pod)
            ended = _ended(pod, int(notes.get(EXIT_CODE, "0")), notes.get(REASON))
            await self._write_status(pod, ended)

    async def _leave(self, pod: Object) -> None:
        """A deleted pod: its containers stop, then the object goes."""
        metadata = pod["metadata"]
        grace = metadata.get("deletionGracePeriodSeconds") or 0
        await asyncio.sleep(min(_seconds(pod, STOP_AFTER) or 0.0, grace))
        await _persist(
            lambda: self._client.delete(
                PODS,
                metadata["name"],
                metadata["namespace"],
                uid=metadata["uid"],
                grace_period_seconds=0,
            )
        )

    async def _bind(self, pod: Object) -> None:
        """Bind the pod ourselves where no scheduler has done it in good time."""
        await asyncio.sleep(_SCHEDULER_TIME)
        await self._bind_to(self.node, pod)

    async def _bind_to(self, node: str, pod: Object) -> None:
        metadata = pod["metadata"]
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": metadata["name"], "uid": metadata["uid"]},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        await _persist(
            lambda: self._client.create(PODS, body, metadata["namespace"], subresource="binding")
        )

    async def _write_status(self, pod: Object, status: Object) -> None:
        metadata = pod["metadata"]
        # The uid makes the patch fail on a later pod of the same name.
        patch = {"metadata": {"uid": metadata["uid"]}, "status": status}
        await _persist(
            lambda: self._client.patch(
                PODS, metadata["name"], patch, metadata["namespace"], subresource="status"
            )
        )

    def _next_address(self) -> str:
        number = next(self._addresses)
        return f"10.245.{number // 250 % 250}.{number % 250 + 1}"

    async def _register(self, name: str, taints: Sequence[Mapping[str, str]]) -> None:
        room = {"cpu": "100k", "memory": "100Ti", "pods": "100k", "ephemeral-storage": "100Ti"}
        room |= self._extended
        now = _now()
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "message": "fake",
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }
        node = {
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name} | self._labels},
            "spec": {"taints": [*taints]},
            "status": {
                "capacity": room,
                "allocatable": room,
                "conditions": [ready],
                "addresses": [{"type": "InternalIP", "address": "10.245.255.1"}],
            },
        }
        with suppress(AlreadyExists):
            await self._client.create(NODES, node)
        lease = {
            "metadata": {"name": name, "namespace": _LEASE_NAMESPACE},
            "spec": {"holderIdentity": name, "leaseDurationSeconds": 10}
            | {"renewTime": _now_micro()},
        }
        with suppress(AlreadyExists):
            await self._client.create(LEASES, lease)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(_HEARTBEAT)
            renewal = {"spec": {"renewTime": _now_micro()}}
            for node in (self.node, *self._others):
                with suppress(ApiError):
                    await self._heart.patch(LEASES, node, renewal, _LEASE_NAMESPACE)


async def _persist(write: Callable[[], Awaitable[Object]]) -> None:
    """Write until the server has it; a pod that is gone or changed hands needs it no more."""
    while True:
        try:
            await write()
        except (NotFound, Conflict):
            return
        except (Unavailable, Throttled) as error:
            await asyncio.sleep(error.retry_after or 0.2)
        else:
            return


def _is_taken_for_lost(pod: Object) -> bool:
    """Whether a pod is unready of which all containers are ready."""
    status = pod["status"]
    containers = status.get("containerStatuses") or ()
    return (
        status.get("phase") == "Running"
        and bool(containers)
        and all(each["ready"] for each in containers)
        and any(
            each["type"] == "Ready" and each["status"] != "True"
            for each in status.get("conditions") or ()
        )
    )


def _transform(pod: Object) -> Object:
    pod["metadata"].pop("managedFields", None)
    return pod


def _phase(pod: Object) -> str:
    phase: str = pod.get("status", {}).get("phase", "Pending")
    return phase


def _annotations(pod: Object) -> dict[str, str]:
    return pod["metadata"].get("annotations") or {}


def _seconds(pod: Object, annotation: str) -> float | None:
    text = _annotations(pod).get(annotation)
    return None if text is None else float(text.removesuffix("s"))


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _now_micro() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _conditions(*, ready: bool, reason: str | None = None) -> list[Object]:
    now = _now()
    states = {"PodScheduled": True, "Initialized": True, "ContainersReady": ready, "Ready": ready}
    return [
        {"type": kind, "status": str(state), "lastTransitionTime": now}
        | ({"reason": reason} if reason and not state else {})
        for kind, state in states.items()
    ]


def _containers(pod: Object, state: Object, *, ready: bool = False) -> list[Object]:
    return [
        {
            "name": container["name"],
            "image": container.get("image", ""),
            "imageID": "",
            "ready": ready,
            "started": ready,
            "restartCount": 0,
            "state": state,
        }
        for container in pod["spec"]["containers"]
    ]


def _running(pod: Object, address: str, *, ready: bool) -> Object:
    now = _now()
    return {
        "phase": "Running",
        "startTime": now,
        "hostIP": "10.245.255.1",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": _conditions(ready=ready, reason="ContainersNotReady"),
        "containerStatuses": _containers(pod, {"running": {"startedAt": now}}, ready=ready),
    }


def _restarted(pod: Object, exit_code: int) -> Object:
    assert pod["spec"]["restartPolicy"] == "OnFailure", pod["metadata"]["name"]
    again = {
        "state": {"running": {"startedAt": _now()}},
        "lastState": {"terminated": _end(exit_code, None)},
    }
    return {
        "containerStatuses": [
            {**each, **again, "restartCount": each["restartCount"] + 1}
            for each in pod["status"]["containerStatuses"]
        ]
    }


def _end(exit_code: int, reason: str | None) -> Object:
    now = _now()
    return {
        "exitCode": exit_code,
        "reason": reason or ("Completed" if exit_code == 0 else "Error"),
        "startedAt": now,
        "finishedAt": now,
    }


def _ended(pod: Object, exit_code: int, reason: str | None) -> Object:
    ended = _end(exit_code, reason)
    return {
        "phase": "Failed" if exit_code else "Succeeded",
        "conditions": _conditions(ready=False, reason="PodFailed" if exit_code else "PodCompleted"),
        "containerStatuses": _containers(pod, {"terminated": ended}, ready=False),
    }


async def _serve(kubeconfig: str | None) -> None:
    config = load_config(kubeconfig)
    async with (
        KubeClient(config=config) as client,
        KubeClient(config=config, connections=1) as heart,
        FakeKubelet(client, node=NODE, heart=heart),
    ):
        print("fake kubelet runs", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(_serve(sys.argv[1] if len(sys.argv) > 1 else None))
