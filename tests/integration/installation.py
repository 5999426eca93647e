"""All services of a version on one API server, each replaced as a release is rolled out."""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager, AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import requests

from di_api.crd.conversion import with_conversion
from di_api.kube.errors import NotFound
from di_api.kube.resources import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from di_api.kube.wire import APPLY_PATCH
from tests.integration.conftest import ApiServer, install_crd, withdraw_conversion
from tests.integration.di_server import ServerProcess, running_server
from tests.integration.earlier import Version
from tests.integration.operator_field import Field
from tests.integration.operator_process import OperatorProcess, operator_process
from tests.integration.webhook_process import (
    WebhookProcess,
    client_config,
    configurations,
    webhook_process,
)
from tests.waiting import wait_until_async

UNCHECKED = "tests/unchecked"
"""Label of the jobs that the API server asks no webhook about."""

Process = TypeVar("Process")


@dataclass(slots=True, kw_only=True)
class Installation:
    """The services as they stand now; each is replaced while the one before still serves."""

    field: Field
    api_server: ApiServer
    folder: Path
    stack: AsyncExitStack
    """Ends all processes."""
    webhook: WebhookProcess | None = None
    server: ServerProcess | None = None
    operator: OperatorProcess | None = None
    started: int = 0

    async def install(self, version: Version) -> None:
        """Bring up a version where nothing is."""
        self.stack.push_async_callback(self._withdraw)
        self.webhook = await self._start_webhook(version)
        await self.define(version)
        await self._configure(self.webhook)
        await self.replace_server(version)
        await self.replace_operator(version)

    async def define(self, version: Version) -> None:
        """Install the definition; the conversion stays with the webhook there is."""
        assert self.webhook is not None
        service = client_config(self.webhook, "/convert")
        await install_crd(self.field.kube_config, with_conversion(version.definition, service))

    async def replace_webhook(self, version: Version) -> None:
        """Have the API server ask another one, and end the one before; needs jobs to be written."""
        before, webhook = self.webhook, await self._start_webhook(version)
        assert before is not None
        self.webhook = webhook
        await self._configure(webhook)
        await self.define(version)

        async def is_asked() -> bool:
            url = f"http://{webhook.host}:{webhook.health_port}/metrics"
            text = (await asyncio.to_thread(requests.get, url, timeout=10)).text
            return all(f'webhook="{kind}"' in text for kind in ("mutate", "validate", "convert"))

        await wait_until_async(is_asked, 60, what="the API server to ask the new webhook")
        assert await asyncio.to_thread(before.stop) == 0

    async def replace_server(self, version: Version) -> None:
        """Send requests to another one, and end the one before."""
        before = self.server
        environment = version.environment
        self.server = await self._enter(
            running_server(self.folder, self.api_server.kubeconfig, environment=environment)
        )
        if before is not None:
            assert await asyncio.to_thread(before.terminate) == 0

    async def replace_operator(self, version: Version) -> None:
        """Start another replica, and end the one that leads."""
        before = self.operator
        self.started += 1
        self.operator = await self._enter(
            operator_process(
                self.folder,
                self.api_server.kubeconfig,
                self.field.namespace,
                environment=version.environment,
                identity=f"{version.name}-{self.started}",
                policy="fit",
                scheduling_period="1",
            )
        )
        if before is not None:
            assert await asyncio.to_thread(before.terminate) == 0

    async def _start_webhook(self, version: Version) -> WebhookProcess:
        self.started += 1
        folder = self.folder / f"webhook-{self.started}"
        host, environment = self.api_server.host_address, version.environment
        return await self._enter(webhook_process(folder, host, environment=environment))

    async def _enter(self, context: AbstractContextManager[Process]) -> Process:
        """Start beside the event loop: the fake kubelet lives in it."""
        process = await asyncio.to_thread(context.__enter__)
        self.stack.push_async_callback(asyncio.to_thread, context.__exit__, None, None, None)
        return process

    async def _configure(self, webhook: WebhookProcess) -> None:
        name = self.field.namespace
        bodies = configurations(webhook, name, name)
        for resource, body in zip((MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS), bodies, strict=True):
            for entry in body["webhooks"]:
                checked = {"key": UNCHECKED, "operator": "DoesNotExist"}
                entry["objectSelector"] = {"matchExpressions": [checked]}
            await self.field.client.patch(
                resource, name, body, content_type=APPLY_PATCH, field_manager="tests", force=True
            )

    async def _withdraw(self) -> None:
        for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
            try:
                await self.field.client.delete(resource, self.field.namespace)
            except NotFound:
                continue
        await withdraw_conversion(self.field.kube_config)
