"""Runs the pods of a store as processes, as a cluster's kubelets run them in containers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import structlog

from di_kube.resources import CONFIGMAPS, PODS, SECRETS
from di_local.addresses import NoAddress
from di_local.api.objects import Change, Objects
from di_local.api.refused import Refused
from di_local.pods.life import Life, Place
from di_local.pods.status import NODE, unschedulable

Object = dict[str, Any]
log = structlog.get_logger(__name__)


class Kubelet:
    """All pods of a run.

    Args:
        address: returns the address of a pod by its name.
    """

    def __init__(self, objects: Objects, place: Place, *, address: Callable[[str], str]) -> None:
        self._objects = objects
        self._place = place
        self._address = address
        self._lives: dict[str, Life] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._stops: dict[str, asyncio.Task[None]] = {}
        self._ended = False
        objects.subscribe(self._on_change)

    @property
    def running(self) -> int:
        """Return the number of pods that have not ended."""
        return len(self._tasks)

    async def idle(self) -> None:
        """Wait until no pod runs any more."""
        while tasks := [*self._tasks.values(), *self._stops.values()]:
            await asyncio.wait(tasks)
            # Their callbacks run after their waiters.
            await asyncio.sleep(0)

    async def end(self, *, at_once: bool = False) -> None:
        """Delete all pods, `at_once` without their grace period, and return when none runs; later
        pods are not started.
        """
        self._ended = True
        for pod in self._objects.list(PODS):
            self._delete(pod, grace=0 if at_once else None)
        if at_once:
            for life in self._lives.values():
                life.kill()
        await self.idle()

    def log(self, pod: Object, container: str) -> Path | None:
        """Return the log of a container, by default of the first; None if there is none."""
        life, spec = self._lives.get(pod["metadata"]["uid"]), pod["spec"]
        every = [*spec["containers"], *(spec.get("initContainers") or ())]
        wanted = container or every[0]["name"]
        is_there = life is not None and wanted in [each["name"] for each in every]
        return life.log(wanted) if life is not None and is_there else None

    def is_over(self, pod: Object) -> bool:
        """Return whether a pod writes no more output."""
        return pod["metadata"]["uid"] not in self._tasks

    def _on_change(self, change: Change) -> None:
        if change.plural in (CONFIGMAPS.plural, SECRETS.plural):
            for life in self._lives.values():
                life.refresh()
        elif change.plural == PODS.plural:
            # Not within the write, because it causes another write.
            asyncio.get_running_loop().call_soon(self._follow, change)

    def _follow(self, change: Change) -> None:
        pod = change.after
        if pod is None:
            # Deleted without a grace period, or after it.
            gone = change.before or {}
            life = self._lives.get(gone["metadata"]["uid"])
            if life is not None:
                life.kill()
            # Another pod may wait for its address.
            for other in self._objects.list(PODS) if not self._ended else ():
                if other["metadata"]["uid"] not in self._lives:
                    self._begin(other)
            return
        uid = pod["metadata"]["uid"]
        if pod["metadata"].get("deletionTimestamp"):
            if uid not in self._stops:
                self._keep(self._stops, uid, self._stop(pod))
        elif uid not in self._lives and not self._ended:
            self._begin(pod)

    def _begin(self, pod: Object) -> None:
        uid, name = pod["metadata"]["uid"], pod["metadata"]["name"]
        try:
            address = self._address(name)
        except NoAddress as error:
            self._write_status(pod, unschedulable(str(error)))
            return
        life = Life(
            pod,
            self._place,
            address=address,
            tell=partial(self._write_status, pod),
        )
        self._lives[uid] = life
        # It has a node from now on: its deletion has to wait for its processes.
        with suppress(Refused):
            bound = {**pod, "spec": {**pod["spec"], "nodeName": NODE}}
            self._objects.replace(PODS, pod["metadata"]["namespace"], name, bound)
            self._keep(self._tasks, uid, life.run())

    def _keep(self, tasks: dict[str, asyncio.Task[None]], uid: str, work: Any) -> None:
        task = tasks[uid] = asyncio.get_running_loop().create_task(work)

        def ended(_: asyncio.Task[None]) -> None:
            tasks.pop(uid, None)
            if not task.cancelled() and (error := task.exception()):
                log.error("a pod's task failed", uid=uid, exc_info=error)

        task.add_done_callback(ended)

    async def _stop(self, pod: Object) -> None:
        uid = pod["metadata"]["uid"]
        life, task = self._lives.get(uid), self._tasks.get(uid)
        if life is not None and task is not None:
            await life.stop(pod["metadata"].get("deletionGracePeriodSeconds", 0))
            await asyncio.wait([task])
        self._delete(pod, grace=0)

    def _delete(self, pod: Object, *, grace: int | None) -> None:
        metadata = pod["metadata"]
        with suppress(Refused):
            self._objects.delete(
                PODS, metadata["namespace"], metadata["name"], uid=metadata["uid"], grace=grace
            )

    def _write_status(self, pod: Object, status: Object) -> None:
        metadata = pod["metadata"]
        with suppress(Refused):
            found = self._objects.get(PODS, metadata["namespace"], metadata["name"])
            if found["metadata"]["uid"] == metadata["uid"]:
                self._objects.replace(
                    PODS,
                    metadata["namespace"],
                    metadata["name"],
                    {**found, "status": status},
                    status=True,
                )
