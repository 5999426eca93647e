"""All services of a version on one API server, each replaced as a release is rolled out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TypeVar

import requests

from di_api.crd.conversion import with_conversion
from di_kube.errors import NotFound
from di_kube.resources import CRDS, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from di_kube.wire import APPLY_PATCH
from tests.integration.conftest import ApiServer, install_crd, withdraw_conversion
from tests.integration.di_server import ServerProcess, running_server
from tests.integration.earlier import PRESENT, Version
from tests.integration.operator_process import operator_process
from tests.integration.operator_testbed import Testbed
from tests.integration.service_process import ServiceProcess
from tests.integration.webhook_process import (
    WebhookProcess,
    client_config,
    configurations,
    webhook_process,
)
from tests.waiting import wait_until_async

UNCHECKED = "tests/unchecked"
"""Label of the jobs that the API server asks no webhook about."""

_CONFIGURATIONS: Final = {"mutate": MUTATING_WEBHOOKS, "validate": VALIDATING_WEBHOOKS}

Process = TypeVar("Process")


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """A process of each service, of one version."""

    version: Version
    webhook: WebhookProcess
    server: ServerProcess
    operator: ServiceProcess


@dataclass(slots=True, kw_only=True)
class Installation:
    """The services that are in use; those of another version take their places one by one."""

    testbed: Testbed
    api_server: ApiServer
    folder: Path
    stack: AsyncExitStack
    """Ends all processes."""
    used: Services | None = None
    started: int = 0
    _asking: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def now(self) -> Services:
        """What is in use."""
        assert self.used is not None, "nothing is installed"
        return self.used

    @asynccontextmanager
    async def server(self) -> AsyncIterator[ServerProcess]:
        """The server that requests are sent to; it is not replaced meanwhile.

        A Service sends nothing to a server any more that is asked to end.
        """
        async with self._asking:
            yield self.now.server

    async def install(self, version: Version) -> None:
        """Bring up a version where nothing is."""
        self.stack.push_async_callback(self._withdraw)
        self.used = await self.start(version)
        await self.define(version)
        for kind in _CONFIGURATIONS:
            await self._configure(self.used.webhook, kind)

    async def start(self, version: Version) -> Services:
        """Start the services of a version, which nobody asks yet; the operator stands by."""
        self.started += 1
        folder = self.folder / str(self.started)
        folder.mkdir()
        kubeconfig, environment = self.api_server.kubeconfig, version.environment
        webhook, server, operator = await asyncio.gather(
            self._enter(
                webhook_process(folder, self.api_server.host_address, environment=environment)
            ),
            self._enter(running_server(folder, kubeconfig, environment)),
            self._enter(
                operator_process(
                    folder,
                    kubeconfig,
                    self.testbed.namespace,
                    environment=environment,
                    identity=f"{version.name}-{self.started}",
                    policy="fit",
                    scheduling_period="1",
                )
            ),
        )
        return Services(version=version, webhook=webhook, server=server, operator=operator)

    async def define(self, version: Version) -> None:
        """Install the definition of that version; the conversion stays where it is."""
        service = client_config(self.now.webhook, "/convert")
        await install_crd(self.testbed.kube_config, with_conversion(version.definition, service))

    async def replace_webhook(self, services: Services) -> None:
        """Have the API server ask another one, and end the one before; needs jobs to be written.

        The newer one judges what either has mutated: the earlier one would refuse fields that the
        newer one adds by default.
        """
        before, webhook = self.now.webhook, services.webhook
        self.used = replace(self.now, webhook=webhook)
        is_newer = services.version.name == PRESENT
        for kind in ("validate", "mutate") if is_newer else ("mutate", "validate"):
            await self._configure(webhook, kind)
            await _is_asked(webhook, kind)
        asked = {"conversion": {"webhook": {"clientConfig": client_config(webhook, "/convert")}}}
        name = services.version.definition["metadata"]["name"]
        await self.testbed.client.patch(CRDS, name, {"spec": asked})
        await _is_asked(webhook, "convert")
        assert await asyncio.to_thread(before.terminate) == 0

    async def replace_server(self, services: Services) -> None:
        """Send requests to another one, and end the one before."""
        async with self.server() as before:
            self.used = replace(self.now, server=services.server)
        assert await asyncio.to_thread(before.terminate) == 0

    async def replace_operator(self, services: Services) -> None:
        """End the one that leads."""
        before = self.now.operator
        self.used = replace(self.now, operator=services.operator)
        assert await asyncio.to_thread(before.terminate) == 0

    async def _enter(self, context: AbstractContextManager[Process]) -> Process:
        """Start beside the event loop: the fake kubelet lives in it."""
        process = await asyncio.to_thread(context.__enter__)
        self.stack.push_async_callback(asyncio.to_thread, context.__exit__, None, None, None)
        return process

    async def _configure(self, webhook: WebhookProcess, kind: str) -> None:
        name = self.testbed.namespace
        bodies = dict(zip(_CONFIGURATIONS, configurations(webhook, name, name), strict=True))
        for entry in bodies[kind]["webhooks"]:
            checked = {"key": UNCHECKED, "operator": "DoesNotExist"}
            entry["objectSelector"] = {"matchExpressions": [checked]}
        await self.testbed.client.patch(
            _CONFIGURATIONS[kind],
            *(name, bodies[kind]),
            content_type=APPLY_PATCH,
            field_manager="tests",
            force=True,
        )

    async def _withdraw(self) -> None:
        for resource in _CONFIGURATIONS.values():
            try:
                await self.testbed.client.delete(resource, self.testbed.namespace)
            except NotFound:
                continue
        await withdraw_conversion(self.testbed.kube_config)


async def _is_asked(webhook: WebhookProcess, kind: str) -> None:
    """Wait until the API server has asked a webhook."""

    async def is_asked() -> bool:
        url = f"{webhook.health}/metrics"
        text = (await asyncio.to_thread(requests.get, url, timeout=60)).text
        return f'webhook="{kind}"' in text

    await wait_until_async(is_asked, what=f"the API server to ask the new webhook to {kind}")
