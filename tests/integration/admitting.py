"""The webhook registered for a namespace of a test."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from di_api import names
from di_api.kube.client import KubeClient
from di_api.kube.config import KubeConfig
from di_api.kube.errors import ApiError
from di_api.kube.resources import DIJOBS, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from tests.integration.webhook_process import VALIDATING, WebhookProcess, configurations
from tests.waiting import wait_until_async


def manifest(name: str = "cartpole", **spec: Any) -> dict[str, Any]:
    """The least a user has to write."""
    template = {"spec": {"containers": [{"name": "di-container", "image": "demo"}]}}
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {"name": name},
        "spec": {"tasks": [{"type": "learner", "template": template}], **spec},
    }


@contextmanager
def admitting(webhook: WebhookProcess, config: KubeConfig, namespace: str) -> Iterator[None]:
    """Have the API server ask the webhook about jobs of the namespace; it does when this begins."""
    mutating, validating = configurations(webhook, namespace, namespace)

    async def register(client: KubeClient) -> None:
        await client.create(MUTATING_WEBHOOKS, mutating)
        await client.create(VALIDATING_WEBHOOKS, validating)
        # The schema has nothing against this name; its pods' names would be too long.
        name = "p" * 60

        async def refuses() -> bool:
            try:
                await client.create(DIJOBS, manifest(name), namespace)
            except ApiError as error:
                if VALIDATING not in error.message:
                    raise
                return True
            await client.delete(DIJOBS, name, namespace)
            return False

        async def completes() -> bool:
            made = await client.create(DIJOBS, manifest("probe"), namespace)
            await client.delete(DIJOBS, "probe", namespace)
            return "name" in made["spec"]["tasks"][0]

        await wait_until_async(refuses, what="the API server to call the webhook")
        # It learns of the two kinds of webhooks by a watch each.
        await wait_until_async(completes, what="the API server to call the mutating one")

    async def withdraw(client: KubeClient) -> None:
        await client.delete(MUTATING_WEBHOOKS, namespace)
        await client.delete(VALIDATING_WEBHOOKS, namespace)

    call(config, register)
    yield
    call(config, withdraw)


def call(config: KubeConfig, work: Callable[[KubeClient], Awaitable[Any]]) -> Any:
    """Run a coroutine with a client of its own."""

    async def run() -> Any:
        async with KubeClient(config=config) as client:
            return await work(client)

    return asyncio.run(run())
