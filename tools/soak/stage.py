"""Two operators, two webhooks and three di-servers before a real API server, and their ends.

The API server finds the webhooks through a Service, whose EndpointSlices are written here: no node
runs them. For the same reason the certificates that the operator makes are brought to the webhooks
from here, as a kubelet does, and clients of di-server choose among its replicas themselves.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import math
import os
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from di_certs.authority import is_issued_by
from di_certs.inspection import split_certificates
from di_kube.client import KubeClient
from di_kube.errors import NotFound
from di_kube.resources import (
    MUTATING_WEBHOOKS,
    SECRETS,
    SERVICES,
    VALIDATING_WEBHOOKS,
    Resource,
)
from tests.integration.conftest import ApiServer
from tests.integration.di_server import ServerProcess, running_server
from tests.integration.operator_process import operator_process
from tests.integration.service_process import ServiceProcess
from tests.integration.webhook_process import (
    WebhookProcess,
    configurations_calling,
    webhook_process,
)
from tests.waiting import wait_until_async
from tools.benchmarks.processes import family

ROUTING = "--enable-aggregator-routing=true"
"""Has an API server call webhooks at the endpoints of their Service itself, as without it only
a node's proxy would."""
WEBHOOK, SERVER, OPERATOR = "webhook", "server", "operator"
WEBHOOKS, SERVERS, OPERATORS = 2, 3, 2
SERVICE = "di-webhook"
SECRET = "di-webhook-tls"
_SLICES = Resource(
    group="discovery.k8s.io", version="v1", plural="endpointslices", kind="EndpointSlice"
)
_ENOUGH = "1000000"
# Until every client of a Service knows that one of its endpoints is gone.
_LEAVE_SECONDS = 2.0
_DRAIN_SECONDS = 3
_NOTICE_SECONDS = 1.0
_STOP_SECONDS = 30.0
_PROJECTION_SECONDS = 0.2
_CERTIFICATE = ("tls.key", "tls.crt")


@dataclass(slots=True)
class Kills:
    """Processes of a service that were killed."""

    spans: list[list[float]] = field(default_factory=list)
    """From when, until when clients were still sent there or waited for an answer from it."""

    def begin(self) -> None:
        """A process is killed now."""
        self.spans.append([time.monotonic(), math.inf])

    def end(self) -> None:
        """Nobody waits for it any more."""
        self.spans[-1][1] = time.monotonic()

    def explain(self, began: float, ended: float) -> bool:
        """Whether what happened between two moments can be a kill's work."""
        return any(first <= ended and began <= last for first, last in self.spans)


@dataclass(slots=True, kw_only=True)
class Replica:
    """A process of one service, and what ends it for good."""

    name: str
    running: ServiceProcess
    stack: AsyncExitStack

    def stop(self) -> int:
        """SIGTERM, and the exit code."""
        self.running.process.send_signal(signal.SIGTERM)
        return int(self.running.process.wait(_STOP_SECONDS))

    def kill(self) -> None:
        """SIGKILL to the process and all that it has started, as when a node loses power."""
        for pid in family(self.running.process.pid):
            os.kill(pid, signal.SIGKILL)
        self.running.process.wait(_STOP_SECONDS)


