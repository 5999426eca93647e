"""A machine for jobs of tiny programs: the control plane without di-server, and its kubelet."""

from __future__ import annotations

import asyncio
import os
import random
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from di_kube.resources import DIJOBS, PODS
from di_local.addresses import Names, take_network
from di_local.api.objects import Change, Object, Objects
from di_local.control_plane import StoredSources, control_plane
from di_local.hosts import FILE, Hosts
from di_local.images import Images
from di_local.pods.kubelet import Kubelet
from di_local.pods.life import Place
from di_local.pods.processes import Processes
from di_local.services import Services
from tests.waiting import DEADLINE

FINISHED = ("Succeeded", "Failed")


class Machine:
    """What runs, and all that was ever written."""

    def __init__(self, objects: Objects, kubelet: Kubelet, runs: Path) -> None:
        self.objects = objects
        self.kubelet = kubelet
        self.runs = runs
        self.folder = runs.parent
        self.changes: list[Change] = []
        self._news = asyncio.Event()
        objects.subscribe(self._take)

    def _take(self, change: Change) -> None:
        self.changes.append(change)
        self._news.set()

    def submit(self, job: Object) -> None:
        self.objects.create(DIJOBS, job)

    async def until(self, is_so: Callable[[], Any]) -> Any:
        """Return the result of `is_so` once it is true.

        It is called after each write, and every 20 ms, since what a program prints or leaves
        behind is no write.
        """
        async with asyncio.timeout(DEADLINE):
            while not (found := is_so()):
                self._news.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(0.02):
                        await self._news.wait()
            return found

    async def ended(self, name: str = "tiny") -> Object:
        """The job's status once it has succeeded or failed."""

        def status() -> Object | None:
            found: Object = self.job(name).get("status") or {}
            return found if found.get("phase") in FINISHED else None

        found: Object = await self.until(status)
        return found

    def job(self, name: str = "tiny") -> Object:
        return self.objects.get(DIJOBS, "default", name)

    def pod(self, name: str) -> Object | None:
        return next((pod for pod in self.pods() if pod["metadata"]["name"] == name), None)

    def pods(self) -> list[Object]:
        return self.objects.list(PODS)

    def is_ready(self, name: str) -> bool:
        conditions = ((self.pod(name) or {}).get("status") or {}).get("conditions") or ()
        return any((each["type"], each["status"]) == ("Ready", "True") for each in conditions)

    def said(self, pod: str) -> str:
        """The logs of all containers of a pod, by time."""
        found = sorted(self.runs.glob(f"{pod}/*/*.log"), key=lambda path: path.stat().st_mtime_ns)
        return "".join(path.read_text() for path in found)


@asynccontextmanager
async def machine(tmp_path: Path, *, job: str = "tiny", **place: Any) -> AsyncIterator[Machine]:
    network = take_network(random.Random())
    try:
        async with control_plane(network, logs=_no_logs) as plane:
            settings: dict[str, Any] = {
                "runtime": Processes(environ=os.environ, directory=tmp_path, images=Images()),
                "runs": tmp_path / "pods",
                "hosts": tmp_path / FILE,
                "given": {},
                "mark": "none",
                "replaced": Names(network, namespace="default", job=job).replaced,
                "sources": StoredSources(plane.objects, plane.tokens),
                "first_pause": 0.01,
            }
            Hosts(plane.objects, network, tmp_path / FILE)
            kubelet = Kubelet(plane.objects, Place(**(settings | place)), address=network.address)
            services = Services(plane.objects, network)
            try:
                yield Machine(plane.objects, kubelet, tmp_path / "pods")
            finally:
                await kubelet.end(at_once=True)
                await services.end()
    finally:
        network.listener.close()


def played(story: Callable[[Machine], Awaitable[None]]) -> Callable[[Path], None]:
    """A test that runs its coroutine with a machine of its own."""

    def test(tmp_path: Path) -> None:
        async def main() -> None:
            async with machine(tmp_path) as here, asyncio.timeout(DEADLINE):
                await story(here)

        asyncio.run(main())

    return test


async def _no_logs(*_: object) -> Any:
    raise AssertionError("nobody asks for logs")


def job(*tasks: Mapping[str, Any], name: str = "tiny", **spec: Any) -> Object:
    metadata = {"name": name, "namespace": "default"}
    return {"metadata": metadata, "spec": {"tasks": [*tasks], "backoffLimit": 0, **spec}}


def task(
    program: str | Sequence[str], kind: str = "learner", *, pod: Any = None, **fields: Any
) -> Object:
    """A task whose container runs a Python program, or a command."""
    command = [sys.executable, "-S", "-c", program] if isinstance(program, str) else [*program]
    given = {**(pod or {})}
    container = {"name": "di-container", "image": "none", "command": command}
    container |= given.pop("container", {})
    spec = {"terminationGracePeriodSeconds": 5, **given, "containers": [container]}
    return {"type": kind, "template": {"spec": spec}, **fields}


FOR_EVER = "import signal; signal.pause()"