@dataclass(slots=True, kw_only=True)
class Stage:
    """What runs, and what clients know of it.

    Attributes:
        client: the administrator's.
        api_server: has to be one with ROUTING.
        release: namespace of the services.
        jobs: namespace of the jobs; no operator acts on them.
        folder: for logs and certificates.
        kills: by service.
        graceful: how many replicas have been ended by SIGTERM, by service.
        rotations: of the webhooks' authority.
    """

    client: KubeClient
    api_server: ApiServer
    release: str
    jobs: str
    folder: Path
    replicas: dict[str, list[Replica]] = field(default_factory=dict)
    kills: dict[str, Kills] = field(
        default_factory=lambda: {name: Kills() for name in (WEBHOOK, SERVER, OPERATOR)}
    )
    graceful: Counter[str] = field(default_factory=Counter)
    rotations: int = 0
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def servers(self) -> list[str]:
        """Base URLs of the di-servers that clients are sent to."""
        return [cast(ServerProcess, each.running).url for each in self.replicas[SERVER]]

    async def roll(self, service: str) -> None:
        """Replace the oldest replica as a Deployment does: the next is ready before it ends."""
        await self.start(service)
        await self._end(service, self.replicas[service].pop(0))

    async def kill(self, service: str) -> None:
        """Kill the oldest replica, and start another one afterwards."""
        replica = self.replicas[service][0]
        self.kills[service].begin()
        await asyncio.to_thread(replica.kill)
        if service != WEBHOOK:
            # It takes a node a moment to notice. The API server asks each webhook once, so that
            # all there would be to see is this pause.
            await asyncio.sleep(_NOTICE_SECONDS)
        self.replicas[service].remove(replica)
        await self._withdraw(service, replica)
        await asyncio.sleep(_LEAVE_SECONDS)
        self.kills[service].end()
        await replica.stack.aclose()
        await self.start(service)

    async def start(self, service: str) -> None:
        """Start one more replica; clients are sent to it once it is ready."""
        name = f"{service}-{next(self._numbers)}"
        folder = self.folder / name
        folder.mkdir(parents=True)
        stack = AsyncExitStack()
        context = await self._context(service, name, folder)
        running = await asyncio.to_thread(context.__enter__)
        stack.push_async_callback(asyncio.to_thread, context.__exit__, None, None, None)
        replica = Replica(name=name, running=running, stack=stack)
        if isinstance(running, WebhookProcess):
            await wait_until_async(lambda: running.ready() == 200, what=f"{name} to be ready")
            await self.client.create(_SLICES, self._slice(name, running), self.release)
        self.replicas.setdefault(service, []).append(replica)

    async def rotate(self) -> None:
        """Lose the authority, and wait until every webhook serves what its successor issued."""
        old = await self._secret(f"{SECRET}-ca")
        await self.client.delete(SECRETS, f"{SECRET}-ca", self.release)

        async def is_served() -> bool:
            new = await self._secret(f"{SECRET}-ca")
            issued = (await self._secret(SECRET)).get("tls.crt", b"")
            return new != old and "ca.crt" in new and is_issued_by(issued, new["ca.crt"])

        await wait_until_async(is_served, what="the certificate of a new authority")
        self.rotations += 1

    async def project(self) -> None:
        """Bring the Secret into the webhooks' folders for ever, as the kubelet does in pods."""
        while True:
            secret = await self._secret(SECRET)
            for replica in self.replicas.get(WEBHOOK, ()):
                assert isinstance(replica.running, WebhookProcess)
                _write(secret, replica.running.certificates)
            await asyncio.sleep(_PROJECTION_SECONDS)

    async def in_order(self) -> bool:
        """Whether there is a certificate, trusted by both configurations."""
        issued = (await self._secret(SECRET)).get("tls.crt", b"")
        for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
            for entry in (await self.client.get(resource, self.release))["webhooks"]:
                bundle = base64.b64decode(entry["clientConfig"].get("caBundle", ""))
                if not any(is_issued_by(issued, each) for each in split_certificates(bundle)):
                    return False
        return True

    async def _context(
        self, service: str, name: str, folder: Path
    ) -> AbstractContextManager[ServiceProcess]:
        kubeconfig = self.api_server.kubeconfig
        if service == WEBHOOK:
            _write(await self._secret(SECRET), folder / "certs")
            return webhook_process(folder, self.api_server.host_address, with_certificate=False)
        if service == SERVER:
            drain = str(_DRAIN_SECONDS)
            return running_server(
                folder, kubeconfig, rate=_ENOUGH, burst=_ENOUGH, drain_seconds=drain
            )
        return operator_process(
            folder,
            kubeconfig,
            self.release,
            environment={},
            identity=name,
            webhook_secret=SECRET,
            webhook_service=SERVICE,
            webhook_configuration=self.release,
        )

    async def _end(self, service: str, replica: Replica) -> None:
        await self._withdraw(service, replica)
        await asyncio.sleep(_LEAVE_SECONDS)
        code = await asyncio.to_thread(replica.stop)
        assert code == 0, f"{replica.name} ended with {code}"
        self.graceful[service] += 1
        await replica.stack.aclose()

    async def _withdraw(self, service: str, replica: Replica) -> None:
        if service == WEBHOOK:
            await self.client.delete(_SLICES, replica.name, self.release)

    async def _secret(self, name: str) -> dict[str, bytes]:
        try:
            body = await self.client.get(SECRETS, name, self.release)
        except NotFound:
            return {}
        return {key: base64.b64decode(value) for key, value in body["data"].items()}

    def _slice(self, name: str, webhook: WebhookProcess) -> dict[str, Any]:
        return {
            "metadata": {"name": name, "labels": {"kubernetes.io/service-name": SERVICE}},
            "addressType": "IPv4",
            "ports": [{"name": "https", "port": webhook.port, "protocol": "TCP"}],
            "endpoints": [{"addresses": [webhook.host], "conditions": {"ready": True}}],
        }


@asynccontextmanager
async def stage(
    client: KubeClient, api_server: ApiServer, release: str, jobs: str, folder: Path
) -> AsyncIterator[Stage]:
    """All services, ready, and jobs of one namespace admitted by the webhooks."""
    here = Stage(client=client, api_server=api_server, release=release, jobs=jobs, folder=folder)
    ports = [{"name": "https", "port": 443, "targetPort": "https"}]
    service = {"metadata": {"name": SERVICE}, "spec": {"ports": ports}}
    await client.create(SERVICES, service, release)
    for resource, body in _configurations(release, jobs):
        await client.create(resource, body)
    async with AsyncExitStack() as stack:
        for resource, _ in _configurations(release, jobs):
            stack.push_async_callback(client.delete, resource, release)
        stack.push_async_callback(_end_all, here)
        for _ in range(OPERATORS):
            await here.start(OPERATOR)
        await wait_until_async(here.in_order, what="the first certificates")
        for name, count in ((WEBHOOK, WEBHOOKS), (SERVER, SERVERS)):
            for _ in range(count):
                await here.start(name)
        projecting = asyncio.create_task(here.project())
        try:
            yield here
        finally:
            projecting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await projecting


async def _end_all(here: Stage) -> None:
    for replica in itertools.chain.from_iterable(here.replicas.values()):
        await replica.stack.aclose()


def _configurations(release: str, jobs: str) -> list[tuple[Resource, dict[str, Any]]]:
    """The webhooks, called through their Service; the operator adds whom to trust."""

    def service(path: str) -> dict[str, Any]:
        return {"service": {"namespace": release, "name": SERVICE, "path": path}}

    bodies = configurations_calling(service, release, jobs)
    return list(zip((MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS), bodies, strict=True))


def _write(secret: dict[str, bytes], folder: Path) -> None:
    """Each file at once, or a webhook might read half of it."""
    folder.mkdir(parents=True, exist_ok=True)
    for key in _CERTIFICATE:
        path = folder / key
        if key in secret and (not path.exists() or path.read_bytes() != secret[key]):
            temporary = path.with_suffix(".new")
            temporary.write_bytes(secret[key])
            temporary.replace(path)
